//! From bytes to batches: lines (or the objects of a JSON array) are parsed, and what is malformed is said
//! with its place.
//!
//! Runs on a thread of its own, so that parsing and checking overlap. A source is in lines unless it begins
//! with `[`: then it is an array, as TimeKiller writes its files, and objects are recognised by their
//! braces.

use super::room::Held;
use super::sources::NAMED;
use anomalist_format::{StreamError, StreamReader};
use anomalist_online::{Batch, Origin};
use std::collections::HashMap;
use std::sync::Arc;

/// Some bytes of a source: whole lines, unless it has ended or is an array.
pub struct Block {
    /// Which source.
    pub source: u32,
    /// Its name, for messages.
    pub name: Arc<str>,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// What comes after is the end.
    pub last: bool,
    /// Who wants to know when this has been taken in.
    pub reply: Option<std::sync::mpsc::Sender<Taken>>,
    /// This was read from the journal, not from a source.
    pub replayed: bool,
    /// The room that it takes.
    pub held: Option<Held>,
}

/// What became of a block.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// Transactions in it.
    pub transactions: u64,
    /// Malformed lines in it.
    pub malformed: u64,
    /// Lines of its source so far.
    pub lines: u64,
}

/// A line that could not be used.
pub struct BadLine {
    /// Where.
    pub origin: Origin,
    /// Column in bytes, from 1.
    pub column: u64,
    /// What is wrong.
    pub message: String,
    /// It is well-formed, but has no timestamps.
    pub untimed: bool,
}

/// A block as parsed.
pub struct Parsed {
    /// Where it came from.
    pub block: Block,
    /// The transactions in it.
    pub batch: Batch,
    /// The lines that could not be used.
    pub bad: Vec<BadLine>,
    /// Where its source stands after it.
    pub place: Place,
}

/// Where a source stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Lines so far.
    pub lines: u64,
    /// Something other than white space was read.
    pub begun: bool,
    /// It is a JSON array.
    pub array: bool,
    /// The beginning of an object that has not ended.
    pub open: Vec<u8>,
    /// The line that began on.
    pub open_line: u64,
}

impl Place {
    /// What follows so many lines: a source that goes on after some of them does not begin an array.
    pub fn after(lines: u64) -> Place {
        Place { lines, begun: lines > 0, ..Place::default() }
    }
}

/// An object of an array that is longer than this is not one.
const LONGEST_OBJECT: usize = 1 << 20;

/// Parses blocks of any number of sources.
#[derive(Default)]
pub struct Ingest {
    reader: StreamReader,
    places: HashMap<u32, Place>,
}

impl Ingest {
    /// Where a source stood when an earlier process left it.
    pub fn resume(&mut self, source: u32, place: Place) {
        self.places.insert(source, place);
    }

    /// Parses a block.
    pub fn parse(&mut self, block: Block, batch: Batch) -> Parsed {
        let mut place = self.places.remove(&block.source).unwrap_or_default();
        let mut parsed = Parsed { batch, bad: Vec::new(), place: Place::default(), block };
        parsed.batch.clear();
        let bytes = std::mem::take(&mut parsed.block.bytes);
        if !place.begun {
            let first = bytes.iter().find(|b| !b.is_ascii_whitespace());
            place.begun = first.is_some();
            place.array = first == Some(&b'[');
        }
        if place.array {
            self.array(&bytes, &mut place, &mut parsed);
        } else {
            self.lines(&bytes, &mut place, &mut parsed);
        }
        parsed.block.bytes = bytes;
        self.places.insert(parsed.block.source, place.clone());
        if parsed.block.last {
            self.end(parsed.block.source, &parsed.block.name);
        }
        parsed.place = place;
        parsed
    }

    /// A source has ended. One that has given itself a name may come again, and its lines are counted on.
    pub fn end(&mut self, source: u32, name: &str) {
        let place = self.places.remove(&source).unwrap_or_default();
        if name.starts_with(NAMED) {
            self.places.insert(source, Place::after(place.lines));
        }
    }

