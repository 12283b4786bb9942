//! The book: its table of contents is complete, links lead somewhere, and its Rust is compiled.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use support::{files, prose, root};

/// The targets of Markdown links in a text, `[…](target)`.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (_, line) in prose(text) {
        for part in line.split("](").skip(1) {
            found.push(part.split(')').next().unwrap().to_owned());
        }
    }
    found
}

/// The anchor of a heading, as GitHub and mdBook make it.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn has_anchor(page: &Path, wanted: &str) -> bool {
    let text = fs::read_to_string(page).unwrap();
    prose(&text).iter().any(|(_, line)| line.starts_with('#') && anchor(line) == wanted)
}

#[test]
fn the_table_of_contents_lists_every_page_once() {
    let docs = root().join("docs");
    let listed = links(&fs::read_to_string(docs.join("SUMMARY.md")).unwrap());
    let unique: BTreeSet<&String> = listed.iter().collect();
    assert_eq!(unique.len(), listed.len(), "a page is listed twice");
    for page in files(&docs, "md") {
        let name = page.strip_prefix(&docs).unwrap().to_string_lossy().into_owned();
        assert!(name == "SUMMARY.md" || listed.contains(&name), "docs/SUMMARY.md does not list {name}");
    }
    for page in &listed {
        assert!(docs.join(page).is_file(), "docs/SUMMARY.md lists {page}, which does not exist");
    }
}

#[test]
fn links_lead_to_files_and_headings() {
    let mut count = 0;
    for page in files(&root(), "md") {
        let text = fs::read_to_string(&page).unwrap();
        for link in links(&text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, wanted) = link.split_once('#').unwrap_or((&link, ""));
            let target = if path.is_empty() { page.clone() } else { page.parent().unwrap().join(path) };
            assert!(target.exists(), "{} links to {link}", page.display());
            let known = wanted.is_empty() || has_anchor(&target, wanted);
            assert!(known, "{} links to {link}, which has no such heading", page.display());
            count += 1;
        }
    }
    assert!(count > 100, "only {count} links were found");
}

/// Rust in Markdown is a doctest of this crate.
#[test]
fn pages_with_rust_are_compiled() {
    let compiled = fs::read_to_string(root().join("crates/book/src/lib.rs")).unwrap();
    for page in files(&root(), "md") {
        let text = fs::read_to_string(&page).unwrap();
        if !text.contains("```rust") {
            continue;
        }
        let name = page.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        let include = format!("\"../../{}\"", name.strip_prefix("crates/").unwrap_or(&format!("../{name}")));
        assert!(compiled.contains(&include), "crates/book/src/lib.rs does not compile {name}");
    }
}
