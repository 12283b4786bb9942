//! Results through a recording are the results without it, byte for byte, and places in error messages are
//! places in what the client wrote.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

#[path = "../../proxy/tests/support/script.rs"]
mod script;
mod support;

use anomalist_record::Options;
use script::{Client, Messages, SCRIPTS};
use support::{record, run, server};

/// Statements on which a recording acts.
const MORE: &[&str] = &[
    "Q DELETE FROM t|!Z",
    "Q INSERT INTO t VALUES (1, 'one'), (2, NULL), (3, 'it''s')|!Z",
    "Q SELECT * FROM t ORDER BY id|!Z",
    "Q SELECT id AS a, v, id + 1 FROM t AS x WHERE v IS NOT NULL ORDER BY 1 DESC LIMIT 1 FOR UPDATE|!Z",
    "Q SELECT v, nope FROM t|!Z|Q SELECT v FROM t WHERE nope = 1|!Z|Q SELECT v FROM t ORDER BY ä, nope|!Z",
    "Q SELECT v FROM nothing WHERE nope|!Z|Q SELECT v FROM t WHERE|!Z|Q SELECT count(*), v FROM t|!Z",
    "Q BEGIN ISOLATION LEVEL SERIALIZABLE|!Z|Q SELECT v FROM t WHERE id = 1|!Z|Q COMMIT|!Z|Q COMMIT|!Z",
    "Q BEGIN|!Z|Q SELECT 1/0|!Z|Q COMMIT AND CHAIN|!Z|Q SELECT v FROM t WHERE id = 3|!Z|Q END|!Z",
    "Q BEGIN|!Z|Q UPDATE t SET v = 'x' WHERE id = 1|!Z|Q COMMIT AND CHAIN|!Z|Q ROLLBACK|!Z",
    "Q BEGIN; UPDATE t SET v = 'y'; COMMIT; SELECT v FROM t ORDER BY id|!Z",
    // A prepared statement that is run by SQL as well, and described as statement and portal.
    "P s SELECT id, v FROM t WHERE id > $1::int ORDER BY id|D S s|B - s 1|D P -|E - 1|E -|S|!Z|Q EXECUTE s (2)|!Z",
    "Q BEGIN|!Z|B p s 0|E p 1|S|!Z|Q FETCH 1 FROM p|!Z|Q COMMIT|!Z|Q DEALLOCATE s|!Z",
    // Transactions by extended queries, one at a time and in one pipeline.
    "P b BEGIN|P c COMMIT|P u UPDATE t SET v = $1::text|B - b|E -|S|!Z|B - u z|E -|S|!Z|B - c|E -|S|!Z",
    "B - b|E -|B - u w|E -|P - SELECT v FROM t|B - -|E -|B - c|E -|S|!Z",
    "B - b|E -|B - u w|E -|P - SELECT nope FROM t|B - -|E -|B - c|E -|S|!Z|B - c|E -|S|!Z",
    "B - b|E -|S|B - u q|E -|S|B - c|E -|S|!Z|!Z|!Z",
    "B - u a|E -|S|P - SELECT 1/0|B - -|E -|S|B - u b|E -|S|Q SELECT v FROM t ORDER BY id|!Z|!Z|!Z|!Z",
    // An update that fails when it commits.
    "Q INSERT INTO d VALUES (1, 99)|!Z|P - INSERT INTO d VALUES (2, 99)|B - -|E -|S|!Z",
    "Q BEGIN|!Z|Q INSERT INTO d VALUES (1, 99)|!Z|Q COMMIT|!Z|Q SELECT * FROM d|!Z",
    "Q BEGIN|!Z|P - COPY t FROM STDIN|B - -|E -|S|!G|d 9\\tx\\n|c|S|!Z|Q COMMIT|!Z|Q DELETE FROM t|!Z",
    "Q CREATE TEMP TABLE t (x int)|!Z|Q SELECT x + 0 AS x FROM t|!Z|Q DROP TABLE pg_temp.t|!Z",
];

fn shown(all: &Messages) -> Vec<String> {
    let short = |b: &[u8]| String::from_utf8_lossy(&b[..b.len().min(200)]).into_owned();
    all.iter().map(|(kind, body)| format!("{} {}", *kind as char, short(body))).collect()
}

#[test]
fn answers_have_the_same_bytes() {
    let server = server();
    let port = |target: &anomalist_databases::Target| target.address().unwrap().1;
    run(
        server.target(0),
        "CREATE TABLE t (id int PRIMARY KEY, v text); \
         CREATE TABLE d (id int PRIMARY KEY, t int REFERENCES t DEFERRABLE INITIALLY DEFERRED)",
    );
    let scripts: Vec<&str> =
        SCRIPTS.iter().map(|(_, script, _)| *script).chain(MORE.iter().copied()).collect();
    let play = |port: u16| {
        let (mut client, _) = Client::connect(port);
        scripts.iter().map(|script| client.play(script)).collect::<Vec<_>>()
    };
    let expected = play(port(server.target(0)));
    run(server.target(0), "TRUNCATE t, d");
    let recorded = record(&server, Options::default());
    let found = play(port(&recorded.target));
    for ((script, expected), found) in scripts.iter().zip(&expected).zip(&found) {
        assert!(found == expected, "{script}: {:#?}\nnot {:#?}", shown(found), shown(expected));
    }
    // The recording did act on them.
    let (history, summary) = recorded.end();
    assert!(summary.statements.seen > 12 && summary.versions > 5, "{summary:?}");
    assert!(history.contains("[\"r\",\"t/3\","), "{history}");
}
