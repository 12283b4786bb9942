//! Plume's text: one `r(key,value,session,txn)` per line. PolySI and IsoVista write the same.
//!
//! The benchmark format, so its reader is built for speed: workers scan blocks of lines into columns with a
//! hand-written scanner that converts eight digits at a time; the calling thread numbers keys and
//! transactions and appends whole segments of one transaction. Nothing is allocated per line. O(bytes) on
//! the workers, O(operations) in the merge.
//!
//! The first line of a transaction decides its session. Transaction −1 is "aborted": every such line is an
//! aborted transaction of its own, and reads in them are dropped, for they say nothing. 0 is the initial
//! value; the transaction with which IsoVista's files begin, alone in its session and writing nothing but
//! 0, is the initial one and not part of the history.

mod columns;

use columns::{Columns, LANES, Segment, scan_block};

use crate::load::lines::{BlockInfo, line_end, parallel_blocks};
use crate::load::{Reading, initial};
use crate::write::numbers::{Encoder, SessionNumbers, push_number};
use crate::write::{self, Capabilities, HistoryWriter, Names, Sink};
use crate::{Diagnostic, Format, Input, Loaded, Place, ReadError, ReadOptions, WriteError};
use anomalist_history::{Builder, Draft, History, OpKind, Outcome, SessionId, TxnId, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use std::io::Write;

const SHAPE: &str = "a Plume line is  r|w(<key>,<value>,<session>,<transaction>)";

/// Could this be the beginning of a Plume file?
pub(crate) fn sniff(head: &[u8]) -> bool {
    let text = head.trim_ascii_start();
    matches!(text, [b'r' | b'w', b'(', rest @ ..] if rest.first().is_none_or(|b| b.is_ascii_digit() || *b == b'-'))
}

/// Reads a Plume file.
pub(crate) fn read(input: Input, options: &ReadOptions<'_>) -> Result<Loaded, ReadError> {
    let mut reading = Reading::new(&input, Format::Plume, options);
    let mut merger = Merger::default();
    let initial = initial::value(options, &mut merger.builder, Value::int(0))?;
    merger.builder.set_initial_default(initial);
    let result =
        parallel_blocks(input, options, line_end, scan_block, |info, lanes: &mut [Columns; LANES]| {
            merger.merge(&info, lanes)
        });
    reading.keep_the_beginning(result)?;
    reading.warnings.extend(merger.strays);
    let committed = !merger.begins_aborted;
    initial::discard_initial_transaction(&mut merger.builder, &merger.sessions, committed, initial);
    reading.finish(merger.builder)
}

/// Transaction ids to drafts. Ids are dense in most files: those need no hashing.
#[derive(Default)]
struct Txns {
    /// One more than the draft of a transaction; 0 if it has none.
    direct: Vec<u32>,
    hashed: FxHashMap<u64, u32>,
}

impl Txns {
    /// The draft of a transaction, made by `new` when it has none.
    #[inline]
    fn draft(&mut self, txn: u64, count: usize, new: impl FnOnce() -> Draft) -> Draft {
        let i = txn as usize;
        if let Some(&slot) = self.direct.get(i)
            && slot != 0
        {
            return Draft(slot - 1);
        }
        if let Some(&slot) = self.hashed.get(&txn) {
            return Draft(slot - 1);
        }
        let draft = new();
        // Bounded by what was read, not by what the input claims: at most 16 bytes per transaction.
        if txn < 4 * count as u64 + (1 << 16) {
            if i >= self.direct.len() {
                self.direct.resize((i + 1).next_power_of_two(), 0);
            }
            self.direct[i] = draft.0 + 1;
        } else {
            self.hashed.insert(txn, draft.0 + 1);
        }
        draft
    }
}

#[derive(Default)]
struct Merger {
    builder: Builder,
    txns: Txns,
    /// By draft.
    sessions: Vec<SessionId>,
    /// The first line whose session is not that of its transaction.
    strays: Option<Diagnostic>,
    /// The first transaction of the file is an aborted one.
    begins_aborted: bool,
}

impl Merger {
    fn merge(&mut self, info: &BlockInfo<'_>, lanes: &[Columns; LANES]) -> Result<(), ReadError> {
        let mut first_line = info.first_line;
        for columns in lanes {
            self.merge_lane(info, first_line, columns);
            first_line = first_line.saturating_add(columns.lines);
            if let Some(bad) = columns.bad {
                return Err(info.malformed(&bad.fault().help(SHAPE)));
            }
        }
        Ok(())
    }

    fn merge_lane(&mut self, info: &BlockInfo<'_>, first_line: u32, columns: &Columns) {
        let ends = columns.segments.iter().skip(1).map(|s| s.start).chain([columns.heads.len() as u32]);
        for (segment, end) in columns.segments.iter().zip(ends) {
            let range = segment.start as usize..end as usize;
            let ops = columns.heads[range.clone()]
                .iter()
                .copied()
                .zip(columns.values[range.clone()].iter().copied());
            let line = first_line.saturating_add(segment.line);
            let session = self.builder.int(segment.session as i64);
            if segment.txn < 0 {
                self.aborted(session, line, ops);
                continue;
            }
            let (builder, sessions) = (&mut self.builder, &mut self.sessions);
            let session = builder.session(session);
            let draft = self.txns.draft(segment.txn as u64, sessions.len(), || {
                let draft = builder.transaction(session);
                let label = builder.int(segment.txn);
                builder.set_label(draft, label);
                builder.set_line(draft, line);
                sessions.push(session);
                draft
            });
            if sessions[draft.0 as usize] != session && self.strays.is_none() {
                self.strays = Some(stray(info, line, segment));
            }
            if columns.all_small() {
                let (heads, values) = (&columns.heads[range.clone()], &columns.values[range]);
                let heads = heads.iter().map(|&head| (kind(head), small(head >> 1)));
                builder.named_ops(draft, heads, values.iter().map(|&value| small(value)), |_| {});
                continue;
            }
            for (head, value) in ops {
                let (kind, key, value) = decode(builder, head, value);
                let key = builder.key(key);
                builder.op(draft, kind, key, value);
            }
        }
    }

    fn aborted(&mut self, session: Value, line: u32, ops: impl Iterator<Item = (u64, u64)>) {
        for (i, (head, value)) in ops.enumerate() {
            let (kind, key, value) = decode(&mut self.builder, head, value);
            if kind == OpKind::Read {
                continue;
            }
            let session = self.builder.session(session);
            self.begins_aborted |= self.sessions.is_empty();
            let draft = self.builder.transaction(session);
            self.sessions.push(session);
            self.builder.set_outcome(draft, Outcome::Aborted);
            self.builder.set_line(draft, line.saturating_add(i as u32));
            let key = self.builder.key(key);
            self.builder.op(draft, kind, key, value);
        }
    }
}

#[inline]
fn kind(head: u64) -> OpKind {
    if head & 1 == 1 { OpKind::Write } else { OpKind::Read }
}

/// A number that is stored in place.
#[inline]
fn small(number: u64) -> Value {
    Value::int(number as i64).unwrap_or(Value::NIL)
}

fn decode(builder: &mut Builder, head: u64, value: u64) -> (OpKind, Value, Value) {
    (kind(head), builder.int((head >> 1) as i64), builder.int(value as i64))
}

fn stray(info: &BlockInfo<'_>, line: u32, segment: &Segment) -> Diagnostic {
    let before = (line - info.first_line) as usize;
    let text = info.text.split(|&b| b == b'\n').nth(before).unwrap_or_default();
    let message = format!(
        "transaction {} began in another session, which it keeps; session {} is ignored here",
        segment.txn, segment.session
    );
    Diagnostic::warning(info.name, Place::Line { line, column: 1 }, message).snippet(text)
}

const CAPABILITIES: Capabilities = Capabilities {
    aborted_writes: true,
    empty: false,
    keys: Names::Natural63,
    values: Names::Natural63,
    ..Capabilities::PLAIN
};

/// Writes Plume's text.
pub(crate) fn writer(sink: Sink, lossy: bool) -> Result<Box<dyn HistoryWriter>, WriteError> {
    Ok(Box::new(Writer {
        stream: write::stream(Format::Plume, sink)?,
        encoder: Encoder::new(Format::Plume, CAPABILITIES, lossy),
        sessions: SessionNumbers::default(),
        used: FxHashSet::default(),
        next: 0,
        text: Vec::new(),
    }))
}

struct Writer {
    stream: Box<dyn Write + Send>,
    encoder: Encoder,
    sessions: SessionNumbers,
    used: FxHashSet<u64>,
    next: u64,
    text: Vec<u8>,
}

impl Writer {
    /// The transaction's own number if it has one that no other has, otherwise a new one.
    fn txn_number(&mut self, batch: &History, t: TxnId) -> u64 {
        let label = batch.txn_label(t).and_then(|label| write::integer(batch, label));
        let own = label.and_then(|n| i64::try_from(n).ok()).and_then(|n| u64::try_from(n).ok());
        let number = match own {
            Some(number) if !self.used.contains(&number) => number,
            _ => self.next,
        };
        self.used.insert(number);
        while self.used.contains(&self.next) {
            self.next += 1;
        }
        number
    }

    /// The session's own number if sessions are numbers; otherwise its rank.
    fn session_number(&mut self, batch: &History, t: TxnId) -> i128 {
        let label = batch.session_label(batch.session_of(t));
        match write::integer(batch, label) {
            Some(number) if (0..=i128::from(i64::MAX)).contains(&number) => number,
            _ => (1 << 52) + self.sessions.of(batch, t) as i128,
        }
    }
}

impl HistoryWriter for Writer {
    fn append(&mut self, batch: &History) -> Result<(), WriteError> {
        for t in self.encoder.transactions(batch)? {
            let session = self.session_number(batch, t);
            let aborted = batch.outcome(t) == Outcome::Aborted;
            let txn = if aborted { -1 } else { self.txn_number(batch, t) as i64 };
            let tail = format!(",{session},{txn})\n").into_bytes();
            for op in self.encoder.ops(batch, t).filter(|op| op.write || !aborted) {
                self.text.extend_from_slice(if op.write { b"w(" } else { b"r(" });
                push_number(&mut self.text, op.key);
                self.text.push(b',');
                push_number(&mut self.text, op.value.unwrap_or(0));
                self.text.extend_from_slice(&tail);
            }
            if self.text.len() >= 1 << 16 {
                self.stream.write_all(&self.text)?;
                self.text.clear();
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), WriteError> {
        self.stream.write_all(&self.text)?;
        self.stream.flush()?;
        Ok(())
    }
}
