//! Reports as a browser draws them. The pages of `sql` are laid out by headless Chromium, wide and as narrow
//! as a telephone, and a test script in the page around them measures what there is to see. The explorer is
//! used as a reader uses it, by Playwright: `pages/explorer.py`.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

mod support;

use anomalist_testkit::skip;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::{Run, Scratch};

/// Both widths of a page, in the order of the page around it.
const WIDTHS: [u32; 2] = [1200, 360];

/// The browser; none, with a message, where it is missing and this is not CI.
fn browser() -> Option<String> {
    let named = std::env::var("ANOMALIST_CHROMIUM").ok();
    let known = ["chromium", "chromium-headless-shell", "chromium-browser", "google-chrome"];
    let runs = |name: &String| {
        let mut command = Command::new(name);
        command
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|s| s.success())
    };
    let found = named.into_iter().chain(known.map(str::to_owned)).find(runs);
    if found.is_none() {
        skip::missing("chromium", "not on this machine");
    }
    found
}

/// What the browser measures of a page at each of the widths.
fn measured(browser: &str, scratch: &Scratch, page: &str) -> Vec<Value> {
    let quoted = page.replace('&', "&amp;").replace('"', "&quot;");
    let frames: String = WIDTHS
        .iter()
        .map(|width| format!("<iframe width={width} height=900 srcdoc=\"{quoted}\"></iframe>\n"))
        .collect();
    let script = include_str!("pages/measure.js");
    let around = scratch.file(
        "around.html",
        &format!("<!doctype html><meta charset=\"utf-8\">{frames}<script>{script}</script>"),
    );
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--window-size=1300,2000",
        ])
        .arg(format!("--user-data-dir={}", scratch.path("profile")))
        .args(["--dump-dom", &format!("file://{around}")])
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let reported = dom.split_once("<pre>").and_then(|(_, rest)| rest.split_once("</pre>"));
    let Some((reported, _)) = reported else { panic!("{dom}\n{}", String::from_utf8_lossy(&output.stderr)) };
    let plain = reported.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str::<Vec<Value>>(&plain).unwrap_or_else(|e| panic!("{e}: {plain}"))
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect()
}

