//! A contradiction written as a refutation: for levels that are violated although no anomaly of theirs has
//! an instance.
//!
//! By Plume's letter read atomic is an axiom (Definition 5), but its patterns TAP-k and TAP-l need two keys
//! (Table 1), so a reader that overlooks an earlier transaction of its session shows none of them. The cycle
//! that refutes the axiom is then handed over as steps: each constraint is one clause, and so is the cycle.

use anomalist_level::{Edge, Evidence, Literal, Node, Point, Reason, Refutation, Relation, Step, Witness};

/// The steps behind a cycle of causality, version order and constraints. `None`: the cycle has something
/// else.
pub(crate) fn refutation(witness: &Witness) -> Option<Refutation> {
    let mut steps: Vec<Step> = Vec::new();
    for edge in &witness.edges {
        let step = match edge.relation {
            Relation::SessionOrder | Relation::WriteRead => continue,
            _ => step(edge)?,
        };
        if step.clause.is_empty() {
            // Nothing comes before the initial state: that is a contradiction by itself.
            return Some(Refutation { steps: vec![step] });
        }
        steps.push(step);
    }
    let points = witness.edges.iter().map(|e| point(e.from)).collect::<Option<Vec<Point>>>()?;
    steps.push(Step { clause: Vec::new(), reason: Reason::Cycle(points) });
    Some(Refutation { steps })
}

fn point(node: Node) -> Option<Point> {
    match node {
        Node::Txn(t) => Some(Point::Commit(t)),
        Node::Initial => None,
    }
}

fn step(edge: &Edge) -> Option<Step> {
    let reason = match &edge.evidence {
        Evidence::Forced { read, overwritten, visible_write, path } => Reason::Axiom {
            read: *read,
            write: *overwritten,
            other: *visible_write,
            path: path.iter().skip(1).filter_map(|e| point(e.from)).map(Point::txn).collect(),
        },
        &Evidence::Version { first, second, read } => Reason::Version { read, first, second },
        &Evidence::Ordered { first, second, reason } => Reason::Assumed { first, second, reason },
        _ => return None,
    };
    let clause = match (point(edge.from)?, point(edge.to)) {
        (from, Some(to)) => vec![Literal::Before(from, to)],
        (_, None) => Vec::new(),
    };
    Some(Step { clause, reason })
}
