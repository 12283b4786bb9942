//! What a browser asks for, as arguments of a process.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What a command may use beside its fields.
pub struct Target<'a> {
    /// Where new runs and histories go.
    pub folder: &'a Path,
    /// Where the command writes its page.
    pub report: &'a Path,
    /// The history that the browser chose, in one of the folders.
    pub history: Option<&'a Path>,
}

/// How to run the program once.
#[derive(Clone, Debug, Default)]
pub struct Invocation {
    /// The arguments, the command first.
    pub arguments: Vec<OsString>,
    /// Environment variables for it: what must not be seen in a list of processes.
    pub environment: Vec<(String, String)>,
    /// The same as a person types it, without secrets.
    pub shown: String,
    /// What it prints.
    pub output: Output,
    /// The history that it makes.
    pub makes: Option<PathBuf>,
}

/// What a command prints on its standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// One JSON document.
    #[default]
    Document,
    /// A JSON object per line.
    Lines,
    /// Nothing of interest.
    Nothing,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The field that is wrong, if it is one.
    pub field: Option<String>,
    /// What is wrong, in a sentence.
    pub message: String,
}

impl Refusal {
    /// About the request as a whole.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Refusal {
        Refusal { field: None, message: message.into() }
    }

    /// About one field.
    #[must_use]
    pub fn of(field: &str, message: impl Into<String>) -> Refusal {
        Refusal { field: Some(field.to_owned()), message: message.into() }
    }
}
