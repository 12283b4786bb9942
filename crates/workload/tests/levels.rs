//! Every simulated database keeps its level, and breaks the next one: judged by plain definitions.

mod common;

use anomalist_history::{Indexed, Outcome};
use anomalist_workload::{Distribution, Kind, SimLevel, Spec, generate};
use common::{Level, by_timestamps, facts, txns};
use std::num::NonZeroUsize;

/// Small, and crowded enough for everything that can go wrong to go wrong.
fn crowded(kind: Kind, level: SimLevel, seed: u64) -> Spec {
    Spec {
        kind,
        level,
        sessions: 8,
        txns_per_session: 25,
        ops_per_txn: 6,
        min_ops_per_txn: (seed % 2 == 1).then_some(1),
        keys: if seed.is_multiple_of(3) { 8 } else { 30 },
        distribution: Distribution::ALL[seed as usize % 4],
        writes_per_key: (seed % 4 == 3).then_some(10),
        abort_ratio: if seed % 5 == 2 { 0.1 } else { 0.0 },
        indeterminate_ratio: if seed % 5 == 3 { 0.1 } else { 0.0 },
        record_conflicts: seed % 7 == 1,
        seed,
        ..Spec::default()
    }
}

const SEEDS: u64 = 24;

/// How many of the seeds satisfy each level: read committed, read atomic, causal.
fn satisfied(kind: Kind, level: SimLevel) -> [u64; 3] {
    let mut count = [0; 3];
    for seed in 0..SEEDS {
        let h = generate(&crowded(kind, level, seed)).expect("a good specification");
        if level != SimLevel::ReadUncommitted {
            let faults = Indexed::new(&h, NonZeroUsize::MIN).index().faults().to_vec();
            assert!(faults.is_empty(), "{kind:?} {level:?} {seed}: {faults:?}");
        }
        let f = facts(&txns(&h), kind.is_list());
        for (i, level) in [Level::ReadCommitted, Level::ReadAtomic, Level::Causal].into_iter().enumerate() {
            count[i] += u64::from(f.satisfies(level));
        }
    }
    count
}

#[test]
fn weak_levels_are_kept_and_stronger_ones_broken() {
    for kind in [Kind::Register, Kind::ListAppend] {
        for level in [SimLevel::Serializable, SimLevel::SnapshotIsolation, SimLevel::Causal] {
            assert_eq!(satisfied(kind, level), [SEEDS; 3], "{kind:?} {level:?}");
        }
        let [rc, ra, causal] = satisfied(kind, SimLevel::ReadAtomic);
        assert_eq!([rc, ra], [SEEDS; 2], "{kind:?}");
        assert!(causal < SEEDS / 4, "{kind:?}: {causal} are causal");
        let [rc, ra, _] = satisfied(kind, SimLevel::ReadCommitted);
        assert_eq!(rc, SEEDS, "{kind:?}");
        assert!(ra < SEEDS / 4, "{kind:?}: {ra} are read atomic");
        let [rc, ..] = satisfied(kind, SimLevel::ReadUncommitted);
        assert!(rc < SEEDS / 4, "{kind:?}: {rc} are read committed");
    }
}

#[test]
fn read_committed_has_unrepeatable_reads_and_read_uncommitted_dirty_ones() {
    for kind in [Kind::Register, Kind::ListAppend] {
        let (mut unrepeatable, mut dirty) = (0, std::collections::BTreeSet::new());
        for seed in 0..SEEDS {
            let h = generate(&crowded(kind, SimLevel::ReadCommitted, seed)).expect("a good specification");
            unrepeatable += facts(&txns(&h), kind.is_list()).unrepeatable;
            let h = generate(&crowded(kind, SimLevel::ReadUncommitted, seed)).expect("a good specification");
            let f = facts(&txns(&h), kind.is_list());
            assert!(f.faults.iter().all(|c| "bf".contains(*c)), "{kind:?} {seed}: {:?}", f.faults);
            assert!(seed % 5 == 2 || f.read_uncommitted(), "{kind:?} {seed}");
            dirty.extend(f.faults);
        }
        assert!(unrepeatable > 20, "{unrepeatable}");
        assert_eq!(dirty, ['b', 'f'].into());
    }
}

