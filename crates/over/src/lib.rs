//! Weak reads over a real PostgreSQL.
//!
//! The server executes everything: definitions, functions, triggers, types, COPY. A proxy passes the
//! protocol through, and only what plain reads see is weakened: the store of `anomalist-weakdb` chooses for
//! every row one of the committed versions that the isolation level allows. Triggers copy every version
//! into a log (`install.rs`), views of the tables' names show the chosen ones, and a plain read runs with
//! the schema of views first in its search path (`session.rs`).
//!
//! Why a history is within the level. The store's commit order is the server's: commits are decided one
//! after another (`gate.rs`), in [`Options::ordered`](anomalist_weakdb::Options::ordered). A plain read sees
//! for each row that it can depend on what the store has chosen, or its own write (`reads.rs` says which
//! rows those are). Statements that run on the tables see the newest versions; the store hears of that, and
//! refuses the commit (SQLSTATE 40001) where the level does not allow it. Rows that a writing statement
//! looked at without changing them are taken to be read when it ends.
//!
//! Costs: two more round trips for a plain read within a transaction, one for a commit, a row of the log
//! for each row that is written. A read of a whole table costs the number of its rows that were ever
//! changed.

mod catalogue;
mod error;
mod gate;
mod install;
mod reads;
mod session;
mod shared;
mod statement;
mod work;

pub use error::Error;
pub use shared::Counts;
pub use statement::Reason;

use anomalist_databases::{Database, Family, Target};
use anomalist_proxy::{Limits, Observer, PassThrough, Proxy, Service};
use anomalist_weakdb::Store;
use error::refused;
use session::Weakened;
use shared::Shared;
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

/// Weak reads over one database of a server, until it is stopped.
pub struct Over {
    proxy: Option<Proxy>,
    shared: Arc<Shared>,
}

/// Weakens the sessions of one database; others pass.
struct Sessions {
    shared: Arc<Shared>,
    database: String,
}

impl Service for Sessions {
    fn session(&self, options: &BTreeMap<String, String>) -> Box<dyn Observer> {
        let database = options.get("database").or_else(|| options.get("user"));
        let replicates =
            options.get("replication").is_some_and(|r| !matches!(r.as_str(), "false" | "off" | "0"));
        if database == Some(&self.database) && !replicates {
            Box::new(Weakened::new(self.shared.clone()))
        } else {
            Box::new(PassThrough)
        }
    }
}

fn parts(target: &Target) -> Result<(String, String), Error> {
    let unfit = || Error::Target(target.to_string());
    let (host, port) = target.address().filter(|_| target.family() == Family::Postgres).ok_or_else(unfit)?;
    let database = target.database().or(target.user()).ok_or_else(unfit)?;
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    Ok((format!("{host}:{port}"), database.to_owned()))
}

impl Over {
    /// Installs triggers and views in the database, by the user of the URL, who must own the tables or be a
    /// superuser, and serves clients at the listener. The store must keep to the order of commits.
    ///
    /// # Errors
    /// As [`Error`] lists.
    pub fn start(target: &Target, store: Arc<Store>, listener: TcpListener) -> Result<Over, Error> {
        debug_assert!(store.options().ordered, "the tables have the version that committed last");
        let (upstream, database) = parts(target)?;
        let shared = Arc::new(Shared::install(target, store)?);
        let service = Sessions { shared: shared.clone(), database };
        match Proxy::start(listener, &upstream, Box::new(service), Limits::default()) {
            Ok(proxy) => Ok(Over { proxy: Some(proxy), shared }),
            Err(error) => {
                shared.remove()?;
                Err(error.into())
            }
        }
    }

    /// Where clients connect.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.proxy.as_ref().map(Proxy::address)
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.shared.store
    }

    /// How many reads were weakened so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }

    /// Closes all connections, and takes triggers and views out of the database again.
    ///
    /// # Errors
    /// If the server refuses.
    pub fn stop(mut self) -> Result<(), Error> {
        drop(self.proxy.take());
        self.shared.remove()
    }
}

/// Takes out of a database what a process has left that was killed.
///
/// # Errors
/// If a process is still at work there, or the server refuses.
pub fn remove(target: &Target) -> Result<(), Error> {
    let mut admin = target.connect().map_err(refused("cannot connect"))?;
    install::claim(&mut *admin)?;
    install::remove(&mut *admin)
}
