//! Orders of transactions, and the graph they must respect.
//!
//! The search for a commit order starts from a good guess. Files are usually written in the order in which
//! transactions finished, so the input order comes first. Where it contradicts causality (a file sorted by
//! session, say), sessions are assumed to have run side by side at an even pace, and Kahn's algorithm with
//! a heap gives the order closest to that.

use crate::view::CommittedView;
use anomalist_graph::{Components, Csr, Graph, components};
use anomalist_history::TxnId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The committed transactions in some order; those of a strongly connected component stand side by side.
#[derive(Clone)]
pub(crate) struct Condensation {
    /// First to last.
    pub txns: Vec<TxnId>,
    /// Where the component of a transaction begins; unspecified for transactions that did not commit.
    pub rank: Vec<u32>,
    /// The components, if one has a cycle.
    pub components: Option<Components>,
}

impl Condensation {
    /// Every transaction is a component of its own.
    fn singles(txns: Vec<TxnId>, txn_count: usize) -> Condensation {
        let mut rank = vec![u32::MAX; txn_count];
        for (i, t) in txns.iter().enumerate() {
            rank[t.index()] = i as u32;
        }
        Condensation { txns, rank, components: None }
    }

    /// The components in order.
    pub fn iter(&self) -> impl Iterator<Item = &[TxnId]> {
        self.txns.chunk_by(|a, b| self.rank[a.index()] == self.rank[b.index()])
    }

    /// True if no component has a cycle.
    pub fn is_order(&self) -> bool {
        self.components.is_none()
    }
}

/// Session order and reads as a graph.
pub(crate) struct Causality<'a> {
    view: CommittedView<'a>,
    readers: Csr,
}

impl<'a> Causality<'a> {
    pub fn new(view: CommittedView<'a>) -> Causality<'a> {
        let edges = || {
            view.committed().flat_map(move |t| {
                let mut last = None;
                view.reads(t).filter_map(move |r| {
                    // Reads of one writer often come in a row: the cheapest way to keep most repeats out.
                    let new = r.from != last;
                    last = r.from;
                    r.from.filter(|_| new).map(|w| (w.0, t.0))
                })
            })
        };
        Causality { view, readers: Csr::from_edges(view.txn_count(), edges) }
    }

    /// The transactions that read from this one, ascending.
    pub fn readers(&self, t: TxnId) -> &[u32] {
        self.readers.successors(t.0)
    }

    /// With further edges.
    pub fn joined(&self, edges: &[(u32, u32)]) -> Joined<'_, 'a> {
        Joined { causality: self, more: Csr::from_edges(self.len(), || edges.iter().copied()) }
    }
}

impl Graph for Causality<'_> {
    fn len(&self) -> usize {
        self.view.txn_count()
    }

    #[inline]
    fn successor(&self, node: u32, i: usize) -> Option<u32> {
        let readers = self.readers.successors(node);
        match readers.get(i) {
            Some(&reader) => Some(reader),
            None if self.view.index.is_committed(TxnId(node)) => {
                let next = self.view.session_successor(TxnId(node));
                next.into_iter().chain(self.view.branches(TxnId(node))).nth(i - readers.len()).map(|t| t.0)
            }
            None => None,
        }
    }

    #[inline]
    fn for_each_successor(&self, node: u32, mut f: impl FnMut(u32)) {
        self.readers.successors(node).iter().copied().for_each(&mut f);
        if self.view.index.is_committed(TxnId(node)) {
            let next = self.view.session_successor(TxnId(node));
            next.into_iter().chain(self.view.branches(TxnId(node))).for_each(|t| f(t.0));
        }
    }
}

/// Causality with further edges.
pub(crate) struct Joined<'b, 'a> {
    causality: &'b Causality<'a>,
    more: Csr,
}

impl Graph for Joined<'_, '_> {
    fn len(&self) -> usize {
        self.causality.len()
    }

    #[inline]
    fn successor(&self, node: u32, i: usize) -> Option<u32> {
        let more = self.more.successors(node);
        match more.get(i) {
            Some(&next) => Some(next),
            None => self.causality.successor(node, i - more.len()),
        }
    }

    #[inline]
    fn for_each_successor(&self, node: u32, mut f: impl FnMut(u32)) {
        self.more.successors(node).iter().copied().for_each(&mut f);
        self.causality.for_each_successor(node, f);
    }
}

