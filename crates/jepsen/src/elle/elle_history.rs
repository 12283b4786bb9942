//! A history as Elle numbers it, and the graph over it.

use anomalist_graph::labelled::{Labelled, Labels};
use anomalist_history::{History, KeyId, Op, OpId, OpKind, Outcome, TxnId, Value};
use anomalist_level::elle::Edge;

/// A history, its transactions numbered by the place of their completions: Elle's indices, without gaps.
pub(crate) struct ElleHistory<'a> {
    pub history: &'a History,
    /// The transaction of a node.
    pub txns: Vec<TxnId>,
    /// The node of a transaction.
    node: Vec<u32>,
    /// The node of an operation's transaction.
    node_of_op: Vec<u32>,
}

impl<'a> ElleHistory<'a> {
    pub fn new(history: &'a History) -> ElleHistory<'a> {
        let mut txns: Vec<TxnId> = history.txns().collect();
        txns.sort_by_key(|&t| history.position(t));
        let mut node = vec![0; txns.len()];
        let mut node_of_op = vec![0; history.op_count()];
        for (i, &t) in txns.iter().enumerate() {
            node[t.index()] = i as u32;
            node_of_op[history.op_range(t)].fill(i as u32);
        }
        ElleHistory { history, txns, node, node_of_op }
    }

    pub fn len(&self) -> usize {
        self.txns.len()
    }

    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = u32> + use<> {
        0..self.txns.len() as u32
    }

    pub fn txn(&self, node: u32) -> TxnId {
        self.txns[node as usize]
    }

    pub fn node(&self, t: TxnId) -> u32 {
        self.node[t.index()]
    }

    pub fn node_of(&self, op: OpId) -> u32 {
        self.node_of_op[op.index()]
    }

    pub fn outcome(&self, node: u32) -> Outcome {
        self.history.outcome(self.txn(node))
    }

    pub fn is_ok(&self, node: u32) -> bool {
        self.outcome(node) == Outcome::Committed
    }

    /// True unless it certainly did not take effect.
    pub fn is_possible(&self, node: u32) -> bool {
        self.outcome(node) != Outcome::Aborted
    }

    pub fn ops(&self, node: u32) -> impl DoubleEndedIterator<Item = (OpId, Op)> + '_ {
        self.history.ops(self.txn(node))
    }

    /// The elements a read shows; `None` if it is no read of a list. Nothing at all is the empty list.
    pub fn list(&self, op: &Op) -> Option<&'a [Value]> {
        if op.kind != OpKind::Read {
            return None;
        }
        if op.value == Value::NIL { Some(&[]) } else { self.history.list(op.value) }
    }

    /// The value of a register, where the initial one is nil whatever the history calls it.
    pub fn register(&self, key: KeyId, value: Value) -> Value {
        if self.history.initial().of(key) == Some(value) { Value::NIL } else { value }
    }
}

/// All relations.
pub(crate) const ALL: [Edge; 8] =
    [Edge::Ww, Edge::Wwp, Edge::Wr, Edge::Wrp, Edge::Rw, Edge::Rwp, Edge::Process, Edge::Realtime];

/// The bit of a relation in a labelled graph.
pub(crate) const fn label(edge: Edge) -> Labels {
    1 << edge as u16
}

/// The bits of relations.
pub(crate) fn labels(edges: &[Edge]) -> Labels {
    edges.iter().fold(0, |set, &edge| set | label(edge))
}

/// Which transactions depend on which, and how.
///
/// Nodes are transactions by the place of their completions in the input.
#[derive(Clone, Debug)]
pub struct Graph {
    pub(crate) nodes: Vec<TxnId>,
    pub(crate) edges: Vec<(u32, u32, Labels)>,
    /// Some edges were left out, because there were too many.
    pub(crate) thinned: bool,
    most_edges: usize,
}

/// Readers of one version and writers of the next are all connected, which is quadratic on a key that
/// no transaction reads any more. Beyond this many edges only some of each such bundle are kept: a hundred
/// megabytes in all should do.
const MOST_EDGES: usize = 3_000_000;
const KEPT: usize = 64;

impl Graph {
    pub(crate) fn new(numbered: &ElleHistory<'_>) -> Graph {
        Graph { nodes: numbered.txns.clone(), edges: Vec::new(), thinned: false, most_edges: MOST_EDGES }
    }

    pub(crate) fn add(&mut self, from: u32, to: u32, edge: Edge) {
        if from != to {
            self.edges.push((from, to, label(edge)));
        }
    }

    /// Edges from all of some nodes, the first and last of them if there are too many.
    pub(crate) fn add_all(&mut self, from: &[u32], to: u32, edge: Edge) {
        if from.len() <= 2 * KEPT || self.edges.len() < self.most_edges {
            from.iter().for_each(|&from| self.add(from, to, edge));
        } else {
            self.thinned = true;
            let ends = from[..KEPT].iter().chain(&from[from.len() - KEPT..]);
            ends.for_each(|&from| self.add(from, to, edge));
        }
    }

    /// Why nothing can be concluded from finding nothing, if so.
    pub(crate) fn objection(&self) -> Option<String> {
        self.thinned.then(|| "there are too many dependencies to keep them all".to_owned())
    }

    /// The edges, each with one relation, by the places of their transactions; none twice.
    pub fn edges(&self) -> Vec<(TxnId, TxnId, Edge)> {
        let merged = Labelled::from_edges(self.nodes.len(), self.edges.clone());
        merged
            .all_edges()
            .flat_map(|(a, b, set)| {
                let ends = (self.nodes[a as usize], self.nodes[b as usize]);
                ALL.into_iter().filter(move |&e| set & label(e) != 0).map(move |e| (ends.0, ends.1, e))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundles_are_thinned_when_there_are_too_many_edges() {
        let mut graph = Graph { nodes: Vec::new(), edges: Vec::new(), thinned: false, most_edges: 500 };
        let readers: Vec<u32> = (0..300).collect();
        graph.add_all(&readers, 1000, Edge::Rw);
        graph.add_all(&readers, 1001, Edge::Rw);
        assert_eq!((graph.edges.len(), graph.objection()), (600, None));
        graph.add_all(&readers, 1002, Edge::Rw);
        graph.add_all(&readers[..100], 1003, Edge::Rw);
        assert_eq!(graph.edges.len(), 600 + 2 * KEPT + 100);
        assert!(graph.edges.contains(&(0, 1002, label(Edge::Rw))));
        assert!(graph.edges.contains(&(299, 1002, label(Edge::Rw))));
        assert!(graph.objection().is_some());
    }
}
