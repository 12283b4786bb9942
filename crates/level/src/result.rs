//! The shape of an answer: verdicts, and anomalies with their evidence.
//!
//! Checkers make these, `report` shows them, `verify` checks them again from the raw operations. Everything
//! refers to the history by id; names and values stay there.

use crate::anomaly::AnomalyKind;
use crate::definitions::Definitions;
use crate::level::Level;
use crate::proof::{Certificate, Refutation};
use crate::why::Why;
use anomalist_history::{History, OpId, TxnId};
use std::fmt;
use std::sync::Arc;

/// A node of a witness: a transaction or the initial state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Node {
    /// The state before every transaction.
    Initial,
    /// A transaction.
    Txn(TxnId),
}

impl From<TxnId> for Node {
    fn from(txn: TxnId) -> Node {
        Node::Txn(txn)
    }
}

/// Why one node comes before another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Relation {
    /// Both are of one session, in this order.
    SessionOrder,
    /// The second read what the first wrote.
    WriteRead,
    /// The level's axiom forces the first to commit before the second.
    Required,
    /// Both wrote a key, in this order.
    VersionOrder,
    /// The second replaced what the first read.
    AntiDependency,
    /// The second changed what matches a predicate that the first read by.
    PredicateAntiDependency,
    /// The first had ended when the second began.
    RealTime,
}

impl Relation {
    /// The short name: `so`, `wr`, `cm`, `ww`, `rw`, `rwp`, `rt`.
    pub const fn name(self) -> &'static str {
        match self {
            Relation::SessionOrder => "so",
            Relation::WriteRead => "wr",
            Relation::Required => "cm",
            Relation::VersionOrder => "ww",
            Relation::AntiDependency => "rw",
            Relation::PredicateAntiDependency => "rwp",
            Relation::RealTime => "rt",
        }
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A dependency, with what proves it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Edge {
    /// The node that comes first.
    pub from: Node,
    /// The node that comes later.
    pub to: Node,
    /// In which sense.
    pub relation: Relation,
    /// The operations that show it.
    pub evidence: Evidence,
}

/// The operations that prove an edge.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Evidence {
    /// The two transactions' places in their session.
    Session,
    /// `read` returned what `write` wrote.
    Read {
        /// The write; none for the initial value.
        write: Option<OpId>,
        /// The read.
        read: OpId,
    },
    /// `read` returned `to`'s value although `from`, which also writes the key, was visible to it; so
    /// `from` must come first.
    Forced {
        /// The read.
        read: OpId,
        /// `to`'s write, which the read returned; none for the initial value.
        overwritten: Option<OpId>,
        /// `from`'s write of the same key.
        visible_write: OpId,
        /// Why `from` was visible to the reader: edges from the one to the other.
        path: Vec<Edge>,
    },
    /// `first` comes before `second` in the version order of their key. On lists: `first` is right before
    /// `second` in the list that `read` returned, or is its last element and `second` is missing from it.
    /// On registers: `read`, of `second`'s transaction, returned `first`, so any other order would be
    /// circular.
    Version {
        /// The earlier write.
        first: OpId,
        /// The later write.
        second: OpId,
        /// The read that shows it.
        read: OpId,
    },
    /// The two transactions' intervals.
    RealTime,
    /// `write` made the version after the one that `read` returned.
    Overwritten {
        /// The read.
        read: OpId,
        /// The write of the version that it returned; none for the initial one.
        seen: Option<OpId>,
        /// The write of a later version.
        write: OpId,
        /// Why that version is later.
        reason: VersionReason,
    },
    /// `first` wrote a version of a register before the one that `second` wrote.
    Ordered {
        /// The earlier write.
        first: OpId,
        /// The later write.
        second: OpId,
        /// Why it is later.
        reason: VersionReason,
    },
    /// Another source says so: an analyser that a user of the library supplied.
    Given {
        /// Its reason, as a sentence without a full stop.
        reason: Box<str>,
        /// The operations it rests on.
        operations: Vec<OpId>,
    },
}

impl Evidence {
    /// The operations named here, in no particular order; those of a forced edge's path are not among them.
    pub fn operations(&self) -> Vec<OpId> {
        match self {
            Evidence::Session | Evidence::RealTime => Vec::new(),
            Evidence::Read { write, read } => write.iter().chain([read]).copied().collect(),
            Evidence::Forced { read, overwritten, visible_write, .. } => {
                overwritten.iter().chain([read, visible_write]).copied().collect()
            }
            Evidence::Version { first, second, read } => vec![*first, *second, *read],
            Evidence::Overwritten { read, seen, write, reason } => {
                seen.iter().chain([read, write]).copied().chain(reason.operations()).collect()
            }
            Evidence::Ordered { first, second, reason } => {
                [*first, *second].into_iter().chain(reason.operations()).collect()
            }
            Evidence::Given { operations, .. } => operations.clone(),
        }
    }
}

