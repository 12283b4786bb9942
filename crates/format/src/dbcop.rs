//! dbcop's bincode: one binary file, little endian. PolySI and VeriStrong ship their inputs in it.
//!
//! ```text
//! file    := id:u64 nodes:u64 variables:u64 transactions:u64 events:u64
//!            info:str start:str end:str vec<session>
//! session := vec<transaction>     transaction := vec<event> success:bool
//! event   := write:bool variable:u64 value:u64 success:bool
//! str, vec := length:u64 …        bool := 0 | 1
//! ```
//! The five leading numbers are a generator's parameters and mean nothing for the content. No length is
//! trusted: nothing is allocated for it, reading simply goes on until it is reached or the bytes end. One
//! pass, O(n).
//!
//! A failed transaction is aborted; a failed event inside a committed one did not happen. 0 is the initial
//! value.

use crate::load::{Reading, initial};
use crate::write::numbers::{Encoder, SessionNumbers};
use crate::write::sessions::Sessions;
use crate::write::{self, Capabilities, HistoryWriter, Sink};
use crate::{Diagnostic, Format, Input, Loaded, Place, ReadError, ReadOptions, WriteError};
use anomalist_history::{AtomKind, Builder, Draft, History, OpKind, Outcome, SessionId, Value};
use rustc_hash::FxHashSet;
use std::io::Write;

/// Leading numbers of a file.
const LEADING: usize = 5;
/// Longest text of a header that [`sniff`] believes.
const LONGEST_TEXT: u64 = 4096;

/// Something wrong at a byte.
struct Bad {
    offset: usize,
    message: String,
}

/// Reads numbers off the front.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn cut(&self, what: &str) -> Bad {
        Bad { offset: self.bytes.len(), message: format!("the file ends inside {what}") }
    }

    fn number(&mut self, what: &str) -> Result<u64, Bad> {
        let bytes = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<8>());
        let number = bytes.map(|b| u64::from_le_bytes(*b)).ok_or_else(|| self.cut(what))?;
        self.at += 8;
        Ok(number)
    }

    fn flag(&mut self, what: &str) -> Result<bool, Bad> {
        let byte = *self.bytes.get(self.at).ok_or_else(|| self.cut(what))?;
        if byte > 1 {
            return Err(Bad {
                offset: self.at,
                message: format!("expected 0 or 1 for {what}, found {byte}"),
            });
        }
        self.at += 1;
        Ok(byte == 1)
    }

    fn text(&mut self, what: &str) -> Result<&str, Bad> {
        let start = self.at;
        let length = self.number(what)?;
        let end = usize::try_from(length).ok().and_then(|length| self.at.checked_add(length));
        let Some(text) = end.and_then(|end| self.bytes.get(self.at..end)) else {
            let left = self.bytes.len() - self.at;
            let message = format!("{what} claims {length} bytes, but {left} are left");
            return Err(Bad { offset: start, message });
        };
        self.at += text.len();
        std::str::from_utf8(text).map_err(|_| Bad { offset: start, message: format!("{what} is not UTF-8") })
    }
}

/// Could this be the beginning of a dbcop file?
pub(crate) fn sniff(head: &[u8]) -> bool {
    let mut cursor = Cursor { bytes: head, at: 8 * LEADING };
    let printable = |text: Result<&str, Bad>| {
        text.is_ok_and(|t| t.len() as u64 <= LONGEST_TEXT && !t.chars().any(char::is_control))
    };
    (0..3).all(|_| printable(cursor.text("text"))) && cursor.number("length").is_ok()
}

/// Reads a dbcop file.
pub(crate) fn read(mut input: Input, options: &ReadOptions<'_>) -> Result<Loaded, ReadError> {
    let mut reading = Reading::new(&input, Format::Dbcop, options);
    // What is wrong with the header is seen in the beginning: the input may have no end.
    let head = input.peek()?;
    let bytes = if sniff(head) { reading.bytes(input)? } else { head.to_vec() };
    let mut builder = Builder::new();
    let initial = initial::value(options, &mut builder, Value::int(0))?;
    builder.set_initial_default(initial);
    let mut reader = Reader { builder, sessions: Vec::new(), begins_aborted: false };
    let mut cursor = Cursor { bytes: &bytes, at: 0 };
    let result = reader.file(&mut cursor).map_err(|bad| {
        let place = Place::Byte(bad.offset as u64);
        ReadError::Malformed(vec![Diagnostic::error(&reading.name, place, bad.message)])
    });
    reading.keep_the_beginning(result)?;
    let committed = !reader.begins_aborted;
    initial::discard_initial_transaction(&mut reader.builder, &reader.sessions, committed, initial);
    reading.finish(reader.builder)
}

struct Reader {
    builder: Builder,
    /// By draft.
    sessions: Vec<SessionId>,
    begins_aborted: bool,
}

