//! The ten cases of IsoRel's Table 1, and those it does not have, with exactly what becomes of them.

#![allow(clippy::unwrap_used)]

use super::*;
use anomalist_sqltext::parse;

/// Instruments a script as transaction 1; CREATE statements only teach the tables.
fn made(flavour: Flavour, script: &str) -> Vec<String> {
    let mut instrumenter = Instrumenter::new(flavour);
    let mut out = Vec::new();
    for (i, piece) in anomalist_sqltext::split(flavour.dialect(), script).enumerate() {
        let tree = parse(flavour.dialect(), piece.text).unwrap();
        let made = instrumenter.instrument(&tree, &Mark::statement(1, i + 1)).unwrap();
        if made.effect != Effect::None {
            out.extend(made.before);
            out.push(made.statement);
        }
    }
    out
}

#[track_caller]
fn becomes(flavour: Flavour, script: &str, expected: &[&str]) {
    assert_eq!(made(flavour, script), expected);
}

const ALL: [Flavour; 4] = [Flavour::PostgreSql, Flavour::MariaDb, Flavour::MySql, Flavour::Sqlite];

#[test]
fn case_1_select() {
    for flavour in ALL {
        let statement = "SELECT c1, c2 FROM t WHERE c2 > 1";
        becomes(flavour, statement, &["SELECT c1, c2, rowId, wList FROM t WHERE c2 > 1"]);
    }
}

#[test]
fn case_2_cross_table_query() {
    becomes(
        Flavour::MySql,
        "SELECT t1.c1, t2.c2 FROM t1 JOIN t2 WHERE t2.c2 > 1",
        &["SELECT t1.c1, t2.c2, t1.rowId, t1.wList, t2.rowId, t2.wList FROM t1 JOIN t2 WHERE t2.c2 > 1"],
    );
    becomes(
        Flavour::PostgreSql,
        "SELECT x.c1 FROM t1 AS x LEFT JOIN t2 y ON x.c1 = y.c1",
        &["SELECT x.c1, x.rowId, x.wList, y.rowId, y.wList FROM t1 AS x LEFT JOIN t2 y ON x.c1 = y.c1"],
    );
}

#[test]
fn case_3_compound_query_keeps_its_result() {
    becomes(
        Flavour::MySql,
        "SELECT c1, c2 FROM t1 WHERE c2 > 1 UNION SELECT c1, c2 FROM t2 WHERE c2 > 1",
        &["SELECT v0 AS c1, v1 AS c2, GROUP_CONCAT(CONCAT(rowId, '=', wList) SEPARATOR ';') AS wRows \
           FROM (SELECT c1 AS v0, c2 AS v1, rowId, wList FROM t1 WHERE c2 > 1 \
           UNION ALL SELECT c1, c2, rowId, wList FROM t2 WHERE c2 > 1) AS u GROUP BY v0, v1"],
    );
    becomes(
        Flavour::PostgreSql,
        "SELECT c1 FROM t1 UNION ALL SELECT c1 FROM t2 ORDER BY 1",
        &["SELECT c1, rowId, wList FROM t1 UNION ALL SELECT c1, rowId, wList FROM t2 ORDER BY 1"],
    );
    becomes(
        Flavour::PostgreSql,
        "SELECT c1 FROM t1 EXCEPT SELECT c1 FROM t2",
        &["SELECT v0 AS c1, STRING_AGG(rowId || '=' || wList, ';') AS wRows \
           FROM (SELECT c1 AS v0, rowId, wList, 1 AS arm FROM t1 \
           UNION ALL SELECT c1, rowId, wList, 2 AS arm FROM t2) AS u GROUP BY v0 HAVING MAX(arm) = 1"],
    );
    becomes(
        Flavour::Sqlite,
        "SELECT c1 FROM t1 INTERSECT SELECT MAX(c1) FROM t2",
        &["SELECT v0 AS c1, GROUP_CONCAT(wRows, ';') AS wRows \
           FROM (SELECT c1 AS v0, rowId || '=' || wList AS wRows, 1 AS arm FROM t1 \
           UNION ALL SELECT MAX(c1), GROUP_CONCAT(rowId || '=' || wList, ';') AS wRows, 2 AS arm FROM t2) AS u \
           GROUP BY v0 HAVING COUNT(DISTINCT arm) = 2"],
    );
}

