//! What an engine has to know of a level: which kind of order it asks for, and what that order must respect.
//!
//! A row of the table names its [`Family`], and every engine looks it up; so a level of a known family is
//! one row. A new family is a variant here, and the compiler lists the engines that have to learn it:
//! nothing matches on a family with a wildcard.

use super::{Level, LevelInfo};

/// The kind of order that a level asks for; strongest first, which is the order in which searches decide
/// levels.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Family {
    /// One event per transaction; every read returns the latest version.
    Serial,
    /// A begin and a commit; every read returns the latest version at the begin, and of two transactions
    /// that write a key one commits before the other begins.
    Snapshot,
    /// A begin and a commit; every read returns the latest version at the begin.
    Prefix,
    /// One event, that of `so ∪ wr ∪ ww`; no read misses a write that these put in between.
    Parallel,
    /// One event; transactions that write are serial, and each reader alone with them too (PL-3U).
    Updates,
    /// One event; what is visible to a read precedes what the read returned.
    Visible(Visible),
    /// One event; readers follow what they read (PL-2).
    Flow,
    /// One event; versions have an order (PL-1).
    Writes,
    /// No order: a transaction repeats its reads.
    Cut,
}

impl Family {
    /// Whether transactions take a snapshot at one moment and commit at another.
    pub const fn has_snapshots(self) -> bool {
        match self {
            Family::Snapshot | Family::Prefix => true,
            Family::Serial
            | Family::Parallel
            | Family::Updates
            | Family::Visible(_)
            | Family::Flow
            | Family::Writes
            | Family::Cut => false,
        }
    }

    /// Whether a transaction may have a read that nothing explains and still satisfy the level.
    pub const fn forgives_reads(self) -> bool {
        match self {
            Family::Flow | Family::Writes | Family::Cut => true,
            Family::Serial
            | Family::Snapshot
            | Family::Prefix
            | Family::Parallel
            | Family::Updates
            | Family::Visible(_) => false,
        }
    }
}

/// Which transactions a weak level takes into account when a transaction reads (`docs/spec/levels.md` 2);
/// strongest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Visible {
    /// Those of any chain of `so` and `wr`.
    Causal,
    /// Those read from, and those earlier in the session.
    ReadAtomic,
    /// Those read from earlier in the transaction.
    ReadCommitted,
    /// `so`.
    ReadYourWrites,
    /// `wr ; so`.
    MonotonicReads,
    /// `so ; wr`.
    MonotonicWrites,
    /// `wr ; so ; wr`.
    WritesFollowReads,
}

/// What an order must respect besides reads and writes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Bound {
    /// Nothing.
    Data,
    /// Sessions.
    Session,
    /// Sessions and real time.
    RealTime,
}

impl Bound {
    /// All of them, loosest first.
    pub const ALL: [Bound; 3] = [Bound::Data, Bound::Session, Bound::RealTime];
}

/// The graph of dependencies that has no cycle where the level holds and the order of versions is known;
/// strongest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Graph {
    /// All dependencies.
    Serial,
    /// All but those by predicate.
    Items,
    /// Without cycles whose every two anti-dependencies are apart.
    Snapshot,
    /// As prefix consistency composes them.
    Prefix,
    /// Those of reading and overwriting.
    Flow,
    /// Those of overwriting.
    Writes,
    /// None of its own: a serial order that respects the bound proves the level.
    Follows,
}

impl LevelInfo {
    /// What an order must respect besides reads and writes.
    pub const fn bound(&self) -> Bound {
        match (self.real_time, self.session_order) {
            (true, _) => Bound::RealTime,
            (false, true) => Bound::Session,
            (false, false) => Bound::Data,
        }
    }
}

impl Level {
    /// The level as which it is decided: itself, or the one that it is on histories without predicates.
    pub fn decided_as(self) -> Level {
        self.info().without_predicates.unwrap_or(self)
    }

    /// Its family, or that of the level as which it is decided.
    pub fn family(self) -> Option<Family> {
        self.decided_as().info().family
    }

    /// What an order must respect besides reads and writes.
    pub fn bound(self) -> Bound {
        self.info().bound()
    }

    /// The level of a family whose order must respect just this.
    pub fn of(family: Family, bound: Bound) -> Option<Level> {
        let is = |level: &&Level| level.info().family == Some(family) && level.bound() == bound;
        Level::ALL.iter().find(is).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A level that a search refutes names its anomaly: the level forbids it, and no weaker level does.
    #[test]
    fn families_have_what_their_engines_need() {
        for &level in Level::CANONICAL {
            let info = level.info();
            assert!(level.family().is_some(), "{level}: no engine decides it");
            assert_ne!(info.family.is_some(), info.without_predicates.is_some(), "{level}");
            if let (Some(_), Some(kind)) = (info.family, info.no_order) {
                assert!(level.forbids(kind) && kind.is_no_order(), "{level}: {kind}");
            }
            assert_eq!(info.family.is_some(), info.no_order.is_some(), "{level}");
        }
    }

    #[test]
    fn a_family_and_a_bound_are_one_level() {
        for &level in Level::ALL.iter().filter(|level| level.info().family.is_some()) {
            assert_eq!(level.info().family.and_then(|family| Level::of(family, level.bound())), Some(level));
        }
    }
}
