//! How a run ends: exit statuses, and failures on the way there.

use anomalist_format::{Diagnostic, Hint, PathName, Place, ReadError, WriteError};
use anomalist_level::Why;
use anomalist_report::{bytes, reason};
use serde_json::{Value, json};
use std::borrow::Cow;
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
    /// It would take more memory than is allowed; the file that was being read, if it was one.
    Memory(Option<String>, Why),
    /// The system refused memory: there are only so many bytes of address space.
    Space(u64),
    /// Something the user can put right; the message is for people.
    Input(String),
    /// Files that are not what their format allows.
    Malformed(Vec<Diagnostic>, String),
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
        Failure::input(format_args!("{}: {error}", path.shown()))
    }

    /// The exit status it means.
    pub fn exit(&self) -> Exit {
        match self {
            Failure::ClosedPipe => Exit::Holds,
            Failure::Interrupted | Failure::Memory(..) | Failure::Space(_) => Exit::Undecided,
            Failure::Input(_) | Failure::Malformed(..) => Exit::BadInput,
            Failure::Bug(_) => Exit::Bug,
        }
    }

    /// What to tell the user.
    pub fn message(&self) -> Option<Cow<'_, str>> {
        match self {
            Failure::ClosedPipe => None,
            Failure::Interrupted => Some("interrupted".into()),
            Failure::Memory(file, why) => {
                let place = file.as_ref().map_or_else(String::new, |file| format!("{file}: reading "));
                Some(format!("{place}stopped: {} (--memory allows more)", reason(why)).into())
            }
            Failure::Space(limit) => {
                let limit = bytes(*limit);
                Some(
                    format!("stopped: it takes more than the {limit} of address space that ulimit -v allows")
                        .into(),
                )
            }
            Failure::Input(message) | Failure::Malformed(_, message) | Failure::Bug(message) => {
                Some(message.into())
            }
        }
    }
}

/// The document that stands for the answer when there is none, as `--json` prints it: `docs/json.md`.
pub fn json_error(kind: &str, message: &str, exit: Exit, places: &[Diagnostic]) -> String {
    let mut document = json!({
        "anomalist": env!("CARGO_PKG_VERSION"),
        "schema": 2,
        "outcome": "error",
        "exit": exit as u8,
        "error": {"kind": kind, "message": message.strip_prefix("error: ").unwrap_or(message)},
    });
    let place = |found: &Diagnostic| {
        let mut place = json!({"file": found.file, "message": found.message});
        match found.place {
            Place::File => {}
            Place::Line { line, column } => (place["line"], place["column"]) = (line.into(), column.into()),
            Place::Byte(at) => place["byte"] = at.into(),
        }
        place
    };
    if !places.is_empty() {
        document["error"]["places"] = Value::Array(places.iter().map(place).collect());
    }
    format!("{document:#}\n")
}

impl Failure {
    /// The failure as JSON; `None` if it is none.
    pub fn json(&self) -> Option<String> {
        let (kind, places): (&str, &[Diagnostic]) = match self {
            Failure::ClosedPipe => return None,
            Failure::Interrupted => ("interrupted", &[]),
            Failure::Memory(..) | Failure::Space(_) => ("memory", &[]),
            Failure::Input(_) => ("input", &[]),
            Failure::Malformed(places, _) => ("input", places),
            Failure::Bug(_) => ("internal", &[]),
        };
        Some(json_error(kind, &self.message().unwrap_or_default(), self.exit(), places))
    }
}

/// What is wrong with an input, with the flag that does something about it.
fn with_flag(found: Diagnostic) -> Diagnostic {
    let flag = match found.hint {
        Some(Hint::Lossy) => "--lossy keeps what came before",
        Some(Hint::Format) => "--format says which one it is",
        Some(Hint::Size) => "--max-size allows more",
        _ => return found,
    };
    let help = found.help.as_ref().map_or_else(|| flag.to_owned(), |help| format!("{help}; {flag}"));
    found.help(help)
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Failure {
        match error {
            ReadError::Cancelled => Failure::Interrupted,
            // Diagnostics say "error:" themselves, each.
            ReadError::Malformed(found) => {
                let found: Vec<Diagnostic> = found.into_iter().map(with_flag).collect();
                let message = ReadError::Malformed(found.clone()).to_string();
                Failure::Malformed(found, message)
            }
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
                path.shown()
            )),
            other => Failure::input(format_args!("{}: {other}", path.shown())),
        }
    }
}
