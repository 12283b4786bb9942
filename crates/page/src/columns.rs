//! A history in columns, for a page: what the timeline draws of every transaction, and the operations of as
//! many as fit.
//!
//! A column is a sequence of numbers (`varint.rs`), one or a few per transaction in the order of ids, so
//! that neighbours differ little and compress well. A list that was read is usually the beginning of the
//! longest one read from its key: that one is stored once, the others as its first so many elements.
//! `assets/data.js` reads all of this; change both together.

use crate::axis::{Axis, Kind};
use crate::marks;
use crate::varint::{Column, LIMIT, zigzag};
use anomalist_history::{History, KeyId, OpKind, Outcome, SessionId, TxnId, Value, View};
use serde_json::{Value as Json, json};
use std::collections::HashMap;

/// A history for the page: its description, and the bytes of its columns.
pub(crate) struct Columns {
    pub about: Json,
    pub bytes: Vec<u8>,
}

/// What a value is, in the lowest three bits of its number.
mod tag {
    pub const NIL: u64 = 0;
    pub const UNKNOWN: u64 = 1;
    pub const INT: u64 = 2;
    pub const TEXT: u64 = 3;
    pub const PREFIX: u64 = 4;
    pub const LIST: u64 = 5;
}

/// The columns of a history. The operations of `wanted` are in it, in this order of preference, up to about
/// `most` bytes.
pub(crate) fn columns(history: &History, axis: &Axis, wanted: &[TxnId], most: usize) -> Columns {
    let (lanes, sessions) = lanes(history);
    let (naming, names) = names(history);
    let operations = Operations::of(history, wanted, most);
    let columns: [(&str, Column); 10] = [
        ("lane", per_txn(history, |t, c| c.push(lanes[history.issuer(t).index()]))),
        ("span", spans(history, axis)),
        ("outcome", per_txn(history, |t, c| c.push(outcome(history.outcome(t))))),
        ("size", per_txn(history, |t, c| c.push(history.op_range(t).len() as u64))),
        ("line", lines(history)),
        ("name", names),
        ("carried", operations.carried),
        ("operations", operations.operations),
        ("keys", operations.keys),
        ("orders", operations.orders),
    ];
    let mut bytes = Vec::new();
    let mut places = serde_json::Map::new();
    for (name, column) in columns {
        places.insert(name.to_owned(), json!([bytes.len(), column.bytes.len()]));
        bytes.extend(column.bytes);
    }
    let about = json!({
        "transactions": history.txn_count(),
        "carried": operations.count,
        "sessions": sessions,
        "axis": axis.kind.name(),
        "origin": axis.origin.to_string(),
        // Where the axis is another one, they have no place on it.
        "outages": match axis.kind {
            Kind::Clock => marks::outages(history, axis.origin),
            Kind::Stamps | Kind::Place => Vec::new(),
        },
        "naming": naming,
        "lines": history.txns().any(|t| history.line(t).is_some()),
        "keys": operations.key_count,
        "initial": initial(history),
        "columns": places,
    });
    Columns { about, bytes }
}

/// The value of registers before their first write, as a header of a history file says it.
fn initial(history: &History) -> Json {
    match history.initial().default {
        None => json!({"none": true}),
        Some(value) => match value.view() {
            View::Int(n) => json!(n),
            View::Nil => Json::Null,
            _ => json!(history.show(value).raw().to_string()),
        },
    }
}

/// The lane of each session that issued anything, and the names of the lanes.
fn lanes(history: &History) -> (Vec<u64>, Vec<String>) {
    let mut names = Vec::new();
    let lane = |s: SessionId| {
        let at = names.len() as u64;
        if history.issued(s).next().is_some() {
            names.push(history.show(history.session_label(s)).raw().to_string());
        }
        at
    };
    let lanes = history.sessions().map(lane).collect();
    (lanes, names)
}

fn per_txn(history: &History, mut add: impl FnMut(TxnId, &mut Column)) -> Column {
    let mut column = Column::default();
    history.txns().for_each(|t| add(t, &mut column));
    column
}

fn outcome(outcome: Outcome) -> u64 {
    match outcome {
        Outcome::Committed => 0,
        Outcome::Aborted => 1,
        Outcome::Indeterminate => 2,
    }
}

/// How much later than the one before it a transaction began, and 1 more than it took; 0 if it never ended.
fn spans(history: &History, axis: &Axis) -> Column {
    let mut last = 0;
    per_txn(history, |t, c| {
        let (begin, end) = axis.spans[t.index()];
        c.push_signed(begin as i64 - last as i64);
        c.push(end.map_or(0, |end| end - begin + 1));
        last = begin;
    })
}

fn lines(history: &History) -> Column {
    let mut last = 0;
    per_txn(history, |t, c| {
        let line = i64::from(history.line(t).unwrap_or(0));
        c.push_signed(line - last);
        last = line;
    })
}

