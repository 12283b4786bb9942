//! The weak engine against the definitions, on many small random histories.
//!
//! `ANOMALIST_ORACLE_CASES` sets the number of histories per family, `ANOMALIST_SEED` the seed; a failure
//! prints the history in the mini-language together with both answers.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_check::{Budget, Request, check};
use anomalist_history::{History, Indexed};
use anomalist_level::{AnomalyKind, Judgement, Level, Verdict, Why};
use anomalist_testkit::mini;
use anomalist_testkit::number;
use anomalist_testkit::oracle::{self, explanations};
use anomalist_testkit::random::{self, Pattern, Reference, Shape};
use anomalist_verify::Verifier;

fn judge(history: &History, no_guess: bool) -> Judgement {
    let indexed = Indexed::new(history, 2.try_into().unwrap());
    let request = Request { certificates: true, no_guess, ..Request::default() };
    check(&indexed, &request, &Budget::unlimited())
}

fn count(judgement: &Judgement, kind: AnomalyKind) -> u64 {
    judgement.anomalies.iter().find(|a| a.kind == kind).map_or(0, |a| a.count)
}

/// Compares all answers about one history, with and without trying orders first.
fn compare(history: &History, context: &str) {
    // The oracle tries every source of every ambiguous read: too many would take forever.
    if explanations(history) > 100 {
        return;
    }
    for no_guess in [false, true] {
        compare_one(history, &judge(history, no_guess), &format!("{context}, no_guess: {no_guess}"));
    }
}

fn compare_one(history: &History, judgement: &Judgement, context: &str) {
    let indexed = Indexed::new(history, 1.try_into().unwrap());
    let ambiguous = indexed.index().ambiguous_reads() > 0;
    let shown = || format!("{context}\n{}", mini::print(history));
    let weak = oracle::weak_levels().map(|(level, weak)| (level, Some(oracle::satisfies(history, weak))));
    let adya = oracle::loose().map(|(level, adya)| (level, oracle::loosely_satisfies(history, adya)));
    // Where no value repeats, the Adya engine's levels are compared in `adya.rs`.
    let adya = adya.filter(|(_, expected)| ambiguous && expected.is_some());
    for (level, expected) in weak.chain(adya) {
        let expected = expected.unwrap();
        match judgement.verdict(level).unwrap() {
            Verdict::Holds => assert!(expected, "{level} holds, the oracle disagrees: {}", shown()),
            Verdict::Violated => assert!(!expected, "{level} violated, the oracle disagrees: {}", shown()),
            Verdict::Unknown(why) => {
                let forgiving = [Level::CutIsolation, Level::ReadUncommitted, Level::AdyaReadCommitted];
                let versions = level == Level::CutIsolation && *why == Why::RepeatedElements;
                let unexplained =
                    matches!(why, Why::ForgivenRead | Why::UnexplainedRead | Why::OpenDependency);
                let known = forgiving.contains(&level) && unexplained || versions;
                assert!(known, "{level} unknown ({why:?}): {}", shown());
            }
        }
        let claimed = judgement.levels.iter().find(|l| l.level == level).unwrap();
        assert_eq!(
            claimed.verdict == Verdict::Violated,
            !claimed.anomalies.is_empty(),
            "{level}: {}",
            shown()
        );
    }
    // What these levels forgive; all orders of more transactions would take as long as everything else.
    let few = history.txn_count() <= 4 && !indexed.index().faults().is_empty();
    for level in [Level::ReadUncommitted, Level::AdyaReadCommitted].iter().filter(|_| few) {
        let opposite = match judgement.verdict(*level).unwrap() {
            Verdict::Holds => Some(false),
            Verdict::Violated => Some(true),
            Verdict::Unknown(_) => continue,
        };
        assert_ne!(Verifier::new(history).try_everything(*level), opposite, "{level}: {}", shown());
    }
    if let Err(flaw) = Verifier::new(history).judgement(judgement) {
        panic!("{}\n{flaw:?}\n{:?}\n{}", flaw.message(history), judgement.anomalies, shown());
    }
    if ambiguous {
        return;
    }
    let expected = oracle::taps(history);
    for (&kind, letter) in AnomalyKind::TAPS.iter().zip('a'..) {
        assert_eq!(count(judgement, kind), expected.get(letter), "TAP-{letter}: {}", shown());
    }
    for anomaly in &judgement.anomalies {
        assert!(anomaly.count > 0 && !anomaly.witness.transactions.is_empty(), "{}", shown());
    }
}

