//! Events for people and for programs.

use super::ingest::BadLine;
use crate::exit::Exit;
use anomalist_level::Level;
use anomalist_online::{Checker, Event, Fault, Finding, RECTIFIED_MS, Shown, Stats, Store, TxnName};
use anomalist_timestamp::{Axiom, Mode};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::time::Duration;

/// How events are written.
#[derive(Clone, Copy)]
pub struct Voice {
    /// JSON lines, else text.
    pub json: bool,
    /// The level asked for.
    pub level: Level,
    /// Its axioms.
    pub mode: Mode,
}

/// Lines that were not used, by reason.
#[derive(Clone, Copy, Default)]
pub struct Lines {
    /// Read so far, blank ones included.
    pub read: u64,
    /// Malformed.
    pub malformed: u64,
    /// Well-formed, without timestamps.
    pub untimed: u64,
}

impl Voice {
    /// True if an axiom belongs to the level; what breaks another is a warning.
    pub fn forbids(&self, axiom: Axiom) -> bool {
        self.level.forbids(axiom.kind(self.mode))
    }

    /// Violations of the level that stand.
    pub fn standing(&self, stats: &Stats) -> u64 {
        Axiom::ALL.iter().filter(|&&axiom| self.forbids(axiom)).map(|&axiom| stats.standing(axiom)).sum()
    }

    fn unconfirmed<S: Store>(&self, checker: &Checker<S>) -> u64 {
        let forbidden = Axiom::ALL.iter().filter(|&&axiom| self.forbids(axiom));
        forbidden.map(|&axiom| checker.unconfirmed(axiom)).sum()
    }

    /// The verdict on the level at the end, and the reason if it is unknown. `doubt` says why the absence
    /// of violations proves nothing.
    pub fn verdict<S: Store>(&self, checker: &Checker<S>, doubt: Option<&str>) -> (Exit, Option<String>) {
        let stats = checker.stats();
        let violated = self.standing(stats) > 0;
        let reason = if stats.no_start > 0 {
            format!(
                "{} transactions without a start timestamp, which snapshot isolation needs, were not checked",
                stats.no_start
            )
        } else if violated && stats.doubts > 0 {
            format!(
                "violations may rest on a transaction of unknown outcome: {} transactions that may have written what \
                 showed that it committed arrived later",
                stats.doubts
            )
        } else if violated && self.standing(stats) <= self.unconfirmed(checker) {
            "violations were reported before a restart, and what showed them has not been read again"
                .to_owned()
        } else if !violated && checker.open() > 0 {
            format!(
                "{} reads could not be judged: they are right only if one of several transactions of unknown outcome \
                 committed, or are of a written value that was appended to",
                checker.open()
            )
        } else if violated {
            return (Exit::Violated, None);
        } else if let Some(doubt) = doubt {
            doubt.to_owned()
        } else {
            return (Exit::Holds, None);
        };
        (Exit::Undecided, Some(reason))
    }

    /// Writes an event as a line. Only violations, warnings and retractions have a number.
    pub fn event(&self, out: String, event: &Event, seq: u64, source: &dyn Fn(u32) -> String) -> String {
        let (name, finding, holds) = match event {
            Event::Violation(finding) if self.forbids(finding.axiom()) => ("violation", finding, None),
            Event::Violation(finding) => ("warning", finding, None),
            Event::Retracted(finding) => ("retracted", finding, None),
            Event::Provisional { finding, holds } => ("provisional", finding, Some(*holds)),
            Event::Fault { fault, origin } => {
                let place = (source(origin.source), origin.line, None);
                return out + &self.error(kind(fault), place, &message(fault));
            }
        };
        if !self.json {
            return text(out, name, finding, holds);
        }
        let mut out = Object::within(out, name);
        if holds.is_none() {
            out.put("seq", seq);
        }
        out.put("code", finding.axiom().code());
        out.put_txn("transaction", &finding.txn);
        out.put_shown("session", Some(&finding.txn.session));
        out.put("position", finding.txn.position);
        out.put_shown("key", finding.key.as_ref());
        out.put_some("operation", finding.read);
        out.put_shown("read", finding.seen.as_ref());
        out.put_shown("expected", finding.expected.as_ref());
        if let Some(other) = &finding.other {
            out.put_txn("other", other);
        }
        out.put_some("holds", holds);
        out.end()
    }

