//! SQL through the library, at the serializable level, where answers are those of any database.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

mod client;

use anomalist_level::Level;
use anomalist_sqltext::Dialect;
use anomalist_weakdb::{Granularity, Options, Store};
use anomalist_weakdb_sql::{Code, Database, Status};
use client::{MY, PG, ask, code, database, run, session, shop};

#[test]
fn queries() {
    for dialect in [PG, MY] {
        let s = &mut session(dialect);
        shop(s);
        for (sql, expected) in [
            ("SELECT name FROM customer WHERE id = 2", "Bob"),
            ("SELECT * FROM customer WHERE id = 3", "3|Cy|Oslo"),
            ("SELECT count(*) FROM customer WHERE id = 9", "0"),
            ("SELECT sum(total) FROM orders", "35.30"),
            (
                "SELECT c.name, count(o.no) FROM customer c LEFT JOIN orders o ON o.cid = c.id GROUP BY c.name ORDER BY c.name",
                "Ann|2 Bob|1 Cy|0",
            ),
            ("SELECT name FROM customer WHERE id IN (SELECT cid FROM orders WHERE total > 15)", "Ann"),
            (
                "SELECT name FROM customer c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.cid = c.id)",
                "Cy",
            ),
            ("SELECT cid, sum(total) FROM orders GROUP BY cid HAVING sum(total) > 6", "1|30.30"),
            ("SELECT DISTINCT cid FROM orders ORDER BY cid DESC LIMIT 1 OFFSET 1", "1"),
            (
                "SELECT name FROM customer WHERE name LIKE 'A%' UNION ALL SELECT city FROM customer WHERE id = 3",
                "Ann Oslo",
            ),
            ("(SELECT 1) UNION (SELECT 2)", "1 2"),
            (
                "SELECT CASE WHEN city IS NULL THEN 'none' ELSE city END FROM customer ORDER BY id",
                "Rome none Oslo",
            ),
            ("SELECT id FROM customer WHERE id BETWEEN 2 AND 3 ORDER BY 1", "2 3"),
            ("SELECT upper(name), length(name), coalesce(city, '-') FROM customer WHERE id = 2", "BOB|3|-"),
            ("SELECT total + 0.2 FROM orders WHERE cid = 1 AND no = 1", "10.30"),
            (
                "SELECT (SELECT max(no) FROM orders WHERE cid = customer.id) FROM customer ORDER BY id",
                "2 1 NULL",
            ),
            ("WITH t AS (SELECT cid AS c FROM orders) SELECT count(*) FROM t WHERE c = 1", "2"),
            (
                "SELECT a.id, b.id FROM customer a CROSS JOIN customer b WHERE a.id < b.id ORDER BY 1, 2",
                "1|2 1|3 2|3",
            ),
            ("SELECT sum(total) = 35.3 FROM orders", if dialect == PG { "t" } else { "1" }),
            ("SELECT id FROM customer ORDER BY city, id", if dialect == PG { "3 1 2" } else { "2 3 1" }),
        ] {
            assert_eq!(ask(s, sql), expected, "{sql}");
        }
    }
}

#[test]
fn writes() {
    for dialect in [PG, MY] {
        for granularity in [Granularity::Cell, Granularity::Row] {
            let s = &mut database(granularity).session(dialect, "a").unwrap();
            shop(s);
            assert_eq!(run(s, "UPDATE orders SET total = total * 2 WHERE cid = 1"), "UPDATE 2");
            assert_eq!(ask(s, "SELECT total FROM orders ORDER BY cid, no"), "20.20 40.40 5.00");
            assert_eq!(run(s, "DELETE FROM orders WHERE total > 30"), "DELETE 1");
            assert_eq!(run(s, "UPDATE customer SET id = 30 WHERE id = 3"), "UPDATE 1");
            assert_eq!(ask(s, "SELECT id, name FROM customer ORDER BY id"), "1|Ann 2|Bob 30|Cy");
            assert_eq!(
                run(s, "INSERT INTO customer (id, name) SELECT id + 100, name FROM customer WHERE id < 10"),
                "INSERT 0 2"
            );
            assert_eq!(ask(s, "SELECT count(*) FROM customer"), "5");
            assert_eq!(run(s, "UPDATE customer SET city = NULL"), "UPDATE 5");
            assert_eq!(ask(s, "SELECT count(city) FROM customer"), "0");
            assert_eq!(run(s, "DELETE FROM customer"), "DELETE 5");
            assert_eq!(ask(s, "SELECT count(*) FROM customer"), "0");
        }
    }
}

