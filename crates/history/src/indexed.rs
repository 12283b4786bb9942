//! A history and its index as one value, so that no index is ever paired with another history.

use crate::{History, Index};
use std::num::NonZeroUsize;

/// A history with its resolved reads: what checkers take.
///
/// ```
/// use anomalist_history::{Builder, Indexed, OpId, OpKind, Source, TxnId};
/// let mut b = Builder::new();
/// let one = b.int(1);
/// let (key, session) = (b.key(one), b.session(one));
/// let writer = b.transaction(session);
/// b.op(writer, OpKind::Write, key, one);
/// let reader = b.transaction(session);
/// b.op(reader, OpKind::Read, key, one);
/// let history = b.finish().unwrap();
/// let indexed = Indexed::new(&history, 1.try_into().unwrap());
/// assert_eq!(indexed.index().source(OpId(1)), Source::From(TxnId(0)));
/// assert_eq!(indexed.index().writers(key), [TxnId(0)]);
/// ```
#[derive(Debug)]
pub struct Indexed<'h> {
    history: &'h History,
    index: Index,
}

impl<'h> Indexed<'h> {
    /// Resolves every read. Linear in the size of the history; same result for any number of threads.
    pub fn new(history: &'h History, threads: NonZeroUsize) -> Indexed<'h> {
        Indexed { history, index: Index::build(history, threads) }
    }

    /// The history.
    pub fn history(&self) -> &'h History {
        self.history
    }

    /// What its reads resolve to.
    pub fn index(&self) -> &Index {
        &self.index
    }
}
