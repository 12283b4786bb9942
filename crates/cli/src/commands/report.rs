//! `anomalist report`: the page to explore, from results that were kept.
//!
//! A result is what `check --json` or `test --json` printed, or the folder of a run of `test`. The page
//! shows its verdicts and examples as they are; nothing is decided again. The history is drawn around them
//! if it is found: by the path in the result, as it is or in the folder of the result.

use crate::cli::{Global, ReadFlags};
use crate::destination::{can_be_written, write_file};
use crate::exit::{Exit, Failure};
use crate::{load, pages, terminal};
use anomalist::History;
use anomalist_format::PathName;
use anomalist_page::Run;
use clap::Args;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Flags of `report`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples: anomalist check --json h.txt > result.json; anomalist report result.json -o report.html\n          \
    anomalist report runs/latest -o report.html\n\n\
    Exit status: 0 the page was written, 3 bad usage or input."
)]
pub struct Flags {
    /// What check --json or test --json printed, the folder of a run, or - for standard input
    #[arg(value_name = "RESULT")]
    result: PathBuf,
    /// The history that the result is about [default: where the result says it was]
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// The page to write
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    read: ReadFlags,
}

/// A result, and what is known about the run that it is of.
struct Kept {
    result: Value,
    name: Option<String>,
    about: String,
}

/// Makes the page.
pub fn run(flags: &Flags, global: &Global) -> Result<Exit, Failure> {
    can_be_written([&flags.output])?;
    let (file, folder) = match flags.result.is_dir() {
        true => (flags.result.join("result.json"), flags.result.clone()),
        false => (flags.result.clone(), flags.result.parent().map_or_else(PathBuf::new, Path::to_path_buf)),
    };
    let kept = kept(&document(&file, flags, global)?);
    if kept.is_empty() {
        return Err(Failure::input(format_args!("{}: no result in it", file.shown())));
    }
    if flags.history.is_some() && kept.len() > 1 {
        return Err(Failure::input("--history is one file, and these are several results"));
    }
    let mut histories = Vec::new();
    for one in &kept {
        let history = history(one, flags, &folder, global)?;
        if history.is_none() {
            let path = one.result["history"]["path"].as_str().unwrap_or_default();
            terminal::tell(&format!("note: {path} is not there; the page shows the examples only"));
        }
        histories.push(history);
    }
    let mut runs = Vec::new();
    for (one, history) in kept.into_iter().zip(&histories) {
        let transactions = history.as_ref().map(History::transactions);
        let mut run = Run::of_result(one.result, transactions)
            .map_err(|error| Failure::input(format_args!("{}: {error}", file.shown())))?;
        run.unseen = transactions.map_or_else(Vec::new, |history| pages::unseen(history, global));
        run.name = one.name.unwrap_or(run.name);
        run.about = one.about;
        runs.push(run);
    }
    write_file(&flags.output, pages::page("Isolation of recorded histories", runs).as_bytes())?;
    Ok(Exit::Holds)
}

fn document(file: &Path, flags: &Flags, global: &Global) -> Result<Value, Failure> {
    let text = load::text(file, flags.read.limits, global)?;
    serde_json::from_str(&text).map_err(|error| Failure::input(format_args!("{}: {error}", file.shown())))
}

/// The results in a document: of `check`, one or an array; of `test`, with what is known about each run.
fn kept(document: &Value) -> Vec<Kept> {
    if let Some(all) = document.as_array().or_else(|| document["runs"].as_array()) {
        return all.iter().flat_map(kept).collect();
    }
    match &document["result"] {
        Value::Null if document["levels"].is_array() => {
            let result = document.clone();
            vec![Kept { result, name: None, about: String::new() }]
        }
        Value::Null => Vec::new(),
        result => vec![Kept {
            result: result.clone(),
            name: document["name"].as_str().map(str::to_owned),
            about: about(document),
        }],
    }
}

/// What a run was, in a line.
fn about(run: &Value) -> String {
    let text = |name: &str| run[name].as_str().map(str::to_owned);
    let workload = text("workload").map(|w| format!("workload {w}"));
    let seed = run["seed"].as_u64().map(|seed| format!("seed {seed}"));
    let took = run["elapsed_ms"].as_u64().map(|ms| format!("ran for {:.1} s", ms as f64 / 1e3));
    let started = text("started").map(|at| format!("started {at}"));
    let parts = [text("target"), workload, seed, started, took];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// The history of a result, if it is found.
fn history(kept: &Kept, flags: &Flags, folder: &Path, global: &Global) -> Result<Option<History>, Failure> {
    let path = kept.result["history"]["path"].as_str().unwrap_or_default();
    let places = match &flags.history {
        Some(file) => vec![file.clone()],
        None => {
            let name = Path::new(path).file_name().map(|name| folder.join(name));
            [PathBuf::from(path), folder.join(path)].into_iter().chain(name).collect()
        }
    };
    let Some(file) = places.into_iter().find(|file| flags.history.is_some() || file.is_file()) else {
        return Ok(None);
    };
    let mut all = load::histories(&file, &flags.read, global, &|| false)?;
    let count = |history: &History| history.facts().transactions;
    let wanted = kept.result["history"]["transactions"].as_u64().unwrap_or(0);
    // A file may hold a history per key.
    if all.len() > 1 {
        all.retain(|history| history.facts().path == path);
    }
    match all.pop() {
        Some(history) if count(&history) == wanted => Ok(Some(history)),
        Some(history) => Err(Failure::input(format_args!(
            "{}: {} transactions, and the result is about a history of {wanted}",
            file.shown(),
            count(&history)
        ))),
        None => Ok(None),
    }
}
