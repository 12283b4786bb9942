//! Systems: the crates compile wherever Rust does, and only the laboratory needs Linux.

use super::{code, files, within_root};

/// Sources of crates and of the command, without tests: path within the repository and code.
fn sources() -> Vec<(String, String)> {
    let all = files("rs").into_iter().map(|file| (within_root(&file), code(&file)));
    all.filter(|(path, _)| path.starts_with("crates/") && path.contains("/src/")).collect()
}

/// Whether a line is inside an item, or in a module file, that only Unix has.
fn is_for_unix(path: &str, code: &str, at: usize, all: &[(String, String)]) -> bool {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let lines: Vec<&str> = code.lines().collect();
    let mut depth = indent(lines[at]) + 1;
    for above in (0..=at).rev() {
        let line = lines[above];
        let is_item = !line.trim().is_empty() && !line.trim_start().starts_with("#[") && indent(line) < depth;
        if is_item {
            let attributes = lines[..above].iter().rev().take_while(|l| {
                let text = l.trim_start();
                text.is_empty() || text.starts_with("#[")
            });
            if attributes.into_iter().any(|line| line.trim() == "#[cfg(unix)]") {
                return true;
            }
            depth = indent(line);
        }
    }
    // `#[cfg(unix)] mod name;` in the file above.
    let (folder, name) = path.trim_end_matches(".rs").rsplit_once('/').unwrap();
    let parents = [format!("{folder}.rs"), format!("{folder}/mod.rs"), format!("{folder}/lib.rs")];
    let declared = format!("#[cfg(unix)]\nmod {name};");
    all.iter().any(|(path, code)| parents.contains(path) && code.contains(&declared))
}

/// Throw-away servers are the only part that needs Linux; the rest compiles wherever Rust does.
#[test]
fn only_the_laboratory_needs_linux() {
    const LINUX: [&str; 5] = ["std::os::linux", "target_os", "prctl", "procfs", "libc::"];
    const UNIX: [&str; 3] = ["std::os::unix", "std::os::fd", "rustix::"];
    let all = sources();
    let mut found = Vec::new();
    let mut guarded = 0;
    for (path, code) in all.iter().filter(|(path, _)| !path.starts_with("crates/lab/")) {
        for (at, line) in code.lines().enumerate() {
            let unix = UNIX.iter().any(|word| line.contains(word));
            let is_right = !unix || is_for_unix(path, code, at, &all);
            guarded += usize::from(unix && is_right);
            if !is_right || LINUX.iter().any(|word| line.contains(word)) {
                found.push(format!("{path}:{}: {}", at + 1, line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "not portable: {found:#?}");
    assert!(guarded > 0, "the search finds what it should");
}

/// What judges histories asks nothing of the system, and has one form on all of them.
#[test]
fn the_core_knows_no_system() {
    const CORE: [&str; 12] = [
        "anomalist",
        "check",
        "format",
        "graph",
        "history",
        "incremental",
        "level",
        "online",
        "report",
        "timestamp",
        "verify",
        "workload",
    ];
    const SYSTEM: [&str; 8] =
        ["std::os::", "cfg(unix", "cfg(windows", "target_os", "target_family", "rustix", "libc", "\"/proc"];
    for (path, code) in sources() {
        let krate = path.split('/').nth(1).unwrap();
        let named = SYSTEM.iter().find(|word| code.contains(**word));
        assert!(!CORE.contains(&krate) || named.is_none(), "{path} names {named:?}");
    }
}

#[test]
fn guards_of_unix_are_seen() {
    let unguarded = "use std::fs;\nuse std::os::unix::fs;\n";
    let one = "#[cfg(unix)]\nuse std::os::unix::fs;\n";
    let inside = "#[cfg(unix)]\nfn f() {\n    let a = 1;\n    std::os::unix::fs::symlink(a);\n}\n";
    let after = "#[cfg(unix)]\nfn f() {\n}\n\nfn g() {\n    std::os::unix::fs::symlink(a);\n}\n";
    let parent = ("crates/a/src/b/mod.rs".to_owned(), "#[cfg(unix)]\nmod unix;\n".to_owned());
    assert!(!is_for_unix("crates/a/src/b.rs", unguarded, 1, &[]));
    assert!(is_for_unix("crates/a/src/b.rs", one, 1, &[]));
    assert!(is_for_unix("crates/a/src/b.rs", inside, 3, &[]));
    assert!(!is_for_unix("crates/a/src/b.rs", after, 5, &[]));
    assert!(is_for_unix("crates/a/src/b/unix.rs", unguarded, 1, &[parent]));
}
