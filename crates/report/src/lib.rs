//! Results as text, HTML, Markdown, JSON, DOT, SVG, JUnit, SARIF, GitLab's code quality and GitHub
//! annotations.
//!
//! A [`Subject`] is a history with what was found out about it; every function here turns subjects, or one
//! anomaly, into a string. No I/O, no printing, no clock: same input, same bytes. What levels and anomalies
//! are called, and what they mean, comes from the tables of `anomalist-level`.
//!
//! ```
//! use anomalist_check::{Budget, Request, check};
//! use anomalist_history::{Builder, Indexed, OpKind};
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
//! let indexed = Indexed::new(&history, 1.try_into()?);
//! let judgement = check(&indexed, &Request::default(), &Budget::unlimited());
//! let facts = HistoryFacts::of(&history, "h.txt", "plume");
//! let subject = Subject {
//!     history: &history,
//!     facts: &facts,
//!     judgement: &judgement,
//!     timing: None,
//!     required: &[],
//!     declared: false,
//!     stopped: false,
//! };
//! assert!(anomalist_report::text(&subject, &Style::default()).contains("fractured-read-co (TAP-k)"));
//! assert_eq!(anomalist_report::json(&[subject])["history"]["transactions"], 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod ci;
mod direct;
mod doc;
mod documents;
mod dot;
pub mod escape;
mod example;
mod explain;
mod json;
mod ladder;
mod lanes;
mod lattice;
mod layout;
mod marks;
mod matrix;
mod otherwise;
mod outcome;
mod refuted;
mod stamps;
mod summary;
mod svg;
mod text;
mod unknown;
mod versions;
mod vocabulary;
mod witness_doc;
mod witness_view;

#[cfg(test)]
mod tests;

pub use ci::{github, junit};
pub use doc::Doc;
pub use documents::{DOCUMENTS, Document, gitlab, markdown, sarif, step_summary};
pub use dot::dot;
pub use escape::terminal as printable;
pub use explain::explain;
pub use json::{document, json, json_text};
pub use ladder::{
    Cell, Ladder, Rung, column_title, ladder, ladder_html, ladder_markdown, ladder_text, sign,
    summary_sentence,
};
pub use lattice::lattice;
pub use layout::{Style, colors, thousands};
pub use matrix::{Column, matrix_markdown, matrix_text};
pub use outcome::Outcome;
pub use summary::summary_table;
pub use svg::svg;
pub use text::{example_text, text};
pub use unknown::{Hints, bytes, reason};
pub use vocabulary::{explain_anomaly, explain_level, explain_phenomenon, levels_json, levels_text};

use anomalist_history::{History, OpId, OpKind, Outcome as End, TxnId};
use anomalist_level::{
    Anomaly, Edge, Evidence, Judgement, Level, LevelVerdict, Node, Reason, Sought, Step, Verdict,
};

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
    /// Those of which it is not known whether they took effect.
    pub indeterminate: u64,
    /// Number of operations.
    pub operations: u64,
    /// Number of keys.
    pub keys: u64,
    /// Why what holds was not put to the test, if no write was ever read.
    pub vacuous: Option<&'static str>,
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
            aborted: with(End::Aborted),
            indeterminate: with(End::Indeterminate),
            operations: history.op_count() as u64,
            keys: history.key_count() as u64,
            vacuous: None,
        }
    }
}

impl HistoryFacts {
    /// The same, with why what holds was not put to the test.
    pub fn with_vacuity(self, vacuous: Option<&'static str>) -> HistoryFacts {
        HistoryFacts { vacuous, ..self }
    }

    /// The same for operations of another datatype, such as counters, that were made into transactions.
    pub fn of_datatype(self, name: &'static str) -> HistoryFacts {
        HistoryFacts { kind: name, ..self }
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
    /// What transactions declare must hold too.
    pub declared: bool,
    /// The work was ended before everything was decided.
    pub stopped: bool,
}

impl Subject<'_> {
    /// Whether an anomaly is a failure: it breaks a required level, or nothing was required and it breaks
    /// any.
    fn fails(&self, anomaly: &Anomaly) -> bool {
        self.judgement.levels.iter().any(|l| {
            (self.required.is_empty() || self.required.contains(&l.level))
                && l.verdict == Verdict::Violated
                && l.anomalies.contains(&anomaly.kind)
        })
    }

