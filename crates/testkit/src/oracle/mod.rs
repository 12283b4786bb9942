//! The definitions, executed: every commit order is tried, every tuple is looked at.
//!
//! Exponential on purpose, for up to about seven transactions (32 at most). Every item cites what it
//! transcribes; nothing here is clever, and nothing is shared with an engine. A key is a register or a
//! list, never both.

pub mod adya;
mod levels;
mod map;
mod mixed;
mod reading;
mod relation;
mod stamps;
mod strong;
mod taps;

pub use map::{Oracle, decide, loose, of, strong_levels, weak_levels};
pub use stamps::{StampFault, StampRule, stamp_faults};

use anomalist_history::History;
use std::fmt;

/// The levels that this oracle decides (`docs/spec/levels.md` 2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub enum WeakLevel {
    /// No TAP-j: external reads of one key in one transaction have one source.
    CutIsolation,
    /// Visible to a read: who the transaction read from earlier.
    ReadCommitted,
    /// Visible: who the transaction reads from, and earlier transactions of its session; and no TAP-j.
    ReadAtomic,
    /// Visible: everything that happens before the transaction.
    Causal,
    /// Visible: earlier transactions of the session (`so`).
    ReadYourWrites,
    /// Visible: who earlier transactions of the session read from (`wr;so`).
    MonotonicReads,
    /// Visible: transactions before, in its session, one that this transaction reads from (`so;wr`).
    MonotonicWrites,
    /// Visible: `wr;so;wr`.
    WritesFollowReads,
}

impl WeakLevel {
    /// All of them.
    pub const ALL: [WeakLevel; 8] = [
        WeakLevel::CutIsolation,
        WeakLevel::ReadCommitted,
        WeakLevel::ReadAtomic,
        WeakLevel::Causal,
        WeakLevel::ReadYourWrites,
        WeakLevel::MonotonicReads,
        WeakLevel::MonotonicWrites,
        WeakLevel::WritesFollowReads,
    ];
}

/// At most in how many ways the reads of a history can be explained: an oracle tries them all.
pub fn explanations(history: &History) -> u64 {
    reading::Facts::new(history).explanations()
}

/// True if the history satisfies the level, under some choice of sources for reads that several
/// transactions explain.
///
/// All levels but cut isolation also require that no read is faulty (TAP-a to TAP-f, an element twice in a
/// list) and that `so ∪ wr` is acyclic (TAP-g).
///
/// # Panics
/// On a history of more than 32 transactions, or with a key that is both written and appended to.
///
/// ```
/// use anomalist_testkit::{mini::history, oracle::{WeakLevel, satisfies}};
/// let fractured = history("w(x,1) w(y,1) || r(x,0) r(y,1)");
/// assert!(satisfies(&fractured, WeakLevel::ReadCommitted));
/// assert!(!satisfies(&fractured, WeakLevel::ReadAtomic));
/// ```
pub fn satisfies(history: &History, level: WeakLevel) -> bool {
    levels::satisfies(history, level, &[])
}

/// [`satisfies`] with versions in a given order: of each pair the first transaction commits first.
pub fn satisfies_in(history: &History, level: WeakLevel, versions: &[(usize, usize)]) -> bool {
    levels::satisfies(history, level, versions)
}

/// What is executed for a strong level.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub enum Executed {
    /// One transaction after another.
    Serially,
    /// Begins and commits: each transaction reads what was committed when it began, and no other commits
    /// a write of its keys between its begin and its commit.
    FromSnapshots,
    /// The same without the rule about writes.
    FromPrefixes,
    /// There are orders `ww` of each key's writers with `(so ∪ wr ∪ ww)+ ; rw?` irreflexive.
    InParallel,
}

/// A strong level (`docs/spec/levels.md` 3): some execution shows what was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub struct StrongLevel {
    /// What is executed.
    pub executed: Executed,
    /// A transaction begins after its session's earlier ones committed.
    pub sessions: bool,
    /// A transaction begins after those that had ended by then committed.
    pub real_time: bool,
}

