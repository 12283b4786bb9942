//! Plume's text: one `r(key,value,session,txn)` per line. PolySI and IsoVista write the same.
//!
//! The benchmark format, so its reader is built for speed: workers scan blocks of lines into columns with a hand-written
//! scanner that converts eight digits at a time; the calling thread numbers keys and transactions and appends whole
//! segments of one transaction. Nothing is allocated per line. O(bytes) on the workers, O(operations) in the merge.
//!
//! The first line of a transaction decides its session. Transaction −1 is "aborted": every such line is an aborted transaction of its
//! own, and reads in them are dropped, for they say nothing. 0 is the initial value; the transaction with which IsoVista's
//! files begin, alone in its session and writing nothing but 0, is the initial one and not part of the history.

use crate::lines::{BlockInfo, parallel_lines_reusing};
use crate::scan::{self, Bad};
use crate::write::{self, Capabilities, Encoder, HistoryWriter, Names, SessionNumbers, Sink};
use crate::{Diagnostic, Format, Input, Loaded, Place, ReadError, ReadOptions, WriteError, initial};
use isolde_history::{Builder, Draft, History, OpKind, Outcome, SessionId, TxnId, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use std::io::Write;

const SHAPE: &str = "a Plume line is  r|w(<key>,<value>,<session>,<transaction>)";

/// Shortest line: `r(0,0,0,0)` and a newline.
const SHORTEST_LINE: usize = 11;

/// Lines of one transaction that follow each other.
struct Segment {
    session: u64,
    /// −1: aborted.
    txn: i64,
    /// First operation in the columns of the block.
    start: u32,
    /// Line of that operation, counted from 0 in the block.
    line: u32,
}

/// What a worker makes of some lines.
#[derive(Default)]
struct Columns {
    /// Twice the key, plus one for a write.
    heads: Vec<u64>,
    values: Vec<u64>,
    segments: Vec<Segment>,
    /// Number of lines, blank ones included.
    lines: u32,
    bad: Option<Bad>,
}

/// Parts of a block that are scanned side by side. Where a number begins depends on where the one before ended, so a single
/// scan waits for itself; the processor fills the gaps with the other's work.
const LANES: usize = 2;

/// Could this be the beginning of a Plume file?
pub(crate) fn sniff(head: &[u8]) -> bool {
    let text = head.trim_ascii_start();
    matches!(text, [b'r' | b'w', b'(', rest @ ..] if rest.first().is_none_or(|b| b.is_ascii_digit() || *b == b'-'))
}

/// Reads a Plume file.
pub(crate) fn read(input: Input, options: &ReadOptions<'_>) -> Result<Loaded, ReadError> {
    let name = input.name().to_owned();
    let mut merger = Merger::default();
    let initial = initial::value(options, &mut merger.builder, Value::int(0))?;
    merger.builder.set_initial_default(initial);
    let result = parallel_lines_reusing(input, options, scan_block, |info, lanes: &mut [Columns; LANES]| {
        merger.merge(&info, lanes)
    });
    let mut warnings = Vec::new();
    crate::keep_the_beginning(result, options, &mut warnings)?;
    if let Some(strays) = merger.strays {
        warnings.push(strays);
    }
    initial::discard_initial_transaction(
        &mut merger.builder,
        &merger.sessions,
        !merger.begins_aborted,
        initial,
    );
    let history = merger.builder.finish_on(options.threads);
    let history = history.map_err(|source| ReadError::TooLarge { file: name, source })?;
    Ok(Loaded { history, format: Format::Plume, warnings })
}

fn scan_block(text: &[u8], columns: &mut [Columns; LANES]) {
    let mut rest = (text, 0);
    let mut lanes = columns.iter_mut().enumerate().map(|(i, columns)| {
        let (text, offset) = rest;
        let wanted = text.len() / (LANES - i);
        let cut =
            memchr::memchr(b'\n', &text[wanted.min(text.len())..]).map_or(text.len(), |n| wanted + n + 1);
        rest = (&text[cut..], offset + cut);
        Lane::new(&text[..cut], offset, columns)
    });
    let (Some(mut a), Some(mut b)) = (lanes.next(), lanes.next()) else { return };
    while a.has_more() && b.has_more() {
        a.step();
        b.step();
    }
    for mut lane in [a, b] {
        while lane.has_more() {
            lane.step();
        }
    }
}

/// A scan in progress.
struct Lane<'a> {
    text: &'a [u8],
    at: usize,
    /// Of the text in its block.
    offset: usize,
    last: Tail,
    columns: &'a mut Columns,
}