    /// The levels that an anomaly breaks and that had to hold; all it breaks, if none had to.
    fn broken_by(&self, anomaly: &Anomaly) -> Vec<Level> {
        let broken = self.judgement.levels.iter().filter(|l| {
            (self.required.is_empty() || self.required.contains(&l.level))
                && l.verdict == Verdict::Violated
                && l.anomalies.contains(&anomaly.kind)
        });
        let broken: Vec<Level> = broken.map(|l| l.level).collect();
        if self.required.is_empty() { Level::weakest(&broken) } else { broken }
    }

    /// The line that an anomaly is about: of the reads that are part of it, the last one of the input,
    /// because before that one nothing was wrong. Transactions that merely show an order, or wrote what was
    /// read, count only if there is no such read.
    fn line(&self, anomaly: &Anomaly) -> Option<u32> {
        let witness = &anomaly.witness;
        let read = |edge: &Edge| match edge.evidence {
            Evidence::Read { read, .. }
            | Evidence::Overwritten { read, .. }
            | Evidence::Forced { read, .. } => Some(read),
            _ => None,
        };
        let txn = |node: Node| match node {
            Node::Txn(t) => Some(t),
            Node::Initial => None,
        };
        let refuted = |step: &Step| match step.reason {
            Reason::Axiom { read, .. } => Some(read),
            _ => None,
        };
        let of_reads = |reads: &mut dyn Iterator<Item = OpId>| reads.filter_map(|op| self.line_of(op)).max();
        let of_txns = |txns: &mut dyn Iterator<Item = TxnId>| txns.filter_map(|t| self.history.line(t)).max();
        let mut refuted = witness.refutation.iter().flat_map(|r| &r.steps).filter_map(refuted);
        // Of a read that nothing explains, the reader comes first.
        let first = witness.transactions.first().copied();
        let is_its_read =
            |op: &OpId| Some(self.history.txn_of(*op)) == first && self.history.op(*op).kind == OpKind::Read;
        of_reads(&mut witness.edges.iter().filter_map(read))
            .or_else(|| of_reads(&mut refuted))
            .or_else(|| of_txns(&mut witness.edges.iter().flat_map(|e| [e.from, e.to]).filter_map(txn)))
            .or_else(|| of_reads(&mut witness.operations.iter().copied().filter(is_its_read)))
            .or_else(|| of_txns(&mut first.into_iter()))
    }

    /// The line of an operation: that of its transaction, unless each operation has a line of its own, as in
    /// Plume's text, and no other transaction begins among them.
    fn line_of(&self, op: OpId) -> Option<u32> {
        let t = self.history.txn_of(op);
        let (line, range) = (self.history.line(t)?, self.history.op_range(t));
        let at = (op.index() - range.start) as u32;
        if at == 0 || self.facts.format != "plume" {
            return Some(line);
        }
        let inside = line + 1..line.saturating_add(range.len() as u32);
        let others = self.history.txns().filter_map(|other| self.history.line(other));
        let apart = others.into_iter().any(|other| inside.contains(&other));
        Some(if apart { line } else { line + at })
    }

