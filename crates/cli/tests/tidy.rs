//! The house rules that no compiler checks: layers, file sizes, lints, paths and commands in the documents.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

#[path = "tidy/portable.rs"]
mod portable;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The layer of every crate; a crate may use only lower ones. `testkit`, `literature` and `book` are for
/// tests.
const LAYERS: &[(&str, u32)] = &[
    ("history", 0),
    ("level", 1),
    ("graph", 2),
    ("timestamp", 2),
    ("sqltext", 2),
    ("check", 3),
    ("jepsen", 4),
    ("verify", 3),
    ("format", 3),
    ("online", 3),
    ("incremental", 3),
    ("workload", 3),
    ("http", 0),
    ("proxy", 0),
    ("client", 4),
    ("cluster", 4),
    ("databases", 5),
    ("lab", 6),
    ("over", 6),
    ("record", 6),
    ("weakdb", 3),
    ("weakdb-sql", 4),
    ("report", 4),
    ("page", 5),
    ("anomalist", 5),
    ("explore", 6),
    ("sql", 6),
    ("ui", 7),
    ("cli", 8),
    ("bench", 9),
];

fn crates() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        fs::read_dir(root().join("crates")).unwrap().map(|e| e.unwrap().path()).collect();
    found.sort();
    found
}

/// Every file of the repository with this extension, outside build folders.
fn files(extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                if !name.starts_with("target") && !name.starts_with('.') && name != "corpus" {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|e| e == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The lines of a section of a Cargo.toml.
fn section(manifest: &str, name: &str) -> Vec<String> {
    let header = format!("[{name}]");
    let lines = manifest.lines().skip_while(|l| l.trim() != header).skip(1);
    lines.take_while(|l| !l.starts_with('[')).map(str::to_owned).collect()
}

#[test]
fn crates_use_only_lower_layers() {
    let layers: BTreeMap<&str, u32> = LAYERS.iter().copied().collect();
    for folder in crates() {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        if ["testkit", "literature", "book", "simulate"].contains(&name.as_str()) {
            continue;
        }
        let layer = *layers.get(name.as_str()).unwrap_or_else(|| panic!("{name} has no layer"));
        for line in section(&manifest, "dependencies") {
            let Some(used) = line.strip_prefix("anomalist-").and_then(|l| l.split(['.', ' ']).next()) else {
                continue;
            };
            let below = layers.get(used).is_some_and(|&l| l < layer);
            assert!(below, "{name} (layer {layer}) uses {used}, which is not below it");
        }
    }
}

/// `cargo add anomalist` must stay a light matter.
#[test]
fn the_library_has_few_packages() {
    const MOST: usize = 40;
    let arguments = ["tree", "-p", "anomalist", "-e", "normal", "--prefix", "none", "--offline", "--locked"];
    let out = Command::new(env!("CARGO")).args(arguments).current_dir(root()).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let mut packages: Vec<&str> = text.lines().map(|line| line.trim_end_matches(" (*)")).collect();
    packages.sort_unstable();
    packages.dedup();
    assert!(out.status.success() && packages.len() > 10, "{}", String::from_utf8_lossy(&out.stderr));
    assert!(packages.len() <= MOST, "{} packages: {packages:#?}", packages.len());
}

#[test]
fn every_crate_has_the_workspace_lints_and_libraries_do_not_print() {
    for folder in crates() {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        assert!(section(&manifest, "lints").contains(&"workspace = true".to_owned()), "{}", folder.display());
    }
    for file in files("rs") {
        let text = fs::read_to_string(&file).unwrap();
        let prints = text.contains("clippy::print_stdout") || text.contains("clippy::print_stderr");
        let of_binary = file.starts_with(root().join("crates/cli/src"));
        let in_tests = file
            .components()
            .any(|c| ["tests", "testkit", "fuzz", "examples"].map(Some).contains(&c.as_os_str().to_str()));
        assert!(!prints || of_binary || in_tests, "{} allows printing", file.display());
    }
}

fn within_root(file: &Path) -> String {
    file.strip_prefix(root()).unwrap().display().to_string()
}

#[test]
fn files_can_be_read_in_one_sitting() {
    const LIMIT: usize = 500;
    let lines = |file: &Path| fs::read_to_string(file).unwrap().lines().count();
    let all = files("rs").into_iter().map(|file| (within_root(&file), lines(&file)));
    let long: Vec<_> = all.filter(|(_, lines)| *lines > LIMIT).collect();
    assert!(long.is_empty(), "too long, in lines: {long:#?}");
}

/// The functions of a formatted file, with their lengths: from `fn` to the next brace at the same
/// indentation.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let trimmed = line.trim_start();
        let Some((before, rest)) = trimmed.split_once("fn ") else { continue };
        let words = before.split([' ', '(', ')']).filter(|word| !word.is_empty());
        let modifiers = ["pub", "crate", "super", "in", "const", "async", "extern", "\"C\""];
        if !words.clone().all(|word| modifiers.contains(&word)) {
            continue;
        }
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let end = format!("{}}}", &line[..line.len() - trimmed.len()]);
        let body =
            lines[at..].iter().position(|line| *line == end).filter(|_| !trimmed.ends_with(['}', ';']));
        found.extend(body.map(|length| (name, length + 1)));
    }
    found
}

