//! What can go wrong before or after a recording.

use anomalist_databases::Error as DatabaseError;
use anomalist_format::WriteError;

/// Why there is no recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL names no PostgreSQL that is reached by TCP, or no database.
    #[error("{0}: recording needs PostgreSQL at a host and port, and the name of a database")]
    Target(String),
    /// The server is too old.
    #[error("the server is PostgreSQL {0}; recording needs 13 or later")]
    Version(String),
    /// The server does not log what is needed.
    #[error(
        "wal_level is {0}; recording needs wal_level = logical (in postgresql.conf, then restart the server)"
    )]
    WalLevel(String),
    /// Transactions that were running when the recording began do not end.
    #[error("transactions that began before the recording have not ended after {0} s; end them first")]
    StillRunning(u64),
    /// The server refused something that is needed.
    #[error("{what}: {error}")]
    Server {
        /// What was to be done.
        what: &'static str,
        /// What the server said.
        error: Box<DatabaseError>,
    },
    /// No thread, or no socket.
    #[error("cannot listen: {0}")]
    Listen(#[from] std::io::Error),
    /// The history could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A thread of the recording panicked.
    #[error("a thread of the recording has ended by itself")]
    Thread,
}

/// For `map_err`: the server refused this.
pub(crate) fn refused(what: &'static str) -> impl Fn(DatabaseError) -> Error {
    move |error| Error::Server { what, error: Box::new(error) }
}
