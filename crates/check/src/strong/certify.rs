//! From an order of events to the execution that proves a level.

use super::facts::From;
use super::model::{Family, Model};
use super::scan::Decided;
use super::search::Decisions;
use super::solver::Solver;
use isolde_history::{Source, TxnId};
use isolde_level::{Choice, Execution, Order};

/// The execution behind an order that misses nothing. Transactions of unknown outcome that nobody turns out to have read
/// are left out.
pub(crate) fn execution(model: &Model<'_>, solver: &Solver) -> Execution {
    let (facts, rules) = (model.facts, model.rules);
    let order: Vec<u32> = solver.order.order().iter().copied().filter(|&node| model.counts(node)).collect();
    let mut counts = facts.certain.clone();
    let mut choices = Vec::new();
    if !facts.open.is_empty() {
        let sources = sources(model, solver, &order);
        let mut work: Vec<TxnId> = facts.txns().filter(|t| counts[t.index()]).collect();
        while let Some(t) = work.pop() {
            for i in facts.reads_of(t) {
                let read = &facts.reads[i];
                let (from, open) = match read.from {
                    From::Open(open) => (sources[open as usize], true),
                    From::Txn(w) => (Some(w), false),
                    From::Initial => continue,
                };
                let Some(w) = from else { continue };
                if let (Some(write), true) = (facts.write_of(w, read.key), open) {
                    // Every read of the value, not only the first.
                    let first = facts.history.op(read.op);
                    let same = facts.history.ops(t).filter(|&(op, o)| o == first && op >= read.op);
                    let open = same.filter(|(op, _)| facts.index.source(*op) == Source::Ambiguous);
                    choices.extend(open.map(|(op, _)| Choice { read: op, write }));
                }
                if !counts[w.index()] {
                    counts[w.index()] = true;
                    work.push(w);
                }
            }
        }
        choices.sort_unstable();
        choices.dedup();
    }
    let events = order.into_iter().filter(|&node| counts[rules.txn(node).index()]);
    let order = if rules.is_split() {
        Order::Events(events.map(|node| rules.point(node)).collect())
    } else {
        Order::Commits(events.map(|node| rules.txn(node)).collect())
    };
    Execution { order, choices }
}

/// What each open read returned in this order: the latest writer before it if that is a candidate, else what the solver
/// chose.
fn sources(model: &Model<'_>, solver: &Solver, order: &[u32]) -> Vec<Option<TxnId>> {
    let (facts, rules) = (model.facts, model.rules);
    let decisions = Decisions { model, solver };
    let parallel = rules.family == Family::Parallel;
    let mut sources: Vec<Option<TxnId>> = vec![None; facts.open.len()];
    let mut last: Vec<Option<TxnId>> = vec![None; facts.history.key_count()];
    for &node in order {
        let t = rules.txn(node);
        if !facts.certain[t.index()] && !decisions.took_effect(t) {
            continue;
        }
        if node == rules.begin(t) {
            for i in facts.reads_of(t) {
                let read = &facts.reads[i];
                if let From::Open(open) = read.from {
                    let latest = last[read.key.index()];
                    let fits = latest.filter(|l| facts.open[open as usize].candidates.contains(l));
                    let fits = fits.filter(|_| !parallel);
                    sources[open as usize] = fits.or_else(|| decisions.source(open));
                }
            }
        }
        if node == rules.commit(t) {
            for write in facts.writes_of(t) {
                last[facts.key_of(write).index()] = Some(t);
            }
        }
    }
    sources
}
