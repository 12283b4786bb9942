//! From violations to verdicts per level, with one example of each kind.
//!
//! Snapshot isolation and serializability differ from their strong-session variants in SESSION alone; which
//! axiom breaks which level is in the table of `anomalist-level`. `Holds` is a proof by Definition 4: the
//! order of commits and the views are the abstract execution that it asks for.

use super::{Findings, find};
use crate::{Axiom, Mode, Rule, Tie, Violation};
use anomalist_history::{History, KeyId, OpId, TxnId};
use anomalist_level::Budget;
use anomalist_level::{
    Anomaly, AnomalyKind, By, Edge, Evidence, Judgement, Level, LevelVerdict, Relation, Verdict, Why, Witness,
};
use std::num::NonZeroUsize;

/// How many violations of an axiom are listed by default.
pub const LISTED: usize = 1000;

/// What to find out by timestamps.
#[derive(Clone, Debug)]
pub struct ByStamps {
    /// The levels; those that timestamps say nothing about are left out of the answer.
    pub levels: Vec<Level>,
    /// Look for just these anomalies; levels are then only refuted.
    pub anomalies: Option<Vec<AnomalyKind>>,
    /// What equal timestamps mean.
    pub tie: Tie,
    /// Threads to use.
    pub threads: NonZeroUsize,
}

/// Decides levels by timestamps, and returns what was found in each mode. `None` if the history has no
/// timestamps.
pub fn judge(
    history: &History,
    request: &ByStamps,
    budget: &Budget<'_>,
) -> Option<(Judgement, Vec<(Mode, Findings)>)> {
    history.stamps()?;
    let find = |mode| {
        let found = find(history, Rule { mode, tie: request.tie }, LISTED, request.threads, budget);
        found.ok().flatten()
    };
    Some(conclude(history, request, history.without_start(), find))
}

/// Decides levels by what was found in each mode (`None`: the search was ended). The history need not be the
/// whole: the transactions of the listed violations will do. `without_start` transactions of the whole have
/// no start timestamp.
pub fn conclude(
    history: &History,
    request: &ByStamps,
    without_start: usize,
    mut find: impl FnMut(Mode) -> Option<Findings>,
) -> (Judgement, Vec<(Mode, Findings)>) {
    let mut judgement = Judgement::default();
    let mut all = Vec::new();
    for mode in [Mode::Si, Mode::Ser] {
        let levels: Vec<Level> =
            request.levels.iter().copied().filter(|&level| Mode::of(level) == Some(mode)).collect();
        if levels.is_empty() {
            continue;
        }
        let untimed = if mode == Mode::Si { without_start } else { 0 };
        if untimed > 0 {
            let why = Why::NoStart { transactions: untimed };
            judgement.levels.extend(levels.iter().map(|&l| verdict(l, Verdict::Unknown(why.clone()))));
            continue;
        }
        let Some(found) = find(mode) else {
            judgement.levels.extend(levels.iter().map(|&l| verdict(l, Verdict::Unknown(Why::Stopped))));
            continue;
        };
        let wanted = |kind: AnomalyKind| {
            request.anomalies.as_ref().is_none_or(|kinds| kinds.iter().any(|k| k.code() == kind.code()))
        };
        let kinds: Vec<(Axiom, AnomalyKind)> = Axiom::ALL
            .into_iter()
            .map(|axiom| (axiom, axiom.kind(mode)))
            .filter(|&(axiom, kind)| found.count(axiom) > 0 && wanted(kind))
            .collect();
        for &level in &levels {
            let mut judged = verdict(level, Verdict::Holds);
            judged.anomalies = kinds.iter().map(|k| k.1).filter(|&kind| level.forbids(kind)).collect();
            judged.verdict = if judged.anomalies.is_empty() {
                holds(&found, mode, request.anomalies.is_some())
            } else {
                Verdict::Violated
            };
            judgement.levels.push(judged);
        }
        for (axiom, kind) in kinds {
            // INT is the same in both modes.
            if !judgement.anomalies.iter().any(|a| a.kind == kind) {
                judgement.anomalies.push(anomaly(history, kind, axiom, &found));
            }
        }
        all.push((mode, found));
    }
    judgement.levels.sort_by_key(|l| request.levels.iter().position(|&level| level == l.level));
    judgement.anomalies.sort_by_key(|a| a.kind);
    (judgement, all)
}

