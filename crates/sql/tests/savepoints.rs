//! What a rollback to a savepoint takes back: the evidence for the rule of `mapping.rs`.
//!
//! A transaction reads row 1 after a savepoint, rolls back to it, and another one updates the row. If the
//! database kept what the read locked (or its snapshot), the first transaction's next read of the row still
//! agrees with its first one.

#![allow(clippy::unwrap_used)]

mod support;

use anomalist_check::Budget;
use anomalist_databases::Database;
use anomalist_lab::server::Engine;
use anomalist_level::Verdict;
use anomalist_sql::Flavour;
use anomalist_sql::judge::judge;
use anomalist_sql::namespace::Namespace;
use anomalist_sql::predicate::Decider;
use anomalist_sql::replay::{Replayed, replay};
use anomalist_sql::script::Script;
use anomalist_sql::vendor::promise;

fn run(database: &dyn Database, flavour: Flavour, first: &str) -> (Replayed, Verdict) {
    let text = format!(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT);
         INSERT INTO t (id, v) VALUES (1, 10), (2, 20);
         BEGIN; -- T1
         {first} -- T1
         SAVEPOINT s1; -- T1
         SELECT v FROM t WHERE id = 1; -- T1
         ROLLBACK TO SAVEPOINT s1; -- T1
         UPDATE t SET v = 11 WHERE id = 1; -- T2
         SELECT v FROM t WHERE id = 1; -- T1
         COMMIT; -- T1
         SELECT id, v FROM t; -- T2"
    );
    let product = database.product().unwrap();
    let level = product.isolation("serializable").unwrap();
    let script = Script::parse(flavour, &text).unwrap();
    let namespace = Namespace::new(flavour, "anomalist_savepoints");
    let replayed = replay(database, &level, &namespace, &script, &|| false).unwrap();
    let promise = promise(&product.name, level.name());
    let definitions = script.statements().collect();
    let decider = Decider { database, namespace: &namespace, settings: &[], definitions };
    let run = (&replayed.run, &decider.decide(&replayed.run));
    let verdict = judge(flavour, run, &promise, &[], &Budget::unlimited()).unwrap().verdict;
    (replayed, verdict)
}

/// What the query with this condition returned, in order of the script, and whether the update had to wait.
fn seen(replayed: &Replayed, script_lines: [usize; 3]) -> (Vec<String>, bool) {
    let event = |line: usize| replayed.events.iter().find(|e| e.line == line).unwrap();
    let [before, update, after] = script_lines;
    let rows = |line: usize| event(line).rows.iter().flatten().map(ToString::to_string).collect::<String>();
    (vec![rows(before), rows(after)], event(update).waited)
}

#[test]
fn innodb_begins_anew_after_a_savepoint_that_is_older_than_it() {
    let Some(server) = support::server(Engine::Mariadb) else { return };
    let target = server.target(0);
    // Against the manual, the lock is gone: a read at SERIALIZABLE that cannot be repeated. It is left out,
    // so the rest holds.
    let (alone, verdict) = run(target, Flavour::MariaDb, "");
    assert_eq!(seen(&alone, [2, 4, 5]), (vec!["10".to_owned(), "11".to_owned()], false));
    assert_eq!(verdict, Verdict::Holds);
    assert!(alone.run.transactions.iter().flat_map(|t| &t.steps).any(|s| s.forgotten));
    // With any access before the savepoint the lock stays, and the read counts.
    let (after, verdict) = run(target, Flavour::MariaDb, "SELECT v FROM t WHERE id = 2;");
    assert_eq!(seen(&after, [3, 5, 6]), (vec!["10".to_owned(), "10".to_owned()], true));
    assert_eq!(verdict, Verdict::Holds);
    assert!(!after.run.transactions.iter().flat_map(|t| &t.steps).any(|s| s.forgotten));
}

#[test]
fn postgresql_keeps_what_was_read() {
    let Some(server) = support::server(Engine::Postgres) else { return };
    for (first, lines) in [("", [2, 4, 5]), ("SELECT v FROM t WHERE id = 2;", [3, 5, 6])] {
        let (replayed, verdict) = run(server.target(0), Flavour::PostgreSql, first);
        assert_eq!(seen(&replayed, lines), (vec!["10".to_owned(), "10".to_owned()], false));
        assert_eq!(verdict, Verdict::Holds);
        assert!(!replayed.run.transactions.iter().flat_map(|t| &t.steps).any(|s| s.forgotten));
    }
}
