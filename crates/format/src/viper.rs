//! Viper's logs: a folder with one file of JSON lines per session, one committed transaction per line.
//!
//! ```text
//! {"value": [["r", 7, 31, false], ["w", 7, 32, true], …]}
//! ```
//! Operations: `r` key value dead?; `w` (write), `i` (insert) key value succeeded?; `d` (delete) key,
//! writing the tombstone it names, or nil; `range` from to [{"id": key, "val": value}, …], one read per
//! row. A write that did not succeed is left out.
//!
//! Values loaded before the run are nowhere written. A transaction with `"isInitial": true` lists them;
//! without one, the first value of a key that is read and that no transaction wrote is its initial value,
//! and a second such value is thin air. O(n).

use crate::cobra::session_labels;
use crate::load::ops::{Assembler, Cell, Columns, Mop};
use crate::load::records::{Layout, read_records};
use crate::load::{Reading, initial};
use crate::text::fault::Fault;
use crate::text::json::{Json, Scalar};
use crate::write::numbers::{Encoder, Logs, SessionNumbers};
use crate::write::{Capabilities, HistoryWriter, InitialRule, Names, Sink};
use crate::{Format, Input, Loaded, ReadError, ReadOptions, WriteError};
use anomalist_history::{AtomKind, History, KeyId, OpKind, TxnId, Value};
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;

const SHAPE: &str = r#"a line is  {"value": [["r"|"w", <key>, <value>, <flag>], …]}"#;

/// Could this be the beginning of a Viper log?
pub(crate) fn sniff(head: &[u8]) -> bool {
    let text = head.trim_ascii_start();
    let line = &text[..memchr::memchr(b'\n', text).unwrap_or(text.len())];
    let mut json = Json::new(line);
    let (mut found, mut first) = (false, true);
    if !json.take(b'{') {
        return false;
    }
    while let Ok(name) = json.key(&mut first) {
        let Some(name) = name else { return found };
        if is_foreign(&name) {
            return false;
        }
        let operations = *name == *b"value" && json.peek() == Some(b'[');
        found |= operations;
        if let Err(fault) = json.skip() {
            // The line may be longer than what is shown of it.
            return operations && fault.cut && line.len() == text.len();
        }
    }
    false
}

/// Fields of other formats whose lines have a `value` too.
fn is_foreign(name: &[u8]) -> bool {
    matches!(name, b"type" | b"process" | b"f" | b"index" | b"time" | b"anomalist" | b"session")
}

/// One transaction as it stands on its line.
struct Transaction {
    mops: Range<usize>,
    is_initial: bool,
}

/// Reads a folder of Viper logs, or a single one.
pub(crate) fn read(input: Input, options: &ReadOptions<'_>) -> Result<Loaded, ReadError> {
    let mut reading = Reading::new(&input, Format::Viper, options);
    let logs = input.into_logs()?;
    let mut reader = Reader::default();
    let given = initial::given(options, &mut reader.assembler.builder)?;
    let labels = session_labels(&mut reader.assembler.builder, &logs);
    for (log, label) in logs.into_iter().zip(labels) {
        read_records(log, &mut reading, Layout::Lines, transaction, |transaction, columns, line| {
            reader.merge(transaction, columns, label, line);
            Ok(())
        })?;
    }
    if given.is_none() && !reader.initial_known {
        reader.infer_initial_values();
    }
    reading.finish(reader.assembler.finish(Some(given.flatten())))
}

fn transaction(json: &mut Json<'_>, columns: &mut Columns) -> Result<Transaction, Fault> {
    fields(json, columns).map_err(|fault| fault.help(SHAPE))
}

fn fields(json: &mut Json<'_>, columns: &mut Columns) -> Result<Transaction, Fault> {
    json.open(b'{', "an object")?;
    let at = json.at() - 1;
    let (mut mops, mut is_initial, mut first) = (None, false, true);
    while let Some(name) = json.key(&mut first)? {
        match &*name {
            b"value" => {
                let (start, mut first) = (columns.mops.len(), true);
                json.open(b'[', "a list of operations")?;
                while json.element(&mut first)? {
                    operation(json, columns)?;
                }
                mops = Some(start..columns.mops.len());
            }
            b"isInitial" => is_initial = json.scalar("true or false")? == Scalar::Bool(true),
            _ => json.skip()?,
        }
    }
    let missing = || Fault::new(at, "expected a field \"value\" with a list of operations");
    Ok(Transaction { mops: mops.ok_or_else(missing)?, is_initial })
}

