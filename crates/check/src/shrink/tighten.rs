//! Smaller proofs: where no order exists, the least part of the history of which that is already true.
//!
//! What a solver refutes it refutes with whatever it happened to look at. The refutation of a shrunk history is one of the
//! whole too, because the part keeps every explanation of the reads it keeps: sessions, reads and writers are the same, only
//! fewer. So it takes the place of the larger one. Not on lists: they lose elements, and then show other versions.

use super::{Goal, Shrinker};
use crate::Budget;
use isolde_history::{History, OpId, Origin, TxnId};
use isolde_level::{Certificate, Choice, Judgement, Literal, Point, Reason, Refutation, Step};

/// Refutations of so many steps fit on a screen as they are.
const SMALL: usize = 8;

/// Replaces the refutations of a judgement, and the witnesses of anomalies that say no more than that no order exists, by
/// those of a shrunk history where that makes them smaller.
pub fn tighten(history: &History, judgement: &mut Judgement, budget: &Budget<'_>) {
    if history.has_lists() {
        return;
    }
    let known = judgement.clone();
    let Judgement { anomalies, certificates, .. } = judgement;
    for (level, certificate) in certificates {
        let Certificate::Violated(refutation) = certificate else { continue };
        if refutation.steps.len() <= SMALL {
            continue;
        }
        let goal = Goal { level: *level, anomaly: None };
        let shrinker = Shrinker { goal, budget, probes: 0 };
        let Ok(shrunk) = shrinker.from(history, known.clone()) else { continue };
        let smaller = shrunk.judgement.certificates.iter().find_map(|(by, proof)| match proof {
            Certificate::Violated(smaller) if by == level => Some(smaller),
            _ => None,
        });
        let Some(smaller) = smaller.filter(|s| s.steps.len() < refutation.steps.len()) else { continue };
        let Some(moved) = moved(smaller, &shrunk.origin) else { continue };
        *refutation = moved;
        for anomaly in anomalies.iter_mut().filter(|a| a.kind.is_no_order() && level.forbids(a.kind)) {
            anomaly.witness.transactions = shrunk.origin.txns.clone();
            anomaly.witness.transactions.sort_unstable();
            anomaly.witness.operations = shrunk.origin.ops.clone();
            anomaly.witness.operations.sort_unstable();
        }
    }
}

/// The same refutation about the original history; `None` if it is about lists.
fn moved(refutation: &Refutation, origin: &Origin) -> Option<Refutation> {
    let txn = |t: TxnId| origin.txns[t.index()];
    let op = |op: OpId| origin.ops[op.index()];
    let point = |p: Point| match p {
        Point::Begin(t) => Point::Begin(txn(t)),
        Point::Commit(t) => Point::Commit(txn(t)),
    };
    let choice = |c: Choice| Choice { read: op(c.read), write: op(c.write) };
    let literal = |l: &Literal| match *l {
        Literal::Before(a, b) => Literal::Before(point(a), point(b)),
        Literal::ReadsFrom(c) => Literal::ReadsFrom(choice(c)),
        Literal::NotReadsFrom(c) => Literal::NotReadsFrom(choice(c)),
        Literal::Committed(t) => Literal::Committed(txn(t)),
        Literal::NotCommitted(t) => Literal::NotCommitted(txn(t)),
    };
    let step = |step: &Step| {
        let reason = match &step.reason {
            Reason::Cycle(points) => Reason::Cycle(points.iter().map(|&p| point(p)).collect()),
            Reason::Axiom { read, write, other, path } => Reason::Axiom {
                read: op(*read),
                write: write.map(op),
                other: op(*other),
                path: path.iter().map(|&t| txn(t)).collect(),
            },
            Reason::Conflict { first, second } => Reason::Conflict { first: op(*first), second: op(*second) },
            Reason::Source { read, element } => Reason::Source { read: op(*read), element: *element },
            Reason::Observed(c) => Reason::Observed(choice(*c)),
            Reason::Intermediate(c) => Reason::Intermediate(choice(*c)),
            Reason::Impossible { read } => Reason::Impossible { read: op(*read) },
            Reason::Implied(hints) => Reason::Implied(hints.clone()),
            Reason::Repeated { first, second } => Reason::Repeated { first: op(*first), second: op(*second) },
            Reason::Version { .. } | Reason::Assumed { .. } => return None,
        };
        Some(Step { clause: step.clause.iter().map(literal).collect(), reason })
    };
    let steps: Option<Vec<Step>> = refutation.steps.iter().map(step).collect();
    steps.map(|steps| Refutation { steps })
}
