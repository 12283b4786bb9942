//! What is kept about one key: its versions by commit, the reads of it by what they see, and where the rest
//! of both is.

use crate::live_state::Txn;
use crate::ring::{Bounded, Ring};
use crate::{Key128, Location};
use anomalist_history::Timestamp;

/// A transaction in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot(pub u32);

/// What a transaction did to the key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    Write(Key128),
    Append(Box<[Key128]>),
    /// Left it without a defined content.
    Undefined,
}

impl Effect {
    /// The value, if it is nothing but a written one.
    pub fn written(&self) -> Option<Key128> {
        match self {
            Effect::Write(value) => Some(*value),
            _ => None,
        }
    }
}

/// A version of the key, in the order of [`anomalist_timestamp::Place`].
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub commit: Timestamp,
    /// No writer that a scan looks for starts earlier: the start, or the least timestamp where a set says
    /// what was seen.
    pub low: Timestamp,
    /// The id by which sets name the writer; the greatest number if there is none, so that bounds stay
    /// bounds.
    pub set_id: u64,
    pub txn: Slot,
    pub effect: Effect,
}

impl Version {
    pub fn of(txn: &Txn, slot: Slot, effect: Effect) -> Version {
        let low = if txn.set.is_some() { BEGIN } else { txn.start };
        Version { commit: txn.commit, low, set_id: txn.set_id.unwrap_or(u64::MAX), txn: slot, effect }
    }
}

/// What a read returned of others' work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Seen {
    One(Key128),
    List(Box<[Key128]>),
}

/// What is thought of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Verdict {
    Right = 0,
    /// EXT.
    Wrong = 1,
    /// TIE: right by one of several versions.
    Tied = 2,
    /// Undecided: it is right if some transaction of unknown outcome committed, there are too many orders
    /// to try, or it is of a written value that was appended to.
    Open = 3,
}

impl Verdict {
    pub fn of(right: bool) -> Verdict {
        if right { Verdict::Right } else { Verdict::Wrong }
    }
}

/// An external read of the key.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    /// The moment it reads at: start, or commit for serializability.
    pub at: Timestamp,
    pub txn: Slot,
    /// Rank in its transaction.
    pub op: u32,
    /// When the verdict last changed, in milliseconds; wraps.
    pub changed: u32,
    pub seen: Seen,
    /// Where a set says what it sees: ids from here on are not in it.
    pub xmax: u64,
    pub verdict: Verdict,
    /// The verdict that was reported.
    pub reported: Verdict,
    /// A different verdict is to be reported when it settles.
    pub pending: bool,
    /// How often it went from right to wrong or back.
    pub flips: u8,
}

impl Bounded for Version {
    fn at(&self) -> Timestamp {
        self.commit
    }

    fn low(&self) -> Timestamp {
        self.low
    }

    fn high(&self) -> u64 {
        self.set_id
    }
}

impl Bounded for Read {
    fn at(&self) -> Timestamp {
        self.at
    }

    fn low(&self) -> Timestamp {
        self.at
    }

    fn high(&self) -> u64 {
        self.xmax
    }
}

/// The part of a key that is in the store: chunks, each knowing the one before it. Bounds are over all of
/// them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Chain {
    pub top: Location,
    /// Greatest commit of a version.
    pub versions: Timestamp,
    /// Greatest moment of a read.
    pub reads: Timestamp,
    /// Greatest id of a version's writer.
    pub set_ids: u64,
    /// Greatest `xmax` of a read that sees a set: ids from there on are of no concern to it.
    pub xmax: u64,
    /// Some read is wrong.
    pub wrong: bool,
}

/// The least timestamp.
pub(crate) const BEGIN: Timestamp = Timestamp { physical: i64::MIN, logical: i64::MIN };

/// One key.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub name: Key128,
    /// How to write the name, if it is not an integer.
    pub text: Option<Box<str>>,
    /// By place.
    pub versions: Ring<Version>,
    /// Reads that see what a timestamp (or their place) says, by it.
    pub reads: Ring<Read>,
    /// Reads that see what a set says.
    pub set_reads: Ring<Read>,
    pub chain: Option<Chain>,
    /// Pending reads, in memory or not.
    pub pending: u32,
    /// It is on the list of keys with something to spill.
    pub touched: bool,
    /// It is on the list of keys that changed since the last checkpoint.
    pub dirty: bool,
}

impl Key {
    pub fn new(name: Key128, text: Option<Box<str>>) -> Key {
        Key {
            name,
            text,
            versions: Ring::default(),
            reads: Ring::default(),
            set_reads: Ring::default(),
            chain: None,
            pending: 0,
            touched: false,
            dirty: false,
        }
    }
}

/// Ids from here on are not in a transaction's set; zero if it has none.
pub(crate) fn xmax(txn: &Txn) -> u64 {
    txn.set.as_ref().map_or(0, |set| set.view().xmax)
}

/// Heap memory of what a version or read holds.
pub(crate) trait Weight {
    fn weight(&self) -> usize;
}

impl Weight for Version {
    fn weight(&self) -> usize {
        let list = match &self.effect {
            Effect::Append(elements) => size_of_val::<[Key128]>(elements) + 16,
            _ => 0,
        };
        size_of::<Version>() + size_of::<i64>() + list
    }
}

impl Weight for Read {
    fn weight(&self) -> usize {
        let list = match &self.seen {
            Seen::List(elements) => size_of_val::<[Key128]>(elements) + 16,
            Seen::One(_) => 0,
        };
        size_of::<Read>() + size_of::<i64>() + list
    }
}
