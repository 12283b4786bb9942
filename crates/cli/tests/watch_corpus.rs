//! Real timestamped histories as streams: `anomalist watch -` reports what
//! `anomalist check --by timestamps` finds in the file, whatever the order in which sessions arrive. From
//! the corpus (`anomalist_testkit::skip::corpus`).

#![allow(clippy::unwrap_used)]

mod support;

use anomalist_testkit::skip::corpus;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use support::{Run, Scratch, anomalist_with};

fn content(path: &Path) -> Vec<u8> {
    if path.extension().is_some_and(|e| e == "zst") {
        let out = Command::new("zstd").arg("-dcq").arg(path).output().unwrap();
        assert!(out.status.success(), "{}", path.display());
        return out.stdout;
    }
    std::fs::read(path).unwrap()
}

/// What makes a violation the one it is, from a line of either command.
fn identity(event: &Value) -> String {
    let code = event["code"].as_str().unwrap();
    let other = if code == "NOCONFLICT" { event["other"].to_string() } else { String::new() };
    let read = if code == "INT" { event["operation"].to_string() } else { String::new() };
    format!("{code} {} {} {other} {read}", event["transaction"], event["key"])
}

/// Violations and warnings minus retractions.
fn watched(text: &str, name: &str) -> BTreeSet<String> {
    let mut standing = BTreeSet::new();
    for line in text.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        match event["event"].as_str() {
            Some("violation" | "warning") => assert!(standing.insert(identity(&event)), "{name}: {line}"),
            Some("retracted") => assert!(standing.remove(&identity(&event)), "{name}: {line}"),
            Some("summary") => {}
            _ => panic!("{name}: {line}"),
        }
    }
    standing
}

#[test]
fn streams_of_real_histories_have_the_violations_of_their_files() {
    let Some(corpus) = corpus() else { return };
    let scratch = Scratch::new("watch-corpus");
    let index = std::fs::read_to_string(corpus.join("INDEX.tsv")).unwrap();
    let (mut streams, mut violations) = (0, 0);
    for row in index.lines().skip(1).filter(|row| row.contains("\ttimekiller-json\t")) {
        let columns: Vec<&str> = row.split('\t').collect();
        let bytes = content(&corpus.join(columns[1]));
        let file = scratch.path("history.json");
        std::fs::write(&file, &bytes).unwrap();
        let txns: Vec<Value> = serde_json::from_slice(&bytes).unwrap();
        let lines = |txns: &[Value]| txns.iter().map(|t| format!("{t}\n")).collect::<String>().into_bytes();
        let mut by_session = txns.clone();
        by_session.sort_by_key(|t| t["sid"].to_string());
        let mut backwards = txns;
        backwards.sort_by_key(|t| std::cmp::Reverse(t["sid"].to_string()));
        let arrivals = [bytes, lines(&by_session), lines(&backwards)];
        for part in columns[9].split(';') {
            let initial = part.split_once("init=").and_then(|(_, rest)| rest.split(':').next());
            for level in ["session-si", "strong-session-serializable"] {
                let found = scratch.path("found.jsonl");
                let mut args = vec!["check", &file, "--by", "timestamps", "--level", level];
                args.extend(["--violations", &found]);
                args.extend(initial.into_iter().flat_map(|value| ["--initial", value]));
                let offline = Run::new(&args, b"", &[]);
                let expected: BTreeSet<String> = std::fs::read_to_string(&found)
                    .unwrap_or_else(|_| panic!("{}", offline.stderr()))
                    .lines()
                    .map(|line| identity(&serde_json::from_str(line).unwrap()))
                    .collect();
                let broken = expected.iter().any(|id| !id.starts_with("TIE"));
                // `check` lists the first 1,000 of each kind.
                let cut = expected.len() >= 1000;
                let mut first: Option<BTreeSet<String>> = None;
                for (n, input) in arrivals.iter().enumerate() {
                    let name = format!("{} {part} {level}, order {n}", columns[0]);
                    let mut args = vec!["watch", "-", "--json", "--level", level];
                    args.extend(initial.into_iter().flat_map(|value| ["--initial", value]));
                    let run = anomalist_with(&args, input).expect(i32::from(broken));
                    let watched = watched(&run.text(), &name);
                    assert!(watched == expected || cut && watched.is_superset(&expected), "{name}");
                    assert_eq!(*first.get_or_insert_with(|| watched.clone()), watched, "{name}");
                    streams += 1;
                    violations += expected.len();
                }
            }
        }
    }
    assert!(streams > 100 && violations > 1000, "only {streams} streams with {violations} violations");
}
