//! The stream: deterministic, of the right size, in small batches, and the same as the whole.

mod common;

use anomalist_workload::{Generator, Injection, Kind, SimLevel, Spec, generate};
use common::txns;
use std::collections::BTreeSet;

fn specs() -> Vec<Spec> {
    let mut specs = Vec::new();
    for kind in Kind::ALL {
        for level in SimLevel::ALL {
            specs.push(Spec {
                kind,
                level,
                sessions: 10,
                txns_per_session: 500,
                ops_per_txn: 6,
                keys: 60,
                writes_per_key: kind.is_list().then_some(20),
                inject: vec![Injection::Tap('k'), Injection::LongFork],
                real_time: true,
                seed: 11,
                ..Spec::default()
            });
        }
    }
    specs
}

#[test]
fn same_seed_same_batches_and_another_seed_others() {
    for spec in specs() {
        // Debug output shows every column, so equal text means equal histories.
        let text = |spec: &Spec| -> Vec<String> {
            Generator::new(spec.clone()).expect("a good specification").map(|h| format!("{h:?}")).collect()
        };
        let first = text(&spec);
        assert!(first == text(&spec), "{spec:?}");
        assert!(first != text(&Spec { seed: 12, ..spec }));
    }
}

#[test]
fn batches_together_are_the_whole() {
    for spec in specs() {
        let generator = Generator::new(spec.clone()).expect("a good specification");
        let total = generator.total_txns();
        let mut streamed = Vec::new();
        let mut batches = 0;
        for batch in generator {
            batches += 1;
            assert!(batch.txn_count() <= 2_010 && batch.op_count() <= 20_000);
            assert_eq!(batch.stamps().is_some(), spec.kind.is_timestamped());
            assert!(batch.intervals().is_some());
            assert_eq!(batch.initial().default.map(|v| v.is_list()), Some(spec.kind.is_list()));
            streamed.extend(txns(&batch));
        }
        assert!(batches > 2);
        assert_eq!(streamed.len() as u64, total);
        assert!(streamed.iter().enumerate().all(|(i, t)| t.label == i as i64), "labels count up from 0");
        let whole = txns(&generate(&spec).expect("a good specification"));
        assert!(format!("{streamed:?}") == format!("{whole:?}"), "{spec:?}");
    }
}

#[test]
fn counts_are_as_asked() {
    for level in SimLevel::ALL {
        let spec = Spec { level, read_ratio: 0.3, ..Spec::default() };
        let h = generate(&spec).expect("a good specification");
        assert_eq!((h.session_count(), h.txn_count(), h.op_count()), (25, 5_000, 100_000));
        for s in h.sessions() {
            assert_eq!(h.session_range(s).len(), 200);
        }
        assert!(h.txns().all(|t| h.op_range(t).len() == 20));
        let reads = h.heads().iter().filter(|head| head.is_read()).count() as f64;
        assert!((reads / 100_000.0 - 0.3).abs() < 0.01, "{reads}");
        assert!(h.key_count() <= 10_000 && h.key_count() > 9_900);
    }
}

#[test]
fn shapes_have_the_sizes_of_their_tables() {
    let size = |name: &str| {
        let spec = Spec::shape(name).expect("a shape");
        u64::from(spec.sessions) * u64::from(spec.txns_per_session) * u64::from(spec.ops_per_txn)
    };
    let sizes: Vec<u64> = Spec::SHAPES.iter().map(|s| size(s)).collect();
    let expected =
        [100_000, 1_500_000, 20_000_000, 700_000, 16_000, 80_000, 80_000, 320_000, 320_000, 320_000];
    assert_eq!(sizes, expected);
    assert_eq!(Spec::shape("w5C"), Spec::shape("W5c"));
    assert_eq!(Spec::shape("W6"), None);

    let w4 = generate(&Spec { txns_per_session: 500, ..Spec::shape("W4").expect("a shape") }).expect("good");
    let lengths: BTreeSet<usize> = w4.txns().map(|t| w4.op_range(t).len()).collect();
    assert_eq!(lengths, (1..=7).collect());
    assert!(w4.op_count().abs_diff(40_000) < 1_000, "{}", w4.op_count());
    let longest = w4.values().iter().filter_map(|&v| w4.list(v)).map(<[_]>::len).max();
    assert!(longest <= Some(100) && longest > Some(90), "{longest:?}");
    assert!(w4.key_count() > 200);
}

#[test]
fn an_empty_history_is_possible() {
    let spec = Spec { txns_per_session: 0, ..Spec::default() };
    assert_eq!(Generator::new(spec.clone()).expect("good").count(), 0);
    assert_eq!(generate(&spec).expect("good").txn_count(), 0);
    let one = Spec { inject: vec![Injection::Tap('a')], ..spec };
    assert_eq!(generate(&one).expect("good").txn_count(), 1);
}

#[test]
fn conflicts_can_be_recorded() {
    let spec =
        Spec { keys: 50, record_conflicts: true, level: SimLevel::SnapshotIsolation, ..Spec::default() };
    let h = generate(&spec).expect("good");
    let aborted = h.txns().filter(|&t| h.outcome(t) == anomalist_history::Outcome::Aborted).count();
    assert!(aborted > 1_000, "{aborted}");
    assert_eq!(h.txn_count() - aborted, 5_000);
}
