//! What a recording says of transactions whose interleaving is known, on a throw-away PostgreSQL.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

mod support;

use anomalist::Level;
use anomalist_databases::Value;
use anomalist_record::{Options, Reason};
use support::{judge, record, run, server, text};

const LEVELS: [Level; 3] = [Level::ReadCommitted, Level::SnapshotIsolation, Level::Serializable];

#[test]
fn write_skew_and_lost_updates_are_found_and_named() {
    let server = server();
    let target = server.target(0);
    run(
        target,
        "CREATE TABLE doctors (name text PRIMARY KEY, on_call bool); CREATE TABLE stock (item int, place text, n int, PRIMARY KEY (item, place))",
    );
    run(
        target,
        "INSERT INTO doctors VALUES ('ann', true), ('bob', true); INSERT INTO stock VALUES (1, 'a,b', 5)",
    );
    let recorded = record(&server, Options::default());
    let (mut a, mut b) = (recorded.connect(), recorded.connect());
    for (session, name) in [(&mut a, "ann"), (&mut b, "bob")] {
        text(session, "BEGIN ISOLATION LEVEL REPEATABLE READ");
        assert_eq!(text(session, "SELECT name FROM doctors WHERE on_call ORDER BY name"), "ann bob");
        text(session, &format!("UPDATE doctors SET on_call = false WHERE name = '{name}'"));
    }
    text(&mut a, "COMMIT");
    text(&mut b, "COMMIT");
    let (history, summary) = recorded.end();
    assert_eq!(judge(&history, &LEVELS), [Some(true), Some(true), Some(false)], "{history}");
    assert_eq!((summary.committed, summary.others, summary.initial, summary.unresolved), (2, 0, 4, 0));
    assert!(history.contains("UPDATE doctors SET on_call = false WHERE name = ?"), "{history}");
    assert!(history.contains("\"doctors/ann\"") && history.contains("\"level\":\"snapshot-isolation\""));

    let recorded = record(&server, Options::default());
    let (mut a, mut b) = (recorded.connect(), recorded.connect());
    // By prepared statements, and by an autocommitted update.
    a.run("BEGIN").unwrap();
    let found =
        a.query("SELECT n FROM stock WHERE item = $1 AND place = $2", &[Value::Int(1), Value::from("a,b")]);
    assert_eq!(found.unwrap().int(), Some(5));
    b.query("UPDATE stock SET n = n - 1 WHERE item = $1", &[Value::Int(1)]).unwrap();
    a.query("UPDATE stock SET n = $1 WHERE item = $2", &[Value::Int(4), Value::Int(1)]).unwrap();
    a.run("COMMIT").unwrap();
    let (history, summary) = recorded.end();
    assert_eq!(judge(&history, &LEVELS), [Some(true), Some(false), Some(false)], "{history}");
    assert_eq!(
        (summary.committed, summary.others),
        (2, 0),
        "the number of the autocommitted update is known"
    );
    assert!(history.contains("stock/1,a\\\\,b"), "{history}");
}

#[test]
fn versions_of_any_origin() {
    let server = server();
    let target = server.target(0);
    run(
        target,
        "CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE child (id int PRIMARY KEY, t int REFERENCES t ON DELETE CASCADE)",
    );
    run(target, "BEGIN; INSERT INTO t SELECT i, 0 FROM generate_series(1, 9) i; COMMIT");
    run(target, "VACUUM FREEZE t");
    let recorded = record(&server, Options::default());
    let mut a = recorded.connect();
    // Frozen versions are initial ones. Own versions are no reads.
    text(&mut a, "BEGIN; UPDATE t SET v = 1 WHERE id = 1");
    assert_eq!(text(&mut a, "SELECT v FROM t WHERE id < 3 ORDER BY id"), "1 0");
    text(&mut a, "COMMIT");
    // A version of another client, one of a session, one of a rolled back savepoint, one of a savepoint.
    run(target, "UPDATE t SET v = 2 WHERE id = 2");
    text(&mut a, "BEGIN; SAVEPOINT s; UPDATE t SET v = 9 WHERE id = 3");
    text(&mut a, "ROLLBACK TO s; SAVEPOINT r; UPDATE t SET v = 4 WHERE id = 4; RELEASE r");
    assert_eq!(text(&mut a, "SELECT v FROM t WHERE id IN (3, 4) ORDER BY id"), "0 4");
    text(&mut a, "COMMIT");
    assert_eq!(text(&mut a, "SELECT v FROM t WHERE id BETWEEN 1 AND 4 ORDER BY id"), "1 2 0 4");
    // Rows are deleted by a cascade, get another key, and come back.
    text(&mut a, "INSERT INTO child VALUES (1, 5)");
    text(&mut a, "DELETE FROM t WHERE id = 5");
    text(&mut a, "UPDATE t SET id = 5 WHERE id = 6");
    assert_eq!(
        text(&mut a, "SELECT t.v, child.id FROM t LEFT JOIN child ON child.t = t.id WHERE t.id = 5"),
        "0,NULL"
    );
    // What was rolled back was never read.
    text(&mut a, "BEGIN; UPDATE t SET v = 7 WHERE id = 7");
    text(&mut a, "ROLLBACK");
    assert_eq!(text(&mut a, "SELECT v FROM t WHERE id = 7"), "0");
    let (history, summary) = recorded.end();
    assert_eq!(judge(&history, &LEVELS), [Some(true); 3], "{history}");
    // Of the version that was written in a savepoint it is not known whose it is.
    assert_eq!((summary.unresolved, summary.gaps, summary.unknown), (2, 0, 0), "{history}");
    assert!(history.contains("\"child/1\",\"deleted "), "{history}");
    assert!(history.contains("[\"w\",\"t/6\",\"deleted "), "{history}");
    let read = |row: &str| history.contains(&format!("[\"r\",\"{row}\","));
    assert!(read("t/1") && read("t/2") && read("t/5#1") && read("t/7"), "{history}");
    assert_eq!(summary.aborted, 1);
    assert_eq!(run(target, "SELECT count(*) FROM pg_replication_slots"), "0");
}

