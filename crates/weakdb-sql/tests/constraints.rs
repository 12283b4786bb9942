//! Constraints against the newest state (`strict`) or against what the transaction sees (`weak`), and
//! databases that begin where another ended.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_level::Level;
use anomalist_sqltext::Dialect;
use anomalist_weakdb::{Latest, Options, Store, Value};
use anomalist_weakdb_sql::{Code, Constraints, Database, Session};
use std::collections::BTreeSet;

fn database(level: Level, seed: u64, constraints: Constraints) -> Database {
    Database::with_constraints(Store::new(Options { seed, ..Options::new(level) }).unwrap(), constraints)
}

fn session(database: &Database, name: &str) -> Session {
    database.session(Dialect::PostgreSql, name).unwrap()
}

fn run(session: &mut Session, sql: &str) -> Result<Vec<Vec<Value>>, Code> {
    session.execute(sql, &[]).map(|outcome| outcome.rows).map_err(|error| error.code)
}

const WEAK: [Level; 4] = [Level::ReadCommitted, Level::ReadAtomic, Level::Causal, Level::Prefix];

/// Two clients that do not know of each other run a statement each, in transactions that overlap; who got
/// through.
fn both(database: &Database, statements: [&str; 2]) -> Vec<Result<(), Code>> {
    let mut clients = [session(database, "a"), session(database, "b")];
    let mut outcomes = vec![Ok(()); 2];
    for ((client, sql), outcome) in clients.iter_mut().zip(statements).zip(&mut outcomes) {
        *outcome = run(client, "BEGIN").and_then(|_| run(client, sql)).map(|_| ());
    }
    for (client, outcome) in clients.iter_mut().zip(&mut outcomes) {
        let ended = run(client, if outcome.is_ok() { "COMMIT" } else { "ROLLBACK" }).map(|_| ());
        *outcome = outcome.and(ended);
    }
    outcomes
}

/// What can happen to two statements over many seeds: how many get through.
fn outcomes(
    level: Level,
    constraints: Constraints,
    setup: &[&str],
    statements: [&str; 2],
) -> BTreeSet<usize> {
    let mut seen = BTreeSet::new();
    for seed in 0..15 {
        let first = database(Level::Serializable, seed, constraints);
        let mut admin = session(&first, "admin");
        setup.iter().for_each(|sql| assert!(run(&mut admin, sql).is_ok(), "{sql}"));
        let database = first.restart(Options { seed, ..Options::new(level) }).unwrap();
        let outcomes = both(&database, statements);
        for code in outcomes.iter().filter_map(|o| o.err()) {
            let expected = [Code::Unique, Code::NoParent, Code::HasChildren, Code::Serialization];
            assert!(expected.contains(&code), "{code:?} at {}", level.name());
        }
        seen.insert(outcomes.iter().filter(|o| o.is_ok()).count());
    }
    seen
}

#[test]
fn keys_and_unique_values() {
    let setup = ["CREATE TABLE t (id INT PRIMARY KEY, name TEXT UNIQUE)"];
    for statements in [
        ["INSERT INTO t VALUES (1, 'a')", "INSERT INTO t VALUES (1, 'b')"],
        ["INSERT INTO t VALUES (1, 'same')", "INSERT INTO t VALUES (2, 'same')"],
    ] {
        for level in WEAK {
            let weak = outcomes(level, Constraints::Weak, &setup, statements);
            assert!(weak.contains(&2), "{}: {weak:?}", level.name());
            let strict = outcomes(level, Constraints::Strict, &setup, statements);
            assert_eq!(strict, [1].into(), "{}: {statements:?}", level.name());
        }
    }
}

#[test]
fn parents() {
    let setup = [
        "CREATE TABLE parent (id INT PRIMARY KEY)",
        "CREATE TABLE child (id INT PRIMARY KEY, parent INT REFERENCES parent (id))",
        "INSERT INTO parent VALUES (1)",
    ];
    let (delete, insert) = ("DELETE FROM parent WHERE id = 1", "INSERT INTO child VALUES (1, 1)");
    for statements in [[delete, insert], [insert, delete]] {
        for level in WEAK {
            let weak = outcomes(level, Constraints::Weak, &setup, statements);
            assert_eq!(weak, [2].into(), "{}: {statements:?}", level.name());
            let strict = outcomes(level, Constraints::Strict, &setup, statements);
            assert_eq!(strict, [1].into(), "{}: {statements:?}", level.name());
        }
    }
}

/// One that has committed is known to everybody, whatever their level would let them see.
#[test]
fn strict_constraints_know_what_has_committed() {
    for level in WEAK {
        for seed in 0..15 {
            let database = database(level, seed, Constraints::Weak);
            let (mut a, mut b) = (session(&database, "a"), session(&database, "b"));
            run(&mut a, "CREATE TABLE t (id INT PRIMARY KEY, v INT)").unwrap();
            run(&mut a, "INSERT INTO t VALUES (1, 1)").unwrap();
            run(&mut b, "SET anomalist.constraints = strict").unwrap();
            assert_eq!(run(&mut b, "INSERT INTO t VALUES (1, 2)"), Err(Code::Unique));
            assert_eq!(run(&mut b, "SET anomalist.constraints = loose"), Err(Code::InvalidValue));
        }
    }
}

