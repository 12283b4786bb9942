//! Online equals offline: the same violations, retractions subtracted, for every arrival order that keeps
//! sessions in order, in both modes, at every memory limit, and across a crash at any point.
//!
//! `ANOMALIST_ORACLE_CASES` sets the number of histories per family, `ANOMALIST_SEED` the seed.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_history::{History, Outcome, SnapshotSet, TxnId, Value, View};
use anomalist_level::Budget;
use anomalist_online::{
    Batch, Cell, Checker, Event, Gc, Head, Initial, Key128, MemoryStore, Options, Origin, Restored, TxnKey,
};
use anomalist_testkit::number;
use anomalist_testkit::random::{StampedShape, stamped};
use anomalist_timestamp::offline::find;
use anomalist_timestamp::{Axiom, Identity, Mode, Rule, Tie};
use anomalist_workload::{Arrival, Arrivals, Distribution, Kind, SimLevel, Spec, generate};
use fastrand::Rng;
use std::collections::BTreeSet;

type Found = BTreeSet<Identity<TxnKey, Key128>>;

fn datum(history: &History, value: Value) -> Key128 {
    match value.view() {
        View::Int(i) => Key128::int(i),
        View::Atom(id) => {
            let (kind, text) = history.atom(id);
            Key128::text(kind, text)
        }
        _ => Key128::NIL,
    }
}

fn cell(history: &History, batch: &mut Batch, value: Value) -> Cell {
    match value.view() {
        View::Unknown => Cell::Unknown,
        View::List(_) => batch.list(history.list(value).unwrap().iter().map(|&v| datum(history, v))),
        _ => Cell::One(datum(history, value)),
    }
}

/// What a stream says first.
fn header(history: &History, batch: &mut Batch) {
    let mut initial = Initial { default: Some(None), keys: Vec::new() };
    match history.initial().default {
        Some(value) if value.is_list() => {
            for key in history.keys() {
                let value = cell(history, batch, value);
                initial.keys.push((datum(history, history.key_label(key)), value));
            }
        }
        other => initial.default = Some(other.map(|value| datum(history, value))),
    }
    let mut own: Vec<_> = history.initial().keys.iter().collect();
    own.sort_by_key(|(key, _)| **key);
    for (key, value) in own {
        let value = cell(history, batch, *value);
        initial.keys.retain(|(k, _)| *k != datum(history, history.key_label(*key)));
        initial.keys.push((datum(history, history.key_label(*key)), value));
    }
    batch.initial(initial);
}

fn push(history: &History, batch: &mut Batch, t: TxnId) {
    for (_, op) in history.ops(t) {
        let value = cell(history, batch, op.value);
        batch.op(op.kind, datum(history, history.key_label(op.key)), value);
    }
    batch.transaction(Head {
        session: datum(history, history.session_label(history.session_of(t))),
        id: None,
        outcome: history.outcome(t),
        stamps: history.stamps().unwrap()[t.index()],
        number: history.numbers().map(|numbers| numbers[t.index()]),
        set_id: history.snapshot_id(t),
        set: history
            .snapshot(t)
            .map(|s| Box::new(SnapshotSet::new(s.xmin, s.xmax, s.running.to_vec()).unwrap())),
        origin: Origin::default(),
    });
}

/// A random order that keeps sessions in order.
fn arrival(rng: &mut Rng, history: &History) -> Vec<TxnId> {
    let mut sessions: Vec<Vec<TxnId>> =
        history.sessions().map(|s| history.issued(s).rev().collect()).collect();
    let mut order = Vec::new();
    let one_by_one = rng.u8(0..5) == 0;
    while !sessions.is_empty() {
        let s = if one_by_one { 0 } else { rng.usize(0..sessions.len()) };
        match sessions[s].pop() {
            Some(t) => order.push(t),
            None => drop(sessions.swap_remove(s)),
        }
    }
    order
}

/// What the offline check finds, and whether some reads are open.
fn offline(history: &History, rule: Rule) -> (Found, bool) {
    let key_of = |t: TxnId| {
        let s = history.issuer(t);
        let rank = history.issued(s).position(|other| other == t).unwrap();
        (datum(history, history.session_label(s)), rank as u32)
    };
    let found =
        find(history, rule, usize::MAX, 1.try_into().unwrap(), &Budget::unlimited()).unwrap().unwrap();
    let listed = found.listed.iter().map(|v| {
        let id = v.identity();
        Identity {
            axiom: id.axiom,
            txn: key_of(id.txn),
            key: id.key.map(|k| datum(history, history.key_label(k))),
            other: id.other.map(key_of),
            read: id.read,
        }
    });
    (listed.collect(), found.open + found.unmatched + found.unjudged > 0)
}