impl StrongLevel {
    const fn new(executed: Executed, sessions: bool, real_time: bool) -> StrongLevel {
        StrongLevel { executed, sessions, real_time }
    }

    /// Serializable.
    pub const SERIALIZABLE: StrongLevel = StrongLevel::new(Executed::Serially, false, false);
    /// Serializable with session order.
    pub const STRONG_SESSION_SERIALIZABLE: StrongLevel = StrongLevel::new(Executed::Serially, true, false);
    /// Serializable with real time.
    pub const STRICT_SERIALIZABLE: StrongLevel = StrongLevel::new(Executed::Serially, true, true);
    /// Snapshot isolation.
    pub const SNAPSHOT_ISOLATION: StrongLevel = StrongLevel::new(Executed::FromSnapshots, false, false);
    /// Snapshot isolation with session order.
    pub const STRONG_SESSION_SNAPSHOT_ISOLATION: StrongLevel =
        StrongLevel::new(Executed::FromSnapshots, true, false);
    /// Snapshot isolation with real time.
    pub const STRONG_SNAPSHOT_ISOLATION: StrongLevel = StrongLevel::new(Executed::FromSnapshots, true, true);
    /// Prefix consistency.
    pub const PREFIX: StrongLevel = StrongLevel::new(Executed::FromPrefixes, true, false);
    /// Parallel snapshot isolation.
    pub const PARALLEL_SNAPSHOT_ISOLATION: StrongLevel = StrongLevel::new(Executed::InParallel, true, false);

    /// All of them.
    pub const ALL: [StrongLevel; 8] = [
        StrongLevel::SERIALIZABLE,
        StrongLevel::STRONG_SESSION_SERIALIZABLE,
        StrongLevel::STRICT_SERIALIZABLE,
        StrongLevel::SNAPSHOT_ISOLATION,
        StrongLevel::STRONG_SESSION_SNAPSHOT_ISOLATION,
        StrongLevel::STRONG_SNAPSHOT_ISOLATION,
        StrongLevel::PREFIX,
        StrongLevel::PARALLEL_SNAPSHOT_ISOLATION,
    ];
}

/// True if the history satisfies the level, under some choice of sources for reads that several
/// transactions explain. `None`: the level is about real time, and the history has none.
///
/// Every level requires that no read is faulty (TAP-a to TAP-f, an element twice in a list).
///
/// # Panics
/// As [`satisfies`].
///
/// ```
/// use anomalist_testkit::{mini::history, oracle::{StrongLevel, strongly_satisfies}};
/// let write_skew = history("r(x,0) w(y,1) || r(y,0) w(x,1)");
/// assert_eq!(strongly_satisfies(&write_skew, StrongLevel::SNAPSHOT_ISOLATION), Some(true));
/// assert_eq!(strongly_satisfies(&write_skew, StrongLevel::SERIALIZABLE), Some(false));
/// assert_eq!(strongly_satisfies(&write_skew, StrongLevel::STRICT_SERIALIZABLE), None);
/// ```
pub fn strongly_satisfies(history: &History, level: StrongLevel) -> Option<bool> {
    strong::satisfies(history, level, &[])
}

/// [`strongly_satisfies`] with versions in a given order: of each pair the first transaction commits first.
pub fn strongly_satisfies_in(
    history: &History,
    level: StrongLevel,
    versions: &[(usize, usize)],
) -> Option<bool> {
    strong::satisfies(history, level, versions)
}

/// Adya's levels below serializability that are no weak or strong level of the above.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub enum AdyaLevel {
    /// PL-1: lists show one order of writes.
    ReadUncommitted,
    /// PL-2: and everybody reads what is final and committed, after it was.
    ReadCommitted,
    /// PL-3U: the transactions that write are serializable, and so are they with any one that only reads.
    UpdateSerializable,
}

