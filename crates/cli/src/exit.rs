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
    /// An internal error.
    Bug = 4,
}

impl From<anomalist::Outcome> for Exit {
    fn from(outcome: anomalist::Outcome) -> Exit {
        match outcome {
            anomalist::Outcome::Holds => Exit::Holds,
            anomalist::Outcome::Violated => Exit::Violated,
            anomalist::Outcome::Unknown => Exit::Undecided,
        }
    }
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
    /// The answer was wrong: an internal error. The message says where the bundle to report is.
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

impl From<anomalist::Error> for Failure {
    fn from(error: anomalist::Error) -> Failure {
        use anomalist::Error;
        match error {
            Error::Read(error) => error.into(),
            Error::Binary(file) => Failure::input(format_args!(
                "{file}: test.jepsen is Jepsen's own binary format, which is not read\n  help: use history.edn"
            )),
            Error::Unrecognised(_) => {
                Failure::input(format_args!("{error} (anomalist elle --model may name it)"))
            }
            Error::NoTimestamps => {
                Failure::input(format_args!("{error}; leave out --by, or use --by values"))
            }
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
