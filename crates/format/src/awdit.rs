//! AWDIT's test format: free text, sessions between `=`, transactions between `-`, one `r KEY VALUE` or
//! `w KEY VALUE` per line.
//!
//! One pass over the bytes, O(n). Separators end what is open and empty pieces do not count, so `-----` is
//! one separator. The format has no initial values: a file that needs them has a transaction that writes
//! them.

use crate::load::{Reading, initial};
use crate::text::number::{self, Bad};
use crate::write::numbers::{Encoder, SessionNumbers, push_number};
use crate::write::sessions::Sessions;
use crate::write::{self, Capabilities, HistoryWriter, InitialRule, Names, Sink};
use crate::{Format, Input, Loaded, ReadError, ReadOptions, WriteError};
use anomalist_history::{Builder, Draft, History, OpKind};
use std::collections::BTreeMap;
use std::io::Write;

const SHAPE: &str = "a line is  r|w <key> <value>;  = ends a session and - a transaction";

/// Could this be the beginning of an AWDIT file?
pub(crate) fn sniff(head: &[u8]) -> bool {
    let start = head.iter().position(|b| !matches!(b, b'=' | b'-') && !b.is_ascii_whitespace());
    let Some(start) = start else { return false };
    match &head[start..] {
        [b'r' | b'w', rest @ ..] => {
            let digits = rest.trim_ascii_start();
            digits.len() < rest.len() && digits.first().is_none_or(u8::is_ascii_digit)
        }
        _ => false,
    }
}

/// Reads an AWDIT file.
pub(crate) fn read(input: Input, options: &ReadOptions<'_>) -> Result<Loaded, ReadError> {
    let mut reading = Reading::new(&input, Format::Awdit, options);
    let text = reading.bytes(input)?;
    let mut builder = Builder::new();
    let initial = initial::value(options, &mut builder, None)?;
    builder.set_initial_default(initial);
    let result = scan(&text, &mut builder)
        .map_err(|bad| ReadError::Malformed(vec![bad.fault().help(SHAPE).diagnose(&reading.name, &text, 1)]));
    reading.keep_the_beginning(result)?;
    reading.finish(builder)
}

fn scan(text: &[u8], builder: &mut Builder) -> Result<(), Bad> {
    let (mut at, mut line, mut session) = (0, 1u32, 0i64);
    let mut session_used = false;
    let mut open: Option<Draft> = None;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'\n' => line = line.saturating_add(1),
            b'-' => open = None,
            b'=' => {
                open = None;
                session += i64::from(std::mem::take(&mut session_used));
            }
            b'r' | b'w' => {
                let kind = if byte == b'w' { OpKind::Write } else { OpKind::Read };
                let (key, end) =
                    number::natural(text, skip_blanks(text, at + 1, "a space after r or w")?, "a key")?;
                let (value, end) =
                    number::natural(text, skip_blanks(text, end, "a value after the key")?, "a value")?;
                let draft = *open.get_or_insert_with(|| {
                    session_used = true;
                    let label = builder.int(session);
                    let session = builder.session(label);
                    let draft = builder.transaction(session);
                    builder.set_line(draft, line);
                    draft
                });
                let (key, value) = (builder.int(key as i64), builder.int(value as i64));
                let key = builder.key(key);
                builder.op(draft, kind, key, value);
                at = skip_to_line_end(text, end)?;
                continue;
            }
            b if b.is_ascii_whitespace() => {}
            _ => return Err(Bad { offset: at, expected: "r, w, - or =" }),
        }
        at += 1;
    }
    Ok(())
}

fn blanks(text: &[u8], at: usize) -> usize {
    text[at..].iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\r')).count()
}

fn skip_blanks(text: &[u8], at: usize, expected: &'static str) -> Result<usize, Bad> {
    match blanks(text, at) {
        0 => Err(Bad { offset: at, expected }),
        n => Ok(at + n),
    }
}

fn skip_to_line_end(text: &[u8], at: usize) -> Result<usize, Bad> {
    let at = at + blanks(text, at);
    match text.get(at) {
        None | Some(b'\n' | b'-' | b'=') => Ok(at),
        Some(_) => Err(Bad { offset: at, expected: "the end of the line after the value" }),
    }
}

const CAPABILITIES: Capabilities = Capabilities {
    empty: false,
    keys: Names::Natural63,
    values: Names::Natural63,
    initial: InitialRule::Absent,
    ..Capabilities::PLAIN
};

/// Writes AWDIT's format. Sessions are gathered, because the file has one after the other.
///
/// With `lossy`, initial values that were read become writes of a session of their own, the first.
pub(crate) fn writer(sink: Sink, lossy: bool) -> Result<Box<dyn HistoryWriter>, WriteError> {
    Ok(Box::new(Writer {
        stream: write::stream(Format::Awdit, sink)?,
        encoder: Encoder::new(Format::Awdit, CAPABILITIES, lossy),
        numbers: SessionNumbers::default(),
        sessions: Sessions::default(),
        initial: BTreeMap::new(),
    }))
}

struct Writer {
    stream: Box<dyn Write + Send>,
    encoder: Encoder,
    numbers: SessionNumbers,
    sessions: Sessions,
    initial: BTreeMap<i128, i128>,
}

impl HistoryWriter for Writer {
    fn append(&mut self, batch: &History) -> Result<(), WriteError> {
        for t in self.encoder.transactions(batch)? {
            let session = self.numbers.of(batch, t);
            let between: &[u8] = if self.sessions.is_empty(session) { b"" } else { b"-----\n" };
            let mut text = between.to_vec();
            for op in self.encoder.ops(batch, t) {
                let value = op.value.unwrap_or_else(|| *self.initial.entry(op.key).or_insert(0));
                text.extend_from_slice(if op.write { b"w " } else { b"r " });
                push_number(&mut text, op.key);
                text.push(b' ');
                push_number(&mut text, value);
                text.push(b'\n');
            }
            if text.len() > between.len() {
                self.sessions.push(session, &text)?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), WriteError> {
        let mut load = Vec::new();
        for (key, value) in &self.initial {
            writeln!(load, "w {key} {value}")?;
        }
        self.stream.write_all(&load)?;
        let mut first = load.is_empty();
        for session in 0..self.sessions.len() {
            if self.sessions.is_empty(session) {
                continue;
            }
            if !std::mem::take(&mut first) {
                self.stream.write_all(b"=====\n")?;
            }
            self.sessions.copy(session, &mut self.stream)?;
        }
        self.stream.flush()?;
        Ok(())
    }
}
