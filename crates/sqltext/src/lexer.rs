//! Tokens of SQL: enough to find the ends of statements, comments and strings, and to match short
//! statements.
//!
//! The dialects differ in what quotes what: backslashes escape in MySQL's strings and in PostgreSQL's
//! `E'…'`; double quotes hold names, but strings in MySQL; PostgreSQL has `$tag$…$tag$` and nested
//! comments; MySQL runs what stands in `/*! … */`. An unclosed string or comment reaches to the end of the
//! text: the parser will say so. Linear in the text.

use crate::Dialect;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A keyword or a bare name.
    Word,
    /// A name in quotes.
    Name,
    /// A string.
    Text,
    /// A number.
    Number,
    /// A placeholder: `?`, `?7`, `$1`, `:name`.
    Parameter,
    /// A variable of MySQL: `@x`, `@@x`; its name in words follows the at signs.
    Variable,
    /// `;`
    Semicolon,
    /// Any other character.
    Symbol,
}

/// A piece of a text that means something; comments and spaces are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// What it is.
    pub kind: Kind,
    /// As written, quotes included.
    pub text: &'a str,
    /// Its place in the text, in bytes.
    pub start: usize,
}

impl Token<'_> {
    /// Whether this is the bare word, in any case.
    #[must_use]
    pub fn is(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(word)
    }

    /// Where it ends.
    #[must_use]
    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// The name that it is: bare words in small letters, as PostgreSQL folds them, others without quotes.
    #[must_use]
    pub fn name(&self) -> String {
        if self.kind == Kind::Word { self.text.to_ascii_lowercase() } else { self.unquoted() }
    }

    /// What a name or string says, without quotes and escapes; other tokens as written.
    #[must_use]
    pub fn unquoted(&self) -> String {
        let Some(quote) = self.text.chars().next().filter(|_| matches!(self.kind, Kind::Name | Kind::Text))
        else {
            return self.text.to_owned();
        };
        let close = if quote == '[' { ']' } else { quote };
        let inner = self.text[quote.len_utf8()..].strip_suffix(close).unwrap_or("");
        inner.replace(&format!("{close}{close}"), &close.to_string())
    }
}

/// The tokens of a text.
pub fn tokens(dialect: Dialect, text: &str) -> impl Iterator<Item = Token<'_>> {
    let mut lexer = Lexer { dialect, text, at: 0, versioned: 0 };
    std::iter::from_fn(move || lexer.next_token())
}

struct Lexer<'a> {
    dialect: Dialect,
    text: &'a str,
    at: usize,
    /// How many `/*!` are open.
    versioned: usize,
}

fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn is_word(byte: u8) -> bool {
    is_word_start(byte) || byte.is_ascii_digit() || byte == b'$'
}

impl<'a> Lexer<'a> {
    fn byte(&self, at: usize) -> u8 {
        self.text.as_bytes().get(at).copied().unwrap_or(0)
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The place after the first `needle` at or after `from`, or the end.
    fn after(&self, from: usize, needle: &str) -> usize {
        let from = from.min(self.text.len());
        self.text[from..].find(needle).map_or(self.text.len(), |i| from + i + needle.len())
    }

    fn next_token(&mut self) -> Option<Token<'a>> {
        self.skip();
        if self.at >= self.text.len() {
            return None;
        }
        let start = self.at;
        let (kind, end) = self.scan();
        self.at = end;
        Some(Token { kind, text: &self.text[start..end], start })
    }

    /// Moves over spaces and comments.
    fn skip(&mut self) {
        loop {
            let (first, second) = (self.byte(self.at), self.byte(self.at + 1));
            let mysql = self.dialect == Dialect::MySql;
            if self.at >= self.text.len() {
                return;
            } else if first.is_ascii_whitespace() || first == 0 {
                self.at += 1;
            } else if self.line_comment(mysql) {
                self.at = self.after(self.at, "\n");
            } else if first == b'/' && second == b'*' {
                self.comment(mysql);
            } else if first == b'*' && second == b'/' && self.versioned > 0 {
                self.versioned -= 1;
                self.at += 2;
            } else {
                return;
            }
        }
    }

    /// Whether a comment up to the end of the line begins here. MySQL wants a space after the dashes.
    fn line_comment(&self, mysql: bool) -> bool {
        let dashes = self.rest().starts_with("--") && (!mysql || self.byte(self.at + 2) <= b' ');
        dashes || (mysql && self.byte(self.at) == b'#')
    }

    fn comment(&mut self, mysql: bool) {
        let executed = if self.rest().starts_with("/*!") {
            3
        } else if self.rest().starts_with("/*M!") {
            4
        } else {
            0
        };
        if mysql && executed > 0 {
            self.at += executed;
            while self.byte(self.at).is_ascii_digit() {
                self.at += 1;
            }
            self.versioned += 1;
        } else if self.dialect == Dialect::PostgreSql {
            let mut depth = 0;
            while self.at < self.text.len() {
                match (self.byte(self.at), self.byte(self.at + 1)) {
                    (b'/', b'*') => (depth, self.at) = (depth + 1, self.at + 2),
                    (b'*', b'/') => (depth, self.at) = (depth - 1, self.at + 2),
                    _ => self.at += 1,
                }
                if depth == 0 {
                    return;
                }
            }
            self.at = self.text.len();
        } else {
            self.at = self.after(self.at + 2, "*/");
        }
    }

