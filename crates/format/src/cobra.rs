//! Cobra's logs: a folder with one binary file per session, big endian.
//!
//! ```text
//! 'S' txn:i64                            start      'C' txn:i64    commit
//! 'W' wid:i64 key:i64 val:i64            write      'A' txn:i64    abort
//! 'R' wtxn:i64 wid:i64 key:i64 val:i64   read
//! ```
//! A read names the write it saw, so a version is (key, writer, write id) and `val` a mere hash. The write
//! id stands for the version where it alone tells which one it is; a second writer with the same id gets
//! `writer.id`. Ids that mark the initial version, or a row that does not exist, mean nil, the initial
//! value. VeriStrong's logs give every write one universal id: there the version is (key, val). O(n), one
//! hash per operation.
//!
//! Cobra can put timestamps after S and C. Such logs are refused: the next record would be a guess.

use crate::load::{Reading, initial};
use crate::write::numbers::{Encoder, Logs, SessionNumbers};
use crate::write::{Capabilities, HistoryWriter, InitialRule, Names, Sink};
use crate::{Diagnostic, Format, Input, Loaded, Place, ReadError, ReadOptions, WriteError};
use anomalist_history::{AtomKind, Builder, Draft, History, OpKind, Outcome, SessionId, Value};
use rustc_hash::FxHashMap;
use std::path::Path;

/// Writer of the initial version.
const INITIAL: i64 = 0xbebe_ebee;
/// Writer of a row that does not exist.
const MISSING: i64 = 0xdead_beef;
/// The id of every write in logs where values identify versions.
const UNIVERSAL: i64 = 0xabdd_efee;

/// Could this be the beginning of a Cobra log?
pub(crate) fn sniff(head: &[u8]) -> bool {
    head.first() == Some(&b'S') && matches!(head.get(9), Some(b'R' | b'W' | b'C' | b'A'))
}

/// Reads a folder of Cobra logs, or a single one.
pub(crate) fn read(input: Input, options: &ReadOptions<'_>) -> Result<Loaded, ReadError> {
    let mut reading = Reading::new(&input, Format::Cobra, options);
    let logs = input.into_logs()?;
    let mut builder = Builder::new();
    let initial = initial::value(options, &mut builder, Some(Value::NIL))?;
    builder.set_initial_default(initial);
    let labels = session_labels(&mut builder, &logs);
    let mut reader = Reader {
        builder,
        initial: initial.unwrap_or(Value::NIL),
        writer_of: FxHashMap::default(),
        universal: false,
        ordinary: false,
    };
    for (log, label) in logs.into_iter().zip(labels) {
        let file = log.name().to_owned();
        let bytes = reading.bytes(log)?;
        let (result, unended) = reader.log(&bytes, &file, label);
        reading.warnings.extend(unended);
        reading.keep_the_beginning(result)?;
    }
    if reader.universal && reader.ordinary {
        let message = "some writes have the universal id 0xabddefee and others ids of their own";
        reading.warnings.push(Diagnostic::warning(&reading.name, Place::File, message));
    }
    reading.finish(reader.builder)
}

/// Sessions are called by the number in their log's name if all have one; otherwise by the name.
pub(crate) fn session_labels(builder: &mut Builder, logs: &[Input]) -> Vec<Value> {
    let stem = |log: &Input| {
        Path::new(log.name()).file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
    };
    let number = |name: &str| {
        let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
        digits.parse::<u32>().ok()
    };
    let names: Vec<String> = logs.iter().map(stem).collect();
    let numbers: Option<Vec<u32>> = names.iter().map(|name| number(name)).collect();
    let distinct = numbers.filter(|n| n.iter().collect::<std::collections::BTreeSet<_>>().len() == n.len());
    match distinct {
        Some(numbers) => numbers.into_iter().map(|n| builder.int(i64::from(n))).collect(),
        None => names.iter().map(|name| builder.atom(AtomKind::Text, name)).collect(),
    }
}

struct Reader {
    builder: Builder,
    /// What a read of the initial version returned.
    initial: Value,
    /// The writer that a write id alone stands for.
    writer_of: FxHashMap<i64, i64>,
    universal: bool,
    ordinary: bool,
}

/// Takes records off the front of a log.
struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Records<'_> {
    /// The numbers of the record at `at`; `None` if the log ends inside it.
    fn numbers<const N: usize>(&mut self) -> Option<[i64; N]> {
        let mut numbers = [0; N];
        let mut at = self.at + 1;
        for number in &mut numbers {
            *number = i64::from_be_bytes(*self.bytes.get(at..)?.first_chunk::<8>()?);
            at += 8;
        }
        self.at = at;
        Some(numbers)
    }
}

impl Reader {
    /// Reads a log; also a warning if it ends inside a transaction.
    fn log(&mut self, bytes: &[u8], file: &str, label: Value) -> (Result<(), ReadError>, Option<Diagnostic>) {
        let mut open: Option<(Draft, i64)> = None;
        let mut records = Records { bytes, at: 0 };
        let result = loop {
            let start = records.at;
            let Some(&tag) = bytes.get(start) else { break Ok(()) };
            if let Err(message) = self.record(tag, &mut records, label, &mut open) {
                let error = Diagnostic::error(file, Place::Byte(start as u64), message);
                let help = "S, R, W, C and A are the records; logs with timestamps cannot be read";
                break Err(ReadError::Malformed(vec![error.help(help)]));
            }
        };
        let unended = open.map(|(draft, txn)| {
            self.builder.set_outcome(draft, Outcome::Indeterminate);
            let message = format!("the log ends before transaction {txn} does; its outcome is unknown");
            Diagnostic::warning(file, Place::Byte(bytes.len() as u64), message)
        });
        (result, unended)
    }

