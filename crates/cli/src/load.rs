//! From a path to an indexed history, with progress, warnings and the time it took.

use crate::cli::{Global, ReadFlags};
use crate::commands::test::RECORDINGS;
use crate::exit::Failure;
use crate::progress::Progress;
use crate::{interrupt, terminal};
use anomalist_check::datatypes::{self, Lowered};
use anomalist_format::{Diagnostic, Format, Input, ReadError, ReadOptions};
use anomalist_history::{Events, History, Index};
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

/// What a file holds, for `check`.
pub enum Judgeable {
    /// Transactions of reads, writes and appends.
    Plain(Box<Read>),
    /// Jepsen operations of another datatype, as transactions.
    Other(Box<Other>),
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
    let Some(datatype) = datatypes::recognise(&loaded.events) else {
        return Err(Failure::input(format_args!(
            "{name}: these operations are no transactions, and no read shows what they are about \
             (anomalist elle --model may name it)"
        )));
    };
    let lowered = datatypes::lower(datatype, &loaded.events);
    let lowered = lowered.map_err(|error| Failure::input(format_args!("{name}: {error}")))?;
    Ok(Judgeable::Other(Box::new(Other { lowered, format: loaded.format, cut_off: loaded.cut_off })))
}

fn with_progress<T>(
    path: &Path,
    flags: &ReadFlags,
    global: &Global,
    late: &(dyn Fn() -> bool + Sync),
    read: impl FnOnce(Input, &ReadOptions<'_>) -> Result<T, ReadError>,
) -> Result<T, Failure> {
    let path = &recorded(path);
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

/// The history of a run's folder, such as `runs/latest`; any other path as it is.
fn recorded(path: &Path) -> PathBuf {
    let kept = RECORDINGS.iter().map(|name| path.join(name)).find(|kept| kept.is_file());
    kept.unwrap_or_else(|| path.to_owned())
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