fn violates(found: &Found) -> bool {
    found.iter().any(|id| id.axiom != Axiom::Tie)
}

/// Applies events to what stands.
fn apply(found: &mut Found, events: &[Event], context: &str) {
    for event in events {
        match event.reported() {
            Some((id, true)) => assert!(found.insert(id), "reported twice: {id:?}\n{context}"),
            Some((id, false)) => assert!(found.remove(&id), "retracted unreported: {id:?}\n{context}"),
            None => {}
        }
    }
}

fn online(
    rng: &mut Rng,
    history: &History,
    options: Options,
    context: &str,
) -> (Found, Checker<MemoryStore>) {
    let order = arrival(rng, history);
    let mut checker = Checker::new(options, MemoryStore::default());
    let (mut found, mut events, mut now) = (Found::new(), Vec::new(), 1_000);
    let mut batch = Batch::default();
    header(history, &mut batch);
    let crashes = options.checkpoints && rng.u8(0..4) > 0;
    // How much had arrived at the last checkpoint, and what was reported since.
    let (mut safe, mut log) = (0, Vec::new());
    let mut i = 0;
    checker.accept(&batch, now, &mut events).unwrap();
    if options.checkpoints {
        checker.checkpoint(b"begin").unwrap();
    }
    while i < order.len() {
        if options.checkpoints && rng.u8(0..4) == 0 {
            checker.checkpoint(&i.to_le_bytes()).unwrap();
            safe = i;
            log.clear();
        }
        if crashes && rng.u8(0..4) == 0 {
            let store = checker.store().after_crash();
            let Restored::Checker(restored, _) = Checker::restore(options, store, log.clone()).unwrap()
            else {
                panic!("there is a checkpoint")
            };
            checker = *restored;
            // What arrived since arrives again, in other batches and at another pace. All that was reported
            // stays reported, and the next checkpoint or crash may come before all of it is back, or any.
            i = safe;
            if rng.bool() {
                continue;
            }
        }
        batch.clear();
        for &t in &order[i..order.len().min(i + rng.usize(1..4))] {
            push(history, &mut batch, t);
            i += 1;
        }
        now += rng.u64(0..4) * rng.u64(0..3);
        events.clear();
        checker.accept(&batch, now, &mut events).unwrap();
        apply(&mut found, &events, context);
        log.extend(events.iter().filter_map(Event::reported));
    }
    events.clear();
    checker.finish(&mut events).unwrap();
    apply(&mut found, &events, context);
    (found, checker)
}

