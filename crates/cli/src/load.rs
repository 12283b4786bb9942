//! From a path to an indexed history, with progress, warnings and the time it took.

use crate::cli::{Global, ReadFlags};
use crate::commands::test::RECORDINGS;
use crate::exit::Failure;
use crate::progress::Progress;
use crate::{interrupt, terminal};
use anomalist_check::datatypes::{self, Lowered};
use anomalist_format::{Diagnostic, Format, Input, ReadError, ReadOptions};
use anomalist_history::{Events, History, Index};
use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// A history that was read.
pub struct Read {
    /// The history.
    pub history: History,
    /// The format it was in.
    pub format: Format,
    /// Reads that were ignored because the recording was cut off and their writer is missing.
    pub unexplained: usize,
}

/// A history with its reads resolved.
pub struct Indexed {
    /// The path as the user gave it.
    pub path: String,
    /// The history.
    pub history: History,
    /// The format it was in.
    pub format: Format,
    /// Who read from whom.
    pub index: Index,
}

/// Reads one history; `-` is standard input.
pub fn read(path: &Path, flags: &ReadFlags, global: &Global) -> Result<Read, Failure> {
    let loaded = with_progress(path, flags, global, &|| false, anomalist_format::read)?;
    warn(global, &loaded.warnings);
    Ok(Read { history: loaded.history, format: loaded.format, unexplained: loaded.unexplained })
}

/// Reads Jepsen operations of any shape.
pub fn events(path: &Path, flags: &ReadFlags, global: &Global) -> Result<Events, Failure> {
    let loaded = with_progress(path, flags, global, &|| false, anomalist_format::read_events)?;
    warn(global, &loaded.warnings);
    Ok(loaded.events)
}

/// What a file holds, for `check`: one history, or one per key of `jepsen.independent`.
pub enum Judgeable {
    /// Transactions of reads, writes and appends.
    Plain(Box<Read>),
    /// Jepsen operations of another datatype, as transactions.
    Other(Box<Other>),
    /// The same for each key of independent systems.
    Independent(Vec<(String, Other)>),
}

/// Jepsen operations of another datatype, as transactions.
pub struct Other {
    /// The transactions.
    pub lowered: Lowered,
    /// The format they were in.
    pub format: Format,
    /// The recording was cut off: operations that were in flight are missing.
    pub cut_off: bool,
}

/// Reads one history, whatever its operations are.
///
/// Reading ends with [`Failure::Interrupted`] when `late` says so.
pub fn judgeable(
    path: &Path,
    flags: &ReadFlags,
    global: &Global,
    late: &(dyn Fn() -> bool + Sync),
) -> Result<Judgeable, Failure> {
    enum Found {
        Plain(Box<anomalist_format::Loaded>),
        Other(anomalist_format::LoadedEvents),
    }
    let found = with_progress(path, flags, global, late, |mut input, options| {
        let beginning = anomalist_format::peek_events(&mut input, options);
        if beginning.is_some_and(|events| datatypes::is_foreign(&events)) {
            return anomalist_format::read_events(input, options).map(Found::Other);
        }
        anomalist_format::read(input, options).map(|loaded| Found::Plain(Box::new(loaded)))
    })?;
    let loaded = match found {
        Found::Plain(loaded) => {
            warn(global, &loaded.warnings);
            let read =
                Read { history: loaded.history, format: loaded.format, unexplained: loaded.unexplained };
            return Ok(Judgeable::Plain(Box::new(read)));
        }
        Found::Other(loaded) => loaded,
    };
    warn(global, &loaded.warnings);
    let name = path.display();
    let lower = |events: &Events| {
        let Some(datatype) = datatypes::recognise(events) else {
            return Err(Failure::input(format_args!(
                "{name}: these operations are no transactions, and no read shows what they are about \
                 (anomalist elle --model may name it)"
            )));
        };
        let lowered = datatypes::lower(datatype, events);
        lowered.map_err(|error| Failure::input(format_args!("{name}: {error}")))
    };
    let (format, cut_off) = (loaded.format, loaded.cut_off);
    let other = |events: &Events| -> Result<Other, Failure> {
        Ok(Other { lowered: lower(events)?, format, cut_off })
    };
    if let Some(keys) = datatypes::independent(&loaded.events) {
        let each = keys.iter().map(|(key, events)| Ok((key.to_string(), other(events)?)));
        return Ok(Judgeable::Independent(each.collect::<Result<_, Failure>>()?));
    }
    Ok(Judgeable::Other(Box::new(other(&loaded.events)?)))
}

fn with_progress<T>(
    path: &Path,
    flags: &ReadFlags,
    global: &Global,
    late: &(dyn Fn() -> bool + Sync),
    read: impl FnOnce(Input, &ReadOptions<'_>) -> Result<T, ReadError>,
) -> Result<T, Failure> {
    let path = &recorded(path);
    let binary = path.is_dir() && path.join("test.jepsen").is_file();
    if binary || path.extension().is_some_and(|extension| extension == "jepsen") {
        return Err(Failure::input(format_args!(
            "{}: test.jepsen is Jepsen's own binary format, which is not read\n  help: use history.edn",
            path.display()
        )));
    }
    let input = Input::open(path)?;
    let size = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|m| m.len());
    let bar = Progress::bytes(global, &format!("reading {}", path.display()), size);
    let progress = |bytes| {
        bar.at(bytes);
        !interrupt::is_requested() && !late()
    };
    let options = ReadOptions {
        format: flags.format,
        initial: flags.initial.as_deref().map(|text| if text == "nil" { "null" } else { text }),
        lossy: flags.lossy,
        threads: threads(global),
        progress: Some(&progress),
    };
    Ok(read(input, &options)?)
}

/// What a run's folder keeps its history in: ours, or Jepsen's.
const HISTORIES: [&str; 4] = [RECORDINGS[0], RECORDINGS[1], "history.edn", "history.json"];

/// Folders between a store of Jepsen and its runs: the test's name, and the time.
const STORE_DEPTH: usize = 3;

/// The history of a run's folder, such as `runs/latest`; any other path as it is.
fn recorded(path: &Path) -> PathBuf {
    let kept = HISTORIES.iter().map(|name| path.join(name)).find(|kept| kept.is_file());
    kept.unwrap_or_else(|| path.to_owned())
}

/// The paths to read: a folder of several runs, such as Jepsen's `store`, stands for its runs, each once
/// however many links lead to it.
pub fn runs(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for path in paths {
        let before = all.len();
        if path.is_dir() && recorded(path) == *path {
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
        if recorded(&path) != path {
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

/// Reads one history and resolves its reads.
pub fn indexed(path: &Path, flags: &ReadFlags, global: &Global) -> Result<Indexed, Failure> {
    let Read { history, format, .. } = read(path, flags, global)?;
    let index = Index::build(&history, threads(global));
    Ok(Indexed { path: path.display().to_string(), history, format, index })
}

/// What the machine allows. Asking takes a dozen system calls, which a history of some megabytes would notice.
static CORES: LazyLock<NonZeroUsize> =
    LazyLock::new(|| std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN));

/// The number of threads to use.
pub fn threads(global: &Global) -> NonZeroUsize {
    global.threads.unwrap_or_else(|| *CORES)
}
