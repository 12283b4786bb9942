//! Timestamped transactions one at a time, for checkers that do not wait for the end of a history.
//!
//! The text of one transaction, in Anomalist's own format or TimeKiller's, becomes a [`Record`]: names, stamps and operations
//! with borrowed values. The grammar is that of the files (the same parsers are used), and each text stands alone, so a
//! malformed one says what is wrong with it and costs nothing but itself. Which of the two formats a text is in shows in
//! its field names; a stream may mix them.

use crate::anomalist::line::{self, Line};
use crate::load::ops::{Cell, Columns};
use crate::text::fault::Fault;
use crate::text::json::Json;
use crate::timekiller;
use anomalist_history::{AtomKind, OpKind, Outcome, SnapshotSet, Stamps, Value, View};
use std::ops::Range;

/// Parses texts of transactions; keeps its memory from one to the next.
#[derive(Default)]
pub struct StreamReader {
    columns: Columns,
}

/// One text as parsed.
pub enum Record<'a> {
    /// A header of Anomalist's format: what keys hold before any write.
    Header(Header<'a>),
    /// A transaction.
    Transaction(Transaction<'a>),
}

/// What keys hold before any write.
pub struct Header<'a> {
    columns: &'a Columns,
    initial: Option<Option<Value>>,
    keys: Range<usize>,
}

/// A transaction.
pub struct Transaction<'a> {
    columns: &'a Columns,
    session: Value,
    id: Option<Value>,
    mops: Range<usize>,
    /// What became of it.
    pub outcome: Outcome,
    /// Its timestamps, if it has them.
    pub stamps: Option<Stamps>,
    /// What it saw, if that is a set of ids.
    pub snapshot: Option<SnapshotSet>,
    /// The id by which sets name it.
    pub xid: Option<u64>,
    /// Its number in its session, where the recording has one.
    pub number: Option<u64>,
}

/// A value, borrowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Item<'a> {
    /// No value.
    Nil,
    /// A read whose result was not recorded.
    Unknown,
    /// An integer of up to 62 bits.
    Int(i64),
    /// Anything else that is not a list.
    Atom(AtomKind, &'a str),
}

/// What an operation read or wrote.
pub enum Content<'a> {
    /// One value.
    One(Item<'a>),
    /// The elements of a list that was read.
    List(Elements<'a>),
}

/// The elements of a list.
#[derive(Clone)]
pub struct Elements<'a> {
    columns: &'a Columns,
    values: std::slice::Iter<'a, Value>,
}

/// One operation.
pub struct Operation<'a> {
    /// What it does.
    pub kind: OpKind,
    /// Its key.
    pub key: Item<'a>,
    /// What it read or wrote.
    pub content: Content<'a>,
}

/// What is wrong with a text.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}{}", .help.map(|help| format!(" ({help})")).unwrap_or_default())]
pub struct StreamFault {
    /// Byte offset in the text.
    pub at: usize,
    /// "expected …, found …".
    pub message: String,
    /// How it should look.
    pub help: Option<&'static str>,
}

impl From<Fault> for StreamFault {
    fn from(fault: Fault) -> StreamFault {
        let fault = fault.in_line();
        StreamFault { at: fault.at, message: fault.message.clone(), help: fault.help }
    }
}

impl StreamReader {
    /// Parses the text of one transaction or header.
    ///
    /// ```
    /// use anomalist_format::{Record, StreamReader};
    /// let mut reader = StreamReader::default();
    /// let line = br#"{"session":1,"ops":[["w","x",7]],"start":3,"commit":[4,1]}"#;
    /// let Record::Transaction(t) = reader.read(line)? else { panic!("a transaction") };
    /// assert_eq!((t.ops().count(), t.stamps.map(|s| s.commit.logical)), (1, Some(1)));
    /// # Ok::<(), anomalist_format::StreamFault>(())
    /// ```
    pub fn read(&mut self, text: &[u8]) -> Result<Record<'_>, StreamFault> {
        self.columns.reuse();
        let mut json = Json::new(text);
        let mut number = None;
        let parsed = if is_timekiller(text) {
            let t = timekiller::transaction(&mut json, &mut self.columns)?;
            number = t.sno;
            Parsed::Transaction(line::Transaction {
                session: t.sid,
                id: Some(t.tid),
                outcome: Outcome::Committed,
                mops: t.mops,
                stamps: Some(t.stamps),
                snapshot: None,
                xid: None,
                interval: None,
                meta: Vec::new(),
            })
        } else {
            match line::parse(&mut json, &mut self.columns)? {
                Line::Header { initial, keys, .. } => Parsed::Header(initial, keys),
                Line::Transaction(t) => Parsed::Transaction(t),
            }
        };
        if json.peek().is_some() {
            return Err(json.expected("the end of the line").into());
        }
        let columns = &self.columns;
        Ok(match parsed {
            Parsed::Header(initial, keys) => Record::Header(Header { columns, initial, keys }),
            Parsed::Transaction(t) => Record::Transaction(Transaction {
                columns,
                session: t.session,
                id: t.id,
                mops: t.mops,
                outcome: t.outcome,
                stamps: t.stamps,
                snapshot: t.snapshot,
                xid: t.xid,
                number,
            }),
        })
    }
}

