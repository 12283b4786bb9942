//! What a history is made of: operations, outcomes, timestamps, intervals and initial values.

use crate::ids::KeyId;
use crate::value::Value;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// What became of a transaction, as far as its client knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Outcome {
    /// It took effect.
    Committed,
    /// It certainly did not take effect.
    Aborted,
    /// The client did not learn the outcome: the transaction may or may not have taken effect.
    Indeterminate,
}

/// What an operation does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum OpKind {
    /// Returned a value.
    Read,
    /// Replaced the value of a key.
    Write,
    /// Added an element at the end of a list.
    Append,
}

/// One operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Op {
    /// What it does.
    pub kind: OpKind,
    /// The key it touches.
    pub key: KeyId,
    /// The value read or written; an append holds the element, a read of a list key the list.
    pub value: Value,
}

/// Kind and key of an operation in four bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpHead(u32);

impl OpHead {
    const KIND_SHIFT: u32 = 29;
    /// One more than the largest [`KeyId`] that fits.
    pub const KEY_LIMIT: u32 = 1 << Self::KIND_SHIFT;

    /// Packs; the caller keeps keys under [`OpHead::KEY_LIMIT`] (the builder checks it).
    #[inline]
    pub fn new(kind: OpKind, key: KeyId) -> OpHead {
        OpHead((kind as u32) << Self::KIND_SHIFT | key.0)
    }

    /// What the operation does.
    #[inline]
    pub fn kind(self) -> OpKind {
        match self.0 >> Self::KIND_SHIFT {
            0 => OpKind::Read,
            1 => OpKind::Write,
            _ => OpKind::Append,
        }
    }

    /// True for a read.
    #[inline]
    pub fn is_read(self) -> bool {
        self.0 < Self::KEY_LIMIT
    }

    /// The key it touches.
    #[inline]
    pub fn key(self) -> KeyId {
        KeyId(self.0 & (Self::KEY_LIMIT - 1))
    }
}

/// A hybrid clock reading, ordered by physical part, then logical part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Default)]
pub struct Timestamp {
    /// Physical part.
    pub physical: i64,
    /// Logical part.
    pub logical: i64,
}

impl Timestamp {
    /// Stands for one that was not recorded; before all others.
    pub const UNKNOWN: Timestamp = Timestamp { physical: i64::MIN, logical: i64::MIN };
}

/// When the database says a transaction took its snapshot and committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stamps {
    /// Start (snapshot) timestamp, or [`Timestamp::UNKNOWN`].
    pub start: Timestamp,
    /// Commit timestamp.
    pub commit: Timestamp,
}

impl Stamps {
    /// Of a transaction of which only the commit was recorded. That is enough for serializability.
    pub const fn commit_only(commit: Timestamp) -> Stamps {
        Stamps { start: Timestamp::UNKNOWN, commit }
    }

    /// Whether the start was recorded.
    pub fn has_start(self) -> bool {
        self.start != Timestamp::UNKNOWN
    }
}

/// When the client began a transaction and learnt its outcome, in units of one common clock (or event
/// numbers).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval {
    /// The client issued it.
    pub invoked: u64,
    /// The client learnt that it was over; `None` if it never did.
    pub completed: Option<u64>,
}

/// A fault that was injected while a history was recorded, and is no transaction of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outage {
    /// What was done.
    pub name: Box<str>,
    /// To what; may be empty.
    pub detail: Box<str>,
    /// When, on the clock of the transactions' intervals.
    pub interval: Interval,
}

/// What the numbers of [`Interval`]s count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// Nanoseconds.
    Nanoseconds,
    /// Microseconds.
    Microseconds,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
    /// Events, in the order in which they were recorded.
    Events,
}

impl Clock {
    /// Every one.
    pub const ALL: [Clock; 5] =
        [Clock::Nanoseconds, Clock::Microseconds, Clock::Milliseconds, Clock::Seconds, Clock::Events];

    /// The word for it: `ns`, `us`, `ms`, `s`, `events`.
    pub const fn name(self) -> &'static str {
        match self {
            Clock::Nanoseconds => "ns",
            Clock::Microseconds => "us",
            Clock::Milliseconds => "ms",
            Clock::Seconds => "s",
            Clock::Events => "events",
        }
    }
}

/// Free-form facts about one transaction; the entry `level` declares the isolation level it ran at.
pub type Metadata = BTreeMap<Box<str>, Box<str>>;

/// The value of a key before its first write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Initial {
    /// For every key without an entry in `keys`; `None`: such a key has no initial value, and a read that
    /// no write explains is thin air.
    pub default: Option<Value>,
    /// Keys with an initial value of their own.
    pub keys: FxHashMap<KeyId, Value>,
}

impl Initial {
    /// The initial value of a key.
    #[inline]
    pub fn of(&self, key: KeyId) -> Option<Value> {
        if self.keys.is_empty() { self.default } else { self.keys.get(&key).copied().or(self.default) }
    }
}
