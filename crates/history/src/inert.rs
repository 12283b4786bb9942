//! Text from inputs, made harmless to show.
//!
//! Keys, values, names and paths come from the author of the input. A line feed in one of them forges lines
//! of a log, an escape sequence commands the terminal, a bidirectional override turns the text around, a
//! line or paragraph separator ends lines in some programs. So those characters are written as escapes that
//! JSON has too. Everything that shows such text to people uses this one function; data that programs read
//! back (JSON, certificates, histories) keeps the text as it is.

use std::borrow::Cow;

/// The text with every character escaped that does something other than stand for itself.
///
/// ```
/// use anomalist_history::inert;
/// assert_eq!(inert("x y"), "x y");
/// assert_eq!(inert("a\n::error::b\u{1b}[2J\u{202e}c"), r"a\n::error::b\u001b[2J\u202ec");
/// ```
pub fn inert(text: &str) -> Cow<'_, str> {
    escaped(text, is_active)
}

/// The same for a text of several lines that the program has laid out: line feeds and tabs stay.
pub fn inert_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_active(c) && !matches!(c, '\n' | '\t'))
}

/// Control characters (C0, DEL, C1), separators of lines and paragraphs, and those that set the direction
/// of text.
pub fn is_active(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    let Some(first) = text.find(&is_escaped) else { return Cow::Borrowed(text) };
    let mut out = text[..first].to_owned();
    for c in text[first..].chars() {
        match c {
            c if !is_escaped(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // All of them are in the basic plane.
            c => out.push_str(&format!("\\u{:04x}", u32::from(c))),
        }
    }
    Cow::Owned(out)
}