/// What transactions are called: `numbers`, or places in sessions, or any `texts`.
fn names(history: &History) -> (&'static str, Column) {
    let number = |t: TxnId| match history.txn_label(t).map(Value::view) {
        Some(View::Int(n)) if n.unsigned_abs() < LIMIT / 4 => Some(n),
        _ => None,
    };
    let place = |t: TxnId| history.raw_name(t).rsplit(':').next().and_then(|n| n.parse::<i64>().ok());
    let mut last = 0;
    let mut differences = |known: &dyn Fn(TxnId) -> Option<i64>| {
        per_txn(history, |t, c| {
            let n = known(t).unwrap_or(0);
            c.push_signed(n - last);
            last = n;
        })
    };
    if history.txns().all(|t| history.txn_label(t).is_none()) {
        ("places", differences(&place))
    } else if history.txns().all(|t| number(t).is_some()) {
        ("numbers", differences(&number))
    } else {
        ("texts", per_txn(history, |t, c| c.push_text(&history.raw_name(t))))
    }
}

/// The operations that a page carries, and the keys that they are about.
struct Operations {
    count: usize,
    /// One bit of every transaction: whether its operations are here.
    carried: Column,
    operations: Column,
    key_count: usize,
    keys: Column,
    /// Of each key: the longest list read from it.
    orders: Column,
}

impl Operations {
    fn of(history: &History, wanted: &[TxnId], most: usize) -> Operations {
        let longest = longest(history);
        let mut keys = Keys { history, numbers: HashMap::new(), labels: Vec::new(), orders: Vec::new() };
        let mut parts: Vec<(TxnId, Vec<u8>)> = Vec::new();
        let mut size = 0;
        for &t in wanted {
            let mut part = Column::default();
            for (_, op) in history.ops(t) {
                let key = keys.number(op.key, &longest, &mut size);
                part.push(key << 2 | kind(op.kind));
                keys.value(op.value, longest.get(&op.key).copied(), &mut part);
            }
            size += part.bytes.len() + 1;
            if size > most {
                break;
            }
            parts.push((t, part.bytes));
        }
        parts.sort_unstable_by_key(|(t, _)| *t);
        let mut carried = vec![0; history.txn_count().div_ceil(8)];
        for (t, _) in &parts {
            carried[t.index() / 8] |= 1 << (t.index() % 8);
        }
        let (mut labels, mut orders) = (Column::default(), Column::default());
        keys.labels.iter().for_each(|label| labels.push_text(label));
        keys.orders.iter().for_each(|order| orders.bytes.extend(&order.bytes));
        Operations {
            count: parts.len(),
            carried: Column { bytes: carried },
            operations: Column { bytes: parts.into_iter().flat_map(|(_, bytes)| bytes).collect() },
            key_count: keys.labels.len(),
            keys: labels,
            orders,
        }
    }
}

fn kind(kind: OpKind) -> u64 {
    match kind {
        OpKind::Read => 0,
        OpKind::Write => 1,
        OpKind::Append => 2,
    }
}

/// The longest list that was read from each key.
fn longest(history: &History) -> HashMap<KeyId, &[Value]> {
    let mut longest: HashMap<KeyId, &[Value]> = HashMap::new();
    for (head, value) in history.heads().iter().zip(history.values()) {
        if let Some(list) = history.list(*value) {
            let known = longest.entry(head.key()).or_default();
            if list.len() > known.len() {
                *known = list;
            }
        }
    }
    longest
}

/// The keys met so far, numbered in this order.
struct Keys<'h> {
    history: &'h History,
    numbers: HashMap<KeyId, u64>,
    labels: Vec<String>,
    orders: Vec<Column>,
}

impl<'h> Keys<'h> {
    fn number(&mut self, key: KeyId, longest: &HashMap<KeyId, &'h [Value]>, size: &mut usize) -> u64 {
        if let Some(&number) = self.numbers.get(&key) {
            return number;
        }
        let number = self.labels.len() as u64;
        let label = self.history.show_key(key).to_string();
        let mut order = Column::default();
        let elements = longest.get(&key).copied().unwrap_or_default();
        order.push(elements.len() as u64);
        elements.iter().for_each(|&element| self.value(element, None, &mut order));
        *size += label.len() + 1 + order.bytes.len();
        self.labels.push(label);
        self.orders.push(order);
        self.numbers.insert(key, number);
        number
    }

    /// Writes a value. `longest`: the list of its key that is stored once.
    fn value(&self, value: Value, longest: Option<&[Value]>, column: &mut Column) {
        match value.view() {
            View::Nil => column.push(tag::NIL),
            View::Unknown => column.push(tag::UNKNOWN),
            View::Int(n) if n.unsigned_abs() < LIMIT / 32 => column.push(zigzag(n) << 3 | tag::INT),
            View::List(_) => {
                let elements = self.history.list(value).unwrap_or_default();
                if longest.is_some_and(|longest| longest.starts_with(elements)) {
                    column.push((elements.len() as u64) << 3 | tag::PREFIX);
                    return;
                }
                column.push((elements.len() as u64) << 3 | tag::LIST);
                // Lists do not contain lists of keys, but the values of lists may.
                elements.iter().for_each(|&element| self.element(element, column));
            }
            View::Int(_) | View::Atom(_) => self.text(value, column),
        }
    }

    fn element(&self, value: Value, column: &mut Column) {
        match value.view() {
            View::List(_) => self.text(value, column),
            _ => self.value(value, None, column),
        }
    }

    fn text(&self, value: Value, column: &mut Column) {
        let text = self.history.show(value).raw().to_string();
        column.push((text.len() as u64) << 3 | tag::TEXT);
        column.bytes.extend_from_slice(text.as_bytes());
    }
}