fn run(family: &str, make: impl Fn(&mut fastrand::Rng) -> History) {
    let cases = number("ANOMALIST_ORACLE_CASES", 3_000);
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
fn faulty_reads() {
    run("faulty", |rng| random::tiny(rng, &Shape::faulty()));
}

#[test]
fn uncertain_outcomes() {
    run("uncertain", |rng| random::tiny(rng, &Shape::uncertain()));
}

#[test]
fn repeated_values() {
    run("repeated", |rng| random::tiny(rng, &Shape::repeated()));
}

#[test]
fn repeated_elements() {
    run("elements", |rng| random::tiny(rng, &Shape { repeated: 0.15, ..Shape::anything() }));
}

#[test]
fn lists() {
    run("lists", |rng| random::tiny(rng, &Shape::lists()));
}

#[test]
fn anything() {
    run("anything", |rng| random::tiny(rng, &Shape::anything()));
}

#[test]
fn mutated_executions() {
    run("mutated", |rng| {
        let reference = *rng.choice(&Reference::ALL[..]).unwrap();
        let shape = if rng.bool() { Shape::default() } else { Shape::lists() };
        random::mutated(rng, reference, &shape)
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
    for history in random::exhaustive(3, 2, 2) {
        compare(&history, "exhaustive");
    }
}

/// Histories on which an engine and the oracle once disagreed.
#[test]
fn found_before() {
    for text in [
        // Reads that alternate between two writers hid the third from read committed's constraints.
        "w(x,1) w(x,2) w(y,3) r(y,3); w(y,7) r(x,2) r(x,0); w(y,8); r(y,8) r(y,6) r(y,8) r(y,7) \
         || w(y,4) r(x,0); w(y,5) w(y,6) r(y,6); r(x,0) r(x,2)",
        "w(x,1) w(x,2) w(x,3); w(x,4); r(x,8) r(x,3) r(x,8); r(x,8) r(x,3) r(x,8) r(x,7); w(x,8) \
         || w(x,5) w(x,6) w(x,7); w(x,9) w(x,10) w(x,11)",
        // A session that begins with a read from the end of another had not seen that one's past.
        "r(z,1) w(x,5) w(y,6) r(y,6) || r(z,0) r(x,5) w(z,7) || w(z,1) w(x,2) r(x,2); w(y,3) r(y,3) w(z,4)",
        // A read of an own write committed an indeterminate writer of the same value.
        "w(x,1) r(x,1) || r(y,9) w(x,1) !info",
        // Contradicting list reads show an order each, and appends that were skipped come later.
        "w(x,2) r(x,2) w(x,3) a(y,4) !info || r(x,0); r(x,8) w(x,1); r(y,[6 7]) r(y,[6 7 4]) \
         || w(x,5) a(y,6) a(y,7); r(x,5) w(x,8) r(y,[6 4]) r(x,8)",
        "a(x,1) a(x,2) || r(x,[2])",
        // A list that shows nothing but an own append shows that no other transaction's was there.
        "r(y,[1]) a(y,1) r(y,[1]) || a(y,1)",
        // A list after an own append shows what others appended before.
        "a(y,1); a(x,2) || a(x,3) r(x,[2 3]) r(y,[])",
        "a(x,1) a(x,2) || a(x,3) r(x,[1 3])",
        // Cut isolation asks for no order, not even for one of a list that shows a transaction's appends
        // apart.
        "r(x,[]); r(z,[3]); r(x,[4 2 6 5]) a(z,3) || a(z,3) r(z,[3 3]) a(x,4) a(x,5) || a(x,2); r(z,[3 3]); a(x,6)",
        // PL-2 forgives ignoring an own write, not what is read instead; of whom that is may be open.
        "r(x,2) w(x,1) w(x,2); r(x,4) w(x,3); w(x,4) r(x,4) r(x,2); w(x,2) r(x,2)",
        "a(y,2) a(x,3) a(y,4) || a(y,1); a(y,5) r(y,[5 4]) a(y,4) a(y,6)",
        "w(x,0) w(x,3); w(x,5) r(x,0); w(x,6) r(x,6) w(x,0)",
        "a(x,3) a(x,4); a(x,1) a(x,7) || a(x,1) a(x,2); a(x,2) r(x,[3]) a(x,5); r(x,[3 4 1 7 2 5 1 2])",
        // What was read instead may be of an indeterminate transaction.
        "w(x,3) w(x,4) w(x,5) r(x,1) || w(x,0) w(x,1) !info || w(x,1) r(x,1) !info",
        // A list may show one append twice, or two equal ones.
        "r(y,0) r(z,[1 1 2]); a(z,2) r(z,[1 1 2]) r(y,0) || a(z,1) a(z,1) r(y,0) !info",
        // A list with garbage still shows one transaction's append between those of another.
        "a(z,1) r(x,[]) a(x,2) a(z,3); r(x,[2]) a(x,4) a(x,5); a(x,5) a(z,6); a(z,7) r(y,[]) r(z,[1000 1 8 3 7]) a(z,8); r(x,[2 5])",
        // An element of a list with garbage may be from an indeterminate transaction.
        "r(y,[]) w(z,0); r(y,[3]) a(y,4); r(y,[1000 3 4 1 3]) || a(y,1) a(y,3); a(y,3) !info; r(z,0)",
    ] {
        compare(&mini::history(text), "found before");
    }
}
