//! Turns an instance into evidence: the cycle, each edge with the operations that prove it, and for each
//! required edge the path by which the overlooked writer was visible.
//!
//! Paths are shortest (a run of session steps counts once), searched only among transactions that can lie
//! on one: inside the causal past of the end, or inside one component.

use super::clocks::AllClocks;
use super::initial::InitialConstraint;
use super::order::Causality;
use super::required::RequiredEdge;
use super::sessions::{Guarantee, reader_before};
use super::taps::{Instance, LevelGraph};
use crate::view::{CommittedView, Read, VersionEdge, Writer};
use anomalist_graph::{Components, Step, shortest_path};
use anomalist_history::{OpId, TxnId};
use anomalist_level::{Definitions, Edge, Evidence, Node, Relation, Witness};

/// Builds witnesses.
pub(crate) struct Explainer<'a> {
    pub view: CommittedView<'a>,
    pub definitions: Definitions,
    pub causality: &'a Causality<'a>,
    pub clocks: &'a AllClocks<'a>,
}

/// The edges beyond causality that a path inside a component may use; and, if constraints are those of a
/// session guarantee, which.
#[derive(Default)]
pub(crate) struct Extra<'a> {
    constraints: ByOrigin<'a, RequiredEdge>,
    versions: ByOrigin<'a, VersionEdge>,
    initial: ByOrigin<'a, InitialConstraint>,
    guarantee: Option<Guarantee>,
}

impl<'a> Extra<'a> {
    pub fn new(
        graph: &'a LevelGraph,
        constraints: &'a [RequiredEdge],
        versions: &'a [VersionEdge],
    ) -> Extra<'a> {
        let components = &graph.components;
        let inside = |from: TxnId, to: TxnId| components.of(from.0) == components.of(to.0);
        let constraints = constraints.iter().filter(|e| inside(e.from, e.to));
        let versions = versions.iter().filter(|e| inside(e.from, e.to));
        Extra {
            constraints: ByOrigin::new(constraints, |e| e.from.0),
            versions: ByOrigin::new(versions, |e| e.from.0),
            initial: ByOrigin::new(graph.initial.constraints.iter(), |e| e.from.0),
            guarantee: None,
        }
    }

    pub fn of_guarantee(self, guarantee: Guarantee) -> Extra<'a> {
        Extra { guarantee: Some(guarantee), ..self }
    }
}

/// Edges by the transaction they begin at, each as they came.
struct ByOrigin<'a, T> {
    start: Vec<u32>,
    edges: Vec<&'a T>,
}

impl<T> Default for ByOrigin<'_, T> {
    fn default() -> Self {
        ByOrigin { start: Vec::new(), edges: Vec::new() }
    }
}