/// PostgreSQL does not take a deletion and an insertion of one key for a conflict: they are of two objects.
#[test]
fn a_row_that_was_deleted_and_inserted_again_is_no_lost_update() {
    let server = server();
    let target = server.target(0);
    run(target, "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1)");
    let recorded = record(&server, Options::default());
    let (mut a, mut b) = (recorded.connect(), recorded.connect());
    text(&mut a, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    assert_eq!(text(&mut a, "SELECT v FROM t WHERE id = 1"), "1");
    text(&mut b, "UPDATE t SET v = 2");
    text(&mut b, "DELETE FROM t");
    text(&mut a, "INSERT INTO t VALUES (1, 3)");
    text(&mut a, "COMMIT");
    assert_eq!(text(&mut a, "SELECT v FROM t WHERE id = 1"), "3");
    let (history, _) = recorded.end();
    assert!(history.contains("[\"r\",\"t/1#1\",3,3]"), "{history}");
    assert_eq!(judge(&history, &[Level::SnapshotIsolation]), [Some(true)], "{history}");
}

#[test]
fn what_is_not_seen_is_counted() {
    let server = server();
    let target = server.target(0);
    run(
        target,
        "CREATE TABLE t (id int PRIMARY KEY, v int); CREATE VIEW w AS SELECT * FROM t; CREATE TABLE n (v int); INSERT INTO t VALUES (1, 1)",
    );
    let recorded = record(&server, Options::default());
    let mut a = recorded.connect();
    for sql in [
        "SELECT count(*) FROM t",
        "SELECT * FROM w",
        "SELECT * FROM n",
        "SELECT v FROM t UNION SELECT 7",
        "SELECT 1; SELECT 2",
        "SELECT v FROM t",
        "UPDATE t SET v = 2",
        "CREATE TABLE later (id int PRIMARY KEY)",
    ] {
        text(&mut a, sql);
    }
    std::thread::sleep(std::time::Duration::from_millis(500));
    // A table that was made later is seen.
    text(&mut a, "INSERT INTO later VALUES (1)");
    assert_eq!(text(&mut a, "SELECT * FROM later"), "1");
    text(&mut a, "CREATE TEMP TABLE later (x int)");
    assert_eq!(text(&mut a, "SELECT * FROM later"), "");
    let (history, summary) = recorded.end();
    let count = |reason| summary.statements.unseen.get(&reason).copied().unwrap_or(0);
    assert_eq!(summary.statements.seen, 2, "{summary:?}");
    assert_eq!(
        [Reason::Aggregate, Reason::NoTable, Reason::Keyless, Reason::SetOperation, Reason::Script]
            .map(count),
        [1; 5]
    );
    assert_eq!((count(Reason::Writes), count(Reason::Definitions)), (2, 1), "{summary:?}");
    assert!(history.contains("[\"r\",\"later/1\","), "{history}");
    assert_eq!(judge(&history, &LEVELS), [Some(true); 3]);
}

#[test]
fn samples_and_private_keys() {
    let server = server();
    run(server.target(0), "CREATE TABLE t (id int PRIMARY KEY)");
    let keys = |options: Options| {
        let recorded = record(&server, options);
        let mut a = recorded.connect();
        text(&mut a, "INSERT INTO t SELECT generate_series(1, 400)");
        text(&mut a, "SELECT id FROM t");
        text(&mut a, "DELETE FROM t");
        let (history, summary) = recorded.end();
        assert_eq!(judge(&history, &LEVELS), [Some(true); 3]);
        let mut keys: Vec<String> = Vec::new();
        for (at, _) in history.match_indices("[\"r\",\"t/") {
            keys.push(history[at + 8..].split('"').next().unwrap().to_owned());
        }
        assert_eq!(summary.versions as usize, keys.len());
        keys
    };
    let (first, second) = (
        keys(Options { sample: 8, ..Options::default() }),
        keys(Options { sample: 8, ..Options::default() }),
    );
    assert!((20..100).contains(&first.len()), "{}", first.len());
    assert_eq!(first, second, "the sample is the same each time");
    let hidden = keys(Options { private: true, ..Options::default() });
    assert_eq!(hidden.len(), 400);
    assert!(hidden.iter().all(|key| key.len() == 32));
}
