//! What is wrong with an input, said the way a compiler would: where, what was expected, what was found.

use anomalist_history::{inert, is_active};
use std::fmt;

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// The input cannot be trusted: no verdict.
    Error,
    /// Worth knowing; the history was read.
    Warning,
}

/// Where in the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The file as a whole.
    File,
    /// A line and a column in bytes, both from 1.
    Line {
        /// Line, from 1.
        line: u32,
        /// Column in bytes, from 1.
        column: u32,
    },
    /// A byte offset, for binary formats.
    Byte(u64),
}

/// One finding about an input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// How bad.
    pub severity: Severity,
    /// The file as the user named it.
    pub file: String,
    /// Where in it.
    pub place: Place,
    /// "expected …, found …", or what else is wrong.
    pub message: String,
    /// The line in question, when there is one; cut to a screen's width when shown.
    pub snippet: Option<String>,
    /// How it should look.
    pub help: Option<String>,
    /// What the reader may be asked to do about it.
    pub hint: Option<Hint>,
}

/// Something that [`ReadOptions`](crate::ReadOptions) can do about an input; a program that has a flag for
/// it says which.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Hint {
    /// The file is cut off: `lossy` keeps what came before.
    Lossy,
    /// The format was not recognised: `format` says which one it is.
    Format,
    /// The input is too large: `max_size` allows more.
    Size,
}

impl Diagnostic {
    /// An error.
    pub fn error(file: impl Into<String>, place: Place, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            file: file.into(),
            place,
            message: message.into(),
            snippet: None,
            help: None,
            hint: None,
        }
    }

    /// A warning.
    pub fn warning(file: impl Into<String>, place: Place, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(file, place, message) }
    }

    /// With the line in question.
    pub fn snippet(mut self, line: &[u8]) -> Diagnostic {
        self.snippet = Some(String::from_utf8_lossy(line).into_owned());
        self
    }

    /// With a hint how it should look.
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// With what the reader may be asked to do about it.
    pub fn hint(mut self, hint: Hint) -> Diagnostic {
        self.hint = Some(hint);
        self
    }
}

/// Characters of a snippet shown on each side of the column.
const SNIPPET_REACH: usize = 36;

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{severity}: {}", inert(&self.file))?;
        match self.place {
            Place::File => {}
            Place::Line { line, column } => write!(f, ":{line}:{column}")?,
            Place::Byte(byte) => write!(f, ": byte {byte}")?,
        }
        write!(f, ": {}", inert(&self.message))?;
        if let (Some(snippet), Place::Line { line, column }) = (&self.snippet, self.place) {
            let number = line.to_string();
            let (shown, caret) = cut(snippet, column as usize - 1);
            write!(f, "\n  {number} | {shown}\n  {:width$} | {:caret$}^", "", "", width = number.len())?;
            if let Some(help) = &self.help {
                write!(f, " {}", inert(help))?;
            }
        } else if let Some(help) = &self.help {
            write!(f, "\n  help: {}", inert(help))?;
        }
        Ok(())
    }
}

/// The part of a line around a byte offset, control characters made visible, and where the offset then
/// stands.
fn cut(line: &str, offset: usize) -> (String, usize) {
    let offset = (0..=offset.min(line.len())).rev().find(|&i| line.is_char_boundary(i)).unwrap_or(0);
    let before: Vec<char> = line[..offset].chars().collect();
    let after: Vec<char> = line[offset..].chars().collect();
    let mut shown = String::new();
    if before.len() > SNIPPET_REACH {
        shown.push('…');
    }
    shown.extend(&before[before.len().saturating_sub(SNIPPET_REACH)..]);
    let caret = shown.chars().count();
    shown.extend(after.iter().take(SNIPPET_REACH));
    if after.len() > SNIPPET_REACH {
        shown.push('…');
    }
    (shown.chars().map(|c| if is_active(c) { '·' } else { c }).collect(), caret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_points_at_its_column() {
        let d = Diagnostic::error(
            "h.txt",
            Place::Line { line: 2, column: 8 },
            "expected \",<transaction>)\" after the session",
        )
        .snippet(b"w(1,1,1")
        .help("a Plume line is  r|w(<key>,<value>,<session>,<transaction>)");
        assert_eq!(
            d.to_string(),
            "error: h.txt:2:8: expected \",<transaction>)\" after the session\n  \
             2 | w(1,1,1\n    |        ^ a Plume line is  r|w(<key>,<value>,<session>,<transaction>)"
        );
    }

    #[test]
    fn long_lines_are_cut_around_the_column() {
        let line = "x".repeat(500);
        let d = Diagnostic::error("f", Place::Line { line: 1, column: 250 }, "m").snippet(line.as_bytes());
        assert!(d.to_string().lines().all(|l| l.chars().count() < 90));
    }
}
