//! A laboratory for databases: throw-away servers, and faults on the way to them.
//!
//! [`server::Server`] runs PostgreSQL, MariaDB or a Galera cluster from the programs installed on this
//! machine; [`fault`] has a proxy that cuts, delays and holds connections, and plans of faults that a
//! [`fault::SiteFaults`] carries out during a run. The proxy and the plans work on every system, servers on
//! Linux only: elsewhere starting one fails with
//! [`ServerError::NeedsLinux`](server::ServerError::NeedsLinux).
//!
//! ```
//! use anomalist_lab::fault::{Fault, plan};
//! use std::time::Duration;
//!
//! let (every, total) = (Duration::from_secs(1), Duration::from_secs(10));
//! let planned = plan(&[Fault::Cut, Fault::Delay], 1, every, total, 7);
//! assert_eq!(planned, plan(&[Fault::Cut, Fault::Delay], 1, every, total, 7), "same seed, same plan");
//! ```

#![cfg_attr(
    not(all(feature = "postgres", feature = "mysql")),
    allow(
        dead_code,
        unreachable_code,
        unused_imports,
        unused_variables,
        reason = "what a left-out server needs"
    )
)]

pub mod fault;
pub mod server;
