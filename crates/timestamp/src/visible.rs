//! Visibility (Definition 6 of the paper) and the axioms that follow from it without looking at values:
//! TIMESTAMP and NOCONFLICT.
//!
//! Visibility must be a strict partial order that contains the order of each session (Definition 3). So
//! equal timestamps of one session are in its order: a later transaction of the viewer's own session is not
//! visible to it, even if it commits at the viewer's start timestamp. Under serializability a transaction is
//! one point, its commit, and transactions of different sessions with equal commits may be in either order.

use crate::{Mode, Rule};
use anomalist_history::{Snapshot, Timestamp};
use std::cmp::Ordering;

/// A transaction as the rules see it. Where looking something up is expensive, an implementation may do so
/// in the method: the rules ask for stamps first, and for sessions only where stamps are equal.
pub trait Stamped {
    /// Names a session.
    type Session: Copy + Ord;

    /// Start timestamp.
    fn start(&self) -> Timestamp;

    /// Commit timestamp.
    fn commit(&self) -> Timestamp;

    /// The session whose client issued it.
    fn session(&self) -> Self::Session;

    /// What orders the transactions of its session.
    fn position(&self) -> u32;

    /// Its snapshot, where that is a set of ids rather than its start timestamp.
    fn set(&self) -> Option<Snapshot<'_>>;

    /// The id by which sets name it.
    fn id(&self) -> Option<u64>;
}

impl<T: Stamped> Stamped for &T {
    type Session = T::Session;

    #[inline]
    fn start(&self) -> Timestamp {
        T::start(self)
    }

    #[inline]
    fn commit(&self) -> Timestamp {
        T::commit(self)
    }

    #[inline]
    fn session(&self) -> T::Session {
        T::session(self)
    }

    #[inline]
    fn position(&self) -> u32 {
        T::position(self)
    }

    #[inline]
    fn set(&self) -> Option<Snapshot<'_>> {
        T::set(self)
    }

    #[inline]
    fn id(&self) -> Option<u64> {
        T::id(self)
    }
}

/// Whether a transaction's effects are visible to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sight {
    /// They are.
    Seen,
    /// Serializability only: another session committed at the same moment, so they are in some orders.
    Perhaps,
    /// They are not.
    Unseen,
}

impl Rule {
    /// Whether one transaction sees another under snapshot isolation. (Do not ask about the viewer itself.)
    #[inline]
    pub fn sees<V, O>(self, viewer: &V, other: &O) -> bool
    where
        V: Stamped,
        O: Stamped<Session = V::Session>,
    {
        match (viewer.set(), other.id()) {
            (Some(set), Some(id)) => set.sees(id),
            _ => self.contains(viewer.start(), other.commit()) && !is_later_tie(viewer, other),
        }
    }

    /// What a transaction sees of another. (Do not ask about the viewer itself.)
    #[inline]
    pub fn sight<V, O>(self, viewer: &V, other: &O) -> Sight
    where
        V: Stamped,
        O: Stamped<Session = V::Session>,
    {
        match self.mode {
            Mode::Si if self.sees(viewer, other) => Sight::Seen,
            Mode::Si => Sight::Unseen,
            Mode::Ser => match other.commit().cmp(&viewer.commit()) {
                Ordering::Less => Sight::Seen,
                Ordering::Greater => Sight::Unseen,
                Ordering::Equal if other.session() != viewer.session() => Sight::Perhaps,
                Ordering::Equal if other.position() < viewer.position() => Sight::Seen,
                Ordering::Equal => Sight::Unseen,
            },
        }
    }

    /// NOCONFLICT: whether neither of two writers of a key sees the other.
    #[inline]
    pub fn conflict<A, B>(self, a: &A, b: &B) -> bool
    where
        A: Stamped,
        B: Stamped<Session = A::Session>,
    {
        self.mode == Mode::Si && !self.sees(a, b) && !self.sees(b, a)
    }

    /// TIMESTAMP: whether a transaction starts after it commits. A set says nothing about when.
    pub fn starts_late(self, txn: &impl Stamped) -> bool {
        self.mode == Mode::Si && txn.start() > txn.commit() && txn.set().is_none()
    }
}

