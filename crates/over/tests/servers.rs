//! Weak reads over a throw-away PostgreSQL.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

mod support;

use anomalist_level::Level;
use anomalist_over::Reason;
use support::{ask, connect, database, fails, options, over, prepared, run, server};

/// An old version is read by a cached prepared statement within a transaction, own writes win, and the
/// store decides the commit.
#[test]
fn reads_are_weak_and_own_writes_win() {
    let server = server();
    let target = database(&server, "one");
    run(&target, "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0), (2, 0)");
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..20 {
        run(&target, "UPDATE t SET v = 0");
        let over = over(&target, options(Level::Causal, seed));
        let (mut a, mut b) = (connect(&over, &target), connect(&over, &target));
        ask(&mut a, "UPDATE t SET v = 1 WHERE id = 1");
        ask(&mut a, "UPDATE t SET v = 2 WHERE id = 1");
        let first = prepared(&mut b, "SELECT v FROM t WHERE id = 1");
        ask(&mut b, "BEGIN");
        let second = prepared(&mut b, "SELECT v FROM t WHERE id = 1");
        assert!(second >= first, "sessions do not go back: {first} {second}");
        seen.insert(second.clone());
        assert_eq!(prepared(&mut b, "SELECT v FROM t WHERE id = 1"), second, "repeatable at causal");
        ask(&mut b, "UPDATE t SET v = 7 WHERE id = 2");
        assert_eq!(prepared(&mut b, "SELECT v FROM t WHERE id = 2"), "7");
        assert_eq!(ask(&mut b, "SELECT v FROM t ORDER BY id"), format!("{second} 7"));
        ask(&mut b, "COMMIT");
        assert_eq!(ask(&mut a, "SELECT v FROM t WHERE id = 1"), "2", "read your writes");
        println!("{seed} {first} {second} {:?}", over.counts());
        assert!(over.counts().unweakened.is_empty(), "{:?}", over.counts());
        over.stop().unwrap();
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["0", "1", "2"]);
}

