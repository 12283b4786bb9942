//! What can go wrong on purpose: networks, backends, processes.
//!
//! A [`Proxy`] is the network, [`Tracked`] knows the sessions of a run, and a [`Site`] carries out [`Planned`] faults.

mod proxy;
mod sessions;
mod site;

pub use proxy::{CommitCut, Direction, Proxy};
pub use sessions::{Sessions, Tracked};
pub use site::{Fault, FaultError, Needs, Planned, Site, plan};

use crate::{Connection, Error, Family};

/// Ends another session of the server, as an administrator would.
pub fn terminate(administrator: &mut dyn Connection, backend: u64) -> Result<(), Error> {
    match administrator.product().family {
        Family::Postgres => administrator.run(&format!("SELECT pg_terminate_backend({backend})")).map(drop),
        Family::Mysql => administrator.run(&format!("KILL CONNECTION {backend}")).map(drop),
        Family::Sqlite => Ok(()),
    }
}