#[test]
fn case_4_subquery() {
    becomes(
        Flavour::MySql,
        "SELECT c1, c2 FROM (SELECT c1, c2 FROM t1 WHERE c2 < 5) AS t2 WHERE c2 > 1",
        &[
            "SELECT c1, c2, rowId, wList FROM (SELECT c1, c2, rowId, wList FROM t1 WHERE c2 < 5) AS t2 WHERE c2 > 1",
        ],
    );
    becomes(
        Flavour::PostgreSql,
        "WITH s AS (SELECT a.c1 FROM t1 a, t2 b) SELECT * FROM s",
        &[
            "WITH s AS (SELECT a.c1, a.rowId AS rowId, a.wList AS wList, b.rowId AS rowId2, b.wList AS wList2 \
           FROM t1 a, t2 b) SELECT c1, rowId, wList, rowId2, wList2 FROM s",
        ],
    );
}

#[test]
fn case_5_select_for_update() {
    becomes(
        Flavour::MySql,
        "SELECT c1, c2 FROM t WHERE c2 > 1 FOR UPDATE",
        &["SELECT c1, c2, rowId, wList FROM t WHERE c2 > 1 FOR UPDATE"],
    );
    let shared = "SELECT c1 FROM t LOCK IN SHARE MODE";
    for flavour in [Flavour::MariaDb, Flavour::MySql] {
        becomes(flavour, shared, &["SELECT c1, rowId, wList FROM t LOCK IN SHARE MODE"]);
    }
    let no_wait = "SELECT c1 FROM t FOR SHARE NOWAIT";
    becomes(Flavour::MySql, no_wait, &["SELECT c1, rowId, wList FROM t FOR SHARE NOWAIT"]);
}

#[test]
fn case_6_insert() {
    becomes(
        Flavour::MySql,
        "INSERT INTO t (c1, c2) VALUES (1, 1), (2, 2)",
        &["INSERT INTO t (c1, c2, rowId, wList) VALUES (1, 1, 'r1.1.1', '1.1,'), (2, 2, 'r1.1.2', '1.1,')"],
    );
    becomes(
        Flavour::PostgreSql,
        "CREATE TABLE t (c1 INT); INSERT INTO t VALUES (1)",
        &["INSERT INTO t (c1, rowId, wList) VALUES (1, 'r1.2.1', '1.2,') RETURNING rowId, wList"],
    );
    becomes(
        Flavour::MySql,
        "INSERT INTO t SET c1 = 1",
        &["INSERT INTO t SET c1 = 1, rowId = 'r1.1.1', wList = '1.1,'"],
    );
    becomes(
        Flavour::MariaDb,
        "INSERT INTO t (c1) SELECT c1 FROM t2 WHERE c1 > 1",
        &[
            "INSERT INTO t (c1, rowId, wList) SELECT c1, CONCAT('r1.1.', UUID()), '1.1,' FROM t2 WHERE c1 > 1 \
           RETURNING rowId, wList",
        ],
    );
    becomes(
        Flavour::PostgreSql,
        "INSERT INTO t (c1) SELECT DISTINCT c1 FROM t2",
        &[
            "INSERT INTO t (c1, rowId, wList) SELECT q.*, 'r1.1.' || random()::TEXT || random()::TEXT, '1.1,' \
           FROM (SELECT DISTINCT c1 FROM t2) AS q RETURNING rowId, wList",
        ],
    );
}

