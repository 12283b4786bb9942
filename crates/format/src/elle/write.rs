//! Writes histories as Elle operations.
//!
//! With real-time intervals, a transaction is an invocation and a completion, and all events are sorted by
//! time (so they are kept until the end); without, it is a completion only, written at once. The completion
//! of a transaction whose end no client learnt is written just before the next invocation of its
//! session, or last: reading gives no meaning to its place. An index is the transaction's name where names
//! are ascending integers, and counts on where not; processes are sessions, numbered where their names are
//! no integers.

use crate::text::value::{edn_value, json_value};
use crate::write::{Capabilities, HistoryWriter, InitialRule, Intervals, Names, Sink, UnknownReads};
use crate::write::{admit, in_position_order, stream, with_nil_initial};
use crate::{Format, WriteError};
use anomalist_history::{History, Interval, OpKind, Outcome, TxnId, Value, View};
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt::Write as _;
use std::io::Write;
use std::ops::Range;

/// Apart from how keys and values are written.
const CAPABILITIES: Capabilities = Capabilities {
    unknown_reads: UnknownReads::Uncommitted,
    intervals: Intervals::Decided,
    stamps: false,
    snapshots: false,
    metadata: false,
    initial: InitialRule::Nil,
    ..Capabilities::ALL
};

/// A writer of EDN.
pub(crate) fn edn(sink: Sink, lossy: bool) -> Result<Box<dyn HistoryWriter>, WriteError> {
    writer(Format::ElleEdn, sink, lossy)
}

/// A writer of one JSON array.
pub(crate) fn json(sink: Sink, lossy: bool) -> Result<Box<dyn HistoryWriter>, WriteError> {
    writer(Format::ElleJson, sink, lossy)
}

/// A writer of JSON lines.
pub(crate) fn jsonl(sink: Sink, lossy: bool) -> Result<Box<dyn HistoryWriter>, WriteError> {
    writer(Format::ElleJsonl, sink, lossy)
}

pub(crate) fn writer(format: Format, sink: Sink, lossy: bool) -> Result<Box<dyn HistoryWriter>, WriteError> {
    Ok(Box::new(ElleWriter {
        format,
        lossy,
        out: stream(format, sink)?,
        text: String::new(),
        events: Vec::new(),
        written: 0,
        next_index: 0,
        processes: Processes::default(),
        clients: FxHashMap::default(),
    }))
}

/// An event waiting for its turn.
struct Event {
    /// Time, and invocations before completions at the same time.
    key: (u64, u8),
    label: Option<i64>,
    /// Its text after the index.
    text: Range<usize>,
}

/// Where a session stands.
#[derive(Default)]
struct Client {
    /// Not before this may its next event be.
    key: (u64, u8),
    /// Its last event, if that is a completion without a time.
    dangling: Option<usize>,
}

struct ElleWriter {
    format: Format,
    lossy: bool,
    out: Box<dyn Write + Send>,
    text: String,
    events: Vec<Event>,
    written: u64,
    next_index: i64,
    processes: Processes,
    clients: FxHashMap<i64, Client>,
}

/// Integers for sessions.
#[derive(Default)]
struct Processes {
    /// By kind and text of a label that is not an integer.
    named: FxHashMap<String, i64>,
    /// Integer labels that had to give way.
    moved: FxHashMap<i64, i64>,
    taken: FxHashSet<i64>,
    used: FxHashSet<i64>,
    last: i64,
}

impl Processes {
    fn of(&mut self, history: &History, label: Value) -> i64 {
        if let View::Int(i) = label.view() {
            if !self.taken.contains(&i) {
                self.used.insert(i);
                return i;
            }
            if let Some(&process) = self.moved.get(&i) {
                return process;
            }
            let process = self.fresh();
            self.moved.insert(i, process);
            return process;
        }
        let name = match label.view() {
            View::Atom(id) => format!("{:?}", history.atom(id)),
            _ => String::new(),
        };
        if let Some(&process) = self.named.get(&name) {
            return process;
        }
        let process = self.fresh();
        self.named.insert(name, process);
        process
    }

    fn fresh(&mut self) -> i64 {
        while self.used.contains(&self.last) || self.taken.contains(&self.last) {
            self.last += 1;
        }
        self.taken.insert(self.last);
        self.last
    }
}

