//! Elle's and Jepsen's histories: `elle-edn`, `elle-json` and `elle-jsonl`.
//!
//! A history is a sequence of operations `{type, process, value, index, …}`. An `invoke` and the next
//! completion of the same process are one transaction; `ok` committed, `fail` aborted, `info` and no
//! completion at all are indeterminate. The three notations share everything but their syntax: a parser
//! makes [`Event`]s, a [`Merger`] pairs them.
//!
//! - A transaction takes the place of its completion; those that never complete come last.
//! - Real-time intervals are positions in the file. They exist only if every completion has its invocation.
//! - Results come from `ok` completions only; what an `info` or `fail` wrote is what it was asked to write.
//!
//! Source: `jepsen.history` and Elle 0.2.8; where Elle would drop operations without a process, they are
//! kept. O(n).

mod edn;
pub(crate) mod events;
mod json;
mod merge;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod write;

use crate::input::report;
use crate::load::Reading;
use crate::load::ops::Columns;
use crate::load::records::{Layout, LineCounter, read_records};
use crate::text::edn::{Edn, Token};
use crate::text::fault::Fault;
use crate::text::json::Json;
use crate::{Format, Input, Loaded, ReadError, ReadOptions};
use anomalist_history::{EventKind, OpKind, Value};
use merge::Merger;
use std::ops::Range;

/// The type of an operation.
pub(crate) fn event_kind(name: &[u8], at: usize) -> Result<EventKind, Fault> {
    EventKind::from_name(name)
        .ok_or_else(|| Fault::new(at, format!("{EXPECTED_KIND}, found \"{}\"", lossy(name))))
}

pub(crate) const EXPECTED_KIND: &str = "expected one of the types invoke, ok, fail and info";

/// Who ran an operation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Process {
    Missing,
    /// Not an integer: the nemesis.
    Other,
    Client(Value),
}

/// One operation as parsed.
pub(crate) struct Event {
    /// Where it begins.
    pub at: usize,
    pub kind: EventKind,
    pub process: Process,
    pub index: Option<Value>,
    pub mops: Range<usize>,
    /// The lengths of the columns before it.
    pub mark: (usize, usize),
    /// It has a value.
    pub recorded: bool,
    /// Its value is no list of micro-operations; an error if a client ran it.
    pub fault: Option<Box<Fault>>,
}

impl Event {
    pub fn new(at: usize, columns: &Columns) -> Event {
        let mark = columns.mark();
        Event {
            at,
            kind: EventKind::Invoke,
            process: Process::Missing,
            index: None,
            mops: mark.0..mark.0,
            mark,
            recorded: false,
            fault: None,
        }
    }

    /// The event, all of its fields read.
    pub fn close(mut self, kind: Option<EventKind>, columns: &Columns) -> Result<Event, Fault> {
        self.kind =
            kind.ok_or_else(|| Fault::new(self.at, "expected a type in this operation, found none"))?;
        self.mops.end = columns.mops.len();
        Ok(self)
    }
}

/// The micro-operation of this name.
#[inline]
pub(crate) fn micro_op(name: &[u8], at: usize) -> Result<OpKind, Fault> {
    match name {
        b"r" | b"read" => Ok(OpKind::Read),
        b"w" | b"write" => Ok(OpKind::Write),
        b"append" => Ok(OpKind::Append),
        _ => Err(bad_micro_op(at, &lossy(name))),
    }
}

/// The beginning of an unknown name, for a message.
pub(crate) fn lossy(name: &[u8]) -> String {
    String::from_utf8_lossy(name).chars().take(40).collect()
}

/// The fault that a micro-operation is none of those known.
#[cold]
pub(crate) fn bad_micro_op(at: usize, found: &str) -> Fault {
    Fault::new(at, format!("expected the micro-operation r, w or append, found \"{found}\""))
}

/// Fields of an operation.
const FIELDS: [&str; 6] = ["type", "process", "f", "index", "value", "time"];

