//! Regular expressions of PostgreSQL (`~`, SIMILAR TO) and MySQL (REGEXP), by the crate `regex`.
//!
//! The forms differ in few places, and those are translated: PostgreSQL's escapes for the ends of words,
//! braces that repeat nothing, and brackets, in which POSIX knows no operators. A dot matches a line's end,
//! as in PostgreSQL. The search takes time linear in the text. What the crate does not have (references to
//! groups, looking around) is refused, not guessed.

use regex::{Regex, RegexBuilder};
use rustc_hash::FxHashMap;

/// Compiled expressions are kept up to this number.
const KEPT: usize = 64;

/// Whether the pattern is found in the text. `None`: the pattern is not understood.
#[must_use]
pub fn matches(text: &str, pattern: &str, insensitive: bool) -> Option<bool> {
    compile(&translate(pattern)?, insensitive).map(|regex| regex.is_match(text))
}

/// Expressions of a session that are compiled.
#[derive(Default)]
pub struct Patterns(FxHashMap<(String, bool), Option<Regex>>);

impl Patterns {
    /// Like [`matches`].
    pub fn matches(&mut self, text: &str, pattern: &str, insensitive: bool) -> Option<bool> {
        self.find(text, pattern, insensitive, translate)
    }

    /// Whether the whole text is SIMILAR TO the pattern. `None`: the pattern is not understood.
    pub fn similar(&mut self, text: &str, pattern: &str, escape: Option<char>) -> Option<bool> {
        let whole = similar(pattern, escape)?;
        self.find(text, &whole, false, |whole| Some(whole.to_owned()))
    }

    fn find(
        &mut self,
        text: &str,
        pattern: &str,
        insensitive: bool,
        translate: impl Fn(&str) -> Option<String>,
    ) -> Option<bool> {
        if self.0.len() >= KEPT {
            self.0.clear();
        }
        let compiled = || translate(pattern).and_then(|regular| compile(&regular, insensitive));
        let regex = self.0.entry((pattern.to_owned(), insensitive)).or_insert_with(compiled);
        regex.as_ref().map(|regex| regex.is_match(text))
    }
}

fn compile(regular: &str, insensitive: bool) -> Option<Regex> {
    let mut builder = RegexBuilder::new(regular);
    builder.case_insensitive(insensitive).dot_matches_new_line(true).size_limit(1 << 20).build().ok()
}

/// An expression as the crate writes it.
fn translate(pattern: &str) -> Option<String> {
    let mut regular = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '\\' => rest = escape(rest, &mut regular)?,
            '[' => rest = class(rest, &mut regular)?,
            '{' if !rest.starts_with(|c: char| c.is_ascii_digit()) => regular.push_str("\\{"),
            c => regular.push(c),
        }
    }
    Some(regular)
}

/// What follows a backslash; the rest.
fn escape<'p>(rest: &'p str, regular: &mut String) -> Option<&'p str> {
    let c = rest.chars().next()?;
    let meaning = match c {
        'm' => "\\b{start}",
        'M' => "\\b{end}",
        'y' => "\\b",
        'Y' => "\\B",
        'Z' => "\\z",
        'A' | 'd' | 'D' | 'w' | 'W' | 's' | 'S' | 'n' | 'r' | 't' | 'f' | 'v' => &format!("\\{c}"),
        c if c.is_alphanumeric() => return None,
        c => &regex::escape(c.encode_utf8(&mut [0; 4])),
    };
    regular.push_str(meaning);
    Some(&rest[c.len_utf8()..])
}