#[test]
fn upserts_and_returning() {
    let s = &mut session(PG);
    run(s, "CREATE TABLE t (id SERIAL PRIMARY KEY, k TEXT UNIQUE, n INT DEFAULT 7)");
    assert_eq!(ask(s, "INSERT INTO t (k) VALUES ('a'), ('b') RETURNING id, n"), "1|7 2|7");
    assert_eq!(code(s, "INSERT INTO t (k) VALUES ('a')"), Code::Unique);
    assert_eq!(run(s, "INSERT INTO t (k) VALUES ('a') ON CONFLICT DO NOTHING"), "INSERT 0 0");
    let upsert =
        "INSERT INTO t (k, n) VALUES ('a', 5) ON CONFLICT (k) DO UPDATE SET n = t.n + excluded.n RETURNING n";
    assert_eq!(ask(s, upsert), "12");
    assert_eq!(ask(s, "UPDATE t SET n = n + 1 WHERE k = 'b' RETURNING t.*"), "2|b|8");
    assert_eq!(ask(s, "DELETE FROM t WHERE k = 'b' RETURNING id"), "2");
    assert_eq!(ask(s, "INSERT INTO t (k) VALUES ('b') RETURNING k"), "b");
    assert_eq!(ask(s, "INSERT INTO t (id, k) VALUES (DEFAULT, 'z') RETURNING n"), "7");

    let s = &mut session(MY);
    run(s, "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, k VARCHAR(9) UNIQUE, n INT DEFAULT 7)");
    assert_eq!(s.execute("INSERT INTO t (k) VALUES ('a')", &[]).unwrap().last_id, Some(1));
    let upsert = "INSERT INTO t (k, n) VALUES ('a', 5) ON DUPLICATE KEY UPDATE n = n + VALUES(n)";
    assert_eq!(s.execute(upsert, &[]).unwrap().count, 2);
    assert_eq!(ask(s, "SELECT n FROM t"), "12");
    assert_eq!(s.execute("REPLACE INTO t (id, k) VALUES (1, 'c')", &[]).unwrap().count, 2);
    assert_eq!(s.execute("INSERT IGNORE INTO t (id, k) VALUES (1, 'c')", &[]).unwrap().count, 0);
    assert_eq!(ask(s, "SELECT last_insert_id()"), "2");
    run(s, "INSERT INTO t SET id = 10, k = 'x'");
    assert_eq!(s.execute("INSERT INTO t (k) VALUES ('y')", &[]).unwrap().last_id, Some(11));
    run(s, "UPDATE t a JOIN t b ON a.id = b.id SET a.n = b.n + 1 WHERE b.k = 'x'");
    assert_eq!(ask(s, "SELECT n FROM t WHERE id = 10"), "8");
}

