//! `anomalist check` decides the small histories of `crates/cli/tests/corpus` as its index says.
//!
//! The histories were written by hand from the definitions in `docs/spec/levels.md`, in several formats, so
//! that a clone without any other corpus tests both sides of every level. A line of `INDEX.tsv` has a file,
//! arguments, the levels that hold, the levels that are violated, and the reason.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

mod support;

use anomalist_level::Level;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use support::anomalist;

struct Case {
    file: String,
    arguments: String,
    /// The verdict of each level.
    expected: BTreeMap<String, &'static str>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

fn cases() -> Vec<Case> {
    let index = std::fs::read_to_string(folder().join("INDEX.tsv")).unwrap();
    let case = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [file, arguments, holds, violated, _] = fields[..] else { panic!("five fields: {line}") };
        let all = |levels: &str, verdict| {
            let names = levels.split(',').filter(|name| !name.is_empty());
            names.map(|name| (name.to_owned(), verdict)).collect::<Vec<_>>()
        };
        let expected = all(holds, "holds").into_iter().chain(all(violated, "violated")).collect();
        Case { file: file.to_owned(), arguments: arguments.to_owned(), expected }
    };
    index.lines().skip(1).map(case).collect()
}

#[test]
fn verdicts_are_those_of_the_definitions() {
    for case in cases() {
        let path = folder().join(&case.file).display().to_string();
        let levels = case.expected.keys().cloned().collect::<Vec<_>>().join(",");
        let mut arguments = vec!["check", "--json", &path, "--level", &levels];
        arguments.extend(case.arguments.split_whitespace());
        let violated = case.expected.values().any(|&verdict| verdict == "violated");
        let answer = anomalist(&arguments).expect(i32::from(violated)).json();
        for (level, verdict) in &case.expected {
            let entries = answer["levels"].as_array().unwrap();
            let entry = entries.iter().find(|entry| entry["level"] == **level);
            assert_eq!(entry.unwrap()["verdict"], *verdict, "{}: {level}", case.file);
        }
    }
}

#[test]
fn every_level_has_both_sides_and_every_file_is_used() {
    let cases = cases();
    for level in Level::CANONICAL {
        for wanted in ["holds", "violated"] {
            let shows = |case: &Case| case.expected.get(level.name()) == Some(&wanted);
            assert!(cases.iter().any(shows), "no history in which {level} is {wanted}");
        }
    }
    let listed: BTreeSet<String> = cases.into_iter().map(|case| case.file).collect();
    let present = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name());
    let present = present.map(|name| name.to_string_lossy().into_owned()).filter(|name| name != "INDEX.tsv");
    assert_eq!(present.collect::<BTreeSet<_>>(), listed);
}
