//! A first order of events: one that respects the known edges and is otherwise as close to what is known about time as it
//! can be.
//!
//! Hints, best first: timestamps of the database, the moment the client learnt of the commit, the place in the input, and
//! failing all that sessions side by side at an even pace. For the snapshot levels, once commits are in order the best place
//! for each begin is determined: as early as its sources, its session and the earlier writers of its keys allow, because
//! everything else a level demands of a begin is that it comes early enough.

use super::facts::From;
use super::model::{Family, Model};
use anomalist_graph::{Csr, Graph};
use anomalist_history::TxnId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The known edges contradict each other.
#[derive(Debug)]
pub(crate) struct Cyclic;

/// A topological order of the known edges.
pub(crate) fn order(model: &Model<'_>, graph: &Csr, wished: &[u32]) -> Result<Vec<u32>, Cyclic> {
    let order = kahn(model, graph, wished);
    if order.len() < model.nodes as usize {
        return Err(Cyclic);
    }
    Ok(if model.rules.is_split() { place_begins(model, graph, order) } else { order })
}

/// The best hint at the order of transactions, as a rank for each; `None`: there is no better than an even pace.
pub(crate) fn hint(model: &Model<'_>) -> Option<Vec<u32>> {
    let (history, facts) = (model.facts.history, model.facts);
    let by = |key: &dyn Fn(TxnId) -> (i64, i64, u32)| {
        let mut txns: Vec<TxnId> = history.txns().collect();
        txns.sort_by_key(|&t| key(t));
        let mut rank = vec![0; txns.len()];
        for (i, t) in txns.iter().enumerate() {
            rank[t.index()] = i as u32;
        }
        rank
    };
    if let Some(stamps) = history.stamps() {
        return Some(by(&|t| {
            let commit = stamps[t.index()].commit;
            (commit.physical, commit.logical, history.position(t))
        }));
    }
    let respects = |rank: &dyn Fn(TxnId) -> u64| {
        facts.reads.iter().all(|r| match r.from {
            From::Txn(w) => rank(w) < rank(r.reader),
            _ => true,
        })
    };
    if respects(&|t| u64::from(history.position(t))) {
        return Some(history.txns().map(|t| history.position(t)).collect());
    }
    if let Some(intervals) = history.intervals() {
        let end = |t: TxnId| intervals[t.index()].completed.unwrap_or(intervals[t.index()].invoked);
        return Some(by(&|t| (end(t) as i64, 0, history.position(t))));
    }
    None
}

/// Sessions side by side.
pub(crate) fn even_pace(model: &Model<'_>) -> Vec<u32> {
    let history = model.facts.history;
    let mut pace = vec![0; history.txn_count()];
    for session in history.sessions() {
        let range = history.session_range(session);
        let len = range.len() as u64;
        for t in range.clone() {
            pace[t as usize] = (u64::from(t - range.start) * u64::from(u32::MAX) / len) as u32;
        }
    }
    pace
}

/// Kahn's algorithm with a heap; shorter than the graph if there is a cycle.
pub(crate) fn kahn(model: &Model<'_>, graph: &Csr, wished: &[u32]) -> Vec<u32> {
    let n = model.nodes;
    let mut waiting = vec![0u32; n as usize];
    for node in 0..n {
        graph.for_each_successor(node, |next| waiting[next as usize] += 1);
    }
    // Moments of real time and what does not count come as soon as they can.
    let wish = |node: u32| if model.counts(node) { wished[model.rules.txn(node).index()] } else { 0 };
    let mut heap: BinaryHeap<Reverse<(u32, u32)>> =
        (0..n).filter(|&i| waiting[i as usize] == 0).map(|i| Reverse((wish(i), i))).collect();
    let mut order = Vec::with_capacity(n as usize);
    while let Some(Reverse((_, node))) = heap.pop() {
        order.push(node);
        graph.for_each_successor(node, |next| {
            waiting[next as usize] -= 1;
            if waiting[next as usize] == 0 {
                heap.push(Reverse((wish(next), next)));
            }
        });
    }
    order
}

/// Moves each begin to its best place, given the order of commits.
fn place_begins(model: &Model<'_>, graph: &Csr, order: Vec<u32>) -> Vec<u32> {
    let (rules, facts) = (model.rules, model.facts);
    let is_begin = |node: u32| node < model.events && node.is_multiple_of(2);
    // Time 0 is before the first commit.
    let mut time = vec![0u32; model.nodes as usize];
    let mut now = 0;
    for &node in order.iter().filter(|&&node| node < model.events && !is_begin(node)) {
        now += 1;
        time[node as usize] = now;
    }
    let mut last_writer = vec![0u32; facts.history.key_count()];
    let mut previous = vec![0u32; model.nodes as usize];
    if matches!(rules.family, Family::Snapshot | Family::Mixed) {
        for t in order.iter().filter_map(|&node| model.committed(node)) {
            let latest = &mut previous[rules.guarded(t) as usize];
            for write in facts.writes_of(t) {
                let key = facts.key_of(write).index();
                *latest = (*latest).max(last_writer[key]);
                last_writer[key] = time[rules.commit(t) as usize];
            }
        }
    }
    for &node in &order {
        if is_begin(node) {
            let mut limit = u32::MAX;
            graph.for_each_successor(node, |next| limit = limit.min(time[next as usize]));
            let wanted = previous[node as usize];
            if wanted < limit {
                time[node as usize] = time[node as usize].max(wanted);
            }
        }
        let mine = time[node as usize];
        graph.for_each_successor(node, |next| {
            if next >= model.events || is_begin(next) {
                time[next as usize] = time[next as usize].max(mine);
            }
        });
    }
    let mut ranked: Vec<(u32, u8, u32)> = Vec::with_capacity(order.len());
    for (i, &node) in order.iter().enumerate() {
        let class = if node >= model.events { 1 } else { 2 * u8::from(is_begin(node)) };
        ranked.push((time[node as usize], class, i as u32));
    }
    ranked.sort_unstable();
    ranked.into_iter().map(|(_, _, i)| order[i as usize]).collect()
}
