//! TimeKiller's JSON: committed transactions with the timestamps their database gave them.
//!
//! `{"tid": …, "sid": …, "sts": {"p": …, "l": …}, "cts": {…}, "ops": [{"t": "w", "k": 1, "v": 2}, …]}`, in
//! one array, or one after another (the lines `anomalist watch` reads). Fields come in any order; numbers
//! may be written as strings, and `sid` 1 is `sid` "1". A list key read as null is empty. Array order
//! matters only within a session, and not there where `sno`, the number of a transaction in its session,
//! says the order. `sts` may be missing: serializability needs none.
//!
//! Source: TimeKiller (Chronos and AION), `examples/`. One pass over the bytes, no tree; O(n).

use crate::load::ops::{Assembler, Cell, Columns, Mop};
use crate::load::recorded::Recorded;
use crate::load::records::{Layout, end_before, read_records};
use crate::load::{Reading, initial};
use crate::text::fault::Fault;
use crate::text::json::{Json, Scalar};
use crate::text::value::json_value;
use crate::write::{Capabilities, HistoryWriter, InitialRule, Intervals, Names, Sink, UnknownReads};
use crate::write::{admit, in_position_order, stream, with_nil_initial};
use crate::{Format, Input, Loaded, ReadError, ReadOptions, WriteError};
use anomalist_history::{AtomKind, Facts, History, OpKind, Outcome, Stamps, Timestamp, Value};
use std::fmt::Write as _;
use std::io::Write;
use std::ops::Range;

const TRANSACTION: &str = "a transaction such as {\"tid\": 1, \"sid\": 1, \"sts\": {\"p\": 1, \"l\": 0}, …}";
const STAMP: &str = "a timestamp such as {\"p\": 100, \"l\": 0}";

/// One transaction as parsed.
pub(crate) struct Transaction {
    pub tid: Value,
    pub sid: Value,
    pub stamps: Stamps,
    /// Its number in its session.
    pub sno: Option<u64>,
    pub mops: Range<usize>,
}

impl From<Transaction> for Recorded {
    #[inline]
    fn from(t: Transaction) -> Recorded {
        let facts = Facts { id: Some(t.tid), stamps: Some(t.stamps), number: t.sno, ..Facts::default() };
        Recorded { session: t.sid, mops: t.mops, facts, meta: Vec::new() }
    }
}

/// True if the text looks like TimeKiller's.
pub(crate) fn sniff(head: &[u8]) -> bool {
    let mut json = Json::new(head);
    json.take(b'[');
    let mut first = true;
    if !json.take(b'{') {
        return false;
    }
    while let Ok(Some(name)) = json.key(&mut first) {
        match &*name {
            b"sts" | b"cts" | b"tid" | b"sid" | b"sno" => return true,
            // A long list of operations may be cut by the end of the head.
            _ if json.skip().is_err() => return *name == *b"ops",
            _ => {}
        }
    }
    false
}

/// Parses one transaction.
pub(crate) fn transaction(json: &mut Json<'_>, columns: &mut Columns) -> Result<Transaction, Fault> {
    json.open(b'{', TRANSACTION)?;
    let at = json.at() - 1;
    let (mut tid, mut sid, mut sts, mut cts, mut ops) = (None, None, None, None, None);
    let mut sno = None;
    let mut first = true;
    while let Some(name) = json.key(&mut first)? {
        match &*name {
            b"tid" => tid = Some(name_value(json, columns)?),
            b"sid" => sid = Some(name_value(json, columns)?),
            b"sts" => sts = Some(timestamp(json)?),
            b"cts" => cts = Some(timestamp(json)?),
            b"sno" => sno = Some(number(json)?),
            b"ops" => {
                let start = columns.mops.len();
                json.open(b'[', "a list of operations")?;
                let mut first = true;
                while json.element(&mut first)? {
                    if !usual_operation(json, columns) {
                        operation(json, columns)?;
                    }
                }
                ops = Some(start..columns.mops.len());
            }
            _ => json.skip()?,
        }
    }
    let missing = |name: &str| Fault::new(at, format!("expected \"{name}\" in this transaction, found none"));
    Ok(Transaction {
        tid: tid.ok_or_else(|| missing("tid"))?,
        sid: sid.ok_or_else(|| missing("sid"))?,
        stamps: Stamps {
            start: sts.unwrap_or(Timestamp::UNKNOWN),
            commit: cts.ok_or_else(|| missing("cts"))?,
        },
        sno,
        mops: ops.ok_or_else(|| missing("ops"))?,
    })
}

