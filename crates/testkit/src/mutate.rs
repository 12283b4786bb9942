//! Proofs with something changed, for tests that such proofs prove nothing false.

use anomalist_history::{History, OpId, TxnId};
use anomalist_level::{Certificate, Choice, Execution, Literal, Order, Point, Reason, Refutation};
use fastrand::Rng;

/// Some transaction; now and then one that the history does not have.
fn any_txn(history: &History, rng: &mut Rng) -> TxnId {
    TxnId(rng.u32(..history.txn_count() as u32 + 1))
}

/// Some operation; now and then one that the history does not have.
fn any_op(history: &History, rng: &mut Rng) -> OpId {
    OpId(rng.u32(..history.op_count() as u32 + 1))
}

/// The proof with one field changed.
pub fn certificate(proof: &Certificate, history: &History, rng: &mut Rng) -> Certificate {
    match proof {
        Certificate::Holds(proof) => Certificate::Holds(execution(proof, history, rng)),
        Certificate::Violated(proof) => Certificate::Violated(refutation(proof, history, rng)),
    }
}

/// An execution with one thing changed: two events exchanged, one dropped, repeated or another
/// transaction's; another choice.
pub fn execution(proof: &Execution, history: &History, rng: &mut Rng) -> Execution {
    let mut mutant = proof.clone();
    if rng.u32(..4) == 0 {
        let choice = any_choice(history, rng);
        match rng.choice(0..mutant.choices.len()) {
            Some(at) if rng.bool() => mutant.choices[at].write = choice.write,
            Some(at) if rng.bool() => drop(mutant.choices.remove(at)),
            _ => mutant.choices.push(choice),
        }
        mutant.choices.sort_unstable();
        return mutant;
    }
    let txn = any_txn(history, rng);
    match &mut mutant.order {
        Order::Any => {}
        Order::Commits(order) => change(order, txn, rng),
        Order::Events(events) => {
            change(events, if rng.bool() { Point::Begin(txn) } else { Point::Commit(txn) }, rng);
        }
    }
    mutant
}

fn any_choice(history: &History, rng: &mut Rng) -> Choice {
    let write = rng.bool().then(|| any_op(history, rng));
    Choice { read: any_op(history, rng), element: rng.u32(..2), write }
}

fn change<T: Copy>(order: &mut Vec<T>, other: T, rng: &mut Rng) {
    if order.is_empty() {
        return order.push(other);
    }
    let (a, b) = (rng.usize(..order.len()), rng.usize(..order.len()));
    match rng.u32(..5) {
        0 => drop(order.remove(a)),
        1 => order.insert(a, order[b]),
        2 => order[a] = other,
        _ => order.swap(a, b),
    }
}

/// A refutation with one field changed.
pub fn refutation(proof: &Refutation, history: &History, rng: &mut Rng) -> Refutation {
    let mut mutant = proof.clone();
    let at = rng.usize(..mutant.steps.len());
    let (txn, op) = (any_txn(history, rng), any_op(history, rng));
    let step = &mut mutant.steps[at];
    match rng.u32(..6) {
        0 if !step.clause.is_empty() => drop(step.clause.swap_remove(rng.usize(..step.clause.len()))),
        1 if !step.clause.is_empty() => {
            let i = rng.usize(..step.clause.len());
            step.clause[i] = !step.clause[i];
        }
        2 => step.clause.push(Literal::Before(Point::Begin(txn), Point::Commit(txn))),
        3 => drop(mutant.steps.remove(at)),
        4 => step.clause.clear(),
        _ => match &mut step.reason {
            Reason::Cycle(points) => {
                let i = rng.usize(..points.len());
                points[i] = Point::Commit(txn);
            }
            Reason::Axiom { read, write, other, path } => match rng.u32(..4) {
                0 => *read = op,
                1 => *write = rng.bool().then_some(op),
                2 => *other = op,
                _ => path.push(txn),
            },
            Reason::Conflict { first, second }
            | Reason::Repeated { first, second }
            | Reason::Assumed { first, second, .. } => *(if rng.bool() { first } else { second }) = op,
            Reason::Implied(hints) => {
                let i = rng.usize(..hints.len());
                hints[i] = rng.u32(..at as u32 + 2);
            }
            Reason::Source { read, .. } | Reason::Impossible { read } => *read = op,
            Reason::Observed(choice) | Reason::Intermediate(choice) => choice.write = Some(op),
            Reason::Version { read, first, second } => match rng.u32(..3) {
                0 => *read = op,
                1 => *first = op,
                _ => *second = op,
            },
        },
    }
    mutant
}
