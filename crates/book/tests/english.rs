//! Plain technical English, as far as a test can tell: words to avoid, and lines that end before column 110.
//!
//! Markdown must keep both rules. For Rust sources `allowance.tsv` has what is left per crate; it may only
//! shrink. `ANOMALIST_UPDATE=1 cargo test -p anomalist-book --test english` writes lower numbers.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
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

fn allowance() -> PathBuf {
    root().join("crates/book/tests/allowance.tsv")
}

/// Words and long comments of each crate.
fn counted() -> BTreeMap<String, (usize, usize)> {
    let mut counts = BTreeMap::new();
    for folder in fs::read_dir(root().join("crates")).unwrap().map(|e| e.unwrap().path()) {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        if name == "book" {
            continue;
        }
        let (mut words, mut long) = (0, 0);
        for file in files(&folder, "rs") {
            let text = fs::read_to_string(file).unwrap();
            words += text.lines().map(avoided).sum::<usize>();
            long += text.lines().filter(|line| is_long_comment(line)).count();
        }
        counts.insert(name, (words, long));
    }
    counts
}

#[test]
fn sources_get_plainer_and_narrower() {
    let text = fs::read_to_string(allowance()).unwrap_or_default();
    let row = |line: &str| {
        let mut fields = line.split('\t').map(str::to_owned);
        let number = |fields: &mut dyn Iterator<Item = String>| fields.next()?.parse().ok();
        Some((fields.next()?, (number(&mut fields)?, number(&mut fields)?)))
    };
    let allowed: BTreeMap<String, (usize, usize)> = text.lines().skip(1).filter_map(row).collect();
    let counts = counted();
    if std::env::var_os("ANOMALIST_UPDATE").is_some() {
        let mut lower = String::from("crate\twords\tlong comments\n");
        for (name, (words, long)) in &counts {
            let (most, longest) = allowed.get(name).copied().unwrap_or((*words, *long));
            writeln!(lower, "{name}\t{}\t{}", most.min(*words), longest.min(*long)).unwrap();
        }
        fs::write(allowance(), lower).unwrap();
    }
    for (name, (words, long)) in counts {
        let (most, longest) = allowed.get(&name).copied().unwrap_or_default();
        assert!(words <= most, "{name}: {words} words to avoid ({AVOIDED:?}), {most} are allowed");
        assert!(long <= longest, "{name}: {long} comments reach column {COLUMNS}, {longest} are allowed");
    }
}
