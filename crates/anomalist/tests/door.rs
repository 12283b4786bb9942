//! The library as a program uses it: recording from threads, asking, answers as text and JSON.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist::{AnomalyKind, Basis, Error, History, Level, Outcome, Recorder, Tie, Value, Verdict, check};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Two transactions that each read what the other writes.
fn write_skew() -> History {
    let recorder = Recorder::new();
    recorder.initial(0);
    let (mut a, mut b) = (recorder.session("a"), recorder.session("b"));
    let (first, second) = (a.begin(), b.begin());
    first.read("x", 0).read("y", 0).write("x", 1).commit();
    second.read("x", 0).read("y", 0).write("y", 1).commit();
    recorder.finish().unwrap()
}

#[test]
fn threads_share_a_recorder() {
    let recorder = Recorder::new();
    let counter = Arc::new(Mutex::new(Vec::<u64>::new()));
    thread::scope(|scope| {
        for number in 0..4 {
            let (mut session, counter) = (recorder.session(number), Arc::clone(&counter));
            scope.spawn(move || {
                for i in 0..50 {
                    let transaction = session.begin();
                    let mut list = counter.lock().unwrap();
                    let transaction = transaction.read("list", list.clone());
                    list.push(number * 1000 + i);
                    transaction.append("list", number * 1000 + i).commit();
                }
            });
        }
    });
    let history = recorder.finish().unwrap();
    assert_eq!(history.facts().transactions, 200);
    check(&history).require(Level::StrictSerializable).verified().assert();
}

#[test]
fn a_violation_panics_with_its_explanation() {
    let history = write_skew();
    let answer = check(&history).require(Level::Serializable).run().unwrap();
    assert_eq!(answer.outcome(), Outcome::Violated);
    assert_eq!(answer.verdict(Level::Serializable), Some(&Verdict::Violated));
    let panic = catch_unwind(AssertUnwindSafe(|| check(&history).require(Level::Serializable).assert()));
    let message = panic.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("g2-item") && message.contains("a contradiction"), "{message}");
    // What is not required may be violated.
    check(&history).require(Level::SnapshotIsolation).assert();
    check(&history).assert();
}

#[test]
fn questions_have_wishes() {
    let history = write_skew();
    let answer = check(&history).decide(Level::Serializable).proofs().every_component().run().unwrap();
    assert_eq!((answer.outcome(), answer.judgement().levels.len()), (Outcome::Holds, 1));
    let answer = check(&history).anomaly(AnomalyKind::G2Item).run().unwrap();
    assert_eq!(answer.outcome(), Outcome::Violated);
    let none = check(&history).by(Basis::Timestamps).run();
    assert!(matches!(none, Err(Error::NoTimestamps)));
    let late = check(&history).require(Level::Serializable).timeout(Duration::ZERO).run().unwrap();
    assert_eq!(late.outcome(), Outcome::Unknown);
    let stopped = check(&history).require(Level::Serializable).stop_when(&|| true).run().unwrap();
    assert_eq!(stopped.outcome(), Outcome::Unknown);
}

#[test]
fn timestamps_and_declared_levels() {
    let recorder = Recorder::new();
    let mut session = recorder.session(1);
    session.begin().write("x", 1).timestamps(1, 2).at(Level::SnapshotIsolation).commit();
    session
        .begin()
        .read("x", None::<i64>)
        .timestamps(3, 3)
        .at(Level::SnapshotIsolation)
        .name("stale")
        .commit();
    let history = recorder.finish().unwrap();
    let answer = check(&history).require(Level::SnapshotIsolation).ties(Tie::Exclusive).run().unwrap();
    assert_eq!(answer.outcome(), Outcome::Violated);
    assert!(answer.to_string().contains("EXT") && answer.to_string().contains("stale"), "{answer}");
    let declared = check(&history).decide(Level::ReadCommitted).declared().run().unwrap();
    assert_eq!(declared.outcome(), Outcome::Holds, "without sessions the order is free");
}