/// A number or string as a name; a string of a number is that number.
fn name_value(json: &mut Json<'_>, columns: &mut Columns) -> Result<Value, Fault> {
    json.peek();
    let at = json.at();
    match json.scalar("a number or string")? {
        Scalar::Int(i) => Ok(columns.int(i)),
        Scalar::Number(text) => Ok(columns.atom(AtomKind::Token, &text)),
        Scalar::Text(text) => Ok(match text.parse::<i64>() {
            Ok(i) if i.to_string() == text => columns.int(i),
            _ => columns.atom(AtomKind::Text, &text),
        }),
        Scalar::Null | Scalar::Bool(_) => Err(Fault::new(at, "expected a number or string as id")),
    }
}

/// A number in a session.
fn number(json: &mut Json<'_>) -> Result<u64, Fault> {
    json.peek();
    let at = json.at();
    let number = integer(json, "a number in the session, from 0")?;
    u64::try_from(number).map_err(|_| Fault::new(at, "expected a number in the session, from 0"))
}

/// `{"p": …, "l": …}`, or a number alone.
fn timestamp(json: &mut Json<'_>) -> Result<Timestamp, Fault> {
    if json.peek() != Some(b'{') {
        return Ok(Timestamp { physical: integer(json, STAMP)?, logical: 0 });
    }
    json.open(b'{', STAMP)?;
    let at = json.at() - 1;
    let (mut physical, mut logical, mut first) = (None, 0, true);
    while let Some(name) = json.key(&mut first)? {
        match &*name {
            b"p" => physical = Some(integer(json, "an integer")?),
            b"l" => logical = integer(json, "an integer")?,
            _ => json.skip()?,
        }
    }
    let physical = physical.ok_or_else(|| Fault::new(at, "expected \"p\" in this timestamp, found none"))?;
    Ok(Timestamp { physical, logical })
}

/// An integer of 64 bits, as a number or a string.
fn integer(json: &mut Json<'_>, what: &str) -> Result<i64, Fault> {
    json.peek();
    let at = json.at();
    match json.scalar(what)? {
        Scalar::Int(i) => Some(i),
        Scalar::Text(text) => text.trim().parse().ok(),
        _ => None,
    }
    .ok_or_else(|| Fault::new(at, "expected an integer of 64 bits"))
}

/// An operation on integers, spaced and ordered as most writers do: takes it if it is one. Five times as
/// fast as looking at each name.
#[inline]
fn usual_operation(json: &mut Json<'_>, columns: &mut Columns) -> bool {
    let start = json.at();
    let found = if json.take_bytes(b"{\"t\":\"") {
        op_letter(json)
            .zip(json.take_bytes(b"\",\"k\":").then(|| json.small_int()).flatten())
            .zip(json.take_bytes(b",\"v\":").then(|| json.small_int()).flatten())
    } else if json.take_bytes(b"{\"t\": \"") {
        op_letter(json)
            .zip(json.take_bytes(b"\", \"k\": ").then(|| json.small_int()).flatten())
            .zip(json.take_bytes(b", \"v\": ").then(|| json.small_int()).flatten())
    } else {
        return false;
    };
    if let Some(((kind, key), value)) = found
        && json.take_bytes(b"}")
        && let (Some(key), Some(value)) = (Value::int(key), Value::int(value))
    {
        columns.mops.push(Mop { kind, key, cell: Cell::One(value) });
        return true;
    }
    json.rewind(start);
    false
}

