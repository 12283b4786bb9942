//! A first order of events: one that respects the known edges and is otherwise as close to what is known
//! about time as it can be.
//!
//! Hints, best first: timestamps of the database, the moment the client learnt of the commit, the place in
//! the input, and failing all that sessions side by side at an even pace. For the snapshot levels, once
//! commits are in order the best place for each begin is determined: as early as its sources, its session
//! and the earlier writers of its keys allow, because everything else a level requires of a begin is that
//! it comes early enough. An open read moves it on to the next version that the read may have returned.

use super::facts::From;
use super::model::{Family, Model};
use anomalist_graph::{Csr, Graph};
use anomalist_history::{KeyId, TxnId};
use rustc_hash::FxHashMap;
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

/// The best hint at the order of transactions, as a rank for each; `None`: there is no better than an even
/// pace.
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
    // Moments of real time and what does not count come as soon as they can, and so do begins: whatever has
    // to wait for one (a commit that replaces what it read) would otherwise wait for all commits before its
    // own.
    let wish = |node: u32| match model.committed(node) {
        Some(t) => wished[t.index()],
        None => 0,
    };
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
    let versions = Versions::new(model, &order, &time);
    for &node in &order {
        if is_begin(node) {
            let mut limit = u32::MAX;
            graph.for_each_successor(node, |next| limit = limit.min(time[next as usize]));
            let wanted = previous[node as usize];
            if wanted < limit {
                time[node as usize] = time[node as usize].max(wanted);
            }
            if let Some(later) = versions.explaining(rules.txn(node), time[node as usize], limit) {
                time[node as usize] = later;
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

/// The versions of the keys of open reads, by time of commit.
struct Versions<'a> {
    model: &'a Model<'a>,
    by_key: FxHashMap<KeyId, Vec<(u32, TxnId)>>,
}

impl<'a> Versions<'a> {
    fn new(model: &'a Model<'a>, order: &[u32], time: &[u32]) -> Versions<'a> {
        let facts = model.facts;
        let registers = facts.open.iter().filter(|open| !open.of_list);
        let mut by_key: FxHashMap<KeyId, Vec<(u32, TxnId)>> =
            registers.map(|open| (facts.history.op(open.op).key, Vec::new())).collect();
        if !by_key.is_empty() {
            for t in order.iter().filter_map(|&node| model.committed(node)) {
                for write in facts.writes_of(t).filter(|_| facts.certain[t.index()]) {
                    if let Some(versions) = by_key.get_mut(&facts.key_of(write)) {
                        versions.push((time[model.rules.commit(t) as usize], t));
                    }
                }
            }
        }
        Versions { model, by_key }
    }

    /// The first time, from `earliest` to before `limit`, at which the latest versions explain all open
    /// reads of a transaction; `None` if it has none, or there is no such time.
    fn explaining(&self, t: TxnId, earliest: u32, limit: u32) -> Option<u32> {
        let opens = self.model.facts.open_of(t);
        if opens.is_empty() || self.by_key.is_empty() {
            return None;
        }
        let mut at = earliest;
        loop {
            let before = at;
            for open in opens.clone() {
                at = self.explains(open as u32, at)?;
            }
            if at >= limit {
                return None;
            }
            if at == before {
                return Some(at);
            }
        }
    }

    /// The first time from `at` on at which the latest version explains an open read.
    fn explains(&self, open: u32, at: u32) -> Option<u32> {
        let facts = self.model.facts;
        let found = facts.open[open as usize];
        let Some(versions) = self.by_key.get(&facts.history.op(found.op).key).filter(|_| !found.of_list)
        else {
            return Some(at);
        };
        let next = versions.partition_point(|v| v.0 <= at);
        let latest = next.checked_sub(1).map(|last| versions[last].1);
        if facts.candidate_of(open, latest).is_some() {
            return Some(at);
        }
        let later = versions[next..].iter().take(FARTHEST);
        later.into_iter().find(|v| facts.candidate_of(open, Some(v.1)).is_some()).map(|v| v.0)
    }
}

/// How many versions ahead an open read is looked for.
const FARTHEST: usize = 1_000;