fn run(family: &str, shape: StampedShape) {
    let cases = number("ANOMALIST_ORACLE_CASES", 1_500);
    let seed = number("ANOMALIST_SEED", 20_261_116);
    let (mut violating, mut retracting, mut reloading, mut evicting) = (0, 0, 0, 0);
    let (mut admitting, mut early) = (0, 0);
    for case in 0..cases {
        let mut rng = Rng::with_seed(seed.wrapping_mul(0x9E37_79B9).wrapping_add(case));
        let history = stamped(&mut rng, &shape);
        let certain = !history.txns().any(|t| history.outcome(t) == Outcome::Indeterminate);
        for mode in [Mode::Si, Mode::Ser] {
            for tie in [Tie::Inclusive, Tie::Exclusive] {
                let rule = Rule { mode, tie };
                let (expected, open) = offline(&history, rule);
                violating += u32::from(!expected.is_empty());
                for gc in [Gc::None, Gc::Threshold(0), Gc::Threshold(3), Gc::Memory(0)] {
                    let settle_ms = match certain || rng.bool() {
                        true => rng.choice([0, 0, 2, 5, 1_000]).unwrap(),
                        false => 1_000,
                    };
                    let checkpoints = rng.bool();
                    let provisional = rng.bool();
                    let options =
                        Options { rule, settle_ms, gc, provisional, checkpoints, ..Options::default() };
                    let context = format!("{family}, ANOMALIST_SEED={seed}, case {case}, {options:?}");
                    let (found, checker) = online(&mut rng, &history, options, &context);
                    let stats = checker.stats();
                    if !certain && settle_ms < 1_000 {
                        // Some outcomes were concluded before all had arrived.
                        early += 1;
                        let context = format!("{context}\n{found:?}\n{expected:?}\n{}", show(&history));
                        assert!(!violates(&found) || stats.doubts > 0 || violates(&expected), "{context}");
                        assert!(violates(&found) || checker.open() > 0 || !violates(&expected), "{context}");
                        continue;
                    }
                    // Offline, choices are tried, and a read that is wrong in all of them is wrong: online
                    // it is open.
                    let left_open: Vec<_> =
                        expected.difference(&found).filter(|id| id.axiom == Axiom::Ext).copied().collect();
                    assert!(
                        left_open.len() <= checker.open(),
                        "{context}\n{left_open:?}\n{}",
                        show(&history)
                    );
                    let decided: Found =
                        expected.iter().filter(|id| !left_open.contains(id)).copied().collect();
                    assert_eq!(found, decided, "{context}\n{}", show(&history));
                    assert!(!open || checker.open() > 0, "{context}\n{}", show(&history));
                    assert_eq!(stats.doubts, 0, "{context}");
                    for axiom in Axiom::ALL {
                        let count = decided.iter().filter(|id| id.axiom == axiom).count() as u64;
                        assert_eq!(stats.standing(axiom), count, "{axiom:?} {context}");
                    }
                    let committed =
                        history.txns().filter(|&t| history.outcome(t) == Outcome::Committed).count();
                    admitting += u64::from(stats.checked > committed as u64);
                    assert_eq!(stats.checked + stats.not_committed, history.txn_count() as u64, "{context}");
                    retracting += u32::from(stats.retracted.iter().any(|&n| n > 0));
                    reloading += u32::from(stats.reloaded_chunks > 0);
                    evicting += u32::from(stats.evicted_keys > 0);
                }
            }
        }
    }
    // A test that never comes near what it is about would pass for nothing.
    let seen = [violating, retracting, reloading, evicting];
    assert!(seen.iter().all(|&n| n as u64 > cases / 10), "{seen:?} of {cases}");
    assert!(shape.lost == 0.0 || admitting.min(early) > cases / 10, "{admitting}, {early} of {cases}");
}

fn show(history: &History) -> String {
    let mut out = String::new();
    for t in history.txns() {
        let at = history.stamps().unwrap()[t.index()];
        let (start, commit) = (at.start.physical, at.commit.physical);
        out += &format!("{} {start} {commit} {:?}", history.txn_name(t), history.outcome(t));
        if let Some(set) = history.snapshot(t) {
            out += &format!(" set {set}");
        }
        out += &format!(" id {:?}", history.snapshot_id(t));
        for (_, op) in history.ops(t) {
            out += &format!(" {:?}({},{})", op.kind, history.show_key(op.key), history.show(op.value));
        }
        out.push('\n');
    }
    out + &format!("initial {:?}", history.initial())
}

#[test]
fn registers() {
    run("registers", StampedShape::default());
}

#[test]
fn ties() {
    run("ties", StampedShape { clock: 6, ..StampedShape::default() });
}

#[test]
fn ties_in_sessions() {
    let shape = StampedShape { clock: 3, points: 0.6, wrong: 0.05, ..StampedShape::default() };
    run("ties in sessions", shape);
    run("ties in sessions, odd clocks", StampedShape { skewed: 0.2, clock: 5, ..shape });
    run("ties in sessions, lists", StampedShape { lists: 0.7, mixed: 0.05, ..shape });
    run("ties in sessions, sets", StampedShape { sets: 0.4, clock: 4, ..shape });
}

#[test]
fn unknown_outcomes_and_ties_in_sessions() {
    let shape =
        StampedShape { txns: 9, lost: 0.5, clock: 4, points: 0.4, wrong: 0.05, ..StampedShape::default() };
    run("unknown outcomes and ties", shape);
    run("unknown outcomes and ties, lists", StampedShape { lists: 0.6, ..shape });
    run("unknown outcomes and ties, repeated values", StampedShape { repeated: 0.5, initial: 0.1, ..shape });
}

#[test]
fn lists() {
    run("lists", StampedShape { lists: 1.0, clock: 30, ..StampedShape::default() });
}

#[test]
fn lists_with_ties() {
    run("lists with ties", StampedShape { lists: 1.0, clock: 6, wrong: 0.05, ..StampedShape::default() });
}

#[test]
fn mixed_keys() {
    run("mixed", StampedShape { lists: 0.5, mixed: 0.2, clock: 8, repeated: 0.2, ..StampedShape::default() });
}

#[test]
fn clocks_that_go_back() {
    run("skewed", StampedShape { skewed: 0.3, clock: 10, ..StampedShape::default() });
}

