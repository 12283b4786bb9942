//! A monitor by timestamps: what it calls final is final, and at the end it says what the whole check says.
//!
//! `ANOMALIST_ORACLE_CASES` sets the number of histories per family, `ANOMALIST_SEED` the seed.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist::core::history::{self, OpKind, Outcome, TxnId, View};
use anomalist::{Basis, Level, Monitor, Standing, Status, Tie, Value, Verdict, check};
use anomalist_testkit::number;
use anomalist_testkit::random::{StampedShape, stamped};
use fastrand::Rng;

const LEVELS: [Level; 4] = [
    Level::SnapshotIsolation,
    Level::StrongSessionSnapshotIsolation,
    Level::Serializable,
    Level::StrongSessionSerializable,
];

fn value(history: &history::History, value: history::Value) -> Value {
    match value.view() {
        View::Int(i) => Value::Int(i),
        View::Atom(id) => Value::Text(history.atom(id).1.to_owned()),
        View::List(_) => {
            Value::List(history.list(value).unwrap().iter().map(|&v| self::value(history, v)).collect())
        }
        _ => Value::Null,
    }
}

/// A random order that keeps sessions in order.
fn arrival(rng: &mut Rng, history: &history::History) -> Vec<TxnId> {
    let mut sessions: Vec<Vec<TxnId>> =
        history.sessions().map(|s| history.issued(s).rev().collect()).collect();
    let mut order = Vec::new();
    while !sessions.is_empty() {
        let s = rng.usize(0..sessions.len());
        match sessions[s].pop() {
            Some(t) => order.push(t),
            None => drop(sessions.swap_remove(s)),
        }
    }
    order
}

fn record(monitor: &Monitor, history: &history::History, t: TxnId) {
    let mut session = monitor.session(value(history, history.session_label(history.issuer(t))));
    let at = history.stamps().unwrap()[t.index()];
    let mut transaction = session.begin().timestamps(at.start.physical, at.commit.physical);
    for (_, op) in history.ops(t) {
        let (key, value) = (value(history, history.key_label(op.key)), value(history, op.value));
        transaction = match op.kind {
            // What was not recorded cannot be given to a monitor.
            OpKind::Read if op.value == history::Value::UNKNOWN => transaction,
            OpKind::Read => transaction.read(key, value),
            OpKind::Write => transaction.write(key, value),
            OpKind::Append => transaction.append(key, value),
        };
    }
    match history.outcome(t) {
        Outcome::Committed => transaction.commit(),
        Outcome::Aborted => transaction.abort(),
        Outcome::Indeterminate => transaction.unknown(),
    }
}

fn violated(status: &Status) -> Vec<Level> {
    let violated =
        |(level, standing): &(Level, Standing)| matches!(standing, Standing::Violated(_)).then_some(*level);
    status.levels.iter().filter_map(violated).collect()
}

fn run(family: &str, shape: StampedShape) {
    let cases = number("ANOMALIST_ORACLE_CASES", 1_000);
    let seed = number("ANOMALIST_SEED", 20_261_118);
    let (mut early, mut broken, mut held, mut whole) = (0, 0, 0, 0);
    for case in 0..cases {
        let mut rng = Rng::with_seed(seed.wrapping_mul(0x9E37_79B9).wrapping_add(case));
        let history = stamped(&mut rng, &shape);
        let tie = if rng.bool() { Tie::Inclusive } else { Tie::Exclusive };
        let monitor = LEVELS.into_iter().fold(Monitor::new().by_timestamps(tie), Monitor::require);
        if let Some(initial) = history.initial().default {
            monitor.recorder().initial(value(&history, initial));
        }
        for (&key, &initial) in &history.initial().keys {
            let key = value(&history, history.key_label(key));
            monitor.recorder().initial_of(key, value(&history, initial));
        }
        let order = arrival(&mut rng, &history);
        let commit = |t: &TxnId| history.stamps().unwrap()[t.index()].commit.physical;
        // How often virtual time is declared.
        let (declares, mut before) = (rng.u8(0..3), Vec::new());
        for (i, &t) in order.iter().enumerate() {
            record(&monitor, &history, t);
            if rng.u8(0..2) < declares {
                monitor.no_earlier_than(order[i + 1..].iter().map(commit).min().unwrap_or(i64::MAX));
            }
            let now = violated(&monitor.status());
            assert!(before.iter().all(|level| now.contains(level)), "{family}, {seed}, case {case}");
            early += u32::from(now.len() > before.len() && i + 1 < order.len());
            before = now;
        }
        let undecided = |(_, s): &(Level, Standing)| !matches!(s, Standing::Holds { pending: 0 });
        whole += u32::from(monitor.status().levels.iter().any(undecided));
        let status = monitor.end();
        let now = violated(&status);
        assert!(before.iter().all(|level| now.contains(level)), "{family}, {seed}, case {case}");
        let recorded = monitor.history().unwrap();
        let question = check(&recorded).by(Basis::Timestamps).ties(tie);
        let answer = LEVELS.into_iter().fold(question, |q, level| q.decide(level)).run().unwrap();
        for level in LEVELS {
            let said = status.of(level).unwrap();
            let agrees = match answer.verdict(level).unwrap() {
                Verdict::Holds => *said == Standing::Holds { pending: 0 },
                Verdict::Violated => matches!(said, Standing::Violated(_)),
                Verdict::Unknown { .. } => matches!(said, Standing::Unknown { .. }),
            };
            let text = || {
                format!("{family}, ANOMALIST_SEED={seed}, case {case}, {tie:?}, {level}\n{status}\n{answer}")
            };
            assert!(agrees, "{}", text());
            broken += u32::from(matches!(said, Standing::Violated(_)));
            held += u32::from(matches!(said, Standing::Holds { .. }));
        }
    }
    // A test that never comes near what it is about would pass for nothing.
    let seen = [early, broken, held, whole];
    assert!(seen.iter().all(|&n| u64::from(n) > cases / 20), "{family}: {seen:?} of {cases}");
}

