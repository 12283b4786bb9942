//! `anomalist test` against what needs no server: SQLite, simulated stores, a program. Servers are in
//! `databases.rs`.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

mod support;

use serde_json::Value;
use support::{Run, Scratch, anomalist};

/// Runs in a folder of its own.
fn test(scratch: &Scratch, args: &[&str]) -> Run {
    let runs = scratch.path("runs");
    let mut all = vec!["test", "--json", "--quiet", "--runs", &runs];
    all.extend(args);
    Run::new(&all, b"", &[("DATABASE_URL", "")])
}

fn found(run: &Value) -> usize {
    run["result"]["anomalies"].as_array().unwrap().len()
}

fn verdict<'a>(run: &'a Value, level: &str) -> &'a str {
    let levels = run["result"]["levels"].as_array().unwrap();
    levels.iter().find(|l| l["level"] == level).unwrap()["verdict"].as_str().unwrap()
}

#[test]
fn without_a_url_sqlite_is_clean_and_the_simulated_store_has_write_skew() {
    let scratch = Scratch::new("drive-showcase");
    let runs = scratch.path("runs");
    let text = Run::new(&["test", "--runs", &runs], b"", &[("DATABASE_URL", "")]).expect(0).text();
    // Where lines break depends on the names of transactions, which differ from run to run.
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("SQLite") && words.contains("write skew"), "{text}");
    assert!(words.contains("a contradiction") && words.contains("next: anomalist test "), "{text}");
    // Whatever was kept can be checked again, and says the same.
    let folders: Vec<_> = std::fs::read_dir(&runs).unwrap().map(|e| e.unwrap().path()).collect();
    for folder in folders.iter().filter(|f| !f.ends_with("latest")) {
        let result: Value =
            serde_json::from_str(&std::fs::read_to_string(folder.join("result.json")).unwrap()).unwrap();
        let history = folder.join("history.jsonl");
        let again = anomalist(&["check", "--json", history.to_str().unwrap()]).expect(0).json();
        assert_eq!(again["levels"], result["result"]["levels"], "{}", folder.display());
        let simulated = folder.display().to_string().contains("simulated");
        assert_eq!(verdict(&result, "serializable"), if simulated { "violated" } else { "holds" });
        assert_eq!(verdict(&result, "strong-snapshot-isolation"), "holds");
        assert!(folder.join("report.txt").is_file() && folder.join("log.txt").is_file());
    }
    assert_eq!(folders.len(), 3, "two runs and the link to the latest");
}

#[test]
fn simulated_stores_keep_their_level_and_break_the_next() {
    let scratch = Scratch::new("drive-simulated");
    let answer = test(&scratch, &["simulated:", "--matrix", "--txns", "3000"]).expect(0).json();
    let runs = answer["runs"].as_array().unwrap();
    let expected = [
        ("read-uncommitted", "read-uncommitted", "adya-read-committed"),
        ("read-committed", "read-committed", "read-atomic"),
        ("read-atomic", "read-atomic", "causal"),
        ("causal", "causal", "snapshot-isolation"),
        ("snapshot-isolation", "strong-snapshot-isolation", "serializable"),
        ("serializable", "strict-serializable", ""),
    ];
    assert_eq!(runs.len(), expected.len());
    for (run, (name, kept, broken)) in runs.iter().zip(expected) {
        assert_eq!(run["name"], name);
        assert_eq!(verdict(run, kept), "holds", "{name}");
        if !broken.is_empty() {
            assert_eq!(verdict(run, broken), "violated", "{name}");
        }
    }
}