#[test]
fn a_star_that_is_inserted_is_without_the_auxiliary_columns() {
    let tables = "CREATE TABLE a (c1 INT, c2 INT); CREATE TABLE b (c1 INT, c2 INT); ";
    let name = |flavour: Flavour| match flavour {
        Flavour::PostgreSql => "'r1.3.' || random()::TEXT || random()::TEXT",
        Flavour::Sqlite => "'r1.3.' || hex(randomblob(8))",
        _ => "CONCAT('r1.3.', UUID())",
    };
    for flavour in ALL {
        let returning = if flavour.returns() { " RETURNING rowId, wList" } else { "" };
        let into = "INSERT INTO b (c1, c2, rowId, wList)";
        for (source, plain) in [
            ("SELECT * FROM a", "SELECT c1, c2, {} FROM a"),
            ("SELECT a.* FROM a WHERE c1 > 1", "SELECT c1, c2, {} FROM a WHERE c1 > 1"),
            ("SELECT * FROM (SELECT * FROM a) AS x", "SELECT c1, c2, {} FROM (SELECT c1, c2 FROM a) AS x"),
            ("SELECT DISTINCT * FROM a", "SELECT q.*, {} FROM (SELECT DISTINCT c1, c2 FROM a) AS q"),
            (
                "SELECT * FROM a UNION SELECT * FROM b",
                "SELECT q.*, {} FROM (SELECT c1, c2 FROM a UNION SELECT c1, c2 FROM b) AS q",
            ),
            (
                "WITH x AS (SELECT * FROM a) SELECT * FROM x",
                "WITH x AS (SELECT c1, c2 FROM a) SELECT c1, c2, {} FROM x",
            ),
        ] {
            let expected = plain.replace("{}", &format!("{}, '1.3,'", name(flavour)));
            let script = format!("{tables}INSERT INTO b {source}");
            becomes(flavour, &script, &[&format!("{into} {expected}{returning}")]);
        }
    }
    // What is not known is refused, and what has no auxiliary columns stays.
    let tree = parse(Flavour::PostgreSql.dialect(), "INSERT INTO b SELECT * FROM a").unwrap();
    assert!(Instrumenter::new(Flavour::PostgreSql).instrument(&tree, &Mark::statement(1, 1)).is_err());
    let script = "INSERT INTO b (c1) SELECT * FROM generate_series(1, 3)";
    assert!(made(Flavour::PostgreSql, script)[0].contains("SELECT *, 'r1.1.'"));
}

#[test]
fn upserts_append_to_the_row_they_meet() {
    becomes(
        Flavour::PostgreSql,
        "INSERT INTO t (c1, c2) VALUES (1, 1) ON CONFLICT (c1) DO UPDATE SET c2 = excluded.c2",
        &["INSERT INTO t (c1, c2, rowId, wList) VALUES (1, 1, 'r1.1.1', '1.1,') \
           ON CONFLICT(c1) DO UPDATE SET c2 = excluded.c2, wList = t.wList || '1.1,' RETURNING rowId, wList"],
    );
    becomes(
        Flavour::MySql,
        "INSERT INTO t (c1, c2) VALUES (1, 1) ON DUPLICATE KEY UPDATE c2 = VALUES(c2)",
        &["INSERT INTO t (c1, c2, rowId, wList) VALUES (1, 1, 'r1.1.1', '1.1,') \
           ON DUPLICATE KEY UPDATE c2 = VALUES(c2), wList = CONCAT(t.wList, '1.1,')"],
    );
}

#[test]
fn case_7_update() {
    becomes(
        Flavour::MySql,
        "UPDATE t SET c1 = 1 WHERE c2 > 1",
        &["UPDATE t SET c1 = 1, wList = CONCAT(wList, '1.1,') WHERE c2 > 1"],
    );
    becomes(
        Flavour::PostgreSql,
        "UPDATE t AS x SET c1 = y.c1 FROM t2 AS y WHERE x.c2 = y.c2",
        &["UPDATE t AS x SET c1 = y.c1, wList = x.wList || '1.1,' FROM t2 AS y WHERE x.c2 = y.c2 \
           RETURNING x.rowId, x.wList"],
    );
    becomes(
        Flavour::MySql,
        "UPDATE t JOIN t2 ON t.c1 = t2.c1 SET t.c2 = 1, t2.c2 = 2",
        &["UPDATE t JOIN t2 ON t.c1 = t2.c1 SET t.c2 = 1, t2.c2 = 2, \
           t.wList = CONCAT(t.wList, '1.1,'), t2.wList = CONCAT(t2.wList, '1.1,')"],
    );
}

#[test]
fn case_8_delete() {
    let statement = "DELETE FROM t WHERE c2 > 1";
    becomes(
        Flavour::MySql,
        statement,
        &["SELECT rowId, wList FROM t WHERE c2 > 1 FOR UPDATE", "DELETE FROM t WHERE c2 > 1"],
    );
    for flavour in [Flavour::PostgreSql, Flavour::MariaDb, Flavour::Sqlite] {
        becomes(flavour, statement, &["DELETE FROM t WHERE c2 > 1 RETURNING rowId, wList"]);
    }
}

