//! Conditions of all kinds, labelled by PostgreSQL itself: does the other transaction's write change what
//! the statement finds?
//!
//! Every case is a statement and a write. The label comes from the server, without this crate: the
//! statement's answer before the write and after it; of a statement that writes, what it leaves behind in
//! `t` without the write and with it. Then both run as a write skew at REPEATABLE READ, where PostgreSQL
//! lets it happen: T1 runs the statement and writes `k`, T2 reads `k` and runs the write. There is a cycle
//! if and only if the statement depends on the write. None may be missed, and none invented.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use anomalist_databases::{Connection, Database, Value};
use anomalist_lab::server::Engine;
use anomalist_sql::Flavour;
use anomalist_sql::campaign::Subject;
use anomalist_sql::namespace::Namespace;
use anomalist_sql::script::Script;

const TABLES: &str = "CREATE TABLE t (id INT PRIMARY KEY, a INT, s VARCHAR(20), d DATE, n NUMERIC(6,2), b BOOLEAN);
CREATE TABLE u (id INT PRIMARY KEY, v INT, s TEXT);
CREATE TABLE p (id INT PRIMARY KEY);
CREATE TABLE c (id INT PRIMARY KEY, p INT REFERENCES p(id) ON DELETE CASCADE);
CREATE TABLE k (id INT PRIMARY KEY, v INT);
INSERT INTO t VALUES (1, 10, 'Apple', '2024-01-31', 1.50, TRUE), (2, 20, 'pear', '2024-02-29', 2.00, FALSE), (3, NULL, NULL, NULL, NULL, NULL);
INSERT INTO u VALUES (1, 1, 'x'), (2, 2, 'y'), (4, 4, NULL);
INSERT INTO p VALUES (1), (2);
INSERT INTO c VALUES (1, 1), (2, 2);
INSERT INTO k VALUES (1, 0);
CREATE VIEW big AS SELECT id, a FROM t WHERE a > 15;
CREATE VIEW bigger AS SELECT id AS i FROM big WHERE a > 25;
CREATE VIEW sums AS SELECT b, SUM(a) AS total FROM t GROUP BY b;
CREATE VIEW pairs AS SELECT t.id, u.v FROM t JOIN u ON t.id = u.id;";

