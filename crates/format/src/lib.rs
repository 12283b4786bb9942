//! History files to histories and back: one file per format, detection, compression, diagnostics.
//!
//! Knows bytes, and decides nothing: certificate files (`certificate`) are carried, not judged. A format is
//! a module with a `sniff`, a `read` and a `writer`, a variant of [`Format`], and a row of
//! `detect::MODULES`.
//!
//! ```
//! use anomalist_format::{Input, ReadOptions};
//! let input = Input::from_bytes("h.txt", b"w(1,1,0,0)\nr(1,1,1,1)\n".to_vec());
//! let loaded = anomalist_format::read(input, &ReadOptions::default())?;
//! assert_eq!((loaded.format.name(), loaded.history.txn_count()), ("plume", 2));
//! # Ok::<(), anomalist_format::ReadError>(())
//! ```

mod anomalist;
mod awdit;
pub mod certificate;
mod cobra;
mod dbcop;
mod elle;
mod plume;
mod timekiller;
mod viper;

mod detect;
mod diagnostic;
mod input;
mod load;
pub mod shard;
mod stream;
#[cfg(test)]
mod testing;
mod text;
pub mod write;

pub use diagnostic::{Diagnostic, Hint, Place, Severity};
pub use elle::events::{LoadedEvents, RECORDING, RECORDING_END, datum_json, peek_events, read_events};
pub use input::Input;
pub use stream::{StreamError, StreamFault, StreamReader};
pub use write::{HistoryWriter, Sink, recorder, writer};

use anomalist_history::{History, TooLarge, inert};
use std::num::NonZeroUsize;
use std::path::Path;

/// A history format, by the name users give it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Format {
    /// Plume's, PolySI's and IsoVista's text: one `r(key,value,session,txn)` per line.
    Plume,
    /// AWDIT's test format.
    Awdit,
    /// dbcop's bincode (also PolySI's and VeriStrong's inputs).
    Dbcop,
    /// Cobra's binary logs: a folder, one file per session.
    Cobra,
    /// Viper's JSON lines: a folder, one file per session.
    Viper,
    /// Elle's and Jepsen's EDN.
    ElleEdn,
    /// One JSON array of Elle operations.
    ElleJson,
    /// One Elle operation per line.
    ElleJsonl,
    /// TimeKiller's JSON array of timestamped transactions.
    Timekiller,
    /// Anomalist's own JSON lines, which can express everything in the model.
    Anomalist,
}

/// A path as text that can be shown.
pub trait PathName {
    /// The path, [inert].
    fn shown(&self) -> String;
}

impl PathName for Path {
    fn shown(&self) -> String {
        inert(&self.display().to_string()).into_owned()
    }
}

/// How to read.
#[derive(Clone)]
pub struct ReadOptions<'a> {
    /// The format; `None`: detect.
    pub format: Option<Format>,
    /// The value of a key before any write, as text (a JSON scalar, or `none`); `None`: the format's
    /// default.
    pub initial: Option<&'a str>,
    /// Keep what came before the first damaged or malformed place instead of failing.
    pub lossy: bool,
    /// Threads to use.
    pub threads: NonZeroUsize,
    /// Called now and then with the number of input bytes consumed so far; `false` cancels.
    pub progress: Option<&'a (dyn Fn(u64) -> bool + Sync)>,
    /// Bytes that an input may have after decompression; `None`: [`MAX_SIZE`], and no more than an honest
    /// archive expands to.
    pub max_size: Option<u64>,
}

/// The most bytes that an input may have after decompression, unless the options say otherwise: 1 TB.
pub const MAX_SIZE: u64 = 1_000_000_000_000;

impl Default for ReadOptions<'_> {
    fn default() -> Self {
        ReadOptions {
            format: None,
            initial: None,
            lossy: false,
            threads: NonZeroUsize::MIN,
            progress: None,
            max_size: None,
        }
    }
}

