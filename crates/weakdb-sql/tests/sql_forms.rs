//! SQL of either dialect that SQLite would take for something else, or not at all.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

mod client;

use anomalist_level::Level;
use anomalist_weakdb::{Granularity, Options, Store, Value};
use anomalist_weakdb_sql::{Code, Database, Session};
use client::{MY, PG, ask, code, database, run, session, shop};

/// As many columns as are sent, and of their types.
#[test]
fn functions_have_their_types() {
    for (dialect, sql, expected) in [
        (PG, "SELECT pg_relation_size('note'), pg_database_size('x'), pg_my_temp_schema()", "Int8 Int8 Oid"),
        (PG, "SELECT pg_collation_is_visible(1), ascii('a'), uuid_generate_v4()", "Bool Int4 Uuid"),
        (PG, "SELECT log(100), exp(0), ln(1), date '2026-11-18'", "Float8 Float8 Float8 Date"),
        (MY, "SELECT locate('b', 'ab'), sleep(0), dayofweek('2026-11-18'), log(1)", "Int8 Int4 Int4 Float8"),
        (MY, "SELECT convert_tz('2026-11-18 00:00:00', '+00:00', '+01:00')", "Timestamp"),
    ] {
        let outcome = session(dialect).execute(sql, &[]).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        let kinds: Vec<String> = outcome.columns.unwrap().iter().map(|c| format!("{:?}", c.kind)).collect();
        assert_eq!(kinds.join(" "), expected, "{sql}");
    }
    let one = |dialect, sql: &str| session(dialect).execute(sql, &[]).unwrap().rows[0][0].clone();
    assert_eq!(one(PG, "SELECT log(100)"), Value::Real(2.0));
    assert_eq!(one(MY, "SELECT log(1)"), Value::Real(0.0));
    assert_eq!(one(MY, "SELECT dayofweek('2026-11-18')"), Value::Int(4));
    assert_eq!(one(PG, "SELECT ascii('a')"), Value::Int(97));
}

#[test]
fn results_are_described_as_they_are() {
    let s = &mut session(PG);
    shop(s);
    run(s, "CREATE TABLE note (id INT PRIMARY KEY, what TEXT)");
    run(s, "INSERT INTO note VALUES (1, 'x')");
    let mut described = |sql: &str| {
        let outcome = s.execute(sql, &[]).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        let columns = outcome.columns.unwrap();
        let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
        let row = |row: &Vec<Value>| {
            let cells = row.iter().zip(&columns);
            cells.map(|(v, c)| c.kind.text(v, PG).unwrap_or_default()).collect::<Vec<_>>().join("|")
        };
        (names.join(" "), outcome.rows.iter().map(row).collect::<Vec<_>>().join(" "))
    };
    for (sql, names, rows) in [
        ("SELECT * FROM customer JOIN note USING (id)", "id name city what", "1|Ann|Rome|x"),
        ("SELECT * FROM note NATURAL JOIN customer", "id what name city", "1|x|Ann|Rome"),
        ("WITH note AS (SELECT 7 AS a, 'b' AS b, 'c' AS c) SELECT * FROM note", "a b c", "7|b|c"),
        ("SELECT 1 UNION ALL SELECT 2.5", "?column?", "1 2.5"),
        ("SELECT 2^3", "?column?", "8"),
        ("SELECT ntile(2) OVER (ORDER BY id) AS n FROM note", "n", "1"),
        ("SELECT percent_rank() OVER (ORDER BY id) AS n FROM note", "n", "0"),
        (
            "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 3) SELECT n FROM t",
            "n",
            "1 2 3",
        ),
    ] {
        assert_eq!(described(sql), (names.to_owned(), rows.to_owned()), "{sql}");
    }
    let s = &mut session(MY);
    let recursive =
        "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 3) SELECT n FROM t";
    assert_eq!(ask(s, recursive), "1 2 3");
}

/// A name of WITH is not the table of that name, and a view reads its own tables only.
#[test]
fn a_query_reads_only_its_tables() {
    let database = database(Granularity::Cell);
    let [mut a, mut b] = ["a", "b"].map(|name| database.session(PG, name).unwrap());
    run(&mut a, "CREATE TABLE t (id INT PRIMARY KEY)");
    run(&mut a, "CREATE TABLE u (id INT PRIMARY KEY)");
    run(&mut a, "CREATE VIEW one AS SELECT id FROM u");
    run(&mut a, "CREATE VIEW v AS SELECT count(*) AS n FROM one");
    run(&mut b, "BEGIN");
    assert_eq!(ask(&mut b, "SELECT n FROM v"), "0");
    assert_eq!(ask(&mut b, "WITH t AS (SELECT 5 AS id) SELECT id FROM t"), "5");
    run(&mut a, "INSERT INTO t VALUES (1)");
    run(&mut b, "INSERT INTO u VALUES (1)");
    run(&mut b, "COMMIT");
    run(&mut b, "BEGIN");
    assert_eq!(ask(&mut b, "SELECT n FROM v"), "1");
    run(&mut a, "INSERT INTO u VALUES (2)");
    run(&mut b, "INSERT INTO t VALUES (2)");
    assert_eq!(code(&mut b, "COMMIT"), Code::Serialization);
}

