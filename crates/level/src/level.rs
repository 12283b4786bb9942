//! Levels: the enum, the questions one asks about a level, and its rows (`canonical.rs`, `further.rs`).
//!
//! Implications and prohibitions are closed when the crate is compiled, so every question below is a few bit
//! operations. To add a level, add its name to the enum and its row, at the same position, to one of the two tables.

mod canonical;
mod further;

use crate::anomaly::AnomalyKind;
use crate::names::{did_you_mean, nearest, normalise, transitive, vocabulary};
use std::fmt;
use std::str::FromStr;

vocabulary! {
    /// An isolation level. Every name has exactly one meaning here, whatever else the literature calls by it.
    ///
    /// The first twenty are the canonical ones, weakest first; then Elle's further models, with the prefix `elle:`
    /// where a canonical level has the same name and another meaning.
    Level {
        ReadUncommitted "read-uncommitted",
        AdyaReadCommitted "adya-read-committed",
        CutIsolation "cut-isolation",
        ReadCommitted "read-committed",
        ReadYourWrites "read-your-writes",
        MonotonicReads "monotonic-reads",
        MonotonicWrites "monotonic-writes",
        WritesFollowReads "writes-follow-reads",
        ReadAtomic "read-atomic",
        Causal "causal",
        Prefix "prefix",
        ParallelSnapshotIsolation "parallel-snapshot-isolation",
        SnapshotIsolation "snapshot-isolation",
        StrongSessionSnapshotIsolation "strong-session-snapshot-isolation",
        StrongSnapshotIsolation "strong-snapshot-isolation",
        RepeatableRead "repeatable-read",
        UpdateSerializable "update-serializable",
        Serializable "serializable",
        StrongSessionSerializable "strong-session-serializable",
        StrictSerializable "strict-serializable",
        ElleReadUncommitted "elle:read-uncommitted",
        MonotonicView "monotonic-view",
        CursorStability "cursor-stability",
        ConsistentView "consistent-view",
        ForwardConsistentView "forward-consistent-view",
        MonotonicSnapshotRead "monotonic-snapshot-read",
        MonotonicAtomicView "monotonic-atomic-view",
        ElleReadAtomic "elle:read-atomic",
        UpdateAtomic "update-atomic",
        ElleCausalCerone "elle:causal-cerone",
        EllePrefix "elle:prefix",
        ElleParallelSnapshotIsolation "elle:parallel-snapshot-isolation",
        StrongSessionReadUncommitted "strong-session-read-uncommitted",
        StrongSessionReadCommitted "strong-session-read-committed",
        StrongReadUncommitted "strong-read-uncommitted",
        StrongReadCommitted "strong-read-committed",
        ElleMonotonicReads "elle:monotonic-reads",
        ElleMonotonicWrites "elle:monotonic-writes",
        ElleReadYourWrites "elle:read-your-writes",
        ElleWritesFollowReads "elle:writes-follow-reads",
        Pram "pram",
        ElleCausal "elle:causal",
        Sequential "sequential",
        Linearizable "linearizable",
        ViewSerializable "view-serializable",
        OneCopySerializable "1sr",
        SessionSerializable "session-serializable",
    }
}

/// One row of the table: everything Anomalist knows about a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelInfo {
    /// The level.
    pub level: Level,
    /// Its one name.
    pub name: &'static str,
    /// Other spellings that are understood, in lower case.
    pub aliases: &'static [&'static str],
    /// The order of transactions in a session binds it.
    pub session_order: bool,
    /// The order of transactions in real time binds it.
    pub real_time: bool,
    /// Known by name only: nothing here defines it, so unless an implication decides it its verdict is unknown.
    pub name_only: bool,
    /// Elle's canonical name (`PL-2`), where Elle has a model with this meaning.
    pub elle_name: Option<&'static str>,
    /// What it promises.
    pub definition: &'static str,
    /// Where the definition comes from.
    pub source: &'static str,
    /// Where the letter of Plume's paper differs, if it does.
    pub in_plume: Option<&'static str>,
    /// The levels it implies directly; [`Level::implies`] is the closure.
    pub implies: &'static [Level],
    /// The anomalies that it forbids itself, beyond those of the levels it implies; [`Level::forbids`] is the
    /// closure.
    pub forbids: &'static [AnomalyKind],
    /// A small history that satisfies it, in the testkit's language: `||` between sessions, `;` between transactions.
    pub example_accepts: Option<&'static str>,
    /// A small history that violates it.
    pub example_rejects: Option<&'static str>,
}

impl LevelInfo {
    /// An empty row; tables fill in the rest with `..LevelInfo::row(level)`.
    const fn row(level: Level) -> LevelInfo {
        LevelInfo {
            level,
            name: level.name(),
            aliases: &[],
            session_order: false,
            real_time: false,
            name_only: false,
            elle_name: None,
            definition: "",
            source: "",
            in_plume: None,
            implies: &[],
            forbids: &[],
            example_accepts: None,
            example_rejects: None,
        }
    }
}