/// The `,<session>,<txn>)\n` of the line before. Lines of one transaction mostly follow each other, and comparing sixteen bytes
/// is less work than reading two numbers.
struct Tail {
    session: u64,
    txn: i64,
    bytes: u128,
    mask: u128,
    length: usize,
}

impl Tail {
    /// Equal to no line's.
    const NONE: Tail = Tail { session: u64::MAX, txn: i64::MIN, bytes: u128::MAX, mask: 0, length: 0 };

    #[inline(always)]
    fn repeats(&self, text: &[u8], at: usize) -> bool {
        let chunk = text.get(at..).and_then(|rest| rest.first_chunk::<16>());
        chunk.is_some_and(|chunk| u128::from_le_bytes(*chunk) & self.mask == self.bytes)
    }

    /// The tail at `at`, which ends at `end`.
    fn new(text: &[u8], at: usize, end: usize, session: u64, txn: i64) -> Tail {
        let length = end - at;
        match text[at..].first_chunk::<16>() {
            Some(chunk) if length <= 16 && text[end - 1] == b'\n' => {
                let mask = u128::MAX >> (8 * (16 - length));
                Tail { session, txn, bytes: u128::from_le_bytes(*chunk) & mask, mask, length }
            }
            _ => Tail { session, txn, ..Tail::NONE },
        }
    }
}

impl<'a> Lane<'a> {
    fn new(text: &'a [u8], offset: usize, columns: &'a mut Columns) -> Lane<'a> {
        columns.heads.clear();
        columns.values.clear();
        columns.segments.clear();
        (columns.lines, columns.bad) = (0, None);
        let most = text.len() / SHORTEST_LINE + 1;
        columns.heads.reserve(most);
        columns.values.reserve(most);
        Lane { text, at: 0, offset, last: Tail::NONE, columns }
    }

    #[inline(always)]
    fn has_more(&self) -> bool {
        self.at < self.text.len()
    }

    #[inline(always)]
    fn step(&mut self) {
        match scan_front(self.text, self.at) {
            Ok((head, value, tail)) => {
                if self.last.repeats(self.text, tail) {
                    self.at = tail + self.last.length;
                } else if !self.new_tail(tail) {
                    return;
                }
                self.columns.heads.push(head);
                self.columns.values.push(value);
                self.columns.lines += 1;
            }
            Err(bad) => self.odd(bad),
        }
    }

    /// Reads session and transaction; false if they are malformed.
    fn new_tail(&mut self, tail: usize) -> bool {
        let (session, txn, end) = match scan_tail(self.text, tail) {
            Ok(found) => found,
            Err(bad) => {
                self.odd(bad);
                return false;
            }
        };
        let columns = &mut *self.columns;
        if session != self.last.session || txn != self.last.txn {
            let (start, line) = (columns.heads.len() as u32, columns.lines);
            columns.segments.push(Segment { session, txn, start, line });
        }
        self.last = Tail::new(self.text, tail, end, session, txn);
        self.at = end;
        true
    }

    #[cold]
    fn odd(&mut self, bad: Bad) {
        if bad.expected.is_empty() {
            // A blank line.
            self.at = bad.offset;
            self.columns.lines += 1;
        } else {
            self.at = self.text.len();
            self.columns.bad = Some(Bad { offset: self.offset + bad.offset, ..bad });
        }
    }
}

const fn bad<T>(offset: usize, expected: &'static str) -> Result<T, Bad> {
    Err(Bad { offset, expected })
}

