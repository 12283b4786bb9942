//! The engine for strong levels against the definitions, on many small random histories.
//!
//! `ANOMALIST_ORACLE_CASES` sets the number of histories per family, `ANOMALIST_SEED` the seed; a failure
//! prints the history in the mini-language together with both answers.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_check::{Budget, Request, check};
use anomalist_history::{History, Indexed};
use anomalist_level::{Certificate, Family, Judgement, Level, Order, Verdict};
use anomalist_testkit::mini;
use anomalist_testkit::number;
use anomalist_testkit::oracle::{StrongLevel, explanations, strong_levels, strongly_satisfies};
use anomalist_testkit::random::{self, Pattern, Reference, Shape};
use anomalist_verify::Verifier;

/// The ways to the same answers: all at once with the weak levels, each level alone, and without shortcuts.
fn judge(history: &History, levels: &[Level], no_guess: bool, no_saturation: bool) -> Judgement {
    let indexed = Indexed::new(history, 1.try_into().unwrap());
    let levels = levels.to_vec();
    let request = Request { levels, certificates: true, no_guess, no_saturation, ..Request::default() };
    check(&indexed, &request, &Budget::unlimited())
}

fn compare(history: &History, context: &str) {
    // The oracle tries every source of every ambiguous read: too many would take forever.
    if explanations(history) > 100 {
        return;
    }
    let expected: Vec<(Level, Option<bool>)> =
        strong_levels().map(|(level, strong)| (level, strongly_satisfies(history, strong))).collect();
    for (no_guess, no_saturation) in [(false, false), (true, false), (true, true)] {
        let judgement = judge(history, &[], no_guess, no_saturation);
        verify(history, &judgement, context);
        for &(level, expected) in &expected {
            let context = format!("{context}, no_guess: {no_guess}, no_saturation: {no_saturation}");
            compare_level(history, level, expected, &judgement, &context);
        }
    }
    for &(level, expected) in &expected {
        compare_level(
            history,
            level,
            expected,
            &judge(history, &[level], false, false),
            &format!("{context}, alone"),
        );
    }
}

/// Proofs that this engine makes; those of others are verified in `oracle.rs`.
fn is_ours(level: Level, certificate: &Certificate) -> bool {
    let ours = strong_levels().any(|(l, _)| l == level);
    let split = level.family().is_some_and(Family::has_snapshots);
    match certificate {
        Certificate::Holds(execution) => ours && split == matches!(execution.order, Order::Events(_)),
        Certificate::Violated(_) => true,
    }
}

/// Every proof is one, and every violated strong level has one: a witness, or a refutation of something
/// that it implies. (Witnesses are verified in `oracle.rs`, with those of the other engines.)
fn verify(history: &History, judgement: &Judgement, context: &str) {
    let verifier = Verifier::new(history);
    for (level, certificate) in judgement.certificates.iter().filter(|(level, c)| is_ours(*level, c)) {
        if let Err(flaw) = verifier.certificate(*level, certificate) {
            let (message, shown) = (flaw.message(history), mini::print(history));
            panic!("{level}: {message}\n{flaw:?}\n{certificate:#?}\n{shown}\n{context}");
        }
    }
    let ours = |level: Level| strong_levels().any(|(l, _)| l == level);
    for answer in judgement.levels.iter().filter(|l| l.verdict == Verdict::Violated && ours(l.level)) {
        let refuted = |(by, proof): &(Level, Certificate)| {
            matches!(proof, Certificate::Violated(_)) && answer.level.implies(*by)
        };
        let witnessed = answer.anomalies.iter().any(|kind| !kind.is_no_order());
        let shown = || format!("{}\n{context}", mini::print(history));
        assert!(witnessed || judgement.certificates.iter().any(refuted), "{}: {}", answer.level, shown());
    }
}