#[test]
fn constraints() {
    let s = &mut session(PG);
    run(s, "CREATE TABLE p (id INT PRIMARY KEY, v INT CHECK (v > 0))");
    run(
        s,
        "CREATE TABLE c (id INT PRIMARY KEY, p INT REFERENCES p(id) ON DELETE CASCADE, q INT REFERENCES p)",
    );
    run(s, "INSERT INTO p VALUES (1, 1), (2, 2), (3, NULL)");
    assert_eq!(code(s, "INSERT INTO p VALUES (1, 1)"), Code::Unique);
    assert_eq!(code(s, "INSERT INTO p VALUES (4, 0)"), Code::Check);
    assert_eq!(code(s, "INSERT INTO p VALUES (NULL, 1)"), Code::NotNull);
    assert_eq!(code(s, "UPDATE p SET v = -1"), Code::Check);
    assert_eq!(code(s, "INSERT INTO c VALUES (1, 9, NULL)"), Code::NoParent);
    run(s, "INSERT INTO c VALUES (1, 1, 2), (2, 1, NULL), (3, 3, NULL)");
    assert_eq!(code(s, "DELETE FROM p WHERE id = 2"), Code::HasChildren);
    assert_eq!(run(s, "DELETE FROM p WHERE id = 1"), "DELETE 1");
    assert_eq!(ask(s, "SELECT id FROM c"), "3");
    assert_eq!(code(s, "INSERT INTO p VALUES ('x', 1)"), Code::InvalidValue);
    assert_eq!(code(s, "SELECT nothing FROM p"), Code::UndefinedColumn);
    assert_eq!(code(s, "SELECT absent FROM p"), Code::UndefinedColumn);
    assert_eq!(code(s, "SELECT \"absent\" FROM p"), Code::UndefinedColumn);
    assert_eq!(code(s, "SELECT 1 FROM nowhere"), Code::UndefinedTable);
    assert_eq!(code(s, "SELECT nofunction(1)"), Code::UndefinedFunction);
    assert_eq!(code(s, "SELEC 1"), Code::Syntax);
    assert_eq!(code(s, "SELECT 1/0"), Code::DivisionByZero);
    assert_eq!(code(s, "CREATE TABLE p (id INT)"), Code::DuplicateTable);
    assert_eq!(code(s, "CREATE FUNCTION f() RETURNS int AS 'x' LANGUAGE sql"), Code::Unsupported);
    assert_eq!(code(s, "COPY p FROM STDIN"), Code::Unsupported);
    assert_eq!(code(s, "SELECT DISTINCT ON (id) id FROM p"), Code::Unsupported);
}

/// What was read after a savepoint stays read when it is rolled back to, also if nothing had been read
/// before it.
#[test]
fn a_savepoint_begins_the_transaction() {
    for dialect in [PG, Dialect::MySql] {
        let store = Store::new(Options { record: true, ..Options::new(Level::Serializable) }).unwrap();
        let database = Database::new(store.clone());
        let [mut a, mut b] = ["a", "b"].map(|name| database.session(dialect, name).unwrap());
        run(&mut a, "CREATE TABLE t (id INT PRIMARY KEY, v INT)");
        run(&mut a, "INSERT INTO t VALUES (1, 0)");
        run(&mut b, "BEGIN");
        run(&mut b, "SAVEPOINT s");
        assert_eq!(ask(&mut b, "SELECT v FROM t"), "0");
        run(&mut a, "UPDATE t SET v = 1");
        run(&mut b, "ROLLBACK TO SAVEPOINT s");
        assert_eq!(ask(&mut b, "SELECT v FROM t"), "0");
        run(&mut b, "UPDATE t SET v = 5");
        assert_eq!(code(&mut b, "COMMIT"), Code::Serialization);
        // The insertion, the update, and one transaction of b's.
        assert_eq!(store.history().unwrap().txns().count(), 3);
    }
    let s = &mut session(Dialect::MySql);
    run(s, "SAVEPOINT gone");
    assert_eq!(code(s, "ROLLBACK TO SAVEPOINT gone"), Code::UndefinedSavepoint);
}