impl<'a, T> ByOrigin<'a, T> {
    /// One counting sort: there may be millions of edges.
    fn new(edges: impl Iterator<Item = &'a T> + Clone, from: impl Fn(&T) -> u32) -> ByOrigin<'a, T> {
        let Some(last) = edges.clone().map(&from).max() else { return ByOrigin::default() };
        let mut start = vec![0u32; last as usize + 2];
        edges.clone().for_each(|e| start[from(e) as usize + 1] += 1);
        for i in 1..start.len() {
            start[i] += start[i - 1];
        }
        let mut next = start.clone();
        let mut sorted: Vec<&T> = edges.clone().collect();
        for e in edges {
            let place = &mut next[from(e) as usize];
            sorted[*place as usize] = e;
            *place += 1;
        }
        ByOrigin { start, edges: sorted }
    }

    fn from(&self, node: u32) -> &[&'a T] {
        let bound = |i: usize| self.start.get(i).map_or(self.edges.len(), |&at| at as usize);
        &self.edges[bound(node as usize)..bound(node as usize + 1)]
    }
}

#[derive(Clone, Copy)]
enum Label<'a> {
    Session,
    WriteRead,
    Required(&'a RequiredEdge),
    Version(&'a VersionEdge),
    Initial(&'a InitialConstraint),
}

/// The initial transaction as the end of a path.
const INITIAL: u32 = u32::MAX;

impl<'a> Explainer<'a> {
    /// `t1` precedes `t2` by causality (or, with `extra`, inside a component), yet the read requires the
    /// reverse.
    pub fn instance(&self, instance: Instance, extra: Option<(&Extra<'_>, &Components)>) -> Option<Witness> {
        let Some(t2) = instance.t2 else {
            let (extra, components) = extra?;
            let t1 = instance.t1?;
            let edges = std::iter::once(initial_edge(t1)).chain(self.path_to_initial(t1, extra, components)?);
            return Some(witness(self.view, edges.collect()));
        };
        let visible = self.visibility(t2, instance.t3, instance.read)?;
        self.contradiction((instance, t2), visible, extra)
    }

    /// The same for a session guarantee, whose visibility has a prescribed shape.
    pub fn guarantee(
        &self,
        guarantee: Guarantee,
        instance: Instance,
        extra: (&Extra<'_>, &Components),
    ) -> Option<Witness> {
        let t2 = instance.t2?;
        let visible = self.guaranteed(guarantee, t2, instance.t3)?;
        self.contradiction((instance, t2), visible, Some(extra))
    }

    /// Why a guarantee makes `t2` visible to `t3`.
    fn guaranteed(&self, guarantee: Guarantee, t2: TxnId, t3: TxnId) -> Option<Vec<Edge>> {
        let sources = || self.view.reads(t3).filter_map(|r| r.from);
        Some(match guarantee {
            Guarantee::ReadYourWrites => vec![session_edge(t2, t3)],
            Guarantee::MonotonicReads => {
                let reader = self.reader_before(t2, t3)?;
                vec![self.read_edge(t2, reader)?, session_edge(reader, t3)]
            }
            Guarantee::MonotonicWrites => {
                let w = sources().find(|&w| self.view.history.session_before(t2, w))?;
                vec![session_edge(t2, w), self.read_edge(w, t3)?]
            }
            Guarantee::WritesFollowReads => {
                let w = sources().find(|&w| self.reader_before(t2, w).is_some())?;
                let reader = self.reader_before(t2, w)?;
                vec![self.read_edge(t2, reader)?, session_edge(reader, w), self.read_edge(w, t3)?]
            }
        })
    }

    fn contradiction(
        &self,
        (instance, t2): (Instance, TxnId),
        visible: Vec<Edge>,
        extra: Option<(&Extra<'_>, &Components)>,
    ) -> Option<Witness> {
        let constraints = self.constraint_edge(t2, instance.t1, instance.read, visible)?;
        let back = match instance.t1 {
            None => vec![initial_edge(t2)],
            Some(t1) => match self.causal_path(t1, t2) {
                Some(path) => path,
                None => {
                    let (extra, components) = extra?;
                    self.path_in_component(t1, t2, extra, components)?
                }
            },
        };
        Some(witness(self.view, std::iter::once(constraints).chain(back).collect()))
    }

    /// A shortest cycle through some transaction of a component.
    pub fn cycle(&self, extra: &Extra<'_>, components: &Components) -> Option<Witness> {
        const TRIED: usize = 32;
        let smallest = self
            .view
            .committed()
            .filter(|t| components.is_cyclic(t.0))
            .min_by_key(|t| components.size(components.of(t.0)))?;
        let members = self.view.committed().filter(|t| components.of(t.0) == components.of(smallest.0));
        members
            .take(TRIED)
            .filter_map(|t| self.path_in_component(t, t, extra, components))
            .min_by_key(Vec::len)
            .map(|edges| witness(self.view, edges))
    }

    /// Why `t2` is visible to the read of `t3`: it was read from, or came before in the session, or
    /// causally.
    fn visibility(&self, t2: TxnId, t3: TxnId, read: Read) -> Option<Vec<Edge>> {
        let mut from = self.view.reads(t3).filter(|r| r.from == Some(t2));
        // By the letter of read committed another key is needed.
        let direct = match self.definitions {
            Definitions::Anomalist => from.next(),
            Definitions::Plume => from.min_by_key(|r| (r.key == read.key, r.op)),
        };
        let in_session = self.view.history.session_before(t2, t3);
        match direct {
            Some(r) if r.op < read.op || self.definitions == Definitions::Plume || !in_session => {
                Some(vec![self.read_edge_by(t2, r)])
            }
            _ if in_session => Some(vec![session_edge(t2, t3)]),
            _ => self.causal_path(t2, t3),
        }
    }

    fn reader_before(&self, writer: TxnId, t: TxnId) -> Option<TxnId> {
        reader_before(self.view, self.causality, writer, t)
    }

    fn causal_path(&self, from: TxnId, to: TxnId) -> Option<Vec<Edge>> {
        if !self.clocks.has_seen(to, from) {
            return None;
        }
        self.path(from, to.0, &Extra::default(), |t| t == to || self.clocks.has_seen(to, t))
    }

    fn path_in_component(
        &self,
        from: TxnId,
        to: TxnId,
        extra: &Extra<'_>,
        components: &Components,
    ) -> Option<Vec<Edge>> {
        let direct = self.path(from, to.0, extra, |t| components.of(t.0) == components.of(to.0));
        direct.or_else(|| {
            let mut round = self.path_to_initial(from, extra, components)?;
            round.push(initial_edge(to));
            Some(round)
        })
    }

    /// A path to a transaction that has to precede the initial one, and to that.
    fn path_to_initial(&self, from: TxnId, extra: &Extra<'_>, components: &Components) -> Option<Vec<Edge>> {
        self.path(from, INITIAL, extra, |t| components.of(t.0) == components.of(from.0))
    }

    fn path(
        &self,
        from: TxnId,
        to: u32,
        extra: &Extra<'_>,
        may_pass: impl Fn(TxnId) -> bool,
    ) -> Option<Vec<Edge>> {
        let steps = shortest_path(
            from.0,
            to,
            |node, f| {
                if node == INITIAL {
                    return;
                }
                let mut offer = |to: u32, label, mergeable| {
                    if to == INITIAL || may_pass(TxnId(to)) {
                        f(Step { to, label, mergeable });
                    }
                };
                for &reader in self.causality.readers(TxnId(node)) {
                    offer(reader, Label::WriteRead, false);
                }
                let next = self.view.session_successor(TxnId(node)).into_iter();
                for next in next.chain(self.view.branches(TxnId(node))) {
                    offer(next.0, Label::Session, true);
                }
                for &e in extra.versions.from(node) {
                    offer(e.to.0, Label::Version(e), false);
                }
                for &e in extra.constraints.from(node) {
                    offer(e.to.0, Label::Required(e), false);
                }
                for &e in extra.initial.from(node).iter().filter(|_| to == INITIAL) {
                    offer(INITIAL, Label::Initial(e), false);
                }
            },
            || false,
        )?;
        let mut edges: Vec<Edge> = Vec::new();
        for (origin, step) in steps {
            let (a, b) = (TxnId(origin), TxnId(step.to));
            match step.label {
                Label::Session => match edges.last_mut() {
                    Some(last) if last.relation == Relation::SessionOrder => last.to = Node::Txn(b),
                    _ => edges.push(session_edge(a, b)),
                },
                Label::WriteRead => edges.push(self.read_edge(a, b)?),
                Label::Version(e) => edges.push(Edge {
                    from: Node::Txn(a),
                    to: Node::Txn(b),
                    relation: Relation::VersionOrder,
                    evidence: e.evidence(),
                }),
                Label::Initial(e) => {
                    let (t3, read) = self.reader(e.read)?;
                    let visible = self.visibility(e.from, t3, read)?;
                    edges.push(self.constraint_edge(e.from, None, read, visible)?);
                }
                Label::Required(e) => {
                    let (t3, read) = self.reader(e.read)?;
                    let visible = match extra.guarantee {
                        Some(guarantee) => self.guaranteed(guarantee, e.from, t3)?,
                        None => self.visibility(e.from, t3, read)?,
                    };
                    edges.push(self.constraint_edge(e.from, Some(e.to), read, visible)?);
                }
            }
        }
        Some(edges)
    }

    fn reader(&self, op: OpId) -> Option<(TxnId, Read)> {
        let t3 = self.view.history.txn_of(op);
        Some((t3, self.view.reads(t3).find(|r| r.op == op)?))
    }

    fn constraint_edge(&self, t2: TxnId, t1: Writer, read: Read, path: Vec<Edge>) -> Option<Edge> {
        Some(Edge {
            from: Node::Txn(t2),
            to: t1.map_or(Node::Initial, Node::Txn),
            relation: Relation::Required,
            evidence: Evidence::Forced {
                read: read.op,
                overwritten: self.view.write_seen(read),
                visible_write: self.view.write_of(t2, read.key)?,
                path,
            },
        })
    }

    fn read_edge(&self, writer: TxnId, reader: TxnId) -> Option<Edge> {
        let read = self.view.reads(reader).find(|r| r.from == Some(writer))?;
        Some(self.read_edge_by(writer, read))
    }

    fn read_edge_by(&self, writer: TxnId, read: Read) -> Edge {
        Edge {
            from: Node::Txn(writer),
            to: Node::Txn(self.view.history.txn_of(read.op)),
            relation: Relation::WriteRead,
            evidence: Evidence::Read { write: self.view.write_seen(read), read: read.op },
        }
    }
}

fn initial_edge(to: TxnId) -> Edge {
    Edge {
        from: Node::Initial,
        to: Node::Txn(to),
        relation: Relation::SessionOrder,
        evidence: Evidence::Session,
    }
}

pub(crate) fn session_edge(from: TxnId, to: TxnId) -> Edge {
    Edge {
        from: Node::Txn(from),
        to: Node::Txn(to),
        relation: Relation::SessionOrder,
        evidence: Evidence::Session,
    }
}

/// A witness from its edges: everybody and every operation they mention, in the order of the history.
pub(crate) fn witness(view: CommittedView<'_>, edges: Vec<Edge>) -> Witness {
    let (mut transactions, mut operations) = (Vec::new(), Vec::new());
    collect(view, &edges, &mut transactions, &mut operations);
    transactions.sort_unstable();
    transactions.dedup();
    operations.sort_unstable();
    operations.dedup();
    Witness { transactions, operations, edges, ..Witness::default() }
}

fn collect(view: CommittedView<'_>, edges: &[Edge], txns: &mut Vec<TxnId>, ops: &mut Vec<OpId>) {
    for edge in edges {
        txns.extend([edge.from, edge.to].into_iter().filter_map(|node| match node {
            Node::Txn(t) => Some(t),
            Node::Initial => None,
        }));
        let before = ops.len();
        ops.extend(edge.evidence.operations());
        if let Evidence::Forced { path, .. } = &edge.evidence {
            // One level deep: a path is made of plain edges.
            collect(view, path, txns, ops);
        }
        txns.extend(ops[before..].iter().map(|&op| view.history.txn_of(op)));
    }
}
