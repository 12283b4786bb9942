//! Simulated databases against the checker: two independent readings of the same definitions.
//!
//! A simulation at a level must satisfy it, and an injected anomaly must be found under its own name.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

use anomalist_check::{Budget, Request, check};
use anomalist_history::{History, Indexed};
use anomalist_level::{AnomalyKind, Judgement, Level, Verdict};
use anomalist_workload::{Distribution, Injection, Kind, SimLevel, Spec, generate};

fn judge(history: &History) -> Judgement {
    let indexed = Indexed::new(history, 2.try_into().unwrap());
    check(&indexed, &Request::default(), &Budget::unlimited())
}

fn crowded(kind: Kind, level: SimLevel, seed: u64) -> Spec {
    let distribution =
        if seed.is_multiple_of(2) { Distribution::Uniform } else { Distribution::Zipf { theta: 0.99 } };
    Spec {
        kind,
        level,
        sessions: 2 + (seed % 9) as u32,
        txns_per_session: 150,
        ops_per_txn: 6,
        keys: 60,
        distribution,
        writes_per_key: kind.is_list().then_some(50),
        seed,
        ..Spec::default()
    }
}

/// The strongest weak level that a simulation promises.
fn promised(level: SimLevel) -> Option<Level> {
    match level {
        SimLevel::Serializable | SimLevel::SnapshotIsolation | SimLevel::Causal => Some(Level::Causal),
        SimLevel::ReadAtomic => Some(Level::ReadAtomic),
        SimLevel::ReadCommitted => Some(Level::ReadCommitted),
        SimLevel::ReadUncommitted => None,
    }
}

#[test]
fn simulations_keep_their_level() {
    for kind in [Kind::Register, Kind::ListAppend] {
        for level in SimLevel::ALL {
            for seed in 0..12 {
                let history = generate(&crowded(kind, level, seed)).unwrap();
                let judgement = judge(&history);
                let Some(promised) = promised(level) else { continue };
                let found: Vec<&str> = judgement.anomalies.iter().map(|a| a.kind.name()).collect();
                assert_eq!(
                    judgement.verdict(promised),
                    Some(&Verdict::Holds),
                    "{kind:?} {level:?} seed {seed}: {found:?}"
                );
            }
        }
    }
}

#[test]
fn weaker_simulations_show_it() {
    let violates = |sim, level| {
        (0..12).any(|seed| {
            let history = generate(&crowded(Kind::Register, sim, seed)).unwrap();
            judge(&history).verdict(level) == Some(&Verdict::Violated)
        })
    };
    assert!(violates(SimLevel::ReadAtomic, Level::Causal));
    assert!(violates(SimLevel::ReadCommitted, Level::ReadAtomic));
    assert!(violates(SimLevel::ReadCommitted, Level::CutIsolation));
    assert!(violates(SimLevel::ReadUncommitted, Level::ReadCommitted));
}

#[test]
fn injected_patterns_are_found_under_their_own_name() {
    for (&kind, letter) in AnomalyKind::TAPS.iter().zip('a'..) {
        for seed in 0..4 {
            let mut spec = crowded(Kind::Register, SimLevel::Serializable, seed);
            spec.sessions = 8;
            spec.inject = vec![Injection::Tap(letter)];
            let judgement = judge(&generate(&spec).unwrap());
            let found: Vec<&str> = judgement.anomalies.iter().map(|a| a.kind.code()).collect();
            assert!(found.contains(&kind.code()), "TAP-{letter}, seed {seed}: found {found:?}");
            for weaker in kind.rules_out() {
                assert_eq!(judgement.verdict(weaker), Some(&Verdict::Violated), "TAP-{letter}, seed {seed}");
            }
        }
    }
}

/// What a history says does not depend on the order of its lines, nor on the number of threads.
#[test]
fn answers_do_not_depend_on_the_input_order() {
    for seed in 0..10 {
        let spec = crowded(Kind::Register, SimLevel::ReadAtomic, seed);
        let history = generate(&spec).unwrap();
        let mut b = anomalist_history::Builder::new();
        b.set_initial_default(history.initial().default);
        // Session by session, last session first: no input order to guess from.
        for session in history.sessions().collect::<Vec<_>>().into_iter().rev() {
            let s = b.session(history.session_label(session));
            for t in history.session_txns(session) {
                let draft = b.transaction(s);
                for (_, op) in history.ops(t) {
                    let key = b.key(history.key_label(op.key));
                    b.op(draft, op.kind, key, op.value);
                }
            }
        }
        let sorted = b.finish().unwrap();
        let facts = |h: &History| {
            let judgement = judge(h);
            let counts: Vec<_> = judgement.anomalies.iter().map(|a| (a.kind, a.count)).collect();
            let verdicts: Vec<_> = judgement.levels.into_iter().map(|l| (l.level, l.verdict)).collect();
            (counts, verdicts)
        };
        assert_eq!(facts(&history), facts(&sorted), "seed {seed}");
    }
}