/// What was read.
#[derive(Debug)]
pub struct Loaded {
    /// The history; it has at least one transaction.
    pub history: History,
    /// The format it was in.
    pub format: Format,
    /// Oddities that did not prevent reading.
    pub warnings: Vec<Diagnostic>,
    /// Reads that were ignored because the recording was cut off and their writer is missing from it: what
    /// holds without them may not hold with them.
    pub unexplained: usize,
}

/// Why an input could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file could not be opened or read.
    #[error("{}: {source}", inert(file))]
    Io {
        /// The file as the user named it.
        file: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The content is not what the format allows.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Malformed(Vec<Diagnostic>),
    /// More of something than ids can number.
    #[error("{}: {source}", inert(file))]
    TooLarge {
        /// The file as the user named it.
        file: String,
        /// Of what.
        source: TooLarge,
    },
    /// The progress function said to stop.
    #[error("interrupted")]
    Cancelled,
}

/// Why a history could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The sink failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The format cannot express the history; each item names something that would be lost.
    #[error("{} cannot express {}", .format.name(), .lost.join(", "))]
    Loss {
        /// The format asked for.
        format: Format,
        /// What would be lost, for instance "3 aborted transactions".
        lost: Vec<String>,
    },
    /// A folder where the format is one file, or the other way round.
    #[error("a history in the format {} is {wanted}", .format.name())]
    Sink {
        /// The format asked for.
        format: Format,
        /// "a folder" or "a file".
        wanted: &'static str,
    },
    /// Anomalist reads this format but does not write it.
    #[error("writing the format {} is not supported", .0.name())]
    Unsupported(Format),
}

/// The format that the content of a file or folder shows, by its beginning.
///
/// # Errors
/// If it cannot be read, or no format recognises it.
pub fn detect(path: &std::path::Path) -> Result<Format, ReadError> {
    let mut input = Input::open(path)?;
    detect::skip_mark(&mut input, None)?;
    detect::detect(&mut input)
}

/// Reads a text that is no history, such as a certificate: within the limits of an input, decompressed.
///
/// # Errors
/// If it cannot be read, is larger than allowed, or is no text; an endless device is one of them.
pub fn read_text(mut input: Input, options: &ReadOptions<'_>) -> Result<String, ReadError> {
    let name = input.name().to_owned();
    let no_text = |at: usize| {
        let found = Diagnostic::error(&name, Place::Byte(at as u64), "this is no text in UTF-8");
        ReadError::Malformed(vec![found])
    };
    detect::skip_mark(&mut input, None)?;
    let head = input.peek()?;
    // The first bytes may end within a character.
    let is_cut = |error: &std::str::Utf8Error| error.error_len().is_none();
    match std::str::from_utf8(head) {
        _ if head.contains(&0) => return Err(no_text(memchr::memchr(0, head).unwrap_or(0))),
        Err(error) if !is_cut(&error) => return Err(no_text(error.valid_up_to())),
        _ => {}
    }
    let (bytes, damage) = input.into_bytes(options)?;
    match damage {
        Some(damage) => Err(damage),
        None => String::from_utf8(bytes).map_err(|error| no_text(error.utf8_error().valid_up_to())),
    }
}

/// Reads a history, in the format the options name or in the one its content shows.
///
/// A history without a transaction is an error: nothing could be said about it.
pub fn read(mut input: Input, options: &ReadOptions<'_>) -> Result<Loaded, ReadError> {
    let name = input.name().to_owned();
    detect::refuse_blank(&mut input)?;
    detect::skip_mark(&mut input, options.format)?;
    let format = match options.format {
        Some(format) => format,
        None => detect::detect(&mut input)?,
    };
    let loaded = detect::module(format, &name)?.read(input, options)?;
    if loaded.history.txn_count() == 0 {
        let message = format!("no transaction in this file (read as {})", format.name());
        let mut found = vec![Diagnostic::error(name, Place::File, message)];
        found.extend(loaded.warnings);
        return Err(ReadError::Malformed(found));
    }
    Ok(loaded)
}
