//! How a run ends: exit statuses, and failures on the way there.

use anomalist_format::{ReadError, WriteError};
use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// The exit status, as Jepsen and adya have it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Exit {
    /// Every requested level holds, or nothing was requested and the run worked.
    Holds = 0,
    /// A requested level is violated.
    Violated = 1,
    /// A requested level is neither proven nor refuted, or the user stopped the run.
    Undecided = 2,
    /// Wrong usage, or input that cannot be read.
    BadInput = 3,
    /// A bug of ours.
    Bug = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Why a command stopped.
#[derive(Debug)]
pub enum Failure {
    /// A history was being written to a pipe, and its reader has closed it. That is success.
    ClosedPipe,
    /// The user pressed Ctrl-C before anything was known.
    Interrupted,
    /// Something the user can put right; the message is for people.
    Input(String),
    /// Our answer was wrong; the message says where the bundle to report is.
    Bug(String),
}

impl Failure {
    /// A message for people, `error:` in front.
    pub fn input(message: impl fmt::Display) -> Failure {
        Failure::Input(format!("error: {message}"))
    }

    /// An input or output error about a file.
    pub fn io(path: &Path, error: io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure::ClosedPipe;
        }
        Failure::input(format_args!("{}: {error}", path.display()))
    }

    /// The exit status it means.
    pub fn exit(&self) -> Exit {
        match self {
            Failure::ClosedPipe => Exit::Holds,
            Failure::Interrupted => Exit::Undecided,
            Failure::Input(_) => Exit::BadInput,
            Failure::Bug(_) => Exit::Bug,
        }
    }

    /// What to tell the user.
    pub fn message(&self) -> Option<&str> {
        match self {
            Failure::ClosedPipe => None,
            Failure::Interrupted => Some("interrupted"),
            Failure::Input(message) | Failure::Bug(message) => Some(message),
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Failure {
        match error {
            ReadError::Cancelled => Failure::Interrupted,
            // Diagnostics say "error:" themselves, each.
            ReadError::Malformed(_) => Failure::Input(error.to_string()),
            other => Failure::input(other),
        }
    }
}

impl Failure {
    /// A failure to write a history to `path`.
    pub fn write(path: &Path, error: WriteError) -> Failure {
        match error {
            WriteError::Io(error) => Failure::io(path, error),
            WriteError::Loss { .. } => Failure::input(format_args!(
                "{}: {error}\n  help: --lossy writes what can be expressed",
                path.display()
            )),
            other => Failure::input(format_args!("{}: {other}", path.display())),
        }
    }
}
