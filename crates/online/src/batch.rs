//! Transactions on their way to the checker.
//!
//! Made by whoever parses, perhaps on another thread; columns, so that a batch of thousands costs a handful of allocations.

use crate::Datum;
use anomalist_history::{OpKind, Outcome, SnapshotSet, Stamps};
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
    pub session: Datum,
    /// Its own name, if it has one; no two have the same.
    pub id: Option<Datum>,
    /// What became of it. Committed transactions are checked, and those of unknown outcome once somebody has seen their work.
    pub outcome: Outcome,
    /// Start and commit.
    pub stamps: Stamps,
    /// Its number in its session, where the recording has one: one more than that of the transaction before it.
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
    One(Datum),
    /// A list that was read: a range of the batch's elements.
    List(u32, u32),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub kind: OpKind,
    pub key: Datum,
    pub cell: Cell,
}

/// What keys hold before any write.
#[derive(Clone, Debug, Default)]
pub struct Initial {
    /// `None`: not said here. `Some(None)`: nothing; a read that no write explains is wrong.
    pub default: Option<Option<Datum>>,
    /// Keys with a value of their own; a list is a range of the batch's elements.
    pub keys: Vec<(Datum, Cell)>,
}

/// Some transactions, in order of arrival.
///
/// ```
/// use anomalist_history::{OpKind, Outcome, Stamps, Timestamp};
/// use anomalist_online::{Batch, Cell, Datum, Head, Origin};
/// let mut batch = Batch::default();
/// let at = |physical| Timestamp { physical, logical: 0 };
/// batch.op(OpKind::Write, Datum::int(1), Cell::One(Datum::int(5)));
/// batch.transaction(Head {
///     session: Datum::int(0),
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
    pub(crate) elements: Vec<Datum>,
    pub(crate) texts: FxHashMap<Datum, Box<str>>,
    /// With the number of transactions before each.
    pub(crate) initial: Vec<(usize, Initial)>,
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
    }

    /// Adds an operation to the transaction that [`Batch::transaction`] will end.
    #[inline]
    pub fn op(&mut self, kind: OpKind, key: Datum, cell: Cell) {
        self.ops.push(Op { kind, key, cell });
    }

    /// Stores the elements of a list.
    pub fn list(&mut self, elements: impl IntoIterator<Item = Datum>) -> Cell {
        let start = self.elements.len() as u32;
        self.elements.extend(elements);
        Cell::List(start, self.elements.len() as u32)
    }

    /// The values of an operation.
    pub(crate) fn values<'a>(&'a self, cell: &'a Cell) -> &'a [Datum] {
        match cell {
            Cell::Unknown => &[],
            Cell::One(value) => std::slice::from_ref(value),
            Cell::List(start, end) => &self.elements[*start as usize..*end as usize],
        }
    }

    /// Remembers how to write a [`Datum`] that is not an integer.
    #[inline]
    pub fn text(&mut self, datum: Datum, text: &str) {
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

    /// Says what keys hold before any write, to transactions after this point of the batch.
    pub fn initial(&mut self, initial: Initial) {
        self.initial.push((self.heads.len(), initial));
    }
}
