//! Reports as a browser draws them: headless Chromium lays the pages out, wide and as narrow as a
//! telephone, and a test script in the page around them measures what there is to see.
//!
//! Without Chromium these tests say so and pass, except in CI.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

mod support;

use anomalist_testkit::skip;
use serde_json::Value;
use std::collections::BTreeSet;
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

#[test]
fn the_report_of_a_run_is_drawn() {
    let Some(browser) = browser() else { return };
    let scratch = Scratch::new("page-test");
    let (report, runs) = (scratch.path("report.html"), scratch.path("runs"));
    Run::new(
        &["test", "--txns", "3000", "--quiet", "--runs", &runs, "--report", &report],
        b"",
        &[("DATABASE_URL", "")],
    )
    .expect(0);
    for page in measured(&browser, &scratch, &scratch.read("report.html")) {
        check(&page);
        for picture in page["pictures"].as_array().unwrap() {
            assert_eq!(strings(&picture["overlapping"]), [""; 0], "words over each other: {picture}");
        }
        assert!(
            !page["pictures"].as_array().unwrap().is_empty(),
            "snapshot isolation has write skew: {page}"
        );
    }
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
            for (picture, example) in pictures.iter().zip(&examples) {
                compare(picture, example);
            }
        }
        return;
    }
    panic!("no anomaly at READ COMMITTED");
}

/// The picture shows exactly the dependencies that the JSON document tells, between circles, and the order
/// of sessions.
fn compare(picture: &Value, example: &Value) {
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
    let arrows = strings(&picture["arrows"]);
    let drawn: BTreeSet<String> =
        arrows.iter().filter(|a| !a.contains(" so ")).map(|a| (*a).to_owned()).collect();
    assert_eq!(drawn, reported, "{picture}");
    let named = picture["name"].as_str().unwrap();
    for arrow in arrows {
        assert!(named.contains(arrow), "{arrow} is not in what a screen reader says: {named}");
    }
}
