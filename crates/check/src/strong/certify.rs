//! From an order of events to the execution that proves a level.

use super::facts::{From, Open, Origin};
use super::model::{Family, Model};
use super::open::Sources;
use super::open_lists::Element;
use super::scan::Decided;
use super::search::Decisions;
use super::solver::Solver;
use anomalist_history::TxnId;
use anomalist_level::{Choice, Execution, Order};

/// The execution behind an order that misses nothing. Transactions of unknown outcome that no transaction
/// turns out to have read are left out.
pub(crate) fn execution(model: &Model<'_>, solver: &Solver, chosen: &Sources) -> Execution {
    let (facts, rules) = (model.facts, model.rules);
    let order: Vec<u32> = solver.order.order().iter().copied().filter(|&node| model.counts(node)).collect();
    let mut counts = facts.certain.clone();
    let mut choices = Vec::new();
    if facts.has_open_reads() {
        let sources = sources(&Decisions { model, solver, sources: chosen }, &order);
        let mut work: Vec<TxnId> = facts.txns().filter(|t| counts[t.index()]).collect();
        while let Some(t) = work.pop() {
            let mut observed: Vec<TxnId> = Vec::new();
            for i in facts.open_of(t) {
                let Some(origin) = sources[i] else { continue };
                let Open { op, element, .. } = facts.open[i];
                choices.push(Choice { read: op, element, write: origin.write() });
                observed.extend(origin.txn());
            }
            observed.extend(facts.reads[facts.reads_of(t)].iter().filter_map(|read| match read.from {
                From::Txn(w) => Some(w),
                _ => None,
            }));
            for element in facts.open_lists_of(t).iter().flat_map(|list| &list.elements) {
                if let Element::Certain(write) = element {
                    observed.push(facts.history.txn_of(*write));
                }
            }
            for w in observed {
                if !counts[w.index()] {
                    counts[w.index()] = true;
                    work.push(w);
                }
            }
        }
        choices.sort_unstable();
        choices.dedup();
    }
    if rules.family == Family::Cut {
        return Execution { order: Order::Any, choices };
    }
    let events = order.into_iter().filter(|&node| {
        let t = rules.txn(node);
        counts[t.index()] && (node == rules.begin(t) || node == rules.commit(t))
    });
    let order = if rules.is_split() {
        Order::Events(events.map(|node| rules.point(node)).collect())
    } else {
        Order::Commits(events.map(|node| rules.txn(node)).collect())
    };
    Execution { order, choices }
}

/// What each open read is in this order: the latest version before it if that will do, else what was chosen.
fn sources(decisions: &Decisions<'_>, order: &[u32]) -> Vec<Option<Origin>> {
    let (facts, rules) = (decisions.model.facts, decisions.model.rules);
    let mut sources: Vec<Option<Origin>> =
        (0..facts.open.len() as u32).map(|open| decisions.source(open)).collect();
    if !rules.reads_latest() {
        return sources;
    }
    let mut last: Vec<Option<TxnId>> = vec![None; facts.history.key_count()];
    for &node in order {
        let t = rules.txn(node);
        if !facts.certain[t.index()] && !decisions.took_effect(t) {
            continue;
        }
        if node == rules.begin(t) {
            for read in &facts.reads[facts.reads_of(t)] {
                let From::Open(open) = read.from else { continue };
                if !facts.open[open as usize].of_list {
                    let fits = facts.candidate_of(open, last[read.key.index()]);
                    sources[open as usize] = fits.or(sources[open as usize]);
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
