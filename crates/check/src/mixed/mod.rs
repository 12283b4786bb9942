//! Mixed levels: every transaction under the level that it declares (metadata entry `level`), all in one commit order.
//!
//! **Definition.** There is one total order of the transactions that took effect such that each `t`, under its level `L`:
//! * reads only what comes earlier (not if `L` is read-uncommitted), and nothing that `L` forbids whatever the order;
//! * comes after the earlier transactions of its session if `L` has session order, and after whatever had ended when it began
//!   if `L` has real time;
//! * whenever it reads `x` from `t1`, every other writer of `x` that `L` makes visible to it comes before `t1`: for the weak
//!   levels what they always see; for prefix, whatever comes before (or is) something that it follows in its session or
//!   reads from; for snapshot isolation also whatever comes before (or is) an earlier writer of a key that it writes; for
//!   serializable and repeatable-read, whatever comes before it.
//!
//! Versions follow the order, so lists show it to everybody. This is Biswas & Enea's axiomatic framework with the axiom
//! chosen per reader (as Bouajjani, Enea & Román-Calvo 2024 mix levels); among PL-1, PL-2, PL-2.99 and PL-3 it says that
//! Adya's mixing graph is acyclic: `ww` edges always count, `wr` edges if the reader is PL-2 or above, `rw` edges if the
//! reader is PL-2.99 or above. A transaction that declares nothing promises nothing, as read-uncommitted.
//!
//! **Deciding.** What weak levels ask is known in advance and becomes edges: O(m·k) like causal. A reader at a snapshot or
//! serializable level leaves a choice (another writer comes before what it read, or after its snapshot); an order that
//! misses one is mended by trying its two sides in turn, with backtracking. Exponential at worst (mixing with serializable
//! is NP-hard), bounded by the budget.

mod demands;
mod search;

use crate::budget::Budget;
use crate::weak::Problem;
use demands::Demands;
use isolde_history::{FaultKind, TxnId};
use isolde_level::{Level, Mixed, Verdict};

/// How a level looks at its transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Family {
    /// Nothing is asked of its reads.
    Uncommitted,
    /// Only that it reads final values of earlier transactions.
    Committed,
    /// A key is read from one transaction; nothing else.
    Cut,
    /// What is visible does not depend on the order.
    Weak,
    /// It reads at its begin; with `conflicts`, nobody else writes its keys after that.
    Snapshot { conflicts: bool },
    /// It reads at its commit.
    Serial,
}

fn family(level: Level) -> Option<Family> {
    Some(match level {
        Level::ReadUncommitted => Family::Uncommitted,
        Level::AdyaReadCommitted => Family::Committed,
        Level::CutIsolation => Family::Cut,
        Level::ReadCommitted
        | Level::ReadAtomic
        | Level::Causal
        | Level::ReadYourWrites
        | Level::MonotonicReads
        | Level::MonotonicWrites
        | Level::WritesFollowReads => Family::Weak,
        Level::Prefix => Family::Snapshot { conflicts: false },
        Level::SnapshotIsolation | Level::StrongSessionSnapshotIsolation | Level::StrongSnapshotIsolation => {
            Family::Snapshot { conflicts: true }
        }
        Level::RepeatableRead
        | Level::Serializable
        | Level::StrongSessionSerializable
        | Level::StrictSerializable => Family::Serial,
        _ => return None,
    })
}

/// Judges the declared levels; `None` if no transaction declares one.
pub(crate) fn judge(problem: Problem<'_>, budget: &Budget<'_>) -> Option<Mixed> {
    let history = problem.history;
    let mut declared = vec![Level::ReadUncommitted; history.txn_count()];
    let mut counts: Vec<(Level, u64)> = Vec::new();
    let mut unclear = None;
    for (&t, facts) in history.metadata() {
        let Some(name) = facts.get("level") else { continue };
        let level = name.parse::<Level>().ok().filter(|&level| family(level).is_some());
        let Some(level) = level else {
            unclear.get_or_insert_with(|| (t, name.clone()));
            continue;
        };
        declared[t.index()] = level;
        match counts.iter_mut().find(|(l, _)| *l == level) {
            Some((_, count)) => *count += 1,
            None => counts.push((level, 1)),
        }
    }
    if counts.is_empty() && unclear.is_none() {
        return None;
    }
    counts.sort_unstable();
    let unknown = |reason: String| Verdict::Unknown { reason };
    let (verdict, transactions) = if let Some((t, name)) = unclear {
        let who = history.txn_name(t);
        (unknown(format!("{who} declares {name:?}, which cannot be mixed with other levels")), Vec::new())
    } else if problem.index.ambiguous_reads() > 0 {
        let reason = "reads return a value that several transactions wrote, so their source is open";
        (unknown(reason.to_owned()), Vec::new())
    } else {
        decide(problem, &declared, budget)
    };
    Some(Mixed { levels: counts, verdict, transactions })
}

/// The verdict and, for a violation, the transactions that contradict each other as far as that is known.
fn decide(problem: Problem<'_>, declared: &[Level], budget: &Budget<'_>) -> (Verdict, Vec<TxnId>) {
    if let Some(t) = faulty(problem, declared) {
        return (Verdict::Violated, vec![t]);
    }
    let Some(demands) = Demands::collect(problem, declared) else {
        return (Verdict::Violated, Vec::new());
    };
    match search::order(&demands, problem, budget) {
        search::Found::Order => (Verdict::Holds, Vec::new()),
        search::Found::Cycle(txns) => (Verdict::Violated, txns),
        search::Found::OutOfBudget => {
            let reason = "the time was up before an order was found or excluded".to_owned();
            (Verdict::Unknown { reason }, Vec::new())
        }
    }
}

/// Somebody whose level forbids one of its reads, whatever the order.
fn faulty(problem: Problem<'_>, declared: &[Level]) -> Option<TxnId> {
    for fault in problem.index.faults() {
        let t = problem.history.txn_of(fault.op);
        let forbidden = match (fault.kind, family(declared[t.index()])) {
            // Versions follow one order whoever looks.
            (FaultKind::IncompatibleOrder, _) => true,
            (_, Some(Family::Uncommitted | Family::Cut)) => false,
            (FaultKind::ThinAir | FaultKind::Aborted | FaultKind::Intermediate, _) => true,
            (_, Some(Family::Committed)) => false,
            _ => true,
        };
        if forbidden {
            return Some(t);
        }
    }
    // Read atomic and cut isolation: a key is read from one transaction.
    problem.committed().find(|&t| {
        let level = declared[t.index()];
        let reads: Vec<_> = problem.reads(t).collect();
        matches!(level, Level::CutIsolation | Level::ReadAtomic)
            && reads.iter().any(|a| reads.iter().any(|b| a.key == b.key && a.from != b.from))
    })
}