/// True if the text looks like Elle operations in EDN.
pub(crate) fn sniff_edn(head: &[u8]) -> bool {
    let mut edn = Edn::new(head);
    let mut open = 0;
    // A map with a keyword or string `type` or `process` among its first tokens.
    for _ in 0..64 {
        match edn.next() {
            Ok(Token::Open(_)) => open += 1,
            Ok(Token::Keyword(name)) if open > 0 && FIELDS.contains(&name) => return true,
            // In JSON a colon follows the name.
            Ok(Token::Text(name)) if open > 0 && FIELDS.contains(&&*name) => {
                return head.get(edn.at()) != Some(&b':');
            }
            // No operation at all, but the brackets for some.
            Ok(Token::Close(b']' | b')')) if open == 1 => return edn.next() == Ok(Token::End),
            Ok(Token::End) | Err(_) => return false,
            Ok(_) if open == 0 => return false,
            Ok(_) => {}
        }
    }
    false
}

/// True if the text looks like an array of Elle operations in JSON.
pub(crate) fn sniff_json(head: &[u8]) -> bool {
    let mut json = Json::new(head);
    json.take(b'[') && sniff_object(&mut json)
}

/// True if the text looks like Elle operations in JSON, one per line.
pub(crate) fn sniff_jsonl(head: &[u8]) -> bool {
    sniff_object(&mut Json::new(head))
}

/// An object with a `type` that is one of Elle's, as far as the head reaches.
fn sniff_object(json: &mut Json<'_>) -> bool {
    let mut first = true;
    if !json.take(b'{') {
        return false;
    }
    while let Ok(Some(name)) = json.key(&mut first) {
        if *name == *b"type" {
            return matches!(json.word(), Ok(Some(kind)) if EventKind::from_name(&kind).is_some());
        }
        // A long value may be cut by the end of the head: the process names an Elle operation well enough.
        if json.skip().is_err() {
            return *name == *b"value" || *name == *b"process";
        }
    }
    false
}

/// Reads EDN, which has no lines: as one text.
pub(crate) fn read_edn(input: Input, options: &ReadOptions<'_>) -> Result<Loaded, ReadError> {
    let mut reading = Reading::new(&input, Format::ElleEdn, options);
    let text = reading.bytes(input)?;
    let result = edn_events(&text, options);
    let (merger, fault) = result?;
    let malformed = |fault: Fault| ReadError::Malformed(vec![fault.diagnose(&reading.name, &text, 1)]);
    let result = fault.map_or(Ok(()), |fault| Err(malformed(fault)));
    reading.keep_the_beginning(result)?;
    merger.finish(reading)
}

/// The events of a text, up to the first fault.
fn edn_events(text: &[u8], options: &ReadOptions<'_>) -> Result<(Merger, Option<Fault>), ReadError> {
    /// Events between two looks at whether the result is still wanted.
    const PATIENCE: usize = 1 << 14;
    let (mut edn, mut shape) = (Edn::new(text), edn::Shape::Unknown);
    let (mut merger, mut columns, mut lines) =
        (Merger::default(), Columns::default(), LineCounter::new(text, 1));
    for count in 1.. {
        columns.reuse();
        let merged = match edn::event(&mut edn, &mut shape, &mut columns) {
            Ok(Some(event)) => {
                let line = lines.line(event.at);
                merger.merge(event, &mut columns, line)
            }
            Ok(None) => break,
            Err(fault) => Err(fault),
        };
        if let Err(fault) = merged {
            return Ok((merger, Some(fault)));
        }
        if count % PATIENCE == 0 {
            report(options, text.len() as u64)?;
        }
    }
    Ok((merger, None))
}

/// Reads one JSON array.
pub(crate) fn read_json(input: Input, options: &ReadOptions<'_>) -> Result<Loaded, ReadError> {
    read(input, Format::ElleJson, Layout::Objects, options)
}

/// Reads JSON lines.
pub(crate) fn read_jsonl(input: Input, options: &ReadOptions<'_>) -> Result<Loaded, ReadError> {
    read(input, Format::ElleJsonl, Layout::Lines, options)
}

fn read(
    input: Input,
    format: Format,
    layout: Layout,
    options: &ReadOptions<'_>,
) -> Result<Loaded, ReadError> {
    let mut reading = Reading::new(&input, format, options);
    let mut merger = Merger::default();
    read_records(input, &mut reading, layout, json::operation, |event, columns, line| {
        merger.merge(event, columns, line)
    })?;
    merger.finish(reading)
}
