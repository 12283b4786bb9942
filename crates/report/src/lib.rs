//! Results as text, HTML, JSON, DOT, SVG, JUnit, SARIF and GitHub annotations.
//!
//! A [`Subject`] is a history with what was found out about it; every function here turns subjects, or one anomaly, into
//! a string. No I/O, no printing, no clock: same input, same bytes. What levels and anomalies are called, and what they
//! mean, comes from the tables of `anomalist-level`.
//!
//! ```
//! use anomalist_check::{Budget, Request, check};
//! use anomalist_history::{Builder, Index, OpKind};
//! use anomalist_report::{HistoryFacts, Style, Subject};
//!
//! // A session that writes x = 1 and then reads the initial value.
//! let mut b = Builder::new();
//! let (zero, one) = (b.int(0), b.int(1));
//! b.set_initial_default(Some(zero));
//! let (x, session) = (b.key(one), b.session(one));
//! let writer = b.transaction(session);
//! b.op(writer, OpKind::Write, x, one);
//! let reader = b.transaction(session);
//! b.op(reader, OpKind::Read, x, zero);
//! let history = b.finish()?;
//!
//! let index = Index::build(&history, 1.try_into()?);
//! let judgement = check(&history, &index, &Request::default(), &Budget::unlimited());
//! let facts = HistoryFacts::of(&history, "h.txt", "plume");
//! let subject = Subject { history: &history, facts: &facts, judgement: &judgement, timing: None, required: &[] };
//! assert!(anomalist_report::text(&subject, &Style::default()).contains("fractured-read-co (TAP-k)"));
//! assert_eq!(anomalist_report::json(&[subject])["history"]["transactions"], 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cast;
mod ci;
mod direct;
mod doc;
mod dot;
mod example;
mod explain;
mod html;
mod json;
mod layout;
mod matrix;
mod refuted;
mod sarif;
mod stamps;
mod summary;
mod svg;
mod text;
mod versions;
mod vocabulary;

#[cfg(test)]
mod tests;

pub use ci::{github, junit};
pub use dot::dot;
pub use explain::explain;
pub use html::html;
pub use json::{json, json_text};
pub use layout::Style;
pub use matrix::{Column, matrix_markdown, matrix_text};
pub use sarif::sarif;
pub use summary::summary_table;
pub use svg::svg;
pub use text::{example_text, text};
pub use vocabulary::{explain_anomaly, explain_level, explain_phenomenon, levels_json, levels_text};

use anomalist_history::{History, Outcome};
use anomalist_level::{Anomaly, Judgement, Level, Verdict};

/// What a history consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryFacts {
    /// Where it came from.
    pub path: String,
    /// The format it was written in.
    pub format: String,
    /// `register`, `list-append`, `mixed` or `timestamped`.
    pub kind: &'static str,
    /// Number of sessions.
    pub sessions: u64,
    /// Number of transactions, whatever their outcome.
    pub transactions: u64,
    /// Those that aborted.
    pub aborted: u64,
    /// Those of which nobody knows whether they took effect.
    pub indeterminate: u64,
    /// Number of operations.
    pub operations: u64,
    /// Number of keys.
    pub keys: u64,
}

impl HistoryFacts {
    /// Counts.
    pub fn of(history: &History, path: &str, format: &str) -> HistoryFacts {
        let with = |outcome| history.txns().filter(|&t| history.outcome(t) == outcome).count() as u64;
        let kind = match (history.stamps().is_some(), history.has_lists(), history.has_registers()) {
            (true, ..) => "timestamped",
            (_, true, true) => "mixed",
            (_, true, false) => "list-append",
            _ => "register",
        };
        HistoryFacts {
            path: path.to_owned(),
            format: format.to_owned(),
            kind,
            sessions: history.session_count() as u64,
            transactions: history.txn_count() as u64,
            aborted: with(Outcome::Aborted),
            indeterminate: with(Outcome::Indeterminate),
            operations: history.op_count() as u64,
            keys: history.key_count() as u64,
        }
    }
}

/// How long it took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// Up to the indexed history, in milliseconds.
    pub load_ms: f64,
    /// The rest, in milliseconds.
    pub check_ms: f64,
}

/// A history and what was found out about it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The history.
    pub history: &'a History,
    /// What it consists of.
    pub facts: &'a HistoryFacts,
    /// What was found out.
    pub judgement: &'a Judgement,
    /// How long that took.
    pub timing: Option<Timing>,
    /// The levels that must hold; empty if none was asked for.
    pub required: &'a [Level],
}

impl Subject<'_> {
    /// Whether an anomaly is a failure: it breaks a required level, or nothing was required and it breaks any.
    fn fails(&self, anomaly: &Anomaly) -> bool {
        self.judgement.levels.iter().any(|l| {
            (self.required.is_empty() || self.required.contains(&l.level))
                && l.verdict == Verdict::Violated
                && l.anomalies.contains(&anomaly.kind)
        })
    }

    /// The line of the input on which an anomaly shows first.
    fn line(&self, anomaly: &Anomaly) -> Option<u32> {
        anomaly.witness.transactions.iter().filter_map(|&t| self.history.line(t)).min()
    }
}

/// The everyday name of an example: that of the pattern its cycle is, where the kind is more than one pattern.
fn everyday(history: &anomalist_history::History, anomaly: &anomalist_level::Anomaly) -> &'static str {
    use anomalist_level::AnomalyKind as A;
    match anomaly.pattern(history) {
        Some(pattern) => pattern.info().everyday,
        None if matches!(anomaly.kind, A::GSingleItem | A::GNonadjacentItem | A::G2Item) => "",
        None => anomaly.kind.info().everyday,
    }
}

/// `fractured-read-co (TAP-k)`; the code only where it says more than the name.
fn titled(kind: anomalist_level::AnomalyKind) -> String {
    let (name, code) = (kind.name(), kind.code());
    if name.eq_ignore_ascii_case(code) { name.to_owned() } else { format!("{name} ({code})") }
}
