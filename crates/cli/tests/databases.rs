//! `anomalist test` against throw-away servers: the known answers, the same under faults, and a wrong
//! client.
//!
//! Without the servers' programs they fail, unless `ANOMALIST_SKIP` names `servers`.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "all of this is a test, helpers too")]

mod support;

use anomalist_lab::server::{Engine, Server, ServerError, Setup};
use anomalist_testkit::skip;
use serde_json::Value;
use std::collections::BTreeMap;
use support::{Run, Scratch};

/// Runs against a throw-away server; none if it is not on this machine and may be missing.
fn test(scratch: &Scratch, server: &str, args: &[&str]) -> Option<Run> {
    let runs = scratch.path("runs");
    let mut all = vec!["test", "--throwaway", server, "--json", "--quiet", "--runs", &runs];
    all.extend(args);
    let run = Run::new(&all, b"", &[]);
    if run.stderr().contains("is not on this machine") {
        skip::missing("servers", run.stderr().trim());
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

/// PostgreSQL's SERIALIZABLE lets a G2 through once in a few hundred thousand transactions
/// (docs/databases.md). A run that shows nothing else is made again.
fn is_postgresql_race(server: &str, run: &Value) -> bool {
    let kinds = kinds(run);
    let race = server == "postgres"
        && run["name"].as_str().is_some_and(|name| name.ends_with("SERIALIZABLE"))
        && !kinds.is_empty()
        && kinds.iter().all(|kind| kind.starts_with("g2-item") || *kind == "g-update");
    if race {
        eprintln!("PostgreSQL's race, in {}", run["folder"]);
    }
    race
}

/// What must hold and what must be violated at an isolation level.
type Expected = (&'static str, &'static [&'static str], &'static [&'static str]);

/// Compares with what is known. What holds must hold at once; what is violated is only shown by sessions
/// that meet, so a machine on which they do not is given more time.
fn known_answers(name: &str, server: &str, expected: &[Expected]) -> Option<Value> {
    let scratch = Scratch::new(name);
    for (txns, last) in [("2000", false), ("10000", false), ("50000", true)] {
        let answer = test(&scratch, server, &["--matrix", "--txns", txns])?.expect(0).json();
        let runs = answer["runs"].as_array().unwrap();
        let names: Vec<&str> = runs.iter().map(|r| r["name"].as_str().unwrap()).collect();
        assert_eq!(names, expected.iter().map(|e| e.0).collect::<Vec<_>>());
        let mut all_shown = last || !runs.iter().any(|run| is_postgresql_race(server, run));
        if !all_shown {
            continue;
        }
        for (run, (name, hold, broken)) in runs.iter().zip(expected) {
            let verdicts = verdicts(run);
            for level in *hold {
                assert_eq!(verdicts[level], "holds", "{name}: {level}\n{}", run["result"]);
            }
            for level in *broken {
                all_shown &= verdicts[level] == "violated";
                assert!(!last || all_shown, "{name}: {level} is not violated");
            }
        }
        if all_shown {
            return Some(answer);
        }
    }
    None
}

#[test]
fn postgresql_gives_the_known_answers() {
    let expected: &[Expected] = &[
        ("READ COMMITTED", &["read-committed"], &["cut-isolation", "read-atomic", "snapshot-isolation"]),
        ("REPEATABLE READ", &["strong-snapshot-isolation"], &["repeatable-read", "serializable"]),
        ("SERIALIZABLE", &["strict-serializable"], &[]),
    ];
    let Some(answer) = known_answers("databases-postgres", "postgres", expected) else { return };
    let write_skew_only = |kind: &&str| kind.starts_with("g2-item") || *kind == "g-update";
    let found = kinds(&answer["runs"][1]);
    assert!(found.contains(&"g2-item") && found.iter().all(write_skew_only), "{found:?}");
}

#[test]
fn mariadb_gives_the_known_answers() {
    let expected: &[Expected] = &[
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
    ];
    let Some(answer) = known_answers("databases-mariadb", "mariadb", expected) else { return };
    assert!(kinds(&answer["runs"][2]).contains(&"lost-update"), "{:?}", kinds(&answer["runs"][2]));
}

#[test]
fn every_workload_runs_on_servers_too() {
    let all = "register,list-append,set,counter,bank,long-fork,predicate,smallbank,tpcc,voter,twitter,rubis,courseware";
    for server in ["postgres", "mariadb"] {
        let scratch = Scratch::new(&format!("databases-workloads-{server}"));
        let args = ["--workload", all, "--txns", "150", "--timeout", "20s"];
        let Some(run) = test(&scratch, server, &args) else { continue };
        let answer = run.expect(0).json();
        let runs = answer["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 13);
        for run in runs {
            assert_eq!(kinds(run), [""; 0], "{server}, {}", run["workload"]);
            assert!(run["committed"].as_u64().unwrap() > 0, "{run}");
            assert_eq!(run["causes"]["unsupported"], Value::Null, "{run}");
        }
    }
}

/// Runs with faults for a while, and for longer if not enough went wrong: a server may take its time to
/// come back.
fn with_faults(scratch: &Scratch, server: &str, args: &[&str], enough: impl Fn(&Run) -> bool) -> Option<Run> {
    for duration in ["4s", "15s"] {
        let run = test(scratch, server, &[args, &["--duration", duration]].concat())?;
        if enough(&run) {
            return Some(run);
        }
    }
    test(scratch, server, &[args, &["--duration", "60s"]].concat())
}

fn history(run: &Value) -> String {
    std::fs::read_to_string(run["result"]["history"]["path"].as_str().unwrap()).unwrap()
}

#[test]
fn under_faults_nothing_is_reported_that_is_not_so() {
    let scratch = Scratch::new("databases-faults");
    let level = ["--isolation", "serializable", "--level", "strict-serializable"];
    for (server, faults) in
        [("postgres", "kill,terminate,cut,lose-commits"), ("mariadb", "kill,terminate,cut")]
    {
        let args = [&["--fault", faults, "--fault-every", "400ms"], &level[..]].concat();
        let enough = |run: &Run| {
            let run = &run.json()["runs"][0];
            let lost = run["causes"]["connection-lost"].as_u64().is_some();
            lost && faults.split(',').all(|fault| history(run).contains(&format!("\"fault\":\"{fault}\"")))
        };
        let Some(mut run) = with_faults(&scratch, server, &args, enough) else { continue };
        if is_postgresql_race(server, &run.json()["runs"][0]) {
            run = with_faults(&scratch, server, &args, enough).unwrap();
        }
        assert!(enough(&run), "{}", run.json());
        let run = &run.expect(0).json()["runs"][0];
        assert!(history(run).contains("\"session\":\"nemesis\""));
        assert!(run["faults"].as_u64().unwrap() >= 3 && run["committed"].as_u64().unwrap() > 20, "{run}");
    }
}

#[test]
fn a_client_that_takes_lost_commits_for_aborts_is_caught() {
    let scratch = Scratch::new("databases-client");
    let args = ["--bug", "lost-commit-is-abort", "--fault", "lose-commits", "--fault-every", "400ms"];
    let args = [&args[..], &["--level", "read-committed"]].concat();
    let caught = |run: &Run| run.ended_with(1);
    let Some(run) = with_faults(&scratch, "postgres", &args, caught) else { return };
    let answer = run.expect(1).json();
    let anomalies = answer["runs"][0]["result"]["anomalies"].as_array().unwrap();
    assert!(anomalies.iter().any(|a| a["kind"] == "aborted-read"), "{anomalies:?}");
}

/// The server's own snapshots say what values say, online and offline.
fn agrees_online(run: &Run) {
    let answer = run.json();
    let run = &answer["runs"][0];
    let online = &run["online"];
    let (checked, committed) = (online["checked"].as_u64().unwrap(), run["committed"].as_u64().unwrap());
    assert_eq!(checked, committed + online["learnt"].as_u64().unwrap(), "{online}");
    assert_eq!((&online["missing"], &online["unclaimed"]), (&0.into(), &0.into()), "{online}");
    assert_eq!(online["violations"].as_object().unwrap().len(), 0, "{online}");
    let stamped = format!("{}/stamped.jsonl", run["folder"].as_str().unwrap());
    support::anomalist(&["check", "--by", "timestamps", "--level", "snapshot-isolation", &stamped]).expect(0);
}

#[test]
fn mariadb_is_checked_by_its_own_snapshots_while_it_runs() {
    let scratch = Scratch::new("databases-online-mariadb");
    let level = "repeatable read with innodb_snapshot_isolation";
    let args = ["--online", "--isolation", level, "--level", "snapshot-isolation", "--txns", "3000"];
    let Some(run) = test(&scratch, "mariadb", &args) else { return };
    agrees_online(&run.expect(0));
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
    agrees_online(&run.expect(0));
}

/// A killed server gives transaction ids again that were not on disk, and its log is read in pieces:
/// neither is a violation.
#[test]
fn restarts_are_no_violation_by_timestamps() {
    let scratch = Scratch::new("databases-online-kill");
    let faults = ["--fault", "kill,restart", "--fault-every", "300ms", "--duration", "6s"];
    for (database, level) in
        [("postgres", "repeatable read"), ("mariadb", "repeatable read with innodb_snapshot_isolation")]
    {
        let online = ["--online", "--isolation", level, "--level", "snapshot-isolation"];
        let Some(run) = test(&scratch, database, &[&online[..], &faults].concat()) else { return };
        let answer = run.expect(0).json();
        let online = &answer["runs"][0]["online"];
        assert!(online["violations"].as_object().unwrap().is_empty(), "{database}: {online}");
        assert_eq!(online["missing"], 0, "{database}");
    }
}

/// A password is used, and never written: not in answers, errors, or files.
#[test]
fn passwords_are_not_written() {
    let server = match Server::start(Engine::Postgres, &Setup::default()) {
        Ok(server) => server,
        Err(missing @ ServerError::Missing { .. }) => return skip::missing("servers", missing),
        Err(error) => panic!("{error}"),
    };
    let secret = server.password(0);
    let (host, port) = server.target(0).address().unwrap();
    let scratch = Scratch::new("databases-secret");
    let (runs, page) = (scratch.path("runs"), scratch.path("page.html"));
    let good = format!("postgres://postgres:{secret}@{host}:{port}/postgres");
    let urls = [
        (good.clone(), 0),
        (format!("postgres://{host}:{port}/postgres?user=postgres&password={secret}"), 0),
        (format!("{good}?sslmode=require"), 3),
        (format!("{good}?password={secret}&nonsense=1"), 3),
        (format!("postgres://postgres:{secret}@{host}:1/postgres"), 3),
        (format!("mysql://root:{secret}@{host}:1/x"), 3),
        (format!("mysql://root:{secret}%4@{host}/x"), 3),
    ];
    for (url, status) in urls {
        let args = ["test", &url, "--txns", "100", "--runs", &runs, "--report", &page];
        for more in [&[][..], &["--json"]] {
            let run = Run::new(&[&args[..], more].concat(), b"", &[]).expect(status);
            assert!(!run.text().contains(secret) && !run.stderr().contains(secret), "{}", run.stderr());
        }
    }
    let mut files = 0;
    let mut folders = vec![std::path::PathBuf::from(scratch.path(""))];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else if let Ok(bytes) = std::fs::read(entry.path()) {
                files += 1;
                let text = String::from_utf8_lossy(&bytes);
                assert!(!text.contains(secret), "{}", entry.path().display());
            }
        }
    }
    assert!(files >= 4 * 5, "history, result, two reports and a log of each run: {files}");
}
