//! One trait, six levels.
//!
//! The state of the store is a history: committed transactions, open ones with what they have read so far,
//! session order, and who read from whom. A level decides which committed writes of a key an open
//! transaction may read such that this history, with all open transactions as if they committed, stays
//! within the level. That is monotone for every level here: taking reads or transactions away never makes a
//! good history bad, so what is refused can never be mended later, and something is always allowed.
//!
//! An open transaction's own writes are not part of the question: no other transaction sees them before it
//! commits.

use super::base::{Base, KeyId, Seq};
use super::error::{Conflict, Error};
use super::strong::{Snapshots, Strength};
use super::weak::{Visibility, Weak};
use anomalist_level::{Bound, Family, Level, Visible};

/// An isolation level at work. Sessions are numbered from 0; each has at most one open transaction.
pub(crate) trait Isolation: Send {
    /// A new session.
    fn open_session(&mut self);

    /// The session, which has no open transaction, is over.
    fn close_session(&mut self, session: usize);

    /// The session begins a transaction.
    fn begin(&mut self, session: usize, read_only: bool);

    /// Writers of the key, in ascending slices, that contain all that are allowed. Never empty.
    fn spans<'a>(&'a self, base: &'a Base, session: usize, key: KeyId) -> Vec<&'a [Seq]>;

    /// True if a span has the writers of a session, or of several sessions one after another; false if it
    /// has everybody's.
    fn spans_are_sessions(&self) -> bool;

    /// Whether this member of the spans is allowed.
    fn allows(&self, base: &Base, session: usize, key: KeyId, source: Seq) -> bool;

    /// True if `a` certainly comes before `b` in every order of commits that explains the history.
    fn before(&self, a: Seq, b: Seq) -> bool;

    /// The open transaction read the key from an allowed source.
    fn observe(&mut self, base: &Base, session: usize, key: KeyId, source: Seq);

    /// The open transaction writes the key, or no longer does (a savepoint was rolled back to).
    fn write(&mut self, session: usize, key: KeyId, writes: bool);

    /// Whether it may commit.
    fn may_commit(&self, base: &Base, session: usize) -> Result<(), Conflict>;

    /// It commits; `seq` is its place if it wrote anything, and is already in `base`.
    fn commit(&mut self, base: &Base, session: usize, seq: Option<Seq>);

    /// It never happened.
    fn abort(&mut self, base: &Base, session: usize);
}

/// The level at work; `ordered` as in [`Options::ordered`](super::Options::ordered).
pub(crate) fn isolation(level: Level, ordered: bool) -> Result<Box<dyn Isolation>, Error> {
    let unplayed = Error::Level(level);
    let Some(family) = level.info().family.filter(|_| level.bound() < Bound::RealTime) else {
        return Err(unplayed);
    };
    Ok(match family {
        Family::Visible(Visible::ReadCommitted) => Box::new(Weak::new(Visibility::Read, ordered)),
        Family::Visible(Visible::ReadAtomic) => Box::new(Weak::new(Visibility::ReadAndSession, ordered)),
        Family::Visible(Visible::Causal) => Box::new(Weak::new(Visibility::Causal, ordered)),
        Family::Prefix => Box::new(Snapshots::new(Strength::Prefix)),
        Family::Snapshot => Box::new(Snapshots::new(Strength::Snapshot)),
        Family::Serial => Box::new(Snapshots::new(Strength::Serial)),
        Family::Visible(
            Visible::ReadYourWrites
            | Visible::MonotonicReads
            | Visible::MonotonicWrites
            | Visible::WritesFollowReads,
        )
        | Family::Parallel
        | Family::Updates
        | Family::Flow
        | Family::Writes
        | Family::Cut => return Err(unplayed),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_explored_can_be_played() {
        for &level in Level::EXPLORED {
            assert!(isolation(level, false).is_ok(), "{level}");
        }
    }
}