/// Statements one after another, and what they answer.
const STATEMENTS: &[(&str, &str)] = &[
    // Names with their schema, several schemas, another search path.
    ("SELECT v FROM public.t WHERE id = 1", "10"),
    ("INSERT INTO other.o (id) VALUES ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11') RETURNING n", "1"),
    ("SET search_path = other, public", ""),
    ("SELECT n FROM o WHERE id = 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "1"),
    ("SHOW search_path", "other, public"),
    ("SELECT current_setting('search_path')", "other, public"),
    ("RESET search_path", ""),
    // Tables without a key.
    ("INSERT INTO nokey VALUES (1), (1)", ""),
    ("SELECT count(*) FROM nokey, t", "4"),
    // Locks, writing CTEs, functions, views, system columns, grouping by a key.
    ("SELECT v FROM t WHERE id = 1 FOR UPDATE", "10"),
    ("SELECT id FROM t ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED", "1"),
    ("WITH d AS (UPDATE t SET v = v + 1 RETURNING id, v) SELECT sum(v) FROM d", "32"),
    ("SELECT add_one()", "12"),
    ("SELECT v FROM tv ORDER BY id", "12 21"),
    ("SELECT count(ctid) FROM t", "2"),
    ("SELECT id, w, count(*) FROM t GROUP BY id ORDER BY id", "1,w,1 2,w,1"),
    // Temporary tables come first.
    ("CREATE TEMP TABLE t (id int PRIMARY KEY, v int)", ""),
    ("INSERT INTO t VALUES (5, 5)", ""),
    ("SELECT id, v FROM t", "5,5"),
    ("DROP TABLE t", ""),
    ("SELECT v FROM t ORDER BY id", "12 21"),
    // Savepoints and rollbacks.
    ("BEGIN", ""),
    ("UPDATE t SET v = 1 WHERE id = 1", ""),
    ("SAVEPOINT s", ""),
    ("UPDATE t SET v = 2 WHERE id = 1", ""),
    ("SELECT v FROM t WHERE id = 1", "2"),
    ("ROLLBACK TO s", ""),
    ("SELECT v FROM t WHERE id = 1", "1"),
    ("ROLLBACK", ""),
    ("SELECT v FROM t WHERE id = 1", "12"),
    // Definitions within transactions, undone and done.
    ("BEGIN", ""),
    ("ALTER TABLE t ADD COLUMN x int DEFAULT 7", ""),
    ("UPDATE t SET x = 8 WHERE id = 1", ""),
    ("SELECT x FROM t ORDER BY id", "8 7"),
    ("ROLLBACK", ""),
    ("SELECT v FROM t ORDER BY id", "12 21"),
    ("ALTER TABLE t ADD COLUMN x int DEFAULT 7", ""),
    ("ALTER TABLE t ALTER COLUMN w TYPE varchar(20)", ""),
    ("UPDATE t SET x = 9 WHERE id = 2", ""),
    ("SELECT id, v, x FROM t ORDER BY id", "1,12,7 2,21,9"),
    ("ALTER TABLE t RENAME COLUMN id TO number", ""),
    ("UPDATE t SET x = 10 WHERE number = 2", ""),
    ("SELECT x FROM t WHERE number = 2", "10"),
    ("ALTER TABLE t RENAME COLUMN number TO id", ""),
    // Sequences, notifications, several statements, partitions, TRUNCATE, procedures, deferred checks.
    ("CREATE SEQUENCE numbers", ""),
    ("SELECT nextval('numbers')", "1"),
    ("SELECT currval('numbers'), v FROM t WHERE id = 1", "1,12"),
    ("LISTEN c", ""),
    ("NOTIFY c, 'hello'", ""),
    ("UPDATE t SET v = 13 WHERE id = 1; SELECT v FROM t WHERE id = 1", "13"),
    ("BEGIN; UPDATE t SET v = 14 WHERE id = 1; COMMIT", ""),
    ("SELECT v FROM t WHERE id = 1", "14"),
    ("INSERT INTO p VALUES (1, 1, 10), (2, 2, 20)", ""),
    ("UPDATE p SET part = 2 WHERE id = 1", ""),
    ("SELECT v FROM p WHERE part = 2 ORDER BY id", "10 20"),
    ("SELECT count(*) FROM p2", "2"),
    ("TRUNCATE p", ""),
    ("SELECT count(*) FROM p", "0"),
    ("CALL twice()", ""),
    ("SELECT v FROM t WHERE id = 2", "101"),
    ("BEGIN", ""),
    ("DECLARE c CURSOR FOR SELECT v FROM t ORDER BY id", ""),
    ("FETCH 1 FROM c", "14"),
    ("FETCH 1 FROM c", "101"),
    ("COMMIT", ""),
    ("PREPARE q AS SELECT v FROM t WHERE id = $1", ""),
    ("EXECUTE q(2)", "101"),
    ("DO $$ BEGIN UPDATE t SET v = 15 WHERE id = 1; END $$", ""),
    ("SELECT v FROM t WHERE id = 1", "15"),
    ("UPDATE t SET id = 3 WHERE id = 2", ""),
    ("SELECT id, v FROM t ORDER BY id", "1,15 3,101"),
    ("DELETE FROM t WHERE id = 3", ""),
    ("SELECT id FROM t", "1"),
    ("SELECT count(*) FROM pg_class WHERE relname = 't' AND relkind = 'r'", "1"),
];

/// What is not a plain read runs on the tables, gives what the server gives, and is counted.
#[test]
fn everything_else_runs_on_the_tables() {
    let server = server();
    let target = database(&server, "features");
    run(
        &target,
        "CREATE TABLE t (id int PRIMARY KEY, v int, w text DEFAULT 'w');
         INSERT INTO t VALUES (1, 10), (2, 20);
         CREATE TABLE nokey (a int);
         CREATE SCHEMA other; CREATE TABLE other.o (id uuid PRIMARY KEY, n serial);
         CREATE TABLE p (id int, part int, v int, PRIMARY KEY (part, id)) PARTITION BY LIST (part);
         CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1); CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2);
         CREATE VIEW tv AS SELECT id, v FROM t;
         CREATE FUNCTION add_one() RETURNS int LANGUAGE sql AS 'UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v';
         CREATE PROCEDURE twice() LANGUAGE plpgsql AS
           'BEGIN UPDATE t SET v = 100 WHERE id = 2; COMMIT; UPDATE t SET v = 101 WHERE id = 2; END';
         CREATE TABLE child (id int PRIMARY KEY, t int REFERENCES t DEFERRABLE INITIALLY DEFERRED)",
    );
    let over = over(&target, options(Level::Serializable, 1));
    let mut c = connect(&over, &target);
    for (sql, expected) in STATEMENTS {
        let found = ask(&mut c, sql);
        if !expected.is_empty() {
            assert_eq!(found, *expected, "{sql}");
        }
    }
    // A deferred constraint that fails at the commit, and an error within a transaction.
    ask(&mut c, "BEGIN");
    ask(&mut c, "INSERT INTO child VALUES (1, 77)");
    fails(c.run("COMMIT"), "23503");
    assert_eq!(ask(&mut c, "SELECT count(*) FROM child"), "0");
    ask(&mut c, "BEGIN");
    ask(&mut c, "UPDATE t SET v = 0 WHERE id = 1");
    fails(c.run("SELECT 1/0"), "22012");
    fails(c.run("SELECT v FROM t"), "25P02");
    ask(&mut c, "COMMIT");
    assert_eq!(ask(&mut c, "SELECT v FROM t"), "15");
    let counts = over.counts();
    println!("{counts:?}");
    for reason in [Reason::Catalogue, Reason::Locks, Reason::Writes, Reason::Function, Reason::View] {
        assert!(counts.unweakened.contains_key(&reason), "{reason:?}");
    }
    drop(c);
    over.stop().unwrap();
    assert_eq!(left(&target), "0");
    assert_eq!(run(&target, "SELECT v FROM t"), "15");
}

