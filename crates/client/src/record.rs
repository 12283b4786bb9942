//! From finished transactions to a history file, while they finish.
//!
//! Transactions of registers and lists go into Anomalist's own format; sets, counters, banks and predicates
//! are Jepsen operations, one JSON object per line. Either way `anomalist check` reads the file again. A
//! fault is in the history too: an empty transaction of the session `nemesis`, or an operation of that
//! process.
//!
//! What a transaction that did not commit had asked to write is recorded, because another transaction may
//! have seen it. What it read is recorded as far as it got.

use crate::{Answer, Ended, Key, Op, Stamp};
use anomalist_format::{HistoryWriter, RECORDING, RECORDING_END, Sink, WriteError};
use anomalist_history::{AtomKind, Builder, Clock, Draft, Interval, OpKind, Outcome, Value};
use anomalist_workload::client::{Recording, Workload};
use serde_json::{Map, json};
use std::io::Write;

/// Transactions that are written together.
const BATCH: usize = 256;

/// The session that faults belong to.
const NEMESIS: &str = "nemesis";

/// A transaction as its client saw it. Times are in nanoseconds since the run began.
#[derive(Clone)]
pub struct Finished {
    /// By which process.
    pub process: u64,
    /// What it asked for.
    pub ops: Vec<Op>,
    /// What it got, as far as it came.
    pub answers: Vec<Answer>,
    /// How it ended.
    pub ended: Ended,
    /// When it began.
    pub invoked: u64,
    /// When it ended.
    pub completed: u64,
    /// Its number in the run.
    pub number: u64,
    /// What the server says about it, if it was asked.
    pub stamp: Option<Stamp>,
}

/// Something that happened, in the order in which it happened.
pub enum Entry {
    /// A transaction begins. It is passed on only where the history needs it.
    Began {
        /// By which process.
        process: u64,
        /// What it will ask for.
        ops: Vec<Op>,
        /// When.
        at: u64,
    },
    /// A transaction has ended.
    Finished(Finished),
    /// The database was disturbed.
    Fault {
        /// How.
        name: String,
        /// More about it.
        detail: String,
        /// Since when.
        began: u64,
        /// Until when.
        ended: u64,
    },
}

/// Writes entries.
pub struct Recorder {
    workload: Workload,
    to: To,
}

enum To {
    Transactions { writer: Box<dyn HistoryWriter>, batch: Box<Builder> },
    Events { out: Box<dyn Write + Send>, text: String },
}

impl Recorder {
    /// Gets ready to write what happens in this workload.
    pub fn new(workload: Workload, out: Box<dyn Write + Send>) -> Result<Recorder, WriteError> {
        let to = match workload.recording() {
            Recording::Events => To::Events { out, text: marker(RECORDING) },
            _ => To::Transactions { writer: anomalist_format::recorder(Sink::Stream(out))?, batch: empty() },
        };
        Ok(Recorder { workload, to })
    }

    /// Whether beginnings have to be passed on.
    pub fn wants_beginnings(workload: Workload) -> bool {
        workload.recording() == Recording::Events
    }

    /// Takes an entry, and writes it at once or later.
    pub fn push(&mut self, entry: Entry) -> Result<(), WriteError> {
        match &mut self.to {
            To::Transactions { batch, .. } => {
                match entry {
                    Entry::Began { .. } => return Ok(()),
                    Entry::Finished(finished) => {
                        let label = i64::try_from(finished.number).unwrap_or(i64::MAX);
                        transaction(batch, self.workload, &finished, label);
                    }
                    Entry::Fault { name, detail, began, ended } => fault(batch, &name, &detail, began, ended),
                }
                if batch.txn_count() >= BATCH {
                    return self.flush();
                }
            }
            To::Events { text, .. } => {
                for event in events(entry) {
                    text.push_str(&event.to_string());
                    text.push('\n');
                }
                if text.len() > 1 << 16 {
                    return self.flush();
                }
            }
        }
        Ok(())
    }

    /// Writes what has been kept back.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        match &mut self.to {
            To::Transactions { writer, batch } => {
                let full = std::mem::replace(batch, empty());
                // Far fewer than ids can number.
                if let Ok(history) = full.finish()
                    && history.txn_count() > 0
                {
                    writer.append(&history)?;
                }
            }
            To::Events { out, text } => {
                out.write_all(text.as_bytes())?;
                text.clear();
            }
        }
        Ok(())
    }

    /// Writes the rest, and that it is the end.
    pub fn finish(mut self) -> Result<(), WriteError> {
        self.flush()?;
        match self.to {
            To::Transactions { writer, .. } => writer.finish(),
            To::Events { mut out, .. } => {
                out.write_all(marker(RECORDING_END).as_bytes())?;
                Ok(out.flush()?)
            }
        }
    }
}

/// A line of Jepsen operations that says where a recording begins or ends.
fn marker(f: &str) -> String {
    format!("{}\n", json!({"type": "info", "process": NEMESIS, "f": f, "value": null}))
}

pub(crate) fn empty() -> Box<Builder> {
    let mut b = Builder::new();
    b.set_initial_default(Some(Value::NIL));
    b.set_clock(Clock::Nanoseconds);
    Box::new(b)
}