fn compare_level(
    history: &History,
    level: Level,
    expected: Option<bool>,
    judgement: &Judgement,
    context: &str,
) {
    let shown = || format!("{context}\n{}\n{:?}", mini::print(history), history.intervals());
    let verdict = judgement.verdict(level).unwrap();
    match (verdict, expected) {
        (Verdict::Holds, expected) => {
            assert_eq!(expected, Some(true), "{level} holds, says the engine: {}", shown())
        }
        (Verdict::Violated, expected) => {
            let session_variant = || {
                let of = |level| strong_levels().find(|(l, _)| *l == level).map(|(_, strong)| strong);
                of(level).map(|strong| StrongLevel { real_time: false, ..strong })
            };
            let expected = expected.or_else(|| strongly_satisfies(history, session_variant()?));
            assert_eq!(expected, Some(false), "{level} violated, says the engine: {}", shown());
        }
        (Verdict::Unknown(why), expected) => {
            assert!(expected.is_none(), "{level} unknown ({why:?}): {}", shown());
        }
    }
    let claimed = judgement.levels.iter().find(|l| l.level == level).unwrap();
    assert_eq!(claimed.verdict == Verdict::Violated, !claimed.anomalies.is_empty(), "{level}: {}", shown());
}

fn run(family: &str, make: impl Fn(&mut fastrand::Rng) -> History) {
    let cases = number("ANOMALIST_ORACLE_CASES", 1_500);
    let seed = number("ANOMALIST_SEED", 20_261_116);
    for case in 0..cases {
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_mul(0x9E37_79B9).wrapping_add(case));
        let history = make(&mut rng);
        compare(&history, &format!("{family}, ANOMALIST_SEED={seed}, case {case}"));
    }
}

#[test]
fn plain_registers() {
    run("plain", |rng| random::tiny(rng, &Shape::default()));
}

#[test]
fn with_real_time() {
    run("timed", |rng| random::tiny(rng, &Shape::timed()));
}

#[test]
fn faulty_reads() {
    run("faulty", |rng| random::tiny(rng, &Shape { timed: 0.3, ..Shape::faulty() }));
}

#[test]
fn uncertain_outcomes() {
    run("uncertain", |rng| random::tiny(rng, &Shape { timed: 0.3, ..Shape::uncertain() }));
}

#[test]
fn repeated_values() {
    run("repeated", |rng| random::tiny(rng, &Shape { timed: 0.3, ..Shape::repeated() }));
}

#[test]
fn blind_writes() {
    let shape = Shape { txns: 4..=7, keys: 1..=2, ops: 1..=3, reads: 0.35, ..Shape::default() };
    run("blind", |rng| random::tiny(rng, &shape));
}

#[test]
fn lists() {
    run("lists", |rng| random::tiny(rng, &Shape { timed: 0.3, ..Shape::lists() }));
}

#[test]
fn anything() {
    run("anything", |rng| random::tiny(rng, &Shape { timed: 0.3, ..Shape::anything() }));
}

#[test]
fn repeated_elements() {
    run("elements", |rng| random::tiny(rng, &Shape { timed: 0.3, repeated: 0.1, ..Shape::anything() }));
}

#[test]
fn executions() {
    run("executed", |rng| {
        let reference = *rng.choice(&Reference::ALL[..]).unwrap();
        let lists = if rng.bool() { 0.0 } else { 0.5 };
        random::executed(rng, reference, &Shape { timed: 0.5, indeterminate: 0.1, lists, ..Shape::default() })
    });
}

#[test]
fn mutated_executions() {
    run("mutated", |rng| {
        let reference = *rng.choice(&Reference::ALL[..]).unwrap();
        let shape = if rng.bool() { Shape::default() } else { Shape::lists() };
        random::mutated(rng, reference, &Shape { timed: 0.5, ..shape })
    });
}

#[test]
fn structured() {
    run("structured", |rng| {
        let pattern = *rng.choice(&Pattern::ALL[..]).unwrap();
        random::structured(rng, pattern, &Shape::default())
    });
}

#[test]
fn every_tiny_history() {
    // Every eleventh, that is: the rest of them differ in little.
    for history in random::exhaustive(3, 2, 2).step_by(11) {
        compare(&history, "exhaustive");
    }
}
