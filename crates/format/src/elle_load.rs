//! What readers of whole texts share: progress, faults as diagnostics, `--lossy`, `--initial`, the last checks.

use crate::json::{Fault, Json, Scalar, newlines};
use crate::{Diagnostic, Format, Loaded, Place, ReadError, ReadOptions, Severity};
use isolde_history::{AtomKind, Builder, Value};

/// A text being read.
pub(crate) struct Source<'a> {
    pub name: &'a str,
    pub text: &'a [u8],
    pub format: Format,
    pub options: &'a ReadOptions<'a>,
    /// The line at `counted`, both moving forward.
    line: u32,
    counted: usize,
    told: usize,
    pub warnings: Vec<Diagnostic>,
}

/// Bytes between two calls of the progress function.
const PROGRESS_STEP: usize = 1 << 20;

impl<'a> Source<'a> {
    pub fn new(name: &'a str, text: &'a [u8], format: Format, options: &'a ReadOptions<'a>) -> Source<'a> {
        Source { name, text, format, options, line: 1, counted: 0, told: 0, warnings: Vec::new() }
    }

    /// The line of an offset not before the last one asked for.
    #[inline]
    pub fn line(&mut self, at: usize) -> u32 {
        let at = at.clamp(self.counted, self.text.len());
        self.line = self.line.saturating_add(newlines(&self.text[self.counted..at]));
        self.counted = at;
        self.line
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