enum Parsed {
    Header(Option<Option<Value>>, Range<usize>),
    Transaction(line::Transaction),
}

/// True for TimeKiller's field names. The first field nearly always decides; `ops` is in both formats.
fn is_timekiller(text: &[u8]) -> bool {
    let mut json = Json::new(text);
    let mut first = true;
    if !json.take(b'{') {
        return false;
    }
    while let Ok(Some(name)) = json.key(&mut first) {
        match &*name {
            b"tid" | b"sid" | b"sno" | b"sts" | b"cts" => return true,
            b"ops" if json.skip().is_ok() => {}
            _ => return false,
        }
    }
    false
}

fn item(columns: &Columns, value: Value) -> Item<'_> {
    match value.view() {
        View::Int(i) => Item::Int(i),
        View::Atom(id) => {
            let (kind, text) = columns.atom_text(id);
            Item::Atom(kind, text)
        }
        View::Unknown => Item::Unknown,
        View::Nil | View::List(_) => Item::Nil,
    }
}

fn operation(columns: &Columns, at: usize) -> Operation<'_> {
    let mop = columns.mops[at];
    let content = match mop.cell {
        Cell::Nil => Content::One(Item::Nil),
        Cell::One(value) => Content::One(item(columns, value)),
        Cell::List(start, end) => {
            Content::List(Elements { columns, values: columns.elements[start as usize..end as usize].iter() })
        }
    };
    Operation { kind: mop.kind, key: item(columns, mop.key), content }
}

impl<'a> Transaction<'a> {
    /// The session's name.
    pub fn session(&self) -> Item<'a> {
        item(self.columns, self.session)
    }

    /// The transaction's own name.
    pub fn id(&self) -> Option<Item<'a>> {
        self.id.map(|id| item(self.columns, id))
    }

    /// The operations, in program order.
    pub fn ops(&self) -> impl ExactSizeIterator<Item = Operation<'a>> + use<'a> {
        let columns = self.columns;
        self.mops.clone().map(move |i| operation(columns, i))
    }
}

impl<'a> Header<'a> {
    /// The value of keys that have none of their own: `None` if the header does not say, `Some(None)` if there is none.
    pub fn initial(&self) -> Option<Option<Item<'a>>> {
        self.initial.map(|value| value.map(|value| item(self.columns, value)))
    }

    /// Keys with a value of their own.
    pub fn keys(&self) -> impl Iterator<Item = (Item<'a>, Content<'a>)> + use<'a> {
        let columns = self.columns;
        self.keys.clone().map(move |i| {
            let Operation { key, content, .. } = operation(columns, i);
            (key, content)
        })
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        self.values.next().map(|&value| item(self.columns, value))
    }
}

impl ExactSizeIterator for Elements<'_> {
    fn len(&self) -> usize {
        self.values.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(text: &str) -> String {
        let mut reader = StreamReader::default();
        match reader.read(text.as_bytes()) {
            Ok(Record::Header(h)) => format!("{:?} {}", h.initial(), h.keys().count()),
            Ok(Record::Transaction(t)) => {
                let ops: Vec<String> = t
                    .ops()
                    .map(|op| match op.content {
                        Content::One(item) => format!("{:?} {:?} {item:?}", op.kind, op.key),
                        Content::List(list) => {
                            format!("{:?} {:?} {:?}", op.kind, op.key, list.collect::<Vec<_>>())
                        }
                    })
                    .collect();
                format!("{:?} {:?} {:?} {ops:?}", t.session(), t.id(), t.stamps.map(|s| s.commit.physical))
            }
            Err(fault) => format!("{}: {}", fault.at, fault.message),
        }
    }

    #[test]
    fn both_formats_are_told_apart_by_their_fields() {
        let own = r#"{"ops":[["r","l",[1,"b"]]],"session":"s","start":1,"commit":2}"#;
        assert_eq!(
            show(own),
            r#"Atom(Text, "s") None Some(2) ["Read Atom(Text, \"l\") [Int(1), Atom(Text, \"b\")]"]"#
        );
        let theirs =
            r#"{"ops":[{"t":"w","k":1,"v":2}],"tid":"7","sid":3,"sts":{"p":1,"l":0},"cts":{"p":"9","l":0}}"#;
        assert_eq!(show(theirs), r#"Int(3) Some(Int(7)) Some(9) ["Write Int(1) Int(2)"]"#);
        assert_eq!(show(r#"{"anomalist":1,"initial":0,"initial_keys":[["x",1]]}"#), "Some(Some(Int(0))) 1");
    }

    #[test]
    fn a_malformed_line_says_where() {
        assert_eq!(show(r#"{"session":1,"opps":[]}"#), "13: unknown field \"opps\"");
        assert_eq!(show(r#"{"session":1,"ops":[]} x"#), "23: expected the end of the line, found \"x\"");
        assert_eq!(
            show(r#"{"tid":1,"sid":1,"sts":{"p":1}"#),
            "30: expected \",\" or \"}\", found the end of the line"
        );
        assert_eq!(
            show("junk"),
            "0: expected a transaction such as {\"session\": 1, \"ops\": [[\"w\", \"x\", 1]]}, found \"j\""
        );
    }
}
