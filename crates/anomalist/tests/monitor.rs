//! A monitor as a simulator uses it: a verdict after every transaction.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist::{Basis, Level, Monitor, Outcome, Standing, Verdict, check};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const HOLDS: Standing = Standing::Holds { pending: 0 };

#[test]
fn a_violation_names_transaction_and_cycle() {
    let monitor = Monitor::new().require(Level::Serializable).require(Level::SnapshotIsolation);
    monitor.recorder().initial(0);
    let (mut a, mut b) = (monitor.session("a"), monitor.session("b"));
    a.begin().read("x", 0).read("y", 0).write("x", 1).commit();
    monitor.assert();
    b.begin().read("x", 0).read("y", 0).write("y", 1).name("the second").commit();
    let status = monitor.status();
    assert_eq!(status.of(Level::SnapshotIsolation), Some(&HOLDS));
    let breach = status.violation().unwrap();
    assert_eq!((breach.steps, breach.transaction.as_str()), (2, "the second"));
    assert_eq!(breach.cycle.len(), 2);
    let text = status.to_string();
    let line = "the second is before a:1: it read a version of x that the other replaced";
    assert!(text.contains(line), "{text}");
    // What the whole check says.
    let history = monitor.history().unwrap();
    let answer = check(&history).require(Level::Serializable).run().unwrap();
    assert_eq!(answer.outcome(), Outcome::Violated);
    assert!(monitor.explain().unwrap().contains("g2-item"));
    let panic = catch_unwind(AssertUnwindSafe(|| monitor.assert()));
    assert!(panic.unwrap_err().downcast::<String>().unwrap().contains("the second"));
}

#[test]
fn writers_may_end_after_their_readers() {
    let monitor = Monitor::new().require(Level::Causal);
    let (mut a, mut b, mut c) = (monitor.session(1), monitor.session(2), monitor.session(3));
    let writer = a.begin().write("x", 1);
    b.begin().read("x", 1).commit();
    assert_eq!(monitor.status().of(Level::Causal), Some(&Standing::Holds { pending: 1 }));
    writer.commit();
    assert_eq!(monitor.status().of(Level::Causal), Some(&HOLDS));
    // A transaction that is dropped counts once something is read of it.
    drop(c.begin().write("x", 2));
    b.begin().read("x", 2).read("y", "never").commit();
    assert_eq!(monitor.status().of(Level::Causal), Some(&Standing::Holds { pending: 1 }));
    let status = monitor.end();
    assert!(status.violation().unwrap().reason.contains("never written"), "{status}");
}

#[test]
fn virtual_time_is_real_time() {
    let time = Arc::new(AtomicU64::new(0));
    let clock = Arc::clone(&time);
    let monitor = Monitor::with_clock(move || clock.fetch_add(1, Ordering::Relaxed));
    let monitor = monitor.require(Level::StrictSerializable).require(Level::Serializable);
    let (mut a, mut b) = (monitor.session("a"), monitor.session("b"));
    a.begin().append("log", 1).commit();
    b.begin().read("log", Vec::<i64>::new()).commit();
    let status = monitor.status();
    assert_eq!(status.of(Level::Serializable), Some(&HOLDS));
    assert!(status.violation().unwrap().cycle.iter().any(|p| p.because.contains("ended before")), "{status}");
}

#[test]
fn other_levels_are_checked_as_a_whole_and_say_so() {
    let monitor = Monitor::new().require(Level::Prefix);
    let mut session = monitor.session(1);
    let mut last = None;
    for i in 0..40 {
        session.begin().read("x", last).write("x", i).commit();
        last = Some(i);
        match monitor.status().of(Level::Prefix).unwrap() {
            Standing::Unknown { reason } => assert!(reason.contains("not decided step by step"), "{reason}"),
            standing => assert!(*standing == HOLDS && [8, 16, 32].contains(&(i + 1)), "{i}"),
        }
    }
    assert_eq!(monitor.end().of(Level::Prefix), Some(&HOLDS));
    let unchecked = Monitor::new().budget(Duration::ZERO).require(Level::Prefix);
    assert!(matches!(unchecked.end().of(Level::Prefix), Some(Standing::Unknown { .. })));
}

#[test]
fn repeated_values_and_blind_writes_are_checked_as_a_whole() {
    for (values, blind) in [([1, 1], false), ([1, 2], true)] {
        let levels = [Level::Causal, Level::Serializable];
        let monitor = levels.into_iter().fold(Monitor::new(), |m, level| m.require(level));
        let mut sessions = [monitor.session(1), monitor.session(2)];
        for (session, value) in sessions.iter_mut().zip(values) {
            session.begin().write("x", value).commit();
        }
        let status = monitor.status();
        assert!(matches!(status.of(Level::Serializable), Some(Standing::Unknown { .. })), "{status}");
        assert_eq!(status.of(Level::Causal) == Some(&HOLDS), blind, "{status}");
        let status = monitor.end();
        assert!(levels.iter().all(|&level| status.of(level) == Some(&HOLDS)), "{status}");
    }
}

/// Random transactions on a database that forgets now and then: the same verdicts as the whole check.
#[test]
fn verdicts_are_those_of_the_whole_check() {
    let levels = [Level::ReadCommitted, Level::Causal, Level::SnapshotIsolation, Level::Serializable];
    let mut violated = 0;
    for seed in 0..300 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let monitor = levels.into_iter().fold(Monitor::new(), |m, level| m.require(level));
        let mut sessions: Vec<_> = (0..3).map(|s| monitor.session(s)).collect();
        let mut lists: Vec<Vec<i64>> = vec![Vec::new(); 2];
        for i in 0..12 {
            let mut t = sessions[rng.usize(..3)].begin();
            for (key, list) in lists.iter_mut().enumerate() {
                let forgotten = if rng.u8(..12) == 0 { 1 } else { 0 };
                t = t.read(key, &list[..list.len().saturating_sub(forgotten)]);
                if rng.bool() {
                    t = t.append(key, i);
                    list.push(i);
                }
            }
            t.commit();
        }
        let status = monitor.status();
        let history = monitor.history().unwrap();
        let answer = check(&history).by(Basis::Values).run().unwrap();
        for level in levels {
            let expected = match status.of(level).unwrap() {
                Standing::Violated(_) => Verdict::Violated,
                standing => {
                    assert_eq!(*standing, HOLDS, "{level}");
                    Verdict::Holds
                }
            };
            assert_eq!(answer.verdict(level), Some(&expected), "{level}, seed {seed}\n{status}");
            violated += usize::from(expected == Verdict::Violated);
        }
    }
    assert!(violated > 100);
}
