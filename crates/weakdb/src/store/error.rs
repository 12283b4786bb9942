//! What can go wrong.

use anomalist_level::Level;
use std::sync::Arc;

/// Why a transaction was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Conflict {
    /// Another transaction committed a write of a key that this one writes, after this one's snapshot.
    #[error("another transaction wrote {0} after this one's snapshot")]
    Write(Arc<str>),
    /// What it read has been overwritten, and it writes: it has no place in the serial order.
    #[error("what this transaction read has been overwritten, and it writes")]
    Read,
    /// A key that it read for update has been overwritten.
    #[error("another transaction wrote {0}, which this one read for update")]
    ForUpdate(Arc<str>),
    /// It has read the newest version of a key, which its earlier reads do not allow.
    #[error("another transaction wrote {0} after what this one has read")]
    Newest(Arc<str>),
    /// By chance, to test retry loops ([`Options::abort`](super::Options::abort)).
    #[error("refused at random, as asked for")]
    Injected,
}

/// An error of the store.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The transaction could not be placed. It has been rolled back, and may be tried again.
    #[error("could not serialize access: {0}")]
    Serialization(Conflict),
    /// No transaction is open in this session.
    #[error("no transaction is open")]
    NoTransaction,
    /// A transaction is open already in this session.
    #[error("a transaction is already open")]
    AlreadyOpen,
    /// With the serial schedule, another transaction stayed open for too long.
    #[error("another transaction is open, and the schedule is serial")]
    Busy,
    /// A mark of another transaction, or one that has been rolled back past.
    #[error("no such savepoint")]
    NoSavepoint,
    /// Not a level that the store can show.
    #[error("weakdb cannot show {}: it knows read-committed, read-atomic, causal, prefix, snapshot-isolation and serializable", .0.name())]
    Level(Level),
}
