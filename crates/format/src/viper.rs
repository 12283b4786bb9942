//! Viper's logs: a folder with one file of JSON lines per session, one committed transaction per line.
//!
//! ```text
//! {"value": [["r", 7, 31, false], ["w", 7, 32, true], …]}
//! ```
//! Operations: `r` key value dead?; `w` (write), `i` (insert) key value succeeded?; `d` (delete) key, writing the tombstone it names, or
//! nil; `range` from to [{"id": key, "val": value}, …], one read per row. A write that did not succeed is left out.
//!
//! Values loaded before the run are nowhere written. A transaction with `"isInitial": true` lists them; without one, the first value
//! of a key that is read and that nobody wrote is its initial value, and a second such value is thin air. O(n).

use crate::cobra::session_labels;
use crate::encode::{Encoder, Logs, SessionNumbers};
use crate::lines::{BlockInfo, parallel_lines};
use crate::write::{Capabilities, HistoryWriter, InitialRule, Names, Sink};
use crate::{Format, Input, Loaded, ReadError, ReadOptions, WriteError, initial};
use isolde_history::{AtomKind, Builder, History, KeyId, OpKind, TxnId, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::io::Write;

const SHAPE: &str = r#"a line is  {"value": [["r"|"w", <key>, <value>, <flag>], …]}"#;

/// Could this be the beginning of a Viper log?
pub(crate) fn sniff(head: &[u8]) -> bool {
    let text = head.trim_ascii_start();
    let line = &text[..memchr::memchr(b'\n', text).unwrap_or(text.len())];
    match serde_json::from_slice::<Json>(line) {
        Ok(Json::Object(fields)) => {
            fields.get("value").is_some_and(Json::is_array) && !fields.keys().any(|name| is_foreign(name))
        }
        Ok(_) => false,
        // The line may be longer than what is shown of it.
        Err(e) => e.is_eof() && line.starts_with(b"{\"value\": [[") && text.len() == line.len(),
    }
}

/// Fields of other formats whose lines have a `value` too.
fn is_foreign(name: &str) -> bool {
    matches!(name, "type" | "process" | "f" | "index" | "time" | "isolde" | "session")
}

/// One transaction as it stands on its line.
struct Line {
    ops: Vec<(OpKind, Json, Json)>,
    is_initial: bool,
    /// From 0 in its block.
    line: u32,
}

/// What a worker makes of a block, and what was wrong where.
type Parsed = (Vec<Line>, Option<(usize, String)>);

/// Reads a folder of Viper logs, or a single one.
pub(crate) fn read(input: Input, options: &ReadOptions<'_>) -> Result<Loaded, ReadError> {
    let name = input.name().to_owned();
    let logs = input.into_logs()?;
    let mut reader = Reader::default();
    let given = initial::value(options, &mut reader.builder, None)?;
    reader.builder.set_initial_default(given);
    let labels = session_labels(&mut reader.builder, &logs);
    let mut warnings = Vec::new();
    for (log, label) in logs.into_iter().zip(labels) {
        let result =
            parallel_lines(log, options, parse_block, |info, parsed| reader.merge(&info, label, parsed));
        crate::keep_the_beginning(result, options, &mut warnings)?;
    }
    if options.initial.is_none() {
        reader.infer_initial_values();
    }
    let history = reader.builder.finish().map_err(|source| ReadError::TooLarge { file: name, source })?;
    Ok(Loaded { history, format: Format::Viper, warnings })
}

fn parse_block(text: &[u8]) -> Parsed {
    let mut lines = Vec::new();
    let mut start = 0;
    for (number, line) in text.split_inclusive(|&b| b == b'\n').enumerate() {
        if !line.trim_ascii().is_empty() {
            match parse_line(line) {
                Ok((ops, is_initial)) => lines.push(Line { ops, is_initial, line: number as u32 }),
                Err((column, message)) => return (lines, Some((start + column, message))),
            }
        }
        start += line.len();
    }
    (lines, None)
}

type Ops = Vec<(OpKind, Json, Json)>;

/// The operations of a line; or the column of what is wrong, and what it is.
fn parse_line(line: &[u8]) -> Result<(Ops, bool), (usize, String)> {
    let indent = line.len() - line.trim_ascii_start().len();
    let at_start = |message: String| (indent, message);
    let json: Json = serde_json::from_slice(line.trim_ascii()).map_err(|e| {
        let column = (indent + e.column().saturating_sub(1)).min(line.trim_ascii_end().len());
        let message = e.to_string();
        let said = message.split(" at line ").next().unwrap_or_default();
        (column, format!("not a JSON value: {said}"))
    })?;
    let Json::Object(mut fields) = json else { return Err(at_start("expected an object".into())) };
    let Some(Json::Array(micro_ops)) = fields.remove("value") else {
        return Err(at_start("expected a field \"value\" with a list of operations".into()));
    };
    let is_initial = fields.get("isInitial") == Some(&Json::Bool(true));
    let mut ops = Vec::new();
    for (i, micro_op) in micro_ops.into_iter().enumerate() {
        parse_micro_op(micro_op, &mut ops)
            .map_err(|message| at_start(format!("operation {}: {message}", i + 1)))?;
    }
    Ok((ops, is_initial))
}

fn parse_micro_op(micro_op: Json, ops: &mut Ops) -> Result<(), String> {
    let Json::Array(parts) = micro_op else { return Err("expected a list".into()) };
    let mut parts = parts.into_iter();
    let kind = parts.next().unwrap_or_default();
    let (first, second) = (parts.next(), parts.next());
    let key = first.filter(is_scalar).ok_or("expected a key, a number or a text")?;
    match kind.as_str() {
        Some("r") => ops.push((OpKind::Read, key, scalar_or_nil(second)?)),
        Some("w" | "i") => {
            let value = second.filter(is_scalar).ok_or("expected a value to write")?;
            if parts.next() != Some(Json::Bool(false)) {
                ops.push((OpKind::Write, key, value));
            }
        }
        Some("d") => {
            // The tombstone may be missing, with the flag in its place.
            let (tombstone, flag) = match second {
                Some(Json::Bool(flag)) => (Json::Null, Some(Json::Bool(flag))),
                other => (scalar_or_nil(other)?, parts.next()),
            };
            if flag != Some(Json::Bool(false)) {
                ops.push((OpKind::Write, key, tombstone));
            }
        }
        Some("range") => {
            let Some(Json::Array(rows)) = parts.next() else {
                return Err("expected the rows of the range".into());
            };
            for mut row in rows {
                let key =
                    row.get_mut("id").map(Json::take).filter(is_scalar).ok_or("expected a row's \"id\"")?;
                ops.push((OpKind::Read, key, scalar_or_nil(row.get_mut("val").map(Json::take))?));
            }
        }
        _ => return Err(format!("expected \"r\", \"w\", \"i\", \"d\" or \"range\", found {kind}")),
    }
    Ok(())
}

fn is_scalar(json: &Json) -> bool {
    json.is_number() || json.is_string()
}

fn scalar_or_nil(json: Option<Json>) -> Result<Json, String> {
    match json {
        None | Some(Json::Null) => Ok(Json::Null),
        Some(json) if is_scalar(&json) => Ok(json),
        Some(json) => Err(format!("expected a value, found {json}")),
    }
}

#[derive(Default)]
struct Reader {
    builder: Builder,
    written: FxHashSet<(KeyId, Value)>,
    reads: Vec<(KeyId, Value)>,
    initial_known: bool,
}

impl Reader {
    fn merge(&mut self, info: &BlockInfo<'_>, label: Value, (lines, bad): Parsed) -> Result<(), ReadError> {
        for line in lines {
            if line.is_initial {
                self.initial_known = true;
                for (_, key, value) in line.ops {
                    let (key, value) = self.names(&key, &value);
                    self.builder.set_initial(key, value);
                }
                continue;
            }
            let session = self.builder.session(label);
            let draft = self.builder.transaction(session);
            self.builder.set_line(draft, info.first_line.saturating_add(line.line));
            for (kind, key, value) in line.ops {
                let (key, value) = self.names(&key, &value);
                match kind {
                    OpKind::Read => self.reads.push((key, value)),
                    _ => {
                        self.written.insert((key, value));
                    }
                }
                self.builder.op(draft, kind, key, value);
            }
        }
        match bad {
            None => Ok(()),
            Some((offset, message)) => {
                Err(ReadError::Malformed(vec![info.error(offset, message).help(SHAPE)]))
            }
        }
    }

    fn names(&mut self, key: &Json, value: &Json) -> (KeyId, Value) {
        let (key, value) = (self.scalar(key), self.scalar(value));
        (self.builder.key(key), value)
    }

    fn scalar(&mut self, json: &Json) -> Value {
        match json {
            Json::String(text) if text == "nil" => Value::NIL,
            Json::String(text) => self.builder.atom(AtomKind::Text, text),
            Json::Number(number) => match number.as_i64() {
                Some(i) => self.builder.int(i),
                None => self.builder.atom(AtomKind::Token, &number.to_string()),
            },
            _ => Value::NIL,
        }
    }

    fn infer_initial_values(&mut self) {
        if self.initial_known {
            return;
        }
        let mut first: FxHashMap<KeyId, Value> = FxHashMap::default();
        for &(key, value) in self.reads.iter().filter(|read| !self.written.contains(*read)) {
            if let std::collections::hash_map::Entry::Vacant(slot) = first.entry(key) {
                slot.insert(value);
                self.builder.set_initial(key, value);
            }
        }
    }
}

const CAPABILITIES: Capabilities = Capabilities {
    nil: true,
    keys: Names::Integer64,
    values: Names::Integer64,
    initial: InitialRule::Any,
    ..Capabilities::PLAIN
};

/// Writes Viper's logs, with a file for initial values of its own so that nothing has to be guessed when they are read again.
pub(crate) fn writer(sink: Sink, lossy: bool) -> Result<Box<dyn HistoryWriter>, WriteError> {
    Ok(Box::new(Writer {
        logs: Logs::create(Format::Viper, sink)?,
        encoder: Encoder::new(Format::Viper, CAPABILITIES, lossy),
        sessions: SessionNumbers::default(),
        initial: BTreeMap::new(),
    }))
}

struct Writer {
    logs: Logs,
    encoder: Encoder,
    sessions: SessionNumbers,
    initial: BTreeMap<i128, Option<i128>>,
}

impl Writer {
    fn line(&mut self, batch: &History, t: TxnId) -> String {
        let mut line = String::from("{\"value\": [");
        let show = |value: Option<i128>| value.map_or("\"nil\"".to_owned(), |v| v.to_string());
        for (i, op) in self.encoder.exact_ops(batch, t).enumerate() {
            let (kind, flag) = if op.write { ("w", true) } else { ("r", false) };
            let separator = if i > 0 { ", " } else { "" };
            line += &format!("{separator}[\"{kind}\", {}, {}, {flag}]", op.key, show(op.value));
        }
        line + "]}\n"
    }
}

impl HistoryWriter for Writer {
    fn append(&mut self, batch: &History) -> Result<(), WriteError> {
        for (key, value) in self.encoder.initial_values(batch) {
            self.initial.insert(key, value);
        }
        for t in self.encoder.transactions(batch)? {
            let line = self.line(batch, t);
            let log = self.logs.log(self.sessions.of(batch, t), |n| format!("J{n}.log"));
            log.extend(line.bytes());
        }
        self.logs.flush(false)
    }

    fn finish(mut self: Box<Self>) -> Result<(), WriteError> {
        let loads: Vec<String> = self
            .initial
            .iter()
            .map(|(key, value)| match value {
                Some(value) => format!("[\"w\", {key}, {value}, true]"),
                None => format!("[\"w\", {key}, \"nil\", true]"),
            })
            .collect();
        let count = self.logs.count();
        let log = self.logs.log(count, |n| format!("J{n}.log"));
        writeln!(log, "{{\"value\": [{}], \"isInitial\": true}}", loads.join(", "))?;
        self.logs.flush(true)
    }
}
