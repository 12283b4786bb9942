//! Why a run ended without an answer.

use anomalist_format::ReadError;
use serde::{Deserialize, Serialize};

/// Why a run ended without an answer. Every worker learns of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The input cannot be read, or is no history.
    #[error("{0}")]
    Input(String),
    /// The caller ended it.
    #[error("interrupted")]
    Stopped,
    /// Something that several workers do not check yet.
    #[error("{0}")]
    Unsupported(String),
    /// A part does not fit into memory.
    #[error("a part of the history needs about {needed} bytes of memory, and {limit} are allowed")]
    Memory {
        /// Bytes that would be needed.
        needed: u64,
        /// Bytes that are allowed.
        limit: u64,
    },
    /// Files for what does not fit into memory cannot be written or read.
    #[error("{0}")]
    Scratch(String),
    /// Another process is gone, silent, or not what it should be.
    #[error("{0}")]
    Lost(String),
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Error {
        match error {
            ReadError::Cancelled => Error::Stopped,
            error => Error::Input(error.to_string()),
        }
    }
}
