//! Setting text: wrapping, columns, thousands separators, colour.

use crate::unknown::Hints;

/// How text for people is set.
///
/// ```
/// let style = anomalist_report::Style::default();
/// assert_eq!((style.color, style.width, style.verbose), (false, 80, 0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Use ANSI colours.
    pub color: bool,
    /// Use signs beyond ASCII for verdicts, and lines for drawings.
    pub signs: bool,
    /// Draw examples as lanes where they fit; otherwise list their transactions.
    pub lanes: bool,
    /// Columns of a line.
    pub width: usize,
    /// 0: fits on a screen; 1: an example of every anomaly, and timings.
    pub verbose: u8,
    /// What the program that prints can do besides.
    pub hints: Hints,
}

impl Default for Style {
    fn default() -> Style {
        Style { color: false, signs: false, lanes: false, width: 80, verbose: 0, hints: Hints::default() }
    }
}

/// What a colour is used for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Bad,
    Open,
    Strong,
}

/// Colours of terminals, as parameters of the escape sequence: of the fixed 6×6×6 cube, because the eight
/// named ones are what a terminal makes of them, and its green and yellow can often not be read on white.
/// These have a contrast of at least 4.5 (WCAG's AA) to white and to black, which few colours have.
pub mod colors {
    /// Holds.
    pub const GOOD: &str = "38;5;29";
    /// Violated.
    pub const BAD: &str = "1;38;5;131";
    /// Not decided.
    pub const OPEN: &str = "38;5;98";
}

impl Style {
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Good => colors::GOOD,
            Tone::Bad => colors::BAD,
            Tone::Open => colors::OPEN,
            Tone::Strong => "1",
        };
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Never so narrow that nothing fits beside an indentation.
    pub(crate) fn columns(&self) -> usize {
        self.width.max(40)
    }
}

/// Columns that a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.chars().count()
}

/// The text, padded with spaces.
pub(crate) fn padded(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// Words in lines of at most `columns`, the first after `first`, the others after spaces of width `rest`. A
/// word that is too long for any line is cut, at a hyphen if it has one.
pub(crate) fn wrap(first: &str, rest: usize, columns: usize, text: &str) -> String {
    let mut out = first.to_owned();
    let mut column = width(first);
    let mut fresh = true;
    for word in text.split(' ').filter(|w| !w.is_empty()) {
        let mut word = word.to_owned();
        if !fresh && column + 1 + width(&word) > columns {
            out.push('\n');
            out.push_str(&" ".repeat(rest));
            (column, fresh) = (rest, true);
        }
        while width(&word) > columns.saturating_sub(rest) && columns > rest {
            if fresh && column > rest {
                break;
            }
            let most: String = word.chars().take(columns - rest).collect();
            let mut cut = most.rfind('-').map_or_else(|| most.clone(), |hyphen| most[..=hyphen].to_owned());
            // A line that starts with `::` is a command in a log of GitHub's.
            while word[cut.len()..].starts_with("::") && cut.pop().is_some() {}
            word = word.split_off(cut.len());
            if !fresh {
                out.push('\n');
                out.push_str(&" ".repeat(rest));
            }
            out.push_str(&cut);
            out.push('\n');
            out.push_str(&" ".repeat(rest));
            (column, fresh) = (rest, true);
        }
        if !fresh {
            out.push(' ');
            column += 1;
        }
        out.push_str(&word);
        column += width(&word);
        fresh = false;
    }
    out.push('\n');
    out
}

/// A number with separators: `1,234,567`.
///
/// ```
/// assert_eq!(anomalist_report::thousands(1_234_567), "1,234,567");
/// ```
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 key`, `2 keys`.
pub(crate) fn pluralise(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", thousands(n), if n == 1 { "" } else { "s" })
}

/// `once`, `17 times`.
pub(crate) fn times(n: u64) -> String {
    match n {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        n => format!("{} times", thousands(n)),
    }
}

/// `a, b and c`.
pub(crate) fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// The last `columns` of a text, marked as cut.
pub(crate) fn tail(text: &str, columns: usize) -> String {
    let long = width(text).saturating_sub(columns);
    if long == 0 {
        return text.to_owned();
    }
    format!("…{}", text.chars().skip(long + 1).collect::<String>())
}

/// The first `columns` of a text, marked as cut.
pub(crate) fn head(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    format!("{}…", text.chars().take(columns.saturating_sub(1)).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!([0, 999, 1000, 1234567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!((pluralise(1, "key"), pluralise(1000, "key")), ("1 key".into(), "1,000 keys".into()));
    }

    #[test]
    fn lines_keep_their_width() {
        let text = "one two three four five sixsevenandeightnineten eleven";
        let set = wrap("* ", 2, 20, text);
        assert_eq!(set, "* one two three four\n  five\n  sixsevenandeightni\n  neten eleven\n");
        assert!(set.lines().all(|line| width(line) <= 20));
        assert_eq!(wrap("  ", 2, 20, ""), "  \n");
    }

    #[test]
    fn cuts() {
        assert_eq!(
            (tail("abcdef", 4), head("abcdef", 4), tail("abc", 4)),
            ("…def".into(), "abc…".into(), "abc".into())
        );
    }
}
