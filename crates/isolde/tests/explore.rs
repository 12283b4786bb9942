//! `isolde explore`: a small program in Python (its standard library, over HTTP) that loses an update.

#![cfg(feature = "weakdb")]
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use serde_json::Value;
use std::process::{Command, Output};

/// Two clients add one to a counter and the sum is looked at. With `fixed`, each has a counter of its own.
const PROGRAM: &str = r#"
import json, os, sys, urllib.request

def post(path, body):
    url = os.environ["ISOLDE_HTTP_URL"] + path
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request))

fixed = sys.argv[1] == "fixed"
for client in ["a", "b"]:
    key = "n/" + client if fixed else "n"
    session = post("/session", {})["session"]
    def run(*operations):
        return post("/kv", {"session": session, "operations": list(operations)})["results"]
    run(["begin"])
    [n] = run(["read", key])
    run(["write", key, (n or 0) + 1])
    run(["commit"])
# Asked in SQL nobody would see keys, so the last client looks as it writes: what it wrote is the sum.
total = 2 if fixed else (n or 0) + 1
print("total", total)
sys.exit(0 if total == 2 else 1)
"#;

fn explore(arguments: &[&str], variant: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_isolde"))
        .args(["explore", "--quiet"])
        .args(arguments)
        .args(["--", "python3", "-c", PROGRAM, variant])
        .output()
        .unwrap()
}

fn has_python() -> bool {
    let there = Command::new("python3").arg("--version").output().is_ok();
    assert!(there || std::env::var_os("CI").is_none(), "python3 is missing");
    if !there {
        eprintln!("skipped: python3 is missing");
    }
    there
}

#[test]
fn finds_repeats_and_explains_a_lost_update() {
    if !has_python() {
        return;
    }
    let output = explore(&["--level", "causal", "--runs", "12", "--json"], "broken");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let failure = &found["failures"][0];
    assert!(failure["message"].as_str().unwrap().contains("total 1"), "{found:#}");
    let why = &found["explanation"];
    assert_eq!(why["reproduced"], true, "{found:#}");
    assert_eq!(why["stale_reads"].as_array().unwrap().len(), 1, "{found:#}");
    assert_eq!(why["stale_reads"][0]["newest_value"], "1");
    assert!(why["anomalies"].as_array().unwrap().iter().any(|a| a == "lost-update"), "{found:#}");

    let seed = failure["seed"].to_string();
    let again = explore(&["--seed", &seed, "--runs", "1", "--no-explain"], "broken");
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    assert!(String::from_utf8_lossy(&again.stdout).contains("| total 1"), "{again:?}");
}

#[test]
fn passes_after_the_fix_and_when_serializable() {
    if !has_python() {
        return;
    }
    let fixed = explore(&["--runs", "5", "--coverage"], "fixed");
    assert_eq!(fixed.status.code(), Some(0), "{fixed:?}");
    assert!(String::from_utf8_lossy(&fixed.stdout).starts_with("No run of 5 failed at causal."), "{fixed:?}");
    let serial = explore(&["--level", "serializable", "--runs", "5"], "broken");
    assert_eq!(serial.status.code(), Some(0), "{serial:?}");
}

#[test]
fn tries_everything() {
    if !has_python() {
        return;
    }
    let output = explore(&["--systematic", "--runs", "20", "--json", "--no-explain"], "broken");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    // The second client reads the initial value or the first one's.
    assert_eq!((&found["complete"], &found["runs"]), (&true.into(), &2.into()), "{found:#}");
    assert_eq!(found["failures"].as_array().unwrap().len(), 1);
}

#[test]
fn a_command_that_cannot_be_started_is_bad_input() {
    let output = Command::new(env!("CARGO_BIN_EXE_isolde"))
        .args(["explore", "--", "/no/such/program"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot start /no/such/program"));
}