/// `r`, `w` or `a`.
#[inline]
fn op_letter(json: &mut Json<'_>) -> Option<OpKind> {
    if json.take_bytes(b"r") {
        Some(OpKind::Read)
    } else if json.take_bytes(b"w") {
        Some(OpKind::Write)
    } else {
        json.take_bytes(b"a").then_some(OpKind::Append)
    }
}

/// `{"t": …, "k": …, "v": …}`, fields in any order.
#[inline]
fn operation(json: &mut Json<'_>, columns: &mut Columns) -> Result<(), Fault> {
    json.open(b'{', "an operation such as {\"t\": \"w\", \"k\": 1, \"v\": 2}")?;
    let at = json.at() - 1;
    let (mut kind, mut key, mut cell, mut first) = (None, None, Cell::Nil, true);
    while let Some(name) = json.key(&mut first)? {
        match &*name {
            b"t" => kind = Some(op_kind(json)?),
            b"k" => key = columns.json_value(json, "a key")?,
            b"v" => cell = columns.json_read(json)?,
            _ => json.skip()?,
        }
    }
    let kind = kind.ok_or_else(|| Fault::new(at, "expected \"t\" in this operation, found none"))?;
    let key = key.ok_or_else(|| Fault::new(at, "expected a key \"k\" in this operation, found none"))?;
    if kind != OpKind::Read
        && let Cell::List(start, end) = cell
    {
        // A list that is written is one value, and the kind may come after it.
        let text = columns.canonical(&columns.elements[start as usize..end as usize]);
        columns.elements.truncate(start as usize);
        cell = Cell::One(columns.atom(AtomKind::Compound, &text));
    }
    columns.mops.push(Mop { kind, key, cell });
    Ok(())
}

fn op_kind(json: &mut Json<'_>) -> Result<OpKind, Fault> {
    json.peek();
    let at = json.at();
    let Some(name) = json.word()? else {
        return Err(json.expected("one of the operations r, w and a in double quotes"));
    };
    let is = |short: &str, long: &str| {
        name.eq_ignore_ascii_case(short.as_bytes()) || name.eq_ignore_ascii_case(long.as_bytes())
    };
    if is("r", "read") {
        Ok(OpKind::Read)
    } else if is("w", "write") {
        Ok(OpKind::Write)
    } else if is("a", "append") {
        Ok(OpKind::Append)
    } else {
        Err(Fault::new(
            at,
            format!("expected one of the operations r, w and a, found \"{}\"", crate::elle::lossy(&name)),
        ))
    }
}

/// The end of a transaction: one begins with its own names, which operations and stamps do not have.
fn cut(text: &[u8]) -> Option<usize> {
    end_before(text, &["tid", "sid", "sno", "sts", "cts", "ops"])
}

/// Reads a history.
pub(crate) fn read(input: Input, options: &ReadOptions<'_>) -> Result<Loaded, ReadError> {
    let mut reading = Reading::new(&input, Format::Timekiller, options);
    let mut assembler = Assembler::default();
    read_records(
        input,
        &mut reading,
        Layout::ObjectsCutBy(cut),
        transaction,
        |transaction, columns, line| {
            Recorded::from(transaction).assemble(&mut assembler, columns, line);
            Ok(())
        },
    )?;
    let initial = initial::given(options, &mut assembler.builder)?;
    reading.finish(assembler.finish(initial))
}

const CAPABILITIES: Capabilities = Capabilities {
    aborted: false,
    aborted_writes: false,
    indeterminate: false,
    unknown_reads: UnknownReads::Never,
    needs_stamps: true,
    snapshots: false,
    intervals: Intervals::Never,
    metadata: false,
    keys: Names::Json,
    values: Names::Json,
    initial: InitialRule::Nil,
    ..Capabilities::ALL
};

/// Makes a writer. Refuses, even if lossy, to make up timestamps.
pub(crate) fn writer(sink: Sink, lossy: bool) -> Result<Box<dyn HistoryWriter>, WriteError> {
    Ok(Box::new(TimekillerWriter { lossy, out: stream(Format::Timekiller, sink)?, written: 0 }))
}

