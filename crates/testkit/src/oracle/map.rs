//! Which definition executes which level: the one map from levels to oracles.

use super::{AdyaLevel, StrongLevel, WeakLevel, loosely_satisfies, satisfies, strongly_satisfies};
use anomalist_history::History;
use anomalist_level::Level;

/// The definition that is executed for a level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Oracle {
    /// [`satisfies`].
    Weak(WeakLevel),
    /// [`strongly_satisfies`].
    Strong(StrongLevel),
    /// [`loosely_satisfies`].
    Adya(AdyaLevel),
}

/// Written from the literature's definitions, not from the table of levels.
const ORACLES: &[(Level, Oracle)] = &[
    (Level::ReadUncommitted, Oracle::Adya(AdyaLevel::ReadUncommitted)),
    (Level::AdyaReadCommitted, Oracle::Adya(AdyaLevel::ReadCommitted)),
    (Level::CutIsolation, Oracle::Weak(WeakLevel::CutIsolation)),
    (Level::ReadCommitted, Oracle::Weak(WeakLevel::ReadCommitted)),
    (Level::ReadYourWrites, Oracle::Weak(WeakLevel::ReadYourWrites)),
    (Level::MonotonicReads, Oracle::Weak(WeakLevel::MonotonicReads)),
    (Level::MonotonicWrites, Oracle::Weak(WeakLevel::MonotonicWrites)),
    (Level::WritesFollowReads, Oracle::Weak(WeakLevel::WritesFollowReads)),
    (Level::ReadAtomic, Oracle::Weak(WeakLevel::ReadAtomic)),
    (Level::Causal, Oracle::Weak(WeakLevel::Causal)),
    (Level::Prefix, Oracle::Strong(StrongLevel::PREFIX)),
    (Level::ParallelSnapshotIsolation, Oracle::Strong(StrongLevel::PARALLEL_SNAPSHOT_ISOLATION)),
    (Level::SnapshotIsolation, Oracle::Strong(StrongLevel::SNAPSHOT_ISOLATION)),
    (Level::StrongSessionSnapshotIsolation, Oracle::Strong(StrongLevel::STRONG_SESSION_SNAPSHOT_ISOLATION)),
    (Level::StrongSnapshotIsolation, Oracle::Strong(StrongLevel::STRONG_SNAPSHOT_ISOLATION)),
    // Histories have no predicates, and without them it is serializability.
    (Level::RepeatableRead, Oracle::Strong(StrongLevel::SERIALIZABLE)),
    (Level::UpdateSerializable, Oracle::Adya(AdyaLevel::UpdateSerializable)),
    (Level::Serializable, Oracle::Strong(StrongLevel::SERIALIZABLE)),
    (Level::StrongSessionSerializable, Oracle::Strong(StrongLevel::STRONG_SESSION_SERIALIZABLE)),
    (Level::StrictSerializable, Oracle::Strong(StrongLevel::STRICT_SERIALIZABLE)),
];

/// The oracle of a level; `None` for Elle's further models.
pub fn of(level: Level) -> Option<Oracle> {
    ORACLES.iter().find(|(l, _)| *l == level).map(|(_, oracle)| *oracle)
}

/// True if the history satisfies the level by its definition; `None`: there is no oracle, or it does not
/// decide this.
pub fn decide(history: &History, level: Level) -> Option<bool> {
    match of(level)? {
        Oracle::Weak(weak) => Some(satisfies(history, weak)),
        Oracle::Strong(strong) => strongly_satisfies(history, strong),
        Oracle::Adya(adya) => loosely_satisfies(history, adya),
    }
}

/// The levels of [`satisfies`].
pub fn weak_levels() -> impl Iterator<Item = (Level, WeakLevel)> {
    ORACLES.iter().filter_map(|(level, oracle)| match oracle {
        Oracle::Weak(weak) => Some((*level, *weak)),
        Oracle::Strong(_) | Oracle::Adya(_) => None,
    })
}

/// The levels of [`strongly_satisfies`].
pub fn strong_levels() -> impl Iterator<Item = (Level, StrongLevel)> {
    ORACLES.iter().filter_map(|(level, oracle)| match oracle {
        Oracle::Strong(strong) => Some((*level, *strong)),
        Oracle::Weak(_) | Oracle::Adya(_) => None,
    })
}

/// The levels of [`loosely_satisfies`].
pub fn loose() -> impl Iterator<Item = (Level, AdyaLevel)> {
    ORACLES.iter().filter_map(|(level, oracle)| match oracle {
        Oracle::Adya(adya) => Some((*level, *adya)),
        Oracle::Weak(_) | Oracle::Strong(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_that_is_decided_has_an_oracle() {
        for &level in Level::CANONICAL {
            assert!(
                of(level).is_some(),
                "{level} has no oracle: add its line to crates/testkit/src/oracle/map.rs"
            );
        }
    }
}