#[test]
fn postgres_sorts_null_last() {
    let s = &mut session(PG);
    shop(s);
    assert_eq!(ask(s, "SELECT city FROM customer ORDER BY 1"), "Oslo Rome NULL");
    assert_eq!(ask(s, "SELECT city FROM customer ORDER BY 1 DESC"), "NULL Rome Oslo");
    let outer = "SELECT c.id, o.no FROM customer c LEFT JOIN orders o ON o.cid = c.id AND o.no = 2 ORDER BY o.no, c.id";
    assert_eq!(ask(s, outer), "1|2 2|NULL 3|NULL");
}

#[test]
fn forms_that_only_their_dialect_has() {
    let s = &mut session(PG);
    shop(s);
    assert_eq!(ask(s, "SELECT id FROM customer ORDER BY id OFFSET 1 ROWS FETCH FIRST 1 ROWS ONLY"), "2");
    assert_eq!(ask(s, "SELECT id FROM customer ORDER BY id LIMIT NULL OFFSET 1"), "2 3");
    assert_eq!(ask(s, "SELECT id FROM customer WHERE id = 1 FOR NO KEY UPDATE"), "1");
    assert_eq!(
        ask(s, "SELECT 'FOR NO KEY UPDATE' AS t FROM customer WHERE id = 1 FOR KEY SHARE"),
        "FOR NO KEY UPDATE"
    );
    let s = &mut session(MY);
    shop(s);
    assert_eq!(ask(s, "SELECT 1 FROM dual"), "1");
    assert_eq!(
        ask(s, "SELECT GROUP_CONCAT(name ORDER BY id SEPARATOR '; ') AS n FROM customer"),
        "Ann; Bob; Cy"
    );
    assert_eq!(code(s, "SELECT GROUP_CONCAT(DISTINCT name SEPARATOR ';') FROM customer"), Code::Unsupported);
}

#[test]
fn intersect_binds_before_union() {
    for dialect in [PG, MY] {
        let s = &mut session(dialect);
        assert_eq!(ask(s, "SELECT 1 AS n UNION SELECT 2 INTERSECT SELECT 3"), "1");
        assert_eq!(ask(s, "SELECT 2 AS n INTERSECT SELECT 2 UNION SELECT 3 ORDER BY n"), "2 3");
    }
}

#[test]
fn definitions_that_are_refused_or_count() {
    let s = &mut session(PG);
    run(s, "CREATE TABLE t (id SERIAL PRIMARY KEY, v INT)");
    assert_eq!(code(s, "CREATE UNIQUE INDEX i ON t (v) WHERE v > 0"), Code::Unsupported);
    assert_eq!(code(s, "CREATE UNIQUE INDEX i ON t (nothing)"), Code::UndefinedColumn);
    run(s, "CREATE UNIQUE INDEX i ON t (v)");
    run(s, "INSERT INTO t (v) VALUES (1), (2)");
    run(s, "TRUNCATE t RESTART IDENTITY");
    assert_eq!(ask(s, "INSERT INTO t (v) VALUES (3) RETURNING id"), "1");
    run(s, "TRUNCATE t");
    assert_eq!(ask(s, "INSERT INTO t (v) VALUES (3) RETURNING id"), "2");
    let s = &mut session(MY);
    run(s, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT) AUTO_INCREMENT = 100");
    assert_eq!(s.execute("INSERT INTO t (v) VALUES (1)", &[]).unwrap().last_id, Some(100));
    run(s, "ALTER TABLE t AUTO_INCREMENT = 200");
    assert_eq!(s.execute("INSERT INTO t (v) VALUES (1)", &[]).unwrap().last_id, Some(200));
    run(s, "TRUNCATE TABLE t");
    assert_eq!(s.execute("INSERT INTO t (v) VALUES (1)", &[]).unwrap().last_id, Some(1));
    assert_eq!(code(s, "ALTER TABLE t ADD COLUMN w INT AFTER id"), Code::Unsupported);
    run(s, "ALTER TABLE t ADD COLUMN w INT AFTER v");
}