    fn record(
        &mut self,
        tag: u8,
        records: &mut Records<'_>,
        label: Value,
        open: &mut Option<(Draft, i64)>,
    ) -> Result<(), String> {
        let cut = |what: &str| format!("the log ends inside a {what} record");
        match (tag, *open) {
            (b'S', None) => {
                let [txn] = records.numbers().ok_or_else(|| cut("start"))?;
                let session: SessionId = self.builder.session(label);
                let draft = self.builder.transaction(session);
                let label = self.builder.int(txn);
                self.builder.set_label(draft, label);
                *open = Some((draft, txn));
            }
            (b'S', Some((_, txn))) => return Err(format!("a transaction starts before {txn} ends")),
            (b'W', Some((draft, txn))) => {
                let [wid, key, val] = records.numbers().ok_or_else(|| cut("write"))?;
                let value = self.version(txn, wid, val);
                self.op(draft, OpKind::Write, key, value);
            }
            (b'R', Some((draft, _))) => {
                let [wtxn, wid, key, val] = records.numbers().ok_or_else(|| cut("read"))?;
                let is_initial = wtxn == INITIAL || wtxn == MISSING;
                let value = if is_initial { self.initial } else { self.version(wtxn, wid, val) };
                self.op(draft, OpKind::Read, key, value);
            }
            (b'C' | b'A', Some((draft, txn))) => {
                let [ended] =
                    records.numbers().ok_or_else(|| cut(if tag == b'C' { "commit" } else { "abort" }))?;
                if ended != txn {
                    return Err(format!("transaction {ended} ends where {txn} is open"));
                }
                if tag == b'A' {
                    self.builder.set_outcome(draft, Outcome::Aborted);
                }
                *open = None;
            }
            (b'W' | b'R' | b'C' | b'A', None) => {
                return Err(format!("a {} record outside of a transaction", tag as char));
            }
            _ => return Err(format!("expected a record, found \"{}\"", tag.escape_ascii())),
        }
        Ok(())
    }

    fn op(&mut self, draft: Draft, kind: OpKind, key: i64, value: Value) {
        let key = self.builder.int(key);
        let key = self.builder.key(key);
        self.builder.op(draft, kind, key, value);
    }

    fn version(&mut self, wtxn: i64, wid: i64, val: i64) -> Value {
        if wid == UNIVERSAL {
            self.universal = true;
            return self.builder.int(val);
        }
        self.ordinary = true;
        if *self.writer_of.entry(wid).or_insert(wtxn) == wtxn {
            self.builder.int(wid)
        } else {
            self.builder.atom(AtomKind::Token, &format!("{wtxn}.{wid}"))
        }
    }
}

const CAPABILITIES: Capabilities = Capabilities {
    aborted: true,
    keys: Names::Integer64,
    values: Names::Integer64,
    initial: InitialRule::Marked,
    ..Capabilities::PLAIN
};

/// Writes Cobra's logs with the universal write id, because a writer that sees one batch at a time cannot
/// know who wrote what a read saw.
pub(crate) fn writer(sink: Sink, lossy: bool) -> Result<Box<dyn HistoryWriter>, WriteError> {
    Ok(Box::new(Writer {
        logs: Logs::create(Format::Cobra, sink)?,
        encoder: Encoder::new(Format::Cobra, CAPABILITIES, lossy),
        sessions: SessionNumbers::default(),
        next: 1,
    }))
}

struct Writer {
    logs: Logs,
    encoder: Encoder,
    sessions: SessionNumbers,
    next: i64,
}

impl HistoryWriter for Writer {
    fn append(&mut self, batch: &History) -> Result<(), WriteError> {
        for t in self.encoder.transactions(batch)? {
            let log = self.logs.log(self.sessions.of(batch, t), |n| format!("T{n}.log"));
            let mut record = |tag: u8, numbers: &[i64]| {
                log.push(tag);
                log.extend(numbers.iter().flat_map(|n| n.to_be_bytes()));
            };
            record(b'S', &[self.next]);
            for op in self.encoder.ops(batch, t) {
                let key = op.key as i64;
                match op.value {
                    None => record(b'R', &[INITIAL, INITIAL, key, 0]),
                    Some(value) if op.write => record(b'W', &[UNIVERSAL, key, value as i64]),
                    Some(value) => record(b'R', &[UNIVERSAL, UNIVERSAL, key, value as i64]),
                }
            }
            match batch.outcome(t) {
                Outcome::Committed => record(b'C', &[self.next]),
                _ => record(b'A', &[self.next]),
            }
            self.next += 1;
        }
        self.logs.flush(false)
    }

    fn finish(mut self: Box<Self>) -> Result<(), WriteError> {
        self.logs.flush(true)
    }
}
