//! What is wrong in a text, by byte offset, until line and column are asked for.

use crate::{Diagnostic, Hint, Place};

/// What is wrong with a file that ends too early.
pub(crate) const CUT: &str = "the file seems to be cut off";

/// What is wrong at one byte of a text. Boxed: results stay small, and the way without faults fast.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault(Box<Parts>);

/// What a [`Fault`] says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parts {
    /// Byte offset.
    pub at: usize,
    /// The text ended too early: the file may have been cut off.
    pub cut: bool,
    /// "expected …, found …".
    pub message: String,
    /// How it should look.
    pub help: Option<&'static str>,
}

impl std::ops::Deref for Fault {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl std::ops::DerefMut for Fault {
    fn deref_mut(&mut self) -> &mut Parts {
        &mut self.0
    }
}

impl Fault {
    #[cold]
    pub fn new(at: usize, message: impl Into<String>) -> Fault {
        Fault(Box::new(Parts { at, cut: false, message: message.into(), help: None }))
    }

    /// "expected …, found …", where found is what stands at `at`.
    #[cold]
    pub fn expected(text: &[u8], at: usize, expected: &str) -> Fault {
        let found = match text.get(at) {
            None => "the end of the file".to_owned(),
            Some(&b @ 0x21..0x7f) => format!("\"{}\"", b as char),
            Some(&b) if b >= 0x80 => {
                let shown = String::from_utf8_lossy(&text[at..text.len().min(at + 4)]);
                match shown.chars().next() {
                    Some(c) if c != char::REPLACEMENT_CHARACTER => format!("\"{c}\""),
                    _ => format!("byte 0x{b:02x}"),
                }
            }
            Some(&b) => format!("byte 0x{b:02x}"),
        };
        let mut fault = Fault::new(at.min(text.len()), format!("expected {expected}, found {found}"));
        fault.cut = at >= text.len();
        fault
    }

    pub fn help(mut self, help: &'static str) -> Fault {
        self.help = Some(help);
        self
    }

    /// The same about a line that is not the last of its file: what ended is not the file.
    #[cold]
    pub fn in_line(mut self) -> Fault {
        if self.cut {
            self.cut = false;
            self.message = self.message.replace("the end of the file", "the end of the line");
        }
        self
    }

    /// As a diagnostic about a file of which `text` is a part that begins on line `first_line`.
    pub fn diagnose(&self, file: &str, text: &[u8], first_line: u32) -> Diagnostic {
        /// A snippet shows a screen's width; a line of 700 MB is not copied for it.
        const LONGEST: usize = 1 << 16;
        let at = self.at.min(text.len());
        let start = memchr::memrchr(b'\n', &text[..at]).map_or(0, |i| i + 1);
        let line = first_line.saturating_add(newlines(&text[..start]));
        let column = u32::try_from(at - start + 1).unwrap_or(u32::MAX);
        let mut d = Diagnostic::error(file, Place::Line { line, column }, self.message.clone());
        if at - start < LONGEST {
            let end = text.len().min(at + 256);
            let end = memchr::memchr(b'\n', &text[at..end]).map_or(end, |i| at + i);
            d = d.snippet(text[start..end].strip_suffix(b"\r").unwrap_or(&text[start..end]));
        }
        match self.help {
            Some(help) => d.help(help),
            None if self.cut => d.help(CUT).hint(Hint::Lossy),
            None => d,
        }
    }
}

/// Number of line ends in a text.
pub(crate) fn newlines(text: &[u8]) -> u32 {
    u32::try_from(memchr::memchr_iter(b'\n', text).count()).unwrap_or(u32::MAX)
}
