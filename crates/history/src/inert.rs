//! Text from inputs, made harmless to show.
//!
//! Keys, values, names and paths come from the author of the input. A line feed in one of them forges lines
//! of a log, an escape sequence commands the terminal, a bidirectional override turns the text around, a
//! line or paragraph separator ends lines in some programs, and a character that takes no room shows
//! something else than what is there (CVE-2021-42574). So those characters are written as the escapes of
//! Rust: `\u{202e}`. Everything that shows such text to people uses these functions, also the escapes of
//! formats such as XML; data that programs read back (JSON, certificates, histories) keeps the text.

use std::borrow::Cow;

/// The text with every character escaped that does something other than stand for itself.
///
/// ```
/// use anomalist_history::inert;
/// assert_eq!(inert("x y"), "x y");
/// assert_eq!(inert("a\n::error::b\u{1b}[2J\u{202e}c"), r"a\n::error::b\u{1b}[2J\u{202e}c");
/// ```
pub fn inert(text: &str) -> Cow<'_, str> {
    escaped(text, is_active, push_escape)
}

/// The same for a text of several lines that the program has laid out: line feeds and tabs stay. The text
/// may be a JSON document, so the escapes are those of JSON, which mean the same characters there.
pub fn inert_lines(text: &str) -> Cow<'_, str> {
    let push = |out: &mut String, c: char| {
        let mut units = [0; 2];
        c.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
    };
    escaped(text, |c| is_active(c) && !matches!(c, '\n' | '\t'), push)
}

/// Control characters (C0, DEL, C1), separators of lines and paragraphs, those that set the direction of
/// text, and others that have no look of their own.
pub fn is_active(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
            | '\u{fffe}' | '\u{ffff}')
}

/// Adds such a character to a text, as its escape.
pub fn push_escape(out: &mut String, c: char) {
    match c {
        '\n' | '\t' | '\r' => out.extend(c.escape_default()),
        c => out.extend(c.escape_unicode()),
    }
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool, push: impl Fn(&mut String, char)) -> Cow<'_, str> {
    let Some(first) = text.find(&is_escaped) else { return Cow::Borrowed(text) };
    let mut out = text[..first].to_owned();
    for c in text[first..].chars() {
        match is_escaped(c) {
            true => push(&mut out, c),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}