#[test]
fn registers_and_lists() {
    let shape = StampedShape { wrong: 0.05, ..StampedShape::default() };
    run("registers", shape);
    run("lists", StampedShape { lists: 0.7, clock: 20, ..shape });
    run("odd clocks", StampedShape { skewed: 0.1, clock: 10, ..shape });
    run("initial values", StampedShape { initial: 0.3, repeated: 0.2, ..shape });
}

#[test]
fn ties() {
    let shape = StampedShape { clock: 5, points: 0.4, wrong: 0.03, ..StampedShape::default() };
    run("ties", shape);
    run("ties, lists", StampedShape { lists: 0.7, mixed: 0.05, ..shape });
}

#[test]
fn unknown_outcomes() {
    let shape = StampedShape { txns: 9, lost: 0.5, clock: 30, wrong: 0.05, ..StampedShape::default() };
    run("unknown outcomes", shape);
    run("unknown outcomes, ties", StampedShape { clock: 6, points: 0.4, ..shape });
    run("unknown outcomes, lists", StampedShape { lists: 0.6, mixed: 0.05, ..shape });
    run("unknown outcomes, repeated", StampedShape { repeated: 0.5, initial: 0.1, clock: 10, ..shape });
}

#[test]
fn virtual_time_makes_an_unknown_outcome_certain() {
    let level = Level::Serializable;
    let monitor = Monitor::new().by_timestamps(Tie::Inclusive).require(level);
    let (mut a, mut b, mut c) = (monitor.session("a"), monitor.session("b"), monitor.session("c"));
    a.begin().read("y", 7).write("x", 1).timestamps(10, 10).unknown();
    b.begin().read("x", 1).timestamps(20, 20).commit();
    // Another may have written 1, so the first need not have committed.
    assert_eq!(monitor.status().of(level), Some(&Standing::Holds { pending: 1 }));
    monitor.no_earlier_than(21);
    let breach = monitor.status().violation().unwrap().clone();
    assert!(breach.reason.starts_with("a:1 read y = 7"), "{breach}");
    assert_eq!((breach.steps, breach.transaction.as_str()), (2, "b:1"));
    // What was declared is not true: the conclusion is in doubt, and the whole decides.
    c.begin().write("x", 1).timestamps(15, 15).commit();
    assert!(matches!(monitor.status().of(level), Some(Standing::Unknown { .. })), "{}", monitor.status());
    assert_eq!(monitor.end().of(level), Some(&Standing::Holds { pending: 0 }));
}

#[test]
fn what_cannot_be_judged_says_so() {
    let monitor = Monitor::new().by_timestamps(Tie::Inclusive).require(Level::Serializable);
    let mut a = monitor.session("a");
    a.begin().write("x", 1).commit();
    let Some(Standing::Unknown { reason }) = monitor.end().of(Level::Serializable).cloned() else {
        panic!("{}", monitor.status())
    };
    assert!(reason.contains("no timestamps"), "{reason}");
    // Lists that are written as one value are compared at the end.
    let monitor = Monitor::new().by_timestamps(Tie::Inclusive).require(Level::Serializable);
    let mut a = monitor.session("a");
    a.begin().write("x", vec![1, 2]).timestamps(1, 1).commit();
    assert!(matches!(monitor.status().of(Level::Serializable), Some(Standing::Unknown { .. })));
}

#[test]
fn provisional_reads_have_names() {
    let monitor = Monitor::new().by_timestamps(Tie::Inclusive).require(Level::SnapshotIsolation);
    let (mut a, mut b) = (monitor.session("a"), monitor.session("b"));
    b.begin().read("x", "one").timestamps(5, 5).name("the reader").commit();
    let [(level, breach)] = &monitor.provisional()[..] else { panic!("{}", monitor.status()) };
    assert_eq!(*level, Level::SnapshotIsolation);
    let text = "the reader read x = one, and the last version that it sees is nil of the initial state (EXT)";
    assert_eq!(breach.reason, text);
    a.begin().write("x", "one").timestamps(1, 2).commit();
    assert!(monitor.provisional().is_empty());
}
