//! What sessions promise: savepoints, statements, reads for update, schedules, options, threads.

#![allow(clippy::unwrap_used)]

use anomalist_check::{Budget, Request, check};
use anomalist_history::Indexed;
use anomalist_level::{Level, Verdict};
use anomalist_weakdb::{
    Conflict, Error, Options, Otherwise, Replay, Schedule, Session, Store, TxnName, Value,
};
use std::sync::Arc;
use std::time::Duration;

fn store(level: Level) -> Arc<Store> {
    Store::new(Options { record: true, ..Options::new(level) }).unwrap()
}

fn holds(store: &Store, level: Level) {
    let history = store.history().unwrap();
    let indexed = Indexed::new(&history, 1.try_into().unwrap());
    let request = Request { levels: vec![level], ..Request::default() };
    let judgement = check(&indexed, &request, &Budget::unlimited());
    assert_eq!(judgement.verdict(level), Some(&Verdict::Holds));
}

#[test]
fn savepoints_undo_writes_and_keep_reads() {
    let store = store(Level::Causal);
    let mut s = store.session("s");
    s.begin().unwrap();
    s.write("x", 1).unwrap();
    let outer = s.mark().unwrap();
    s.write("x", 2).unwrap();
    s.delete("y").unwrap();
    let inner = s.mark().unwrap();
    s.write("z", 3).unwrap();
    assert_eq!(s.read("x").unwrap(), Some(2.into()));
    assert_eq!(s.read("w").unwrap(), None);
    s.rollback_to(inner).unwrap();
    assert_eq!((s.read("z").unwrap(), s.read("x").unwrap()), (None, Some(2.into())));
    s.rollback_to(outer).unwrap();
    assert_eq!(s.read("x").unwrap(), Some(1.into()));
    // The inner savepoint is gone with the outer one.
    assert_eq!(s.rollback_to(inner), Err(Error::NoSavepoint));
    s.rollback_to(outer).unwrap();
    s.commit().unwrap();
    assert_eq!(store.snapshot(), [("x".into(), Value::Int(1))]);
    assert_eq!(s.begin().and_then(|()| s.rollback_to(outer)), Err(Error::NoSavepoint));
    s.rollback().unwrap();
    let history = store.history().unwrap();
    let reads_and_writes: Vec<String> = history
        .txns()
        .flat_map(|t| history.ops(t).map(|op| format!("{:?}", op.1.kind)).collect::<Vec<_>>())
        .collect();
    // w(x,1) r(w) r(z): reads of own writes after a mark go with them.
    assert_eq!(reads_and_writes, ["Write", "Read", "Read"]);
    holds(&store, Level::StrongSessionSerializable);
}

#[test]
fn a_statement_reads_a_key_once() {
    let mut changed = false;
    for seed in 0..50 {
        let store = Store::new(Options { seed, ..Options::new(Level::ReadCommitted) }).unwrap();
        let mut writer = store.session("writer");
        (0..8).for_each(|i| writer.transaction(|t| t.write("x", i)).unwrap());
        let mut reader = store.session("reader");
        reader.begin().unwrap();
        reader.statement(Some("select x"));
        let first = reader.read("x").unwrap();
        (0..5).for_each(|_| assert_eq!(reader.read("x").unwrap(), first));
        reader.statement(None);
        changed |= reader.read("x").unwrap() != first;
        reader.commit().unwrap();
    }
    assert!(changed, "another statement may read another value");
}

#[test]
fn reads_for_update_keep_others_out() {
    for level in [Level::ReadCommitted, Level::Causal, Level::Prefix, Level::SnapshotIsolation] {
        let store = store(level);
        let (mut a, mut b) = (store.session("a"), store.session("b"));
        a.transaction(|t| t.write("x", 1)).unwrap();
        for s in [&mut a, &mut b] {
            s.begin().unwrap();
            assert_eq!(s.read_for_update("x").unwrap(), Some(1.into()));
            s.write("x", 2).unwrap();
        }
        b.commit().unwrap();
        assert_eq!(a.commit(), Err(Error::Serialization(Conflict::ForUpdate("x".into()))));
        assert!(!a.in_transaction());
        // Once more, and it sees what has changed.
        a.begin().unwrap();
        assert_eq!(a.read_for_update("x").unwrap(), Some(2.into()));
        a.write("x", 3).unwrap();
        a.commit().unwrap();
        holds(&store, level);
    }
}

/// A plain read before the lock pins an old version: what was overwritten before it was locked must not be
/// overwritten again.
#[test]
fn a_lock_after_a_stale_read_comes_too_late() {
    for level in
        [Level::ReadAtomic, Level::Causal, Level::Prefix, Level::SnapshotIsolation, Level::Serializable]
    {
        let store = store(level);
        let (mut a, mut b) = (store.session("a"), store.session("b"));
        b.begin().unwrap();
        assert_eq!(b.read("x").unwrap(), None);
        a.transaction(|t| t.write("x", 1)).unwrap();
        assert_eq!(b.read_for_update("x").unwrap(), None);
        b.write("x", 1).unwrap();
        assert!(matches!(b.commit(), Err(Error::Serialization(_))), "{}", level.name());
        b.begin().unwrap();
        assert_eq!(b.read_for_update("x").unwrap(), Some(1.into()));
        b.write("x", 2).unwrap();
        b.commit().unwrap();
        holds(&store, level);
    }
}

