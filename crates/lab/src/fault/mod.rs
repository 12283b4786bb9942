//! What can go wrong on purpose: networks, backends, processes.
//!
//! A [`Proxy`] is the network, [`Tracked`] knows the sessions of a run, and a [`Site`] carries out
//! [`Planned`] faults.

mod proxy;
mod sessions;
mod site;
mod source;

pub use proxy::{CommitCut, Direction, Proxy};
pub use sessions::{Sessions, Tracked};
pub use site::{Fault, FaultError, Needs, Planned, Site, plan};
pub use source::SiteFaults;

use anomalist_databases::{Connection, Error, Family, Value};

/// Ends another session of the server, as an administrator would.
pub fn terminate(administrator: &mut dyn Connection, backend: u64) -> Result<(), Error> {
    match administrator.product().family {
        Family::Postgres => administrator.run(&format!("SELECT pg_terminate_backend({backend})")).map(drop),
        Family::Mysql => administrator.run(&format!("KILL CONNECTION {backend}")).map(drop),
        Family::Sqlite => Ok(()),
    }
}

/// Whether a session is encrypted: then no proxy on the way can tell a COMMIT from anything else.
pub fn is_encrypted(session: &mut dyn Connection) -> Result<bool, Error> {
    let replies = match session.product().family {
        Family::Postgres => session.run("SELECT ssl::int FROM pg_stat_ssl WHERE pid = pg_backend_pid()")?,
        Family::Mysql => session.run("SHOW SESSION STATUS LIKE 'Ssl_cipher'")?,
        Family::Sqlite => return Ok(false),
    };
    let state = replies.first().and_then(|reply| reply.rows.first()).and_then(|row| row.last());
    Ok(state.is_some_and(|value| match value {
        Value::Int(ssl) => *ssl == 1,
        value => value.as_text().is_some_and(|cipher| !cipher.is_empty() && cipher != "0"),
    }))
}
