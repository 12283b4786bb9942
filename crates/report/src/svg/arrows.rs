//! The arrows of a picture: the contradiction itself, and thinner what stands behind its forced edges.

use crate::layout::head;
use crate::refuted;
use crate::witness_view::WitnessView;
use anomalist_history::{OpId, OpKind, TxnId};
use anomalist_level::{Edge, Evidence, Node, Relation};

/// The longest label.
const LABEL: usize = 18;

/// A dependency to draw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arrow {
    pub from: Node,
    pub to: Node,
    /// The operation at which it starts; `None`: it is about the transaction as a whole.
    pub from_op: Option<OpId>,
    /// The operation at which it ends.
    pub to_op: Option<OpId>,
    pub relation: Relation,
    pub label: String,
    /// Part of the contradiction, not of what stands behind it.
    pub main: bool,
    /// The edge of the witness that it is, or stands behind.
    pub edge: Option<usize>,
}

/// The colour of a relation: readable on light and on dark.
pub(crate) fn color(relation: Relation) -> &'static str {
    match relation {
        Relation::SessionOrder => "#2f9e62",
        Relation::WriteRead => "#3b82d6",
        Relation::Required => "#d6455d",
        Relation::VersionOrder => "#e07b1a",
        Relation::AntiDependency | Relation::PredicateAntiDependency => "#9b5de5",
        Relation::RealTime => "#7d8590",
    }
}

/// What a relation means, for the legend.
pub(crate) fn meaning(relation: Relation) -> &'static str {
    match relation {
        Relation::SessionOrder => "earlier in the session",
        Relation::WriteRead => "read from",
        Relation::Required => "must commit before",
        Relation::VersionOrder => "overwritten by",
        Relation::AntiDependency => "missed the write of",
        Relation::PredicateAntiDependency => "missed the match of",
        Relation::RealTime => "ended before",
    }
}

/// Whether a transaction only gives evidence: no arrow begins or ends at it. What contradicts timestamps,
/// and a refutation, are no cycle: each transaction is part of them.
pub(crate) fn is_bystander(view: &WitnessView<'_>, arrows: &[Arrow], t: TxnId) -> bool {
    let is_cycle = !view.anomaly.witness.edges.is_empty() && !view.anomaly.kind.is_stamp();
    is_cycle && !arrows.iter().any(|a| [a.from, a.to].contains(&Node::Txn(t)))
}

/// Every arrow once, the contradiction first.
pub(crate) fn arrows(view: &WitnessView<'_>) -> Vec<Arrow> {
    let mut all: Vec<Arrow> = Vec::new();
    let mut add = |arrow: Arrow| {
        let same = |a: &Arrow| {
            (a.from_op, a.to_op, a.from, a.to, a.relation)
                == (arrow.from_op, arrow.to_op, arrow.from, arrow.to, arrow.relation)
        };
        if arrow.from != arrow.to && !all.iter().any(same) {
            all.push(arrow);
        }
    };
    let edges = &view.anomaly.witness.edges;
    for (i, edge) in edges.iter().enumerate() {
        add(arrow(view, edge, true, Some(i)));
    }
    for (from, to, edge) in refuted::last_cycle(view) {
        let unnamed = || Arrow {
            from: Node::Txn(from),
            to: Node::Txn(to),
            from_op: None,
            to_op: None,
            relation: Relation::Required,
            label: Relation::Required.name().to_owned(),
            main: true,
            edge: None,
        };
        add(edge.map_or_else(unnamed, |edge| arrow(view, &edge, true, None)));
    }
    for (i, edge) in edges.iter().enumerate() {
        if let Evidence::Forced { read, overwritten, path, .. } = &edge.evidence {
            for behind in path {
                add(arrow(view, behind, false, Some(i)));
            }
            let seen = Edge {
                from: edge.to,
                to: Node::Txn(view.history.txn_of(*read)),
                relation: Relation::WriteRead,
                evidence: Evidence::Read { write: *overwritten, read: *read },
            };
            add(arrow(view, &seen, false, Some(i)));
        }
    }
    all
}

fn arrow(view: &WitnessView<'_>, edge: &Edge, main: bool, index: Option<usize>) -> Arrow {
    let (from_op, to_op) = operations(view, edge);
    let about = match &edge.evidence {
        Evidence::Session | Evidence::RealTime => None,
        Evidence::Read { write, read } => Some(write.unwrap_or(*read)),
        // The version that was overlooked: two such edges between two transactions have different ones.
        Evidence::Forced { visible_write, .. } => Some(*visible_write),
        Evidence::Version { second, .. } | Evidence::Ordered { second, .. } => Some(*second),
        Evidence::Overwritten { write, .. } => Some(*write),
        Evidence::Given { operations, .. } => operations.last().copied(),
    };
    let about = about.map_or_else(String::new, |op| version(view, op));
    let label = format!("{} {about}", edge.relation);
    let label = head(label.trim_end(), LABEL);
    Arrow { from: edge.from, to: edge.to, from_op, to_op, relation: edge.relation, label, main, edge: index }
}

/// The operations of its two ends that an edge is about.
fn operations(view: &WitnessView<'_>, edge: &Edge) -> (Option<OpId>, Option<OpId>) {
    let (from, to) = match &edge.evidence {
        Evidence::Session | Evidence::RealTime => (None, None),
        Evidence::Read { write, read } => (*write, Some(*read)),
        Evidence::Forced { visible_write, overwritten, .. } => (Some(*visible_write), *overwritten),
        Evidence::Version { first, second, .. } | Evidence::Ordered { first, second, .. } => {
            (Some(*first), Some(*second))
        }
        Evidence::Overwritten { read, write, .. } => (Some(*read), Some(*write)),
        Evidence::Given { operations, .. } => (operations.first().copied(), operations.last().copied()),
    };
    let of = |op: Option<OpId>, node: Node| op.filter(|&op| Node::Txn(view.history.txn_of(op)) == node);
    (of(from, edge.from), of(to, edge.to))
}

/// `x=1`, or `x+1` for an appended element.
fn version(view: &WitnessView<'_>, op: OpId) -> String {
    let sign = if view.history.op(op).kind == OpKind::Append { '+' } else { '=' };
    format!("{}{sign}{}", view.key_of(op), view.value(op))
}
