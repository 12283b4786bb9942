//! What a server says about snapshots and the order of commits, for checking by timestamps while it runs.
//!
//! A session reports what each transaction saw and its number ([`Stamp`]); a [`Collector`] reads the order
//! of commits from the server's log, with the same numbers. Together that is a transaction with its
//! timestamps. How the databases are asked is in the crate `anomalist-databases`.

use crate::EngineError;
use anomalist_history::SnapshotSet;

/// What a transaction sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The transactions of a set.
    Set {
        /// Their numbers.
        set: SnapshotSet,
        /// When the server that said so was started, by its clock in microseconds. A server that crashed
        /// gives numbers again that were not yet on disk.
        era: u64,
    },
    /// All that committed up to a place in the log.
    UpTo(u64),
}

/// A commit in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The number of the transaction.
    pub number: u64,
    /// Its place: larger is later, and no two have the same.
    pub place: u64,
    /// When it committed, by the server's clock in microseconds. Zero where numbers are never given again.
    pub at: u64,
    /// When the server that reported it was started, by the same clock. It may have been started since.
    pub era: u64,
}

/// What a transaction saw, and the number it wrote under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// What it saw.
    pub seen: Seen,
    /// The server's number for it, if it wrote anything.
    pub number: Option<u64>,
}

/// Reads the order of commits from the server.
pub trait Collector: Send {
    /// The commits since the last call that succeeded, in order. Reconnects if the connection was lost; a
    /// failure can be tried again.
    fn poll(&mut self) -> Result<Vec<Commit>, EngineError>;

    /// Removes what it left on the server. Dropping does so too, without a word if it fails.
    fn finish(self: Box<Self>) -> Result<(), EngineError>;
}
