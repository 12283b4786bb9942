//! The definitions of the levels, as the verifier has them.
//!
//! Engines look levels up in the table of `anomalist-level`. A mistake in a row of it must not pass here, so
//! this table is written by itself, from `docs/spec/levels.md`, and takes nothing from the other; a test
//! compares the two.

use anomalist_level::Level;

/// What a level's axiom is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// One point per transaction: every read returns the latest version.
    Serial,
    /// Two points: every read returns the latest version at begin.
    Prefix,
    /// As `Prefix`, and no other transaction writes its keys between its points.
    Snapshot,
    /// One point: no read overlooks a version that reads, versions and sessions put before it.
    Parallel,
    /// The same without sessions (PL-2+); there is no execution to check.
    View,
    /// One point: those who write are serial, and each of the others with them.
    Updates,
    /// One point: no read overlooks a visible version. Visible is whom the transaction read from before,
    ReadCommitted,
    /// … whom it reads from, and its session,
    ReadAtomic,
    /// … any chain of the two,
    Causal,
    /// … its session,
    ReadYourWrites,
    /// … whom its session read from,
    MonotonicReads,
    /// … the sessions of whom it reads from,
    MonotonicWrites,
    /// … whom those sessions read from.
    WritesFollowReads,
    /// One point: readers follow what they read.
    Flow,
    /// One point: lists show the order of their versions.
    Writes,
    /// No order: a transaction repeats its reads.
    Cut,
}

impl Kind {
    /// Whether a transaction takes a snapshot at one point and commits at another.
    pub fn has_snapshot(self) -> bool {
        matches!(self, Kind::Prefix | Kind::Snapshot)
    }

    /// Whether faulty reads of lists still show an order of versions.
    pub fn shows_remains(self) -> bool {
        matches!(self, Kind::Writes | Kind::Flow)
    }
}

/// The definition of a level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Definition {
    pub kind: Kind,
    /// The order keeps sessions.
    pub sessions: bool,
    /// The order keeps real time.
    pub real_time: bool,
}

/// The definition of a level; `None`: it has none here.
pub(crate) fn definition(level: Level) -> Option<Definition> {
    let plain = |kind| Some(Definition { kind, sessions: false, real_time: false });
    let session = |kind| Some(Definition { kind, sessions: true, real_time: false });
    let timed = |kind| Some(Definition { kind, sessions: true, real_time: true });
    match level {
        Level::ReadUncommitted => plain(Kind::Writes),
        Level::AdyaReadCommitted => plain(Kind::Flow),
        Level::CutIsolation => plain(Kind::Cut),
        Level::ReadCommitted => session(Kind::ReadCommitted),
        Level::ReadYourWrites => session(Kind::ReadYourWrites),
        Level::MonotonicReads => session(Kind::MonotonicReads),
        Level::MonotonicWrites => session(Kind::MonotonicWrites),
        Level::WritesFollowReads => session(Kind::WritesFollowReads),
        Level::ReadAtomic => session(Kind::ReadAtomic),
        Level::Causal => session(Kind::Causal),
        Level::Prefix => session(Kind::Prefix),
        Level::ParallelSnapshotIsolation => session(Kind::Parallel),
        Level::SnapshotIsolation => plain(Kind::Snapshot),
        Level::StrongSessionSnapshotIsolation => session(Kind::Snapshot),
        Level::StrongSnapshotIsolation => timed(Kind::Snapshot),
        // Histories have no predicates, and without them it is serializability.
        Level::RepeatableRead => plain(Kind::Serial),
        Level::UpdateSerializable => plain(Kind::Updates),
        Level::Serializable => plain(Kind::Serial),
        Level::StrongSessionSerializable => session(Kind::Serial),
        Level::StrictSerializable => timed(Kind::Serial),
        Level::ConsistentView => plain(Kind::View),
        // Elle's further models.
        Level::ElleReadUncommitted
        | Level::MonotonicView
        | Level::CursorStability
        | Level::ForwardConsistentView
        | Level::MonotonicSnapshotRead
        | Level::MonotonicAtomicView
        | Level::ElleReadAtomic
        | Level::UpdateAtomic
        | Level::ElleCausalCerone
        | Level::EllePrefix
        | Level::ElleParallelSnapshotIsolation
        | Level::StrongSessionReadUncommitted
        | Level::StrongSessionReadCommitted
        | Level::StrongReadUncommitted
        | Level::StrongReadCommitted
        | Level::ElleMonotonicReads
        | Level::ElleMonotonicWrites
        | Level::ElleReadYourWrites
        | Level::ElleWritesFollowReads
        | Level::Pram
        | Level::ElleCausal
        | Level::Sequential
        | Level::Linearizable
        | Level::ViewSerializable
        | Level::OneCopySerializable
        | Level::SessionSerializable => None,
    }
}

/// What the axiom of a level is about; `None`: it has no definition here.
pub(crate) fn kind(level: Level) -> Option<Kind> {
    definition(level).map(|definition| definition.kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anomalist_level::{Family, Visible};

    fn of_family(family: Family) -> Kind {
        match family {
            Family::Serial => Kind::Serial,
            Family::Snapshot => Kind::Snapshot,
            Family::Prefix => Kind::Prefix,
            Family::Parallel => Kind::Parallel,
            Family::Updates => Kind::Updates,
            Family::Visible(Visible::Causal) => Kind::Causal,
            Family::Visible(Visible::ReadAtomic) => Kind::ReadAtomic,
            Family::Visible(Visible::ReadCommitted) => Kind::ReadCommitted,
            Family::Visible(Visible::ReadYourWrites) => Kind::ReadYourWrites,
            Family::Visible(Visible::MonotonicReads) => Kind::MonotonicReads,
            Family::Visible(Visible::MonotonicWrites) => Kind::MonotonicWrites,
            Family::Visible(Visible::WritesFollowReads) => Kind::WritesFollowReads,
            Family::Flow => Kind::Flow,
            Family::Writes => Kind::Writes,
            Family::Cut => Kind::Cut,
        }
    }

    /// Two tables, written apart, say the same.
    #[test]
    fn the_engines_have_the_same_definitions() {
        for &level in Level::ALL {
            let own = definition(level).filter(|own| own.kind != Kind::View);
            let engines = level.family().map(|family| {
                let info = level.info();
                let (sessions, real_time) = (info.session_order, info.real_time);
                Definition { kind: of_family(family), sessions, real_time }
            });
            assert_eq!(own, engines, "{level}");
        }
    }
}