#[test]
fn case_9_replace_with_a_key() {
    becomes(
        Flavour::MySql,
        "CREATE TABLE t (c1 INT PRIMARY KEY, c2 INT); REPLACE INTO t (c1, c2) VALUES (1, 1)",
        &[
            "SELECT rowId, wList FROM t WHERE c1 = 1 FOR UPDATE",
            "REPLACE INTO t (c1, c2, rowId, wList) VALUES (1, 1, 'r1.2.1', '1.2,')",
        ],
    );
    becomes(
        Flavour::Sqlite,
        "CREATE TABLE t (a INT, b INT, c INT UNIQUE, PRIMARY KEY (a, b)); REPLACE INTO t VALUES (1, 2, 3)",
        &[
            "SELECT rowId, wList FROM t WHERE (c = 3) OR (a = 1 AND b = 2)",
            "INSERT OR REPLACE INTO t (a, b, c, rowId, wList) VALUES (1, 2, 3, 'r1.2.1', '1.2,') RETURNING rowId, wList",
        ],
    );
}

#[test]
fn case_10_replace_without_a_key() {
    becomes(
        Flavour::MySql,
        "CREATE TABLE t (c1 INT, c2 INT); REPLACE INTO t (c1, c2) VALUES (1, 1)",
        &["REPLACE INTO t (c1, c2, rowId, wList) VALUES (1, 1, 'r1.2.1', '1.2,')"],
    );
}

#[test]
fn aggregates_and_distinct_tell_the_rows_behind_a_row() {
    becomes(
        Flavour::PostgreSql,
        "SELECT COUNT(*) FROM t WHERE c1 > 1",
        &["SELECT COUNT(*), STRING_AGG(rowId || '=' || wList, ';') AS wRows FROM t WHERE c1 > 1"],
    );
    becomes(
        Flavour::MySql,
        "SELECT x.c1, SUM(y.c1) FROM t x JOIN t2 y GROUP BY x.c1",
        &["SELECT x.c1, SUM(y.c1), GROUP_CONCAT(CONCAT_WS(';', CONCAT(x.rowId, '=', x.wList), \
           CONCAT(y.rowId, '=', y.wList)) SEPARATOR ';') AS wRows FROM t x JOIN t2 y GROUP BY x.c1"],
    );
    becomes(
        Flavour::Sqlite,
        "SELECT DISTINCT c1, c2 FROM t ORDER BY c1",
        &[
            "SELECT c1, c2, GROUP_CONCAT(rowId || '=' || wList, ';') AS wRows FROM t GROUP BY c1, c2 ORDER BY c1",
        ],
    );
    for aggregate in [
        "STDDEV_POP(c1)",
        "BIT_XOR(c1)",
        "JSON_ARRAYAGG(c1)",
        "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY c1)",
    ] {
        let query = format!("SELECT {aggregate} FROM t");
        let reported = format!("SELECT {aggregate}, STRING_AGG(rowId || '=' || wList, ';') AS wRows FROM t");
        becomes(Flavour::PostgreSql, &query, &[&reported]);
    }
    // For MySQL's kin, HAVING alone is another WHERE.
    let having = "SELECT id, v FROM t HAVING v > 5";
    becomes(Flavour::MariaDb, having, &["SELECT id, v, rowId, wList FROM t HAVING v > 5"]);
    becomes(
        Flavour::MySql,
        "SELECT 1 FROM t HAVING MAX(v) > 5",
        &[
            "SELECT 1, GROUP_CONCAT(CONCAT(rowId, '=', wList) SEPARATOR ';') AS wRows FROM t HAVING MAX(v) > 5",
        ],
    );
    let scalar = "SELECT c1, (SELECT MAX(c1) FROM t2) FROM t";
    becomes(Flavour::Sqlite, scalar, &["SELECT c1, (SELECT MAX(c1) FROM t2), rowId, wList FROM t"]);
}