/// Why one version of a key is later than another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum VersionReason {
    /// The initial state comes before every write.
    Initial,
    /// The list that a read returned shows the one before the other.
    Shown {
        /// The read.
        read: OpId,
    },
    /// The later one is missing from the longest read of the list.
    Missing {
        /// That read; none if no read of the key returned anything.
        read: Option<OpId>,
    },
    /// A transaction read the one and then wrote the other, and keys were said to be written only after
    /// what was read.
    ReadThenWritten {
        /// The read.
        read: OpId,
    },
    /// A session saw or wrote the one before the other, and single keys were said to be sequential.
    Session {
        /// The operation on the earlier version.
        before: OpId,
        /// The operation on the later version.
        after: OpId,
    },
    /// As `Session`, by real time: single keys were said to be linearizable.
    RealTime {
        /// The operation on the earlier version.
        before: OpId,
        /// The operation on the later version.
        after: OpId,
    },
    /// The order of transactions that the caller gave.
    Given,
    /// The order of commit timestamps.
    Stamps,
    /// The version numbers that the database gave.
    Numbered,
}

impl VersionReason {
    /// The operations that it rests on.
    pub fn operations(self) -> Vec<OpId> {
        match self {
            VersionReason::Initial
            | VersionReason::Given
            | VersionReason::Stamps
            | VersionReason::Numbered => Vec::new(),
            VersionReason::Shown { read } | VersionReason::ReadThenWritten { read } => vec![read],
            VersionReason::Missing { read } => read.into_iter().collect(),
            VersionReason::Session { before, after } | VersionReason::RealTime { before, after } => {
                vec![before, after]
            }
        }
    }
}

/// What contradicts itself: everything needed to check an anomaly by hand.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Witness {
    /// The transactions involved.
    pub transactions: Vec<TxnId>,
    /// The operations that matter.
    pub operations: Vec<OpId>,
    /// The cycle or triangle, in order; empty where the operations alone are the contradiction.
    pub edges: Vec<Edge>,
    /// Why no order exists, of an anomaly that says no more than that: every output tells the example with
    /// this proof, never with another one of the same level.
    pub refutation: Option<Arc<Refutation>>,
}

impl Witness {
    /// The example that a refutation is: the transactions and operations that it names, and these
    /// operations.
    pub fn refuted(
        history: &History,
        refutation: Refutation,
        also: impl IntoIterator<Item = OpId>,
    ) -> Witness {
        let (mut transactions, mut operations) = refutation.names(history);
        for op in also {
            operations.push(op);
            transactions.push(history.txn_of(op));
        }
        transactions.sort_unstable();
        transactions.dedup();
        operations.sort_unstable();
        operations.dedup();
        Witness { transactions, operations, edges: Vec::new(), refutation: Some(Arc::new(refutation)) }
    }
}

/// A kind of anomaly found in a history: how often, and one small example.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Anomaly {
    /// The kind.
    pub kind: AnomalyKind,
    /// The number of instances, as [`AnomalyInfo::instance`](crate::AnomalyInfo::instance) counts them.
    pub count: u64,
    /// One of them.
    pub witness: Witness,
    /// A transaction of each instance, as far as the engine that counted them knows one: the reader of a
    /// read, the first of a cycle. Ascending, each once; empty if only the example is known.
    pub places: Vec<TxnId>,
}

impl Anomaly {
    /// So many instances, of which only the example is known.
    pub const fn new(kind: AnomalyKind, count: u64, witness: Witness) -> Anomaly {
        Anomaly { kind, count, witness, places: Vec::new() }
    }

    /// With a transaction of each instance, in any order.
    pub fn seen_in(mut self, mut places: Vec<TxnId>) -> Anomaly {
        places.sort_unstable();
        places.dedup();
        self.places = places;
        self
    }
}

/// The answer for a level.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Decided: the history satisfies the level.
    Holds,
    /// Decided: it does not.
    Violated,
    /// Not decided.
    Unknown(Why),
}

impl Verdict {
    /// The word for it: `holds`, `violated`, `unknown`.
    pub const fn name(&self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Violated => "violated",
            Verdict::Unknown(_) => "unknown",
        }
    }
}

/// What a verdict rests on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum By {
    /// What the operations read and wrote.
    Values,
    /// The stamps that the database gave the transactions, as well.
    Timestamps,
}

impl By {
    /// The word for it: `values`, `timestamps`.
    pub const fn name(self) -> &'static str {
        match self {
            By::Values => "values",
            By::Timestamps => "timestamps",
        }
    }
}

/// The answer for one level, on one footing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LevelVerdict {
    /// The level.
    pub level: Level,
    /// What the verdict rests on.
    pub by: By,
    /// The verdict.
    pub verdict: Verdict,
    /// The kinds of anomaly that violate the level; each has its entry in [`Judgement::anomalies`].
    pub anomalies: Vec<AnomalyKind>,
}