/// Statements, each with writes.
const CASES: &[(&str, &[&str])] = &[
    // Texts: LIKE, collations, functions, patterns.
    (
        "SELECT id FROM t WHERE s LIKE 'b_n%'",
        &["UPDATE t SET s = 'banana' WHERE id = 2", "UPDATE t SET s = 'Banana' WHERE id = 2"],
    ),
    (
        "SELECT id FROM t WHERE s NOT ILIKE '%P%'",
        &["UPDATE t SET s = 'fig' WHERE id = 1", "UPDATE t SET s = NULL WHERE id = 1"],
    ),
    (
        "SELECT id FROM t WHERE UPPER(s) = 'FIG'",
        &["INSERT INTO t VALUES (7, 1, 'fIg')", "INSERT INTO t VALUES (7, 1, 'figs')"],
    ),
    (
        "SELECT id FROM t WHERE s ~ '^q.*z$'",
        &["UPDATE t SET s = 'quartz' WHERE id = 3", "UPDATE t SET s = 'quart' WHERE id = 3"],
    ),
    (
        "SELECT id FROM t WHERE s > 'b' COLLATE \"C\"",
        &["UPDATE t SET s = 'Zebra' WHERE id = 1", "UPDATE t SET s = 'zebra' WHERE id = 1"],
    ),
    (
        "SELECT id FROM t WHERE COALESCE(s, 'none') = 'none' AND id <> 3",
        &["UPDATE t SET s = NULL WHERE id = 1"],
    ),
    (
        "SELECT id FROM t WHERE s || '!' = 'kiwi!'",
        &["UPDATE t SET s = 'kiwi' WHERE id = 2", "UPDATE t SET s = 'kiwi ' WHERE id = 2"],
    ),
    ("SELECT id FROM t WHERE SUBSTRING(s FROM 2 FOR 1) = 'x'", &["UPDATE t SET s = 'axe' WHERE id = 2"]),
    // Numbers, dates, booleans, NULL.
    (
        "SELECT id FROM t WHERE 100 / a = 4",
        &["UPDATE t SET a = 25 WHERE id = 1", "UPDATE t SET a = 26 WHERE id = 1"],
    ),
    (
        "SELECT id FROM t WHERE ABS(a - 17) < 2",
        &["UPDATE t SET a = 18 WHERE id = 2", "UPDATE t SET a = 19 WHERE id = 2"],
    ),
    (
        "SELECT id FROM t WHERE n * 3 = 4.5 AND id = 2",
        &["UPDATE t SET n = 1.5 WHERE id = 2", "UPDATE t SET n = 1.51 WHERE id = 2"],
    ),
    (
        "SELECT id FROM t WHERE d + 1 = DATE '2024-03-01' AND id = 1",
        &["UPDATE t SET d = '2024-02-29' WHERE id = 1", "UPDATE t SET d = '2024-02-28' WHERE id = 1"],
    ),
    (
        "SELECT id FROM t WHERE EXTRACT(month FROM d) = 12",
        &["UPDATE t SET d = '2023-12-24' WHERE id = 3", "UPDATE t SET d = '2023-11-24' WHERE id = 3"],
    ),
    (
        "SELECT id FROM t WHERE b IS NOT TRUE AND a < 15",
        &["UPDATE t SET b = NULL WHERE id = 1", "UPDATE t SET n = 9 WHERE id = 2"],
    ),
    (
        "SELECT id FROM t WHERE a IS DISTINCT FROM 10 AND id = 1",
        &["UPDATE t SET a = NULL WHERE id = 1", "UPDATE t SET n = 3 WHERE id = 2"],
    ),
    ("SELECT id FROM t WHERE a NOT IN (10, NULL)", &["UPDATE t SET a = 11 WHERE id = 1"]),
    (
        "SELECT id FROM t WHERE NOT (a = 10 OR a = 20)",
        &["UPDATE t SET a = 30 WHERE id = 3", "UPDATE t SET s = 'z' WHERE id = 3"],
    ),
    (
        "SELECT id FROM t WHERE CASE WHEN b THEN a ELSE -a END = -10",
        &["UPDATE t SET b = FALSE WHERE id = 1", "UPDATE t SET b = FALSE WHERE id = 3"],
    ),
    (
        "SELECT id FROM t WHERE (a, b) = (20, TRUE)",
        &["UPDATE t SET b = TRUE WHERE id = 2", "UPDATE t SET b = TRUE WHERE id = 3"],
    ),
    // Joins.
    (
        "SELECT t.id FROM t JOIN u ON t.id = u.id WHERE u.v = 9",
        &["UPDATE u SET v = 9 WHERE id = 2", "UPDATE u SET v = 9 WHERE id = 4"],
    ),
    (
        "SELECT t.id, u.v FROM t LEFT JOIN u ON t.id = u.id AND u.v > 8 WHERE t.id = 3",
        &["INSERT INTO u VALUES (3, 9)", "INSERT INTO u VALUES (3, 8)"],
    ),
    (
        "SELECT u.id FROM t RIGHT JOIN u ON t.id = u.id WHERE t.id IS NULL AND u.id < 4",
        &["DELETE FROM t WHERE id = 2", "DELETE FROM t WHERE id = 3"],
    ),
    (
        "SELECT t.id FROM t, u WHERE t.a = u.v * 5 AND u.s = 'y'",
        &["UPDATE u SET s = 'y' WHERE id = 4", "UPDATE u SET s = 'z' WHERE id = 4"],
    ),
    (
        "SELECT x.id FROM t x JOIN t y ON x.a = y.a + 1",
        &["UPDATE t SET a = 11 WHERE id = 3", "UPDATE t SET a = 12 WHERE id = 3"],
    ),
    // Groups, limits, set operations, windows.
    ("SELECT MAX(v) FROM u", &["INSERT INTO u VALUES (9, 9)", "INSERT INTO u VALUES (9, 3)"]),
    (
        "SELECT COUNT(DISTINCT v) FROM u WHERE v > 1",
        &["INSERT INTO u VALUES (9, 9)", "INSERT INTO u VALUES (9, 4)"],
    ),
    (
        "SELECT s FROM u GROUP BY s HAVING COUNT(*) > 1",
        &["INSERT INTO u VALUES (9, 9, 'x')", "INSERT INTO u VALUES (9, 9, 'z')"],
    ),
    (
        "SELECT DISTINCT b FROM t",
        &["INSERT INTO t VALUES (7, 1)", "INSERT INTO t VALUES (7, 1, 'q', NULL, NULL, TRUE)"],
    ),
    (
        "SELECT id FROM u ORDER BY v DESC LIMIT 1",
        &["INSERT INTO u VALUES (9, 9)", "INSERT INTO u VALUES (9, 0)"],
    ),
    (
        "SELECT id FROM t EXCEPT SELECT id FROM u",
        &["INSERT INTO u VALUES (3, 3)", "INSERT INTO u VALUES (5, 5)"],
    ),
    (
        "SELECT id FROM t INTERSECT SELECT id FROM u",
        &["INSERT INTO u VALUES (3, 3)", "INSERT INTO u VALUES (5, 5)"],
    ),
    (
        "SELECT id FROM t UNION SELECT id FROM u",
        &["INSERT INTO u VALUES (5, 5)", "INSERT INTO u VALUES (3, 3)"],
    ),
    (
        "SELECT id, RANK() OVER (ORDER BY v) FROM u WHERE v < 3",
        &["INSERT INTO u VALUES (0, 0)", "INSERT INTO u VALUES (8, 8)"],
    ),
    // Subqueries outside of FROM, common table expressions, queries in FROM.
    (
        "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.v = t.a)",
        &["UPDATE u SET v = 20 WHERE id = 4", "UPDATE u SET v = 21 WHERE id = 4"],
    ),
    (
        "SELECT id FROM t WHERE id NOT IN (SELECT v FROM u WHERE v IS NOT NULL)",
        &["UPDATE u SET v = 3 WHERE id = 4", "UPDATE u SET v = 5 WHERE id = 4"],
    ),
    (
        "SELECT id, (SELECT COUNT(*) FROM u WHERE u.id = t.id) FROM t WHERE id = 3",
        &["INSERT INTO u VALUES (3, 3)", "INSERT INTO u VALUES (5, 3)"],
    ),
    (
        "SELECT EXISTS (SELECT 1 FROM u WHERE v > 8)",
        &["INSERT INTO u VALUES (9, 9)", "INSERT INTO u VALUES (9, 8)"],
    ),
    (
        "SELECT id FROM t WHERE a > ALL (SELECT v * 4 FROM u)",
        &["UPDATE u SET v = 5 WHERE id = 1", "UPDATE u SET v = 3 WHERE id = 1"],
    ),
    (
        "WITH m AS (SELECT MIN(v) AS v FROM u) SELECT id FROM t WHERE id = (SELECT v FROM m)",
        &["INSERT INTO u VALUES (9, 0)", "INSERT INTO u VALUES (9, 1)"],
    ),
    (
        "SELECT q.id FROM (SELECT id, v * 2 AS w FROM u) AS q WHERE q.w = 20",
        &["UPDATE u SET v = 10 WHERE id = 1", "UPDATE u SET v = 11 WHERE id = 1"],
    ),
    // Views.
    (
        "SELECT id FROM big WHERE a < 100",
        &["UPDATE t SET a = 16 WHERE id = 1", "UPDATE t SET a = 15 WHERE id = 1"],
    ),
    ("SELECT i FROM bigger", &["UPDATE t SET a = 26 WHERE id = 2", "UPDATE t SET a = 25 WHERE id = 1"]),
    (
        "SELECT total FROM sums WHERE b",
        &["UPDATE t SET b = TRUE WHERE id = 2", "UPDATE t SET b = TRUE WHERE id = 3"],
    ),
    ("SELECT v FROM pairs WHERE id = 3", &["INSERT INTO u VALUES (3, 3)", "INSERT INTO u VALUES (5, 3)"]),
    // Statements that write what a condition finds.
    (
        "UPDATE t SET n = 0 WHERE s LIKE 'z%'",
        &["INSERT INTO t VALUES (7, 1, 'zoo')", "INSERT INTO t VALUES (7, 1, 'Zoo')"],
    ),
    ("DELETE FROM t WHERE a % 7 = 0", &["INSERT INTO t VALUES (7, 14)", "INSERT INTO t VALUES (7, 15)"]),
    (
        "UPDATE t SET n = 0 FROM u WHERE t.id = u.id AND u.v = 9",
        &["INSERT INTO u VALUES (3, 9)", "INSERT INTO u VALUES (3, 8)"],
    ),
    (
        "DELETE FROM t USING u WHERE t.id = u.id AND u.s = 'del'",
        &["UPDATE u SET s = 'del' WHERE id = 2", "UPDATE u SET s = 'del' WHERE id = 4"],
    ),
    (
        "UPDATE t SET n = (SELECT MAX(v) FROM u) WHERE id = 1",
        &["INSERT INTO u VALUES (9, 9)", "INSERT INTO u VALUES (9, 3)"],
    ),
    (
        "INSERT INTO t (id, a) SELECT id + 100, v FROM u WHERE v > 3",
        &["INSERT INTO u VALUES (9, 9)", "INSERT INTO u VALUES (9, 3)"],
    ),
    (
        "DELETE FROM t WHERE id IN (SELECT v FROM u WHERE s IS NULL)",
        &["UPDATE u SET v = 3 WHERE id = 4", "UPDATE u SET v = 5 WHERE id = 4"],
    ),
    // Cascades.
    ("SELECT id FROM c WHERE p = 2", &["DELETE FROM p WHERE id = 2", "DELETE FROM p WHERE id = 1"]),
    ("SELECT COUNT(*) FROM c", &["DELETE FROM p WHERE id = 2", "INSERT INTO p VALUES (3)"]),
    (
        "SELECT c.id FROM c JOIN p ON c.p = p.id WHERE c.id > 1",
        &["DELETE FROM p WHERE id = 2", "DELETE FROM p WHERE id = 1"],
    ),
];

