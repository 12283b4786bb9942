//! Throw-away servers: real databases from the binaries on this machine, on loopback ports, in a folder of
//! their own.
//!
//! A [`Server`] has one node, or three for a cluster. Nodes can be stopped, killed, paused and started
//! again while sessions run; everything takes `&self`, so one thread can make trouble while others work.
//! Processes get a signal from the kernel when this process dies, however it dies. Folders are removed on
//! drop; a program that is ended by a signal calls [`remove_all`](anomalist_client::remains::remove_all)
//! first.
//!
//! Data is not synchronised to disk: a killed process loses nothing by that, only a machine without power
//! would.
//!
//! All of this needs Linux: signals on the death of the parent, `/proc`, names of sockets outside the file
//! system. Elsewhere [`Server::start`] fails with [`ServerError::NeedsLinux`].

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(all(target_os = "linux", feature = "mysql"))]
mod galera;
#[cfg(all(target_os = "linux", feature = "mysql"))]
mod mariadb;
#[cfg(all(target_os = "linux", feature = "postgres"))]
mod postgres;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod running;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::{Server, program};
#[cfg(target_os = "linux")]
pub use running::{Server, program};

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A database that can be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// One PostgreSQL server.
    Postgres,
    /// One MariaDB server.
    Mariadb,
    /// Three MariaDB nodes that replicate synchronously.
    Galera,
}

impl Engine {
    /// All of them.
    pub const ALL: [Engine; 3] = [Engine::Postgres, Engine::Mariadb, Engine::Galera];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Postgres => "postgres",
            Engine::Mariadb => "mariadb",
            Engine::Galera => "galera",
        }
    }
}

/// How to start a server, beyond the usual.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Settings, as the configuration file (PostgreSQL) or the command line (MariaDB, without hyphens) has
    /// them.
    pub settings: Vec<(String, String)>,
    /// Certificate and key, in PEM files, for TLS. They are copied.
    pub tls: Option<(PathBuf, PathBuf)>,
}

/// Why a server does not run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// A program is missing.
    #[error("{program} is not on this machine; Debian has it in the package {package}")]
    Missing {
        /// The program.
        program: &'static str,
        /// The package that has it.
        package: &'static str,
    },
    /// Files or processes could not be made.
    #[error("cannot start a server: {0}")]
    Io(#[from] io::Error),
    /// A program failed.
    #[error("{what} failed:\n{log}")]
    Failed {
        /// Which one.
        what: String,
        /// The last lines of its log.
        log: String,
    },
    /// This system has no throw-away servers.
    #[error("throw-away servers need Linux")]
    NeedsLinux,
    /// The engine was left out of this build.
    #[error("this build of anomalist has no {0}")]
    LeftOut(&'static str),
}