#[test]
fn functions_can_be_read_at_a_glance() {
    const LIMIT: usize = 80;
    let mut long = Vec::new();
    for file in files("rs") {
        let all = functions(&fs::read_to_string(&file).unwrap());
        let all = all.into_iter().filter(|(_, lines)| *lines > LIMIT);
        long.extend(all.map(|(name, lines)| (format!("{} {name}", within_root(&file)), lines)));
    }
    assert!(long.is_empty(), "too long, in lines: {long:#?}");
}

#[test]
fn lengths_of_functions_are_found() {
    let text = "pub(crate) fn a() {\n    fn b() {\n    }\n}\n\nfn c();\n\nlet x = \"fn d\";\nfn e() {}\n";
    assert_eq!(functions(text), [("a".to_owned(), 4), ("b".to_owned(), 2)]);
}

/// The parser's own walk through trees is generic: each visitor would bring a copy of it
/// (`crates/sqltext/src/walk.rs`).
#[test]
fn trees_of_sql_are_walked_by_sqltext() {
    let own = [root().join("crates/sqltext"), root().join("crates/cli/tests/tidy.rs")];
    for file in files("rs").into_iter().filter(|file| !own.iter().any(|own| file.starts_with(own))) {
        let text = fs::read_to_string(&file).unwrap();
        for word in ["visit_expressions", "visit_relations", "visit_statements", ".visit(&mut"] {
            assert!(!text.contains(word), "{} uses {word}", file.display());
        }
    }
}

/// Paths of the repository in a text: in backticks or as link targets.
/// The library crates' own code: no tests, no commands, no oracles.
fn library_sources() -> Vec<PathBuf> {
    let inside = |path: &PathBuf| {
        let path = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        let of_tests = ["/tests/", "/tests.rs", "/testkit/", "/literature/", "/cli/"];
        path.starts_with("crates/") && path.contains("/src/") && !of_tests.iter().any(|t| path.contains(t))
    };
    files("rs").into_iter().filter(inside).collect()
}

/// Before the unit tests, without comments.
fn code(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    code.lines().map(|l| if l.trim_start().starts_with("//") { "" } else { l }).collect::<Vec<_>>().join("\n")
}

/// So the compiler lists the places that a new level, or a new family of levels, has to be added to.
#[test]
fn nothing_matches_levels_with_a_wildcard() {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut found = Vec::new();
    for file in library_sources() {
        let code = code(&file);
        let lines: Vec<&str> = code.lines().collect();
        for (i, line) in lines.iter().enumerate().filter(|(_, l)| l.trim_start().starts_with("_ =>")) {
            let inside = |l: &&&str| l.is_empty() || indent(l) >= indent(line);
            let arms = lines[..i].iter().rev().take_while(inside).filter(|l| indent(l) == indent(line));
            let arm = |l: &&str| l.trim_start_matches(|c| " |(".contains(c)).starts_with("Level::");
            if arms.into_iter().any(arm) {
                found.push(format!("{}:{}", file.display(), i + 1));
            }
        }
    }
    assert!(found.is_empty(), "a wildcard arm over levels: {found:#?}");
}

