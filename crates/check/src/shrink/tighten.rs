//! Smaller proofs: where no order exists, the least part of the history of which that is already true.
//!
//! What a solver refutes it refutes with whatever it happened to look at. The refutation of a shrunk
//! history is one of the whole too, because the part keeps every explanation of the reads it keeps:
//! sessions, reads and writers are the same, only fewer. So it takes the place of the larger one. Lists
//! lose elements on the way. What they show before what they still show in the part; and because here a
//! list goes if its last element does, it is a read of the same version, and what it does not show is the
//! same. A refutation that uses more than that of a list (which elements are side by side) stays.

use super::{Goal, Promise, Shrinker, Shrunk};
use crate::Budget;
use anomalist_history::{History, OpId};
use anomalist_level::{Anomaly, Certificate, Judgement, Literal, Point, Reason, Refutation, Witness};

/// Refutations of so many steps fit on a screen as they are.
const SMALL: usize = 8;

/// Replaces the refutations of a judgement, and the witnesses of anomalies that say no more than that no
/// order exists, by those of a shrunk history where that makes them smaller.
pub fn tighten(history: &History, judgement: &mut Judgement, budget: &Budget<'_>) {
    let known = judgement.clone();
    let Judgement { anomalies, certificates, mixed, .. } = judgement;
    for (level, certificate) in certificates {
        let Certificate::Violated(refutation) = certificate else { continue };
        let found = smaller(history, Goal::level(*level), &known, refutation, budget);
        let (mut smaller, ops) = match found {
            Some((smaller, shrunk)) => (smaller, shrunk.origin.ops),
            None => (refutation.clone(), Vec::new()),
        };
        if level.info().session_order {
            skip_along_sessions(history, &mut smaller);
        }
        if smaller == *refutation {
            continue;
        }
        // The example of this level. A weaker level's stays: this refutation may rest on sessions or real
        // time.
        let is_it = |a: &&mut Anomaly| a.kind.is_no_order() && a.kind.rules_out().contains(level);
        if let Some(anomaly) = anomalies.iter_mut().find(is_it) {
            anomaly.witness = Witness::refuted(history, smaller.clone(), ops);
        }
        *refutation = smaller;
    }
    if let Some(mixed) = mixed
        && let Some(Certificate::Violated(refutation)) = &mut mixed.proof
    {
        let goal = Goal { violates: Promise::Declared, anomaly: None };
        if let Some((smaller, _)) = smaller(history, goal, &known, refutation, budget) {
            (mixed.transactions, _) = smaller.names(history);
            *refutation = smaller;
        }
    }
}

/// The refutation of the shrunk history, translated to the whole; `None` if it is not smaller, or not one of
/// the whole.
fn smaller(
    history: &History,
    goal: Goal,
    known: &Judgement,
    refutation: &Refutation,
    budget: &Budget<'_>,
) -> Option<(Refutation, Shrunk)> {
    if refutation.steps.len() <= SMALL {
        return None;
    }
    let shrinker = Shrinker { goal, definitions: known.definitions, budget, probes: 0, ends: true };
    let shrunk = shrinker.from(history, known.clone()).ok()?;
    let proof = match goal.violates {
        Promise::Declared => shrunk.judgement.mixed.as_ref()?.proof.as_ref(),
        Promise::Level(level) => {
            shrunk.judgement.certificates.iter().find(|(by, _)| *by == level).map(|(_, proof)| proof)
        }
    };
    let Some(Certificate::Violated(smaller)) = proof else { return None };
    if smaller.steps.len() >= refutation.steps.len() {
        return None;
    }
    let origin = &shrunk.origin;
    let smaller = smaller.map(|t| origin.txns[t.index()], |op| origin.ops[op.index()]);
    is_about_the_whole(history, &smaller).then_some((smaller, shrunk))
}

/// Leaves out what a cycle passes on its way along a session: its first transaction there precedes its last.
fn skip_along_sessions(history: &History, refutation: &mut Refutation) {
    for step in &mut refutation.steps {
        let Reason::Cycle(points) = &mut step.reason else { continue };
        let mut kept: Vec<Point> = Vec::with_capacity(points.len());
        for (i, &point) in points.iter().enumerate() {
            let along = |a: &Point, b: &Point| a.txn() == b.txn() || history.session_before(a.txn(), b.txn());
            let between = match (kept.last(), points.get(i + 1)) {
                (Some(before), Some(next)) => {
                    along(before, &point)
                        && along(&point, next)
                        && history.session_before(before.txn(), next.txn())
                }
                _ => false,
            };
            if !between {
                kept.push(point);
            }
        }
        *points = kept;
    }
}

/// Whether what a refutation says about lists is true of the whole lists.
fn is_about_the_whole(history: &History, refutation: &Refutation) -> bool {
    let of_list = |op: OpId| history.list(history.op(op).value).is_some();
    let orders = |literal: &Literal| matches!(literal, Literal::Before(..));
    refutation.steps.iter().all(|step| match step.reason {
        Reason::Cycle(_) | Reason::Axiom { .. } | Reason::Conflict { .. } | Reason::Implied(_) => true,
        Reason::Assumed { .. } => false,
        Reason::Version { read, first, second } => {
            let elements = history.list(history.op(read).value).unwrap_or_default();
            let at = |op: OpId| elements.iter().position(|&e| e == history.op(op).value);
            match (at(first), at(second)) {
                (Some(i), Some(j)) => i + 1 == j || i < j && step.clause.iter().any(orders),
                // It shows the one last and the other not at all; that one is still the last.
                (Some(_), None) => true,
                _ => false,
            }
        }
        Reason::Repeated { first, second } => !of_list(first) && !of_list(second),
        Reason::Source { read, .. } | Reason::Impossible { read } => !of_list(read),
        Reason::Observed(choice) | Reason::Intermediate(choice) => !of_list(choice.read),
    })
}
