//! Plain technical English, as far as a test can tell: words to avoid, and lines that end before column 110.
//!
//! Markdown and the comments, names and texts of Rust sources must keep both rules.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

mod support;

use std::fmt::Write as _;
use std::fs;
use support::{files, prose, root};

/// Programs are not persons, and the field has words: transaction, client, indeterminate, reported.
const AVOIDED: &[&str] =
    &["whoever", "somebody", "nobody", "anybody", "told", "of ours", "the world", "how manieth"];

const COLUMNS: usize = 110;

/// How often avoided words occur in a line.
fn avoided(line: &str) -> usize {
    let line = line.to_lowercase();
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    let count = |word: &&str| {
        let found = line.match_indices(*word).filter(|(at, _)| {
            let before = line[..*at].chars().next_back().is_some_and(inside);
            let after = line[at + word.len()..].chars().next().is_some_and(inside);
            !before && !after
        });
        found.count()
    };
    AVOIDED.iter().map(count).sum()
}

/// A comment that does not end before the limit. Links and paths cannot be wrapped.
fn is_long_comment(line: &str) -> bool {
    line.trim_start().starts_with("//") && line.chars().count() >= COLUMNS && !line.contains("://")
}

#[test]
fn documents_are_plain_and_narrow() {
    let mut faults = String::new();
    for page in files(&root(), "md") {
        let text = fs::read_to_string(&page).unwrap();
        let mut generated = false; // from the tables of `crates/level`, whose words are counted there
        for (number, line) in prose(&text) {
            generated = (generated || line.contains("begin generated")) && !line.contains("end generated");
            if generated {
                continue;
            }
            let table = line.trim_start().starts_with('|');
            let made = page.ends_with("docs/databases.md"); // by a script
            let long = !made && line.chars().count() >= COLUMNS && !table && line.trim().contains(' ');
            let words = avoided(line);
            if long || words > 0 {
                writeln!(faults, "{}:{number}: {line}", page.strip_prefix(root()).unwrap().display())
                    .unwrap();
            }
        }
    }
    assert!(faults.is_empty(), "words to avoid ({AVOIDED:?}) or lines of {COLUMNS} columns:\n{faults}");
}

#[test]
fn sources_are_plain_and_narrow() {
    let mut faults = String::new();
    for file in files(&root().join("crates"), "rs") {
        let name = file.strip_prefix(root()).unwrap().display().to_string();
        if name.starts_with("crates/book/") {
            continue; // has the list itself
        }
        let text = fs::read_to_string(&file).unwrap();
        for (number, line) in (1..).zip(text.lines()) {
            if avoided(line) > 0 || is_long_comment(line) {
                writeln!(faults, "{name}:{number}: {line}").unwrap();
            }
        }
    }
    assert!(faults.is_empty(), "words to avoid ({AVOIDED:?}) or comments of {COLUMNS} columns:\n{faults}");
}
