//! Which axioms, what equal timestamps mean, and the order of commits.

use anomalist_level::{Bound, Family, Level};
use std::fmt;
use std::str::FromStr;

/// Which set of axioms.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mode {
    /// Snapshot isolation: a transaction reads at its start and writes at its commit.
    Si,
    /// Serializability: a transaction happens at its commit.
    Ser,
}

impl Mode {
    /// The axioms under which a level is judged by timestamps; `None`: timestamps say nothing about it.
    pub fn of(level: Level) -> Option<Mode> {
        // Timestamps are the database's, and real time is the clients'.
        if level.bound() == Bound::RealTime {
            return None;
        }
        match level.info().family? {
            Family::Snapshot => Some(Mode::Si),
            Family::Serial => Some(Mode::Ser),
            Family::Prefix
            | Family::Parallel
            | Family::Updates
            | Family::Visible(_)
            | Family::Flow
            | Family::Writes
            | Family::Cut => None,
        }
    }
}

/// Whether a snapshot contains what committed at its very timestamp.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Tie {
    /// It does: Definition 6 of the paper.
    #[default]
    Inclusive,
    /// It does not: some hybrid clocks and timestamp oracles.
    Exclusive,
}

/// Not a tie rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownTie;

impl fmt::Display for UnknownTie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected inclusive or exclusive")
    }
}

impl std::error::Error for UnknownTie {}

impl FromStr for Tie {
    type Err = UnknownTie;

    fn from_str(text: &str) -> Result<Tie, UnknownTie> {
        match text {
            "inclusive" => Ok(Tie::Inclusive),
            "exclusive" => Ok(Tie::Exclusive),
            _ => Err(UnknownTie),
        }
    }
}

/// Mode and ties.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rule {
    /// Which axioms.
    pub mode: Mode,
    /// Equal timestamps.
    pub tie: Tie,
}

impl Rule {
    /// Whether a snapshot at `start` contains what committed at `commit`.
    #[inline]
    pub fn contains<S: Ord>(self, start: S, commit: S) -> bool {
        match self.tie {
            Tie::Inclusive => commit <= start,
            Tie::Exclusive => commit < start,
        }
    }
}

/// A transaction's place in the total order: by commit, then writers before read-only transactions, then by
/// start, session (its name as text, or its rank among those), and position in the session. The fields are
/// in that order, and so derived comparison is the order.
///
/// `S` is a timestamp or its rank; `N` a session's name or its rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place<S, N> {
    /// Commit timestamp.
    pub commit: S,
    /// It writes nothing.
    pub read_only: bool,
    /// Start timestamp.
    pub start: S,
    /// Session.
    pub session: N,
    /// Rank in its session.
    pub position: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_come_before_read_only_transactions_of_the_same_commit() {
        let place =
            |commit, read_only, start, session| Place { commit, read_only, start, session, position: 0 };
        let mut order = [
            place(7, true, 1, "a"),
            place(7, false, 3, "10"),
            place(7, false, 3, "9"),
            place(6, true, 6, "z"),
        ];
        order.sort();
        assert_eq!(order.map(|p| p.session), ["z", "10", "9", "a"]);
    }
}
