//! Writes Anomalist's own format, which loses nothing.
//!
//! The header comes with the first batch. A later batch may bring keys with initial values of their own: a
//! further header line says so, which readers add to the first.

use super::line::VERSION;
use crate::text::value::{is_json, quote};
use crate::write::{Capabilities, HistoryWriter, Sink, admit, in_position_order, stream};
use crate::{Format, WriteError};
use anomalist_history::{AtomKind, History, OpKind, Outcome, TxnId, Value, View};
use rustc_hash::FxHashSet;
use std::fmt::Write as _;
use std::io::Write;

/// Makes a writer.
pub(crate) fn writer(sink: Sink, lossy: bool) -> Result<Box<dyn HistoryWriter>, WriteError> {
    Ok(Box::new(AnomalistWriter {
        lossy,
        out: stream(Format::Anomalist, sink)?,
        default: None,
        reported: FxHashSet::default(),
        marks: false,
        written: 0,
    }))
}

/// Makes a writer for a recording: its header announces an end marker, so that a reader can tell a
/// recording that was cut off.
pub(crate) fn recorder(sink: Sink) -> Result<Box<dyn HistoryWriter>, WriteError> {
    Ok(Box::new(AnomalistWriter {
        lossy: false,
        out: stream(Format::Anomalist, sink)?,
        default: None,
        reported: FxHashSet::default(),
        marks: true,
        written: 0,
    }))
}

struct AnomalistWriter {
    lossy: bool,
    out: Box<dyn Write + Send>,
    /// The initial value in the first header.
    default: Option<String>,
    /// Keys and initial values written.
    reported: FxHashSet<String>,
    /// The end is announced, and marked.
    marks: bool,
    /// Transactions so far.
    written: u64,
}

impl AnomalistWriter {
    /// Appends a header if there is something new to say.
    fn header(&mut self, out: &mut String, history: &History) -> Result<(), WriteError> {
        let mut default = String::new();
        match history.initial().default {
            // A list that no transaction has appended to: the same as null, which a header can say.
            Some(initial) if history.list(initial).is_some_and(<[_]>::is_empty) => default.push_str("null"),
            Some(initial) => value(&mut default, history, initial),
            None => default.push_str("{\"none\":true}"),
        }
        let mut keys: Vec<_> = history.initial().keys.iter().collect();
        keys.sort_unstable_by_key(|(key, _)| **key);
        let mut pairs = Vec::new();
        for (&key, &initial) in keys {
            let mut pair = "[".to_owned();
            value(&mut pair, history, history.key_label(key));
            pair.push(',');
            value(&mut pair, history, initial);
            pair.push(']');
            if self.reported.insert(pair.clone()) {
                pairs.push(pair);
            }
        }
        match &self.default {
            None => {
                let ends = if self.marks { ",\"ends\":true" } else { "" };
                let clock = history.clock().filter(|_| history.intervals().is_some());
                let clock =
                    clock.map_or_else(String::new, |clock| format!(",\"clock\":\"{}\"", clock.name()));
                let _ = write!(out, "{{\"anomalist\":{VERSION}{ends}{clock},\"initial\":{default}");
                self.default = Some(default);
            }
            Some(before) if *before != default => {
                let lost = vec![format!("a second initial value, {default} after {before}")];
                return Err(WriteError::Loss { format: Format::Anomalist, lost });
            }
            Some(_) if pairs.is_empty() => return Ok(()),
            Some(_) => {
                let _ = write!(out, "{{\"anomalist\":{VERSION}");
            }
        }
        if !pairs.is_empty() {
            let _ = write!(out, ",\"initial_keys\":[{}]", pairs.join(","));
        }
        out.push_str("}\n");
        Ok(())
    }
}

impl HistoryWriter for AnomalistWriter {
    fn append(&mut self, batch: &History) -> Result<(), WriteError> {
        admit(batch, Format::Anomalist, &Capabilities::ALL, self.lossy)?;
        let mut out = String::new();
        self.header(&mut out, batch)?;
        self.written += batch.txn_count() as u64;
        for t in in_position_order(batch) {
            transaction(&mut out, batch, t);
            // A batch may be large.
            if out.len() > 1 << 16 {
                self.out.write_all(out.as_bytes())?;
                out.clear();
            }
        }
        self.out.write_all(out.as_bytes())?;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), WriteError> {
        if self.marks && self.default.is_some() {
            writeln!(self.out, "{{\"anomalist\":{VERSION},\"end\":{}}}", self.written)?;
        }
        self.out.flush()?;
        Ok(())
    }
}

