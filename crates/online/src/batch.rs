//! Transactions on their way to the checker.
//!
//! The parser makes them, perhaps on another thread. They are stored in columns, so that a batch of
//! thousands costs a handful of allocations.

use crate::Key128;
use anomalist_history::{AtomKind, Facts, OpKind, Outcome, SnapshotSet, Stamps, TransactionSink, Untimed};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Where a transaction came from, for reports about faults. The checker only passes it on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Origin {
    /// Which source.
    pub source: u32,
    /// Line in it, from 1.
    pub line: u64,
}

/// A transaction without its operations.
#[derive(Clone, Debug)]
pub struct Head {
    /// The session's name.
    pub session: Key128,
    /// Its own name, if it has one; no two have the same.
    pub id: Option<Key128>,
    /// What became of it. Committed transactions are checked, and those of unknown outcome once another
    /// transaction has seen their writes.
    pub outcome: Outcome,
    /// Start and commit.
    pub stamps: Stamps,
    /// Its number in its session, where the recording has one: one more than that of the transaction before
    /// it.
    pub number: Option<u64>,
    /// The id by which sets name it.
    pub set_id: Option<u64>,
    /// What it saw, where a set says it rather than its start.
    pub set: Option<Box<SnapshotSet>>,
    /// Where it came from.
    pub origin: Origin,
}

/// What an operation read or wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cell {
    /// The result of a read that was not recorded.
    Unknown,
    /// One value.
    One(Key128),
    /// A list that was read: a range of the batch's elements.
    List(u32, u32),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub kind: OpKind,
    pub key: Key128,
    pub cell: Cell,
}

/// What keys hold before any write.
#[derive(Clone, Debug, Default)]
pub struct Initial {
    /// `None`: not said here. `Some(None)`: nothing; a read that no write explains is wrong.
    pub default: Option<Option<Key128>>,
    /// Keys with a value of their own; a list is a range of the batch's elements.
    pub keys: Vec<(Key128, Cell)>,
}

/// Some transactions, in order of arrival.
///
/// ```
/// use anomalist_history::{OpKind, Outcome, Stamps, Timestamp};
/// use anomalist_online::{Batch, Cell, Key128, Head, Origin};
/// let mut batch = Batch::default();
/// let at = |physical| Timestamp { physical, logical: 0 };
/// batch.op(OpKind::Write, Key128::int(1), Cell::One(Key128::int(5)));
/// batch.transaction(Head {
///     session: Key128::int(0),
///     id: None,
///     outcome: Outcome::Committed,
///     stamps: Stamps { start: at(3), commit: at(4) },
///     number: None,
///     set_id: None,
///     set: None,
///     origin: Origin::default(),
/// });
/// assert_eq!(batch.len(), 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub(crate) heads: Vec<(Head, Range<u32>)>,
    pub(crate) ops: Vec<Op>,
    pub(crate) elements: Vec<Key128>,
    pub(crate) texts: FxHashMap<Key128, Box<str>>,
    /// With the number of transactions before each.
    pub(crate) initial: Vec<(usize, Initial)>,
    /// Where transactions come from that are written to it as a sink.
    source: u32,
    /// The session of the transaction that has begun, if it is written to as a sink.
    session: Option<Key128>,
}

impl Batch {
    /// Number of transactions.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Forgets everything but its memory.
    pub fn clear(&mut self) {
        self.heads.clear();
        self.ops.clear();
        self.elements.clear();
        self.texts.clear();
        self.initial.clear();
        // A batch of an uncommon size must not keep its memory for ever.
        const MANY: usize = 1 << 14;
        self.heads.shrink_to(MANY);
        self.ops.shrink_to(4 * MANY);
        self.elements.shrink_to(4 * MANY);
        self.texts.shrink_to(MANY);
    }

    /// Adds an operation to the transaction that [`Batch::transaction`] will end.
    #[inline]
    pub fn op(&mut self, kind: OpKind, key: Key128, cell: Cell) {
        self.ops.push(Op { kind, key, cell });
    }

    /// Stores the elements of a list.
    pub fn list(&mut self, elements: impl IntoIterator<Item = Key128>) -> Cell {
        let start = self.elements.len() as u32;
        self.elements.extend(elements);
        Cell::List(start, self.elements.len() as u32)
    }

    /// The values of an operation.
    pub(crate) fn values<'a>(&'a self, cell: &'a Cell) -> &'a [Key128] {
        match cell {
            Cell::Unknown => &[],
            Cell::One(value) => std::slice::from_ref(value),
            Cell::List(start, end) => &self.elements[*start as usize..*end as usize],
        }
    }

    /// Remembers how to write a [`Key128`] that is not an integer.
    #[inline]
    pub fn text(&mut self, datum: Key128, text: &str) {
        self.texts.entry(datum).or_insert_with(|| text.into());
    }

    /// Ends a transaction: the operations added since the last one are its own.
    pub fn transaction(&mut self, head: Head) {
        let start = self.heads.last().map_or(0, |(_, ops)| ops.end);
        self.heads.push((head, start..self.ops.len() as u32));
    }

    /// Forgets the operations added since the last transaction.
    pub fn discard(&mut self) {
        self.ops.truncate(self.heads.last().map_or(0, |(_, ops)| ops.end as usize));
    }

    /// Transactions that are written to it as a [`TransactionSink`] come from this source.
    pub fn set_source(&mut self, source: u32) {
        self.source = source;
    }

    /// Says what keys hold before any write, to transactions after this point of the batch.
    pub fn initial(&mut self, initial: Initial) {
        self.initial.push((self.heads.len(), initial));
    }
}

impl TransactionSink for Batch {
    type Name = Key128;
    type Value = Cell;

    const NIL: Key128 = Key128::NIL;
    const UNKNOWN: Cell = Cell::Unknown;

    #[inline]
    fn name_int(&mut self, value: i64) -> Key128 {
        Key128::int(value)
    }

    #[inline]
    fn name_atom(&mut self, kind: AtomKind, text: &str) -> Key128 {
        let name = Key128::text(kind, text);
        self.text(name, text);
        name
    }

    #[inline]
    fn one(name: Key128) -> Cell {
        Cell::One(name)
    }

    fn list_of(&mut self, elements: &[Key128]) -> Cell {
        self.list(elements.iter().copied())
    }

    fn initially(&mut self, default: Option<Option<Key128>>, keys: impl IntoIterator<Item = (Key128, Cell)>) {
        self.initial(Initial { default, keys: keys.into_iter().collect() });
    }

    fn begin(&mut self, session: Key128) {
        self.discard();
        self.session = Some(session);
    }

    #[inline]
    fn operation(&mut self, kind: OpKind, key: Key128, value: Cell) {
        self.op(kind, key, value);
    }

    /// Ends a transaction. Real time is the clients' and is not judged here.
    fn end(&mut self, facts: Facts<Key128>) -> Result<(), Untimed> {
        let Some(stamps) = facts.stamps else {
            self.discard();
            return Err(Untimed);
        };
        let session = self.session.take().unwrap_or(Key128::NIL);
        self.transaction(Head {
            session,
            id: facts.id,
            outcome: facts.outcome,
            stamps,
            number: facts.number,
            set_id: facts.xid,
            set: facts.snapshot.map(Box::new),
            origin: Origin { source: self.source, line: facts.line },
        });
        Ok(())
    }
}
