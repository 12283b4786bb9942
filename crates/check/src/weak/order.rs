//! A first guess at a commit order: any order that respects causality.
//!
//! Files are usually written in the order in which transactions finished, so the input order is tried first; it costs one
//! comparison per read. Otherwise Kahn's algorithm with a queue, which lets sessions advance side by side. It stops short
//! exactly when session order and reads form a cycle (TAP-g).

use super::problem::Problem;
use isolde_graph::{Csr, Graph};
use isolde_history::TxnId;

/// A total order of the committed transactions.
pub(crate) struct Order {
    /// The transactions, first to last.
    pub txns: Vec<TxnId>,
    /// The place of each; unspecified for transactions that did not commit.
    pub rank: Vec<u32>,
}

impl Order {
    pub fn new(txns: Vec<TxnId>, txn_count: usize) -> Order {
        let mut rank = vec![u32::MAX; txn_count];
        for (i, t) in txns.iter().enumerate() {
            rank[t.index()] = i as u32;
        }
        Order { txns, rank }
    }

    #[inline]
    pub fn before(&self, a: TxnId, b: TxnId) -> bool {
        self.rank[a.index()] < self.rank[b.index()]
    }
}

/// The input order, if it respects causality.
pub(crate) fn input_order(problem: &Problem<'_>) -> Option<Order> {
    let history = problem.history;
    let respects = problem
        .committed()
        .all(|t| problem.reads(t).all(|r| r.from.is_none_or(|w| history.position(w) < history.position(t))));
    if !respects {
        return None;
    }
    let mut by_position = vec![None; history.txn_count()];
    for t in problem.committed() {
        by_position[history.position(t) as usize] = Some(t);
    }
    Some(Order::new(by_position.into_iter().flatten().collect(), history.txn_count()))
}

/// Session order and reads as a graph.
pub(crate) struct Causality<'a> {
    problem: Problem<'a>,
    readers: Csr,
}

impl<'a> Causality<'a> {
    pub fn new(problem: Problem<'a>) -> Causality<'a> {
        let edges = || {
            problem.committed().flat_map(move |t| {
                let mut last = None;
                problem.reads(t).filter_map(move |r| {
                    // Reads of one writer often come in a row: the cheapest way to keep most repeats out.
                    let new = r.from != last;
                    last = r.from;
                    r.from.filter(|_| new).map(|w| (w.0, t.0))
                })
            })
        };
        Causality { problem, readers: Csr::from_edges(problem.txn_count(), edges) }
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
        self.problem.txn_count()
    }

    #[inline]
    fn successor(&self, node: u32, i: usize) -> Option<u32> {
        let readers = self.readers.successors(node);
        match readers.get(i) {
            Some(&reader) => Some(reader),
            None if i == readers.len() && self.problem.index.is_committed(TxnId(node)) => {
                self.problem.session_successor(TxnId(node)).map(|t| t.0)
            }
            None => None,
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
}

/// A topological order of the committed transactions by Kahn's algorithm; `None` if there is a cycle.
pub(crate) fn topological(problem: &Problem<'_>, graph: &impl Graph) -> Option<Order> {
    let n = problem.txn_count();
    let successors = |t: TxnId| (0..).map_while(move |i| graph.successor(t.0, i));
    let mut waiting = vec![0u32; n];
    let mut committed = 0;
    for t in problem.committed() {
        committed += 1;
        for next in successors(t) {
            waiting[next as usize] += 1;
        }
    }
    let mut queue: Vec<TxnId> = problem.committed().filter(|t| waiting[t.index()] == 0).collect();
    let mut at = 0;
    while let Some(&t) = queue.get(at) {
        at += 1;
        for next in successors(t) {
            waiting[next as usize] -= 1;
            if waiting[next as usize] == 0 {
                queue.push(TxnId(next));
            }
        }
    }
    (queue.len() == committed).then(|| Order::new(queue, n))
}
