//! What a format would lose of a history.
//!
//! [`Losses`] counts what has no place in the format, and describes it. Linear in the history.

use super::{Capabilities, InitialRule, Intervals, Names, UnknownReads, integer};
use crate::Format;
use crate::text::value::{is_edn_atom, is_json_atom};
use anomalist_history::{History, Op, OpHead, OpKind, Outcome, TxnId, Value, View};

/// What the format would lose of this history, for instance "3 aborted transactions"; empty: nothing.
pub fn check(history: &History, format: Format, capabilities: &Capabilities) -> Vec<String> {
    let mut losses = Losses::default();
    losses.count_transactions(history, capabilities);
    losses.count_operations(history, capabilities);
    losses.count_facts(history, format, capabilities);
    losses.describe(capabilities)
}

/// How much of what has no place in the format.
#[derive(Default)]
struct Losses {
    aborted: usize,
    indeterminate: usize,
    empty: usize,
    lists: usize,
    registers: usize,
    /// Reads without a result.
    unknown: usize,
    nil: usize,
    keys: usize,
    values: usize,
    /// Operations on another initial value.
    initial: usize,
    /// Transactions that would be read as the initial state.
    vanishing: usize,
    /// Transactions without the timestamps that the format needs.
    unstamped: usize,
    stamps: usize,
    snapshots: usize,
    intervals: usize,
    /// Ends of transactions of unknown outcome.
    ends: usize,
    metadata: usize,
    versions: usize,
}

impl Losses {
    fn count_transactions(&mut self, history: &History, c: &Capabilities) {
        for t in history.txns() {
            match history.outcome(t) {
                _ if c.outcome(history, t) => {}
                Outcome::Aborted => self.aborted += 1,
                _ => self.indeterminate += 1,
            }
            self.empty += usize::from(!c.empty && history.op_range(t).is_empty());
        }
    }

    fn count_operations(&mut self, history: &History, c: &Capabilities) {
        let rewritten = writes_initial(history);
        for t in history.txns() {
            let committed = history.outcome(t) == Outcome::Committed;
            for i in history.op_range(t) {
                let (head, value) = (history.heads()[i], history.values()[i]);
                let (kind, key) = (head.kind(), head.key());
                if value == Value::UNKNOWN {
                    self.unknown += usize::from(!c.unknown_read(committed));
                } else if (kind == OpKind::Append || value.is_list()) && !c.lists {
                    self.lists += 1;
                } else if kind == OpKind::Append || value.is_list() {
                    self.values += usize::from(!in_place(value, c.values) && !fits(history, value, c.values));
                } else if !c.registers {
                    self.registers += 1;
                } else if c.moves_initial(history, Op { kind, key, value }, rewritten[key.index()]) {
                    self.initial += 1;
                } else if value == Value::NIL || c.has_initial() && is_initial(history, head, value) {
                    let initial = c.has_initial() && is_initial(history, head, value);
                    let as_nil = value == Value::NIL || c.initial == InitialRule::Nil;
                    let silent = head.is_read() && !committed && c.unknown_reads == UnknownReads::Uncommitted;
                    self.nil += usize::from(as_nil && silent || !(c.nil || initial));
                } else if !in_place(value, c.values) && !fits(history, value, c.values) {
                    self.values += 1;
                }
            }
        }
    }

    /// Names of keys, and what is recorded about transactions besides their operations.
    fn count_facts(&mut self, history: &History, format: Format, c: &Capabilities) {
        let txns = history.txn_count();
        self.keys = history.keys().filter(|&k| !fits(history, history.key_label(k), c.keys)).count();
        self.vanishing = usize::from(begins_with_initial_state(history, format));
        match history.stamps() {
            None if c.needs_stamps => self.unstamped = txns,
            Some(_) if !c.stamps => self.stamps = txns,
            _ => {}
        }
        if !c.snapshots {
            self.snapshots = history.txns().filter(|&t| history.snapshot(t).is_some()).count();
        }
        for (t, interval) in history.txns().zip(history.intervals().unwrap_or_default()) {
            let undecided = history.outcome(t) == Outcome::Indeterminate && interval.completed.is_some();
            self.intervals += usize::from(c.intervals == Intervals::Never);
            self.ends += usize::from(c.intervals == Intervals::Decided && undecided);
        }
        if !c.metadata {
            self.metadata = history.metadata().len();
        }
        if history.has_versions() && format != Format::Anomalist {
            let numbered = |t: TxnId| history.ops(t).filter(|(op, _)| history.version(*op).is_some()).count();
            self.versions = history.txns().map(numbered).sum();
        }
    }