/// How many schemas, triggers and functions of weakdb are in a database.
fn left(target: &anomalist_databases::Target) -> String {
    run(
        target,
        "SELECT (SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'anomalist%')
              + (SELECT count(*) FROM pg_trigger WHERE tgname LIKE '%anomalist%')
              + (SELECT count(*) FROM pg_proc WHERE prosrc LIKE '%anomalist%')
              + (SELECT count(*) FROM pg_class WHERE relname LIKE '%anomalist%')",
    )
}

/// A client that vanishes within a transaction, and a process that ends without removing anything: the
/// user's tables are as they should be, and nothing is left after `remove`.
#[test]
fn what_is_killed_harms_nothing() {
    let server = server();
    let target = database(&server, "killed");
    run(&target, "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1), (2, 2)");
    let first = over(&target, options(Level::Causal, 1));
    let (mut a, mut b) = (connect(&first, &target), connect(&first, &target));
    ask(&mut a, "UPDATE t SET v = 10 WHERE id = 1");
    ask(&mut b, "BEGIN");
    ask(&mut b, "UPDATE t SET v = 20 WHERE id = 2");
    drop(b);
    // What it had locked is free again, and undone.
    ask(&mut a, "UPDATE t SET v = v + 1 WHERE id = 2");
    assert_eq!(ask(&mut a, "SELECT v FROM t ORDER BY id"), "10 3");
    assert!(matches!(anomalist_over::remove(&target), Err(anomalist_over::Error::InUse)));
    // As if the process were killed: connections end, nothing is removed.
    drop(a);
    drop(first);
    assert_ne!(left(&target), "0");
    assert_eq!(run(&target, "UPDATE t SET v = v + 1 RETURNING v"), "11 4", "the tables work without it");
    anomalist_over::remove(&target).unwrap();
    assert_eq!(left(&target), "0");
    assert_eq!(run(&target, "SELECT v FROM t ORDER BY id"), "11 4");
    // And another one can begin where one was killed.
    let second = over(&target, options(Level::Causal, 1));
    drop(second);
    let third = over(&target, options(Level::Causal, 1));
    assert_eq!(ask(&mut connect(&third, &target), "SELECT v FROM t ORDER BY id"), "11 4");
    third.stop().unwrap();
    assert_eq!(left(&target), "0");
}