    /// The required levels that no anomaly speaks for: of which nothing is known, or that are violated
    /// without an example. With the reason.
    fn unexplained(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for l in self.judgement.levels.iter().filter(|l| self.required.contains(&l.level)) {
            match &l.verdict {
                Verdict::Unknown(why) => found.push((format!("{} is unknown", l.level), reason(why))),
                Verdict::Violated if l.anomalies.is_empty() => {
                    found.push((format!("{} is violated", l.level), "no example at hand".to_owned()));
                }
                _ => {}
            }
        }
        let what = "the mix of declared levels";
        match self.judgement.mixed.as_ref().map(|mixed| &mixed.verdict) {
            _ if !self.declared => {}
            Some(Verdict::Holds) => {}
            Some(Verdict::Violated) => {
                found.push((format!("{what} is violated"), "no commit order suits them all".to_owned()));
            }
            Some(Verdict::Unknown(why)) => found.push((format!("{what} is unknown"), reason(why))),
            None => found.push((format!("{what} is unknown"), "no transaction declares a level".to_owned())),
        }
        for (kind, sought) in self.judgement.sought.iter().filter(|_| self.required.is_empty()) {
            if let Sought::Unknown(why) = sought {
                found.push((format!("whether there is {} is unknown", kind.code()), reason(why)));
            }
        }
        found
    }

    /// What the strongest level that holds is the strongest of: others may hold too, and stronger ones.
    fn scope(&self) -> &'static str {
        let judged = |l: &Level| self.judgement.verdict(*l).is_some();
        match self.required.is_empty() {
            _ if Level::CANONICAL.iter().all(judged) => "all levels",
            true => "levels judged",
            false => "levels asked",
        }
    }

    /// The name of a row: that of its level, and what the verdict rests on if the level is judged twice.
    fn row_name(&self, row: &LevelVerdict) -> String {
        match self.judgement.levels.iter().any(|o| o.level == row.level && o.by != row.by) {
            true => format!("{} by {}", row.level, row.by.name()),
            false => row.level.name().to_owned(),
        }
    }

    /// Whether levels were required, and all of them hold.
    fn is_satisfied(&self) -> bool {
        let holds = |l: &Level| self.judgement.verdict(*l) == Some(&Verdict::Holds);
        !self.required.is_empty() && self.required.iter().all(holds)
    }

    /// Why what holds was not put to the test, if something holds.
    fn vacuity(&self) -> Option<&'static str> {
        let holds = self.judgement.levels.iter().any(|l| l.verdict == Verdict::Holds);
        self.facts.vacuous.filter(|_| holds)
    }

    /// An anomaly of another kind, before this one, whose example is the same.
    fn twin<'b>(&'b self, anomaly: &Anomaly) -> Option<&'b Anomaly> {
        let before = self.judgement.anomalies.iter().take_while(|a| a.kind != anomaly.kind);
        before.into_iter().find(|a| alike(a, anomaly))
    }
}

/// Whether two examples are the same transactions doing the same, and are reported by their edges.
fn alike(a: &Anomaly, b: &Anomaly) -> bool {
    let set = |a: &Anomaly| {
        let (mut txns, mut ops) = (a.witness.transactions.clone(), a.witness.operations.clone());
        txns.sort_unstable();
        ops.sort_unstable();
        (txns, ops)
    };
    let reported = |a: &Anomaly| !a.kind.is_no_order() && !a.kind.is_stamp();
    reported(a) && reported(b) && set(a) == set(b)
}

/// The everyday name of an example: that of the pattern its cycle is, where the kind is more than one
/// pattern, else what the kind says of its cycle.
fn everyday(history: &anomalist_history::History, anomaly: &anomalist_level::Anomaly) -> &'static str {
    use anomalist_level::AnomalyKind as A;
    match anomaly.pattern(history) {
        Some(pattern) => pattern.info().everyday,
        None if anomaly.kind == A::GSingleItem => "cycle with one missed write",
        None if anomaly.kind == A::GNonadjacentItem => "cycle with separate missed writes",
        None if anomaly.kind == A::G2Item => "cycle with missed writes in a row",
        None => anomaly.kind.info().everyday,
    }
}

/// `fractured-read-co (TAP-k)`; the code only where it says more than the name.
fn titled(kind: anomalist_level::AnomalyKind) -> String {
    let (name, code) = (kind.name(), kind.code());
    if name.eq_ignore_ascii_case(code) { name.to_owned() } else { format!("{name} ({code})") }
}
