//! What the terminal can do, and writing to it: colours, width, and pipes that close early.

use crate::cli::Global;
use crate::exit::Failure;
use anomalist_report::{Hints, Style};
use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Wider lines are harder to read, whatever the terminal allows.
const WIDEST: u16 = 100;
const USUAL: u16 = 80;

/// How to set text on standard output.
pub fn style(global: &Global) -> Style {
    let terminal = io::stdout().is_terminal();
    let dumb = is_dumb();
    let width = match terminal_size::terminal_size() {
        Some((terminal_size::Width(columns), _)) if terminal => columns.min(WIDEST),
        _ => USUAL,
    };
    Style {
        color: terminal && !global.no_color && has_color(),
        lanes: terminal && !dumb,
        signs: terminal && !dumb && is_utf8(),
        width: width.into(),
        verbose: global.verbose,
        hints: Hints {
            examples: Some("-v"),
            versions: Some("--transaction-order or --wfr-keys"),
            memory: Some("--memory"),
        },
    }
}

/// Whether a terminal would show colours, and the user wants them.
pub fn has_color() -> bool {
    !is_dumb() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Whether the terminal cannot move its cursor.
pub fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Whether the locale says that the terminal shows UTF-8. The first of these variables that is set decides.
fn is_utf8() -> bool {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default().to_lowercase();
    cfg!(windows) || locale.contains("utf-8") || locale.contains("utf8")
}

/// A text with nothing in it that commands a terminal but colours, and those only where there is one. What
/// comes from inputs is inert where it becomes part of a sentence, which is where line feeds are seen; this
/// is for what was forgotten there.
fn inert_lines(text: &str, colours: bool) -> Cow<'_, str> {
    if !colours || !text.contains('\x1b') {
        return anomalist_history::inert_lines(text);
    }
    let mut out = String::with_capacity(text.len());
    for (i, part) in text.split('\x1b').enumerate() {
        let end =
            part.strip_prefix('[').and_then(|rest| rest.find(|c: char| !c.is_ascii_digit() && c != ';'));
        let is_colour = end.is_some_and(|end| part[1 + end..].starts_with('m'));
        match (i, is_colour) {
            (0, _) => {}
            (_, true) => out.push('\x1b'),
            (_, false) => out.push_str("\\u001b"),
        }
        out.push_str(&anomalist_history::inert_lines(part));
    }
    Cow::Owned(out)
}

/// Set once standard output is a pipe that its reader has closed.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Writes to standard output, a line feed at the end. A closed pipe is no error: its reader has seen
/// enough, but the command goes on, because files that were asked for and the exit status do not depend on
/// it.
pub fn print(text: &str) -> Result<(), Failure> {
    let text = &*inert_lines(text, io::stdout().is_terminal());
    let mut out = io::stdout().lock();
    let newline: &[u8] = if text.ends_with('\n') || text.is_empty() { b"" } else { b"\n" };
    let written =
        out.write_all(text.as_bytes()).and_then(|()| out.write_all(newline)).and_then(|()| out.flush());
    match written.map_err(|error| Failure::io(Path::new("standard output"), error)) {
        Err(Failure::ClosedPipe) => {
            CLOSED.store(true, Relaxed);
            Ok(())
        }
        result => result,
    }
}

/// True once a text could not be printed because the pipe was closed.
pub fn is_closed() -> bool {
    CLOSED.load(Relaxed)
}

/// Writes a message to standard error; if that is closed, the message is lost.
pub fn tell(message: &str) {
    let message = inert_lines(message, io::stderr().is_terminal());
    let mut err = io::stderr().lock();
    _ = writeln!(err, "{message}");
}

/// A word as the shell takes it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Words in lines of at most `width` columns, the first line after `first`, the others after `rest`.
pub fn wrap(text: &str, first: &str, rest: &str, width: usize) -> String {
    let mut out = first.to_owned();
    let mut column = first.chars().count();
    let mut fresh = true;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if !fresh && column + 1 + length > width {
            out.push('\n');
            out.push_str(rest);
            (column, fresh) = (rest.chars().count(), true);
        }
        if !fresh {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
        fresh = false;
    }
    out.push('\n');
    out
}
