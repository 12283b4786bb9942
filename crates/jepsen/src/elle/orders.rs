//! Process and real-time order between transactions, as Elle builds them.

use super::elle_history::{ElleHistory, Graph};
use anomalist_history::Interval;
use anomalist_level::AnomalyKind;
use anomalist_level::elle::{CYCLES, Edge};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Which order the question needs. One only: with real-time order Elle builds no process order.
pub(crate) fn wanted(prohibited: &[AnomalyKind]) -> Option<Edge> {
    let asks = |order| CYCLES.iter().any(|spec| prohibited.contains(&spec.kind(Some(order))));
    [Edge::Realtime, Edge::Process].into_iter().find(|&order| asks(order))
}

/// Adds the order to the graph.
pub(crate) fn add(numbered: &ElleHistory<'_>, order: Edge, graph: &mut Graph) {
    let edges = if order == Edge::Process { process(numbered) } else { real_time(numbered) };
    for (from, to) in edges {
        graph.add(from, to, order);
    }
}

/// From each committed transaction to the next committed one of its process.
pub(crate) fn process(numbered: &ElleHistory<'_>) -> Vec<(u32, u32)> {
    let mut edges = Vec::new();
    for session in numbered.history.sessions() {
        let mut last = None;
        for t in numbered.history.session_txns(session) {
            let node = numbered.node(t);
            if numbered.is_ok(node) {
                edges.extend(last.map(|last| (last, node)));
                last = Some(node);
            }
        }
    }
    edges
}

/// From each committed transaction to those invoked after its completion, without most of what follows
/// transitively.
///
/// The frontier holds the committed transactions that no later one has replaced; there are never more than
/// ran at once, so edges number at most transactions times concurrency. Failed transactions are sinks.
/// Nothing if the history does not say when transactions began.
pub(crate) fn real_time(numbered: &ElleHistory<'_>) -> Vec<(u32, u32)> {
    real_time_among(numbered, numbered.nodes())
}

/// [`real_time`] among some transactions.
pub(crate) fn real_time_among(
    numbered: &ElleHistory<'_>,
    nodes: impl Iterator<Item = u32>,
) -> Vec<(u32, u32)> {
    let Some(intervals) = numbered.history.intervals() else { return Vec::new() };
    // When, whether it is a completion, and who: at equal times invocations come first, so nothing is
    // ordered that may have overlapped.
    let mut events: Vec<(u64, bool, u32)> = Vec::new();
    for node in nodes {
        let Interval { invoked, completed } = intervals[numbered.txn(node).index()];
        events.push((invoked, false, node));
        if let (true, Some(completed)) = (numbered.is_ok(node), completed) {
            events.push((completed, true, node));
        }
    }
    events.sort_unstable();
    let mut edges: Vec<(u32, u32)> = Vec::new();
    let mut frontier: Vec<u32> = Vec::new();
    // Where the edges into a running transaction are.
    let mut running: FxHashMap<u32, Range<usize>> = FxHashMap::default();
    for (_, completed, node) in events {
        if !completed {
            let start = edges.len();
            edges.extend(frontier.iter().map(|&before| (before, node)));
            running.insert(node, start..edges.len());
        } else if let Some(into) = running.remove(&node) {
            frontier.retain(|&before| edges[into.clone()].binary_search(&(before, node)).is_err());
            let place = frontier.partition_point(|&other| other < node);
            frontier.insert(place, node);
        }
    }
    edges
}
