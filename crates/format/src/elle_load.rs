//! What readers of whole texts share: progress, faults as diagnostics, `--lossy`, `--initial`, the last checks.

use crate::json::{Fault, Json, Scalar, newlines};
use crate::{Diagnostic, Format, Loaded, Place, ReadError, ReadOptions, Severity};
use isolde_history::{AtomKind, Builder, Value};
use std::ops::Range;

/// The range of the line that begins here, without its end.
pub(crate) fn line_at(text: &[u8], start: usize) -> Range<usize> {
    start..memchr::memchr(b'\n', &text[start..]).map_or(text.len(), |i| start + i)
}

/// Parses the JSON value on the line in this range of a text; `None` if the line is blank.
#[inline]
pub(crate) fn on_line<T>(
    text: &[u8],
    range: Range<usize>,
    parse: impl FnOnce(&mut Json<'_>) -> Result<T, Fault>,
) -> Result<Option<T>, Fault> {
    let more = range.end < text.len();
    let mut json = Json::line(text, range);
    if json.peek().is_none() {
        return Ok(None);
    }
    let parsed = parse(&mut json).and_then(|value| match json.peek() {
        None => Ok(Some(value)),
        Some(_) => Err(json.expected("the end of the line")),
    });
    parsed.map_err(|mut fault| {
        // Only the end of the last line is the end of the file.
        if fault.cut && more {
            fault.cut = false;
            fault.message = fault.message.replace("the end of the file", "the end of the line");
        }
        fault
    })
}

/// Parses a block of whole lines, up to the first fault.
pub(crate) fn on_lines(
    text: &[u8],
    mut parse: impl FnMut(Range<usize>) -> Result<(), Fault>,
) -> Option<Fault> {
    let mut start = 0;
    while start < text.len() {
        let range = line_at(text, start);
        start = range.end + 1;
        if let Err(fault) = parse(range) {
            return Some(fault);
        }
    }
    None
}

/// Counts lines up to offsets that only grow.
pub(crate) struct LineCounter<'a> {
    text: &'a [u8],
    counted: usize,
    line: u32,
}

impl<'a> LineCounter<'a> {
    /// For a text that begins on this line.
    pub fn new(text: &'a [u8], first_line: u32) -> LineCounter<'a> {
        LineCounter { text, counted: 0, line: first_line }
    }

    /// The line of an offset not before the last one asked for.
    #[inline]
    pub fn line(&mut self, at: usize) -> u32 {
        let at = at.clamp(self.counted, self.text.len());
        self.line = self.line.saturating_add(newlines(&self.text[self.counted..at]));
        self.counted = at;
        self.line
    }
}

/// A text being read.
pub(crate) struct Source<'a> {
    pub name: &'a str,
    pub text: &'a [u8],
    pub format: Format,
    pub options: &'a ReadOptions<'a>,
    pub lines: LineCounter<'a>,
    told: usize,
    pub warnings: Vec<Diagnostic>,
}

/// Bytes between two calls of the progress function.
const PROGRESS_STEP: usize = 1 << 20;

impl<'a> Source<'a> {
    pub fn new(name: &'a str, text: &'a [u8], format: Format, options: &'a ReadOptions<'a>) -> Source<'a> {
        Source {
            name,
            text,
            format,
            options,
            lines: LineCounter::new(text, 1),
            told: 0,
            warnings: Vec::new(),
        }
    }

    /// Tells how far reading has come, now and then.
    #[inline]
    pub fn progress(&mut self, at: usize) -> Result<(), ReadError> {
        if at < self.told + PROGRESS_STEP {
            return Ok(());
        }
        self.told = at;
        match self.options.progress {
            Some(go_on) if !go_on(at as u64) => Err(ReadError::Cancelled),
            _ => Ok(()),
        }
    }

    /// A fault ends reading: as an error, or as a warning if what came before may be kept.
    pub fn stop(&mut self, mut fault: Fault) -> Result<(), ReadError> {
        // With `--lossy` only an end may be missing or broken: nothing but white space follows the faulty line.
        let rest = &self.text[fault.at.min(self.text.len())..];
        let at_end =
            memchr::memchr(b'\n', rest).is_none_or(|i| rest[i..].iter().all(u8::is_ascii_whitespace));
        if fault.cut && fault.help.is_none() && !self.options.lossy {
            fault.help = Some("the file seems to be cut off; --lossy keeps what came before");
        }
        let mut diagnostic = fault.diagnose(self.name, self.text, 1);
        if !self.options.lossy || !(fault.cut || at_end) {
            return Err(ReadError::Malformed(vec![diagnostic]));
        }
        diagnostic.severity = Severity::Warning;
        diagnostic.message.push_str("; ignored from the beginning of this transaction on");
        self.warnings.push(diagnostic);
        Ok(())
    }

    /// A warning about `count` things of which the first is on this line.
    pub fn warn(&mut self, line: u32, message: String) {
        self.warnings.push(Diagnostic::warning(self.name, Place::Line { line, column: 1 }, message));
    }

    /// The value of `--initial`, if given: `Some(None)` for `none`.
    pub fn initial(&self, builder: &mut Builder) -> Result<Option<Option<Value>>, ReadError> {
        let Some(text) = self.options.initial else { return Ok(None) };
        if text == "none" {
            return Ok(Some(None));
        }
        let mut json = Json::new(text.as_bytes());
        let value = match json.scalar("a value") {
            Ok(Scalar::Null) => Ok(Value::NIL),
            Ok(Scalar::Int(i)) => Ok(builder.int(i)),
            Ok(Scalar::Bool(b)) => Ok(builder.atom(AtomKind::Token, &b.to_string())),
            Ok(Scalar::Number(text)) => Ok(builder.atom(AtomKind::Token, text)),
            Ok(Scalar::Text(text)) => Ok(builder.atom(AtomKind::Text, &text)),
            Err(fault) => Err(fault),
        };
        match value {
            Ok(value) if json.peek().is_none() => Ok(Some(Some(value))),
            _ => Err(ReadError::Malformed(vec![Diagnostic::error(
                "--initial",
                Place::File,
                format!("expected a JSON value such as 0, null or \"a\", or none, found {text}"),
            )])),
        }
    }

    /// The finished history.
    pub fn finish(self, builder: Builder) -> Result<Loaded, ReadError> {
        if builder.txn_count() == 0 {
            let mut diagnostics = vec![Diagnostic::error(self.name, Place::File, "no transaction")];
            diagnostics.extend(self.warnings);
            return Err(ReadError::Malformed(diagnostics));
        }
        let history =
            builder.finish().map_err(|source| ReadError::TooLarge { file: self.name.to_owned(), source })?;
        Ok(Loaded { history, format: self.format, warnings: self.warnings })
    }
}
