//! What contradicts the timestamps, and when two findings are the same one.

use crate::Mode;
use anomalist_history::{KeyId, TxnId};
use anomalist_level::AnomalyKind;

/// The axiom that is broken. `Tie` is a warning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Axiom {
    /// Start after commit.
    Timestamp,
    /// A transaction does not see the one before it in its session.
    Session,
    /// A read contradicts its own transaction.
    Int,
    /// A first read did not return the last visible version.
    Ext,
    /// Two writers of a key, neither of which sees the other.
    NoConflict,
    /// Several visible versions share the largest commit, and the read returned one of them.
    Tie,
}

impl Axiom {
    /// All of them, in the order of reports.
    pub const ALL: [Axiom; 6] =
        [Axiom::Timestamp, Axiom::Session, Axiom::Int, Axiom::Ext, Axiom::NoConflict, Axiom::Tie];

    /// The paper's name, as in reports: `EXT`. That of the kind of anomaly, in either mode.
    pub fn code(self) -> &'static str {
        self.kind(Mode::Si).code()
    }

    /// The axiom that a kind of anomaly breaks; `None` if it is not about timestamps.
    pub fn of(kind: AnomalyKind) -> Option<Axiom> {
        let breaks = |axiom: &Axiom| [Mode::Si, Mode::Ser].into_iter().any(|mode| axiom.kind(mode) == kind);
        Axiom::ALL.into_iter().find(breaks)
    }

    /// The kind of anomaly that a violation is. SESSION and EXT mean different things for the two modes.
    pub const fn kind(self, mode: Mode) -> AnomalyKind {
        match (self, mode) {
            (Axiom::Timestamp, _) => AnomalyKind::TimestampOrder,
            (Axiom::Session, Mode::Si) => AnomalyKind::SessionStamp,
            (Axiom::Session, Mode::Ser) => AnomalyKind::SessionCommit,
            (Axiom::Int, _) => AnomalyKind::IntStamp,
            (Axiom::Ext, Mode::Si) => AnomalyKind::ExtStamp,
            (Axiom::Ext, Mode::Ser) => AnomalyKind::ExtCommit,
            (Axiom::NoConflict, _) => AnomalyKind::NoConflictStamp,
            (Axiom::Tie, _) => AnomalyKind::TieStamp,
        }
    }
}

/// What a read that breaks EXT returned instead. An explanation: no part of a violation's [`Identity`],
/// since an online check may not know everything that an offline one does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// A version that a visible later one had replaced, or the initial state in spite of a visible version.
    Stale,
    /// A version that committed after the snapshot and before the reader's own commit.
    Overlapping,
    /// A version that committed after the reader did.
    Future,
    /// A value that its writer replaced before it committed.
    Intermediate,
    /// A value that only the reader itself wrote, later.
    Own,
    /// A value that only aborted transactions wrote.
    Aborted,
    /// A value that was never written.
    NeverWritten,
    /// A list of elements that were all appended, and that the key never held.
    Mixed,
}

impl Class {
    /// The word for it: `stale`, `never-written`.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Stale => "stale",
            Class::Overlapping => "overlapping",
            Class::Future => "future",
            Class::Intermediate => "intermediate",
            Class::Own => "own",
            Class::Aborted => "aborted",
            Class::NeverWritten => "never-written",
            Class::Mixed => "mixed",
        }
    }
}

/// One violation. `T` names transactions and `K` keys: ids of a history offline, whatever a stream has
/// online.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Violation<T = TxnId, K = KeyId> {
    /// What is broken.
    pub axiom: Axiom,
    /// By whom. For NOCONFLICT the later of the two in the order of [`Place`](crate::Place).
    pub txn: T,
    /// On which key: INT, EXT, NOCONFLICT, TIE.
    pub key: Option<K>,
    /// SESSION: the transaction before it. NOCONFLICT: the earlier of the two. EXT and TIE: whose version it
    /// should have read, the last of them in the order; `None` for the initial state.
    pub other: Option<T>,
    /// INT, EXT, TIE: the read, counted from 0 in its transaction.
    pub read: Option<u32>,
    /// EXT: what was read instead, if that is known.
    pub class: Option<Class>,
    /// EXT: whose value was read, if that is known.
    pub source: Option<T>,
}

impl<T: Copy, K: Copy> Violation<T, K> {
    /// A violation of one transaction alone; tables fill in the rest.
    pub const fn of(axiom: Axiom, txn: T) -> Violation<T, K> {
        Violation { axiom, txn, key: None, other: None, read: None, class: None, source: None }
    }

    /// What makes it this violation and no other: TIMESTAMP and SESSION one per transaction, INT one per
    /// read, EXT and TIE one per transaction and key, NOCONFLICT one per key and pair.
    pub fn identity(&self) -> Identity<T, K> {
        Identity {
            axiom: self.axiom,
            txn: self.txn,
            key: self.key,
            other: self.other.filter(|_| self.axiom == Axiom::NoConflict),
            read: self.read.filter(|_| self.axiom == Axiom::Int),
        }
    }
}

/// The identity of a [`Violation`]: two checks of the same transactions have found the same iff they have
/// the same set of these.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Identity<T = TxnId, K = KeyId> {
    /// What is broken.
    pub axiom: Axiom,
    /// By whom.
    pub txn: T,
    /// On which key.
    pub key: Option<K>,
    /// The other transaction of a NOCONFLICT.
    pub other: Option<T>,
    /// The read of an INT.
    pub read: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An axiom is a view of kinds of anomaly: each of theirs is one axiom's, and has its code.
    #[test]
    fn axioms_are_the_anomalies_of_timestamps() {
        for &kind in AnomalyKind::ALL {
            assert_eq!(Axiom::of(kind).is_some(), kind.is_stamp(), "{kind}");
            assert!(Axiom::of(kind).is_none_or(|axiom| axiom.code() == kind.code()), "{kind}");
        }
    }
}