    fn scan(&self) -> (Kind, usize) {
        let at = self.at;
        let (first, second) = (self.byte(at), self.byte(at + 1));
        let (postgres, mysql) = (self.dialect == Dialect::PostgreSql, self.dialect == Dialect::MySql);
        match first {
            b';' => (Kind::Semicolon, at + 1),
            b'\'' => (Kind::Text, self.quoted(at, b'\'', mysql)),
            b'"' if mysql => (Kind::Text, self.quoted(at, b'"', true)),
            b'"' => (Kind::Name, self.quoted(at, b'"', false)),
            b'`' if !postgres => (Kind::Name, self.quoted(at, b'`', false)),
            b'[' if self.dialect == Dialect::Sqlite => (Kind::Name, self.after(at, "]")),
            b'e' | b'E' if postgres && second == b'\'' => (Kind::Text, self.quoted(at + 1, b'\'', true)),
            b'x' | b'X' | b'b' | b'B' | b'n' | b'N' if second == b'\'' => {
                (Kind::Text, self.quoted(at + 1, b'\'', mysql))
            }
            b'$' if postgres => self.dollar(),
            b'?' => (Kind::Parameter, self.run(at + 1, |b| b.is_ascii_digit())),
            b':' if !postgres && is_word_start(second) => (Kind::Parameter, self.run(at + 1, is_word)),
            b'@' if mysql => {
                let name = self.run(at, |b| b == b'@');
                let quoted = self.byte(name);
                if matches!(quoted, b'`' | b'\'' | b'"') {
                    (Kind::Variable, self.quoted(name, quoted, false))
                } else {
                    (Kind::Variable, self.run(name, |b| is_word(b) || b == b'.'))
                }
            }
            _ if is_word_start(first) => (Kind::Word, self.run(at, is_word)),
            _ if first.is_ascii_digit() || (first == b'.' && second.is_ascii_digit()) => {
                (Kind::Number, self.number())
            }
            _ => (Kind::Symbol, at + 1),
        }
    }

    fn run(&self, from: usize, belongs: impl Fn(u8) -> bool) -> usize {
        let rest = &self.text.as_bytes()[from.min(self.text.len())..];
        from + rest.iter().take_while(|&&b| belongs(b)).count()
    }

    fn number(&self) -> usize {
        let end = self.run(self.at, |b| b.is_ascii_alphanumeric() || b == b'.' || b == b'_');
        let exponent = matches!(self.byte(end - 1), b'e' | b'E') && !self.rest().starts_with("0x");
        if exponent && matches!(self.byte(end), b'+' | b'-') {
            self.run(end + 1, |b| b.is_ascii_digit())
        } else {
            end
        }
    }

    /// The end of what is quoted from `at`. A doubled quote stands for itself.
    fn quoted(&self, at: usize, quote: u8, escapes: bool) -> usize {
        let mut i = at + 1;
        while i < self.text.len() {
            let byte = self.byte(i);
            let escaped = (byte == b'\\' && escapes) || (byte == quote && self.byte(i + 1) == quote);
            if escaped {
                i += 2;
            } else if byte == quote {
                return i + 1;
            } else {
                i += 1;
            }
        }
        self.text.len()
    }

    /// `$1`, or `$tag$…$tag$`.
    fn dollar(&self) -> (Kind, usize) {
        let at = self.at;
        if self.byte(at + 1).is_ascii_digit() {
            return (Kind::Parameter, self.run(at + 1, |b| b.is_ascii_digit()));
        }
        let tag = self.run(at + 1, |b| is_word(b) && b != b'$');
        if self.byte(tag) == b'$' {
            (Kind::Text, self.after(tag + 1, &self.text[at..=tag]))
        } else {
            (Kind::Symbol, at + 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(dialect: Dialect, text: &str) -> Vec<&str> {
        tokens(dialect, text).map(|t| t.text).collect()
    }

    #[test]
    fn quotes_follow_the_dialect() {
        assert_eq!(
            texts(Dialect::PostgreSql, r"'a\' E'b\'c' $q$;'$q$ $1 "),
            [r"'a\'", r"E'b\'c'", "$q$;'$q$", "$1"]
        );
        assert_eq!(
            texts(Dialect::MySql, r#"'a\'b' "c""d" `e;` @@session.x"#),
            [r"'a\'b'", r#""c""d""#, "`e;`", "@@session.x"]
        );
        assert_eq!(texts(Dialect::Sqlite, r"[a;b] 'c''d' ?2 :x"), ["[a;b]", "'c''d'", "?2", ":x"]);
    }

    #[test]
    fn comments_follow_the_dialect() {
        assert_eq!(texts(Dialect::PostgreSql, "a /* /* ; */ ; */ b -- ;\nc"), ["a", "b", "c"]);
        assert_eq!(texts(Dialect::MySql, "a /*!40101 b */ # ;\n 1--1"), ["a", "b", "1", "-", "-", "1"]);
        assert_eq!(texts(Dialect::Sqlite, "a /* /* */ b"), ["a", "b"]);
    }

    #[test]
    fn every_prefix_of_anything_ends() {
        let (text, more) = ("SELECT E'\\", "/* $a$ '`\"[ é 1e");
        for dialect in [Dialect::PostgreSql, Dialect::MySql, Dialect::Sqlite] {
            for whole in [text, more] {
                for end in (0..=whole.len()).filter(|&i| whole.is_char_boundary(i)) {
                    assert!(tokens(dialect, &whole[..end]).count() <= whole.len());
                }
            }
        }
    }
}
