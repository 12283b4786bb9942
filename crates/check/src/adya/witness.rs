//! The operations behind the edges of a cycle.

use super::depend::{Dependencies, RT, RW, RWP, SO, WR, WW};
use super::lists::Place;
use crate::view::{Read, Writer};
use crate::weak::witness::{session_edge, witness};
use anomalist_graph::labelled::{Labels, Walk};
use anomalist_history::{FaultKind, KeyId, OpId, OpKind, Source, TxnId};
use anomalist_level::{Bound, Edge, Evidence, Node, Relation, VersionReason, Witness};

impl Dependencies<'_> {
    /// A cycle with its evidence. Runs of session order, or of real time, become one edge.
    pub fn witness(&self, walk: &Walk) -> Witness {
        let next = |i: usize| walk.nodes[(i + 1) % walk.nodes.len()];
        let mut edges: Vec<Edge> = Vec::new();
        for (i, &label) in walk.labels.iter().enumerate() {
            let (from, to) = (TxnId(walk.nodes[i]), TxnId(next(i)));
            let Some(edge) = self.edge(from, to, label) else { continue };
            match edges.last_mut() {
                Some(last) if merges(last, &edge) => last.to = edge.to,
                _ => edges.push(edge),
            }
        }
        if edges.len() > 2
            && let (Some(first), Some(last)) = (edges.first(), edges.last())
            && merges(last, first)
        {
            edges[0].from = last.from;
            edges.pop();
        }
        witness(self.view, edges)
    }

    /// An edge with the operations that prove it.
    pub fn edge(&self, from: TxnId, to: TxnId, label: Labels) -> Option<Edge> {
        self.edge_at(from, to, label, None)
    }

    /// The same, if an operation is given by that one: the read, or (for `ww`) a write of the key.
    pub fn edge_at(&self, from: TxnId, to: TxnId, label: Labels, at: Option<OpId>) -> Option<Edge> {
        let found = match label {
            SO if self.follows_in_session(from, to) => return Some(session_edge(from, to)),
            RT if self.ended_before(from, to) => Some(Evidence::RealTime),
            WR => self.read(from, to, at),
            WW => self.version_order(from, to, at),
            RW => self.overwritten(from, to, at),
            _ => None,
        };
        let evidence = found.or_else(|| self.given.evidence(from, to, label))?;
        let relation = match label {
            SO => Relation::SessionOrder,
            RT => Relation::RealTime,
            WR => Relation::WriteRead,
            WW => Relation::VersionOrder,
            RWP => Relation::PredicateAntiDependency,
            _ => Relation::AntiDependency,
        };
        Some(Edge { from: Node::Txn(from), to: Node::Txn(to), relation, evidence })
    }

    fn follows_in_session(&self, from: TxnId, to: TxnId) -> bool {
        self.view.history.session_before(from, to)
    }

    fn ended_before(&self, from: TxnId, to: TxnId) -> bool {
        let Some(intervals) = self.view.history.intervals() else { return false };
        intervals[from.index()].completed.is_some_and(|end| end < intervals[to.index()].invoked)
    }

    fn reads(&self, t: TxnId) -> impl Iterator<Item = (OpId, KeyId)> {
        self.view.history.ops(t).filter(|(_, o)| o.kind == OpKind::Read).map(|(op, o)| (op, o.key))
    }

    fn writes(&self, t: TxnId) -> impl Iterator<Item = (OpId, KeyId)> {
        self.view.history.ops(t).filter(|(_, o)| o.kind != OpKind::Read).map(|(op, o)| (op, o.key))
    }

    fn read(&self, from: TxnId, to: TxnId, at: Option<OpId>) -> Option<Evidence> {
        self.reads(to).filter(|(read, _)| at.is_none_or(|at| at == *read)).find_map(|(read, key)| {
            if self.lists.place(read).is_some() {
                let seen = self.lists.seen(key, read).filter(|a| a.txn == from)?;
                return Some(Evidence::Read { write: Some(seen.op), read });
            }
            if self.view.index.source(read) == Source::From(from) {
                return Some(Evidence::Read { write: self.register_write(from, key, read), read });
            }
            let fault = self.view.index.faults().iter().find(|f| {
                f.op == read
                    && f.kind == FaultKind::NotMyOwnWrite
                    && f.other.is_some_and(|w| self.view.history.txn_of(w) == from)
            })?;
            Some(Evidence::Read { write: fault.other, read })
        })
    }

    fn register_write(&self, writer: TxnId, key: KeyId, read: OpId) -> Option<OpId> {
        self.view.write_seen(Read { op: read, key, from: Some(writer) })
    }

    fn version_order(&self, from: TxnId, to: TxnId, at: Option<OpId>) -> Option<Evidence> {
        let key_of = |op: OpId| self.view.history.op(op).key;
        self.writes(to).filter(|(_, key)| at.is_none_or(|at| key_of(at) == *key)).find_map(|(second, key)| {
            let order = self.lists.range(key);
            let before = match self.lists.position(second) {
                Some(position) => (position > order.start).then(|| self.lists.at(position - 1)),
                None if self.lists.later(key).iter().any(|a| a.op == second) && !order.is_empty() => {
                    Some(self.lists.at(order.end - 1))
                }
                None => None,
            };
            if let Some(first) = before.filter(|a| a.txn == from) {
                let read = self.lists.shown_by(key)?;
                return Some(Evidence::Version { first: first.op, second, read });
            }
            let reason = self.registers.reason(key, Some(from), to)?;
            Some(Evidence::Ordered { first: self.view.write_of(from, key)?, second, reason })
        })
    }

    fn overwritten(&self, from: TxnId, to: TxnId, at: Option<OpId>) -> Option<Evidence> {
        self.reads(from).filter(|(read, _)| at.is_none_or(|at| at == *read)).find_map(|(read, key)| {
            let seen = self.lists.seen(key, read).map(|a| a.op);
            if let Some(place) = self.lists.place(read) {
                let Place::At(position) = place else { return None };
                let shown = self.lists.shown_by(key);
                if position < self.lists.range(key).end {
                    let next = Some(self.lists.at(position)).filter(|a| a.txn == to)?;
                    let reason = VersionReason::Shown { read: shown? };
                    return Some(Evidence::Overwritten { read, seen, write: next.op, reason });
                }
                let missing = self.lists.later(key).iter().find(|a| a.txn == to)?;
                let reason = VersionReason::Missing { read: shown };
                return Some(Evidence::Overwritten { read, seen, write: missing.op, reason });
            }
            let version: Writer = match self.view.index.source(read) {
                Source::From(writer) => Some(writer),
                Source::Initial => None,
                _ => return None,
            };
            if !self.view.is_installed(Read { op: read, key, from: version }) {
                return None;
            }
            let write = self.view.write_of(to, key)?;
            let reason = self.registers.reason(key, version, to)?;
            let seen = version.and_then(|w| self.register_write(w, key, read));
            Some(Evidence::Overwritten { read, seen, write, reason })
        })
    }

    /// The damaged keys that the edges of a witness are about.
    pub fn damaged_in(&self, witness: &Witness) -> Vec<KeyId> {
        let about = witness.edges.iter().filter_map(|e| match e.evidence {
            Evidence::Version { read, .. }
            | Evidence::Overwritten { read, .. }
            | Evidence::Read { read, .. } => Some(self.view.history.op(read).key),
            _ => None,
        });
        let mut keys: Vec<KeyId> = about.filter(|&key| self.lists.is_damaged(key)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

fn merges(a: &Edge, b: &Edge) -> bool {
    a.relation == b.relation
        && matches!(a.evidence, Evidence::Session | Evidence::RealTime)
        && matches!(b.evidence, Evidence::Session | Evidence::RealTime)
}

/// The label of an order's own edges.
pub(crate) fn needed_label(bound: Bound) -> Option<Labels> {
    match bound {
        Bound::Data => None,
        Bound::Session => Some(SO),
        Bound::RealTime => Some(RT),
    }
}