#[test]
fn transactions() {
    let s = &mut session(PG);
    run(s, "CREATE TABLE t (id INT PRIMARY KEY, v INT)");
    run(s, "BEGIN");
    run(s, "INSERT INTO t VALUES (1, 1)");
    run(s, "SAVEPOINT a");
    run(s, "INSERT INTO t VALUES (2, 2)");
    assert_eq!(code(s, "INSERT INTO t VALUES (1, 1)"), Code::Unique);
    assert_eq!(s.status(), Status::Failed);
    assert_eq!(code(s, "SELECT 1"), Code::InFailed);
    run(s, "ROLLBACK TO a");
    assert_eq!(ask(s, "SELECT id FROM t"), "1");
    assert_eq!(run(s, "COMMIT"), "COMMIT");
    assert_eq!(s.status(), Status::Idle);
    run(s, "BEGIN");
    assert_eq!(code(s, "SELECT broken"), Code::UndefinedColumn);
    assert_eq!(run(s, "COMMIT"), "ROLLBACK");
    run(s, "BEGIN READ ONLY");
    assert_eq!(code(s, "DELETE FROM t"), Code::ReadOnly);
    run(s, "ROLLBACK");
    assert_eq!(code(s, "SAVEPOINT x"), Code::NoTransaction);
    let several = s.script("INSERT INTO t VALUES (5, 5); INSERT INTO t VALUES (5, 5)");
    assert!(several[0].is_ok() && several[1].is_err());
    assert_eq!(ask(s, "SELECT count(*) FROM t"), "1");
    assert_eq!(s.status(), Status::Idle);

    let s = &mut session(MY);
    run(s, "CREATE TABLE t (id INT PRIMARY KEY, v INT)");
    run(s, "SET autocommit=0");
    run(s, "INSERT INTO t VALUES (1, 1)");
    assert_eq!(code(s, "INSERT INTO t VALUES (2, 2), (1, 1)"), Code::Unique);
    assert_eq!(ask(s, "SELECT id FROM t"), "1");
    run(s, "ROLLBACK");
    assert_eq!(ask(s, "SELECT count(*) FROM t"), "0");
}

#[test]
fn conflicts_are_refused_at_commit() {
    let database = database(Granularity::Cell);
    let (a, b) = (&mut database.session(PG, "a").unwrap(), &mut database.session(PG, "b").unwrap());
    run(a, "CREATE TABLE t (id INT PRIMARY KEY, v INT)");
    run(a, "INSERT INTO t VALUES (1, 0)");
    for s in [&mut *a, &mut *b] {
        run(s, "BEGIN");
        run(s, "UPDATE t SET v = v + 1 WHERE id = 1");
    }
    run(a, "COMMIT");
    assert_eq!(code(b, "COMMIT"), Code::Serialization);
    assert_eq!(b.status(), Status::Idle);
    // Phantoms: both count, both insert.
    for s in [&mut *a, &mut *b] {
        run(s, "BEGIN");
        assert_eq!(ask(s, "SELECT count(*) FROM t WHERE v = 7"), "0");
    }
    run(a, "INSERT INTO t VALUES (10, 7)");
    run(b, "INSERT INTO t VALUES (11, 7)");
    run(a, "COMMIT");
    assert_eq!(code(b, "COMMIT"), Code::Serialization);
    // A key that is not there was looked for.
    for s in [&mut *a, &mut *b] {
        run(s, "BEGIN");
        assert_eq!(ask(s, "SELECT count(*) FROM t WHERE id = 20"), "0");
    }
    run(a, "INSERT INTO t VALUES (20, 1)");
    run(b, "INSERT INTO t VALUES (21, 1)");
    run(a, "COMMIT");
    assert_eq!(code(b, "COMMIT"), Code::Serialization);
}

