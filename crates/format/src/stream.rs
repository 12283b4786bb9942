//! Timestamped transactions one at a time, for checkers that do not wait for the end of a history.
//!
//! The text of one transaction, in Anomalist's own format or TimeKiller's, is written to a
//! [`TransactionSink`]. The grammar is that of the files (the same parsers are used), and each text stands
//! alone, so a malformed one says what is wrong with it and costs nothing but itself. Which of the two
//! formats a text is in shows in its field names; a stream may mix them.

use crate::anomalist::line::{self, Line};
use crate::load::ops::Columns;
use crate::load::recorded::{Recorded, send_initial};
use crate::text::fault::Fault;
use crate::text::json::Json;
use crate::timekiller;
use anomalist_history::{TransactionSink, Untimed, inert};

/// Parses texts of transactions; keeps its memory from one to the next.
#[derive(Default)]
pub struct StreamReader {
    columns: Columns,
}

/// Why a text was not taken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StreamError {
    /// It is malformed.
    #[error(transparent)]
    Malformed(#[from] StreamFault),
    /// It is a transaction without timestamps, and the sink needs them.
    #[error(transparent)]
    Untimed(#[from] Untimed),
}

/// What is wrong with a text.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}{}", inert(message), .help.map(|help| format!(" ({help})")).unwrap_or_default())]
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
    /// Parses the text of one transaction or header, which begins on this line, and writes it to a sink. A
    /// malformed text writes nothing.
    ///
    /// ```
    /// use anomalist_format::StreamReader;
    /// use anomalist_history::Builder;
    /// let mut builder = Builder::new();
    /// let line = br#"{"session":1,"ops":[["w","x",7]],"start":3,"commit":[4,1]}"#;
    /// StreamReader::default().read(line, 1, &mut builder)?;
    /// let history = builder.finish()?;
    /// assert_eq!((history.op_count(), history.stamps().unwrap()[0].commit.logical), (1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read<S: TransactionSink>(
        &mut self,
        text: &[u8],
        number: u64,
        sink: &mut S,
    ) -> Result<(), StreamError> {
        match self.parse(text)? {
            Line::Transaction(transaction) => Ok(transaction.send(&self.columns, number, sink)?),
            Line::Header { initial, keys, .. } => {
                send_initial(&self.columns, initial, keys, sink);
                Ok(())
            }
        }
    }

    fn parse(&mut self, text: &[u8]) -> Result<Line, StreamFault> {
        self.columns.reuse();
        self.columns.trim();
        let mut json = Json::new(text);
        let parsed = if is_timekiller(text) {
            Line::Transaction(Recorded::from(timekiller::transaction(&mut json, &mut self.columns)?))
        } else {
            line::parse(&mut json, &mut self.columns)?
        };
        if json.peek().is_some() {
            return Err(json.expected("the end of the line").into());
        }
        Ok(parsed)
    }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use anomalist_history::{Builder, Value};

    fn show(text: &str) -> String {
        let mut builder = Builder::new();
        match StreamReader::default().read(text.as_bytes(), 1, &mut builder) {
            Ok(()) => {
                let history = builder.finish().unwrap();
                let mut shown = format!("{:?}", history.initial().default.filter(|&v| v != Value::NIL));
                for t in history.txns() {
                    let session = history.show(history.session_label(history.session_of(t)));
                    let stamps = history.stamps().map(|stamps| stamps[t.index()].commit.physical);
                    shown += &format!(" {session} {} {stamps:?}", history.txn_name(t));
                    for (_, op) in history.ops(t) {
                        let (key, value) = (history.show_key(op.key), history.show(op.value));
                        shown += &format!(" {:?} {key} {value}", op.kind);
                    }
                }
                shown
            }
            Err(StreamError::Malformed(fault)) => format!("{}: {}", fault.at, fault.message),
            Err(StreamError::Untimed(untimed)) => untimed.to_string(),
        }
    }

    #[test]
    fn both_formats_are_told_apart_by_their_fields() {
        let own = r#"{"ops":[["r","l",[1,"b"]]],"session":"s","start":1,"commit":2}"#;
        assert_eq!(show(own), r#"None s s:1 Some(2) Read l [1 b]"#);
        let theirs =
            r#"{"ops":[{"t":"w","k":1,"v":2}],"tid":"7","sid":3,"sts":{"p":1,"l":0},"cts":{"p":"9","l":0}}"#;
        assert_eq!(show(theirs), "None 3 7 Some(9) Write 1 2");
        assert_eq!(show(r#"{"anomalist":1,"initial":0,"initial_keys":[["x",1]]}"#), "Some(Int(0))");
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
