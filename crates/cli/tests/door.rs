//! Library and command give the same answer, and it conforms to the published schema.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist::{History, Level, check};
use anomalist_testkit::json_schema::valid;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn anomalist(arguments: &[&str]) -> (String, i32) {
    let out = Command::new(env!("CARGO_BIN_EXE_anomalist"))
        .args(arguments)
        .env_remove("GITHUB_ACTIONS")
        .env_remove("GITHUB_STEP_SUMMARY")
        .output()
        .unwrap();
    (String::from_utf8(out.stdout).unwrap(), out.status.code().unwrap())
}

fn schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/anomalist-check.schema.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The text without the lines of the timings.
fn untimed(text: &str) -> String {
    let at = text.find("\"timing_ms\"").unwrap();
    let end = at + text[at..].find('}').unwrap();
    format!("{}{}", &text[..at], &text[end..])
}

/// Histories of every kind that `generate` makes, good and broken.
fn histories(folder: &Path) -> Vec<PathBuf> {
    let shapes: [&[&str]; 6] = [
        &["--sessions", "4", "--txns-per-session", "20"],
        &["--sessions", "4", "--txns-per-session", "20", "--inject", "TAP-k"],
        &[
            "--sessions",
            "3",
            "--txns-per-session",
            "10",
            "--kind",
            "list-append",
            "--level",
            "read-committed",
        ],
        &["--sessions", "3", "--txns-per-session", "10", "--delete-ratio", "0.3", "--level", "causal"],
        &["--sessions", "3", "--txns-per-session", "10", "--kind", "timestamped", "--to", "anomalist"],
        &["--sessions", "3", "--txns-per-session", "5", "--inject", "TAP-b"],
    ];
    let file = |(i, shape): (usize, &&[&str])| {
        let path = folder.join(format!("h{i}.jsonl"));
        let name = path.display().to_string();
        let (_, exit) =
            anomalist(&[&["generate", "--seed", "7", "--keys", "20", "--output", &name][..], shape].concat());
        assert_eq!(exit, 0, "{shape:?}");
        path
    };
    shapes.iter().enumerate().map(file).collect()
}

#[test]
fn library_and_command_agree() {
    let folder = std::env::temp_dir().join(format!("anomalist-agree-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let schema = schema();
    for path in histories(&folder) {
        let name = path.display().to_string();
        let history = History::read(&path).unwrap();
        for levels in [&[][..], &[Level::Serializable], &[Level::ReadAtomic, Level::SnapshotIsolation]] {
            let question = levels.iter().fold(check(&history), |check, &level| check.require(level));
            let answer = question.run().unwrap();
            let names: Vec<&str> = levels.iter().map(|l| l.name()).collect();
            let names = names.join(",");
            let mut arguments = vec!["check", "--json", &name];
            if !levels.is_empty() {
                arguments.extend(["--level", &names]);
            }
            let (printed, exit) = anomalist(&arguments);
            assert_eq!(untimed(&answer.to_json()), untimed(&printed), "{name} {names}");
            assert_eq!(i32::from(answer.outcome().exit_status()), exit, "{name} {names}");
            assert!(valid(&schema, &serde_json::from_str(&printed).unwrap()), "{printed}");
        }
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn errors_are_json_too() {
    let schema = schema();
    let folder = std::env::temp_dir().join(format!("anomalist-errors-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let wrong = folder.join("wrong.jsonl");
    fs::write(&wrong, "{\"session\": 1, \"ops\": [[\"w\", \"x\"]]}\n").unwrap();
    let wrong = wrong.display().to_string();
    for arguments in [
        &["check", "--json", &wrong][..],
        &["check", "--json", "no-such-file"],
        &["check", "--json", "--level", "no-such-level", &wrong],
        &["check", "--json", "--by", "timestamps", "docs/none"],
        &["stats", "--json", &wrong],
    ] {
        let (printed, exit) = anomalist(arguments);
        let document: Value = serde_json::from_str(&printed).unwrap_or_else(|e| panic!("{e}: {printed}"));
        assert!(valid(&schema, &document), "{printed}");
        assert_eq!((exit, &document["outcome"]), (3, &"error".into()), "{printed}");
    }
    let (printed, _) = anomalist(&["check", "--json", &wrong]);
    let document: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(document["error"]["places"][0]["line"], 1);
    fs::remove_dir_all(&folder).unwrap();
}
