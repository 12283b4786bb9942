//! Whatever SQL does, the history it leaves is within the level: random statements of sessions that
//! overlap, judged by `anomalist-check`, which shares no code with the store. And what a level forbids does
//! not happen to SQL, phantoms included.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_check::{Budget, Request, check};
use anomalist_history::Indexed;
use anomalist_level::{Level, Verdict};
use anomalist_sqltext::Dialect;
use anomalist_weakdb::{Granularity, Options, Store, Value};
use anomalist_weakdb_sql::{Code, Database, Session};

const LEVELS: [Level; 6] = [
    Level::ReadCommitted,
    Level::ReadAtomic,
    Level::Causal,
    Level::Prefix,
    Level::StrongSessionSnapshotIsolation,
    Level::StrongSessionSerializable,
];

fn statement(random: &mut fastrand::Rng) -> String {
    let (k, v) = (random.u32(1..5), random.u32(..9));
    match random.u32(..12) {
        0 => format!("INSERT INTO t VALUES ({k}, {v}, 'n{v}') ON CONFLICT (id) DO UPDATE SET v = excluded.v"),
        1 => format!("INSERT INTO t VALUES ({k}, {v}, 'n{v}')"),
        2 => format!("DELETE FROM t WHERE id = {k}"),
        3 => format!("DELETE FROM t WHERE v = {v}"),
        4 => "UPDATE t SET v = v + 1".into(),
        5 => format!("UPDATE t SET v = v + 1 WHERE id = {k}"),
        6 => format!("SELECT v FROM t WHERE id = {k}"),
        7 => "SELECT count(*), sum(v) FROM t".into(),
        8 => format!("SELECT name FROM t WHERE v > {v} ORDER BY id FOR UPDATE"),
        9 => "SELECT a.id FROM t a JOIN u ON u.tid = a.id WHERE a.v < 7".into(),
        10 => format!("INSERT INTO u (tid) VALUES ({k})"),
        _ => format!("SELECT id FROM t WHERE id >= {k}"),
    }
}

fn play(level: Level, granularity: Granularity, seed: u64) -> Database {
    let options = Options { seed, granularity, record: true, ..Options::new(level) };
    let database = Database::new(Store::new(options).unwrap());
    let mut sessions: Vec<Session> =
        (0..3).map(|n| database.session(Dialect::PostgreSql, &format!("s{n}")).unwrap()).collect();
    let first = &mut sessions[0];
    first.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT, name TEXT UNIQUE)", &[]).unwrap();
    first.execute("CREATE TABLE u (tid INT)", &[]).unwrap();
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..40 {
        let session = &mut sessions[random.usize(..3)];
        let sql = match random.u32(..8) {
            0 => "BEGIN".into(),
            1 => "COMMIT".into(),
            2 => "ROLLBACK".into(),
            _ => statement(&mut random),
        };
        if let Err(error) = session.execute(&sql, &[]) {
            let expected = [Code::Unique, Code::Serialization, Code::InFailed];
            assert!(expected.contains(&error.code), "seed {seed}: {sql}: {error:?}");
        }
    }
    drop(sessions);
    database
}

/// What the database has recorded is within the level.
fn accepted(database: &Database, level: Level, seed: u64) {
    let history = database.store().history().unwrap();
    let indexed = Indexed::new(&history, 1.try_into().unwrap());
    let request = Request { levels: vec![level], ..Request::default() };
    let judgement = check(&indexed, &request, &Budget::unlimited());
    assert_eq!(judgement.verdict(level), Some(&Verdict::Holds), "{level:?}, seed {seed}");
}

#[test]
fn every_history_is_accepted() {
    for level in LEVELS {
        for seed in 0..60 {
            let granularity = if seed % 3 == 0 { Granularity::Row } else { Granularity::Cell };
            accepted(&play(level, granularity, seed), level, seed);
        }
    }
}

fn count(session: &mut Session, sql: &str) -> i64 {
    match session.execute(sql, &[]).unwrap().rows[0][0] {
        Value::Int(n) => n,
        ref other => panic!("{other:?}"),
    }
}

/// Two scans of one transaction, and an insertion by another session in between: below snapshots it may
/// show, above never.
#[test]
fn phantoms() {
    for level in LEVELS {
        let mut seen = false;
        for seed in 0..30 {
            let granularity = if seed % 2 == 0 { Granularity::Row } else { Granularity::Cell };
            let options = Options { seed, granularity, ..Options::new(level) };
            let database = Database::new(Store::new(options).unwrap());
            let (mut a, mut b) = (
                database.session(Dialect::PostgreSql, "a").unwrap(),
                database.session(Dialect::PostgreSql, "b").unwrap(),
            );
            a.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", &[]).unwrap();
            a.execute("BEGIN", &[]).unwrap();
            assert_eq!(count(&mut a, "SELECT count(*) FROM t WHERE v > 0"), 0);
            b.execute("INSERT INTO t VALUES (1, 1)", &[]).unwrap();
            seen |= count(&mut a, "SELECT count(*) FROM t WHERE v > 0") == 1;
        }
        let allowed = level == Level::ReadCommitted;
        assert_eq!(seen, allowed, "{level:?}");
    }
}

