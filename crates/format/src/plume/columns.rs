//! Plume lines to columns: the scanner that workers run.
//!
//! Three things make it fast: numbers are read eight digits at a time (`scan.rs`), two parts of a block are
//! scanned side by side, and the end of a line, which repeats while a transaction goes on, is compared
//! instead of read. O(bytes), no allocation per line.

use crate::text::number::{self, Bad};
use anomalist_history::Value;

/// Shortest line: `r(0,0,0,0)` and a newline.
const SHORTEST_LINE: usize = 11;

/// Lines of one transaction that follow each other.
pub(super) struct Segment {
    pub session: u64,
    /// −1: aborted.
    pub txn: i64,
    /// First operation in the columns of the block.
    pub start: u32,
    /// Line of that operation, counted from 0 in the block.
    pub line: u32,
}

/// What a worker makes of some lines.
#[derive(Default)]
pub(super) struct Columns {
    /// Twice the key, plus one for a write.
    pub heads: Vec<u64>,
    pub values: Vec<u64>,
    pub segments: Vec<Segment>,
    /// Number of lines, blank ones included.
    pub lines: u32,
    pub bad: Option<Bad>,
    /// All keys and values, or-ed.
    bits: u64,
}

impl Columns {
    /// True if every key and value is stored in place, without interning.
    pub fn all_small(&self) -> bool {
        Value::int(self.bits as i64).is_some()
    }
}

/// Parts of a block that are scanned side by side. Where a number begins depends on where the one before
/// ended, so a single scan waits for itself; the processor fills the gaps with the other's work.
pub(super) const LANES: usize = 2;

/// Scans a block of whole lines.
pub(super) fn scan_block(text: &[u8], columns: &mut [Columns; LANES]) {
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

/// The `,<session>,<txn>)\n` of the line before. Lines of one transaction mostly follow each other, and
/// comparing sixteen bytes is less work than reading two numbers.
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
        (columns.lines, columns.bad, columns.bits) = (0, None, 0);
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
                self.columns.bits |= head >> 1 | value;
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

/// Head and value of the line that begins at `at`, and where the rest of it begins. A blank line is [`Bad`]
/// with nothing expected, at the next line.
#[inline(always)]
fn scan_front(text: &[u8], at: usize) -> Result<(u64, u64, usize), Bad> {
    let write = match text[at..] {
        [b'w', b'(', ..] => 1,
        [b'r', b'(', ..] => 0,
        _ => return scan_odd_start(text, at),
    };
    let (key, i) = number::natural(text, at + 2, "a key")?;
    if text.get(i) != Some(&b',') {
        return bad(i, "\",<value>,<session>,<transaction>)\" after the key");
    }
    let (value, i) = number::natural(text, i + 1, "a value")?;
    Ok((key << 1 | write, value, i))
}

/// Session and transaction of a line, from behind its value, and where the next line begins.
#[inline(always)]
fn scan_tail(text: &[u8], at: usize) -> Result<(u64, i64, usize), Bad> {
    if text.get(at) != Some(&b',') {
        return bad(at, "\",<session>,<transaction>)\" after the value");
    }
    let (session, i) = number::natural(text, at + 1, "a session")?;
    if text.get(i) != Some(&b',') {
        return bad(i, "\",<transaction>)\" after the session");
    }
    let (txn, i) = match text.get(i + 1) {
        Some(b'-') => {
            let (one, end) = number::natural(text, i + 2, "a transaction")?;
            if one != 1 {
                return bad(i + 1, "a transaction from 0, or -1 for an aborted operation");
            }
            (-1, end)
        }
        _ => {
            let (txn, end) = number::natural(text, i + 1, "a transaction")?;
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
