//! Refutations and executions against each other, and both against the oracle.
//!
//! A solver of the simplest kind (guess an order, and resolve what goes wrong) finds an execution or a
//! refutation of a tiny history, repeated values and unknown outcomes included. Whatever it finds must be
//! accepted, must agree with the oracle where that knows the level, and a changed refutation must not be
//! accepted of a level that holds.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

mod solver;

use anomalist_history::{History, OpKind};
use anomalist_level::{Certificate, Choice, Level, Literal, Reason, Refutation, Step};
use anomalist_testkit::oracle;
use anomalist_testkit::random::{self, Reference, Shape};
use anomalist_testkit::{mini, mutate};
use anomalist_verify::Verifier;
use solver::Answer;

fn strong() -> impl Iterator<Item = Level> {
    oracle::strong_levels().map(|(level, _)| level)
}

fn weak() -> impl Iterator<Item = Level> {
    oracle::weak_levels().map(|(level, _)| level).filter(|level| *level != Level::CutIsolation)
}

fn truth(history: &History, level: Level) -> Option<bool> {
    weak().chain(strong()).find(|l| *l == level).and_then(|level| oracle::decide(history, level))
}

#[derive(Default)]
struct Tally {
    held: u32,
    refuted: u32,
    mutants_refused: u32,
}

/// The plain solver takes the initial state for the source of a read only if there is no other.
fn writes_initial(history: &History) -> bool {
    let written = |op: &anomalist_history::Op| op.kind == OpKind::Write;
    history
        .txns()
        .any(|t| history.ops(t).any(|(_, op)| written(&op) && history.initial().of(op.key) == Some(op.value)))
}

fn compare(history: &History, rng: &mut fastrand::Rng, context: &str, tally: &mut Tally) {
    if writes_initial(history) {
        return;
    }
    let verifier = Verifier::new(history);
    for level in weak().chain(strong()) {
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
        // Whatever a refutation of another level, or a changed one, says: of a level that holds nothing is
        // accepted.
        if let Certificate::Violated(refutation) = &certificate {
            for other in strong().chain([Level::Causal]) {
                for _ in 0..2 {
                    let mutant = Certificate::Violated(mutate::refutation(refutation, history, rng));
                    let accepted = verifier.certificate(other, &mutant).is_ok();
                    tally.mutants_refused += u32::from(!accepted);
                    let wrong = accepted && truth(history, other) == Some(true);
                    assert!(!wrong, "{other}: {mutant:#?}\n{}", shown());
                }
            }
        }
    }
}

fn run(family: &str, cases: u64, make: impl Fn(&mut fastrand::Rng) -> History) {
    let cases = std::env::var("ANOMALIST_ORACLE_CASES").ok().and_then(|v| v.parse().ok()).unwrap_or(cases);
    let seed = std::env::var("ANOMALIST_SEED").ok().and_then(|v| v.parse().ok()).unwrap_or(5u64);
    let mut tally = Tally::default();
    for case in 0..cases {
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_mul(0x9E37_79B9).wrapping_add(case));
        let history = make(&mut rng);
        compare(&history, &mut rng, &format!("{family}, ANOMALIST_SEED={seed}, case {case}"), &mut tally);
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

/// Two reads of one list may have two different elements from two different transactions: only the last
/// element says whose version a list is.
#[test]
fn elements_of_a_list_may_be_of_different_transactions() {
    let history = mini::history("a(x,1) || a(x,1) || a(x,2) || a(x,2) || r(x,[1 2]) r(x,[1 2])");
    let ops: Vec<_> = history.txns().flat_map(|t| history.ops(t).map(|(op, _)| op)).collect();
    let [first, second] = [ops[4], ops[5]];
    let ones = [ops[0], ops[1]].map(|append| Choice::append(first, 0, append));
    let twos = [ops[2], ops[3]].map(|append| Choice::append(second, 1, append));
    let sources = |all: [Choice; 2], read, element| Step {
        clause: all.map(Literal::ReadsFrom).to_vec(),
        reason: Reason::Source { read, element },
    };
    let mut steps = vec![sources(ones, first, 0), sources(twos, second, 1)];
    for one in ones {
        for two in twos {
            let clause = vec![Literal::NotReadsFrom(one), Literal::NotReadsFrom(two)];
            steps.push(Step { clause, reason: Reason::Repeated { first, second } });
        }
    }
    let lemma = vec![Literal::NotReadsFrom(ones[0])];
    steps.push(Step { clause: lemma, reason: Reason::Implied(vec![2, 3, 1]) });
    steps.push(Step { clause: Vec::new(), reason: Reason::Implied(vec![6, 0, 4, 5, 1]) });
    let forged = Certificate::Violated(Refutation { steps });
    assert!(Verifier::new(&history).certificate(Level::CutIsolation, &forged).is_err());
}
