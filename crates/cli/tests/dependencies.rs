//! What the program is made of: licences, crates that are there twice, and the Rust that they need.
//!
//! `cargo deny` checks the same and advisories too, but takes minutes to install: `scripts/test deny` runs
//! it where it is there.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn run(program: &str, arguments: &[&str]) -> String {
    let out = Command::new(program).args(arguments).current_dir(root()).output().unwrap();
    assert!(out.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// All packages of the lock file that this machine's builds use.
fn packages() -> Vec<Value> {
    let about = run("rustc", &["-vV"]);
    let host = about.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let flags = ["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", host];
    let mut metadata: Value = serde_json::from_str(&run(env!("CARGO"), &flags)).unwrap();
    let Value::Array(all) = metadata["packages"].take() else { panic!("no packages") };
    all
}

/// The licences that `deny.toml` allows.
fn allowed() -> Vec<String> {
    let text = fs::read_to_string(root().join("deny.toml")).unwrap();
    let list = text.split_once("allow = [").unwrap().1.split_once(']').unwrap().0;
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Whether an SPDX expression can be met by these licences. `OR` binds less than `AND`.
fn is_met(expression: &str, allowed: &[String]) -> bool {
    let expression = expression.trim();
    for (word, all) in [(" OR ", false), (" AND ", true)] {
        let parts = split(expression, word);
        if parts.len() > 1 {
            let met = |part: &&str| is_met(part, allowed);
            return if all { parts.iter().all(met) } else { parts.iter().any(met) };
        }
    }
    match expression.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        Some(inner) => is_met(inner, allowed),
        None => allowed.iter().any(|licence| licence == expression),
    }
}

/// Parts of an expression between a word that is outside of parentheses.
fn split<'e>(expression: &'e str, word: &str) -> Vec<&'e str> {
    let mut parts = Vec::new();
    let (mut depth, mut begin) = (0, 0);
    for (at, letter) in expression.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 && expression[at..].starts_with(word) => {
                parts.push(&expression[begin..at]);
                begin = at + word.len();
            }
            _ => {}
        }
    }
    parts.push(&expression[begin..]);
    parts
}

#[test]
fn licences_are_allowed() {
    /// Packages that have a file instead of an expression, which was read: webpki's is ISC.
    const READ: [&str; 1] = ["webpki"];
    let allowed = allowed();
    assert!(allowed.contains(&"MIT".to_owned()), "{allowed:?}");
    for package in packages() {
        let name = package["name"].as_str().unwrap();
        let Some(licence) = package["license"].as_str() else {
            assert!(READ.contains(&name), "{name} has no licence");
            continue;
        };
        assert!(is_met(&licence.replace('/', " OR "), &allowed), "{name}: {licence}");
    }
}

#[test]
fn expressions_of_licences_are_understood() {
    let allowed = ["MIT", "Unicode-3.0"].map(str::to_owned);
    assert!(is_met("Apache-2.0 OR MIT", &allowed));
    assert!(is_met("(MIT OR Apache-2.0) AND Unicode-3.0", &allowed));
    assert!(!is_met("Apache-2.0 AND MIT", &allowed));
    assert!(!is_met("MIT AND (GPL-3.0 OR Apache-2.0)", &allowed));
}

/// Crates that the program has in two versions, because drivers of two databases ask for them. May only
/// shrink.
#[test]
fn few_crates_are_there_twice() {
    const TWICE: [&str; 9] = [
        "base64",
        "block-buffer",
        "cpufeatures",
        "crypto-common",
        "digest",
        "fallible-iterator",
        "getrandom",
        "sha2",
        "syn",
    ];
    let flags = "tree -p anomalist-cli -e normal --duplicates --prefix none --depth 0 --offline --locked";
    let tree = run(env!("CARGO"), &flags.split(' ').collect::<Vec<_>>());
    let mut found: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    found.retain(|name| !name.is_empty());
    found.sort_unstable();
    found.dedup();
    assert_eq!(found, TWICE);
}

/// Crates that are not maintained any more come with one driver alone, and may only become fewer:
/// SECURITY.md says what they do there.
#[test]
fn old_crates_stay_with_one_driver() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let needs = |name: &str| {
        let needed = |part: &&str| part.lines().any(|line| line.trim().trim_matches([',', '"']) == name);
        let named = |part: &str| Some(part.split_once("name = \"")?.1.split_once('"')?.0.to_owned());
        lock.split("[[package]]").filter(needed).filter_map(named).collect::<Vec<_>>()
    };
    assert!(needs("rustls").len() > 1, "the file has another form");
    for old in ["rustls-pemfile", "webpki"] {
        assert_eq!(needs(old), ["mysql"], "{old}");
    }
}

/// No other toolchain than this machine's can be tried, but a dependency that says it needs a newer Rust
/// than we do would break builds with the oldest. Clippy's `incompatible_msrv` asks the same of our own
/// code.
#[test]
fn no_dependency_needs_a_newer_rust() {
    let number =
        |version: &str| -> Vec<u32> { version.split('.').map(|part| part.parse().unwrap()).collect() };
    let packages = packages();
    let ours = packages.iter().find(|package| package["name"] == "anomalist-cli").unwrap();
    let ours = number(ours["rust_version"].as_str().unwrap());
    for package in &packages {
        if let Some(theirs) = package["rust_version"].as_str() {
            assert!(number(theirs)[..2] <= ours[..2], "{} needs Rust {theirs}", package["name"]);
        }
    }
}
