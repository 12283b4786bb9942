//! `anomalist ui` in a browser: `pages/ui.py` does what a person does, by mouse and by keyboard, and
//! axe-core looks at every page, in both themes and at two widths.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

mod support;

use anomalist_testkit::skip;
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use support::{Run, Scratch};

const AXE: &str = "node_modules/axe-core/axe.min.js";

/// The browser; none, with a message, where it is missing.
fn browser() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let named = std::env::var_os("ANOMALIST_CHROMIUM").map(PathBuf::from);
    let known = ["chromium", "chromium-headless-shell", "chromium-browser", "google-chrome"];
    let places = std::env::split_paths(&folders).flat_map(|folder| known.map(|name| folder.join(name)));
    let found = named.into_iter().chain(places).find(|program| program.is_file());
    if found.is_none() {
        skip::missing("chromium", "not on this machine");
    }
    found
}

/// The folder with Playwright and axe-core; none, with a message, where it is missing.
fn playwright() -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_BIN_EXE_anomalist")).ancestors().nth(2).unwrap().join("pages");
    let folder = std::env::var_os("ANOMALIST_PLAYWRIGHT").map_or(built, PathBuf::from);
    if !folder.join("bin/python").exists() || !folder.join(AXE).exists() {
        skip::missing("playwright", format!("not in {}", folder.display()));
        return None;
    }
    Some(folder)
}

/// The application, ended with the test.
struct Ui(Child);

impl Drop for Ui {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Runs and histories to look at.
fn fill(runs: &str) {
    let make = |arguments: &[&str]| _ = Run::new(arguments, b"", &[("DATABASE_URL", "")]).expect(0);
    let test = ["--seed", "1", "--json", "--runs", runs];
    make(&[&["test", "simulated:snapshot-isolation", "--txns", "2000"], &test[..]].concat());
    make(&[&["test", "simulated:serializable", "--txns", "1000"], &test[..]].concat());
    make(&[&["test", "--txns", "600"], &test[..]].concat());
    let stream = format!("{runs}/stream.jsonl");
    let shape = ["--kind", "timestamped", "--sessions", "4", "--txns-per-session", "50", "--arrival", "none"];
    make(&[&["generate", "--inject", "EXT", "-o", &stream], &shape[..]].concat());
    make(&["generate", "--txns-per-session", "20", "-o", &format!("{runs}/plain.txt")]);
    // What another program wrote must not spoil the list.
    let folder = format!("{runs}/hostile");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(format!("{folder}/history.jsonl"), "{\"session\":1,\"ops\":[[\"r\",\"x\",null]]}\n")
        .unwrap();
    let name = "</script><img src=x onerror=alert(1)>";
    let result = json!({"target": name, "workload": name, "started": [1], "log": {}, "claim": {"level": name, "verdict": name},
        "result": {"levels": [{"level": name, "verdict": "violated"}], "anomalies": [{"kind": name, "count": 1}]}});
    std::fs::write(format!("{folder}/result.json"), result.to_string()).unwrap();
}

#[test]
fn the_application_is_used() {
    let (Some(browser), Some(tools)) = (browser(), playwright()) else { return };
    let scratch = Scratch::new("ui-pages");
    let runs = scratch.path("runs");
    fill(&runs);
    let mut child = Command::new(env!("CARGO_BIN_EXE_anomalist"))
        .args(["ui", "--folder", &runs, "--allow-command", "true"])
        .env_remove("DATABASE_URL")
        .env("TMPDIR", scratch.path(""))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = child.stdout.take().unwrap();
    let _ui = Ui(child);
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("anomalist ui: ").unwrap_or_else(|| panic!("{line}"));
    // Kept for people to look at.
    let shots = tools.join("screenshots/ui");
    let output = Command::new(tools.join("bin/python"))
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pages/ui.py"))
        .args([address, &runs])
        .args([browser, tools.join(AXE), shots])
        .output()
        .unwrap();
    let (done, failed) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{done}\n{failed}");
    assert!(done.contains("pictures"), "every page was looked at: {done}");
}
