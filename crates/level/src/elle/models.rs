//! Elle's thirty-six models.

use crate::anomaly::AnomalyKind;
use crate::level::Level;
use crate::names::normalise;
use Level as L;

/// A consistency model of Elle's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// The level that has its meaning.
    pub level: Level,
    /// Elle's canonical name: `PL-2`.
    pub canonical: &'static str,
    /// The name that Elle prints: `read-committed`.
    pub printed: &'static str,
    /// The other names that Elle accepts for it.
    pub aliases: &'static [&'static str],
}

/// What Anomalist forbids at a level with Elle's meaning and Elle does not look for: a transaction that
/// contradicts itself has no place in any serial order, and repeatable-read without predicates is one.
const STRICTER: &[(Level, AnomalyKind)] =
    &[(L::RepeatableRead, AnomalyKind::Internal), (L::UpdateSerializable, AnomalyKind::Internal)];

impl Model {
    /// The models it implies directly.
    pub fn implies(&self) -> impl Iterator<Item = Level> {
        self.level.info().implies.iter().copied().filter(|level| level.info().elle_name.is_some())
    }

    /// The anomalies it proscribes directly.
    pub fn proscribes(&self) -> impl Iterator<Item = AnomalyKind> {
        let level = self.level;
        level.info().forbids.iter().copied().filter(move |&kind| {
            super::anomalies().iter().any(|a| a.kind == kind) && !STRICTER.contains(&(level, kind))
        })
    }

    /// Whether some anomaly rules it out. Eleven models are names only.
    pub fn can_be_ruled_out(&self) -> bool {
        !super::prohibited(&[self.level]).is_empty()
    }
}

/// All models, ordered by canonical name as Elle's documentation lists them.
pub fn models() -> &'static [Model] {
    &TABLE
}

/// The model with this name: canonical, printed or accepted; case does not matter.
pub fn model(name: &str) -> Option<&'static Model> {
    let wanted = normalise(name);
    let is = |known: &str| known.eq_ignore_ascii_case(&wanted);
    TABLE.iter().find(|m| is(m.canonical) || is(m.printed) || m.aliases.iter().any(|alias| is(alias)))
}

const fn plain(level: Level, name: &'static str) -> Model {
    Model { level, canonical: name, printed: name, aliases: &[] }
}

const fn friendly(level: Level, canonical: &'static str, printed: &'static str) -> Model {
    Model { level, canonical, printed, aliases: &[] }
}

static TABLE: [Model; 36] = [
    plain(L::OneCopySerializable, "1SR"),
    friendly(L::ElleReadUncommitted, "PL-1", "read-uncommitted"),
    friendly(L::AdyaReadCommitted, "PL-2", "read-committed"),
    friendly(L::ConsistentView, "PL-2+", "consistent-view"),
    friendly(L::RepeatableRead, "PL-2.99", "repeatable-read"),
    friendly(L::MonotonicView, "PL-2L", "monotonic-view"),
    Model { aliases: &["conflict-serializable"], ..friendly(L::Serializable, "PL-3", "serializable") },
    friendly(L::UpdateSerializable, "PL-3U", "update-serializable"),
    friendly(L::CursorStability, "PL-CS", "cursor-stability"),
    friendly(L::ForwardConsistentView, "PL-FCV", "forward-consistent-view"),
    friendly(L::MonotonicSnapshotRead, "PL-MSR", "monotonic-snapshot-read"),
    friendly(L::SnapshotIsolation, "PL-SI", "snapshot-isolation"),
    Model {
        aliases: &["strict-serializable"],
        ..friendly(L::StrictSerializable, "PL-SS", "strong-serializable")
    },
    plain(L::Pram, "PRAM"),
    plain(L::ElleCausal, "causal"),
    plain(L::ElleCausalCerone, "causal-cerone"),
    plain(L::Linearizable, "linearizable"),
    plain(L::MonotonicAtomicView, "monotonic-atomic-view"),
    plain(L::ElleMonotonicReads, "monotonic-reads"),
    plain(L::ElleMonotonicWrites, "monotonic-writes"),
    plain(L::ElleParallelSnapshotIsolation, "parallel-snapshot-isolation"),
    plain(L::EllePrefix, "prefix"),
    plain(L::ElleReadAtomic, "read-atomic"),
    plain(L::ElleReadYourWrites, "read-your-writes"),
    plain(L::Sequential, "sequential"),
    plain(L::SessionSerializable, "session-serializable"),
    friendly(L::StrongReadUncommitted, "strong-PL-1", "strong-read-uncommitted"),
    friendly(L::StrongReadCommitted, "strong-PL-2", "strong-read-committed"),
    friendly(L::StrongSessionReadUncommitted, "strong-session-PL-1", "strong-session-read-uncommitted"),
    friendly(L::StrongSessionReadCommitted, "strong-session-PL-2", "strong-session-read-committed"),
    plain(L::StrongSessionSerializable, "strong-session-serializable"),
    plain(L::StrongSessionSnapshotIsolation, "strong-session-snapshot-isolation"),
    plain(L::StrongSnapshotIsolation, "strong-snapshot-isolation"),
    plain(L::UpdateAtomic, "update-atomic"),
    plain(L::ViewSerializable, "view-serializable"),
    plain(L::ElleWritesFollowReads, "writes-follow-reads"),
];
