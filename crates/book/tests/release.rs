//! What `cargo publish` and crates.io ask of a package, for every crate that is published.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use std::fs;
use std::path::{Path, PathBuf};

/// Crates that are used by tests only.
const INTERNAL: &[&str] = &["book", "literature", "simulate", "testkit"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn manifests() -> Vec<(String, PathBuf, String)> {
    let folders = fs::read_dir(root().join("crates")).unwrap().map(|e| e.unwrap().path());
    let manifest = |folder: PathBuf| {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        (name, folder, text)
    };
    folders.map(manifest).collect()
}

/// The value of a key in the section `[package]`.
fn value<'a>(manifest: &'a str, key: &str) -> Option<&'a str> {
    let package = manifest.split("\n[").next()?;
    let line = package.lines().find(|line| line.starts_with(key))?;
    line.split_once('=').map(|(_, value)| value.trim())
}

#[test]
fn published_crates_have_their_metadata() {
    let mut published = 0;
    for (name, folder, manifest) in manifests() {
        if value(&manifest, "publish ").is_some_and(|publish| publish == "false") {
            continue;
        }
        published += 1;
        assert!(!INTERNAL.contains(&name.as_str()), "{name} is for tests and says no `publish = false`");
        for key in ["description ", "license", "repository", "readme ", "keywords ", "categories "] {
            assert!(value(&manifest, key).is_some(), "{name} has no {key}");
        }
        let readme = value(&manifest, "readme ").unwrap().trim_matches('"');
        assert!(folder.join(readme).is_file(), "{name} has no {readme}");
        let keywords = value(&manifest, "keywords ").unwrap();
        assert!(keywords.matches('"').count() <= 10, "{name}: crates.io takes five keywords");
        let description = value(&manifest, "description ").unwrap();
        assert!(description.len() < 130, "{name}: a description is one line");
    }
    assert!(published > 10, "only {published} crates are published");
}

/// A package of the registry needs versions; a test-only dependency on a crate of the workspace has none, so
/// that cargo leaves it out of the package.
#[test]
fn dependencies_inside_the_workspace_can_be_published() {
    let workspace = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    for line in workspace.lines().filter(|line| line.starts_with("anomalist") && line.contains("path = ")) {
        let internal = INTERNAL.iter().any(|name| line.contains(&format!("crates/{name}\"")));
        assert_eq!(line.contains("version = "), !internal, "{line}");
    }
    for (name, _, manifest) in manifests() {
        if INTERNAL.contains(&name.as_str()) || value(&manifest, "publish ").is_some() {
            continue;
        }
        let Some(section) = manifest.split("\n[dev-dependencies]\n").nth(1) else { continue };
        for line in section.lines().take_while(|line| !line.starts_with('[')) {
            let ours = line.starts_with("anomalist");
            assert!(!ours || line.contains("path = \"../"), "{name}, for tests: {line}");
        }
    }
}