impl Reader {
    fn file(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Bad> {
        for _ in 0..LEADING {
            cursor.number("the header")?;
        }
        for what in ["the header's info", "the header's start time", "the header's end time"] {
            cursor.text(what)?;
        }
        let sessions = cursor.number("the number of sessions")?;
        for s in 0..sessions {
            let label = self.unsigned(s);
            let transactions = cursor.number("a session's length")?;
            for _ in 0..transactions {
                let session = self.builder.session(label);
                let draft = self.builder.transaction(session);
                self.sessions.push(session);
                let read = self.transaction(cursor, draft);
                if read.is_err() {
                    self.builder.discard(draft);
                }
                read?;
            }
        }
        match cursor.bytes.len() - cursor.at {
            0 => Ok(()),
            left => Err(Bad {
                offset: cursor.at,
                message: format!("expected the end of the file, found {left} more"),
            }),
        }
    }

    fn transaction(&mut self, cursor: &mut Cursor<'_>, draft: Draft) -> Result<(), Bad> {
        let events = cursor.number("a transaction's length")?;
        for _ in 0..events {
            let write = cursor.flag("an event's kind")?;
            let variable = cursor.number("an event's variable")?;
            let value = cursor.number("an event's value")?;
            if cursor.flag("an event's success")? {
                let (key, value) = (self.unsigned(variable), self.unsigned(value));
                let key = self.builder.key(key);
                self.builder.op(draft, if write { OpKind::Write } else { OpKind::Read }, key, value);
            }
        }
        if !cursor.flag("a transaction's success")? {
            self.begins_aborted |= draft == Draft(0);
            self.builder.set_outcome(draft, Outcome::Aborted);
        }
        Ok(())
    }

    fn unsigned(&mut self, number: u64) -> Value {
        match i64::try_from(number) {
            Ok(number) => self.builder.int(number),
            Err(_) => self.builder.atom(AtomKind::Token, &number.to_string()),
        }
    }
}

const CAPABILITIES: Capabilities = Capabilities { aborted: true, ..Capabilities::PLAIN };

/// When a written history was recorded is not known, and output must not depend on the clock.
const NO_TIME: &str = "1970-01-01T00:00:00+00:00";

/// Writes dbcop's format. Sessions are gathered, because the file has one after the other.
pub(crate) fn writer(sink: Sink, lossy: bool) -> Result<Box<dyn HistoryWriter>, WriteError> {
    Ok(Box::new(Writer {
        stream: write::stream(Format::Dbcop, sink)?,
        encoder: Encoder::new(Format::Dbcop, CAPABILITIES, lossy),
        numbers: SessionNumbers::default(),
        sessions: Sessions::default(),
        counts: Vec::new(),
        variables: FxHashSet::default(),
        events: 0,
    }))
}

struct Writer {
    stream: Box<dyn Write + Send>,
    encoder: Encoder,
    numbers: SessionNumbers,
    sessions: Sessions,
    /// Number of transactions of each.
    counts: Vec<u64>,
    variables: FxHashSet<i128>,
    events: u64,
}

impl HistoryWriter for Writer {
    fn append(&mut self, batch: &History) -> Result<(), WriteError> {
        self.variables.extend(self.encoder.keys(batch));
        for t in self.encoder.transactions(batch)? {
            let session = self.numbers.of(batch, t);
            self.counts.resize(self.counts.len().max(session + 1), 0);
            self.counts[session] += 1;
            let mut bytes = vec![0; 8];
            let mut length = 0u64;
            for op in self.encoder.ops(batch, t) {
                bytes.push(u8::from(op.write));
                bytes.extend((op.key as u64).to_le_bytes());
                bytes.extend((op.value.unwrap_or(0) as u64).to_le_bytes());
                bytes.push(1);
                length += 1;
            }
            bytes[..8].copy_from_slice(&length.to_le_bytes());
            bytes.push(u8::from(batch.outcome(t) == Outcome::Committed));
            self.sessions.push(session, &bytes)?;
            self.events += length;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), WriteError> {
        let transactions: u64 = self.counts.iter().sum();
        let sessions = self.counts.len() as u64;
        let mut header = Vec::new();
        for number in [0, sessions, self.variables.len() as u64, transactions, self.events] {
            header.extend(number.to_le_bytes());
        }
        for text in ["anomalist", NO_TIME, NO_TIME] {
            header.extend((text.len() as u64).to_le_bytes());
            header.extend(text.bytes());
        }
        header.extend(sessions.to_le_bytes());
        self.stream.write_all(&header)?;
        for (session, count) in self.counts.iter().enumerate() {
            self.stream.write_all(&count.to_le_bytes())?;
            self.sessions.copy(session, &mut self.stream)?;
        }
        self.stream.flush()?;
        Ok(())
    }
}