/// A lost update through SQL: allowed up to prefix, refused above, and never when the row was read for
/// update.
#[test]
fn lost_updates() {
    for level in LEVELS {
        let weak = matches!(level, Level::ReadCommitted | Level::ReadAtomic | Level::Causal | Level::Prefix);
        for (lock, possible) in [("", weak), (" FOR UPDATE", false)] {
            let mut lost = false;
            for seed in 0..30 {
                let database = Database::new(Store::new(Options { seed, ..Options::new(level) }).unwrap());
                let mut a = database.session(Dialect::MySql, "a").unwrap();
                let mut b = database.session(Dialect::MySql, "b").unwrap();
                a.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", &[]).unwrap();
                a.execute("INSERT INTO t VALUES (1, 0)", &[]).unwrap();
                // Who did not see the row changed nothing.
                let mut changed = Vec::new();
                for s in [&mut a, &mut b] {
                    s.execute("BEGIN", &[]).unwrap();
                    let found = s.execute(&format!("SELECT v FROM t WHERE id = 1{lock}"), &[]).unwrap().rows;
                    let v = found.first().and_then(|r| r[0].as_int()).unwrap_or(0);
                    let update = format!("UPDATE t SET v = {} WHERE id = 1", v + 1);
                    changed.push(s.execute(&update, &[]).unwrap().count as i64);
                }
                let mut committed = 0;
                for (s, changed) in [&mut a, &mut b].into_iter().zip(changed) {
                    committed += changed * i64::from(s.execute("COMMIT", &[]).is_ok());
                }
                let mut check = database.session(Dialect::MySql, "check").unwrap();
                check.execute("SET anomalist.latest = on", &[]).unwrap();
                let found = check.execute("SELECT v FROM t WHERE id = 1", &[]).unwrap().rows;
                lost |= found.first().and_then(|r| r[0].as_int()).unwrap_or(0) < committed;
            }
            assert_eq!(lost, possible, "{level:?}{lock}");
        }
    }
}

/// TPC-C's third condition, that a district's new orders have no gap, breaks under causal consistency:
/// a session that has seen nothing enters the first order again, after others have delivered it and the
/// second.
#[test]
fn new_orders_with_a_gap() {
    let first = Database::new(Store::new(Options::new(Level::Serializable)).unwrap());
    let mut s = first.session(Dialect::MySql, "setup").unwrap();
    s.execute("CREATE TABLE district (id INT PRIMARY KEY, next INT)", &[]).unwrap();
    s.execute("CREATE TABLE new_order (o INT PRIMARY KEY)", &[]).unwrap();
    s.execute("INSERT INTO district VALUES (1, 1)", &[]).unwrap();
    let enter = |s: &mut Session| {
        s.execute("BEGIN", &[]).unwrap();
        let next = count(s, "SELECT next FROM district WHERE id = 1");
        s.execute(&format!("INSERT INTO new_order VALUES ({next})"), &[]).unwrap();
        s.execute(&format!("UPDATE district SET next = {} WHERE id = 1", next + 1), &[]).unwrap();
        s.execute("COMMIT", &[]).unwrap();
    };
    let deliver = |s: &mut Session| {
        s.execute("BEGIN", &[]).unwrap();
        let oldest = s.execute("SELECT min(o) FROM new_order", &[]).unwrap().rows[0][0].as_int();
        s.execute("DELETE FROM new_order WHERE o = ?", &[oldest.map_or(Value::Null, Value::Int)]).unwrap();
        s.execute("COMMIT", &[]).unwrap();
    };
    for (level, possible) in [(Level::Causal, true), (Level::StrongSessionSerializable, false)] {
        let mut gap = false;
        for seed in 0..60 {
            let options = Options { seed, record: true, ..Options::new(level) };
            let database = first.restart(options).unwrap();
            let session = |name| database.session(Dialect::MySql, name).unwrap();
            let (mut a, mut b, mut c) = (session("a"), session("b"), session("c"));
            let mut check = session("check");
            // Only the third may miss what there is.
            for s in [&mut a, &mut b, &mut check] {
                s.execute("SET anomalist_latest = on", &[]).unwrap();
            }
            (0..3).for_each(|_| enter(&mut a));
            (0..2).for_each(|_| deliver(&mut b));
            enter(&mut c);
            let rows = check.execute("SELECT o FROM new_order ORDER BY o", &[]).unwrap().rows;
            let found: Vec<i64> = rows.iter().filter_map(|row| row[0].as_int()).collect();
            if found.windows(2).any(|two| two[1] != two[0] + 1) {
                gap = true;
                accepted(&database, level, seed);
            }
        }
        assert_eq!(gap, possible, "{level:?}");
    }
}
