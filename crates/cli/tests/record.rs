//! `anomalist record` in front of PostgreSQL's own clients.

#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

mod support;

use anomalist_databases::Database;
use anomalist_lab::server::{Engine, Server, ServerError, Setup, program};
use serde_json::Value;
use support::{Scratch, anomalist, shell};

/// A throw-away server; none where its programs are missing and may be.
fn server() -> Option<Server> {
    match Server::start(Engine::Postgres, &Setup::default()) {
        Ok(server) => Some(server),
        Err(missing @ ServerError::Missing { .. }) => {
            anomalist_testkit::skip::missing("servers", missing);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_lost_update_is_recorded_and_named() {
    let Some(server) = server() else { return };
    let psql = program(Engine::Postgres, "psql").unwrap();
    let (url, psql) = (server.url(0), psql.display().to_string());
    let mut session = server.target(0).connect().unwrap();
    session.run("CREATE TABLE stock (id int PRIMARY KEY, n int); INSERT INTO stock VALUES (1, 5)").unwrap();
    let scratch = Scratch::new("record");
    let (file, script) = (scratch.path("lost.jsonl"), scratch.path("checkout.sql"));
    // Both read before either writes.
    let checkout = "BEGIN; \nSELECT n FROM stock WHERE id = 1; \nSELECT pg_sleep(2); \nUPDATE stock SET n = 4 WHERE id = 1; \nCOMMIT;\n";
    std::fs::write(&script, checkout).unwrap();
    let both = format!("'{psql}' -q -f '{script}' & '{psql}' -q -f '{script}'; wait");
    let run = shell(&format!("\"$ANOMALIST\" record --json --to '{url}' -o '{file}' -- sh -c \"{both}\""));
    let run = run.expect(0);
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    let document: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!((&document["committed"], &document["others"]), (&2.into(), &0.into()), "{said}");
    assert_eq!(document["reads"]["initial"], 2, "{said}");
    let check = anomalist(&["check", &file, "--version-numbers", "--level", "snapshot-isolation"]);
    let check = check.expect(1);
    let said = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(said.contains("SELECT n FROM stock WHERE id = ?") && said.contains("ran"), "{said}");
    anomalist(&["check", &file, "--version-numbers", "--level", "read-committed"]).expect(0);
}

#[test]
fn a_command_that_fails_and_servers_that_do_not_do() {
    let Some(server) = server() else { return };
    let scratch = Scratch::new("record-fails");
    let file = scratch.path("empty.jsonl");
    anomalist(&["record", "-q", "--to", &server.url(0), "-o", &file, "--", "false"]).expect(1);
    // The recording is complete all the same: it is not called cut off, there is just nothing in it.
    let run = anomalist(&["check", &file]).expect(3);
    assert!(run.stderr().contains("no transaction"), "{}", run.stderr());
    anomalist(&["record", "--to", "postgres://postgres@127.0.0.1:1/x", "-o", &file]).expect(3);
    anomalist(&["record", "--to", "sqlite:x.db", "-o", &file, "--", "true"]).expect(3);
    anomalist(&["record", "--to", &server.url(0), "--keys", "64", "--", "true"]).expect(3);
}
