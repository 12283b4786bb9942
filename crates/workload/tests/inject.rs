//! Every anomaly that is asked for is there, and breaks exactly the levels it should.

mod common;

use anomalist_workload::{Injection, Kind, SimLevel, Spec, SpecError, generate};
use common::{Level, by_timestamps, facts, txns};
use std::collections::BTreeMap;

const LEVELS: [Level; 3] = [Level::ReadCommitted, Level::ReadAtomic, Level::Causal];

fn small(kind: Kind, level: SimLevel, inject: Vec<Injection>, seed: u64) -> Spec {
    Spec {
        kind,
        level,
        inject,
        seed,
        sessions: 6,
        txns_per_session: 12,
        ops_per_txn: 4,
        keys: 20,
        ..Spec::default()
    }
}

/// The weakest level that registers with this anomaly violate, and what Plume's rules a to f say.
fn expected(injection: Injection) -> (Option<Level>, &'static str) {
    use Injection::*;
    match injection {
        Tap(c @ 'a'..='f') => (Some(Level::ReadCommitted), &"abcdef"[c as usize - 97..c as usize - 96]),
        Tap('g'..='i') | G1c => (Some(Level::ReadCommitted), ""),
        Tap('j'..='l') | ReadSkew | SessionOrder => (Some(Level::ReadAtomic), ""),
        Tap(_) => (Some(Level::Causal), ""),
        G1a | DirtyUpdate => (Some(Level::ReadCommitted), "b"),
        G1b => (Some(Level::ReadCommitted), "f"),
        Int => (Some(Level::ReadCommitted), "d"),
        // By values two fractured reads of two writers, in the order that read committed allows or doesn't.
        G0 => (Some(Level::ReadCommitted), ""),
        _ => (None, ""),
    }
}

#[test]
fn registers_break_exactly_the_levels_of_the_anomaly() {
    for injection in Injection::ALL {
        for (base, kept) in [
            (SimLevel::Serializable, Level::Causal),
            (SimLevel::Causal, Level::Causal),
            (SimLevel::ReadAtomic, Level::ReadAtomic),
            (SimLevel::ReadCommitted, Level::ReadCommitted),
        ] {
            for seed in 0..5 {
                let spec = small(Kind::Timestamped, base, vec![injection], seed);
                let h = match generate(&spec) {
                    Ok(h) => h,
                    Err(SpecError::WrongKind { needed, .. }) => {
                        assert_eq!(needed, "lists");
                        continue;
                    }
                    Err(error) => panic!("{injection}: {error}"),
                };
                let f = facts(&txns(&h), false);
                let (weakest, letters) = expected(injection);
                assert_eq!(f.faults.iter().collect::<String>(), letters, "{injection}");
                for level in LEVELS.into_iter().filter(|&l| l <= kept) {
                    let violated = weakest.is_some_and(|w| level >= w);
                    assert_eq!(!f.satisfies(level), violated, "{injection} {base:?} {level:?} {seed}");
                }
            }
        }
    }
}

#[test]
fn lists_show_the_anomaly_too() {
    for injection in Injection::ALL {
        let spec = small(Kind::ListAppend, SimLevel::Serializable, vec![injection], 3);
        let Ok(h) = generate(&spec) else { continue };
        let f = facts(&txns(&h), true);
        use Injection::*;
        let violated = !matches!(injection, LostUpdate | WriteSkew | LongFork);
        assert_eq!(!f.satisfies(Level::Causal), violated, "{injection}");
        let compatible = !matches!(injection, IncompatibleOrder | DuplicateElement | G0);
        assert_eq!(f.compatible && f.read_uncommitted(), compatible, "{injection}");
    }
}

#[test]
fn timestamp_axioms_fail_once_each() {
    use Injection::*;
    for kind in [Kind::Timestamped, Kind::TimestampedList] {
        for (injection, codes) in [
            (ClockSkew, vec!["TIMESTAMP"]),
            (Session, vec!["SESSION"]),
            (Int, vec!["INT"]),
            (Ext, vec!["EXT"]),
            (NoConflict, vec!["NOCONFLICT"]),
            (LostUpdate, vec!["NOCONFLICT"]),
            (WriteSkew, vec![]),
            (LongFork, vec!["EXT"]),
        ] {
            let h = generate(&small(kind, SimLevel::Serializable, vec![injection], 9)).expect("possible");
            let mut found = by_timestamps(&txns(&h), kind.is_list());
            let ser = found.remove("SER").unwrap_or(0);
            assert_eq!(found, codes.into_iter().map(|c| (c, 1)).collect::<BTreeMap<_, _>>(), "{injection}");
            assert!(injection != WriteSkew || ser > 0);
        }
    }
}

#[test]
fn many_at_once_are_all_there_and_counted() {
    let inject: Vec<Injection> = Injection::ALL
        .into_iter()
        .filter(|i| i.name().starts_with("TAP") || i.name().starts_with('G'))
        .collect();
    for seed in 0..10 {
        let spec = small(Kind::Register, SimLevel::SnapshotIsolation, inject.clone(), seed);
        let total = anomalist_workload::Generator::new(spec.clone()).expect("possible").total_txns();
        let h = generate(&spec).expect("possible");
        assert_eq!(h.txn_count() as u64, total);
        assert_eq!(facts(&txns(&h), false).faults.into_iter().collect::<String>(), "abcdef");
    }
}

#[test]
fn what_cannot_be_is_an_error() {
    let error = |spec: Spec| generate(&spec).expect_err("impossible").to_string();
    let with = |inject| Spec { inject: vec![inject], ..Spec::default() };
    assert_eq!(error(with(Injection::Ext)), "EXT takes a history with timestamps");
    assert_eq!(error(with(Injection::IncompatibleOrder)), "incompatible-order takes a history with lists");
    assert_eq!(error(with(Injection::Tap('q'))), "there is no TAP-q: they are TAP-a to TAP-n");
    assert_eq!(
        error(Spec { sessions: 3, ..with(Injection::LongFork) }),
        "long-fork takes at least 4 sessions"
    );
    assert_eq!(
        error(Spec { read_ratio: 1.5, ..Spec::default() }),
        "read ratio is 1.5, but has to be between 0 and 1"
    );
    assert!(error(Spec { sessions: 0, ..Spec::default() }).starts_with("number of sessions is 0"));
    assert!(error(Spec { read_ratio: f64::NAN, ..Spec::default() }).starts_with("read ratio is NaN"));
    assert!(error(Spec { min_ops_per_txn: Some(30), ..Spec::default() }).contains("between 1 and 20"));
    assert!(error(Spec { abort_ratio: 0.7, indeterminate_ratio: 0.7, ..Spec::default() }).contains("1.4"));
}
