//! The verifier against the definitions: a level holds by the oracle iff some order of commits is accepted
//! for it.
//!
//! Tiny histories, every order. So whatever certificate the verifier accepts, changed or not, is about a
//! level that holds.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_history::{History, TxnId};
use anomalist_level::{Certificate, Execution, Level, Order};
use anomalist_testkit::mini;
use anomalist_testkit::oracle::{self, WeakLevel};
use anomalist_testkit::random::{self, Reference, Shape};
use anomalist_verify::Verifier;

/// Cut isolation has no order.
fn levels() -> Vec<(Level, WeakLevel)> {
    oracle::weak_levels().filter(|(level, _)| *level != Level::CutIsolation).collect()
}

/// Calls `f` with every order of `txns`.
fn orders(txns: &mut Vec<TxnId>, at: usize, f: &mut impl FnMut(&[TxnId])) {
    if at == txns.len() {
        return f(txns);
    }
    for i in at..txns.len() {
        txns.swap(at, i);
        orders(txns, at + 1, f);
        txns.swap(at, i);
    }
}

/// Every set of transactions that contains all that committed and none that aborted.
fn compare(history: &History, context: &str) {
    use anomalist_history::Outcome;
    let verifier = Verifier::new(history);
    let levels = levels();
    let mut accepted = vec![false; levels.len()];
    let unknown: Vec<TxnId> =
        history.txns().filter(|&t| history.outcome(t) == Outcome::Indeterminate).collect();
    for chosen in 0..1u32 << unknown.len() {
        let mut txns: Vec<TxnId> =
            history.txns().filter(|&t| history.outcome(t) == Outcome::Committed).collect();
        txns.extend(unknown.iter().enumerate().filter(|(i, _)| chosen >> i & 1 == 1).map(|(_, &t)| t));
        orders(&mut txns, 0, &mut |order| {
            let certificate = Certificate::Holds(Execution::commits(order.to_vec()));
            for (i, (level, _)) in levels.iter().copied().enumerate() {
                accepted[i] = accepted[i] || verifier.certificate(level, &certificate).is_ok();
            }
        });
    }
    for ((level, weak), accepted) in levels.iter().copied().zip(accepted) {
        let expected = oracle::satisfies(history, weak);
        assert_eq!(accepted, expected, "{level}, {context}\n{}", mini::print(history));
    }
    let any = Certificate::Holds(Execution { order: Order::Any, choices: Vec::new() });
    assert_eq!(
        verifier.certificate(Level::CutIsolation, &any).is_ok(),
        oracle::satisfies(history, WeakLevel::CutIsolation),
        "{context}\n{}",
        mini::print(history)
    );
}

fn run(family: &str, cases: u64, make: impl Fn(&mut fastrand::Rng) -> History) {
    let cases = std::env::var("ANOMALIST_ORACLE_CASES").ok().and_then(|v| v.parse().ok()).unwrap_or(cases);
    let seed = std::env::var("ANOMALIST_SEED").ok().and_then(|v| v.parse().ok()).unwrap_or(4u64);
    for case in 0..cases {
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_mul(0x9E37_79B9).wrapping_add(case));
        compare(&make(&mut rng), &format!("{family}, ANOMALIST_SEED={seed}, case {case}"));
    }
}

fn small(shape: Shape) -> Shape {
    Shape { txns: 2..=5, ..shape }
}

#[test]
fn registers() {
    run("plain", 1_500, |rng| random::tiny(rng, &small(Shape::default())));
}

#[test]
fn faulty_reads() {
    run("faulty", 700, |rng| random::tiny(rng, &small(Shape { faulty: 0.1, ..Shape::default() })));
    run("faulty", 300, |rng| {
        random::tiny(rng, &small(Shape { internal: true, faulty: 0.1, ..Shape::default() }))
    });
}

#[test]
fn uncertain_outcomes() {
    run("uncertain", 700, |rng| random::tiny(rng, &small(Shape::uncertain())));
}

#[test]
fn lists() {
    run("lists", 1_000, |rng| random::tiny(rng, &small(Shape::lists())));
}

#[test]
fn mutated_executions() {
    run("mutated", 1_000, |rng| {
        let reference = *rng.choice(&Reference::ALL[..]).unwrap();
        let shape = if rng.bool() { Shape::default() } else { Shape::lists() };
        random::mutated(rng, reference, &small(shape))
    });
}
