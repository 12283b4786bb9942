//! `anomalist sql replay FOLDER`: what was found on one database, tried on another (section 6.2 of the
//! paper).

use super::ReplayFlags;
use super::replay;
use super::subject::Opened;
use crate::cli::Global;
use crate::exit::{Exit, Failure};
use crate::load;
use crate::terminal;
use anomalist_databases::Isolation;
use anomalist_format::PathName;
use anomalist_sql::script::Script;
use anomalist_sql::template::translate;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// What came of a script: the levels at which it showed its anomaly, or why it could not be tried.
struct Tried {
    name: String,
    expects: String,
    shown: Result<Vec<String>, String>,
}

pub fn run(flags: &ReplayFlags, global: &Global) -> Result<Exit, Failure> {
    let paths = scripts(&flags.script)?;
    let opened = Opened::open(&flags.place, global)?;
    let isolations = opened.isolations(&flags.place)?;
    let mut all = Vec::new();
    for path in &paths {
        if crate::interrupt::is_requested() {
            break;
        }
        all.push(attempt(&opened, &isolations, path)?);
    }
    let shown = all.iter().filter(|t| t.shown.as_ref().is_ok_and(|levels| !levels.is_empty())).count();
    let out = match flags.json {
        true => format!("{:#}", document(&opened, &isolations, &all)),
        false => text(&opened, &isolations, &all),
    };
    terminal::print(&out)?;
    Ok(if shown == 0 || crate::interrupt::is_requested() { Exit::Undecided } else { Exit::Holds })
}

/// The scripts of a folder, by name.
fn scripts(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = std::fs::read_dir(folder).map_err(|e| Failure::io(folder, e))?;
    let mut paths: Vec<PathBuf> =
        entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "sql")).collect();
    paths.sort();
    match paths.is_empty() {
        true => Err(Failure::input(format_args!("{}: no scripts (*.sql) in it", folder.shown()))),
        false => Ok(paths),
    }
}

fn attempt(opened: &Opened, isolations: &[Isolation], path: &Path) -> Result<Tried, Failure> {
    let text = load::small_text(path)?;
    let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let mut script = Script::parse_any(opened.flavour, &text)
        .map_err(|e| Failure::input(format_args!("{}: {e}", path.shown())))?;
    replay::understood(&script, path)?;
    // It is tried at all levels, whatever its own.
    script.prelude.clear();
    let expects = script.expects.clone().unwrap_or_default();
    let subject = opened.subject();
    let tried = |script: &Script| {
        let mut levels = Vec::new();
        for isolation in isolations {
            let (replayed, _, judged) = subject.replay(isolation, script).map_err(|e| e.to_string())?;
            // A script may say its levels itself.
            let level = replayed.level().name().to_owned();
            let shown = judged.counts.keys().any(|name| expects.is_empty() || name.is_called(&expects));
            if shown && !levels.contains(&level) {
                levels.push(level);
            }
        }
        Ok(levels)
    };
    let shown = match translate(&script, opened.flavour) {
        Ok(script) => tried(&script),
        Err(error) => Err(error.why.to_owned()),
    };
    Ok(Tried { name, expects, shown })
}

fn document(opened: &Opened, isolations: &[Isolation], all: &[Tried]) -> Value {
    let scripts: Vec<Value> = all
        .iter()
        .map(|t| match &t.shown {
            Ok(levels) => json!({"script": t.name, "expects": t.expects, "shown": levels}),
            Err(why) => json!({"script": t.name, "expects": t.expects, "not_tried": why}),
        })
        .collect();
    json!({
        "anomalist": env!("CARGO_PKG_VERSION"),
        "schema": 1,
        "database": {"product": opened.product.name, "version": opened.product.version, "url": opened.address()},
        "isolations": isolations.iter().map(Isolation::name).collect::<Vec<_>>(),
        "scripts": scripts,
    })
}

fn text(opened: &Opened, isolations: &[Isolation], all: &[Tried]) -> String {
    let names: Vec<&str> = isolations.iter().map(Isolation::name).collect();
    let mut out = format!("{}, {} scripts at {}\n", opened.product, all.len(), names.join(", "));
    for t in all {
        let reported = match &t.shown {
            Ok(levels) if levels.is_empty() => "does not happen".to_owned(),
            Ok(levels) => format!("happens at {}", levels.join(", ")),
            Err(why) => format!("not tried: {why}"),
        };
        _ = writeln!(out, "\n{}\n  {} {reported}", t.name, t.expects);
    }
    out
}