fn transaction(out: &mut String, history: &History, t: TxnId) {
    out.push_str("{\"session\":");
    value(out, history, history.session_label(history.session_of(t)));
    if let Some(label) = history.txn_label(t) {
        out.push_str(",\"id\":");
        value(out, history, label);
    }
    out.push_str(",\"ops\":[");
    for (i, (id, op)) in history.ops(t).enumerate() {
        let version = history.version(id);
        if i > 0 {
            out.push(',');
        }
        out.push_str(match op.kind {
            OpKind::Read => "[\"r\",",
            OpKind::Write => "[\"w\",",
            OpKind::Append => "[\"append\",",
        });
        value(out, history, history.key_label(op.key));
        if op.value != Value::UNKNOWN || version.is_some() {
            out.push(',');
            value(out, history, op.value);
        }
        if let Some(number) = version {
            let _ = write!(out, ",{number}");
        }
        out.push(']');
    }
    out.push(']');
    match history.outcome(t) {
        Outcome::Committed => {}
        Outcome::Aborted => out.push_str(",\"outcome\":\"aborted\""),
        Outcome::Indeterminate => out.push_str(",\"outcome\":\"indeterminate\""),
    }
    if let Some(stamps) = history.stamps() {
        let s = stamps[t.index()];
        if s.has_start() {
            let _ = write!(out, ",\"start\":[{},{}]", s.start.physical, s.start.logical);
        }
        let _ = write!(out, ",\"commit\":[{},{}]", s.commit.physical, s.commit.logical);
    }
    if let Some(set) = history.snapshot(t) {
        let _ = write!(out, ",\"snapshot\":\"{set}\"");
    }
    if let Some(id) = history.snapshot_id(t) {
        let _ = write!(out, ",\"xid\":{id}");
    }
    if let Some(intervals) = history.intervals() {
        let interval = intervals[t.index()];
        let _ = write!(out, ",\"invoked\":{}", interval.invoked);
        if let Some(completed) = interval.completed {
            let _ = write!(out, ",\"completed\":{completed}");
        }
    }
    if let Some(metadata) = history.metadata().get(&t) {
        for (i, (name, text)) in metadata.iter().enumerate() {
            out.push_str(if i == 0 { ",\"meta\":{" } else { "," });
            quote(out, name);
            out.push(':');
            quote(out, text);
        }
        out.push('}');
    }
    out.push_str("}\n");
}

/// Appends a value.
fn value(out: &mut String, history: &History, v: Value) {
    match v.view() {
        View::Nil => out.push_str("null"),
        View::Unknown => out.push_str("{\"unknown\":true}"),
        View::Int(i) => {
            let _ = write!(out, "{i}");
        }
        View::List(_) => {
            out.push('[');
            for (i, &element) in history.list(v).unwrap_or_default().iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                value(out, history, element);
            }
            out.push(']');
        }
        View::Atom(id) => {
            let (kind, text) = history.atom(id);
            let name = match kind {
                AtomKind::Text => return quote(out, text),
                AtomKind::Token if is_json(text) => return out.push_str(text),
                AtomKind::Keyword => "keyword",
                AtomKind::Token => "token",
                AtomKind::Compound => "edn",
            };
            let _ = write!(out, "{{\"{name}\":");
            quote(out, text);
            out.push('}');
        }
    }
}

/// A file with everything in it.
#[cfg(test)]
pub(crate) const SAMPLE: &str = r#"{"anomalist":1,"initial":0,"initial_keys":[["y",7],[{"keyword":"k"},null]]}
{"session":3,"id":17,"ops":[["w","x",1],["r","y",7],["append","l",5],["r","l",[1,{"keyword":"e"}]],["r","l",[]]],"start":[12,0],"commit":[15,1],"snapshot":"7:9:8","xid":9,"invoked":12,"completed":15,"meta":{"level":"serializable","who":"a\"b"}}
{"session":"a","ops":[["r",{"keyword":"k"}],["w",{"edn":"[1 2]"},{"token":"a/b"}]],"outcome":"aborted","start":[1,0],"commit":[2,0],"invoked":18446744073709551615}

