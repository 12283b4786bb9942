//! Refutations and executions against each other, and both against the oracle.
//!
//! A solver of the simplest kind (guess an order, and resolve what goes wrong) finds an execution or a refutation of a tiny
//! history, repeated values and unknown outcomes included. Whatever it finds must be accepted, must agree with the oracle
//! where that knows the level, and a changed refutation must not be accepted of a level that holds.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

mod solver;

use isolde_history::History;
use isolde_level::{Certificate, Level, Literal, Point, Reason, Refutation};
use isolde_testkit::mini;
use isolde_testkit::oracle::{self, StrongLevel, WeakLevel};
use isolde_testkit::random::{self, Reference, Shape};
use isolde_verify::Verifier;
use solver::Answer;

const ORACLE: [(Level, WeakLevel); 7] = [
    (Level::ReadCommitted, WeakLevel::ReadCommitted),
    (Level::ReadAtomic, WeakLevel::ReadAtomic),
    (Level::Causal, WeakLevel::Causal),
    (Level::ReadYourWrites, WeakLevel::ReadYourWrites),
    (Level::MonotonicReads, WeakLevel::MonotonicReads),
    (Level::MonotonicWrites, WeakLevel::MonotonicWrites),
    (Level::WritesFollowReads, WeakLevel::WritesFollowReads),
];

const STRONG: [(Level, StrongLevel); 9] = [
    (Level::Prefix, StrongLevel::Prefix),
    (Level::ParallelSnapshotIsolation, StrongLevel::ParallelSnapshotIsolation),
    (Level::SnapshotIsolation, StrongLevel::SnapshotIsolation),
    (Level::StrongSessionSnapshotIsolation, StrongLevel::StrongSessionSnapshotIsolation),
    (Level::StrongSnapshotIsolation, StrongLevel::StrongSnapshotIsolation),
    (Level::RepeatableRead, StrongLevel::Serializable),
    (Level::Serializable, StrongLevel::Serializable),
    (Level::StrongSessionSerializable, StrongLevel::StrongSessionSerializable),
    (Level::StrictSerializable, StrongLevel::StrictSerializable),
];

fn truth(history: &History, level: Level) -> Option<bool> {
    let weak = ORACLE.iter().find(|(l, _)| *l == level).map(|(_, weak)| oracle::satisfies(history, *weak));
    let strong = STRONG.iter().find(|(l, _)| *l == level);
    weak.or_else(|| strong.and_then(|(_, strong)| oracle::strongly_satisfies(history, *strong)))
}

#[derive(Default)]
struct Tally {
    held: u32,
    refuted: u32,
    mutants_refused: u32,
}

fn compare(history: &History, rng: &mut fastrand::Rng, context: &str, tally: &mut Tally) {
    let verifier = Verifier::new(history);
    for level in ORACLE.iter().map(|(level, _)| *level).chain(STRONG.iter().map(|(level, _)| *level)) {
        let Some(expected) = truth(history, level) else { continue };
        let shown = || format!("{level}, {context}\n{}", mini::print(history));
        let Some(answer) = solver::solve(history, level) else { continue };
        let holds = matches!(answer, Answer::Holds(_));
        assert_eq!(holds, expected, "{}", shown());
        let certificate = match answer {
            Answer::Holds(execution) => {
                tally.held += 1;
                Certificate::Holds(execution)
            }
            Answer::Violated(refutation) => {
                tally.refuted += 1;
                Certificate::Violated(refutation)
            }
        };
        if let Err(flaw) = verifier.certificate(level, &certificate) {
            panic!("{}\n{}\n{certificate:#?}", flaw.message(history), shown());
        }
        // Whatever a refutation of another level, or a changed one, says: of a level that holds nothing is accepted.
        if let Certificate::Violated(refutation) = &certificate {
            for other in STRONG.iter().map(|(level, _)| *level).chain([Level::Causal]) {
                for _ in 0..2 {
                    let mutant = Certificate::Violated(mutate(refutation, history, rng));
                    let accepted = verifier.certificate(other, &mutant).is_ok();
                    tally.mutants_refused += u32::from(!accepted);
                    let wrong = accepted && truth(history, other) == Some(true);
                    assert!(!wrong, "{other}: {mutant:#?}\n{}", shown());
                }
            }
        }
    }
}

/// One field changed.
fn mutate(refutation: &Refutation, history: &History, rng: &mut fastrand::Rng) -> Refutation {
    let mut mutant = refutation.clone();
    let at = rng.usize(..mutant.steps.len());
    let txn = isolde_history::TxnId(rng.u32(..history.txn_count() as u32 + 1));
    let op = isolde_history::OpId(rng.u32(..history.op_count() as u32 + 1));
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
            Reason::Observed(choice) | Reason::Intermediate(choice) => choice.write = op,
            Reason::Version { read, first, second } => match rng.u32(..3) {
                0 => *read = op,
                1 => *first = op,
                _ => *second = op,
            },
        },
    }
    mutant
}

fn run(family: &str, cases: u64, make: impl Fn(&mut fastrand::Rng) -> History) {
    let cases = std::env::var("ISOLDE_ORACLE_CASES").ok().and_then(|v| v.parse().ok()).unwrap_or(cases);
    let seed = std::env::var("ISOLDE_SEED").ok().and_then(|v| v.parse().ok()).unwrap_or(5u64);
    let mut tally = Tally::default();
    for case in 0..cases {
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_mul(0x9E37_79B9).wrapping_add(case));
        let history = make(&mut rng);
        compare(&history, &mut rng, &format!("{family}, ISOLDE_SEED={seed}, case {case}"), &mut tally);
    }
    assert!(tally.held > 0 && tally.refuted > 0 && tally.mutants_refused > 0, "{family} tests nothing");
}

fn small(shape: Shape) -> Shape {
    Shape { txns: 2..=4, ops: 1..=3, ..shape }
}

#[test]
fn registers() {
    run("plain", 1_000, |rng| random::tiny(rng, &small(Shape::default())));
}

#[test]
fn repeated_values() {
    run("repeated", 1_000, |rng| random::tiny(rng, &small(Shape::repeated())));
}

#[test]
fn real_time() {
    run("timed", 1_000, |rng| random::tiny(rng, &small(Shape::timed())));
}

#[test]
fn lists() {
    run("lists", 500, |rng| random::tiny(rng, &small(Shape::lists())));
}

#[test]
fn mutated_executions() {
    run("mutated", 500, |rng| {
        let reference = *rng.choice(&Reference::ALL[..]).unwrap();
        random::mutated(rng, reference, &small(Shape::default()))
    });
}
