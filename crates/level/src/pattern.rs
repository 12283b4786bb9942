//! Patterns with names of their own among the cycles that Adya's codes sort only by their edges.
//!
//! G2-item is any cycle with adjacent anti-dependencies; the one of two transactions is write skew.
//! Witnesses are shortest cycles, so a pattern shows in them.

use crate::anomaly::AnomalyKind;
use crate::result::{Anomaly, Edge, Evidence, Node, Relation};
use anomalist_history::{History, KeyId};

impl Anomaly {
    /// The pattern that the witness is an instance of: write skew, read skew, long fork or lost update.
    /// None for other cycles, for cycles that need session order or real time, and for anomalies that are a
    /// pattern themselves.
    ///
    /// Write skew: two transactions each missed what the other wrote, under different keys (Berenson et
    /// al., A5B). Read skew: a transaction saw one write of another and missed one under another key (A5A).
    /// Lost update: a transaction missed what another wrote and then wrote the same key (P4). Long fork:
    /// two readers each saw one of two writes and missed the other.
    pub fn pattern(&self, history: &History) -> Option<AnomalyKind> {
        use AnomalyKind as A;
        use Relation::{AntiDependency as Rw, VersionOrder as Ww, WriteRead as Wr};
        if !matches!(self.kind, A::GSingleItem | A::GNonadjacentItem | A::G2Item) {
            return None;
        }
        let key = |edge: &Edge| key_of(history, edge);
        let edges = &self.witness.edges;
        let relations: Vec<Relation> = edges.iter().map(|e| e.relation).collect();
        match relations[..] {
            [Rw, Rw] if key(&edges[0])? != key(&edges[1])? => Some(A::WriteSkew),
            [Rw, Wr] | [Wr, Rw] if key(&edges[0])? != key(&edges[1])? => Some(A::ReadSkew),
            [Rw, Rw | Ww] | [Ww, Rw] if key(&edges[0])? == key(&edges[1])? => Some(A::LostUpdate),
            [Rw, Wr, Rw, Wr] | [Wr, Rw, Wr, Rw] => {
                let mut nodes: Vec<Node> = edges.iter().map(|e| e.from).collect();
                nodes.sort_unstable();
                nodes.dedup();
                (nodes.len() == 4).then_some(A::LongFork)
            }
            _ => None,
        }
    }
}

impl AnomalyKind {
    /// The kind under whose code a pattern is counted, for those that are found as part of another kind.
    pub fn counted_as(self) -> Option<AnomalyKind> {
        match self {
            AnomalyKind::WriteSkew => Some(AnomalyKind::G2Item),
            AnomalyKind::ReadSkew => Some(AnomalyKind::GSingleItem),
            AnomalyKind::LongFork => Some(AnomalyKind::GNonadjacentItem),
            _ => None,
        }
    }
}

fn key_of(history: &History, edge: &Edge) -> Option<KeyId> {
    match edge.evidence {
        Evidence::Read { read: op, .. }
        | Evidence::Overwritten { read: op, .. }
        | Evidence::Version { first: op, .. }
        | Evidence::Ordered { first: op, .. } => Some(history.op(op).key),
        _ => None,
    }
}
