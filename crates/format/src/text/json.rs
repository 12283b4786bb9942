//! A pull reader for JSON over bytes.
//!
//! The caller knows the shape it wants and asks for it ("an array", "the next key", "a number"); nothing is
//! built that was not asked for, text is borrowed unless it has an escape, and integers of up to 18 digits
//! never leave registers. Whatever the caller does not want is walked over with an explicit stack of one
//! bit per level, so depth is bounded and nothing recurses on input. Every error carries its byte offset;
//! [`Fault::diagnose`] turns that into line and column.
//!
//! Grammar: RFC 8259. O(n), each byte is looked at once (twice where text is kept and must be UTF-8).

use super::decimal::{self, Number};
use super::fault::Fault;
use std::borrow::Cow;

/// How deep arrays and objects may nest.
pub(crate) const DEPTH_LIMIT: u32 = 128;

/// A value that is not an array or object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Scalar<'a> {
    Null,
    Bool(bool),
    Int(i64),
    /// A number that is not an integer of 64 bits, in the one text that equal numbers share.
    Number(Cow<'a, str>),
    Text(Cow<'a, str>),
}

/// The reader.
pub(crate) struct Json<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Json<'a> {
    pub fn new(text: &'a [u8]) -> Json<'a> {
        // A byte order mark is tolerated at the start, as RFC 8259 allows.
        Json { text, at: if text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 } }
    }

    /// A reader of one line of a text; offsets are those of the text.
    pub fn line(text: &'a [u8], line: std::ops::Range<usize>) -> Json<'a> {
        let mark = line.start == 0 && text.starts_with(b"\xef\xbb\xbf");
        Json { text: &text[..line.end], at: if mark { 3 } else { line.start } }
    }

    /// Offset of the next byte.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Goes back to an offset [`Json::at`] gave.
    pub fn rewind(&mut self, at: usize) {
        self.at = at;
    }

    /// The next byte that is not white space; the offset then stands on it.
    #[inline]
    pub fn peek(&mut self) -> Option<u8> {
        loop {
            match self.text.get(self.at) {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                other => return other.copied(),
            }
        }
    }

    /// Takes this byte if it is next.
    #[inline]
    pub fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Takes these bytes if they are next, white space included.
    #[inline]
    pub fn take_bytes<const N: usize>(&mut self, bytes: &[u8; N]) -> bool {
        let found = self.text.get(self.at..self.at + N) == Some(bytes);
        self.at += if found { N } else { 0 };
        found
    }

    /// The fault that something else was expected here.
    #[cold]
    pub fn expected(&self, what: &str) -> Fault {
        Fault::expected(self.text, self.at, what)
    }

    /// Enters an array or object: `[` or `{`.
    #[inline]
    pub fn open(&mut self, bracket: u8, what: &str) -> Result<(), Fault> {
        if self.take(bracket) { Ok(()) } else { Err(self.expected(what)) }
    }

    /// In an array: true if there is another element, and then stands before it. `first` is true at the
    /// first call only.
    #[inline]
    pub fn element(&mut self, first: &mut bool) -> Result<bool, Fault> {
        let was_first = std::mem::replace(first, false);
        match self.peek() {
            Some(b']') => {
                self.at += 1;
                Ok(false)
            }
            Some(b',') if !was_first => {
                self.at += 1;
                if self.peek() == Some(b']') { Err(self.expected("a value")) } else { Ok(true) }
            }
            Some(_) if was_first => Ok(true),
            _ => Err(self.expected(if was_first { "a value or \"]\"" } else { "\",\" or \"]\"" })),
        }
    }

    /// In an object: the next key, standing before its value. `first` is true at the first call only.
    #[inline]
    pub fn key(&mut self, first: &mut bool) -> Result<Option<Cow<'a, [u8]>>, Fault> {
        let was_first = std::mem::replace(first, false);
        match self.peek() {
            Some(b'}') => {
                self.at += 1;
                return Ok(None);
            }
            Some(b',') if !was_first => {
                self.at += 1;
                self.peek();
            }
            Some(_) if was_first => {}
            _ => return Err(self.expected(if was_first { "a name or \"}\"" } else { "\",\" or \"}\"" })),
        }
        if self.text.get(self.at) != Some(&b'"') {
            return Err(self.expected("a name in double quotes"));
        }
        let key = self.raw_string()?;
        if !self.take(b':') {
            return Err(self.expected("\":\""));
        }
        Ok(Some(key))
    }

    /// A string as bytes, for names that are compared and not kept; `None` if something else stands here.
    #[inline]
    pub fn word(&mut self) -> Result<Option<Cow<'a, [u8]>>, Fault> {
        if self.peek() == Some(b'"') { self.raw_string().map(Some) } else { Ok(None) }
    }

    /// A value that is neither array nor object; `what` names what was wanted.
    #[inline]
    pub fn scalar(&mut self, what: &str) -> Result<Scalar<'a>, Fault> {
        match self.peek() {
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'"') => self.string().map(Scalar::Text),
            Some(b'n') => self.literal(b"null", Scalar::Null, what),
            Some(b't') => self.literal(b"true", Scalar::Bool(true), what),
            Some(b'f') => self.literal(b"false", Scalar::Bool(false), what),
            _ => Err(self.expected(what)),
        }
    }

    fn literal(&mut self, word: &[u8], value: Scalar<'a>, what: &str) -> Result<Scalar<'a>, Fault> {
        let rest = &self.text[self.at..];
        if rest.starts_with(word) {
            self.at += word.len();
            Ok(value)
        } else if word.starts_with(rest) {
            Err(Fault::expected(self.text, self.text.len(), what))
        } else {
            Err(self.expected(what))
        }
    }

    /// An integer of at most 18 digits, if that is what stands here; nothing is taken otherwise.
    #[inline]
    pub fn small_int(&mut self) -> Option<i64> {
        let negative = self.peek() == Some(b'-');
        let start = self.at + usize::from(negative);
        let (mut end, mut value) = (start, 0i64);
        while let Some(&b) = self.text.get(end) {
            let digit = b.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            value = value.wrapping_mul(10).wrapping_add(i64::from(digit));
            end += 1;
        }
        let plain = match end - start {
            0 => false,
            1 => true,
            count => count <= 18 && self.text[start] != b'0',
        };
        if !plain || matches!(self.text.get(end), Some(b'.' | b'e' | b'E')) {
            return None;
        }
        self.at = end;
        Some(if negative { -value } else { value })
    }

    fn number(&mut self) -> Result<Scalar<'a>, Fault> {
        let start = self.at;
        if let Some(i) = self.raw_number()? {
            return Ok(Scalar::Int(i));
        }
        Ok(match decimal::json(self.utf8(start, self.at)?) {
            Number::Int(i) => Scalar::Int(i),
            Number::Other(text) => Scalar::Number(text),
        })
    }

    /// Walks over a number; gives it if it is an integer of at most 18 digits.
    fn raw_number(&mut self) -> Result<Option<i64>, Fault> {
        let start = self.at;
        let negative = self.text[start] == b'-';
        self.at += usize::from(negative);
        let digits = self.at;
        let mut value = 0i64;
        while let Some(&b @ b'0'..=b'9') = self.text.get(self.at) {
            value = value.wrapping_mul(10).wrapping_add(i64::from(b - b'0'));
            self.at += 1;
        }
        let count = self.at - digits;
        if count == 0 || (count > 1 && self.text[digits] == b'0') {
            self.at = digits + usize::from(count > 0);
            return Err(self.expected("a digit"));
        }
        if let Some(b'.' | b'e' | b'E') = self.text.get(self.at) {
            self.fraction()?;
        } else if count <= 18 {
            return Ok(Some(if negative { -value } else { value }));
        }
        Ok(None)
    }

    /// The fraction and exponent of a number.
    fn fraction(&mut self) -> Result<(), Fault> {
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.text.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.text.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Fault> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.text.get(self.at) {
            self.at += 1;
        }
        if self.at == start { Err(self.expected("a digit")) } else { Ok(()) }
    }

    fn utf8(&self, start: usize, end: usize) -> Result<&'a str, Fault> {
        std::str::from_utf8(&self.text[start..end])
            .map_err(|e| Fault::new(start + e.valid_up_to(), "expected UTF-8, found other bytes"))
    }

    /// A string; the offset stands on its opening quote.
    #[inline]
    fn string(&mut self) -> Result<Cow<'a, str>, Fault> {
        let start = self.at + 1;
        let end = self.plain(start)?;
        if self.text[end] == b'"' {
            self.at = end + 1;
            return Ok(Cow::Borrowed(self.utf8(start, end)?));
        }
        self.escaped(start, end)
    }

    /// A string that may not be UTF-8.
    #[inline]
    fn raw_string(&mut self) -> Result<Cow<'a, [u8]>, Fault> {
        let start = self.at + 1;
        let end = self.plain(start)?;
        if self.text[end] == b'"' {
            self.at = end + 1;
            return Ok(Cow::Borrowed(&self.text[start..end]));
        }
        Ok(Cow::Owned(self.escaped(start, end)?.into_owned().into_bytes()))
    }

    /// The end of the plain characters from here: the offset of a quote or backslash.
    #[inline]
    fn plain(&self, from: usize) -> Result<usize, Fault> {
        let mut end = from;
        loop {
            match self.text.get(end) {
                Some(b'"' | b'\\') => return Ok(end),
                Some(0..0x20) | None => {
                    return Err(Fault::expected(self.text, end, "a closing double quote"));
                }
                Some(_) => end += 1,
            }
        }
    }

    #[cold]
    fn escaped(&mut self, mut start: usize, mut end: usize) -> Result<Cow<'a, str>, Fault> {
        let mut out = String::new();
        loop {
            out.push_str(self.utf8(start, end)?);
            if self.text[end] == b'"' {
                self.at = end + 1;
                return Ok(Cow::Owned(out));
            }
            self.at = end + 1;
            let c = match self.text.get(self.at) {
                Some(&b @ (b'"' | b'\\' | b'/')) => b as char,
                Some(b'b') => '\u{8}',
                Some(b'f') => '\u{c}',
                Some(b'n') => '\n',
                Some(b'r') => '\r',
                Some(b't') => '\t',
                Some(b'u') => self.unicode()?,
                _ => return Err(self.expected("an escape such as \\n or \\u00e9")),
            };
            out.push(c);
            start = self.at + 1;
            end = self.plain(start)?;
        }
    }

    /// `uXXXX`, or a pair of surrogates; leaves the offset on the last digit.
    fn unicode(&mut self) -> Result<char, Fault> {
        let start = self.at;
        let high = self.hex4()?;
        let code = if (0xd800..0xdc00).contains(&high) && self.text[self.at + 1..].starts_with(b"\\u") {
            self.at += 2;
            let low = self.hex4()?;
            if !(0xdc00..0xe000).contains(&low) {
                return Err(Fault::new(start, "expected the second half of a surrogate pair"));
            }
            0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)
        } else {
            high
        };
        char::from_u32(code)
            .ok_or_else(|| Fault::new(start, "expected a character, found half a surrogate pair"))
    }

    fn hex4(&mut self) -> Result<u32, Fault> {
        let mut code = 0;
        for _ in 0..4 {
            self.at += 1;
            let digit = self.text.get(self.at).and_then(|&b| (b as char).to_digit(16));
            code = code * 16 + digit.ok_or_else(|| self.expected("a hexadecimal digit"))?;
        }
        Ok(code)
    }

    /// Walks over one value of any kind.
    pub fn skip(&mut self) -> Result<(), Fault> {
        let (mut depth, mut objects) = (0u32, 0u128);
        'value: loop {
            match self.peek() {
                Some(bracket @ (b'[' | b'{')) => {
                    if depth == DEPTH_LIMIT {
                        return Err(Fault::new(
                            self.at,
                            format!("more than {DEPTH_LIMIT} levels of nesting"),
                        ));
                    }
                    let object = bracket == b'{';
                    self.at += 1;
                    depth += 1;
                    objects = objects << 1 | u128::from(object);
                    if self.peek() != Some(if object { b'}' } else { b']' }) {
                        if object {
                            self.skip_name()?;
                        }
                        continue 'value;
                    }
                }
                Some(b'"') => drop(self.raw_string()?),
                Some(b'-' | b'0'..=b'9') => drop(self.raw_number()?),
                _ => drop(self.scalar("a value")?),
            }
            // A value has ended (or a bracket closes): what follows belongs to the enclosing levels.
            while depth > 0 {
                let object = objects & 1 == 1;
                match self.peek() {
                    Some(b',') => {
                        self.at += 1;
                        if object {
                            self.skip_name()?;
                        }
                        continue 'value;
                    }
                    Some(b'}') if object => {}
                    Some(b']') if !object => {}
                    _ => return Err(self.expected(if object { "\",\" or \"}\"" } else { "\",\" or \"]\"" })),
                }
                self.at += 1;
                depth -= 1;
                objects >>= 1;
            }
            return Ok(());
        }
    }

    fn skip_name(&mut self) -> Result<(), Fault> {
        if self.peek() != Some(b'"') {
            return Err(self.expected("a name in double quotes"));
        }
        self.raw_string()?;
        if self.take(b':') { Ok(()) } else { Err(self.expected("\":\"")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scalar(text: &str) -> Result<Scalar<'_>, String> {
        let mut json = Json::new(text.as_bytes());
        json.scalar("a value").map_err(|fault| format!("{}: {}", fault.at, fault.message))
    }

    #[test]
    fn scalars() {
        assert_eq!(scalar(" -12 "), Ok(Scalar::Int(-12)));
        assert_eq!(scalar("9223372036854775807"), Ok(Scalar::Int(i64::MAX)));
        assert_eq!(scalar("9223372036854775808"), Ok(Scalar::Number("9223372036854775808".into())));
        assert_eq!(scalar("-9223372036854775808"), Ok(Scalar::Int(i64::MIN)));
        assert_eq!(scalar("1.5e-3,"), Ok(Scalar::Number("0.0015".into())));
        assert_eq!(scalar("1.5e1,"), Ok(Scalar::Int(15)));
        assert_eq!(scalar(r#""a\"\u00e9\ud83d\ude00\n""#), Ok(Scalar::Text("a\"é😀\n".into())));
        assert!(matches!(scalar("\"plain\""), Ok(Scalar::Text(Cow::Borrowed("plain")))));
        assert_eq!(scalar("01").unwrap_err(), "1: expected a digit, found \"1\"");
        assert_eq!(scalar("-").unwrap_err(), "1: expected a digit, found the end of the file");
        assert_eq!(scalar("tru").unwrap_err(), "3: expected a value, found the end of the file");
        assert_eq!(
            scalar("\"\\ud800\"").unwrap_err(),
            "2: expected a character, found half a surrogate pair"
        );
        let mut bad = Json::new(b"\"a\xff\"");
        assert_eq!(bad.scalar("a value").unwrap_err().at, 2);
    }

    #[test]
    fn small_integers_take_the_same_as_numbers() {
        for text in [
            "0",
            "-7",
            "-9223372036854775808",
            "123456789012345678",
            "1234567890123456789",
            "1.5",
            "1e3",
            "00",
            "-",
            "x",
            "",
        ] {
            let (mut a, mut b) = (Json::new(text.as_bytes()), Json::new(text.as_bytes()));
            if let Some(i) = a.small_int() {
                assert_eq!(b.scalar("a value"), Ok(Scalar::Int(i)), "{text}");
                assert_eq!(a.at(), b.at());
            } else {
                assert_eq!(a.at(), 0);
            }
        }
    }

    #[test]
    fn any_value_is_walked_over() {
        let text = br#"{"a": [1, {"b": []}, "x\ty"], "c": null} 7"#;
        let mut json = Json::new(text);
        assert_eq!(json.canonical().unwrap(), r#"{"a" [1 {"b" []} "x\ty"] "c" nil}"#);
        assert_eq!(json.small_int(), Some(7));
        for bad in ["[1 2]", "[1,]", "{\"a\"}", "{1:2}", "[}", "{\"a\":1,}"] {
            assert!(Json::new(bad.as_bytes()).skip().is_err(), "{bad}");
        }
    }
}
