//! What the server itself says about snapshots and the order of commits, for checking by timestamps while
//! it runs.
//!
//! Sessions use [`begin`] and [`commit`] in place of the connection's own: they also ask what the
//! transaction sees ([`Seen`]) and under which number it writes. A [`Collector`] reads the order of commits
//! from the server's log, with the same numbers. Together that is a transaction with its timestamps.
//!
//! | | PostgreSQL | MariaDB |
//! |---|---|---|
//! | what it sees | the set of `pg_current_snapshot()` | the place in the log of a `CONSISTENT SNAPSHOT` |
//! | its number | its transaction id | the sequence number of its GTID |
//! | order of commits | places in the log, by logical decoding | places in the binary log |
//!
//! A place would be wrong for PostgreSQL's snapshots, because transactions become visible in another order
//! than they are logged; the set is exact. MariaDB sees what is logged up to a place. Both need a level at
//! which a transaction has one snapshot ([`suits`]). A transaction that wrote nothing has no number and no
//! place.

#[cfg(feature = "mysql")]
mod mariadb;
#[cfg(feature = "postgres")]
mod postgres;

use crate::{Connection, Error, Family, Isolation, Kind, Target};
pub use anomalist_client::collect::{Collector, Commit, Seen};

/// How a transaction ended, and the number it wrote under.
///
/// A transaction of unknown outcome has a number in PostgreSQL: if it turns up among the commits, it was
/// committed.
#[derive(Debug)]
pub struct Ended {
    /// Its number, if it wrote anything and the server said it.
    pub number: Option<u64>,
    /// What the server said.
    pub result: Result<(), Error>,
}

/// Whether transactions at this level of this database have one snapshot that can be asked for.
pub fn suits(session: &dyn Connection, isolation: &Isolation) -> bool {
    match (session.product().family, session.product().name.as_str()) {
        (Family::Postgres, _) => ["REPEATABLE READ", "SERIALIZABLE"].contains(&isolation.name()),
        // InnoDB takes no snapshot at the beginning at other levels.
        (Family::Mysql, "MariaDB") => isolation.name().starts_with("REPEATABLE READ"),
        _ => false,
    }
}

fn unsupported(what: &str) -> Error {
    Error::new(Kind::Unsupported, what.to_owned()).with_fate(crate::Fate::Aborted)
}

/// Begins a transaction and asks what it sees.
pub fn begin(session: &mut dyn Connection, isolation: &Isolation) -> Result<Seen, Error> {
    if !suits(session, isolation) {
        return Err(unsupported("this database does not report what a transaction at this level sees"));
    }
    match session.product().family {
        #[cfg(feature = "postgres")]
        Family::Postgres => postgres::begin(session, isolation),
        #[cfg(feature = "mysql")]
        Family::Mysql => mariadb::begin(session, isolation),
        _ => Err(unsupported("this build has no driver for it")),
    }
}

/// Commits, and asks for the number of the transaction.
pub fn commit(session: &mut dyn Connection) -> Ended {
    match session.product().family {
        #[cfg(feature = "postgres")]
        Family::Postgres => postgres::commit(session),
        #[cfg(feature = "mysql")]
        Family::Mysql => mariadb::commit(session),
        _ => Ended { number: None, result: session.commit() },
    }
}

/// A collector of all commits from now on.
///
/// `lasting`: it goes on after a restart of the server. What that takes stays on the server if we are
/// killed, so it is for servers that are thrown away.
pub fn collector(target: &Target, lasting: bool) -> Result<Box<dyn Collector>, Error> {
    match target.family() {
        #[cfg(feature = "postgres")]
        Family::Postgres => Ok(Box::new(postgres::Slot::new(target, lasting)?)),
        #[cfg(feature = "mysql")]
        Family::Mysql => Ok(Box::new(mariadb::Binlog::new(target)?)),
        _ => Err(unsupported("this database does not report the order of commits")),
    }
}