#[test]
fn views_hand_the_columns_on() {
    let script =
        "CREATE TABLE t (c1 INT, c2 INT); CREATE VIEW v AS SELECT c2 FROM t WHERE c1 > 0; SELECT * FROM v";
    becomes(Flavour::PostgreSql, script, &["SELECT c2, rowId, wList FROM v"]);
    let mut instrumenter = Instrumenter::new(Flavour::PostgreSql);
    let view = parse(Flavour::PostgreSql.dialect(), "CREATE VIEW v (n) AS SELECT COUNT(*) FROM t").unwrap();
    let made = instrumenter.instrument(&view, &Mark::initial(1)).unwrap();
    assert_eq!(
        made.statement,
        "CREATE VIEW v (n, wRows) AS SELECT COUNT(*), STRING_AGG(rowId || '=' || wList, ';') AS wRows FROM t"
    );
    let query = parse(Flavour::PostgreSql.dialect(), "SELECT * FROM v").unwrap();
    let made = instrumenter.instrument(&query, &Mark::statement(1, 1)).unwrap();
    assert_eq!((made.statement.as_str(), made.capture.added()), ("SELECT n, wRows FROM v", 1));
}

#[test]
fn what_cannot_be_seen_is_refused() {
    let mut instrumenter = Instrumenter::new(Flavour::MySql);
    for statement in [
        "SELECT * FROM a NATURAL JOIN b",
        "DELETE a FROM a JOIN b ON a.x = b.x",
        "SELECT * FROM a UNION SELECT * FROM b",
        "CREATE TABLE a AS SELECT * FROM b",
        "WITH RECURSIVE s AS (SELECT 1) SELECT * FROM s",
        "SELECT * FROM a JOIN b USING (id)",
        "CALL p(1)",
        "TRUNCATE TABLE a",
    ] {
        let tree = parse(Flavour::MySql.dialect(), statement).unwrap();
        assert!(instrumenter.instrument(&tree, &Mark::statement(1, 1)).is_err(), "{statement}");
    }
    for (flavour, statement, word) in [
        (
            Flavour::PostgreSql,
            "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v",
            "MERGE",
        ),
        (Flavour::PostgreSql, "COPY t FROM STDIN", "COPY"),
        (Flavour::PostgreSql, "TRUNCATE t", "TRUNCATE"),
        (Flavour::PostgreSql, "EXPLAIN ANALYZE UPDATE t SET v = 1", "EXPLAIN"),
        (Flavour::Sqlite, "UPDATE OR REPLACE t SET v = 1", "UPDATE OR REPLACE"),
    ] {
        let tree = parse(flavour.dialect(), statement).unwrap();
        let error = Instrumenter::new(flavour).instrument(&tree, &Mark::statement(1, 1)).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn whatever_is_generated_can_be_instrumented() {
    use crate::generate::{Generator, Knobs};
    for flavour in ALL {
        let generator = Generator::new(Knobs::default(), flavour, 3);
        for round in 0..40 {
            let schema = generator.schema(round);
            let mut instrumenter = Instrumenter::new(flavour).with_whole_rows();
            let all = (0..20).flat_map(|i| generator.transaction(&schema, round, 0, i).statements);
            for statement in schema.create(flavour).into_iter().chain(all) {
                if anomalist_sqltext::control(flavour.dialect(), &statement).is_some() {
                    continue;
                }
                let tree =
                    parse(flavour.dialect(), &statement).unwrap_or_else(|e| panic!("{statement}: {e}"));
                let made = instrumenter.instrument(&tree, &Mark::statement(1, 1));
                made.unwrap_or_else(|e| panic!("{flavour}: {statement}: {e}"));
            }
        }
    }
}

#[test]
fn statements_return_what_they_returned_before() {
    let table = "CREATE TABLE t (id INT, v INT);";
    becomes(
        Flavour::PostgreSql,
        &format!("{table} DELETE FROM t WHERE id = 2 RETURNING *"),
        &["DELETE FROM t WHERE id = 2 RETURNING id, v, rowId, wList"],
    );
    becomes(
        Flavour::MariaDb,
        &format!("{table} DELETE FROM t ORDER BY id LIMIT 1"),
        &["DELETE FROM t ORDER BY id LIMIT 1 RETURNING rowId, wList"],
    );
    // PostgreSQL takes fewer values than columns, the others do not.
    let short = format!("{table} INSERT INTO t VALUES (1)");
    becomes(
        Flavour::PostgreSql,
        &short,
        &["INSERT INTO t (id, rowId, wList) VALUES (1, 'r1.2.1', '1.2,') RETURNING rowId, wList"],
    );
    assert!(made(Flavour::MySql, &short)[0].starts_with("INSERT INTO t (id, v, rowId, wList) VALUES (1, "));
}