    /// A line that could not be used.
    pub fn bad_line(&self, bad: &BadLine, source: String) -> String {
        let kind = if bad.untimed { "untimed" } else { "malformed" };
        self.error(kind, (source, bad.origin.line, Some(bad.column)), &bad.message)
    }

    /// Something wrong with the stream.
    pub fn error(
        &self,
        kind: &str,
        (source, line, column): (String, u64, Option<u64>),
        message: &str,
    ) -> String {
        if !self.json {
            let column = column.map(|c| format!(":{c}")).unwrap_or_default();
            return format!("error: {source}:{line}{column}: {}", anomalist_report::printable(message));
        }
        let mut out = Object::new("error");
        out.put("kind", kind);
        out.put("source", source);
        out.put("line", line);
        out.put_some("column", column);
        out.put("message", message);
        out.end()
    }

    /// The last line. `doubt` says why the absence of violations proves nothing.
    pub fn summary<S: Store>(
        &self,
        checker: &Checker<S>,
        lines: Lines,
        took: Duration,
        doubt: Option<&str>,
    ) -> String {
        let stats = checker.stats();
        if !self.json {
            return self.summary_text(checker, lines, took, doubt);
        }
        let by_code = |count: &dyn Fn(Axiom) -> u64| {
            let counts = Axiom::ALL.iter().map(|&axiom| (axiom.code().to_owned(), Value::from(count(axiom))));
            Value::Object(counts.collect())
        };
        let rectified: Map<String, Value> = RECTIFIED_MS
            .iter()
            .zip(stats.rectified)
            .map(|(&end, n)| (if end == u32::MAX { "more".to_owned() } else { format!("<{end}") }, n.into()))
            .collect();
        let mut out = Object::new("summary");
        out.put("anomalist", env!("CARGO_PKG_VERSION"));
        out.put("level", self.level.name());
        let (exit, reason) = self.verdict(checker, doubt);
        out.put("verdict", word(exit));
        out.put_some("reason", reason);
        out.put("transactions", stats.arrived);
        out.put("checked", stats.checked);
        out.put("not_committed", stats.not_committed);
        out.put("operations", stats.operations);
        out.put("keys", checker.keys());
        out.put("standing", self.standing(stats));
        out.put("unsettled", checker.unsettled());
        out.put("violations", by_code(&|axiom| stats.standing(axiom)));
        out.put("reported", by_code(&|axiom| stats.violations[axiom as usize]));
        out.put("retracted", by_code(&|axiom| stats.retracted[axiom as usize]));
        out.put(
            "errors",
            json!({
                "malformed": lines.malformed,
                "untimed": lines.untimed,
                "repeated": stats.repeated,
                "session-order": stats.session_order,
                "future": stats.future,
                "header": stats.headers,
            }),
        );
        out.put("lines", lines.read);
        out.put(
            "flip_flops",
            json!({"pairs": stats.flip_flops, "transactions": stats.flipped_txns, "rectified_ms": rectified}),
        );
        out.put(
            "memory",
            json!({
                "bytes": checker.memory(),
                "peak": stats.peak_bytes,
                "collections": stats.collections,
                "spilled_bytes": stats.spilled_bytes,
                "spilled_chunks": stats.spilled_chunks,
                "reloaded_chunks": stats.reloaded_chunks,
                "evicted_keys": stats.evicted_keys,
            }),
        );
        out.put("elapsed_ms", took.as_millis() as u64);
        out.end()
    }

    fn summary_text<S: Store>(
        &self,
        checker: &Checker<S>,
        lines: Lines,
        took: Duration,
        doubt: Option<&str>,
    ) -> String {
        let stats = checker.stats();
        let open = checker.open() as u64;
        let unsettled = checker.unsettled() as u64 - open;
        let (exit, reason) = self.verdict(checker, doubt);
        let mut out = format!(
            "{} {}: {} transactions, {} operations in {:.1} s",
            self.level.name(),
            word(exit),
            stats.checked,
            stats.operations,
            took.as_secs_f64()
        );
        if let Some(reason) = reason {
            out += &format!("\n  {reason}");
        }
        for axiom in Axiom::ALL.iter().filter(|&&axiom| stats.standing(axiom) > 0) {
            let warning = if self.forbids(*axiom) { "" } else { " (no violation of this level)" };
            out += &format!("\n  {:<10} {}{warning}", axiom.code(), stats.standing(*axiom));
        }
        let retracted: u64 = stats.retracted.iter().sum();
        let errors = [
            (unsettled, "not settled when it was interrupted, and left open"),
            (open, "reads open: right only if a transaction of unknown outcome committed"),
            (retracted, "retracted"),
            (stats.not_committed, "not committed, not checked"),
            (lines.malformed, "malformed lines"),
            (lines.untimed, "without timestamps"),
            (stats.repeated, "repeated ids"),
            (stats.session_order, "delivered out of session order"),
            (stats.future, "with timestamps far ahead of all others"),
            (stats.headers, "contradicting headers"),
        ];
        for (count, what) in errors.into_iter().filter(|e| e.0 > 0) {
            out += &format!("\n  {count} {what}");
        }
        let flips: u64 = stats.flip_flops.iter().sum();
        if flips > 0 {
            out += &format!("\n  {flips} reads changed their verdict before it settled");
        }
        if stats.spilled_chunks > 0 {
            out += &format!(
                "\n  {} spilled, {} chunks read back",
                super::bytes(stats.spilled_bytes as usize),
                stats.reloaded_chunks
            );
        }
        out
    }
}