/// What follows an opening bracket; the rest.
fn class<'p>(rest: &'p str, regular: &mut String) -> Option<&'p str> {
    regular.push('[');
    let mut rest = match rest.strip_prefix('^') {
        Some(rest) => {
            regular.push('^');
            rest
        }
        None => rest,
    };
    let mut first = true;
    loop {
        let c = rest.chars().next()?;
        rest = &rest[c.len_utf8()..];
        match c {
            ']' if !first => {
                regular.push(']');
                return Some(rest);
            }
            '[' if rest.starts_with(':') => {
                let end = rest.find(":]")? + 2;
                regular.push('[');
                regular.push_str(&rest[..end]);
                rest = &rest[end..];
            }
            '[' if rest.starts_with(['.', '=']) => return None,
            '\\' => rest = escape(rest, regular)?,
            // Operators of the crate, but no more than characters in POSIX.
            '[' | ']' | '&' | '~' | '^' => {
                regular.push('\\');
                regular.push(c);
            }
            '-' if first || rest.starts_with(']') => regular.push_str("\\-"),
            c => regular.push(c),
        }
        first = false;
    }
}

/// SIMILAR TO as an expression that is found only if it matches everything: `%` and `_` as in LIKE;
/// alternatives, groups, repetitions and brackets as in expressions; all else is itself.
fn similar(pattern: &str, escape: Option<char>) -> Option<String> {
    let mut regular = String::from("^(?:");
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            c if Some(c) == escape => {
                let literal = rest.chars().next()?;
                regular.push_str(&regex::escape(literal.encode_utf8(&mut [0; 4])));
                rest = &rest[literal.len_utf8()..];
            }
            '%' => regular.push_str(".*"),
            '_' => regular.push('.'),
            '[' => rest = class(rest, &mut regular)?,
            '|' | '*' | '+' | '?' | '{' | '}' | '(' | ')' => regular.push(c),
            c => regular.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
    }
    regular.push_str(")$");
    Some(regular)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (text, pattern, found) in [
            ("accounts", "^(accounts)$", true),
            ("accounts2", "^(accounts)$", false),
            ("pg_toast_1", "^pg_toast", true),
            ("abcabc", "^(abc)+$", true),
            ("a1b22", "[a-z][0-9]+$", true),
            ("xyz", "^x.*z$", true),
            ("colour", "colou?r|grey", true),
            ("", "^$", true),
            ("abc", "[^a-c]", false),
            ("x{y}", "x{y}", true),
            ("aaa", "^a{3}$", true),
            ("aaa", "^a{1,2}$", false),
            ("a b", "^[[:alpha:]]+[[:space:]][[:alpha:]]$", true),
            ("a-b", "^[a\\-]+b$", true),
            ("a]b", "^a[]x]b$", true),
            ("a&&b", "^[a&b]+$", true),
            ("a[b", "a[[]b", true),
            ("foo bar", "\\mbar\\M", true),
            ("foobar", "\\mbar", false),
            ("a\nb", "^a.b$", true),
            ("a\nb", "a$", false),
            ("naïve", "^\\w+$", true),
        ] {
            assert_eq!(matches(text, pattern, false), Some(found), "{text} {pattern}");
            assert_eq!(Patterns::default().matches(text, pattern, false), Some(found), "{text} {pattern}");
        }
        assert_eq!(matches("ÄBC", "äb", true), Some(true));
        for pattern in ["(", "(a)\\1", "a(?=b)", "[[.a.]]", "[a"] {
            assert_eq!(matches("a", pattern, false), None, "{pattern}");
        }
        assert_eq!(matches(&"a".repeat(10_000), "(a*)*(a*)*(a*)*b", false), Some(false));
    }

    #[test]
    fn similar_to() {
        let patterns = &mut Patterns::default();
        for (text, pattern, found) in [
            ("abc", "abc", true),
            ("abc", "a", false),
            ("abc", "%(b|d)%", true),
            ("abc", "(b|c)%", false),
            ("a.c", "a.c", true),
            ("abc", "a.c", false),
            ("a_c", "a\\_c", true),
            ("abc", "a\\_c", false),
            ("aaa", "a{2,3}", true),
            ("a|b", "a|b", false),
            ("b", "a|b", true),
            ("x5", "[a-z][[:digit:]]", true),
        ] {
            assert_eq!(patterns.similar(text, pattern, Some('\\')), Some(found), "{text} {pattern}");
        }
    }
}