pub(crate) fn transaction(b: &mut Builder, workload: Workload, finished: &Finished, number: i64) -> Draft {
    let process = b.int(finished.process as i64);
    let session = b.session(process);
    let draft = b.transaction(session);
    let label = b.int(number);
    b.set_label(draft, label);
    let (outcome, cause) = match &finished.ended {
        Ended::Committed => (Outcome::Committed, None),
        Ended::Aborted(cause) => (Outcome::Aborted, Some(cause)),
        Ended::Indeterminate(cause) => (Outcome::Indeterminate, Some(cause)),
    };
    b.set_outcome(draft, outcome);
    if let Some(cause) = cause {
        b.set_metadata(draft, "error", &format!("{}: {}", cause.kind, cause.message));
    }
    let completed = (outcome != Outcome::Indeterminate).then_some(finished.completed);
    b.set_interval(draft, Interval { invoked: finished.invoked, completed });
    for (i, op) in finished.ops.iter().enumerate() {
        let (kind, key, value) = match (*op, finished.answers.get(i)) {
            (Op::Read(key), Some(Answer::Value(Some(v)))) => (OpKind::Read, key, b.int(*v)),
            (Op::Read(key), Some(Answer::Value(None))) => (OpKind::Read, key, Value::NIL),
            (Op::ReadList(key), Some(Answer::List(list))) => {
                let list: Vec<Value> = list.iter().map(|&v| b.int(v)).collect();
                (OpKind::Read, key, b.list(&list))
            }
            (Op::Read(key) | Op::ReadList(key), _) => (OpKind::Read, key, Value::UNKNOWN),
            (Op::Write(key, v), _) => (OpKind::Write, key, b.int(v)),
            (Op::Append(key, v), _) => (OpKind::Append, key, b.int(v)),
            // Workloads with other operations are recorded as events.
            _ => continue,
        };
        let key = match workload.key_name(key) {
            Some(name) => b.atom(AtomKind::Text, &name),
            None => b.int(key as i64),
        };
        let key = b.key(key);
        b.op(draft, kind, key, value);
    }
    draft
}

fn fault(b: &mut Builder, name: &str, detail: &str, began: u64, ended: u64) {
    let nemesis = b.atom(AtomKind::Text, NEMESIS);
    let session = b.session(nemesis);
    let draft = b.transaction(session);
    b.set_interval(draft, Interval { invoked: began, completed: Some(ended) });
    b.set_metadata(draft, "fault", name);
    if !detail.is_empty() {
        b.set_metadata(draft, "detail", detail);
    }
}

/// An entry as Jepsen operations.
fn events(entry: Entry) -> Vec<serde_json::Value> {
    let event = |kind: &str, process: serde_json::Value, f: &str, value: serde_json::Value, time: u64| json!({"type": kind, "process": process, "f": f, "value": value, "time": time});
    match entry {
        Entry::Began { process, ops, at } => {
            let (f, value) = call(&ops, None);
            vec![event("invoke", json!(process), f, value, at)]
        }
        Entry::Finished(finished) => {
            let answers = (finished.ended == Ended::Committed).then_some(finished.answers.as_slice());
            let (f, value) = call(&finished.ops, answers);
            let (kind, error) = match &finished.ended {
                Ended::Committed => ("ok", None),
                Ended::Aborted(cause) => ("fail", Some(cause)),
                Ended::Indeterminate(cause) => ("info", Some(cause)),
            };
            let mut event = event(kind, json!(finished.process), f, value, finished.completed);
            if let Some(cause) = error {
                event["error"] = json!([cause.kind, cause.message]);
            }
            vec![event]
        }
        Entry::Fault { name, detail, began, ended } => vec![
            event("info", json!(NEMESIS), &name, json!(detail), began),
            event("info", json!(NEMESIS), &name, json!(detail), ended),
        ],
    }
}

/// What was called, with what or with what result.
fn call(ops: &[Op], answers: Option<&[Answer]>) -> (&'static str, serde_json::Value) {
    let answer = |i: usize| answers.and_then(|answers| answers.get(i));
    match (ops.first().copied(), answer(0)) {
        (Some(Op::ReadCounter), Some(Answer::Value(value))) => return ("read", json!(value)),
        (Some(Op::ReadBalances), Some(Answer::Rows(rows))) => return ("read", object(rows)),
        (Some(Op::ReadCounter | Op::ReadBalances), _) => return ("read", json!(null)),
        (Some(Op::Increment(by)), _) => return ("add", json!(by)),
        (Some(Op::Transfer { from, to, amount }), _) => {
            return ("transfer", json!({"from": from, "to": to, "amount": amount}));
        }
        _ => {}
    }
    let mops = ops.iter().enumerate().filter_map(|(i, &op)| mop(op, answer(i)));
    ("txn", serde_json::Value::Array(mops.collect()))
}

fn mop(op: Op, answer: Option<&Answer>) -> Option<serde_json::Value> {
    // A change that found no row changed nothing.
    if answer == Some(&Answer::Missed) {
        return None;
    }
    Some(match op {
        Op::ReadSet(key) | Op::ReadRow(key) | Op::Read(key) | Op::ReadList(key) => match answer {
            Some(Answer::List(list)) => json!(["r", key, list]),
            Some(Answer::Value(value)) => json!(["r", key, value]),
            _ => json!(["r", key, null]),
        },
        Op::Add(key, value) => json!(["add", key, value]),
        Op::Insert(key, value) => json!(["insert", key, value]),
        Op::Update(key, value) | Op::Write(key, value) => json!(["w", key, value]),
        Op::Append(key, value) => json!(["append", key, value]),
        Op::Delete(key) => json!(["delete", key]),
        Op::ReadWhere { modulus, rest } => {
            let rows = match answer {
                Some(Answer::Rows(rows)) => object(rows),
                _ => json!(null),
            };
            json!(["rp", ["mod", modulus, rest], rows])
        }
        Op::ReadCounter | Op::Increment(_) | Op::ReadBalances | Op::Transfer { .. } => return None,
    })
}

fn object(rows: &[(Key, i64)]) -> serde_json::Value {
    serde_json::Value::Object(rows.iter().map(|(key, v)| (key.to_string(), json!(v))).collect::<Map<_, _>>())
}
