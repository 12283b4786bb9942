//! Where histories are written to. Stands in for the crate's own until the two meet.

use crate::WriteError;
use isolde_history::History;
use std::path::PathBuf;

/// Where a history goes.
pub(crate) enum Sink {
    /// One stream.
    Stream(Box<dyn std::io::Write + Send>),
    /// A folder, for formats of several files.
    Directory(PathBuf),
}

/// Writes a history, whole or in parts.
pub(crate) trait HistoryWriter {
    /// Writes the transactions of `batch`, in the order of their positions, after those written before.
    fn append(&mut self, batch: &History) -> Result<(), WriteError>;
    /// Ends the file.
    fn finish(self: Box<Self>) -> Result<(), WriteError>;
}

/// The stream of a format that is one file.
pub(crate) fn stream(sink: Sink) -> Result<Box<dyn std::io::Write + Send>, WriteError> {
    match sink {
        Sink::Stream(stream) => Ok(stream),
        Sink::Directory(path) => Err(WriteError::Io(std::io::Error::new(
            std::io::ErrorKind::IsADirectory,
            format!("{}: the format is one file, not a folder", path.display()),
        ))),
    }
}

/// The transactions of a history in the order of their positions.
pub(crate) fn in_order(history: &History) -> Vec<isolde_history::TxnId> {
    let mut txns: Vec<_> = history.txns().collect();
    txns.sort_unstable_by_key(|&t| history.position(t));
    txns
}
