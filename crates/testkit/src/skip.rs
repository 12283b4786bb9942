//! Tests that need something outside of the repository: they fail without it, unless the environment allows
//! to skip them.
//!
//! `ANOMALIST_SKIP=corpus,servers` names what may be missing. A test that lacks something which is not
//! named panics and says how to get it, so that a green run has run everything but what its caller listed.
//! `ANOMALIST_SKIPPED` names a file that gets a line for each test that was left out: `scripts/test` prints
//! them at the end.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What a test may need, and how to get it.
const RESOURCES: [(&str, &str); 6] = [
    ("corpus", "set ANOMALIST_CORPUS to the folder of recorded histories that has the file INDEX.tsv"),
    ("servers", "scripts/test installs PostgreSQL, MariaDB and Galera"),
    ("clients", "scripts/test installs psql, pgbench, the MariaDB client and Connector/J"),
    (
        "python",
        "scripts/test installs Python and its database drivers; ANOMALIST_PYTHON names the interpreter",
    ),
    ("chromium", "scripts/test installs Chromium; ANOMALIST_CHROMIUM names the program"),
    ("playwright", "scripts/test installs Playwright and axe-core; ANOMALIST_PLAYWRIGHT names their folder"),
];

/// Reports that a resource is missing. Returns if `ANOMALIST_SKIP` names it, so that the caller can end its
/// test.
///
/// # Panics
/// If the resource may not be skipped, or is not one of those that tests need.
#[track_caller]
#[allow(clippy::print_stderr, reason = "tests say what they did not run")]
pub fn missing(name: &str, reason: impl Display) {
    let setting = std::env::var("ANOMALIST_SKIP").unwrap_or_default();
    match judged(name, &reason.to_string(), &setting) {
        Ok(skipped) => {
            eprintln!("{skipped}");
            if let Some(file) = std::env::var_os("ANOMALIST_SKIPPED") {
                note(Path::new(&file), &test(), &skipped);
            }
        }
        Err(failure) => panic!("{failure}"),
    }
}

/// The name of the test that is running: the runner's variable, or the thread of `cargo test`.
fn test() -> String {
    let thread = std::thread::current();
    std::env::var("NEXTEST_TEST_NAME").unwrap_or_else(|_| thread.name().unwrap_or("a test").to_owned())
}

/// Appends a line in one write, because tests run at the same time. A summary that cannot be written is no
/// failure.
fn note(file: &Path, test: &str, skipped: &str) {
    if let Ok(mut file) = OpenOptions::new().append(true).create(true).open(file) {
        let line = format!("{test}: {}\n", skipped.replace('\n', " "));
        _ = file.write_all(line.as_bytes());
    }
}

/// What to print if the resource may be skipped, else what to fail with.
fn judged(name: &str, reason: &str, setting: &str) -> Result<String, String> {
    let how = |name: &str| RESOURCES.iter().find(|(known, _)| *known == name).map(|(_, how)| how);
    let allowed: Vec<&str> = setting.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    if let Some(unknown) = allowed.iter().find(|word| how(word).is_none()) {
        let known = RESOURCES.map(|(name, _)| name).join(", ");
        return Err(format!("ANOMALIST_SKIP names `{unknown}`, which no test needs; it may name {known}"));
    }
    let Some(get) = how(name) else { return Err(format!("`{name}` is not a resource that tests need")) };
    if allowed.contains(&name) {
        return Ok(format!("skipped: {name} ({reason})"));
    }
    Err(format!("{name}: {reason}; {get}, or set ANOMALIST_SKIP={name} to leave such tests out"))
}

/// The corpus of recorded histories: the folder that `ANOMALIST_CORPUS` names, or one beside the checkout.
///
/// # Panics
/// If there is none and it may not be skipped.
#[track_caller]
pub fn corpus() -> Option<PathBuf> {
    let named = std::env::var_os("ANOMALIST_CORPUS").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus/open");
    let found = named.into_iter().chain([beside]).find(|folder| folder.join("INDEX.tsv").is_file());
    if found.is_none() {
        missing("corpus", "no recorded histories on this machine");
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{judged, note};

    #[test]
    fn what_is_missing_fails_unless_it_is_named() {
        let failure = judged("servers", "no initdb", "").unwrap_err();
        assert!(failure.starts_with("servers: no initdb; scripts/test installs"), "{failure}");
        assert!(failure.ends_with("or set ANOMALIST_SKIP=servers to leave such tests out"), "{failure}");
        assert!(judged("servers", "no initdb", "corpus").is_err());
        let skipped = judged("servers", "no initdb", "corpus, servers");
        assert_eq!(skipped.as_deref(), Ok("skipped: servers (no initdb)"));
    }

    #[test]
    fn each_skip_is_a_line() {
        let file = std::env::temp_dir().join(format!("anomalist-skips-{}", std::process::id()));
        note(&file, "a", "skipped: servers (no\ninitdb)");
        note(&file, "b", "skipped: corpus (none)");
        let lines = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(lines, "a: skipped: servers (no initdb)\nb: skipped: corpus (none)\n");
    }

    #[test]
    fn a_name_that_no_test_knows_is_refused() {
        let failure = judged("corpus", "none", "corpus,sevrers").unwrap_err();
        assert!(failure.starts_with("ANOMALIST_SKIP names `sevrers`"), "{failure}");
    }
}