{"session":3,"id":18,"ops":[["w",99999999999999999999,true],["w","z",1.5],["w",4611686018427387904,-7]],"outcome":"indeterminate","start":[-1,0],"commit":[2,0],"xid":18446744073709551614,"invoked":20}
{"session":3,"ops":[],"start":[3,0],"commit":[3,0],"invoked":30,"completed":31}
"#;

#[cfg(test)]
mod tests {
    use super::SAMPLE as TEXT;
    use super::*;
    use crate::ReadOptions;
    use crate::anomalist::sniff;
    use crate::testing::{corpus, describe, read_bytes, survives, written};

    fn read(text: &str) -> History {
        read_bytes("h", text.as_bytes(), Format::Anomalist, &ReadOptions::default()).unwrap().history
    }

    fn error(text: &str) -> String {
        read_bytes("h", text.as_bytes(), Format::Anomalist, &ReadOptions::default()).unwrap_err().to_string()
    }

    /// A recording announces its end; without it, reads whose writer is missing are no fault.
    #[test]
    fn a_recording_without_its_end_was_cut_off() {
        let options = ReadOptions::default();
        let lossy = ReadOptions { lossy: true, ..ReadOptions::default() };
        let header = "{\"anomalist\":1,\"ends\":true,\"initial\":null}\n";
        let read = "{\"session\":1,\"ops\":[[\"r\",\"x\",7]]}\n";
        let whole = format!("{header}{read}{{\"anomalist\":1,\"end\":1}}\n");
        let loaded = read_bytes("h", whole.as_bytes(), Format::Anomalist, &options).unwrap();
        assert_eq!((loaded.unexplained, loaded.history.txn_count()), (0, 1));
        for cut in [format!("{header}{read}"), whole.replace("\"end\":1", "\"end\":2")] {
            let error = read_bytes("h", cut.as_bytes(), Format::Anomalist, &options).unwrap_err();
            assert!(error.to_string().contains("the recording was cut"), "{error}");
            let loaded = read_bytes("h", cut.as_bytes(), Format::Anomalist, &lossy).unwrap();
            assert_eq!(loaded.unexplained, 1);
        }
        // A file of a user has no marker, and a thin-air read in it is one.
        assert_eq!(read_bytes("h", read.as_bytes(), Format::Anomalist, &lossy).unwrap().unexplained, 0);
    }

    #[test]
    fn everything_is_read_and_written_back() {
        let history = read(TEXT);
        assert_eq!(
            describe(&history, true),
            "3 #17 ok w(x,1) r(y,7*) a(l,5) r(l,[1 :e]) r(l,[]) <12.0-15.1> 7:9:8 =9 [12-15] {\"level\": \"serializable\", \"who\": \"a\\\"b\"}\n\
             a fail r(:k,?) w([1 2],a/b) <1.0-2.0> [18446744073709551615-?]\n\
             3 #18 info w(99999999999999999999,true) w(z,1.5) w(4611686018427387904,-7) <-1.0-2.0> =18446744073709551614 [20-?]\n\
             3 ok <3.0-3.0> [30-31]\n"
        );
        let out = written(|sink| writer(sink, false), &[&history]).unwrap();
        assert_eq!(out, TEXT.replace("\n\n", "\n"));
        assert!(sniff(TEXT.as_bytes()) && sniff(b"{\"ops\":[],\"session\":1}") && !sniff(b"{\"tid\":1}"));
    }

    #[test]
    fn a_file_by_hand_needs_little() {
        let history = read("{\"session\": 1, \"ops\": [[\"w\", \"x\", 1], [\"r\", \"y\", null]]}");
        assert_eq!(describe(&history, true), "1 ok w(x,1) r(y,nil*)\n");
        let joined =
            "{\"anomalist\":1,\"initial\":{\"none\":true}}\n{\"session\":1,\"ops\":[[\"r\",1,null]]}\n"
                .repeat(2);
        assert_eq!(describe(&read(&joined), true), "1 ok r(1,nil)\n".repeat(2));
    }

    #[test]
    fn lists_that_begin_empty_are_read_back() {
        let mut b = anomalist_history::Builder::new();
        let (one, empty) = (b.int(1), b.list(&[]));
        b.set_initial_default(Some(empty));
        let (session, key) = (b.session(one), b.key(one));
        let draft = b.transaction(session);
        b.op(draft, anomalist_history::OpKind::Append, key, one);
        let history = b.finish().unwrap();
        let out = written(|sink| writer(sink, false), &[&history]).unwrap();
        assert_eq!(describe(&read(&out), true), describe(&history, true));
    }

