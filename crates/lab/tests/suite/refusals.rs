//! Statements that the database refuses: which error, and what becomes of their transaction.

use super::{get, level, put, sql, table};
use anomalist_databases::{Connection, Database, Error, Family, Fate, Isolation, Kind, Target, Value};
use std::thread;

pub fn conflict(target: &Target) {
    let mut one = table(target, "conflict");
    let mut two = target.connect().unwrap();
    let name = match one.product().family {
        Family::Postgres => "REPEATABLE READ",
        Family::Mysql => "REPEATABLE READ with innodb_snapshot_isolation",
        Family::Sqlite => "DEFERRED",
    };
    let Some(snapshot) = one.product().isolation(name) else { return };
    one.begin(&snapshot).unwrap();
    assert_eq!(get(one.as_mut(), "conflict", 1).unwrap(), Some(10));
    put(two.as_mut(), "conflict", 1, 11).unwrap();
    let error = put(one.as_mut(), "conflict", 1, 12).unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict, "{error}");
    assert_ne!(error.fate(), Fate::Unknown);
    one.rollback().unwrap();
    assert_eq!(get(one.as_mut(), "conflict", 1).unwrap(), Some(11), "the session goes on");

    // Write skew: only the strictest level sees it, at whatever statement.
    let strict = level(one.as_ref(), false);
    one.begin(&strict).unwrap();
    two.begin(&strict).unwrap();
    let (first, second) = thread::scope(|scope| {
        let first = scope.spawn(|| skew(one.as_mut(), 1, 2));
        let second = scope.spawn(|| skew(two.as_mut(), 2, 1));
        (first.join().unwrap(), second.join().unwrap())
    });
    assert!(first.is_ok() || second.is_ok(), "{first:?} {second:?}");
    for error in [first, second].into_iter().filter_map(Result::err) {
        assert!(error.kind().is_retryable(), "{error}");
        assert_ne!(error.fate(), Fate::Unknown, "{error}");
    }
}

fn skew(session: &mut dyn Connection, read: i64, write: i64) -> Result<(), Error> {
    let done = get(session, "conflict", read)
        .and_then(|_| put(session, "conflict", write, 5))
        .and_then(|_| session.commit());
    session.rollback()?;
    done
}

pub fn deadlock(target: &Target) {
    let mut one = table(target, "dead");
    let mut two = target.connect().unwrap();
    if one.product().family == Family::Sqlite {
        return;
    }
    let weak = level(one.as_ref(), true);
    one.begin(&weak).unwrap();
    two.begin(&weak).unwrap();
    put(one.as_mut(), "dead", 1, 11).unwrap();
    put(two.as_mut(), "dead", 2, 22).unwrap();
    let cross = |session: &mut dyn Connection, k, v| {
        let done = put(session, "dead", k, v).and_then(|_| session.commit());
        session.rollback().map(|()| done)
    };
    let (first, second) = thread::scope(|scope| {
        let first = scope.spawn(|| cross(one.as_mut(), 2, 12).unwrap());
        let second = scope.spawn(|| cross(two.as_mut(), 1, 21).unwrap());
        (first.join().unwrap(), second.join().unwrap())
    });
    assert_ne!(first.is_ok(), second.is_ok(), "one of them is the victim");
    let expected = if first.is_ok() { [Some(11), Some(12)] } else { [Some(21), Some(22)] };
    let error = first.and(second).unwrap_err();
    assert_eq!(error.kind(), Kind::Deadlock, "{error}");
    assert_ne!(error.fate(), Fate::Unknown);
    let seen = [1, 2].map(|k| get(one.as_mut(), "dead", k).unwrap());
    assert_eq!(seen, expected);
}

pub fn constraint(target: &Target) {
    let mut session = table(target, "cons");
    session.begin(&level(session.as_ref(), true)).unwrap();
    let insert = sql(session.as_ref(), "INSERT INTO cons VALUES (?, ?)");
    session.query(&insert, &[Value::Int(4), Value::Int(40)]).unwrap();
    let error = session.query(&insert, &[Value::Int(1), Value::Int(0)]).unwrap_err();
    assert_eq!((error.kind(), error.fate()), (Kind::Constraint, Fate::Open), "{error}");
    assert!(error.code().is_some());
    session.rollback().unwrap();
    assert_eq!(get(session.as_mut(), "cons", 4).unwrap(), None);
    let error = session.query(&insert, &[Value::Int(1), Value::Int(0)]).unwrap_err();
    assert_eq!(error.fate(), Fate::Aborted, "alone, it has no effect");
}

pub fn unsupported(target: &Target) {
    let mut session = table(target, "uns");
    for text in ["SELEKT 1", "SELECT nothing FROM uns", "SELECT 1 FROM no_such_table"] {
        assert_eq!(session.run(text).unwrap_err().kind(), Kind::Unsupported, "{text}");
        assert_eq!(session.query(text, &[]).unwrap_err().kind(), Kind::Unsupported, "{text}");
    }
    let wrong = Isolation::new("CHAOS", "", "BEGIN ISOLATION LEVEL CHAOS");
    assert_eq!(session.begin(&wrong).unwrap_err().kind(), Kind::Unsupported);
    assert_eq!(get(session.as_mut(), "uns", 1).unwrap(), Some(10));
}

/// PostgreSQL answers COMMIT of a failed transaction with ROLLBACK and without an error; others keep what
/// worked.
pub fn failed_transactions_do_not_commit(target: &Target) {
    let mut session = table(target, "failed");
    session.begin(&level(session.as_ref(), true)).unwrap();
    put(session.as_mut(), "failed", 1, 11).unwrap();
    session.query("SELECT 1 FROM no_such_table", &[]).unwrap_err();
    let committed = match session.commit() {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error.fate(), Fate::Aborted);
            false
        }
    };
    assert_eq!(committed, session.product().family != Family::Postgres);
    let expected = if committed { 11 } else { 10 };
    assert_eq!(get(session.as_mut(), "failed", 1).unwrap(), Some(expected), "what commit says is so");
}