/// Where others have settled that what committed first comes last, that is the newest version, and locking
/// it can succeed.
#[test]
fn a_lock_can_be_had_where_commits_are_ordered_otherwise() {
    let store = store(Level::Causal);
    let [mut a, mut b, mut c] = ["a", "b", "c"].map(|name| store.session(name));
    b.begin().unwrap();
    b.write("x", 2).unwrap();
    b.write("seen", 2).unwrap();
    c.begin().unwrap();
    c.write("x", 1).unwrap();
    c.commit().unwrap();
    b.commit().unwrap();
    // A transaction that has seen b's transaction and reads c's value puts b's before c's.
    let settled = (0..200).any(|_| {
        a.begin().unwrap();
        let settled = a.read("seen").unwrap() == Some(2.into()) && a.read("x").unwrap() == Some(1.into());
        if settled {
            a.commit().unwrap()
        } else {
            a.rollback().unwrap()
        }
        settled
    });
    assert!(settled, "c's value is allowed after b's has been seen");
    a.begin().unwrap();
    assert_eq!(a.read_for_update("x").unwrap(), Some(1.into()));
    a.write("x", 3).unwrap();
    a.commit().unwrap();
    holds(&store, Level::Causal);
}

#[test]
fn snapshot_isolation_refuses_lost_updates_and_serializable_write_skew() {
    let both = |level, other_key: &str| {
        let store = store(level);
        let (mut a, mut b) = (store.session("a"), store.session("b"));
        for (s, key) in [(&mut a, "x"), (&mut b, other_key)] {
            s.begin().unwrap();
            s.read("x").unwrap();
            s.read("y").unwrap();
            s.write(key, 1).unwrap();
        }
        (a.commit(), b.commit())
    };
    assert_eq!(both(Level::Prefix, "x"), (Ok(()), Ok(())));
    let lost = Err(Error::Serialization(Conflict::Write("x".into())));
    assert_eq!(both(Level::SnapshotIsolation, "x"), (Ok(()), lost));
    assert_eq!(both(Level::SnapshotIsolation, "y"), (Ok(()), Ok(())));
    assert_eq!(both(Level::Serializable, "y"), (Ok(()), Err(Error::Serialization(Conflict::Read))));
}

#[test]
fn latest_shows_what_nobody_has_overwritten() {
    for seed in 0..30 {
        let store = Store::new(Options { seed, ..Options::new(Level::Causal) }).unwrap();
        let (mut a, mut b) = (store.session("a"), store.session("b"));
        (0..5).for_each(|i| a.transaction(|t| t.write("x", i)).unwrap());
        b.set_latest(true);
        b.transaction(|t| t.read("x").map(|x| assert_eq!(x, Some(4.into())))).unwrap();
        b.transaction(|t| t.write("x", 9)).unwrap();
        let mut observer = store.session("observer");
        observer.set_latest(true);
        // Session a's last write is known to be overwritten.
        observer.transaction(|t| t.read("x").map(|x| assert_eq!(x, Some(9.into())))).unwrap();
    }
}

#[test]
fn serial_transactions_wait_for_their_turn() {
    let options = Options {
        schedule: Schedule::Serial,
        patience: Duration::from_millis(20),
        ..Options::new(Level::Causal)
    };
    let store = Store::new(options).unwrap();
    let (mut a, mut b) = (store.session("a"), store.session("b"));
    a.begin().unwrap();
    assert_eq!(b.begin(), Err(Error::Busy));
    drop(a);
    b.begin().unwrap();
    b.commit().unwrap();
}

#[test]
fn commits_fail_as_often_as_asked() {
    let store = Store::new(Options { abort: 0.3, record: true, ..Options::new(Level::Causal) }).unwrap();
    let mut s = store.session("s");
    let failed = (0..1000).filter(|_| s.transaction(|t| t.write("x", 1)).is_err()).count();
    assert!((250..350).contains(&failed), "{failed}");
    assert_eq!(store.committed_writers(), 1000 - failed);
    holds(&store, Level::StrongSessionSerializable);
}

#[test]
fn errors_of_usage() {
    let store = store(Level::Causal);
    let mut s = store.session("s");
    assert_eq!(s.read("x"), Err(Error::NoTransaction));
    assert_eq!(s.write("x", 1), Err(Error::NoTransaction));
    assert_eq!((s.commit(), s.rollback()), (Err(Error::NoTransaction), Err(Error::NoTransaction)));
    s.begin().unwrap();
    assert_eq!(s.begin(), Err(Error::AlreadyOpen));
    let unknown = Store::new(Options::new(Level::StrictSerializable)).err().unwrap();
    assert!(unknown.to_string().contains("strict-serializable"));
}

