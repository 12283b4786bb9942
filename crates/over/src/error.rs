//! What can go wrong before a client is served.

use anomalist_databases::Error as DatabaseError;

/// Why there are no weak reads over a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL names no PostgreSQL that is reached by TCP, or no database.
    #[error("{0}: weak reads need PostgreSQL at a host and port, and the name of a database")]
    Target(String),
    /// The server refused something that is needed.
    #[error("{what}: {error}")]
    Server {
        /// What was to be done.
        what: &'static str,
        /// What the server said.
        error: Box<DatabaseError>,
    },
    /// Another process has installed its triggers and views, and is still there.
    #[error("another process shows weak reads over this database already")]
    InUse,
    /// No thread, or no socket.
    #[error("cannot listen: {0}")]
    Listen(#[from] std::io::Error),
}

/// For `map_err`: the server refused this.
pub(crate) fn refused(what: &'static str) -> impl Fn(DatabaseError) -> Error {
    move |error| Error::Server { what, error: Box::new(error) }
}
