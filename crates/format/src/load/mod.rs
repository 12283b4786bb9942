//! What readers share: `--lossy`, `--initial`, warnings, lines by several threads, the finished history.
//!
//! A history that no database can have is refused here, for all formats: a verdict about it would be about
//! the recorder. What was cut off is made up for here as well: a read whose writer may be in the missing
//! part shows nothing.

pub(crate) mod initial;
pub(crate) mod lines;
pub(crate) mod ops;
pub(crate) mod recorded;
pub(crate) mod records;

use crate::text::fault::CUT;
use crate::{Diagnostic, Format, Hint, Input, Loaded, Place, ReadError, ReadOptions, Severity};
use anomalist_history::{Builder, History, OpKind, TxnId};

/// An input on its way to a history.
pub(crate) struct Reading<'a> {
    pub name: String,
    pub options: &'a ReadOptions<'a>,
    pub warnings: Vec<Diagnostic>,
    format: Format,
    /// Some of the input is missing.
    cut: bool,
    /// It is a recording that was killed.
    cut_off: bool,
}

impl<'a> Reading<'a> {
    pub fn new(input: &Input, format: Format, options: &'a ReadOptions<'a>) -> Reading<'a> {
        Reading {
            name: input.name().to_owned(),
            options,
            warnings: Vec::new(),
            format,
            cut: false,
            cut_off: false,
        }
    }

    /// All bytes of an input. With `lossy`, a damaged archive yields what could be decoded, and a warning.
    pub fn bytes(&mut self, input: Input) -> Result<Vec<u8>, ReadError> {
        let (bytes, damage) = input.into_bytes(self.options)?;
        self.keep_the_beginning(damage.map_or(Ok(()), Err))?;
        Ok(bytes)
    }

    /// With `lossy`, malformed input ends the history instead of failing it: the errors become warnings.
    pub fn keep_the_beginning(&mut self, result: Result<(), ReadError>) -> Result<(), ReadError> {
        match result {
            Err(ReadError::Malformed(errors)) if self.options.lossy => {
                self.cut = true;
                self.warnings.extend(errors.into_iter().map(|d| Diagnostic {
                    severity: Severity::Warning,
                    message: d.message + "; ignored from here on",
                    help: d.help.filter(|_| d.hint != Some(Hint::Lossy)),
                    hint: d.hint.filter(|hint| *hint != Hint::Lossy),
                    ..d
                }));
                Ok(())
            }
            other => other,
        }
    }

    /// The end of a recording is missing, although every line of it is whole. What was in flight may have
    /// been read from.
    pub fn cut_off(&mut self, message: String) -> Result<(), ReadError> {
        self.cut_off = true;
        let error = Diagnostic::error(&self.name, Place::File, message).help(CUT).hint(Hint::Lossy);
        self.keep_the_beginning(Err(ReadError::Malformed(vec![error])))
    }

    /// A warning about something that begins on this line.
    pub fn warn(&mut self, line: u32, message: String) {
        self.warnings.push(Diagnostic::warning(&self.name, Place::Line { line, column: 1 }, message));
    }

    /// The finished history.
    pub fn finish(mut self, mut builder: Builder) -> Result<Loaded, ReadError> {
        let forgotten = if self.cut { builder.forget_unexplained() } else { 0 };
        if forgotten > 0 {
            let reads = if forgotten == 1 { "read of a value" } else { "reads of values" };
            let message = format!(
                "{forgotten} {reads} without a writer in the remaining part: the results are ignored"
            );
            self.warnings.push(Diagnostic::warning(&self.name, Place::File, message));
        }
        let history = builder.finish_on(self.options.threads);
        let history = history.map_err(|source| ReadError::TooLarge { file: self.name.clone(), source })?;
        match refuse_two_kinds(&history, &self.name) {
            Some(mixed) => Err(ReadError::Malformed(vec![mixed])),
            None => Ok(Loaded {
                history,
                format: self.format,
                warnings: self.warnings,
                unexplained: if self.cut_off { forgotten } else { 0 },
            }),
        }
    }
}

/// What is wrong with a history that has a key which is both a list and a register.
pub(crate) fn refuse_two_kinds(history: &History, file: &str) -> Option<Diagnostic> {
    two_kinds(history).map(|mixed| mixed.diagnostic(history, file))
}

/// A key that is a register to one transaction and a list to another.
struct TwoKinds {
    written: TxnId,
    listed: TxnId,
    appended: bool,
    key: String,
}

/// The first key that is written and also appended to or read as a list. No database has both under one
/// name, and what a read of it may return is not known.
fn two_kinds(history: &History) -> Option<TwoKinds> {
    if !history.has_lists() {
        return None;
    }
    let mut written: Vec<Option<TxnId>> = vec![None; history.key_count()];
    for t in history.txns() {
        for (_, op) in history.ops(t).filter(|(_, op)| op.kind == OpKind::Write) {
            written[op.key.index()].get_or_insert(t);
        }
    }
    history.txns().find_map(|listed| {
        history.ops(listed).find_map(|(_, op)| {
            let appended = op.kind == OpKind::Append;
            let written = written[op.key.index()].filter(|_| appended || op.value.is_list())?;
            Some(TwoKinds { written, listed, appended, key: history.show_key(op.key).to_string() })
        })
    })
}

impl TwoKinds {
    fn diagnostic(self, history: &History, file: &str) -> Diagnostic {
        let (key, listed) = (self.key, if self.appended { "appended to" } else { "read as a list" });
        let (here, there) = (history.line(self.listed), history.line(self.written));
        let place = here.map_or(Place::File, |line| Place::Line { line, column: 1 });
        let where_written = match there {
            Some(line) => format!("on line {line}"),
            None => format!("by {}", history.txn_name(self.written)),
        };
        let who =
            if here.is_some() { "here".to_owned() } else { format!("by {}", history.txn_name(self.listed)) };
        let message = format!("key {key} is {listed} {who}, and written as a register {where_written}");
        Diagnostic::error(file, place, message).help("use different keys for lists and for registers")
    }
}