#[test]
fn a_restart_keeps_tables_rows_and_numbers() {
    for level in WEAK.into_iter().chain([Level::SnapshotIsolation, Level::Serializable]) {
        let first = database(Level::Serializable, 0, Constraints::Weak);
        let mut admin = session(&first, "admin");
        for sql in [
            "CREATE TABLE t (id SERIAL PRIMARY KEY, v INT NOT NULL DEFAULT 7, CHECK (v > 0))",
            "CREATE VIEW large AS SELECT id FROM t WHERE v > 7",
            "INSERT INTO t (v) VALUES (8), (9)",
            "INSERT INTO t DEFAULT VALUES",
            "DELETE FROM t WHERE id = 2",
        ] {
            run(&mut admin, sql).unwrap();
        }
        let second = first.restart(Options { seed: 1, ..Options::new(level) }).unwrap();
        // What the setup left is what everybody begins with, at every level.
        for name in ["a", "b"] {
            let found = run(&mut session(&second, name), "SELECT id, v FROM t ORDER BY id").unwrap();
            assert_eq!(found, [[1, 8], [3, 7]].map(|row| row.map(Value::Int).to_vec()), "{}", level.name());
        }
        let mut a = session(&second, "a");
        // Below causal a session need not see its own past.
        run(&mut a, "SET anomalist.latest = on").unwrap();
        assert_eq!(run(&mut a, "SELECT id FROM large").unwrap(), [[Value::Int(1)]]);
        assert_eq!(run(&mut a, "INSERT INTO t (v) VALUES (5) RETURNING id").unwrap(), [[Value::Int(4)]]);
        assert_eq!(run(&mut a, "INSERT INTO t (v) VALUES (0)"), Err(Code::Check));
        assert_eq!(run(&mut a, "INSERT INTO t VALUES (1, 1)"), Err(Code::Unique));
        // Neither knows of the other's further life.
        assert_eq!(run(&mut admin, "SELECT count(*) FROM t").unwrap(), [[Value::Int(2)]]);
        run(&mut admin, "DROP VIEW large").unwrap();
        run(&mut admin, "DROP TABLE t").unwrap();
        assert_eq!(run(&mut a, "SELECT count(*) FROM t").unwrap(), [[Value::Int(3)]]);
        assert_eq!(second.store().committed_writers(), 1);
    }
}

/// A chain of updates by three clients: the newest is the one that no other update overwrote. By the
/// paper's rule a client's own last write is as good, if it is allowed.
#[test]
fn the_latest_value() {
    let mut seen = [BTreeSet::new(), BTreeSet::new()];
    for seed in 0..60 {
        let store = Store::new(Options { seed, ..Options::new(Level::Causal) }).unwrap();
        for i in 0..3 {
            let mut client = store.session(&i.to_string());
            client.set_latest(true);
            client.transaction(|t| t.read("n").and_then(|_| t.write("n", i))).unwrap();
        }
        for (rule, seen) in [Latest::On, Latest::PerSession].into_iter().zip(&mut seen) {
            let mut reader = store.session("reader");
            reader.set_latest(rule);
            seen.insert(reader.transaction(|t| t.read("n")).unwrap().and_then(|v| v.as_int()));
        }
    }
    assert_eq!(seen[0], [Some(2)].into());
    assert_eq!(seen[1], [None, Some(0), Some(1), Some(2)].into());
    let database = database(Level::Causal, 0, Constraints::Weak);
    let mut client = session(&database, "a");
    for value in ["on", "off", "per_session", "'per-session'", "default"] {
        run(&mut client, &format!("SET anomalist.latest = {value}")).unwrap();
    }
    assert_eq!(run(&mut client, "SET anomalist.latest = newest"), Err(Code::InvalidValue));
}

#[test]
fn a_key_that_was_looked_for_in_vain_is_strictly_unique() {
    for level in WEAK {
        let database = database(level, 1, Constraints::Strict);
        let (mut a, mut b) = (session(&database, "a"), session(&database, "b"));
        run(&mut a, "CREATE TABLE t (id INT PRIMARY KEY, v INT)").unwrap();
        run(&mut b, "BEGIN").unwrap();
        assert!(run(&mut b, "SELECT v FROM t WHERE id = 1").unwrap().is_empty());
        run(&mut a, "INSERT INTO t VALUES (1, 1)").unwrap();
        let second = run(&mut b, "INSERT INTO t VALUES (1, 2)").and_then(|_| run(&mut b, "COMMIT"));
        assert!(matches!(second, Err(Code::Unique | Code::Serialization)), "{second:?} at {}", level.name());
    }
}