    #[test]
    fn batches_join() {
        let parts = [
            "{\"anomalist\":1,\"initial\":0}\n{\"session\":1,\"ops\":[[\"r\",1,0]]}\n",
            "{\"anomalist\":1,\"initial\":0,\"initial_keys\":[[2,5]]}\n{\"session\":1,\"ops\":[[\"r\",2,5]]}\n",
        ];
        let histories = parts.map(read);
        let out =
            written(|sink| writer(sink, false), &[&histories[0], &histories[1], &histories[1]]).unwrap();
        assert_eq!(out.matches("anomalist").count(), 2);
        assert_eq!(describe(&read(&out), true), "1 ok r(1,0*)\n1 ok r(2,5*)\n1 ok r(2,5*)\n");
        let other = read("{\"anomalist\":1,\"initial\":1}\n{\"session\":1,\"ops\":[]}\n");
        assert_eq!(
            written(|sink| writer(sink, false), &[&histories[0], &other]).unwrap_err().to_string(),
            "anomalist cannot express a second initial value, 1 after 0"
        );
    }

    #[test]
    fn faults_are_pointed_at() {
        assert_eq!(
            error("{\"session\":1,\"ops\":[],\"outcom\":\"aborted\"}"),
            "error: h:1:23: unknown field \"outcom\"\n  1 | {\"session\":1,\"ops\":[],\"outcom\":\"aborted\"}\n    \
             |                       ^ a transaction has session, id, ops, outcome, start, commit, snapshot, xid, invoked, completed and meta"
        );
        let first = |text: &str| error(text).lines().next().unwrap().to_owned();
        assert_eq!(
            first("{\"session\":1,\"ops\":[]}\n{\"session\":1,\"ops\":[[\"r\",1,"),
            "error: h:2:28: expected a value, found the end of the file"
        );
        assert_eq!(
            first("{\"session\":1,\"ops\":[[\"r\",1,\n{\"session\":1,\"ops\":[]}\n"),
            "error: h:1:28: expected a value, found the end of the line"
        );
        assert_eq!(
            first("{\"anomalist\":2}"),
            "error: h:1:14: version 2 of the format is newer than this program, which knows 1"
        );
        assert_eq!(
            first("{\"session\":1,\"ops\":[],\"commit\":1,\"snapshot\":\"9:7:\"}"),
            "error: h:1:45: expected a snapshot xmin:xmax:id,id,… with xmin ≤ every id < xmax"
        );
        assert_eq!(error("{\"anomalist\":1}\n"), "error: h: no transaction in this file (read as anomalist)");
        let text = "{\"session\":1,\"ops\":[],\"start\":1,\"commit\":2}\n{\"session\":1,\"ops\":[]}\n";
        let loaded = read_bytes("h", text.as_bytes(), Format::Anomalist, &ReadOptions::default()).unwrap();
        assert_eq!(
            loaded.warnings[0].to_string(),
            "warning: h:1:1: 1 of 2 transactions have no timestamps: none are used"
        );
        let options = ReadOptions { lossy: true, ..ReadOptions::default() };
        let cut = &TEXT.as_bytes()[..TEXT.len() - 20];
        assert_eq!(read_bytes("h", cut, Format::Anomalist, &options).unwrap().history.txn_count(), 3);
    }

    #[test]
    fn anything_ends_with_a_history_or_a_diagnostic() {
        survives(TEXT.as_bytes(), &|text, lossy| {
            read_bytes("h", text, Format::Anomalist, &ReadOptions { lossy, ..ReadOptions::default() })
        });
    }

    #[test]
    fn elle_and_timekiller_lose_nothing() {
        for format in [Format::ElleEdn, Format::ElleJson, Format::ElleJsonl] {
            for (id, text, _) in corpus(format.name()) {
                let options = ReadOptions::default();
                let history = read_bytes(&id, &text, format, &options).unwrap().history;
                let out = written(|sink| writer(sink, false), &[&history]).unwrap();
                assert_eq!(describe(&read(&out), true), describe(&history, true), "{id}");
            }
        }
        for (id, text, _) in corpus("timekiller-json") {
            let history =
                read_bytes(&id, &text, Format::Timekiller, &ReadOptions::default()).unwrap().history;
            let out = written(|sink| writer(sink, false), &[&history]).unwrap();
            assert_eq!(describe(&read(&out), true), describe(&history, true), "{id}");
        }
    }
}
