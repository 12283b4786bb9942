//! What is sent to weakdb: bytes of its protocols, texts of SQL.

use anomalist_level::Level;
use anomalist_sqltext::{Dialect, Lexed, parse};
use anomalist_weakdb::{Options, Store, Value};
use anomalist_weakdb_sql::wire::{Protocol, replay};
use anomalist_weakdb_sql::{Code, Database, Limits};
use std::time::Duration;

/// A database with a table, whose statements end soon.
pub fn database() -> Database {
    // An input has room for some 70 statements that each take as long as they may: with 200 ms, 14 s.
    let limits = Limits::default().with_statement(Some(Duration::from_millis(50)));
    let limits = limits.with_result(1000, 1 << 20).with_kept(1 << 22, 1 << 23);
    let store = Store::new(Options::new(Level::Causal)).expect("the level is known");
    let database = Database::new(store);
    let mut session = database.session(Dialect::PostgreSql, "setup").expect("SQLite starts");
    for sql in [
        "CREATE TABLE t (id INT PRIMARY KEY, a TEXT, b NUMERIC(8,2), c TIMESTAMP, d INT[])",
        "INSERT INTO t VALUES (1, 'x', 1.5, '2020-02-02', '{1,2}'), (2, NULL, NULL, NULL, NULL)",
    ] {
        session.execute(sql, &[]).expect("the table can be made");
    }
    drop(session);
    // On a busy machine making the table may take longer than statements may.
    database.with_limits(limits)
}

/// The bytes that begin a connection.
pub fn login(protocol: Protocol) -> &'static [u8] {
    match protocol {
        Protocol::Postgres => b"\0\0\0\x10\0\x03\0\0user\0a\0\0",
        Protocol::MySql => {
            b"\x2d\0\0\x01\x08\x82\x09\0\0\0\0\x01\x2d\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
              a\0\0weakdb\0\0\0"
        }
        Protocol::Http => b"",
    }
}

/// A client that sends these bytes. One in four begins with them; the others log in first.
pub fn connection(protocol: Protocol, bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let sent = if first % 4 == 0 { rest.to_vec() } else { [login(protocol), rest].concat() };
    replay(&database(), protocol, &sent);
}

fn dialects(bytes: &[u8]) -> Option<([Dialect; 2], &str)> {
    let text = std::str::from_utf8(bytes).ok()?;
    Some(([Dialect::PostgreSql, Dialect::MySql], text))
}

/// A text through the lexer and the parser: pieces cover what they say, and what is printed is read again.
pub fn text(bytes: &[u8]) {
    let Some((dialects, text)) = dialects(bytes) else { return };
    for dialect in dialects.into_iter().chain([Dialect::Sqlite]) {
        for piece in Lexed::script(dialect, text) {
            _ = (piece.control(), piece.settings());
            for token in piece.tokens() {
                assert_eq!(piece.text().get(token.start..token.end()), Some(token.text));
            }
            if let Ok(tree) = parse(dialect, piece.text()) {
                let printed = tree.to_string();
                _ = parse(dialect, &printed);
            }
        }
    }
}

/// A script run in weakdb.
pub fn script(bytes: &[u8]) {
    let Some((dialects, text)) = dialects(bytes) else { return };
    let database = database();
    for dialect in dialects {
        let mut session = database.session(dialect, "fuzz").expect("SQLite starts");
        for outcome in session.script(text) {
            match outcome {
                Ok(outcome) => assert!(outcome.rows.len() <= 1000),
                Err(error) => assert!(!error.message.is_empty() && error.code.sqlstate() != "XX001"),
            }
        }
        _ = session.execute(text, &[Value::Int(1), Value::from("x")]);
        session.reset();
        // On a busy machine even this may take longer than statements may.
        match session.execute("SELECT 1", &[]) {
            Ok(found) => assert_eq!(found.rows, [[Value::Int(1)]]),
            Err(error) => assert_eq!(error.code, Code::TimeOver),
        }
    }
}