impl ElleWriter {
    /// Appends an event without its index to the text.
    fn event(&mut self, history: &History, t: TxnId, kind: &str, process: i64) -> Range<usize> {
        let (out, edn) = (&mut self.text, self.format == Format::ElleEdn);
        let start = out.len();
        let _ = if edn {
            write!(out, ":type :{kind}, :process {process}, :f :txn, :value [")
        } else {
            write!(out, "\"type\":\"{kind}\",\"process\":{process},\"f\":\"txn\",\"value\":[")
        };
        let put = if edn { edn_value } else { json_value };
        for (i, (_, op)) in history.ops(t).enumerate() {
            let name = match op.kind {
                OpKind::Read => "r",
                OpKind::Write => "w",
                OpKind::Append => "append",
            };
            let _ = match (edn, i) {
                (true, 0) => write!(out, "[:{name} "),
                (true, _) => write!(out, " [:{name} "),
                (false, 0) => write!(out, "[\"{name}\","),
                (false, _) => write!(out, ",[\"{name}\","),
            };
            put(out, history, history.key_label(op.key));
            out.push(if edn { ' ' } else { ',' });
            let asked = kind == "invoke" && op.kind == OpKind::Read;
            put(out, history, if asked { Value::NIL } else { with_nil_initial(history, op) });
            out.push(']');
        }
        out.push_str("]}");
        start..out.len()
    }

    /// Writes an event out.
    fn put(&mut self, label: Option<i64>, text: Range<usize>) -> Result<(), WriteError> {
        let index = label.filter(|&l| l > self.next_index).unwrap_or(self.next_index);
        self.next_index = index + 1;
        let between = match (self.format, self.written) {
            (Format::ElleJson, 0) => "[",
            (Format::ElleJson, _) => ",\n",
            (_, 0) => "",
            _ => "\n",
        };
        self.written += 1;
        let name = if self.format == Format::ElleEdn { ":index " } else { "\"index\":" };
        let comma = if self.format == Format::ElleEdn { ", " } else { "," };
        write!(self.out, "{between}{{{name}{index}{comma}{}", &self.text[text])?;
        Ok(())
    }

    fn add(&mut self, key: (u64, u8), label: Option<i64>, text: Range<usize>) {
        self.events.push(Event { key, label, text });
    }

    /// Adds the two events of a transaction, after those of its session before it.
    fn add_pair(&mut self, process: i64, interval: Interval, label: Option<i64>, texts: [Range<usize>; 2]) {
        const LAST: (u64, u8) = (u64::MAX, 1);
        let [invoke, completion] = texts;
        let client = self.clients.entry(process).or_default();
        let key = client.key.max((interval.invoked, 0));
        if let Some(dangling) = client.dangling.take() {
            self.events[dangling].key = key;
        }
        let end = interval.completed.map_or(LAST, |time| key.max((time, 1)));
        client.dangling = (end == LAST).then_some(self.events.len() + 1);
        client.key = if end == LAST { key } else { end };
        self.add(key, None, invoke);
        self.add(end, label, completion);
    }
}

impl HistoryWriter for ElleWriter {
    fn append(&mut self, batch: &History) -> Result<(), WriteError> {
        let names = if self.format == Format::ElleEdn { Names::Edn } else { Names::Json };
        let capabilities = Capabilities { keys: names, values: names, ..CAPABILITIES };
        admit(batch, self.format, &capabilities, self.lossy)?;
        if batch.intervals().is_none() && self.events.is_empty() {
            self.text.clear();
        }
        for t in in_position_order(batch) {
            let process = self.processes.of(batch, batch.session_label(batch.session_of(t)));
            let kind = match batch.outcome(t) {
                Outcome::Committed => "ok",
                Outcome::Aborted => "fail",
                Outcome::Indeterminate => "info",
            };
            let label = batch.txn_label(t).and_then(|l| match l.view() {
                View::Int(i) => Some(i),
                _ => None,
            });
            let completion = self.event(batch, t, kind, process);
            match batch.intervals() {
                Some(intervals) => {
                    let invoke = self.event(batch, t, "invoke", process);
                    self.add_pair(process, intervals[t.index()], label, [invoke, completion]);
                }
                None => self.put(label, completion)?,
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), WriteError> {
        let mut events = std::mem::take(&mut self.events);
        // Stable: events of one session at the same time keep their order.
        events.sort_by_key(|event| event.key);
        for event in events {
            self.put(event.label, event.text)?;
        }
        let end = match (self.format, self.written) {
            (Format::ElleJson, 0) => "[]\n",
            (Format::ElleJson, _) => "]\n",
            _ => "\n",
        };
        self.out.write_all(end.as_bytes())?;
        self.out.flush()?;
        Ok(())
    }
}