/// What a statement finds, in no order.
fn answer(session: &mut dyn Connection, statement: &str) -> Vec<String> {
    let rows = |session: &mut dyn Connection, text: &str| -> Vec<Vec<Value>> {
        session.run(text).unwrap().pop().unwrap().rows
    };
    let mut found = match statement.starts_with("SELECT") || statement.starts_with("WITH") {
        true => rows(session, statement),
        // The rows that it changes, as it leaves them, and those that it deletes.
        false => rows(session, &format!("{statement} RETURNING t.*")),
    };
    found.sort_by_key(|row| format!("{row:?}"));
    found.into_iter().map(|row| format!("{row:?}")).collect()
}

/// Whether the write changes what the statement finds, according to the server.
fn label(session: &mut dyn Connection, statement: &str, write: &str) -> bool {
    session
        .run("DROP SCHEMA IF EXISTS labels CASCADE; CREATE SCHEMA labels; SET search_path TO labels")
        .unwrap();
    session.run(TABLES).unwrap();
    let mut after = |write: &str| {
        session.run("BEGIN").unwrap();
        session.run(write).unwrap();
        let found = answer(session, statement);
        session.run("ROLLBACK").unwrap();
        found
    };
    let plain = after("SELECT 1");
    plain != after(write)
}

/// Every fourth case, from this one on.
fn cases(first: usize) {
    let Some(server) = support::server(Engine::Postgres) else { return };
    let target = server.target(0);
    let subject = Subject {
        database: target,
        flavour: Flavour::PostgreSql,
        product: "PostgreSQL".to_owned(),
        namespace: Namespace::new(Flavour::PostgreSql, "anomalist_conditions"),
        stop: &|| false,
    };
    let level = target.product().unwrap().isolation("REPEATABLE READ").unwrap();
    let mut session = target.connect().unwrap();
    let (mut wrong, mut depend, mut all) = (Vec::new(), 0, 0);
    for (statement, writes) in CASES.iter().skip(first).step_by(4) {
        for write in *writes {
            let expected = label(session.as_mut(), statement, write);
            let text = format!(
                "{TABLES}\nBEGIN; -- T1\nBEGIN; -- T2\nSELECT v FROM k WHERE id = 1; -- T2\n{statement}; -- T1\n\
                 {write}; -- T2\nUPDATE k SET v = 1 WHERE id = 1; -- T1\nCOMMIT; -- T1\nCOMMIT; -- T2\n"
            );
            let script = Script::parse(Flavour::PostgreSql, &text).unwrap();
            let shown = subject.replay(&level, &script).map(|(.., judged)| (judged.counts, judged.unseen));
            let found = shown.as_ref().map(|(counts, _)| !counts.is_empty());
            if found.ok() != Some(expected) {
                wrong.push(format!("{statement} | {write}: expected {expected}, got {shown:?}"));
            }
            (depend, all) = (depend + usize::from(expected), all + 1);
        }
    }
    println!("{all} cases, {depend} with a dependency, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{} of {all} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(depend > all / 3 && depend < all);
}

#[test]
fn the_server_decides_conditions_0() {
    cases(0);
}

#[test]
fn the_server_decides_conditions_1() {
    cases(1);
}

#[test]
fn the_server_decides_conditions_2() {
    cases(2);
}

#[test]
fn the_server_decides_conditions_3() {
    cases(3);
}
