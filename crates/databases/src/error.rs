//! What went wrong, and what that means for the transaction.
//!
//! A checker believes what clients report, so the one thing an error must never do is claim too much. Two
//! questions are answered apart: what *kind* of failure it was, and what is certain about the transaction's
//! *fate*. Only what a database documents as rolled back counts as aborted; whatever happens between
//! sending COMMIT and its answer, and is not such a refusal, leaves the fate unknown.

use std::fmt;

/// A failure of a statement or a connection. Never contains passwords.
#[derive(Clone, Debug)]
pub struct Error {
    kind: Kind,
    fate: Fate,
    code: Option<String>,
    message: String,
    at: Option<usize>,
}

/// What kind of failure it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The database gave the transaction up for the sake of isolation: serialization failure, write
    /// conflict, certification failure, a snapshot too old to go on with.
    Conflict,
    /// The transaction was the victim of a deadlock.
    Deadlock,
    /// A constraint of the schema: unique, foreign key, check, not null.
    Constraint,
    /// Syntax, unknown tables or columns, an isolation level or feature that the database does not have.
    Unsupported,
    /// The statement did not come through in time: a lock wait, a busy database, a client's or server's
    /// time limit.
    Timeout,
    /// The statement was cancelled from outside.
    Cancelled,
    /// The connection is gone, or could not be made.
    Lost,
    /// Anything else that the database said.
    Other,
}

/// What is certain about the transaction in which a failure happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It is still open, if only to be rolled back. After [`crate::Connection::rollback`] it is certainly
    /// aborted.
    Open,
    /// It certainly had no effect and never will. Outside a transaction: the statement had none.
    Aborted,
    /// It may have been committed or not, or may yet be.
    Unknown,
}

impl Kind {
    /// The kind in a word, for reports.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Conflict => "conflict",
            Kind::Deadlock => "deadlock",
            Kind::Constraint => "constraint",
            Kind::Unsupported => "unsupported",
            Kind::Timeout => "timeout",
            Kind::Cancelled => "cancelled",
            Kind::Lost => "connection-lost",
            Kind::Other => "other",
        }
    }

    /// Whether trying the transaction again is what the database expects.
    pub fn is_retryable(self) -> bool {
        matches!(self, Kind::Conflict | Kind::Deadlock | Kind::Timeout)
    }
}

impl Error {
    /// A failure of this kind, with the transaction's fate unknown until something better is known.
    pub fn new(kind: Kind, message: impl Into<String>) -> Error {
        Error { kind, fate: Fate::Unknown, code: None, message: message.into(), at: None }
    }

    /// With the database's own code: an SQLSTATE, MySQL's number, SQLite's extended result code.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Error {
        self.code = Some(code.into());
        self
    }

    /// With another fate.
    #[must_use]
    pub fn with_fate(mut self, fate: Fate) -> Error {
        self.fate = fate;
        self
    }

    /// Of the statement with this index in a batch.
    #[must_use]
    pub fn with_place(mut self, at: usize) -> Error {
        self.at = Some(at);
        self
    }

    /// What kind of failure it was.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What is certain about the transaction.
    pub fn fate(&self) -> Fate {
        self.fate
    }

    /// The database's own code.
    pub fn code(&self) -> Option<&str> {
        self.code.as_deref()
    }

    /// What the database said.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Which statement of a batch failed.
    pub fn place(&self) -> Option<usize> {
        self.at
    }

    /// The fate of a transaction whose COMMIT was sent and met this failure.
    ///
    /// The refusals that databases document as a rollback are conflicts, deadlocks and deferred
    /// constraints. Everything else can come after the commit took effect: a terminated backend, a time
    /// limit, a shutdown.
    #[must_use]
    pub fn at_commit(self) -> Error {
        let fate = match self.kind {
            Kind::Conflict | Kind::Deadlock | Kind::Constraint => Fate::Aborted,
            _ => Fate::Unknown,
        };
        self.with_fate(fate)
    }

    /// The fate after a failure outside COMMIT, from the state of the session before and after it.
    ///
    /// A connection lost before COMMIT was sent takes its transaction along. A statement on its own commits
    /// itself, so losing its answer leaves it unknown whether it did.
    #[must_use]
    pub(crate) fn at_statement(self, was_open: bool, is_open: bool, is_lost: bool) -> Error {
        let fate = match (is_lost, was_open, is_open) {
            (true, true, _) => Fate::Aborted,
            (true, false, _) => Fate::Unknown,
            (false, _, true) => Fate::Open,
            (false, _, false) => Fate::Aborted,
        };
        self.with_fate(fate)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.code {
            Some(code) => write!(f, "{} ({}, {code})", self.message, self.kind.name()),
            None => write!(f, "{} ({})", self.message, self.kind.name()),
        }
    }
}

impl std::error::Error for Error {}