fn verdict(level: Level, verdict: Verdict) -> LevelVerdict {
    LevelVerdict { level, by: By::Timestamps, verdict, anomalies: Vec::new() }
}

/// The verdict where nothing breaks the level.
fn holds(found: &Findings, mode: Mode, only_some: bool) -> Verdict {
    let why = if only_some {
        Why::OnlyAsked
    } else if found.unjudged > 0 {
        Why::AppendedValue { reads: found.unjudged }
    } else if found.unmatched > 0 {
        Why::AppendsAtOnce { reads: found.unmatched }
    } else if found.open > 0 {
        Why::OutcomeChoice { reads: found.open }
    } else if found.forks && mode == Mode::Si {
        Why::ForkedSnapshots
    } else {
        return Verdict::Holds;
    };
    Verdict::Unknown(why)
}

/// All of a kind, with the listed one whose transactions are smallest as the example.
fn anomaly(history: &History, kind: AnomalyKind, axiom: Axiom, found: &Findings) -> Anomaly {
    let size = |t: Option<TxnId>| t.map_or(0, |t| history.op_range(t).len());
    let example = found
        .listed
        .iter()
        .filter(|v| v.axiom == axiom)
        .min_by_key(|v| size(Some(v.txn)) + size(v.other) + size(v.source));
    let witness = example.map(|v| witness(history, v)).unwrap_or_default();
    let places = found.listed.iter().filter(|v| v.axiom == axiom).map(|v| v.txn).collect();
    Anomaly::new(kind, found.count(axiom), witness).seen_in(places)
}

/// The operations first: the read, then the write that it should have returned or that conflicts. What was
/// read instead is an edge.
fn witness(history: &History, v: &Violation) -> Witness {
    let mut witness = Witness::default();
    let first = history.op_range(v.txn).start as u32;
    let read = v.read.map(|read| OpId(first + read));
    let mut involve = |t: TxnId| {
        if !witness.transactions.contains(&t) {
            witness.transactions.push(t);
        }
    };
    [v.other, v.source, Some(v.txn)].into_iter().flatten().for_each(&mut involve);
    witness.operations.extend(read);
    let last_write = |t: TxnId, key: KeyId| {
        history
            .ops(t)
            .filter(|(_, op)| op.kind != anomalist_history::OpKind::Read && op.key == key)
            .map(|(op, _)| op)
            .next_back()
    };
    match (v.axiom, v.key, read) {
        (Axiom::Int, Some(key), Some(read)) => {
            let before =
                history.ops(v.txn).filter(|(op, o)| *op < read && o.key == key).map(|(op, _)| op).next_back();
            witness.operations.extend(before);
        }
        (Axiom::NoConflict, Some(key), _) => {
            witness.operations.extend(v.other.and_then(|t| last_write(t, key)));
            witness.operations.extend(last_write(v.txn, key));
        }
        (Axiom::Ext | Axiom::Tie, Some(key), Some(read)) => {
            witness.operations.extend(v.other.and_then(|t| last_write(t, key)));
            if let Some(source) = v.source.filter(|&t| t != v.txn) {
                let value = history.op(read).value;
                let shown = |o: anomalist_history::Op| {
                    o.value == value || history.list(value).is_some_and(|l| l.contains(&o.value))
                };
                let write = history
                    .ops(source)
                    .filter(|(_, o)| o.kind != anomalist_history::OpKind::Read && o.key == key && shown(*o))
                    .map(|(op, _)| op)
                    .next_back();
                if write.is_some() {
                    witness.edges.push(Edge {
                        from: source.into(),
                        to: v.txn.into(),
                        relation: Relation::WriteRead,
                        evidence: Evidence::Read { write, read },
                    });
                }
            }
        }
        _ => {}
    }
    witness
}