/// Who embeds a library has no such flags; the command adds their names.
#[test]
fn libraries_name_no_flags() {
    // The fixed names of other programs' flags, of SQL and of what drivers pass to servers.
    let others = ["bench", "databases", "lab", "simulate", "weakdb", "weakdb-sql", "sql", "sqltext"];
    let mut found = Vec::new();
    for file in library_sources() {
        let krate = file.strip_prefix(root().join("crates")).unwrap().iter().next().unwrap();
        if others.iter().any(|other| krate == *other) {
            continue;
        }
        for (i, line) in code(&file).lines().enumerate() {
            let flag = |at: usize| {
                let (before, after) = (line[..at].chars().next_back(), line[at + 2..].chars().next());
                before.is_none_or(|c| " (`\"".contains(c)) && after.is_some_and(|c| c.is_ascii_lowercase())
            };
            if line.match_indices("--").any(|(at, _)| flag(at)) {
                found.push(format!("{}:{}: {}", file.display(), i + 1, line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "flags of the command line: {found:#?}");
}

fn paths_in(text: &str) -> Vec<String> {
    let candidates = text.split(['`', '(', ')', '"', ' ', '\n', '#']);
    let ours = ["crates/", "docs/", "scripts/", "fuzz/", ".ci/"];
    candidates
        .map(|c| c.trim_end_matches(['.', ',', ':', ';']))
        .filter(|c| ours.iter().any(|p| c.starts_with(p)))
        .map(str::to_owned)
        .collect()
}

/// The comments of a source file, one per line.
fn comments(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    text.lines().filter_map(|line| line.split_once("//")).map(|(_, comment)| format!("{comment}\n")).collect()
}

#[test]
fn paths_in_documents_and_comments_exist() {
    let documents = files("md").into_iter().map(|file| (fs::read_to_string(&file).unwrap(), file));
    let sources = files("rs").into_iter().map(|file| (comments(&file), file));
    for (text, file) in documents.chain(sources) {
        for path in paths_in(&text) {
            assert!(root().join(&path).exists(), "{} names {path}", file.display());
        }
    }
}

/// Citations of the form `docs/spec/levels.md` 2: the page has a heading with this number.
#[test]
fn cited_sections_exist() {
    let mut count = 0;
    for file in files("rs") {
        for part in comments(&file).split("`docs/spec/").skip(1) {
            let (page, rest) = part.split_once('`').unwrap();
            let number: String =
                rest.trim_start().chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
            let number = number.trim_end_matches('.');
            if number.is_empty() {
                continue;
            }
            let text = fs::read_to_string(root().join("docs/spec").join(page)).unwrap();
            let mut headings = text.lines().filter(|line| line.starts_with('#'));
            let found = headings.any(|heading| {
                heading.trim_start_matches('#').split_whitespace().next().map(|n| n.trim_end_matches('.'))
                    == Some(number)
            });
            assert!(found, "{} cites docs/spec/{page} {number}, which has no such section", file.display());
            count += 1;
        }
    }
    assert!(count > 20, "only {count} citations were found");
}

/// Design texts and notes that are not in the repository cannot be read by its readers: no citation of
/// them, whether by their folder or by a bare file name.
#[test]
fn no_text_outside_of_the_repository_is_cited() {
    let folders = ["shared", "..", "design"].map(|folder| format!("{folder}/"));
    let outside = |word: &str| {
        let bare = !word.contains('/') && !root().join(word).exists();
        bare || folders.iter().any(|folder| word.starts_with(folder.as_str()) && !word.starts_with("../docs"))
    };
    for file in files("rs") {
        let text = comments(&file);
        let words = text.split(|c: char| c.is_whitespace() || "`()[],;:\"'".contains(c));
        for word in words.map(|w| w.trim_end_matches('.')).filter(|w| w.ends_with(".md")) {
            assert!(!outside(word), "{} cites {word}", file.display());
        }
    }
    for file in files("md") {
        let text = fs::read_to_string(&file).unwrap();
        for folder in ["design", "papers", "review"].map(|folder| format!("shared/{folder}")) {
            assert!(!text.contains(&folder), "{} cites {folder}", file.display());
        }
    }
}

/// A command in a document, and what it says the command prints.
struct Example {
    document: String,
    command: String,
    output: String,
}

fn examples() -> Vec<Example> {
    let mut found = Vec::new();
    for document in files("md") {
        let text = fs::read_to_string(&document).unwrap();
        for block in text.split("```console\n").skip(1) {
            let block = block.split("```").next().unwrap();
            for part in block.split("$ ").skip(1) {
                let (command, output) = part.split_once('\n').unwrap_or((part, ""));
                found.push(Example {
                    document: document.display().to_string(),
                    command: command.to_owned(),
                    output: output.to_owned(),
                });
            }
        }
    }
    found
}

/// Every `$ …` in a console block runs, in one folder per document, and prints what the document says.
#[test]
fn commands_in_documents_run() {
    let folder = std::env::temp_dir().join(format!("anomalist-tidy-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_anomalist"));
    let path =
        format!("{}:{}", binary.parent().unwrap().display(), std::env::var("PATH").unwrap_or_default());
    let mut count = 0;
    for example in examples() {
        let command = example.command.replace("cargo run --release --quiet -- ", "anomalist ");
        let run = Command::new("sh")
            .args(["-c", &command])
            .current_dir(&folder)
            .env("PATH", &path)
            .env_remove("GITHUB_ACTIONS")
            .env("ANOMALIST_VERIFY", "1")
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&run.stdout);
        assert!(
            run.status.code().is_some_and(|code| code <= 2),
            "{}: {}\n{}",
            example.document,
            example.command,
            String::from_utf8_lossy(&run.stderr)
        );
        if !example.output.trim().is_empty() {
            assert_eq!(printed.trim(), example.output.trim(), "{}: {}", example.document, example.command);
        }
        count += 1;
    }
    fs::remove_dir_all(&folder).unwrap();
    assert!(count > 0, "no document has a command");
}
