//! Transactions, reads and versions as the rules of `anomalist-timestamp` see them.
//!
//! Transactions lie scattered in memory, so a version looks its writer up only where the rules ask for more
//! than its commit and its id: where commits are equal.

use crate::indeterminate::Indeterminate;
use crate::key::{Effect, Read, Seen, Version};
use crate::live_state::{Last, LiveState, Txn};
use crate::{Key128, Shape};
use anomalist_history::{Snapshot, SnapshotSet, Timestamp};
use anomalist_timestamp::external::{self, Content};
use anomalist_timestamp::{Mode, Nil, Stamped};

impl Nil for Key128 {
    const NIL: Key128 = Key128::NIL;
}

impl Effect {
    /// What it leaves.
    pub fn content(&self) -> Content<'_, Key128> {
        match self {
            Effect::Write(value) => Content::Written(*value),
            Effect::Append(elements) => Content::Appended(elements),
            Effect::Undefined => Content::Undefined,
        }
    }
}

impl Seen {
    /// The same, borrowed.
    pub fn view(&self) -> external::Seen<'_, Key128> {
        match self {
            Seen::One(value) => external::Seen::One(*value),
            Seen::List(elements) => external::Seen::List(elements),
        }
    }

    /// Whether it is a value that was written. An array that was written as one value has a fingerprint of
    /// its own, and no list that was read is compared with that: such a read counts as right.
    #[inline]
    pub fn is(&self, value: Key128) -> bool {
        match self {
            Seen::One(one) => *one == value,
            Seen::List(_) => value.shape() == Shape::Text,
        }
    }
}

impl Stamped for Txn {
    type Session = u32;

    #[inline]
    fn start(&self) -> Timestamp {
        self.start
    }

    #[inline]
    fn commit(&self) -> Timestamp {
        self.commit
    }

    #[inline]
    fn session(&self) -> u32 {
        self.session
    }

    #[inline]
    fn position(&self) -> u32 {
        self.position
    }

    #[inline]
    fn set(&self) -> Option<Snapshot<'_>> {
        self.set.as_deref().map(SnapshotSet::view)
    }

    #[inline]
    fn id(&self) -> Option<u64> {
        self.set_id
    }
}

/// The transaction of a read that sees what a timestamp says.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub live: &'a LiveState,
    pub read: &'a Read,
}

impl Stamped for Reader<'_> {
    type Session = u32;

    #[inline]
    fn start(&self) -> Timestamp {
        if self.live.rule.mode == Mode::Si { self.read.at } else { self.live.txn(self.read.txn).start }
    }

    #[inline]
    fn commit(&self) -> Timestamp {
        if self.live.rule.mode == Mode::Ser { self.read.at } else { self.live.txn(self.read.txn).commit }
    }

    #[inline]
    fn session(&self) -> u32 {
        self.live.txn(self.read.txn).session
    }

    #[inline]
    fn position(&self) -> u32 {
        self.live.txn(self.read.txn).position
    }

    #[inline]
    fn set(&self) -> Option<Snapshot<'_>> {
        None
    }

    #[inline]
    fn id(&self) -> Option<u64> {
        self.live.txn(self.read.txn).set_id
    }
}

/// A version of a key.
#[derive(Clone, Copy)]
pub(crate) enum Seat<'a> {
    /// Of a transaction that counts.
    Counted(&'a LiveState, &'a Version),
    /// Of one of unknown outcome.
    Open(&'a Indeterminate, &'a Effect),
}

impl Stamped for Seat<'_> {
    type Session = u32;

    #[inline]
    fn start(&self) -> Timestamp {
        match self {
            Seat::Counted(live, version) => live.txn(version.txn).start,
            Seat::Open(held, _) => held.start,
        }
    }

    #[inline]
    fn commit(&self) -> Timestamp {
        match self {
            Seat::Counted(_, version) => version.commit,
            Seat::Open(held, _) => held.commit,
        }
    }

    #[inline]
    fn session(&self) -> u32 {
        match self {
            Seat::Counted(live, version) => live.txn(version.txn).session,
            Seat::Open(held, _) => held.session,
        }
    }

    #[inline]
    fn position(&self) -> u32 {
        match self {
            Seat::Counted(live, version) => live.txn(version.txn).position,
            Seat::Open(held, _) => held.position,
        }
    }

    #[inline]
    fn set(&self) -> Option<Snapshot<'_>> {
        match self {
            Seat::Counted(live, version) => live.txn(version.txn).set(),
            Seat::Open(held, _) => held.set.as_deref().map(SnapshotSet::view),
        }
    }

    #[inline]
    fn id(&self) -> Option<u64> {
        match self {
            Seat::Counted(_, version) => (version.set_id != u64::MAX).then_some(version.set_id),
            Seat::Open(held, _) => held.set_id,
        }
    }
}

impl external::Version for Seat<'_> {
    type Value = Key128;

    #[inline]
    fn content(&self) -> Content<'_, Key128> {
        match self {
            Seat::Counted(_, version) => version.effect.content(),
            Seat::Open(_, effect) => effect.content(),
        }
    }
}

/// A transaction among those of its session.
#[derive(Clone, Copy)]
pub(crate) struct InSession<'a> {
    pub last: &'a Last,
    pub set: Option<&'a SnapshotSet>,
}

impl Stamped for InSession<'_> {
    type Session = ();

    #[inline]
    fn start(&self) -> Timestamp {
        self.last.start
    }

    #[inline]
    fn commit(&self) -> Timestamp {
        self.last.commit
    }

    #[inline]
    fn session(&self) {}

    #[inline]
    fn position(&self) -> u32 {
        self.last.position
    }

    #[inline]
    fn set(&self) -> Option<Snapshot<'_>> {
        self.set.map(SnapshotSet::view)
    }

    #[inline]
    fn id(&self) -> Option<u64> {
        self.last.set_id
    }
}
