//! What the checker reports.

use crate::{Key128, Origin};
use anomalist_history::inert;
use anomalist_timestamp::{Axiom, Identity};

/// A name or a value as people write it. Nearly all are numbers, which need no memory of their own: a
/// broken database makes violations faster than their texts could be allocated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shown {
    /// No value.
    Nil,
    /// A number.
    Int(i64),
    /// Anything else; `?` if the text was forgotten.
    Text(Box<str>),
}

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Shown::Nil => f.write_str("nil"),
            Shown::Int(value) => value.fmt(f),
            Shown::Text(text) => f.write_str(&inert(text)),
        }
    }
}

impl From<String> for Shown {
    fn from(text: String) -> Shown {
        Shown::Text(text.into())
    }
}

/// A transaction in reports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TxnName {
    /// Its session.
    pub session: Shown,
    /// Its rank in the session, from 1.
    pub position: u32,
    /// Its own name, if it has one.
    pub id: Option<Shown>,
}

impl std::fmt::Display for TxnName {
    /// As in the input, or session and position: `3:17`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.id {
            Some(id) => id.fmt(f),
            None => write!(f, "{}:{}", self.session, self.position),
        }
    }
}

/// By session and rank: what makes a transaction this one.
pub type TxnKey = (Key128, u32);

/// A violation, with names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What makes it this violation and no other.
    pub identity: Identity<TxnKey, Key128>,
    /// By whom.
    pub txn: TxnName,
    /// On which key.
    pub key: Option<Shown>,
    /// SESSION: the transaction before it. NOCONFLICT: the earlier of the two. EXT, TIE: whose version it
    /// should have read.
    pub other: Option<TxnName>,
    /// INT, EXT, TIE: the read, counted from 0 in its transaction.
    pub read: Option<u32>,
    /// What was read.
    pub seen: Option<Shown>,
    /// EXT: what should have been read.
    pub expected: Option<Shown>,
}

impl Finding {
    /// What is broken.
    pub fn axiom(&self) -> Axiom {
        self.identity.axiom
    }
}

impl std::fmt::Display for Finding {
    /// One line for people.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: transaction {} (session {})", self.axiom().code(), self.txn, self.txn.session)?;
        let key = self.key.as_ref().map_or_else(|| "?".to_owned(), ToString::to_string);
        let other = self
            .other
            .as_ref()
            .map_or_else(|| "the initial state".to_owned(), |o| format!("transaction {o}"));
        let seen = self.seen.as_ref().map(|seen| format!(" = {seen}")).unwrap_or_default();
        let expected = self.expected.as_ref().map(|e| format!(" {e}")).unwrap_or_default();
        match self.axiom() {
            Axiom::Timestamp => f.write_str(" starts after it commits"),
            Axiom::Session => write!(f, " does not follow {other} of its session"),
            Axiom::Int => write!(f, " read {key}{seen} against its own{expected}"),
            Axiom::Ext => write!(f, " read {key}{seen}, should have read{expected} of {other}"),
            Axiom::NoConflict => write!(f, " and {other} both wrote {key}, neither saw the other"),
            Axiom::Tie => write!(f, " read {key}{seen}, one of several versions with the same commit"),
        }
    }
}

/// Something wrong with the stream, not with the database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Another transaction has the same id. This one was not checked.
    Repeated {
        /// The id.
        id: Shown,
    },
    /// It ended before its predecessor in the session began: delivered out of order. It was checked.
    SessionOrder {
        /// The transaction.
        txn: TxnName,
    },
    /// It has no start timestamp, and snapshot isolation needs one. It was not checked, and what others
    /// read of it looks wrong.
    NoStart,
    /// Its stamps lie far beyond all others. It was checked.
    Future {
        /// The transaction.
        txn: TxnName,
    },
    /// What keys hold at first was said twice, differently, or too late. The first word counts.
    Initial,
}

/// An event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A settled violation (or the warning TIE).
    Violation(Finding),
    /// A violation reported before is none, by what arrived since.
    Retracted(Finding),
    /// A verdict that is not settled has changed: now it is a violation, or no longer. Only on demand.
    Provisional {
        /// The violation.
        finding: Finding,
        /// Whether it now is one.
        holds: bool,
    },
    /// Something wrong with the stream.
    Fault {
        /// What.
        fault: Fault,
        /// Where.
        origin: Origin,
    },
}