#[test]
fn definitions() {
    let s = &mut session(PG);
    run(s, "CREATE TABLE t (a INT, b TEXT)");
    run(s, "INSERT INTO t VALUES (1, 'x'), (1, 'x')");
    assert_eq!(ask(s, "SELECT count(*) FROM t"), "2");
    run(s, "ALTER TABLE t ADD COLUMN c INT NOT NULL DEFAULT 4");
    assert_eq!(ask(s, "SELECT * FROM t"), "1|x|4 1|x|4");
    run(s, "CREATE VIEW w AS SELECT a, sum(c) AS total FROM t GROUP BY a");
    assert_eq!(ask(s, "SELECT total FROM w"), "8");
    run(s, "DROP VIEW w");
    run(s, "DROP TABLE t");
    run(s, "CREATE TABLE t (a INT PRIMARY KEY)");
    assert_eq!(ask(s, "SELECT count(*) FROM t"), "0");
    run(s, "CREATE UNIQUE INDEX i ON t (a)");
    run(s, "INSERT INTO t SELECT g FROM generate_series(1, 20) g");
    assert_eq!(ask(s, "SELECT sum(a) FROM t"), "210");
    // Fuzzing found it: a decimal bound ended the process.
    for bounds in ["1, 3.0", "1.5, 1e9", "1, 9, 0.5"] {
        let found = s.execute(&format!("SELECT count(*) FROM generate_series({bounds})"), &[]);
        assert!(found.is_err(), "{bounds}: {found:?}");
    }
    run(s, "TRUNCATE t");
    assert_eq!(ask(s, "SELECT count(*) FROM t"), "0");
    run(s, "CREATE TABLE d (at TIMESTAMP DEFAULT now(), day DATE, ok BOOLEAN, u UUID)");
    run(s, "INSERT INTO d (day, ok) VALUES ('2026-11-16', 'yes')");
    assert_eq!(ask(s, "SELECT day + 1, ok, day > '2026-01-01' FROM d WHERE ok"), "2026-11-17|t|t");
    assert_eq!(
        ask(s, "SELECT extract(year FROM day), day + INTERVAL '1 month' FROM d"),
        "2026|2026-12-16 00:00:00"
    );
    assert_eq!(ask(s, "SELECT '12'::int + 1, CAST(3.7 AS int)"), "13|4");
}

#[test]
fn what_clients_ask_when_they_connect() {
    let s = &mut session(PG);
    shop(s);
    assert_eq!(ask(s, "select current_schema()"), "public");
    assert_eq!(ask(s, "show standard_conforming_strings"), "on");
    assert_eq!(ask(s, "SHOW TRANSACTION ISOLATION LEVEL"), "read committed");
    assert!(ask(s, "select pg_catalog.version()").starts_with("PostgreSQL 15"));
    let has = "SELECT pg_catalog.pg_class.relname FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON \
               pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace WHERE pg_catalog.pg_class.relname = 'orders' \
               AND pg_catalog.pg_class.relkind = ANY (ARRAY['r'::VARCHAR, 'p'::VARCHAR]) AND \
               pg_catalog.pg_table_is_visible(pg_catalog.pg_class.oid) AND pg_catalog.pg_namespace.nspname != 'pg_catalog'";
    assert_eq!(ask(s, has), "orders");
    let columns = "SELECT column_name FROM information_schema.columns WHERE table_name = 'orders' ORDER BY ordinal_position";
    assert_eq!(ask(s, columns), "cid no total");

    let s = &mut session(MY);
    shop(s);
    assert_eq!(
        ask(s, "SELECT @@max_allowed_packet, @@system_time_zone, @@session.autocommit"),
        "67108864|UTC|1"
    );
    assert_eq!(ask(s, "SHOW VARIABLES LIKE 'lower_case_table_names'"), "lower_case_table_names|0");
    assert_eq!(ask(s, "SHOW TABLES"), "customer orders");
    assert_eq!(ask(s, "DESCRIBE customer").split(' ').next().unwrap(), "id|int(11)|NO|PRI|NULL|");
    assert_eq!(code(s, "DESCRIBE nothing"), Code::UndefinedTable);
    assert_eq!(ask(s, "SELECT 7 / 2, 7 DIV 2, 1 || 0"), "3.5000|3|1");
    run(s, "SET @x = 5");
    assert_eq!(ask(s, "SELECT @x + 1"), "6");
}

