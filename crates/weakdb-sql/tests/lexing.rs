//! A statement goes through the lexer once: only sessions make a `Lexed` of a text, and the planner's
//! recognisers take that. `parse` goes through texts that the planner itself writes.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(sources(&path)),
            false => found.push(path),
        }
    }
    found
}

#[test]
fn the_lexer_is_started_once_for_a_statement() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut starts = Vec::new();
    for file in sources(&folder) {
        let text = fs::read_to_string(&file).unwrap();
        let name = file.strip_prefix(&folder).unwrap().display().to_string();
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for start in ["Lexed::new(", "Lexed::script("] {
                if line.contains(start) {
                    starts.push(format!("{name} {start}"));
                }
            }
            assert!(!line.contains("anomalist_sqltext::tokens("), "{name} starts the lexer");
            let imported = line.starts_with("use anomalist_sqltext::");
            for function in ["tokens", "control", "settings", "split"] {
                let named =
                    line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == function);
                assert!(!(imported && named), "{name} imports {function}, which starts the lexer");
            }
        }
    }
    starts.sort();
    assert_eq!(
        starts,
        ["session/mod.rs Lexed::new(", "session/mod.rs Lexed::script(", "wire/mysql.rs Lexed::script("],
        "a session starts the lexer for one statement or a script, MySQL's protocol for a script"
    );
}