/// True if the history satisfies the level, under some choice of sources for reads that several
/// transactions explain. `None`: some read contradicts its own transaction's writes, or shows an element
/// twice. What PL-1 and PL-2 make of those is [`adya`]'s business.
///
/// # Panics
/// As [`satisfies`].
///
/// ```
/// use anomalist_testkit::{mini::history, oracle::{AdyaLevel, loosely_satisfies}};
/// let long_fork = history("w(x,1) || w(y,1) || r(x,1) r(y,0) || r(x,0) r(y,1)");
/// assert_eq!(loosely_satisfies(&long_fork, AdyaLevel::UpdateSerializable), Some(true));
/// ```
pub fn loosely_satisfies(history: &History, level: AdyaLevel) -> Option<bool> {
    match level {
        AdyaLevel::UpdateSerializable => strong::updates(history),
        AdyaLevel::ReadCommitted => levels::flows(history, true),
        AdyaLevel::ReadUncommitted => levels::flows(history, false),
    }
}

/// True if one commit order suits every transaction at its own level: `levels` has one for each.
///
/// Levels without one commit order (parallel snapshot isolation, PL-3U) are taken for serializable. A read
/// that nothing explains counts against everybody, so histories with such reads are not for mixing.
///
/// # Panics
/// As [`satisfies`].
pub fn mixed(history: &History, levels: &[anomalist_level::Level]) -> bool {
    mixed::satisfies(history, levels)
}

/// How many instances of each TAP (a to n) a history has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct TapCounts(pub [u64; 14]);

impl TapCounts {
    /// Instances of one TAP, by its letter.
    ///
    /// # Panics
    /// If there is no such TAP.
    pub fn get(&self, letter: char) -> u64 {
        let i = (letter as usize).wrapping_sub('a' as usize);
        self.0.get(i).copied().unwrap_or_else(|| panic!("TAPs are a to n, not {letter}"))
    }

    /// True if there is no instance of TAP-a up to this one.
    pub fn none_through(&self, letter: char) -> bool {
        ('a'..=letter).all(|l| self.get(l) == 0)
    }
}

/// The letters found, in order, each with its count if there is more than one: `a2 h`.
impl fmt::Display for TapCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut space = "";
        for (letter, &count) in ('a'..).zip(&self.0).filter(|(_, count)| **count > 0) {
            write!(f, "{space}{letter}")?;
            if count > 1 {
                write!(f, "{count}")?;
            }
            space = " ";
        }
        Ok(())
    }
}

/// What to do with (read of `x`, `t2`) when the transaction also reads `x` itself from `t2`, which is a
/// TAP-j.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RepeatedRead {
    /// It still may be a TAP-h or TAP-i, but is none of k to n. This makes "RC ⟺ no a–i" true.
    #[default]
    JUnlessHOrI,
    /// It is only a TAP-j.
    OnlyJ,
}

/// Counts the TAPs of a history. Reads that several transactions may explain are left out: they read from
/// no transaction.
///
/// ```
/// use anomalist_testkit::{mini::history, oracle::taps};
/// assert_eq!(taps(&history("w(x,1) !abort || r(x,1) r(y,7)")).to_string(), "a b");
/// ```
pub fn taps(history: &History) -> TapCounts {
    taps::taps(history, RepeatedRead::default())
}

/// [`taps`] with the other answer to a question on which the design text can be read in two ways.
///
/// ```
/// use anomalist_testkit::{mini::history, oracle::{RepeatedRead, taps_with}};
/// let h = history("w(x,1); w(x,2) || r(x,2) r(x,1)");
/// assert_eq!(taps_with(&h, RepeatedRead::JUnlessHOrI).to_string(), "h j");
/// assert_eq!(taps_with(&h, RepeatedRead::OnlyJ).to_string(), "j");
/// ```
pub fn taps_with(history: &History, repeated: RepeatedRead) -> TapCounts {
    taps::taps(history, repeated)
}
