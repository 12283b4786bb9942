//! History files to histories and back: one file per format, detection, compression, diagnostics.
//!
//! Knows bytes, and nothing of isolation. A format is one module with a `sniff`, a `read` and a `writer`, and one row in
//! [`Format::ALL`].

mod diagnostic;
#[allow(dead_code)]
mod edn;
#[allow(dead_code)]
mod elle;
mod elle_columns;
mod elle_edn;
mod elle_json;
mod elle_load;
mod elle_merge;
#[allow(dead_code)]
mod elle_sink;
#[cfg(test)]
mod elle_tests;
#[allow(dead_code)]
mod elle_text;
#[allow(dead_code)]
mod elle_write;
#[allow(dead_code)]
mod isolde;
#[allow(dead_code)]
mod isolde_line;
#[cfg(test)]
mod isolde_schema;
#[allow(dead_code)]
mod isolde_write;
#[allow(dead_code)]
mod json;
mod json_fault;
#[allow(dead_code)]
mod timekiller;

pub use diagnostic::{Diagnostic, Place, Severity};

use isolde_history::{History, TooLarge};
use std::num::NonZeroUsize;

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
    /// Isolde's own JSON lines, which can express everything in the model.
    Isolde,
}

/// How to read.
#[derive(Clone)]
pub struct ReadOptions<'a> {
    /// The format; `None`: detect.
    pub format: Option<Format>,
    /// The value of a key before any write, as text (a JSON scalar, or `none`); `None`: the format's default.
    pub initial: Option<&'a str>,
    /// Keep what came before a truncated or malformed end instead of failing.
    pub lossy: bool,
    /// Threads to use.
    pub threads: NonZeroUsize,
    /// Told the number of input bytes consumed so far, now and then, and whether to go on (`false` cancels).
    pub progress: Option<&'a (dyn Fn(u64) -> bool + Sync)>,
}

impl Default for ReadOptions<'_> {
    fn default() -> Self {
        ReadOptions { format: None, initial: None, lossy: false, threads: NonZeroUsize::MIN, progress: None }
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
}

/// Why an input could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file could not be opened or read.
    #[error("{file}: {source}")]
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
    #[error("{file}: {source}")]
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
}

impl Format {
    /// All formats.
    pub const ALL: &'static [Format] = &[
        Format::Plume,
        Format::Awdit,
        Format::Dbcop,
        Format::Cobra,
        Format::Viper,
        Format::ElleEdn,
        Format::ElleJson,
        Format::ElleJsonl,
        Format::Timekiller,
        Format::Isolde,
    ];

    /// The name for `--format`.
    pub fn name(self) -> &'static str {
        match self {
            Format::Plume => "plume",
            Format::Awdit => "awdit",
            Format::Dbcop => "dbcop",
            Format::Cobra => "cobra",
            Format::Viper => "viper",
            Format::ElleEdn => "elle-edn",
            Format::ElleJson => "elle-json",
            Format::ElleJsonl => "elle-jsonl",
            Format::Timekiller => "timekiller",
            Format::Isolde => "isolde",
        }
    }
}
