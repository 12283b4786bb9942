//! A pull reader for EDN, the notation Jepsen and Elle write histories in.
//!
//! One flat stream of tokens; the caller keeps track of the shape. Comments, commas, `#_` discards, `^`
//! metadata and tags (the value after `#inst`, `#object` or `#jepsen.history.Op` stands for itself) never
//! reach the caller. Discarded and unwanted values are walked over with an explicit stack of bounded depth:
//! nothing recurses on input. O(n).
//!
//! Grammar: <https://github.com/edn-format/edn>, with what Clojure's own printer writes beyond it: `##NaN`,
//! `#:ns{…}` maps, `0x1F`, `017`, `2r101`, `#'var`, `#"pattern"`, any symbol characters. No other reader
//! macros.

use super::decimal::{self, Number};
use super::fault::Fault;
use super::json::DEPTH_LIMIT;
use std::borrow::Cow;

/// One token.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token<'a> {
    /// `[`, `(`, `{` or `#{`; the byte is the bracket that closes it.
    Open(u8),
    /// `]`, `)` or `}`.
    Close(u8),
    Nil,
    Bool(bool),
    Int(i64),
    /// A number that is not an integer of 64 bits, in the one text that equal numbers share.
    Number(Cow<'a, str>),
    /// Without its colon.
    Keyword(&'a str),
    /// A symbol, or a character with its backslash, in the one text of that character.
    Symbol(Cow<'a, str>),
    Text(Cow<'a, str>),
    /// The end of the text.
    End,
}

/// What the reader sees before comments, tags and discards are taken out.
enum Raw<'a> {
    Token(Token<'a>),
    Discard,
    /// `#inst`: the value that follows stands for itself.
    Tag,
    /// `^`: a value about the value after it.
    Meta,
}

/// The reader.
pub(crate) struct Edn<'a> {
    text: &'a [u8],
    at: usize,
    token_at: usize,
    /// Of the tag `#:namespace` right before the last token.
    namespace: Option<&'a str>,
}

impl<'a> Edn<'a> {
    pub fn new(text: &'a [u8]) -> Edn<'a> {
        let at = if text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        Edn { text, at, token_at: at, namespace: None }
    }

    /// Offset of the token that [`Edn::next`] gave last.
    pub fn token_at(&self) -> usize {
        self.token_at
    }

    /// Offset after it.
    pub fn at(&self) -> usize {
        self.at
    }

    /// True if the bracket that [`Edn::next`] gave last opens a set: sets and maps close alike.
    pub fn at_set(&self) -> bool {
        self.text.get(self.token_at) == Some(&b'#')
    }

    /// The namespace that a map lends its keys, if [`Edn::next`] gave the bracket of `#:namespace{…}` last.
    pub fn namespace(&self) -> Option<&'a str> {
        self.namespace
    }

    /// Goes back to an offset [`Edn::at`] gave.
    pub fn rewind(&mut self, at: usize) {
        self.at = at;
    }

    /// The fault that something else was expected where the last token began.
    #[cold]
    pub fn expected(&self, what: &str) -> Fault {
        Fault::expected(self.text, self.token_at, what)
    }

    #[inline]
    pub fn next(&mut self) -> Result<Token<'a>, Fault> {
        let mut tagged = false;
        self.namespace = None;
        loop {
            match self.raw()? {
                Raw::Token(Token::Close(_) | Token::End) if tagged => {
                    return Err(self.expected("a value after the tag"));
                }
                Raw::Token(token) => return Ok(token),
                Raw::Tag => tagged = true,
                Raw::Discard => self.discard()?,
                Raw::Meta => {
                    self.discard()?;
                    tagged = true;
                }
            }
        }
    }

    /// Takes this bracket if it is next. This and the two below are short ways for what histories are full
    /// of; they take nothing where a comment, tag or discard stands, and the caller falls back on
    /// [`Edn::next`].
    #[inline]
    pub fn take(&mut self, bracket: u8) -> bool {
        while let Some(b' ' | b',' | b'\n') = self.text.get(self.at) {
            self.at += 1;
        }
        self.token_at = self.at;
        let found = self.text.get(self.at) == Some(&bracket);
        self.at += usize::from(found);
        found
    }

    /// Takes a keyword if one is next, and gives its name, which is not to be kept: it may not be UTF-8.
    #[inline]
    pub fn keyword(&mut self) -> Option<&'a [u8]> {
        self.take(b':').then(|| {
            let rest = &self.text[self.at..];
            let len = rest.iter().position(|&b| ends_word(b)).unwrap_or(rest.len());
            self.at += len;
            &rest[..len]
        })
    }

    /// Takes an integer of at most 18 digits if one is next.
    #[inline]
    pub fn small_int(&mut self) -> Option<i64> {
        let negative = self.take(b'-');
        let (mut at, mut value) =
            (self.at + usize::from(!negative && self.text.get(self.at) == Some(&b'+')), 0i64);
        let digits = at;
        while let Some(&b @ b'0'..=b'9') = self.text.get(at) {
            value = value.wrapping_mul(10).wrapping_add(i64::from(b - b'0'));
            at += 1;
        }
        // A zero in front makes a number octal.
        let plain = match at - digits {
            1 => true,
            count => (2..=18).contains(&count) && self.text[digits] != b'0',
        } && self.text.get(at).is_none_or(|&b| ends_word(b));
        self.at = if plain { at } else { self.token_at };
        plain.then(|| if negative { -value } else { value })
    }

    /// Walks over the rest of a value whose first token the caller has taken.
    pub fn skip(&mut self, first: &Token<'a>) -> Result<(), Fault> {
        let mut open: Vec<u8> = Vec::new();
        let mut token = Cow::Borrowed(first);
        loop {
            self.nest(&token, &mut open)?;
            if open.is_empty() {
                return Ok(());
            }
            token = Cow::Owned(self.next()?);
        }
    }

    fn nest(&self, token: &Token<'_>, open: &mut Vec<u8>) -> Result<(), Fault> {
        match token {
            Token::Open(_) if open.len() as u32 == DEPTH_LIMIT => {
                Err(Fault::new(self.token_at, format!("more than {DEPTH_LIMIT} levels of nesting")))
            }
            Token::Open(close) => {
                open.push(*close);
                Ok(())
            }
            Token::Close(close) if open.last() == Some(close) => {
                open.pop();
                Ok(())
            }
            Token::Close(_) | Token::End => Err(self.expected(&match open.last() {
                Some(&close) => format!("a value or \"{}\"", close as char),
                None => "a value".to_owned(),
            })),
            _ => Ok(()),
        }
    }

    /// Walks over what a `#_` discards, or what `^` says about a value; `#_ #_ a b` discards both.
    fn discard(&mut self) -> Result<(), Fault> {
        let (mut pending, mut open) = (1u64, Vec::new());
        while pending > 0 {
            match self.raw()? {
                Raw::Discard | Raw::Meta if open.is_empty() => pending += 1,
                Raw::Discard | Raw::Meta | Raw::Tag => {}
                Raw::Token(token) => {
                    self.nest(&token, &mut open)?;
                    pending -= u64::from(open.is_empty());
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn raw(&mut self) -> Result<Raw<'a>, Fault> {
        let first = loop {
            match self.text.get(self.at) {
                Some(b' ' | b'\n' | b'\r' | b'\t' | b',' | 0x0c) => self.at += 1,
                Some(b';') => {
                    let rest = &self.text[self.at..];
                    self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
                }
                other => break other.copied(),
            }
        };
        self.token_at = self.at;
        let Some(first) = first else { return Ok(Raw::Token(Token::End)) };
        let token = match first {
            b'[' | b'{' => self.bracket(Token::Open(first + 2)), // ASCII: `]` and `}` come two later
            b'(' => self.bracket(Token::Open(b')')),
            b']' | b')' | b'}' => self.bracket(Token::Close(first)),
            b':' => {
                let name = self.word(self.at + 1)?;
                if name.is_empty() {
                    return Err(Fault::expected(self.text, self.at, "a keyword's name"));
                }
                Token::Keyword(name)
            }
            b'0'..=b'9' => self.number()?,
            b'-' | b'+' if self.text.get(self.at + 1).is_some_and(u8::is_ascii_digit) => self.number()?,
            b'"' => self.string()?,
            b'\\' => self.character()?,
            b'#' => return self.dispatch(),
            b'^' => {
                self.at += 1;
                return Ok(Raw::Meta);
            }
            _ => match self.word(self.at)? {
                "nil" => Token::Nil,
                "true" => Token::Bool(true),
                "false" => Token::Bool(false),
                "" => return Err(self.expected("a value")),
                symbol => Token::Symbol(symbol.into()),
            },
        };
        Ok(Raw::Token(token))
    }

    #[inline]
    fn bracket(&mut self, token: Token<'a>) -> Token<'a> {
        self.at += 1;
        token
    }

    fn dispatch(&mut self) -> Result<Raw<'a>, Fault> {
        match self.text.get(self.at + 1) {
            Some(b'_') => {
                self.at += 2;
                Ok(Raw::Discard)
            }
            Some(b'{') => {
                self.at += 2;
                Ok(Raw::Token(Token::Open(b'}')))
            }
            Some(b'#') => Ok(Raw::Token(Token::Symbol(self.word(self.at)?.into()))),
            Some(b'^') => {
                self.at += 2;
                Ok(Raw::Meta)
            }
            // What Clojure prints of variables and of patterns: the symbol, the text.
            Some(b'\'' | b'"') => {
                self.at += 1 + usize::from(self.text[self.at + 1] == b'\'');
                Ok(Raw::Tag)
            }
            Some(b':') => {
                self.namespace = Some(self.word(self.at + 2)?.trim_start_matches(':'));
                Ok(Raw::Tag)
            }
            Some(b) if b.is_ascii_alphabetic() => {
                self.word(self.at + 1)?;
                Ok(Raw::Tag)
            }
            _ => Err(Fault::expected(self.text, self.at + 1, "a tag, \"{\" or \"_\" after \"#\"")),
        }
    }

    /// The characters of a name from `from` on; the offset then stands after them.
    #[inline]
    fn word(&mut self, from: usize) -> Result<&'a str, Fault> {
        let rest = &self.text[from..];
        let len = rest.iter().position(|&b| ends_word(b)).unwrap_or(rest.len());
        self.at = from + len;
        self.utf8(from, self.at)
    }

    fn utf8(&self, start: usize, end: usize) -> Result<&'a str, Fault> {
        std::str::from_utf8(&self.text[start..end])
            .map_err(|e| Fault::new(start + e.valid_up_to(), "expected UTF-8, found other bytes"))
    }

    fn number(&mut self) -> Result<Token<'a>, Fault> {
        if let Some(i) = self.small_int() {
            return Ok(Token::Int(i));
        }
        let start = self.at;
        let word = self.word(start)?;
        match decimal::edn(word) {
            Some(Number::Int(i)) => Ok(Token::Int(i)),
            Some(Number::Other(text)) => Ok(Token::Number(text)),
            None => Err(Fault::new(
                start,
                format!("expected a number, found \"{}\"", word.chars().take(40).collect::<String>()),
            )),
        }
    }

    /// `\a`, `\newline`; the character itself may be a delimiter, as in `\[`.
    fn character(&mut self) -> Result<Token<'a>, Fault> {
        let (start, after) = (self.at, self.at + 1);
        match self.text.get(after) {
            None => return Err(Fault::expected(self.text, after, "a character")),
            Some(&b) if ends_word(b) => self.at = after + 1,
            Some(_) => drop(self.word(after)?),
        }
        Ok(Token::Symbol(one_character(self.utf8(start, self.at)?)))
    }

    fn string(&mut self) -> Result<Token<'a>, Fault> {
        let mut start = self.at + 1;
        let mut out: Option<String> = None;
        loop {
            let rest = &self.text[start..];
            let Some(len) = memchr::memchr2(b'"', b'\\', rest) else {
                return Err(Fault::expected(self.text, self.text.len(), "a closing double quote"));
            };
            let (plain, end) = (self.utf8(start, start + len)?, start + len);
            if self.text[end] == b'"' {
                self.at = end + 1;
                return Ok(Token::Text(match out {
                    None => Cow::Borrowed(plain),
                    Some(mut out) => {
                        out.push_str(plain);
                        Cow::Owned(out)
                    }
                }));
            }
            let out = out.get_or_insert_default();
            out.push_str(plain);
            let (c, used) = match self.text.get(end + 1) {
                Some(&b @ (b'"' | b'\\')) => (b as char, 2),
                Some(b'n') => ('\n', 2),
                Some(b'r') => ('\r', 2),
                Some(b't') => ('\t', 2),
                Some(b'b') => ('\u{8}', 2),
                Some(b'f') => ('\u{c}', 2),
                Some(b'u') => {
                    let hex = self.text.get(end + 2..end + 6).and_then(|h| std::str::from_utf8(h).ok());
                    let code = hex.and_then(|h| u32::from_str_radix(h, 16).ok()).and_then(char::from_u32);
                    (
                        code.ok_or_else(|| {
                            Fault::expected(
                                self.text,
                                (end + 2).min(self.text.len()),
                                "four hexadecimal digits",
                            )
                        })?,
                        6,
                    )
                }
                _ => return Err(Fault::expected(self.text, end + 1, "an escape such as \\n")),
            };
            out.push(c);
            start = end + used;
        }
    }
}

/// The one text of a character: `\u0061` and `\o141` are `\a`.
fn one_character(text: &str) -> Cow<'_, str> {
    let code = |radix: u32, from: usize| u32::from_str_radix(&text[from..], radix).ok();
    let code = match text.as_bytes() {
        [b'\\', b'u', _, ..] => code(16, 2),
        [b'\\', b'o', _, ..] => code(8, 2),
        _ => None,
    };
    match code.and_then(char::from_u32) {
        None => text.into(),
        Some('\n') => "\\newline".into(),
        Some(' ') => "\\space".into(),
        Some('\t') => "\\tab".into(),
        Some('\r') => "\\return".into(),
        Some('\u{8}') => "\\backspace".into(),
        Some('\u{c}') => "\\formfeed".into(),
        Some(c) => format!("\\{c}").into(),
    }
}

/// Bytes that end a name or number.
const ENDS_WORD: [bool; 256] = {
    let (mut table, ends, mut i) = ([false; 256], b" ,\n\r\t\x0c[](){}\";", 0);
    while i < ends.len() {
        table[ends[i] as usize] = true;
        i += 1;
    }
    table
};

#[inline]
fn ends_word(b: u8) -> bool {
    ENDS_WORD[b as usize]
}
