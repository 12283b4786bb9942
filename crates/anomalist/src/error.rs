//! Why there is no answer.

use anomalist_format::ReadError;
use anomalist_history::{TooLarge, inert};
use anomalist_jepsen::datatypes::LowerError;
use anomalist_level::Judgement;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Operations of a datatype of Jepsen's could not be made into transactions.
    #[error("{}: {source}", inert(file))]
    Datatype {
        /// The file.
        file: String,
        /// Why.
        source: LowerError,
    },
    /// The operations of a file are not transactions, and no read shows their data type.
    #[error("{}: these operations are not transactions, and no read shows their data type", inert(.0))]
    Unrecognised(String),
    /// The file has one history per key of `jepsen.independent`:
    /// [`History::read_all`](crate::History::read_all) returns them.
    #[error("{}: {count} independent systems; read them one by one", inert(file))]
    Several {
        /// The file.
        file: String,
        /// How many.
        count: usize,
    },
    /// Jepsen's own binary format.
    #[error("{}: test.jepsen is Jepsen's own binary format, which is not read; use history.edn", inert(.0))]
    Binary(String),
    /// More of something than ids can number.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// A verdict by timestamps was asked for, and the history has none.
    #[error("the history has no timestamps")]
    NoTimestamps,
    /// Some transaction of a recorder has not ended.
    #[error("{0} transactions have not ended")]
    Unended(usize),
    /// A proof did not verify, or two algorithms disagree: an error of this library, not of the history.
    #[error("internal error: {what}")]
    Internal {
        /// What is wrong with it.
        what: String,
        /// The answer.
        judgement: Box<Judgement>,
    },
}