    fn describe(&self, c: &Capabilities) -> Vec<String> {
        let counts = [
            (self.aborted, "aborted transaction", ""),
            (self.indeterminate, "transaction", "of unknown outcome"),
            (self.empty, "empty transaction", ""),
            (self.lists, "list operation", ""),
            (self.registers, "register operation", ""),
            (self.unknown, "read", "without a result"),
            (self.nil, "nil value", ""),
            (self.keys, "key", not_writable(c.keys)),
            (self.values, "value", not_writable(c.values)),
            (self.initial, "operation", "on a different initial value"),
            (self.vanishing, "transaction", "that would be read as the initial state"),
            (self.unstamped, "transaction", "without timestamps"),
            (self.stamps, "pair", "of timestamps"),
            (self.snapshots, "snapshot", "as sets of ids"),
            (self.intervals, "real-time interval", ""),
            (self.ends, "time", "at which a transaction of unknown outcome ended"),
            (self.metadata, "transaction", "with metadata"),
            (self.versions, "version number", ""),
        ];
        counts
            .iter()
            .filter(|(count, ..)| *count > 0)
            .map(|&(count, what, which)| counted(count, what, which))
            .collect()
    }
}

/// Which names or values a format cannot write, after "a value".
fn not_writable(names: Names) -> &'static str {
    match names {
        Names::Natural63 | Names::Natural64 => "that is not a natural number",
        Names::Json => "that is not a JSON value",
        Names::Edn => "that is not an EDN value",
        Names::Integer64 | Names::Any => "that is not a 64-bit number",
    }
}

/// A number of things: "1 value that is not a JSON value", "2 values that are not JSON values".
fn counted(count: usize, what: &str, which: &str) -> String {
    let plural = || match which.strip_prefix("that is not ").and_then(|rest| rest.split_once(' ')) {
        Some((_, noun)) => format!("that are not {noun}s"),
        None => which.to_owned(),
    };
    let (s, which) = if count == 1 { ("", which.to_owned()) } else { ("s", plural()) };
    let space = if which.is_empty() { "" } else { " " };
    format!("{count} {what}{s}{space}{which}")
}

/// Which keys a transaction writes their initial value to.
fn writes_initial(history: &History) -> Vec<bool> {
    let mut rewritten = vec![false; history.key_count()];
    for (head, &value) in history.heads().iter().zip(history.values()) {
        if !head.is_read() && history.initial().of(head.key()) == Some(value) {
            rewritten[head.key().index()] = true;
        }
    }
    rewritten
}

fn is_initial(history: &History, head: OpHead, value: Value) -> bool {
    head.is_read() && history.initial().of(head.key()) == Some(value)
}

/// True if a reader of the format would take the first transaction for the initial state: alone in its
/// session, writing only 0.
fn begins_with_initial_state(history: &History, format: Format) -> bool {
    let first = history.txns().find(|&t| history.position(t) == 0);
    matches!(format, Format::Plume | Format::Dbcop)
        && history.txn_count() > 1
        && first.is_some_and(|t| {
            let mut ops = history.ops(t).map(|(_, op)| op);
            history.outcome(t) == Outcome::Committed
                && history.session_range(history.session_of(t)).len() == 1
                && !history.op_range(t).is_empty()
                && ops.all(|op| op.kind == OpKind::Write && Value::int(0) == Some(op.value))
        })
}

#[inline]
fn in_place(value: Value, names: Names) -> bool {
    let natural = matches!(names, Names::Natural63 | Names::Natural64);
    matches!(value.view(), View::Int(i) if i >= 0 || !natural)
}

fn fits(history: &History, value: Value, names: Names) -> bool {
    let writable = match names {
        Names::Any => return true,
        Names::Json => is_json_atom,
        Names::Edn => is_edn_atom,
        _ => return integer(history, value).is_some_and(|n| names.holds(n)),
    };
    let one = |value: Value| match value.view() {
        View::Atom(id) => {
            let (kind, text) = history.atom(id);
            writable(kind, text)
        }
        _ => true,
    };
    history.list(value).map_or_else(|| one(value), |list| list.iter().all(|&element| one(element)))
}