#[test]
fn scans_and_compare_and_set() {
    let store = Store::with_initial(
        Options::new(Level::Serializable),
        [("t/1", 1.into()), ("t/2", Value::Null), ("u/1", 3.into())],
    )
    .unwrap();
    let mut s = store.session("s");
    s.begin().unwrap();
    s.delete("t/1").unwrap();
    s.write("t/3", 7).unwrap();
    assert_eq!(s.scan("t/").unwrap(), [("t/2".into(), Value::Null), ("t/3".into(), Value::Int(7))]);
    assert!(!s.compare_and_set("u/1", Some(&4.into()), 5).unwrap());
    assert!(s.compare_and_set("u/1", Some(&3.into()), 5).unwrap());
    assert!(s.compare_and_set("u/9", None, 5).unwrap());
    s.commit().unwrap();
    assert_eq!(store.snapshot().len(), 4);
}

/// Three threads that read and write at random.
fn stress(store: &Arc<Store>, transactions: usize) {
    std::thread::scope(|scope| {
        for i in 0..3 {
            let mut s: Session = store.session(&i.to_string());
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(i);
                for n in 0..transactions {
                    let keys: Vec<String> = (0..3).map(|_| format!("k{}", rng.u8(..4))).collect();
                    let result = s.transaction(|t| {
                        for key in &keys {
                            t.read(key)?;
                        }
                        t.write(&keys[0], n as i64)
                    });
                    assert!(matches!(result, Ok(()) | Err(Error::Serialization(_))));
                }
            });
        }
    });
}

#[test]
fn threads_make_histories_within_the_level() {
    for level in [Level::ReadCommitted, Level::ReadAtomic, Level::Causal, Level::Serializable] {
        let delay = (level == Level::Causal).then_some((Duration::ZERO, Duration::from_micros(50)));
        let options = Options { record: true, delay, ..Options::new(level) };
        let store = Store::new(options).unwrap();
        stress(&store, 60);
        holds(&store, level);
    }
}

#[test]
fn a_seed_and_a_replay_repeat_a_run() {
    let run = |seed, replay| {
        let options = Options { seed, replay, record_choices: true, ..Options::new(Level::Causal) };
        let store = Store::new(options).unwrap();
        let mut sessions: Vec<Session> = (0..3).map(|i| store.session(&i.to_string())).collect();
        for n in 0..30 {
            sessions[n % 3].transaction(|t| t.read("x").and_then(|_| t.write("x", n as i64))).unwrap();
        }
        store.choices()
    };
    let first = run(7, None);
    assert_eq!(run(7, None), first);
    assert_ne!(run(8, None), first);
    assert!(first.iter().any(|c| c.is_stale()));
    let choices = first.iter().map(|c| (c.read, c.source)).collect();
    assert_eq!(run(8, Some(Replay { choices, otherwise: Otherwise::Newest })), first);
    let newest = run(7, Some(Replay::default()));
    assert!(newest.iter().all(|c| !c.is_stale()));
    // One stale read, and the rest the newest that is then allowed.
    let stale = first.iter().find(|c| c.is_stale()).unwrap();
    let one = Replay { choices: [(stale.read, stale.source)].into(), otherwise: Otherwise::Newest };
    let with_one = run(7, Some(one));
    let there = with_one.iter().find(|c| c.read == stale.read).unwrap();
    assert_eq!(there.source, stale.source);
    assert!(matches!(there.source, None | Some(TxnName { .. })));
}

/// With the order of commits as commit order, the version that committed last is allowed for a transaction
/// that has read nothing, whatever others have read before.
#[test]
fn in_the_order_of_commits_a_first_read_of_the_newest_is_allowed() {
    for level in [Level::ReadCommitted, Level::ReadAtomic, Level::Causal, Level::SnapshotIsolation] {
        for seed in 0..100 {
            let options = Options { seed, ordered: true, ..Options::new(level) };
            let store = Store::new(options).unwrap();
            let mut sessions: Vec<Session> = (0..3).map(|i| store.session(&i.to_string())).collect();
            let mut rng = fastrand::Rng::with_seed(seed);
            for step in 0..30 {
                let session = &mut sessions[rng.usize(..3)];
                session.begin().unwrap();
                if rng.bool() {
                    for key in ["x", "y"] {
                        session.read(key).unwrap();
                    }
                } else {
                    for key in ["x", "y"] {
                        session.read_newest(key).unwrap();
                        session.write(key, step).unwrap();
                    }
                }
                session.may_commit().unwrap();
                session.commit().unwrap();
            }
        }
    }
}

/// What was read before may forbid the newest version; the transaction stays open.
#[test]
fn the_newest_version_may_be_forbidden() {
    let store = Store::new(Options { ordered: true, ..Options::new(Level::Causal) }).unwrap();
    let (mut a, mut b) = (store.session("a"), store.session("b"));
    a.begin().unwrap();
    assert_eq!(a.read("x").unwrap(), None);
    b.transaction(|t| t.write("x", 1).and_then(|()| t.write("y", 1))).unwrap();
    assert_eq!(a.read_newest("y"), Err(Error::Serialization(Conflict::Newest("y".into()))));
    assert!(a.in_transaction());
}