/// Head and value of the line that begins at `at`, and where the rest of it begins. A blank line is [`Bad`] with nothing
/// expected, at the next line.
#[inline(always)]
fn scan_front(text: &[u8], at: usize) -> Result<(u64, u64, usize), Bad> {
    let write = match text[at..] {
        [b'w', b'(', ..] => 1,
        [b'r', b'(', ..] => 0,
        _ => return scan_odd_start(text, at),
    };
    let (key, i) = scan::natural(text, at + 2, "a key")?;
    if text.get(i) != Some(&b',') {
        return bad(i, "\",<value>,<session>,<transaction>)\" after the key");
    }
    let (value, i) = scan::natural(text, i + 1, "a value")?;
    Ok((key << 1 | write, value, i))
}

/// Session and transaction of a line, from behind its value, and where the next line begins.
#[inline(always)]
fn scan_tail(text: &[u8], at: usize) -> Result<(u64, i64, usize), Bad> {
    if text.get(at) != Some(&b',') {
        return bad(at, "\",<session>,<transaction>)\" after the value");
    }
    let (session, i) = scan::natural(text, at + 1, "a session")?;
    if text.get(i) != Some(&b',') {
        return bad(i, "\",<transaction>)\" after the session");
    }
    let (txn, i) = match text.get(i + 1) {
        Some(b'-') => {
            let (one, end) = scan::natural(text, i + 2, "a transaction")?;
            if one != 1 {
                return bad(i + 1, "a transaction from 0, or -1 for an aborted operation");
            }
            (-1, end)
        }
        _ => {
            let (txn, end) = scan::natural(text, i + 1, "a transaction")?;
            (txn as i64, end)
        }
    };
    if text.get(i) != Some(&b')') {
        return bad(i, "\")\" after the transaction");
    }
    let end = match text.get(i + 1) {
        Some(b'\n') => i + 2,
        None => i + 1,
        Some(_) => scan_odd_end(text, i + 1)?,
    };
    Ok((session, txn, end))
}

/// Blank lines are tolerated; anything else that is no operation is not.
#[cold]
fn scan_odd_start<T>(text: &[u8], at: usize) -> Result<T, Bad> {
    let blanks = text[at..].iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\r')).count();
    match text.get(at + blanks) {
        None => bad(text.len(), ""),
        Some(b'\n') => bad(at + blanks + 1, ""),
        Some(b'r' | b'w') if blanks == 0 => bad(at + 1, "\"(\" after r or w"),
        _ => bad(at, "r(…) or w(…)"),
    }
}

/// Spaces and a carriage return may precede the end of a line.
#[cold]
fn scan_odd_end(text: &[u8], at: usize) -> Result<usize, Bad> {
    let blanks = text[at..].iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\r')).count();
    match text.get(at + blanks) {
        None => Ok(text.len()),
        Some(b'\n') => Ok(at + blanks + 1),
        Some(_) => bad(at + blanks, "the end of the line after \")\""),
    }
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
                return Err(ReadError::Malformed(vec![info.error(bad.offset, bad.message()).help(SHAPE)]));
            }
        }
        Ok(())
    }

    fn merge_lane(&mut self, info: &BlockInfo<'_>, first_line: u32, columns: &Columns) {
        let ends = columns.segments.iter().skip(1).map(|s| s.start).chain([columns.heads.len() as u32]);
        for (segment, end) in columns.segments.iter().zip(ends) {
            let range = segment.start as usize..end as usize;
            let ops = columns.heads[range.clone()].iter().copied().zip(columns.values[range].iter().copied());
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
fn decode(builder: &mut Builder, head: u64, value: u64) -> (OpKind, Value, Value) {
    let kind = if head & 1 == 1 { OpKind::Write } else { OpKind::Read };
    (kind, builder.int((head >> 1) as i64), builder.int(value as i64))
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
    /// The transaction's own number if it has one that nobody else has, otherwise a new one.
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
            for op in self.encoder.ops(batch, t).filter(|op| op.write || !aborted) {
                let kind = if op.write { 'w' } else { 'r' };
                writeln!(self.text, "{kind}({},{},{session},{txn})", op.key, op.value.unwrap_or(0))?;
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