/// The input order, if it respects causality.
pub(crate) fn input_order(view: &CommittedView<'_>) -> Option<Condensation> {
    let history = view.history;
    // Where numbers are the order of sessions, the input may have had another.
    let in_session =
        |t| view.session_predecessor(t).is_none_or(|p| history.position(p) < history.position(t));
    if history.numbers().is_some() && !view.committed().all(in_session) {
        return None;
    }
    let respects = view
        .committed()
        .all(|t| view.reads(t).all(|r| r.from.is_none_or(|w| history.position(w) < history.position(t))));
    if !respects {
        return None;
    }
    let mut by_position = vec![None; history.txn_count()];
    for t in view.committed() {
        by_position[history.position(t) as usize] = Some(t);
    }
    Some(Condensation::singles(by_position.into_iter().flatten().collect(), history.txn_count()))
}

/// Where each transaction would stand if all sessions had run side by side at an even pace.
pub(crate) fn even_pace(view: &CommittedView<'_>) -> Vec<u32> {
    let mut pace = vec![0; view.txn_count()];
    for session in view.history.sessions() {
        let range = view.history.session_range(session);
        let len = range.len() as u64;
        for t in range.clone() {
            pace[t as usize] = (u64::from(t - range.start) * u64::from(u32::MAX) / len) as u32;
        }
    }
    pace
}

/// An order that respects a graph and is otherwise close to `wished` (smaller first). The transactions of a
/// cycle become one component.
pub(crate) fn respecting(view: &CommittedView<'_>, graph: &impl Graph, wished: &[u32]) -> Condensation {
    let n = view.txn_count();
    let committed: Vec<u32> = view.committed().map(|t| t.0).collect();
    let order = kahn(graph, committed.iter().copied(), wished);
    if order.len() == committed.len() {
        return Condensation::singles(order.into_iter().map(TxnId).collect(), n);
    }
    let found = components(graph);
    let condensed = Condensed::new(view, graph, &found);
    let mut wished_components = vec![u32::MAX; found.count()];
    for t in view.committed() {
        let component = &mut wished_components[found.of(t.0) as usize];
        *component = (*component).min(wished[t.index()]);
    }
    let mut condensation = Condensation { txns: Vec::new(), rank: vec![u32::MAX; n], components: None };
    for c in kahn(&condensed.edges, 0..found.count() as u32, &wished_components) {
        let start = condensation.txns.len() as u32;
        for &t in condensed.members(c) {
            condensation.txns.push(TxnId(t));
            condensation.rank[t as usize] = start;
        }
    }
    condensation.components = Some(found);
    condensation
}

/// Kahn's algorithm with a heap over some nodes; shorter than `nodes` if there is a cycle.
fn kahn(graph: &impl Graph, nodes: impl Iterator<Item = u32> + Clone, wished: &[u32]) -> Vec<u32> {
    let mut waiting = vec![0u32; graph.len()];
    for node in nodes.clone() {
        graph.for_each_successor(node, |next| waiting[next as usize] += 1);
    }
    let ready = nodes.filter(|&node| waiting[node as usize] == 0);
    let mut heap: BinaryHeap<Reverse<(u32, u32)>> =
        ready.map(|node| Reverse((wished[node as usize], node))).collect();
    let mut order = Vec::new();
    while let Some(Reverse((_, node))) = heap.pop() {
        order.push(node);
        graph.for_each_successor(node, |next| {
            let left = &mut waiting[next as usize];
            *left -= 1;
            if *left == 0 {
                heap.push(Reverse((wished[next as usize], next)));
            }
        });
    }
    order
}

/// A graph with each strongly connected component drawn together.
struct Condensed {
    members: Csr,
    edges: Csr,
}

impl Condensed {
    fn new(view: &CommittedView<'_>, graph: &impl Graph, found: &Components) -> Condensed {
        let members = Csr::from_edges(found.count(), || view.committed().map(|t| (found.of(t.0), t.0)));
        let edges = Csr::from_edges(found.count(), || {
            view.committed().flat_map(|t| {
                let successors = (0..).map_while(move |i| graph.successor(t.0, i));
                successors.map(move |next| (found.of(t.0), found.of(next))).filter(|(a, b)| a != b)
            })
        });
        Condensed { members, edges }
    }

    fn members(&self, component: u32) -> &[u32] {
        self.members.successors(component)
    }
}