/// Whether `other` is a later transaction of the viewer's session and commits at the viewer's start
/// timestamp: the session, not the timestamp, orders the two. (A set of ids decides by itself about ids.)
#[inline]
pub fn is_later_tie<V, O>(viewer: &V, other: &O) -> bool
where
    V: Stamped,
    O: Stamped<Session = V::Session>,
{
    other.commit() == viewer.start()
        && other.session() == viewer.session()
        && other.position() > viewer.position()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Tie;

    /// A transaction of tests.
    #[derive(Clone, Copy, Debug)]
    pub struct At {
        pub start: i64,
        pub commit: i64,
        pub session: char,
        pub position: u32,
        pub set: Option<Snapshot<'static>>,
        pub id: Option<u64>,
    }

    pub fn at(session: char, position: u32, start: i64, commit: i64) -> At {
        At { start, commit, session, position, set: None, id: None }
    }

    fn moment(physical: i64) -> Timestamp {
        Timestamp { physical, logical: 0 }
    }

    impl Stamped for At {
        type Session = char;

        fn start(&self) -> Timestamp {
            moment(self.start)
        }

        fn commit(&self) -> Timestamp {
            moment(self.commit)
        }

        fn session(&self) -> char {
            self.session
        }

        fn position(&self) -> u32 {
            self.position
        }

        fn set(&self) -> Option<Snapshot<'_>> {
            self.set
        }

        fn id(&self) -> Option<u64> {
            self.id
        }
    }

    const SI: Rule = Rule { mode: Mode::Si, tie: Tie::Inclusive };
    const SER: Rule = Rule { mode: Mode::Ser, tie: Tie::Inclusive };

    #[test]
    fn a_set_decides_only_about_transactions_with_an_id() {
        let set = Some(Snapshot { xmin: 5, xmax: 8, running: &[6] });
        let viewer = At { set, ..at('a', 0, 100, 200) };
        let other = |id, commit| At { id, ..at('b', 0, 0, commit) };
        assert!(SI.sees(&viewer, &other(Some(7), 999)) && !SI.sees(&viewer, &other(Some(6), 1)));
        assert!(SI.sees(&viewer, &other(None, 100)) && !SI.sees(&viewer, &other(None, 101)));
    }

    #[test]
    fn equal_timestamps_of_one_session_are_in_its_order() {
        let viewer = at('a', 1, 20, 30);
        assert!(SI.sees(&viewer, &at('a', 0, 10, 20)) && SI.sees(&viewer, &at('b', 2, 10, 20)));
        assert!(!SI.sees(&viewer, &at('a', 2, 10, 20)));
        let exclusive = Rule { tie: Tie::Exclusive, ..SI };
        assert!(!exclusive.sees(&viewer, &at('b', 2, 10, 20)));
    }

    #[test]
    fn under_serializability_equal_commits_of_other_sessions_are_in_either_order() {
        let viewer = at('a', 1, 20, 30);
        assert_eq!(SER.sight(&viewer, &at('b', 9, 0, 30)), Sight::Perhaps);
        assert_eq!(SER.sight(&viewer, &at('a', 0, 0, 30)), Sight::Seen);
        assert_eq!(SER.sight(&viewer, &at('a', 2, 0, 30)), Sight::Unseen);
        assert_eq!(SER.sight(&viewer, &at('b', 0, 0, 29)), Sight::Seen);
        assert_eq!(SER.sight(&viewer, &at('b', 0, 0, 31)), Sight::Unseen);
    }

    #[test]
    fn writers_conflict_if_they_overlap() {
        let writer = at('a', 0, 10, 30);
        assert!(SI.conflict(&writer, &at('b', 0, 20, 40)) && !SER.conflict(&writer, &at('b', 0, 20, 40)));
        assert!(!SI.conflict(&writer, &at('b', 0, 30, 40)) && !SI.conflict(&at('b', 0, 30, 40), &writer));
        assert!(SI.starts_late(&at('a', 0, 31, 30)) && !SER.starts_late(&at('a', 0, 31, 30)));
    }
}