#[test]
fn outcomes_of_transactions() {
    let recorder = Recorder::new();
    let mut session = recorder.session("s");
    session.begin().write("x", 1).abort();
    session.begin().write("y", 1).unknown();
    let open = session.begin().write("z", 1);
    assert!(matches!(recorder.finish(), Err(Error::Unended(1))));
    drop(open);
    recorder.session("t").begin().read("x", 1).read("y", 1).commit();
    let history = recorder.finish().unwrap();
    let facts = history.facts();
    assert_eq!((facts.aborted, facts.indeterminate, facts.transactions), (1, 2, 4));
    let answer = check(&history).decide(Level::ReadCommitted).run().unwrap();
    assert_eq!(answer.anomalies().iter().map(|a| a.kind).collect::<Vec<_>>(), [AnomalyKind::AbortedRead]);
    // Nothing is recorded any more.
    session.begin().write("x", 2).commit();
}

#[test]
fn virtual_time() {
    let time = Arc::new(AtomicU64::new(0));
    let clock = Arc::clone(&time);
    let recorder = Recorder::with_clock(move || clock.load(Ordering::Relaxed));
    let tick = || _ = time.fetch_add(1, Ordering::Relaxed);
    let (mut writer, mut reader) = (recorder.session("w"), recorder.session("r"));
    let transaction = writer.begin().write("x", 1);
    tick();
    transaction.commit();
    tick();
    reader.begin().read("x", Value::Null).commit();
    let history = recorder.finish().unwrap();
    let answer = check(&history).run().unwrap();
    assert_eq!(answer.verdict(Level::StrictSerializable), Some(&Verdict::Violated));
    assert_eq!(answer.verdict(Level::StrongSessionSerializable), Some(&Verdict::Holds));
}

#[test]
fn json_is_serialised_in_order() {
    let history = write_skew();
    let answer = check(&history).require(Level::Serializable).run().unwrap();
    let text = serde_json::to_string(&answer).unwrap();
    assert!(
        text.starts_with(r#"{"anomalist":"0.1.0","schema":2,"outcome":"violated","exit":1,"history":"#),
        "{text}"
    );
    let printed: serde_json::Value = serde_json::from_str(&answer.to_json()).unwrap();
    assert_eq!(printed, serde_json::to_value(&answer).unwrap());
    let operation = &printed["anomalies"][0]["witness"]["transactions"][0]["operations"][0];
    assert_eq!((&operation["key"], &operation["value"]), (&"x".into(), &0.into()));
}

#[test]
fn files_are_read() {
    let folder = std::env::temp_dir().join(format!("anomalist-door-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let plain = folder.join("history.jsonl");
    std::fs::write(&plain, "{\"session\": 1, \"ops\": [[\"w\", \"x\", 1]]}\n").unwrap();
    check(&History::read(&plain).unwrap()).require(Level::Serializable).assert();
    // The folder of a run stands for its history.
    assert_eq!(History::read(&folder).unwrap().facts().transactions, 1);
    let wrong = folder.join("wrong.jsonl");
    std::fs::write(&wrong, "{\"session\": 1, \"ops\": [[\"w\", \"x\"]]}\n").unwrap();
    let error = History::read(&wrong).unwrap_err().to_string();
    assert!(error.contains("wrong.jsonl:1:"), "{error}");
    assert!(matches!(History::read(folder.join("none")), Err(Error::Read(_))));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// What most people mean by "snapshot isolation" respects sessions; the level of that name does not.
#[test]
fn a_level_that_only_sessions_break_has_a_note() {
    let recorder = Recorder::new();
    recorder.initial(0);
    let mut client = recorder.session("client");
    client.begin().write("x", 1).commit();
    client.begin().read("x", 0).commit();
    let history = recorder.finish().unwrap();
    let notes = |levels: &[Level]| {
        let check = levels.iter().fold(check(&history), |check, &level| check.require(level));
        check.run().unwrap().subject().judgement.notes.join("\n")
    };
    let note = "snapshot-isolation holds, but not in sessions: strong-session-snapshot-isolation is violated";
    assert_eq!(notes(&[Level::SnapshotIsolation]), note);
    // Nothing to add where the other level is judged too, or where the level has none.
    assert_eq!(notes(&[]), "");
    assert_eq!(notes(&[Level::SnapshotIsolation, Level::StrongSessionSnapshotIsolation]), "");
    assert_eq!(notes(&[Level::RepeatableRead, Level::ReadCommitted]), "");
}