    fn lines(&mut self, bytes: &[u8], place: &mut Place, parsed: &mut Parsed) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (line, after) = match memchr::memchr(b'\n', rest) {
                Some(end) => (&rest[..end], &rest[end + 1..]),
                None => (rest, &[][..]),
            };
            place.lines += 1;
            self.text(line.trim_ascii(), column(line), place.lines, parsed);
            rest = after;
        }
    }

    /// Objects by their braces; whatever is between them and is not a comma is malformed.
    fn array(&mut self, bytes: &[u8], place: &mut Place, parsed: &mut Parsed) {
        // An object that a block's end cut is scanned again from its beginning: its state is in its bytes.
        let carried = place.open.len();
        let mut text = std::mem::take(&mut place.open);
        text.extend_from_slice(bytes);
        let mut at = 0;
        let mut line = if carried > 0 { place.open_line } else { place.lines + 1 };
        while at < text.len() {
            match text[at] {
                b'\n' => {
                    line += 1;
                    at += 1;
                }
                b'{' => match object_end(&text[at..]) {
                    Some(length) => {
                        self.text(&text[at..at + length], 1, line, parsed);
                        line += memchr::memchr_iter(b'\n', &text[at..at + length]).count() as u64;
                        at += length;
                    }
                    None => break,
                },
                b'[' | b']' | b',' | b' ' | b'\t' | b'\r' => at += 1,
                _ => {
                    let end =
                        text[at..].iter().position(|&b| matches!(b, b'\n' | b'{')).unwrap_or(text.len() - at);
                    self.text(&text[at..at + end], 1, line, parsed);
                    at += end;
                }
            }
        }
        place.lines += memchr::memchr_iter(b'\n', bytes).count() as u64;
        if at < text.len() {
            if parsed.block.last || text.len() - at > LONGEST_OBJECT {
                self.text(&text[at..], 1, line, parsed);
            } else {
                place.open = text.split_off(at);
                place.open_line = line;
            }
        }
    }

    /// One transaction or header.
    fn text(&mut self, text: &[u8], column: u64, line: u64, parsed: &mut Parsed) {
        // A line cut from an array may have its comma.
        let text = text.strip_suffix(b",").unwrap_or(text);
        if text.is_empty() || text == b"[" || text == b"]" {
            return;
        }
        let origin = Origin { source: parsed.block.source, line };
        parsed.batch.set_source(origin.source);
        if let Err(error) = self.reader.read(text, line, &mut parsed.batch) {
            let (at, untimed) = match &error {
                StreamError::Malformed(fault) => (fault.at as u64, false),
                StreamError::Untimed(_) => (0, true),
            };
            parsed.bad.push(BadLine { origin, column: column + at, message: error.to_string(), untimed });
        }
    }
}

/// The column, from 1, where the text of a line begins.
fn column(line: &[u8]) -> u64 {
    line.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(0) as u64 + 1
}

/// The length of the object that begins here, if it ends here too.
fn object_end(text: &[u8]) -> Option<usize> {
    let (mut depth, mut at) = (0_u32, 0);
    loop {
        at += memchr::memchr3(b'"', b'{', b'}', text.get(at..)?)?;
        match text[at] {
            b'{' => depth += 1,
            b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => loop {
                at += 1;
                at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
                match text[at] {
                    b'"' => break,
                    _ => at += 1,
                }
            },
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(bytes: &str, last: bool) -> Block {
        Block {
            source: 0,
            name: "x".into(),
            bytes: bytes.into(),
            last,
            reply: None,
            replayed: false,
            held: None,
        }
    }

    const ONE: &str = r#"{"tid":1,"sid":1,"sts":{"p":1},"cts":{"p":2},"ops":[{"t":"w","k":"a}{\"","v":1}]}"#;

    #[test]
    fn arrays_are_cut_into_objects_wherever_blocks_end() {
        let pretty = ONE.replace(",\"", ",\n \"");
        let text = format!("[\n{ONE},\n{pretty}, {ONE}\njunk\n{ONE} ]\n");
        for cut in 0..=text.len() {
            let mut ingest = Ingest::default();
            let first = ingest.parse(block(&text[..cut], false), Batch::default());
            let second = ingest.parse(block(&text[cut..], true), Batch::default());
            let lines: Vec<u64> = first.bad.iter().chain(&second.bad).map(|b| b.origin.line).collect();
            assert_eq!(first.batch.len() + second.batch.len(), 4, "{cut}");
            assert!(lines.iter().all(|&line| line == 10) && !lines.is_empty(), "{cut} {lines:?}");
            assert_eq!(second.place.lines, 11, "{cut}");
        }
    }

    #[test]
    fn a_fault_of_a_line_is_reported_with_its_place() {
        let text = format!("{ONE}\n  {{\"tid\":2}}\n\n{ONE},\n{{\"session\":1,\"ops\":[]}}\n{}", &ONE[..30]);
        let parsed = Ingest::default().parse(block(&text, true), Batch::default());
        let bad: Vec<_> = parsed.bad.iter().map(|b| (b.origin.line, b.column, b.untimed)).collect();
        assert_eq!(bad, [(2, 3, false), (5, 1, true), (6, 31, false)]);
        assert_eq!((parsed.batch.len(), parsed.place.lines), (2, 6));
    }
}