struct TimekillerWriter {
    lossy: bool,
    out: Box<dyn Write + Send>,
    written: u64,
}

impl HistoryWriter for TimekillerWriter {
    fn append(&mut self, batch: &History) -> Result<(), WriteError> {
        admit(batch, Format::Timekiller, &CAPABILITIES, self.lossy)?;
        let stamps = batch.stamps().unwrap_or_default();
        let mut out = String::new();
        for t in in_position_order(batch).into_iter().filter(|&t| batch.outcome(t) == Outcome::Committed) {
            out.push_str(if self.written == 0 { "[\n{\"tid\":" } else { ",\n{\"tid\":" });
            match batch.txn_label(t) {
                Some(label) => json_value(&mut out, batch, label),
                None => {
                    let _ = write!(out, "{}", self.written);
                }
            }
            self.written += 1;
            out.push_str(",\"sid\":");
            json_value(&mut out, batch, batch.session_label(batch.session_of(t)));
            let Stamps { start, commit } = stamps[t.index()];
            if let Some(numbers) = batch.numbers() {
                let _ = write!(out, ",\"sno\":{}", numbers[t.index()]);
            }
            if stamps[t.index()].has_start() {
                let _ = write!(out, ",\"sts\":{{\"p\":{},\"l\":{}}}", start.physical, start.logical);
            }
            let (physical, logical) = (commit.physical, commit.logical);
            let _ = write!(out, ",\"cts\":{{\"p\":{physical},\"l\":{logical}}},\"ops\":[");
            for (i, (_, op)) in batch.ops(t).enumerate() {
                let kind = match op.kind {
                    OpKind::Read => "r",
                    OpKind::Write => "w",
                    OpKind::Append => "a",
                };
                let _ = write!(out, "{}{{\"t\":\"{kind}\",\"k\":", if i == 0 { "" } else { "," });
                json_value(&mut out, batch, batch.key_label(op.key));
                out.push_str(",\"v\":");
                json_value(&mut out, batch, with_nil_initial(batch, op));
                out.push('}');
            }
            out.push_str("]}");
        }
        self.out.write_all(out.as_bytes())?;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), WriteError> {
        self.out.write_all(if self.written == 0 { b"[]\n" } else { b"\n]\n" })?;
        self.out.flush()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{corpus, describe, survives, written};

    fn read_bytes(name: &str, text: &[u8], options: &ReadOptions<'_>) -> Result<Loaded, ReadError> {
        crate::testing::read_bytes(name, text, Format::Timekiller, options)
    }

    const TEXT: &str = r#"[ {"tid": "x1", "sid": 3, "sts": {"p": "100", "l": 0}, "cts": {"l": 2, "p": 110}, "rtts": 7,
  "ops": [{"t": "WRITE", "k": 1, "v": 4}, {"k": 2, "t": "Read"}]},
 {"ops": [{"v": 4, "t": "R", "k": 1}, {"t": "a", "k": "l", "v": 9}, {"t": "read", "k": "l", "v": [9, "b"]}],
  "tid": 2, "sid": "3", "sts": {"p": "111", "l": 0}, "cts": {"p": "120", "l": 0}} ]"#;

    fn shown(text: &str) -> String {
        match read_bytes("h", text.as_bytes(), &ReadOptions::default()) {
            Ok(loaded) => describe(&loaded.history, true),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn loose_json_is_read() {
        let expected =
            "3 #x1 ok w(1,4) r(2,[]) <100.0-110.2>\n3 #2 ok r(1,4) a(l,9) r(l,[9 b]) <111.0-120.0>\n";
        assert_eq!(shown(TEXT), expected);
        let lines = TEXT.trim_matches(['[', ']', ' ']).replace("},\n {", "}\n{");
        assert_eq!(shown(&lines), expected);
        let lines = lines.replace('\n', " ").replace("} {", "}\n{");
        let history = read_bytes("h", lines.as_bytes(), &ReadOptions::default()).unwrap().history;
        assert_eq!(describe(&history, true), expected);
        assert_eq!(history.txns().map(|t| history.line(t)).collect::<Vec<_>>(), [Some(1), Some(2)]);
        assert!(sniff(TEXT.as_bytes()) && sniff(lines.as_bytes()) && !sniff(b"{\"type\":\"ok\"}"));
    }

    #[test]
    fn the_initial_value_is_an_option() {
        let text =
            r#"{"tid":1,"sid":1,"sts":1,"cts":2,"ops":[{"t":"r","k":1,"v":0},{"t":"r","k":2,"v":null}]}"#;
        assert_eq!(shown(text), "1 #1 ok r(1,0) r(2,nil*) <1.0-2.0>\n");
        let options = ReadOptions { initial: Some("0"), ..ReadOptions::default() };
        let loaded = read_bytes("h", text.as_bytes(), &options).unwrap();
        assert_eq!(describe(&loaded.history, true), "1 #1 ok r(1,0*) r(2,nil) <1.0-2.0>\n");
        let options = ReadOptions { initial: Some("x"), ..ReadOptions::default() };
        assert_eq!(
            read_bytes("h", text.as_bytes(), &options).unwrap_err().to_string(),
            "error: initial value: cannot read \"x\"\n  help: give an integer, a string in double quotes, null, or none"
        );
    }

    #[test]
    fn faults_are_pointed_at() {
        assert_eq!(
            shown("[\n{\"tid\": 1, \"sid\": 2, \"ops\": [{\"t\": \"cas\"}]}]"),
            "error: h:2:36: expected one of the operations r, w and a, found \"cas\"\n  \
             2 | {\"tid\": 1, \"sid\": 2, \"ops\": [{\"t\": \"cas\"}]}]\n    |                                    ^"
        );
        assert_eq!(
            shown("[{\"tid\": 1, \"sid\": 2, \"ops\": []}]").lines().next().unwrap(),
            "error: h:1:2: expected \"cts\" in this transaction, found none"
        );
        assert_eq!(
            shown("[{\"tid\": 1, \"si").lines().next().unwrap(),
            "error: h:1:16: expected a closing double quote, found the end of the file"
        );
        assert_eq!(shown(" [ ]"), "error: h: no transaction in this file (read as timekiller)");
    }

    #[test]
    fn what_is_written_reads_back() {
        let history = read_bytes("h", TEXT.as_bytes(), &ReadOptions::default()).unwrap().history;
        let out = written(|sink| writer(sink, false), &[&history]).unwrap();
        assert_eq!(shown(&out), shown(TEXT));
        let elle = b"{\"type\":\"ok\",\"process\":0,\"value\":[]}";
        let options = ReadOptions::default();
        let plain = crate::testing::read_bytes("h", elle, Format::ElleJsonl, &options).unwrap().history;
        assert_eq!(
            written(|sink| writer(sink, true), &[&plain]).unwrap_err().to_string(),
            "timekiller cannot express 1 transaction without timestamps"
        );
    }

    #[test]
    fn anything_ends_with_a_history_or_a_diagnostic() {
        survives(TEXT.as_bytes(), &|text, lossy| {
            read_bytes("h", text, &ReadOptions { lossy, ..ReadOptions::default() })
        });
    }

    #[test]
    fn the_corpus_is_read() {
        for (id, text, counts) in corpus("timekiller-json") {
            let h = read_bytes(&id, &text, &ReadOptions::default())
                .unwrap_or_else(|e| panic!("{id}: {e}"))
                .history;
            assert_eq!([h.session_count(), h.txn_count(), h.op_count()], counts, "{id}");
            assert!(sniff(&text) && h.stamps().is_some(), "{id}");
            let out = written(|sink| writer(sink, false), &[&h]).unwrap();
            let again = read_bytes(&id, out.as_bytes(), &ReadOptions::default()).unwrap().history;
            assert_eq!(describe(&again, true), describe(&h, true), "{id}");
        }
    }
}
