//! From a path to an indexed history, with progress, warnings and the time it took.

use crate::cli::{Global, Limits, ReadFlags};
use crate::exit::Failure;
use crate::progress::Progress;
use crate::{interrupt, memory, terminal};
use anomalist::of_run;
use anomalist_format::{Diagnostic, Format, Input, PathName, ReadOptions};
use anomalist_history::{Events, History};
use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// A history that was read.
pub struct Read {
    /// The path as the user gave it.
    pub path: String,
    /// The history.
    pub history: History,
    /// The format it was in.
    pub format: Format,
}

/// Reads one history; `-` is standard input.
pub fn read(path: &Path, flags: &ReadFlags, global: &Global) -> Result<Read, Failure> {
    let read = |options: &ReadOptions<'_>| -> Result<_, Failure> {
        Ok(anomalist_format::read(anomalist::open(path)?, options)?)
    };
    let before = interrupt::end_soon(true);
    let loaded = with_progress(path, flags, global, &|| false, read);
    interrupt::end_soon(before);
    let loaded = loaded?;
    warn(global, &loaded.warnings);
    Ok(Read { path: path.display().to_string(), history: loaded.history, format: loaded.format })
}

/// Reads Jepsen operations of any shape.
pub fn events(path: &Path, flags: &ReadFlags, global: &Global) -> Result<Events, Failure> {
    let read = |options: &ReadOptions<'_>| -> Result<_, Failure> {
        Ok(anomalist_format::read_events(anomalist::open(path)?, options)?)
    };
    let before = interrupt::end_soon(true);
    let loaded = with_progress(path, flags, global, &|| false, read);
    interrupt::end_soon(before);
    let loaded = loaded?;
    warn(global, &loaded.warnings);
    Ok(loaded.events)
}

/// Reads what a file holds, whatever its operations are: one history, or one per key of
/// `jepsen.independent`.
///
/// Reading ends with [`Failure::Interrupted`] when `late` says so.
pub fn histories(
    path: &Path,
    flags: &ReadFlags,
    global: &Global,
    late: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<anomalist::History>, Failure> {
    let read = |options: &ReadOptions<'_>| anomalist::History::read_all(path, options);
    let all = with_progress(path, flags, global, late, read)?;
    all.iter().for_each(|history| warn(global, history.warnings()));
    Ok(all)
}

/// The largest file that is neither a history nor made from one.
const SMALL: u64 = 1 << 30;

/// Reads a file that people write: a script, an order.
pub fn small_text(path: &Path) -> Result<String, Failure> {
    let progress = |_| !interrupt::is_requested();
    let options = ReadOptions { max_size: Some(SMALL), progress: Some(&progress), ..ReadOptions::default() };
    Ok(anomalist_format::read_text(Input::open(path)?, &options)?)
}

/// Reads a text that was made from a history: a certificate, a result.
pub fn text(path: &Path, limits: Limits, global: &Global) -> Result<String, Failure> {
    let flags = ReadFlags { format: None, initial: None, lossy: false, limits };
    let read = |options: &ReadOptions<'_>| -> Result<_, Failure> {
        Ok(anomalist_format::read_text(Input::open(path)?, options)?)
    };
    with_progress(path, &flags, global, &|| false, read)
}

fn with_progress<T, E>(
    path: &Path,
    flags: &ReadFlags,
    global: &Global,
    late: &(dyn Fn() -> bool + Sync),
    read: impl FnOnce(&ReadOptions<'_>) -> Result<T, E>,
) -> Result<T, Failure>
where
    Failure: From<E>,
{
    let size = std::fs::metadata(of_run(path)).ok().filter(std::fs::Metadata::is_file).map(|m| m.len());
    let bar = Progress::bytes(global, &format!("reading {}", path.shown()), size);
    memory::set_limit(flags.limits.memory);
    let progress = |bytes| {
        bar.at(bytes);
        memory::note_reading(size, bytes);
        !interrupt::is_requested() && !late() && !memory::is_exceeded()
    };
    let options = ReadOptions {
        format: flags.format,
        initial: flags.initial.as_deref().map(|text| if text == "nil" { "null" } else { text }),
        lossy: flags.lossy,
        threads: threads(global),
        progress: Some(&progress),
        max_size: flags.limits.max_size.map(|size| size as u64),
    };
    let result = match read(&options).map_err(Failure::from) {
        Err(Failure::Interrupted) if memory::is_exceeded() => {
            Err(Failure::Memory(Some(path.shown()), memory::of_reading()))
        }
        result => result,
    };
    memory::note_reading(None, 0);
    result
}

/// Folders between a store of Jepsen and its runs: the test's name, and the time.
const STORE_DEPTH: usize = 3;

/// The paths to read: a folder of several runs, such as Jepsen's `store`, stands for its runs, each once
/// however many links lead to it.
pub fn runs(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for path in paths {
        let before = all.len();
        if path.is_dir() && of_run(path) == *path {
            let mut seen = HashSet::new();
            collect_runs(path, STORE_DEPTH, &mut seen, &mut all);
        }
        if all.len() == before {
            all.push(path.clone());
        }
    }
    all
}

fn collect_runs(folder: &Path, depth: usize, seen: &mut HashSet<PathBuf>, runs: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut inner: Vec<(bool, PathBuf)> =
        entries.flatten().map(|e| (e.path().is_symlink(), e.path())).filter(|(_, p)| p.is_dir()).collect();
    // Folders before links to them.
    inner.sort();
    for (_, path) in inner {
        let real = std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        if !seen.insert(real) {
            continue;
        }
        if of_run(&path) != path {
            runs.push(path);
        } else if depth > 1 {
            collect_runs(&path, depth - 1, seen, runs);
        }
    }
}

fn warn(global: &Global, warnings: &[Diagnostic]) {
    if !global.quiet {
        for warning in warnings {
            terminal::tell(&warning.to_string());
        }
    }
}

/// The number of threads to use.
pub fn threads(global: &Global) -> NonZeroUsize {
    memory::threads(global.threads.unwrap_or_else(anomalist::cores))
}

/// For test runs: every proof is verified.
pub fn verifies_always() -> bool {
    std::env::var_os("ANOMALIST_VERIFY").is_some_and(|value| !value.is_empty())
}