#[test]
fn snapshots_that_are_sets() {
    run("sets", StampedShape { sets: 0.7, clock: 15, ..StampedShape::default() });
}

#[test]
fn sets_lists_and_odd_clocks() {
    run(
        "sets and lists",
        StampedShape { sets: 0.5, lists: 0.5, mixed: 0.1, skewed: 0.1, clock: 8, ..StampedShape::default() },
    );
}

#[test]
fn unknown_outcomes() {
    run("unknown outcomes", StampedShape { txns: 12, lost: 0.5, clock: 30, ..StampedShape::default() });
}

#[test]
fn unknown_outcomes_sets_and_lists() {
    let shape = StampedShape { txns: 10, lost: 0.5, sets: 0.4, lists: 0.5, clock: 20, ..Default::default() };
    run("unknown outcomes, sets and lists", shape);
}

#[test]
fn unknown_outcomes_of_repeated_values() {
    let shape =
        StampedShape { txns: 9, lost: 0.4, repeated: 0.6, clock: 30, wrong: 0.05, ..Default::default() };
    run("repeated values", shape);
    run("repeated values, ties", StampedShape { clock: 6, initial: 0.1, ..shape });
    run("repeated values, lists", StampedShape { lists: 0.7, repeated: 0.3, mixed: 0.05, ..shape });
}

#[test]
fn numbers_in_sessions() {
    run("numbers", StampedShape { numbered: 0.9, wrong: 0.1, clock: 30, ..StampedShape::default() });
}

#[test]
fn writes_of_the_initial_value() {
    let shape = StampedShape { initial: 0.4, repeated: 0.2, clock: 12, wrong: 0.05, ..Default::default() };
    run("initial values", shape);
}

#[test]
fn longer_histories() {
    run("longer", StampedShape { txns: 24, clock: 60, wrong: 0.03, ..StampedShape::default() });
}

/// The paper's: a history of snapshot isolation judged at serializability, in batches of 500 with delays.
/// The same violations, thousands of them, at every memory limit. `ANOMALIST_LARGE_TXNS=500000` for its
/// size.
#[test]
fn a_large_si_history_judged_at_both_levels() {
    let txns = number("ANOMALIST_LARGE_TXNS", 40_000) as u32;
    let spec = Spec {
        kind: Kind::Timestamped,
        level: SimLevel::SnapshotIsolation,
        sessions: 24,
        txns_per_session: txns / 24,
        ops_per_txn: 8,
        keys: 1000,
        distribution: Distribution::Zipf { theta: 0.99 },
        ..Spec::default()
    };
    let history = generate(&spec).unwrap();
    let mut txns: Vec<TxnId> = history.txns().collect();
    txns.sort_by_key(|&t| history.position(t));
    let mut arrivals = Arrivals::new(Arrival::default(), 1);
    let mut order = Vec::new();
    for t in txns {
        arrivals.commit(history.session_of(t).index(), t);
        order.extend(std::iter::from_fn(|| arrivals.next_before_the_next_batch()));
    }
    order.extend(arrivals.rest());
    for mode in [Mode::Si, Mode::Ser] {
        let rule = Rule { mode, tie: Tie::Inclusive };
        let (expected, _) = offline(&history, rule);
        assert_eq!(expected.len() > 1000, mode == Mode::Ser, "{}", expected.len());
        let mut peak = 0;
        for share in [None, Some(10)] {
            let gc = share.map_or(Gc::None, |share| Gc::Memory(peak / share));
            let options = Options { rule, gc, settle_ms: 300, ..Options::default() };
            let mut checker = Checker::new(options, MemoryStore::default());
            let (mut found, mut events, mut batch) = (Found::new(), Vec::new(), Batch::default());
            header(&history, &mut batch);
            for chunk in order.chunks(500) {
                for &(_, t) in chunk {
                    push(&history, &mut batch, t);
                }
                events.clear();
                checker.accept(&batch, chunk[chunk.len() - 1].0 / 1000, &mut events).unwrap();
                apply(&mut found, &events, "large");
                batch.clear();
            }
            events.clear();
            checker.finish(&mut events).unwrap();
            apply(&mut found, &events, "large");
            assert!(found == expected, "{mode:?} {gc:?}: {} and {}", found.len(), expected.len());
            let stats = checker.stats();
            peak = peak.max(stats.peak_bytes);
            assert!(stats.flipped_txns > 0 && (share.is_none() || stats.spilled_chunks > 0));
        }
    }
}