fn operation(json: &mut Json<'_>, columns: &mut Columns) -> Result<(), Fault> {
    json.open(b'[', "an operation such as [\"r\", 1, 2, false]")?;
    let mut first = true;
    json.element(&mut first)?;
    let at = json.at();
    let name = json.word()?.ok_or_else(|| json.expected("the name of an operation in double quotes"))?;
    let (kind, key) = match &*name {
        b"range" => return range(json, &mut first, columns),
        b"r" => (OpKind::Read, key(json, &mut first, columns)?),
        b"w" | b"i" | b"d" => (OpKind::Write, key(json, &mut first, columns)?),
        other => {
            let found = String::from_utf8_lossy(other);
            let message = format!("expected \"r\", \"w\", \"i\", \"d\" or \"range\", found \"{found}\"");
            return Err(Fault::new(at, message));
        }
    };
    // A value, which a deletion may lack, and a flag.
    let (mut cell, mut succeeded) = (None, true);
    while json.element(&mut first)? {
        match json.peek() {
            Some(b't' | b'f') => succeeded &= json.scalar("a flag")? == Scalar::Bool(true),
            _ if cell.is_none() => cell = Some(value(json, columns)?),
            _ => json.skip()?,
        }
    }
    if cell.is_none() && matches!(&*name, b"w" | b"i") {
        return Err(Fault::new(json.at() - 1, "expected a value to write, found \"]\""));
    }
    if kind == OpKind::Read || succeeded {
        columns.mops.push(Mop { kind, key, cell: cell.unwrap_or(Cell::Nil) });
    }
    Ok(())
}

/// The rest of a range: its ends, and a read for each of its rows.
fn range(json: &mut Json<'_>, first: &mut bool, columns: &mut Columns) -> Result<(), Fault> {
    let mut rows = false;
    while json.element(first)? {
        if rows || json.peek() != Some(b'[') {
            json.skip()?;
            continue;
        }
        rows = true;
        json.open(b'[', "rows")?;
        let mut first = true;
        while json.element(&mut first)? {
            json.open(b'{', "a row such as {\"id\": 1, \"val\": 2}")?;
            let at = json.at() - 1;
            let (mut key, mut cell, mut first) = (None, Cell::Nil, true);
            while let Some(name) = json.key(&mut first)? {
                match &*name {
                    b"id" => key = Some(value(json, columns)?),
                    b"val" => cell = value(json, columns)?,
                    _ => json.skip()?,
                }
            }
            let Some(Cell::One(key)) = key else { return Err(Fault::new(at, "expected a row's \"id\"")) };
            columns.mops.push(Mop { kind: OpKind::Read, key, cell });
        }
    }
    if rows { Ok(()) } else { Err(Fault::new(json.at() - 1, "expected the rows of the range, found \"]\"")) }
}

fn key(json: &mut Json<'_>, first: &mut bool, columns: &mut Columns) -> Result<Value, Fault> {
    let more = json.element(first)?;
    let at = json.at();
    match if more { value(json, columns)? } else { Cell::Nil } {
        Cell::One(key) => Ok(key),
        _ => Err(Fault::new(at, "expected a key, a number or a text")),
    }
}

/// A number or a text; null and the text "nil" are nil.
fn value(json: &mut Json<'_>, columns: &mut Columns) -> Result<Cell, Fault> {
    if let Some(i) = json.small_int() {
        return Ok(Cell::One(columns.int(i)));
    }
    let at = json.at();
    Ok(match json.scalar("a number or a text")? {
        Scalar::Null => Cell::Nil,
        Scalar::Int(i) => Cell::One(columns.int(i)),
        Scalar::Number(text) => Cell::One(columns.atom(AtomKind::Token, &text)),
        Scalar::Text(text) if text == "nil" => Cell::Nil,
        Scalar::Text(text) => Cell::One(columns.atom(AtomKind::Text, &text)),
        Scalar::Bool(_) => return Err(Fault::new(at, "expected a number or a text")),
    })
}

#[derive(Default)]
struct Reader {
    assembler: Assembler,
    written: FxHashSet<(KeyId, Value)>,
    reads: Vec<(KeyId, Value)>,
    initial_known: bool,
}

impl Reader {
    fn merge(&mut self, transaction: Transaction, columns: &mut Columns, label: Value, line: u32) {
        let operation = |assembler: &mut Assembler, columns: &mut Columns, i: usize| {
            assembler.operation(columns, columns.mops[i], true)
        };
        if transaction.is_initial {
            self.initial_known = true;
            for i in transaction.mops {
                let (_, key, value) = operation(&mut self.assembler, columns, i);
                self.assembler.builder.set_initial(key, value);
            }
            return;
        }
        let session = self.assembler.builder.session(label);
        let draft = self.assembler.builder.transaction(session);
        self.assembler.builder.set_line(draft, line);
        for i in transaction.mops {
            let (kind, key, value) = operation(&mut self.assembler, columns, i);
            match kind {
                OpKind::Read => self.reads.push((key, value)),
                _ => {
                    self.written.insert((key, value));
                }
            }
            self.assembler.builder.op(draft, kind, key, value);
        }
    }

    fn infer_initial_values(&mut self) {
        let mut known = FxHashSet::default();
        for &(key, value) in self.reads.iter().filter(|read| !self.written.contains(*read)) {
            if known.insert(key) {
                self.assembler.builder.set_initial(key, value);
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

/// Writes Viper's logs, with a file for initial values of its own so that nothing has to be guessed when
/// they are read again.
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
