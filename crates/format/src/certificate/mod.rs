//! Certificate files: verdicts with their proofs, as one JSON document that needs only the history beside
//! it.
//!
//! `docs/certificate.md` describes the document. Transactions go by their names (or, where several share
//! one, by their place in the input), operations by transaction and place; the history is named by a
//! fingerprint of its content. Reading checks the shape and resolves the names, nothing else: whether a
//! proof proves anything is for `anomalist-verify`.

mod read;
mod write;

pub use read::read;
pub use write::write;

use anomalist_history::{AtomKind, History, Interval, OpKind, Outcome, TxnId, Value, View};
use anomalist_level::Judgement;
use rustc_hash::FxHashMap;
use std::fmt;

/// The version of the document's shape.
const SCHEMA: u64 = 1;

/// What a certificate file says.
#[derive(Clone, PartialEq, Debug)]
pub struct Statement {
    /// The verdicts, the anomalies that they rest on, and the proofs. Counts of anomalies are not part of a
    /// certificate: one instance is enough.
    pub judgement: Judgement,
}

/// Why a certificate file says nothing about a history.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CertificateError {
    /// Not JSON.
    #[error("{line}:{column}: {message}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What the parser says.
        message: String,
    },
    /// JSON, but not of the shape of a certificate.
    #[error("{place}: expected {expected}")]
    Shape {
        /// Where in the document, for instance `proofs[2].steps[0].clause`.
        place: String,
        /// What should be there.
        expected: &'static str,
    },
    /// It is about another history.
    #[error(
        "the certificate is about another history: its fingerprint is {found}, this history's is {expected}"
    )]
    OtherHistory {
        /// The fingerprint in the file; of several documents, the first.
        found: String,
        /// That of the history.
        expected: Fingerprint,
    },
    /// It names something that the history does not have.
    #[error("{place}: the history has no such {what}")]
    Unknown {
        /// Where in the document.
        place: String,
        /// `transaction` or `operation`.
        what: &'static str,
    },
}

/// Tells histories apart by content: sessions, transactions, outcomes, operations, times, declared levels
/// and initial values, with their names. Against mix-ups, not against forgers: 128 bits, not cryptographic.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Fingerprint(u128);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Fingerprint {
    /// The fingerprint of a history. Linear.
    pub fn of(history: &History) -> Fingerprint {
        let mut mixer = Mixer(0x6C62_272E_07BB_0142_62B8_2175_6295_C58D);
        for s in history.sessions() {
            mixer.value(history, history.session_label(s));
            mixer.number(history.session_range(s).len() as u64);
        }
        for t in history.txns() {
            mixer.value(history, history.txn_label(t).unwrap_or(Value::NIL));
            mixer.number(match history.outcome(t) {
                Outcome::Committed => 0,
                Outcome::Aborted => 1,
                Outcome::Indeterminate => 2,
            });
            if let Some(intervals) = history.intervals() {
                let Interval { invoked, completed } = intervals[t.index()];
                mixer.number(invoked);
                mixer.number(completed.map_or(u64::MAX, |end| end));
            }
            if let Some(level) = history.metadata().get(&t).and_then(|facts| facts.get("level")) {
                mixer.bytes(b"level");
                mixer.bytes(level.as_bytes());
            }
            mixer.number(history.op_range(t).len() as u64);
            for (_, op) in history.ops(t) {
                mixer.number(match op.kind {
                    OpKind::Read => 0,
                    OpKind::Write => 1,
                    OpKind::Append => 2,
                });
                mixer.value(history, history.key_label(op.key));
                mixer.value(history, op.value);
            }
        }
        for key in history.keys() {
            match history.initial().of(key) {
                Some(value) => mixer.value(history, value),
                None => mixer.number(u64::MAX),
            }
        }
        Fingerprint(mixer.0)
    }
}

/// FNV-1a with 128 bits.
struct Mixer(u128);

impl Mixer {
    fn bytes(&mut self, bytes: &[u8]) {
        const PRIME: u128 = (1 << 88) + 0x13B;
        for &byte in bytes {
            self.0 = (self.0 ^ u128::from(byte)).wrapping_mul(PRIME);
        }
    }

    fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    fn value(&mut self, history: &History, value: Value) {
        match value.view() {
            View::Nil => self.bytes(b"n"),
            View::Unknown => self.bytes(b"?"),
            View::Int(i) => {
                self.bytes(b"i");
                self.bytes(&i.to_le_bytes());
            }
            View::Atom(id) => {
                let (kind, text) = history.atom(id);
                self.bytes(match kind {
                    AtomKind::Text => b"t",
                    AtomKind::Keyword => b"k",
                    AtomKind::Token => b"o",
                    AtomKind::Compound => b"c",
                });
                self.number(text.len() as u64);
                self.bytes(text.as_bytes());
            }
            View::List(_) => {
                let elements = history.list(value).unwrap_or_default();
                self.bytes(b"l");
                self.number(elements.len() as u64);
                // Elements of lists are scalars: one level deep.
                for &element in elements {
                    self.value(history, element);
                }
            }
        }
    }
}

/// Names of transactions, and which of them say who is meant.
struct Names {
    by_name: FxHashMap<String, Option<TxnId>>,
    by_position: Vec<TxnId>,
}

impl Names {
    fn new(history: &History) -> Names {
        let mut names =
            Names { by_name: FxHashMap::default(), by_position: vec![TxnId(0); history.txn_count()] };
        for t in history.txns() {
            names.by_name.entry(history.raw_name(t)).and_modify(|known| *known = None).or_insert(Some(t));
            if let Some(slot) = names.by_position.get_mut(history.position(t) as usize) {
                *slot = t;
            }
        }
        names
    }
}
