//! `isolde test` against throw-away servers: the known answers, the same under faults, and a wrong client.
//!
//! Without the servers' programs these tests say so and pass, except in CI.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "all of this is a test, helpers too")]

mod support;

use serde_json::Value;
use std::collections::BTreeMap;
use support::{Run, Scratch};

/// Runs against a throw-away server; none if it is not on this machine.
fn test(scratch: &Scratch, server: &str, args: &[&str]) -> Option<Run> {
    let runs = scratch.path("runs");
    let mut all = vec!["test", "--throwaway", server, "--json", "--quiet", "--runs", &runs];
    all.extend(args);
    let run = Run::new(&all, b"", &[]);
    let missing = run.stderr().contains("is not on this machine");
    if missing && std::env::var_os("CI").is_none() {
        eprintln!("skipped: {}", run.stderr().trim());
        return None;
    }
    Some(run)
}

/// The verdicts of a run by level.
fn verdicts(run: &Value) -> BTreeMap<&str, &str> {
    let levels = run["result"]["levels"].as_array().unwrap();
    levels.iter().map(|l| (l["level"].as_str().unwrap(), l["verdict"].as_str().unwrap())).collect()
}

fn kinds(run: &Value) -> Vec<&str> {
    run["result"]["anomalies"].as_array().unwrap().iter().map(|a| a["kind"].as_str().unwrap()).collect()
}

/// What must hold and what must be violated at an isolation level.
type Expected = (&'static str, &'static [&'static str], &'static [&'static str]);

fn compare(answer: &Value, expected: &[Expected]) {
    let runs = answer["runs"].as_array().unwrap();
    let names: Vec<&str> = runs.iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert_eq!(names, expected.iter().map(|e| e.0).collect::<Vec<_>>());
    for (run, (name, hold, broken)) in runs.iter().zip(expected) {
        let verdicts = verdicts(run);
        let folder = &run["folder"];
        for level in *hold {
            assert_eq!(verdicts[level], "holds", "{name}: {level} ({folder})");
        }
        for level in *broken {
            assert_eq!(verdicts[level], "violated", "{name}: {level} ({folder})");
        }
    }
}

#[test]
fn postgresql_gives_the_known_answers() {
    let scratch = Scratch::new("databases-postgres");
    let Some(run) = test(&scratch, "postgres", &["--matrix", "--txns", "2500"]) else { return };
    let answer = run.expect(0).json();
    compare(
        &answer,
        &[
            ("READ COMMITTED", &["read-committed"], &["cut-isolation", "read-atomic", "snapshot-isolation"]),
            ("REPEATABLE READ", &["strong-snapshot-isolation"], &["repeatable-read", "serializable"]),
            ("SERIALIZABLE", &["strict-serializable"], &[]),
        ],
    );
    let write_skew_only = |kind: &&str| kind.starts_with("g2-item") || *kind == "g-update";
    let found = kinds(&answer["runs"][1]);
    assert!(found.contains(&"g2-item") && found.iter().all(write_skew_only), "{found:?}");
}

#[test]
fn mariadb_gives_the_known_answers() {
    let scratch = Scratch::new("databases-mariadb");
    let Some(run) = test(&scratch, "mariadb", &["--matrix", "--txns", "2500"]) else { return };
    let answer = run.expect(0).json();
    compare(
        &answer,
        &[
            ("READ UNCOMMITTED", &["read-uncommitted"], &["adya-read-committed", "read-committed"]),
            ("READ COMMITTED", &["read-committed"], &["cut-isolation", "read-atomic"]),
            // After its own append a transaction sees what others appended meanwhile: not even cuts are safe.
            ("REPEATABLE READ", &["adya-read-committed"], &["snapshot-isolation", "serializable"]),
            (
                "REPEATABLE READ with innodb_snapshot_isolation",
                &["snapshot-isolation"],
                &["repeatable-read", "serializable"],
            ),
            ("SERIALIZABLE", &["strict-serializable"], &[]),
        ],
    );
    assert!(kinds(&answer["runs"][2]).contains(&"lost-update"), "{:?}", kinds(&answer["runs"][2]));
}

#[test]
fn under_faults_nothing_is_reported_that_is_not_so() {
    let scratch = Scratch::new("databases-faults");
    for (server, faults) in
        [("postgres", "kill,terminate,cut,lose-commits"), ("mariadb", "kill,terminate,cut")]
    {
        let args = [
            "--fault",
            faults,
            "--fault-every",
            "500ms",
            "--duration",
            "6s",
            "--isolation",
            "serializable",
            "--level",
            "strict-serializable",
        ];
        let Some(run) = test(&scratch, server, &args) else { continue };
        let run = &run.expect(0).json()["runs"][0];
        assert!(run["faults"].as_u64().unwrap() >= 3, "{run}");
        assert!(run["committed"].as_u64().unwrap() > 100, "{run}");
        assert!(run["causes"]["connection-lost"].as_u64().unwrap() > 0, "{run}");
        let history = std::fs::read_to_string(run["result"]["history"]["path"].as_str().unwrap()).unwrap();
        assert!(history.contains("\"session\":\"nemesis\"") && history.contains("\"fault\":\"cut\""));
    }
}

#[test]
fn a_client_that_takes_lost_commits_for_aborts_is_caught() {
    let scratch = Scratch::new("databases-client");
    let args = [
        "--bug",
        "lost-commit-is-abort",
        "--fault",
        "lose-commits",
        "--fault-every",
        "400ms",
        "--duration",
        "4s",
        "--level",
        "read-committed",
    ];
    let Some(run) = test(&scratch, "postgres", &args) else { return };
    let answer = run.expect(1).json();
    let anomalies = answer["runs"][0]["result"]["anomalies"].as_array().unwrap();
    assert!(anomalies.iter().any(|a| a["kind"] == "aborted-read"), "{anomalies:?}");
}

#[test]
fn postgresql_is_checked_by_its_own_snapshots_while_it_runs() {
    let scratch = Scratch::new("databases-online");
    let args = [
        "--online",
        "--isolation",
        "repeatable read",
        "--fault",
        "lose-commits,terminate",
        "--fault-every",
        "500ms",
        "--duration",
        "4s",
        "--level",
        "snapshot-isolation",
    ];
    let Some(run) = test(&scratch, "postgres", &args) else { return };
    let run = &run.expect(0).json()["runs"][0];
    let online = &run["online"];
    let (checked, committed) = (online["checked"].as_u64().unwrap(), run["committed"].as_u64().unwrap());
    assert_eq!(checked, committed + online["learnt"].as_u64().unwrap(), "{online}");
    assert_eq!(
        (&online["missing"], online["violations"].as_object().unwrap().len()),
        (&0.into(), 0),
        "{online}"
    );
    // The history with timestamps says the same offline.
    let stamped = format!("{}/stamped.jsonl", run["folder"].as_str().unwrap());
    support::isolde(&["check", "--by", "timestamps", "--level", "snapshot-isolation", &stamped]).expect(0);
}