/// The answer for a history whose transactions declare levels: each under its own, all in one commit order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mixed {
    /// The levels declared, weakest first, and how many transactions declare each.
    pub levels: Vec<(Level, u64)>,
    /// The verdict.
    pub verdict: Verdict,
    /// If violated: transactions that contradict each other.
    pub transactions: Vec<TxnId>,
    /// Why, if it is violated, or proofs were asked for.
    pub proof: Option<Certificate>,
}

impl Default for Mixed {
    fn default() -> Mixed {
        let verdict = Verdict::Unknown(Why::Stopped);
        Mixed { levels: Vec::new(), verdict, transactions: Vec::new(), proof: None }
    }
}

/// The answer for a kind of anomaly that was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sought {
    /// There is one; its entry is in [`Judgement::anomalies`].
    Found,
    /// It is decided that there is none.
    Absent,
    /// None was found, and that is no proof.
    Unknown(Why),
}

impl Sought {
    /// The word for it: `found`, `absent`, `unknown`.
    pub const fn name(&self) -> &'static str {
        match self {
            Sought::Found => "found",
            Sought::Absent => "absent",
            Sought::Unknown(_) => "unknown",
        }
    }
}

/// Everything found out about one history.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Judgement {
    /// One entry per level and footing, in the order of the table.
    pub levels: Vec<LevelVerdict>,
    /// One entry per kind found.
    pub anomalies: Vec<Anomaly>,
    /// Further examples of the same kinds, one per component, if they were asked for; their counts are 1.
    pub further: Vec<Anomaly>,
    /// Proofs, if they were asked for: of levels that hold, and of levels refuted by more than one cycle.
    /// What a level implies holds with it, and what implies a violated level is violated with it.
    pub certificates: Vec<(Level, Certificate)>,
    /// If transactions declare levels of their own: the answer for those.
    pub mixed: Option<Mixed>,
    /// If only some kinds of anomaly were asked for: the answer for each.
    pub sought: Vec<(AnomalyKind, Sought)>,
    /// Whose definitions of the weak levels and of TAP-a to TAP-n the answers follow.
    pub definitions: Definitions,
    /// What a reader should know besides, in sentences.
    pub notes: Vec<String>,
    /// Verdicts on levels that were not asked for, as far as they came up on the way; without proofs.
    pub beyond: Vec<(Level, Verdict)>,
}

impl Judgement {
    /// The strongest levels that hold: those that no other level that holds implies.
    ///
    /// A level judged both by values and by timestamps counts only if it holds by both.
    pub fn strongest(&self) -> Vec<Level> {
        let mut holding: Vec<Level> = self
            .levels
            .iter()
            .map(|l| l.level)
            .filter(|&l| self.verdict(l) == Some(&Verdict::Holds))
            .collect();
        holding.sort();
        Level::strongest(&holding)
    }

    /// The verdict on a level. If it was judged by values and by timestamps, the worse of the two:
    /// violated, then unknown.
    pub fn verdict(&self, level: Level) -> Option<&Verdict> {
        let badness = |verdict: &Verdict| match verdict {
            Verdict::Holds => 0,
            Verdict::Unknown(_) => 1,
            Verdict::Violated => 2,
        };
        self.levels.iter().filter(|l| l.level == level).map(|l| &l.verdict).max_by_key(|v| badness(v))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(levels: &[(Level, By, Verdict)]) -> Judgement {
        let levels = levels
            .iter()
            .cloned()
            .map(|(level, by, verdict)| LevelVerdict { level, by, verdict, anomalies: Vec::new() })
            .collect();
        Judgement { levels, ..Judgement::default() }
    }

    #[test]
    fn the_strongest_levels_are_the_maximal_ones_that_hold() {
        let judgement = judged(&[
            (Level::Serializable, By::Values, Verdict::Violated),
            (Level::RepeatableRead, By::Values, Verdict::Unknown(Why::Stopped)),
            (Level::Causal, By::Values, Verdict::Holds),
            (Level::ReadAtomic, By::Values, Verdict::Holds),
            (Level::SnapshotIsolation, By::Values, Verdict::Holds),
            (Level::ReadCommitted, By::Values, Verdict::Holds),
        ]);
        assert_eq!(judgement.strongest(), [Level::Causal, Level::SnapshotIsolation]);
        assert_eq!(judgement.verdict(Level::Prefix), None);
    }

    #[test]
    fn a_level_judged_twice_has_the_worse_verdict() {
        let si = Level::SnapshotIsolation;
        let judgement = judged(&[(si, By::Values, Verdict::Holds), (si, By::Timestamps, Verdict::Violated)]);
        assert_eq!(judgement.verdict(si), Some(&Verdict::Violated));
        assert_eq!(judgement.strongest(), []);
    }
}