/// What every page must be: readable at any width, nothing asked of the network, pictures with all their
/// words in sight.
fn check(measured: &Value) {
    assert_eq!(strings(&measured["requests"]), [""; 0], "a page needs nothing but itself");
    assert_eq!(measured["overflow"], 0, "the page is as wide as the window");
    assert!(measured["headings"].as_u64().unwrap() > 0);
    for picture in measured["pictures"].as_array().unwrap() {
        assert_eq!(
            strings(&picture["hidden"]),
            [""; 0],
            "words outside of the picture, or without size: {picture}"
        );
        assert_eq!(strings(&picture["small"]), [""; 0], "words too small to read: {picture}");
        assert_eq!(picture["stretched"], false, "empty margins, or cut: {picture}");
        assert!(picture["name"].is_string(), "a name for those who cannot see it: {picture}");
        assert!(picture["words"].as_u64().unwrap() > 0, "{picture}");
    }
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

const AXE: &str = "node_modules/axe-core/axe.min.js";

fn corpus(name: &str) -> String {
    format!("{}/tests/corpus/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A write skew whose every name wants to be something else.
fn hostile() -> String {
    let (script, image) = ("</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>");
    let quotes = "\"'><b>\u{2028}\u{202e}";
    let line = |session: &str, id: &str, read: &str, written: &str| {
        json!({"session": session, "id": id, "ops": [["r", read, null], ["w", written, 1]],
               "invoked": 1, "completed": 9})
    };
    format!("{}\n{}\n", line(script, image, quotes, script), line(quotes, script, script, quotes))
}

/// Two lost updates on a clock of milliseconds, with a fault between them, as `anomalist test` records it.
fn with_a_fault() -> String {
    let update = |session: u8, key: &str, value: u8, at: u64| json!({"session": session, "ops": [["r", key, null], ["w", key, value]], "invoked": at, "completed": at + 40});
    let fault = json!({"session": "nemesis", "ops": [], "invoked": 100, "completed": 400,
                       "meta": {"fault": "kill", "detail": "the server"}});
    let lines = [
        json!({"anomalist": 1, "clock": "ms"}),
        update(1, "x", 1, 0),
        update(2, "x", 2, 10),
        fault,
        update(1, "y", 3, 500),
        update(2, "y", 4, 510),
    ];
    lines.map(|line| format!("{line}\n")).concat()
}

/// Reads of a counter in Jepsen's notation, with a fault that was written when it was over.
fn counted_with_a_fault() -> String {
    let event = |kind: &str, process: Value, f: &str, value: Value, time: u32| json!({"type": kind, "process": process, "f": f, "value": value, "time": time});
    let mut lines = Vec::new();
    for i in 0..40 {
        let (f, given, found) =
            if i % 2 == 0 { ("add", json!(1), json!(1)) } else { ("read", json!(null), json!(i / 2 + 1)) };
        lines.push(event("invoke", json!(i % 3), f, given, 100 * i));
        lines.push(event("ok", json!(i % 3), f, found, 100 * i + 50));
    }
    for time in [1000, 3000] {
        lines.push(event("info", json!("nemesis"), "kill", json!("the server"), time));
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// The pages that `pages/explorer.py` looks at, in a folder.
fn explorer_pages(scratch: &Scratch) {
    let run = |arguments: &[&str]| Run::new(arguments, b"", &[("DATABASE_URL", "")]).expect(0);
    let (runs, history) = (scratch.path("runs"), scratch.path("skew.jsonl"));
    run(&[
        "test",
        "simulated:snapshot-isolation",
        "--txns",
        "3000",
        "--seed",
        "7",
        "--quiet",
        "--runs",
        &runs,
    ]);
    std::fs::copy(scratch.path("runs/latest/history.jsonl"), &history).unwrap();
    run(&["report", &scratch.path("runs/latest"), "-o", &scratch.path("latest.html")]);
    run(&["check", &history, "--report", &scratch.path("skew.html")]);
    let result = run(&["check", &history, "--json"]).text().replace("skew.jsonl", "gone.jsonl");
    run(&["report", &scratch.file("kept.json", &result), "-o", &scratch.path("kept.html")]);
    let page = |name: &str, histories: &[&str]| {
        let report = scratch.path(name);
        run(&[&["check", "--report", &report], histories].concat());
    };
    page("stamps.html", &[&corpus("snapshots.timekiller.json")]);
    page("proof.html", &[&corpus("repeated-value-back.jsonl")]);
    page("cause.html", &[&corpus("effect-without-cause.plume.txt")]);
    page("calm.html", &[&corpus("serial.plume.txt")]);
    let several = ["write-skew.jsonl", "long-fork.plume.txt", "serial.plume.txt"].map(corpus);
    page("runs.html", &several.each_ref().map(String::as_str));
    page("faults.html", &[&scratch.file("faults.jsonl", &with_a_fault())]);
    page("nemesis.html", &[&scratch.file("nemesis.jsonl", &counted_with_a_fault())]);
    page("hostile.html", &[&scratch.file("hostile.jsonl", &hostile())]);
    let large = scratch.path("large.txt");
    let shape = ["--sessions", "50", "--txns-per-session", "2000", "--ops-per-txn", "8", "--keys", "20000"];
    run(&[&["generate", "--inject", "TAP-k", "--seed", "3", "-o", &large], &shape[..]].concat());
    page("large.html", &[&large]);
}

/// Lets Playwright use the pages: these parts of `pages/explorer.py`. The folder of the pages; none where
/// something is missing.
fn used(name: &str, parts: &[&str]) -> Option<Scratch> {
    let (browser, tools) = (browser()?, playwright()?);
    let scratch = Scratch::new(name);
    explorer_pages(&scratch);
    // Kept for people to look at.
    let shots = tools.join("screenshots");
    std::fs::create_dir_all(&shots).unwrap();
    let output = Command::new(tools.join("bin/python"))
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pages/explorer.py"))
        .args([absolute(&browser), tools.join(AXE), scratch.path("").into(), shots])
        .args(parts)
        .output()
        .unwrap();
    let (said, warnings) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let failures: Vec<String> =
        serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}{warnings}"));
    assert_eq!(failures, [""; 0], "{warnings}");
    Some(scratch)
}

#[test]
fn the_explorer_is_used() {
    let parts = [
        "steps",
        "deep_links",
        "timeline",
        "instances",
        "faults",
        "touch",
        "search",
        "pointed",
        "drawing",
        "calm",
        "keyboard",
        "exports",
        "themes",
        "others",
        "large",
    ];
    let Some(scratch) = used("explorer", &parts) else { return };
    // The example that was copied is a history that has the anomaly.
    let copied = Run::new(&["check", &scratch.path("example.jsonl"), "--json"], b"", &[]).expect(0).json();
    let found = copied["anomalies"].as_array().unwrap();
    assert!(found.iter().any(|a| a["kind"] == "g2-item"), "{copied}");
}

#[test]
fn the_explorer_is_readable_for_all() {
    used("readable", &["accessible", "widths", "without_script"]);
}

/// Where a program is, for one that does not look for it.
fn absolute(program: &str) -> PathBuf {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|p| p.is_file());
    found.unwrap_or_else(|| PathBuf::from(program))
}

#[test]
fn the_dependency_graphs_of_sql_are_drawn() {
    let Some(browser) = browser() else { return };
    let scratch = Scratch::new("page-sql");
    let report = scratch.path("report.html");
    // Anomalies are the database's doing: on a machine where sessions hardly meet they take longer.
    for duration in ["4s", "30s", "200s"] {
        let run = Run::new(
            &[
                "sql",
                "--throwaway",
                "mariadb",
                "--isolation",
                "read committed",
                "--duration",
                duration,
                "--no-shrink",
                "--quiet",
                "--json",
                "--report",
                &report,
                "--runs",
                &scratch.path("runs"),
            ],
            b"",
            &[],
        );
        if run.stderr().contains("is not on this machine") {
            return skip::missing("servers", run.stderr().trim());
        }
        let answer = run.expect(0).json();
        let anomalies = answer["levels"][0]["anomalies"].as_array().unwrap().clone();
        let examples: Vec<&Value> = anomalies
            .iter()
            .flat_map(|a| a["examples"].as_array().unwrap())
            .filter(|e| e["edges"][0].is_object())
            .collect();
        if examples.is_empty() {
            continue;
        }
        for page in measured(&browser, &scratch, &scratch.read("report.html")) {
            check(&page);
            let pictures = page["pictures"].as_array().unwrap();
            assert_eq!(pictures.len(), examples.len(), "a picture per example with dependencies");
            // The page has what is forbidden first, the document has it by name.
            for example in &examples {
                let picture = pictures.iter().find(|picture| is_of(picture, example));
                let picture = picture.unwrap_or_else(|| panic!("no picture of {example}"));
                compare(picture);
            }
        }
        return;
    }
    panic!("no anomaly at READ COMMITTED");
}

/// Whether a picture shows exactly the dependencies that the JSON document reports, between circles.
fn is_of(picture: &Value, example: &Value) -> bool {
    let reported: BTreeSet<String> = example["edges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| {
            let part = |name: &str| e[name].as_str().unwrap().to_owned();
            // UUIDs are drawn by their first group.
            let key = part("key");
            let row = key.split_once('-').map_or(key.clone(), |(first, _)| format!("{first}…"));
            format!("{} {}({row}) {}", part("from"), part("type"), part("to"))
        })
        .collect();
    let drawn = strings(&picture["arrows"]).into_iter().filter(|a| !a.contains(" so "));
    drawn.map(str::to_owned).collect::<BTreeSet<_>>() == reported
}

/// A screen reader says every arrow of a picture.
fn compare(picture: &Value) {
    let named = picture["name"].as_str().unwrap();
    for arrow in strings(&picture["arrows"]) {
        assert!(named.contains(arrow), "{arrow} is not in what a screen reader says: {named}");
    }
}