/// A verdict as it is written.
fn word(exit: Exit) -> &'static str {
    match exit {
        Exit::Violated => "violated",
        Exit::Holds => "holds",
        _ => "unknown",
    }
}

/// A JSON object whose fields stay in the order in which they were put.
pub struct Object(String);

impl Object {
    /// With the field `event`.
    pub fn new(event: &str) -> Object {
        Object::within(String::new(), event)
    }

    /// The same at the end of a text: thousands of events are written into one.
    fn within(text: String, event: &str) -> Object {
        let mut out = Object(text + "{\"event\":\"");
        out.0 += event;
        out.0.push('"');
        out
    }

    /// Adds a field; the name needs no escapes.
    pub fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.name(name);
        // Writing to a string does not fail.
        _ = write!(self.0, "{}", value.into());
    }

    fn name(&mut self, name: &str) {
        self.0 += ",\"";
        self.0 += name;
        self.0 += "\":";
    }

    /// Adds a name or a value, as a string.
    fn put_shown(&mut self, name: &str, value: Option<&Shown>) {
        match value {
            None => {}
            Some(Shown::Text(text)) => self.put(name, &**text),
            Some(number) => self.quote(name, format_args!("{number}")),
        }
    }

    /// Adds a transaction's name.
    fn put_txn(&mut self, name: &str, txn: &TxnName) {
        match (&txn.id, &txn.session) {
            (Some(id), _) => self.put_shown(name, Some(id)),
            (None, Shown::Text(session)) => self.put(name, format!("{session}:{}", txn.position)),
            _ => self.quote(name, format_args!("{txn}")),
        }
    }

    /// Adds a string that needs no escapes.
    fn quote(&mut self, name: &str, text: std::fmt::Arguments<'_>) {
        self.name(name);
        _ = write!(self.0, "\"{text}\"");
    }

    /// Adds a field, if there is something to say.
    pub fn put_some<T: Into<Value>>(&mut self, name: &str, value: Option<T>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }

    /// The text.
    pub fn end(self) -> String {
        self.0 + "}"
    }
}

fn kind(fault: &Fault) -> &'static str {
    match fault {
        Fault::Repeated { .. } => "repeated",
        Fault::SessionOrder { .. } => "session-order",
        Fault::Future { .. } => "future",
        Fault::NoStart => "untimed",
        Fault::Initial => "header",
    }
}

fn message(fault: &Fault) -> String {
    match fault {
        Fault::Repeated { id } => format!("transaction {id} was received before; this one is not checked"),
        Fault::SessionOrder { txn } => {
            format!("transaction {txn} committed before the one before it in session {} began", txn.session)
        }
        Fault::NoStart => {
            "this transaction has no start timestamp, which snapshot isolation needs; it is not checked"
                .to_owned()
        }
        Fault::Future { txn } => format!("the timestamps of transaction {txn} are far ahead of all others"),
        Fault::Initial => {
            "a header contradicts an earlier one about initial values; the earlier one counts".to_owned()
        }
    }
}

fn text(mut out: String, name: &str, finding: &Finding, holds: Option<bool>) -> String {
    if name != "violation" {
        out += match holds {
            Some(true) => "maybe ",
            Some(false) => "not ",
            None => "",
        };
        if holds.is_none() {
            out += name;
            out += ": ";
        }
    }
    out + &anomalist_report::printable(&finding.to_string())
}