#[test]
fn what_django_asks_of_mysql() {
    let s = &mut session(MY);
    run(
        s,
        "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(10) NOT NULL, j JSON NULL, CONSTRAINT pos CHECK (id > 0))",
    );
    run(s, "ALTER TABLE t MODIFY `name` VARCHAR(20) NULL");
    run(s, "ALTER TABLE t MODIFY `id` BIGINT NOT NULL AUTO_INCREMENT");
    run(s, "INSERT INTO t (name, j) VALUES (NULL, '{\"a\": [1, \"x\"]}'), ('a name of 20 letters', NULL)");
    assert_eq!(
        ask(s, "SELECT id FROM t WHERE JSON_UNQUOTE(JSON_EXTRACT(j, '$.\"a\"[0]')) = JSON_EXTRACT('1', '$')"),
        "1"
    );
    assert_eq!(
        ask(
            s,
            "SELECT JSON_UNQUOTE(JSON_EXTRACT(j, '$.a[1]')), JSON_EXTRACT('null', '$') FROM t WHERE id = 1"
        ),
        "x|null"
    );
    assert_eq!(
        ask(
            s,
            "SELECT CAST(DATE_FORMAT(CONVERT_TZ('2026-11-16 23:30:00', '+00:00', '+01:00'), '%Y-%m-%d') AS DATE)"
        ),
        "2026-11-17"
    );
    let checks = "SELECT constraint_name, check_clause FROM information_schema.check_constraints WHERE table_name = 't'";
    assert!(ask(s, checks).starts_with("pos|"), "{}", ask(s, checks));
    run(s, "ALTER TABLE t MODIFY name VARCHAR(20) NOT NULL DEFAULT 'x'");
    run(s, "INSERT INTO t (j) VALUES (NULL)");
    assert_eq!(ask(s, "SELECT id, name FROM t WHERE id = 3"), "3|x");
}