const COUNT: usize = Level::ALL.len();

const fn row(index: usize) -> &'static LevelInfo {
    let first = canonical::TABLE.len();
    if index < first { &canonical::TABLE[index] } else { &further::TABLE[index - first] }
}

/// For each level the set of levels it implies, itself included.
static IMPLIED: [u128; COUNT] = {
    let (mut rows, mut i) = ([0; COUNT], 0);
    while i < COUNT {
        rows[i] = 1 << i | Level::bits(row(i).implies);
        i += 1;
    }
    transitive(rows)
};

/// For each level the set of anomalies it forbids.
static FORBIDDEN: [u128; COUNT] = {
    let (mut rows, mut level) = ([0; COUNT], 0);
    while level < COUNT {
        let (mut direct, mut weaker) = (0, 0);
        while weaker < COUNT {
            if IMPLIED[level] >> weaker & 1 == 1 {
                direct |= AnomalyKind::bits(row(weaker).forbids);
            }
            weaker += 1;
        }
        // Levels by timestamps do not inherit: serializable places a transaction at its commit and so never sees
        // NOCONFLICT, although snapshot isolation, which it implies by values, forbids it.
        let stamps = AnomalyKind::STAMPS & AnomalyKind::bits(row(level).forbids);
        rows[level] = AnomalyKind::all_implying(direct & !AnomalyKind::STAMPS) | stamps;
        level += 1;
    }
    rows
};

impl Level {
    /// The twenty levels that Anomalist decides, weakest first.
    pub const CANONICAL: &'static [Level] = Level::ALL.split_at(canonical::TABLE.len()).0;

    /// Its row of the table.
    pub fn info(self) -> &'static LevelInfo {
        row(self.index())
    }

    /// Whether every history that satisfies `self` satisfies `other`. Reflexive and transitive.
    ///
    /// This is about levels decided by values. By timestamps a level is a statement about stamps as well, and none
    /// follows from another.
    pub fn implies(self, other: Level) -> bool {
        IMPLIED[self.index()] & other.bit() != 0
    }

    /// Every level it implies, itself included, in the order of the table.
    pub fn implied(self) -> impl Iterator<Item = Level> {
        Level::ALL.iter().copied().filter(move |&other| self.implies(other))
    }

    /// Whether a history with this anomaly cannot satisfy the level: it, or a level it implies, forbids the anomaly
    /// or one that the anomaly implies. The codes of the timestamp check (EXT, NOCONFLICT …) are not inherited.
    pub fn forbids(self, kind: AnomalyKind) -> bool {
        FORBIDDEN[self.index()] & kind.bit() != 0
    }

    /// Whether it is one of the twenty of [`Level::CANONICAL`].
    pub fn is_canonical(self) -> bool {
        self.index() < Level::CANONICAL.len()
    }

    /// The weakest of `levels`: those that imply no other of them. Keeps the order, drops repetitions.
    pub fn weakest(levels: &[Level]) -> Vec<Level> {
        extremes(levels, |level, other| level.implies(other))
    }

    /// The strongest of `levels`: those that no other of them implies. Keeps the order, drops repetitions.
    pub fn strongest(levels: &[Level]) -> Vec<Level> {
        extremes(levels, |level, other| other.implies(level))
    }
}

/// The elements that no other element of `levels` beats.
pub(crate) fn extremes(levels: &[Level], beaten: impl Fn(Level, Level) -> bool) -> Vec<Level> {
    let mut kept = Vec::new();
    for &level in levels {
        if !kept.contains(&level) && !levels.iter().any(|&other| other != level && beaten(level, other)) {
            kept.push(level);
        }
    }
    kept
}

/// No level has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownLevel {
    /// What was given.
    pub input: String,
    /// Names it may have meant, nearest first; at most three.
    pub suggestions: Vec<&'static str>,
}

impl fmt::Display for UnknownLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown level `{}`{}", self.input, did_you_mean(&self.suggestions))
    }
}

impl std::error::Error for UnknownLevel {}

impl FromStr for Level {
    type Err = UnknownLevel;

    /// By name or alias; case does not matter, and `_` or a space may stand for the hyphen.
    fn from_str(typed: &str) -> Result<Level, UnknownLevel> {
        let wanted = normalise(typed);
        let known =
            |level: &&Level| level.name() == wanted || level.info().aliases.contains(&wanted.as_str());
        if let Some(&level) = Level::ALL.iter().find(known) {
            return Ok(level);
        }
        let spellings = Level::ALL.iter().flat_map(|level| {
            std::iter::once(level.name())
                .chain(level.info().aliases.iter().copied())
                .map(|spelling| (spelling, level.name()))
        });
        Err(UnknownLevel { input: typed.to_owned(), suggestions: nearest(typed, spellings) })
    }
}