/// What is random in SQL depends on the seed and the connection, and is not repeated after a restart.
#[test]
fn the_seed_decides_random_values() {
    let values = |seed, restarts| {
        let options = Options { seed, ..Options::new(Level::Serializable) };
        let mut database = Database::new(Store::new(options.clone()).unwrap());
        for _ in 0..restarts {
            database = database.restart(options.clone()).unwrap();
        }
        let mut sessions = ["a", "b"].map(|name| database.session(PG, name).unwrap());
        sessions.each_mut().map(|s| ask(s, "SELECT gen_random_uuid(), random() FROM generate_series(1, 2)"))
    };
    assert_eq!(values(1, 0), values(1, 0));
    let [a, b] = values(1, 0);
    assert_ne!(a, b);
    assert!(values(2, 0)[0] != a && values(1, 1)[0] != a);
    let rows: Vec<&str> = a.split(' ').collect();
    assert_ne!(rows[0], rows[1]);
}

#[test]
fn settings_end_when_they_should() {
    let s = &mut session(PG);
    let latest = |s: &Session| s.variable("anomalist.latest").unwrap_or_default();
    let first = latest(s);
    for end in ["RESET anomalist.latest", "RESET ALL", "DISCARD ALL", "SET anomalist.latest TO DEFAULT"] {
        run(s, "SET anomalist.latest = 'per-session'");
        assert_ne!(latest(s), first);
        run(s, end);
        assert_eq!(latest(s), first, "{end}");
    }
    for end in ["COMMIT", "ROLLBACK"] {
        run(s, "BEGIN");
        run(s, "SET LOCAL anomalist.latest = 'per-session'");
        assert_ne!(latest(s), first);
        run(s, end);
        assert_eq!(latest(s), first, "{end}");
    }
}

/// No client gets the answer that a lock was taken when there is none.
#[test]
fn locks_of_the_application_are_refused() {
    let s = &mut session(PG);
    run(s, "CREATE TABLE t (id INT PRIMARY KEY)");
    for sql in [
        "SELECT pg_advisory_lock(1)",
        "SELECT pg_try_advisory_xact_lock(1, 2)",
        "LOCK TABLE t",
        "LOCK t IN EXCLUSIVE MODE",
    ] {
        assert_eq!(code(s, sql), Code::Unsupported, "{sql}");
    }
    assert_eq!(ask(s, "SELECT pg_advisory_unlock(1)"), "f");
    let s = &mut session(MY);
    run(s, "CREATE TABLE t (id INT PRIMARY KEY)");
    for sql in ["SELECT GET_LOCK('a', 10)", "LOCK TABLES t WRITE"] {
        assert_eq!(code(s, sql), Code::Unsupported, "{sql}");
    }
    run(s, "UNLOCK TABLES");
}

/// The rows of a cursor are those of the moment it was declared; it goes both ways, and ends with its
/// transaction unless it is held.
#[test]
fn cursors() {
    let s = &mut session(PG);
    run(s, "CREATE TABLE t (id INT PRIMARY KEY)");
    run(s, "INSERT INTO t VALUES (1), (2), (3), (4), (5)");
    assert_eq!(code(s, "DECLARE c CURSOR FOR SELECT 1"), Code::NoTransaction);
    run(s, "BEGIN");
    run(s, "DECLARE \"C\" SCROLL CURSOR FOR SELECT id FROM t ORDER BY id");
    run(s, "DELETE FROM t WHERE id > 2");
    for (fetch, rows) in [
        ("FETCH \"C\"", "1"),
        ("FETCH FORWARD 2 FROM \"C\"", "2 3"),
        ("FETCH BACKWARD 5 IN \"C\";", "2 1"),
        ("FETCH PRIOR FROM \"C\"", ""),
        ("FETCH ABSOLUTE 2 FROM \"C\"", "2"),
        ("FETCH FORWARD 0 FROM \"C\"", "2"),
        ("FETCH RELATIVE 2 FROM \"C\"", "4"),
        ("FETCH ABSOLUTE -2 FROM \"C\"", "4"),
        ("FETCH ALL FROM \"C\"", "5"),
        ("FETCH NEXT FROM \"C\"", ""),
        ("FETCH BACKWARD ALL \"C\"", "5 4 3 2 1"),
        ("FETCH LAST \"C\"", "5"),
        ("FETCH FIRST \"C\"", "1"),
    ] {
        assert_eq!(ask(s, fetch), rows, "{fetch}");
    }
    assert_eq!(s.execute("MOVE FORWARD ALL IN \"C\"", &[]).unwrap().tag, "MOVE 4");
    assert_eq!(s.execute("FETCH BACKWARD 2 IN \"C\"", &[]).unwrap().tag, "FETCH 2");
    run(s, "CLOSE \"C\"");
    run(s, "SAVEPOINT a");
    assert_eq!(code(s, "FETCH c"), Code::UndefinedPortal);
    run(s, "ROLLBACK TO a");
    let params = [Value::Int(1)];
    s.execute("DECLARE c NO SCROLL CURSOR WITHOUT HOLD FOR SELECT id FROM t WHERE id = $1", &params).unwrap();
    run(s, "RELEASE a");
    run(s, "SAVEPOINT b");
    run(s, "DECLARE d CURSOR WITH HOLD FOR VALUES (1)");
    run(s, "ROLLBACK TO b");
    assert_eq!(ask(s, "FETCH ALL c"), "1");
    assert_eq!(code(s, "FETCH BACKWARD 1 c"), Code::NotInState);
    run(s, "ROLLBACK TO b");
    assert_eq!(code(s, "FETCH d"), Code::UndefinedPortal);
    run(s, "ROLLBACK");
    assert_eq!(code(s, "CLOSE c"), Code::UndefinedPortal);
    run(s, "DECLARE h CURSOR WITH HOLD FOR SELECT id FROM t WHERE id < 3 ORDER BY id");
    run(s, "BEGIN");
    assert_eq!(ask(s, "FETCH h"), "1");
    assert_eq!(code(s, "DECLARE h CURSOR FOR SELECT 1"), Code::DuplicateCursor);
    run(s, "ROLLBACK");
    assert_eq!(ask(s, "FETCH h"), "2");
    run(s, "CLOSE ALL");
    for wrong in [
        "DECLARE c CURSOR FOR DELETE FROM t",
        "DECLARE c TURTLE FOR SELECT 1",
        "FETCH",
        "FETCH SOME c",
        "CLOSE",
    ] {
        assert_eq!(code(s, wrong), Code::Syntax, "{wrong}");
    }
}