#[test]
fn lists_and_functions_that_return_a_set() {
    let s = &mut session(PG);
    shop(s);
    assert_eq!(
        ask(
            s,
            "SELECT ARRAY[1, 2, NULL], cardinality(ARRAY['a', 'b']), ARRAY(SELECT id FROM customer ORDER BY id)"
        ),
        "{1,2,NULL}|2|{1,2,3}"
    );
    assert_eq!(
        ask(s, "SELECT array_agg(id ORDER BY id DESC), array_agg(id > 1 ORDER BY id) FROM customer"),
        "{3,2,1}|{f,t,t}"
    );
    // Of nothing there is no list.
    assert_eq!(ask(s, "SELECT array_agg(id) IS NULL FROM customer WHERE id > 9"), "t");
    assert_eq!(ask(s, "SELECT unnest('{a,b}'::text[])"), "a b");
    // In step; the shorter one ends in NULL.
    let both =
        "SELECT unnest(ARRAY[7, 8, 9]), unnest('{x}'::text[]), generate_subscripts('{x,y}'::text[], 1)";
    assert_eq!(ask(s, both), "7|x|1 8|NULL|2 9|NULL|NULL");
    let keys = "SELECT a.attname FROM pg_attribute a JOIN (SELECT conrelid, unnest(conkey) AS attnum FROM pg_constraint \
                WHERE contype = 'p' AND conrelid = CAST('orders' AS regclass)) k ON a.attrelid = k.conrelid AND a.attnum = k.attnum \
                ORDER BY a.attnum";
    assert_eq!(ask(s, keys), "cid no");
    // Vectors count from 0.
    let index = "SELECT unnest(indkey), generate_subscripts(indkey, 1) FROM pg_index WHERE indrelid = 'orders'::regclass AND indisprimary";
    assert_eq!(ask(s, index), "1|0 2|1");
    run(s, "CREATE TABLE tags (id INT PRIMARY KEY, words TEXT[] NOT NULL DEFAULT '{}')");
    run(s, "INSERT INTO tags VALUES (1, '{ a , b}'), (2, ARRAY['c'])");
    run(s, "INSERT INTO tags (id) VALUES (3)");
    assert_eq!(
        ask(s, "SELECT id, words FROM tags WHERE 'a' = ANY(words) OR words = '{}' ORDER BY id"),
        "1|{a,b} 3|{}"
    );
    assert_eq!(code(s, "INSERT INTO tags VALUES (4, '{a')"), Code::InvalidValue);
    assert_eq!(
        ask(
            s,
            "SELECT format_type(atttypid, -1) FROM pg_attribute WHERE attrelid = 'tags'::regclass AND attnum = 2"
        ),
        "text[]"
    );
    // Lists in place of a table: Django inserts many rows this way.
    let people = "SELECT * FROM UNNEST(ARRAY[4, 5], '{d,e}'::text[], '{Rome}'::text[])";
    assert_eq!(ask(s, people), "4|d|Rome 5|e|NULL");
    run(s, &format!("INSERT INTO customer (id, name, city) {people}"));
    assert_eq!(ask(s, "SELECT id, city FROM customer WHERE id > 3 ORDER BY id"), "4|Rome 5|NULL");
    let named =
        "SELECT p.name, at FROM unnest('{x,y}'::text[]) WITH ORDINALITY AS p(name, at) ORDER BY at DESC";
    assert_eq!(ask(s, named), "y|2 x|1");
    assert_eq!(ask(s, "SELECT n + 1 FROM unnest(ARRAY[1, 2]) n"), "2 3");
    // Of a neighbour's list, with all its columns, and from within.
    let keys = "SELECT k.attnum, at, indisprimary FROM pg_index i, unnest(i.indkey, i.indoption) WITH ORDINALITY k(attnum, option, at) \
                WHERE indrelid = 'orders'::regclass AND k.option = 0 ORDER BY 2";
    assert_eq!(ask(s, keys), "1|1|t 2|2|t");
    let all = "SELECT attname FROM (SELECT * FROM pg_index i, unnest(i.indkey) WITH ORDINALITY k(place, at)) x \
               JOIN pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = x.place WHERE x.indrelid = 'orders'::regclass ORDER BY x.at";
    assert_eq!(ask(s, all), "cid no");
    let within = "SELECT conname, ARRAY(SELECT attname FROM unnest(c.conkey) WITH ORDINALITY cols(colid, arridx) JOIN pg_attribute AS ca \
                  ON cols.colid = ca.attnum WHERE ca.attrelid = c.conrelid ORDER BY cols.arridx), c.conkey[2] \
                  FROM pg_constraint c WHERE c.conrelid = 'orders'::regclass";
    assert_eq!(ask(s, within), "orders_pkey|{cid,no}|2");
    assert_eq!(ask(s, "SELECT (ARRAY['a', 'b'])[2], (ARRAY['a'])[7] IS NULL"), "b|t");
    let path = |how: &str| format!("SELECT '{{\"a\": [1, \"x\"]}}'::jsonb {how}");
    assert_eq!(ask(s, &path("#> '{a,1}'")), "\"x\"");
    assert_eq!(ask(s, &path("#>> '{a,-1}'")), "x");
    assert_eq!(ask(s, &path("#> '{b}'")), "NULL");
    assert_eq!(ask(s, "SELECT json_build_object('a', 1, 'b', 'x')"), "{\"a\":1,\"b\":\"x\"}");
    assert_eq!(code(s, "SELECT unnest(array_agg(id)) FROM customer GROUP BY id"), Code::Unsupported);
    assert_eq!(code(s, "SELECT CAST('a' AS int[])"), Code::InvalidValue);
}