#[test]
fn causal_loses_updates_and_snapshot_isolation_does_not() {
    let lost = |level| -> usize {
        (0..SEEDS)
            .map(|seed| generate(&crowded(Kind::Register, level, seed)).expect("a good specification"))
            .map(|h| facts(&txns(&h), false).lost_updates())
            .sum()
    };
    let (causal, atomic) = (lost(SimLevel::Causal), lost(SimLevel::ReadAtomic));
    assert!(causal > 30 && atomic > 30, "{causal} {atomic}");
    assert_eq!(lost(SimLevel::SnapshotIsolation), 0);
    assert_eq!(lost(SimLevel::Serializable), 0);
}

#[test]
fn strong_levels_differ() {
    for (kind, level, si_holds) in [
        (Kind::Register, SimLevel::SnapshotIsolation, true),
        (Kind::ListAppend, SimLevel::SnapshotIsolation, true),
        (Kind::ListAppend, SimLevel::Causal, false),
        (Kind::ListAppend, SimLevel::ReadAtomic, false),
    ] {
        let (mut si, mut ser) = (0, 0);
        for seed in 0..SEEDS {
            let h = generate(&crowded(kind, level, seed)).expect("a good specification");
            let strong = facts(&txns(&h), kind.is_list()).strong();
            si += u64::from(strong.0);
            ser += u64::from(strong.1);
            let spec = crowded(kind, SimLevel::Serializable, seed);
            let serial = facts(&txns(&generate(&spec).expect("a good specification")), kind.is_list());
            assert_eq!(serial.strong(), (true, true), "{kind:?} {seed}");
        }
        assert!(if si_holds { si == SEEDS } else { si < SEEDS / 4 }, "{kind:?} {level:?}: {si}");
        assert!(ser < SEEDS / 4, "{kind:?} {level:?}: {ser}");
    }
}

#[test]
fn timestamps_keep_the_axioms() {
    let mut write_skews = 0;
    let mut overlaps = 0;
    for kind in [Kind::Timestamped, Kind::TimestampedList] {
        for seed in 0..SEEDS {
            let h = generate(&crowded(kind, SimLevel::Serializable, seed)).expect("a good specification");
            let all = txns(&h);
            assert!(by_timestamps(&all, kind.is_list()).is_empty(), "{kind:?} {seed}");
            let mut stamps: Vec<i64> = all.iter().flat_map(|t| [t.start, t.commit]).collect();
            stamps.sort_unstable();
            assert!(stamps.windows(2).all(|w| w[0] < w[1]), "timestamps are distinct");

            let h =
                generate(&crowded(kind, SimLevel::SnapshotIsolation, seed)).expect("a good specification");
            let all = txns(&h);
            let mut found = by_timestamps(&all, kind.is_list());
            write_skews += found.remove("SER").unwrap_or(0);
            assert!(found.is_empty(), "{kind:?} {seed}: {found:?}");
            overlaps += all.windows(2).filter(|w| w[1].start < w[0].commit).count();
        }
    }
    assert!(write_skews > 500, "{write_skews}");
    assert!(overlaps > 2_000, "sessions run concurrently: {overlaps}");
}

#[test]
fn wrong_clocks_show() {
    let spec = Spec { clock_skew: 50, ..crowded(Kind::Timestamped, SimLevel::SnapshotIsolation, 4) };
    let found = by_timestamps(&txns(&generate(&spec).expect("a good specification")), false);
    assert!(found["EXT"] > 10, "{found:?}");
    assert_eq!(found.get("SESSION"), None, "a session trusts its own clock");
}

#[test]
fn weaker_levels_break_the_timestamp_axioms() {
    for level in [SimLevel::Causal, SimLevel::ReadAtomic, SimLevel::ReadCommitted] {
        let h = generate(&crowded(Kind::Timestamped, level, 0)).expect("a good specification");
        let found = by_timestamps(&txns(&h), false);
        assert!(found["EXT"] > 0, "{level:?} {found:?}");
    }
}

#[test]
fn outcomes_have_their_shares() {
    for level in SimLevel::ALL {
        let spec = Spec { level, abort_ratio: 0.2, indeterminate_ratio: 0.1, keys: 500, ..Spec::default() };
        let h = generate(&spec).expect("a good specification");
        let share = |o| h.txns().filter(|&t| h.outcome(t) == o).count() as f64 / h.txn_count() as f64;
        assert!((share(Outcome::Aborted) - 0.2).abs() < 0.02, "{level:?}");
        assert!((share(Outcome::Indeterminate) - 0.1).abs() < 0.02, "{level:?}");
    }
}