/// Without RECURSIVE a query of WITH knows the names before its own only; with a schema it is the table
/// anyway.
#[test]
fn names_of_with_and_tables_of_the_same_name() {
    let s = &mut session(PG);
    run(s, "CREATE TABLE t (id INT PRIMARY KEY)");
    run(s, "CREATE TABLE u (id INT PRIMARY KEY)");
    run(s, "INSERT INTO t VALUES (1), (2)");
    run(s, "INSERT INTO u VALUES (7)");
    for (sql, rows) in [
        ("WITH t AS (SELECT t.id + 10 AS id FROM t) SELECT id FROM t ORDER BY id", "11 12"),
        ("WITH a AS (SELECT id FROM u), u AS (SELECT 3 AS id) SELECT a.id, u.id FROM a, u", "7|3"),
        ("WITH t AS (SELECT 5 AS id) SELECT id FROM public.t ORDER BY id", "1 2"),
        ("WITH t AS (WITH t AS (SELECT 9 AS id) SELECT id FROM t) SELECT id FROM t", "9"),
    ] {
        assert_eq!(ask(s, sql), rows, "{sql}");
    }
    let outer = "WITH t AS (SELECT 5 AS id) SELECT * FROM (WITH t AS (SELECT * FROM t) SELECT * FROM t) x";
    assert_eq!(code(s, outer), Code::Unsupported);
}

#[test]
fn a_scalar_subquery_has_one_row() {
    for dialect in [PG, MY] {
        let s = &mut session(dialect);
        run(s, "CREATE TABLE t (id INT PRIMARY KEY, v NUMERIC(6,2), n TEXT)");
        run(s, "INSERT INTO t VALUES (1, 2.50, 'a'), (2, NULL, 'a'), (3, 4.00, 'b')");
        for (sql, rows) in [
            ("SELECT (SELECT v FROM t WHERE id = 1)", "2.50"),
            ("SELECT (SELECT v FROM t WHERE id = 2) IS NULL, (SELECT v FROM t WHERE id = 9) IS NULL", "1|1"),
            ("SELECT id FROM t WHERE v = (SELECT max(v) FROM t)", "3"),
            (
                "SELECT a.id, (SELECT b.id FROM t b WHERE b.v > a.v) FROM t a ORDER BY a.id",
                "1|3 2|NULL 3|NULL",
            ),
            ("SELECT (SELECT id FROM t WHERE n = 'a' ORDER BY id DESC LIMIT 1)", "2"),
            ("SELECT id FROM t WHERE id = ANY (SELECT id FROM t WHERE n = 'a') ORDER BY id", "1 2"),
            ("SELECT (SELECT v FROM t WHERE id = 1) * 2", "5.00"),
        ] {
            assert_eq!(ask(s, sql).replace('t', "1"), rows, "{sql}");
        }
        for sql in [
            "SELECT (SELECT id FROM t WHERE n = 'a')",
            "UPDATE t SET v = (SELECT id FROM t)",
            "SELECT (SELECT 1 UNION ALL SELECT 2)",
        ] {
            assert_eq!(code(s, sql), Code::Cardinality, "{sql}");
        }
        run(s, "UPDATE t SET v = (SELECT b.v FROM t b WHERE b.id = 3) WHERE id = 2");
        assert_eq!(ask(s, "SELECT v FROM t WHERE id = 2"), "4.00");
    }
}