#[test]
fn every_workload_runs_and_a_serializable_store_breaks_none() {
    let scratch = Scratch::new("drive-workloads");
    let all = "register,list-append,set,counter,bank,long-fork,predicate,smallbank,tpcc,voter,twitter,rubis,courseware";
    let args = ["simulated:serializable", "--workload", all, "--txns", "600", "--timeout", "20s"];
    let answer = test(&scratch, &args).expect(0).json();
    let runs = answer["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 13);
    for run in runs {
        assert_ne!(verdict(run, "strict-serializable"), "violated", "{}", run["workload"]);
        assert_eq!(found(run), 0, "{}", run["workload"]);
        assert!(run["committed"].as_u64().unwrap() > 50, "{run}");
    }
}

#[test]
fn sqlite_is_serializable_however_lists_are_kept_and_rows_are_found() {
    let scratch = Scratch::new("drive-sqlite");
    for (lists, access) in [("text", "index"), ("native", "primary"), ("read-write", "scan")] {
        let url = format!("sqlite:{}", scratch.path(&format!("{lists}.db")));
        let args = [&url, "--lists", lists, "--access", access, "--txns", "400", "--level", "serializable"];
        let answer = test(&scratch, &args).expect(0).json();
        assert_eq!(verdict(&answer["runs"][0], "serializable"), "holds", "{lists} {access}");
    }
    let url = format!("sqlite:{}", scratch.path("w.db"));
    let all = "register,set,counter,bank,long-fork,predicate,smallbank";
    let answer = test(&scratch, &[&url, "--workload", all, "--txns", "300"]).expect(0).json();
    for run in answer["runs"].as_array().unwrap() {
        assert_eq!(found(run), 0, "{}", run["workload"]);
    }
}

#[test]
fn a_required_level_decides_the_exit_status() {
    // Known before anything runs, not when all is done.
    let nowhere = "/no/such/folder/report.html";
    for command in ["test", "sql"] {
        let run =
            Run::new(&[command, "--duration", "1000h", "--report", nowhere], b"", &[("DATABASE_URL", "")]);
        assert!(run.expect(3).stderr().contains(nowhere));
    }
    let scratch = Scratch::new("drive-exit");
    let url = "simulated:snapshot-isolation";
    test(&scratch, &[url, "--level", "serializable"]).expect(1);
    test(&scratch, &[url, "--level", "strong-snapshot-isolation", "--txns", "1000"]).expect(0);
    let wrong = [
        (&["redis://h"][..], "simulated:LEVEL"),
        (&["simulated:good"], "serializable"),
        (&["--workload", "chess"], "list-append"),
        (&["simulated:serializable", "--fault", "kill"], "throw-away server"),
        (&["simulated:serializable", "--workload", "bank", "--keys", "1"], "number of keys"),
    ];
    for (args, message) in wrong {
        let said = test(&scratch, args).expect(3).stderr();
        assert!(said.contains(message), "{args:?}: {said}");
    }
}

#[test]
fn databases_with_a_known_bug_are_caught() {
    let scratch = Scratch::new("drive-bugs");
    for (bug, sign) in [
        ("dirty-read", "aborted-read"),
        ("lost-update", "g-single-item"),
        ("non-atomic-commit", "g-single-item"),
        ("stale-failover", "incompatible-order"),
    ] {
        let url = format!("sqlite:{}", scratch.path(&format!("{bug}.db")));
        let args = [&url, "--bug", bug, "--txns", "2000", "--level", "serializable"];
        let answer = test(&scratch, &args).expect(1).json();
        let found = answer["runs"][0]["result"]["anomalies"].as_array().unwrap();
        assert!(found.iter().any(|a| a["kind"] == sign), "{bug}: {found:?}");
    }
}

#[test]
fn a_program_is_a_database() {
    let scratch = Scratch::new("drive-exec");
    let client = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/clients/sqlite_client.py");
    let url = format!("exec:python3 {client} {}", scratch.path("exec.db"));
    let args = [&url, "--sessions", "4", "--txns", "300", "--level", "strict-serializable"];
    let answer = test(&scratch, &args).expect(0).json();
    assert!(answer["runs"][0]["committed"].as_u64().unwrap() > 200);
    // One that ends in the middle: its transactions are of unknown outcome, and another takes its place.
    let dying = "exec:while read line; do case $line in *prepare*) echo '{}';; *) exit 1;; esac; done";
    let said = test(&scratch, &[dying, "--txns", "5", "--sessions", "2"]).expect(3).stderr();
    assert!(said.contains("no transaction committed"), "{said}");
}

#[test]
fn other_formats_are_written_too() {
    let scratch = Scratch::new("drive-formats");
    let args = ["simulated:snapshot-isolation", "--txns", "500", "--to", "elle-edn"];
    let answer = test(&scratch, &args).expect(0).json();
    let folder = answer["runs"][0]["folder"].as_str().unwrap();
    let edn = format!("{folder}/history.elle-edn.edn");
    let again = anomalist(&["check", "--json", &edn]).expect(0).json();
    assert_eq!(again["history"]["transactions"], 500);
}

#[test]
fn the_mock_database_shows_its_level_and_no_worse() {
    let scratch = Scratch::new("drive-weakdb");
    for (level, kept, broken) in [
        ("causal", "causal", "snapshot-isolation"),
        ("read-atomic", "read-atomic", "causal"),
        ("snapshot-isolation", "strong-session-snapshot-isolation", "serializable"),
        ("serializable", "strong-session-serializable", ""),
    ] {
        let url = format!("weakdb:{level}");
        let args = [&url, "--workload", "register", "--txns", "600", "--sessions", "5"];
        let answer = test(&scratch, &args).expect(0).json();
        assert_eq!(verdict(&answer["runs"][0], kept), "holds", "{level}");
        if !broken.is_empty() {
            assert_eq!(verdict(&answer["runs"][0], broken), "violated", "{level}");
        }
    }
}

/// What would be ignored, or cannot be, is refused by name, before any folder is made.
#[test]
fn flags_that_mean_nothing_are_refused() {
    let scratch = Scratch::new("drive-refused");
    let file = format!("sqlite:{}", scratch.path("a.db"));
    let cases: [(&[&str], &str); 13] = [
        (&["simulated:", "--bug", "dirty-read"], "--bug"),
        (&["exec:true", "--bug", "dirty-read"], "--bug"),
        (&["weakdb:causal", "--bug", "dirty-read"], "--bug"),
        (&["weakdb:causal", "--isolation", "nonsense"], "--isolation"),
        (&["weakdb:causal", "--matrix"], "--matrix"),
        (&["weakdb:causal", "--workload", "list-append"], "lists"),
        (&["simulated:", "--online"], "--online"),
        (&[&file, "--online"], "--online"),
        (&[&file, "--fault", "all"], "--fault"),
        (&["--fault", "all"], "--fault"),
        (&[&file, "--bug", "stale-failover", "--txns", "300"], "400 commits"),
        (&["simulated:", "--txns", "0"], "--txns"),
        (&["simulated:", "--duration", "0s"], "--duration"),
    ];
    for (args, named) in cases {
        let run = test(&scratch, args).expect(3);
        assert!(run.stderr().contains(named), "{args:?}: {}", run.stderr());
    }
    assert!(!std::path::Path::new(&scratch.path("runs")).exists(), "nothing was run");
}

#[test]
fn no_password_is_shown() {
    let scratch = Scratch::new("drive-secrets");
    for args in [
        &["x", "postgres://u:SECRET@h/db"][..],
        &["--throwaway", "postgres://u:SECRET@h/db"],
        &["postgres://u:12?SECRET=x@h/db"],
        &["postgres://u:12/SECRET@h/db"],
        &["exec:PGPASSWORD=SECRET false"],
        &["x", "exec:PGPASSWORD=SECRET false"],
    ] {
        let run = test(&scratch, args).expect(3);
        assert!(!run.stderr().contains("SECRET") && !run.text().contains("SECRET"), "{}", run.stderr());
    }
}

/// A run's folder is as good as its history, and its result says how it came about.
#[test]
fn a_folder_can_be_checked_and_repeated() {
    let scratch = Scratch::new("drive-folder");
    for workload in ["list-append", "bank"] {
        let args = ["simulated:", "--txns", "200", "--workload", workload, "--keys", "7", "--seed", "3"];
        let run = test(&scratch, &args).expect(0).json()["runs"][0].clone();
        assert_eq!((&run["settings"]["keys"], &run["settings"]["txns"]), (&7.into(), &200.into()));
        assert!(run["started"].as_str().unwrap().ends_with('Z') && run["says_little"] == false);
        let again = anomalist(&["check", "--json", &scratch.path("runs/latest")]).expect(0).json();
        assert_eq!(again["levels"], run["result"]["levels"]);
    }
    let weak = test(&scratch, &["weakdb:causal", "--txns", "200"]).expect(0).json();
    assert_eq!(weak["runs"][0]["workload"], "register");
}
