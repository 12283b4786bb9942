//! Numbers and names as bytes: small numbers take few.

use crate::load::ops::Columns;
use anomalist_history::{AtomKind, Value, View};

/// Appends a number, seven bits per byte, the lowest first.
#[inline]
pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The same for a number of either sign: small is what is near 0.
#[inline]
pub(crate) fn put_signed(out: &mut Vec<u8>, number: i64) {
    put_number(out, (number << 1 ^ number >> 63) as u64);
}

/// The names that are no integers in place, by the bits that stand for them.
const KINDS: [AtomKind; 4] = [AtomKind::Text, AtomKind::Keyword, AtomKind::Token, AtomKind::Compound];
const NIL: u64 = 4;
const UNKNOWN: u64 = 5;

/// Appends a name or a single value. Equal names have equal bytes.
#[inline]
pub(crate) fn put_name(out: &mut Vec<u8>, columns: &Columns, name: Value) {
    match name.view() {
        // An integer in place has 62 bits, so it still fits with a bit more.
        View::Int(i) => put_number(out, ((i << 1 ^ i >> 63) as u64) << 1),
        View::Atom(id) => {
            let (kind, text) = columns.atom_text(id);
            let kind = KINDS.iter().position(|k| *k == kind).unwrap_or(0) as u64;
            put_number(out, ((text.len() as u64) << 3 | kind) << 1 | 1);
            out.extend_from_slice(text.as_bytes());
        }
        View::Unknown => put_number(out, UNKNOWN << 1 | 1),
        View::Nil | View::List(_) => put_number(out, NIL << 1 | 1),
    }
}

/// Reads what was put; `None` where the bytes end or make no sense.
#[derive(Clone)]
pub(crate) struct Cursor<'a> {
    pub bytes: &'a [u8],
    pub at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, at: 0 }
    }

    pub fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    #[inline]
    pub fn number(&mut self) -> Option<u64> {
        let (mut number, mut shift) = (0u64, 0);
        loop {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
            shift += 7;
            if shift > 63 {
                return None;
            }
        }
    }

    #[inline]
    pub fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    pub fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(taken)
    }

    /// The bytes of a name.
    #[inline]
    pub fn name_bytes(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        let head = self.number()?;
        if head & 1 == 1 {
            let length = head >> 4;
            if (head >> 1) & 7 < NIL {
                self.take(usize::try_from(length).ok()?)?;
            }
        }
        self.bytes.get(start..self.at)
    }

    /// A name, as one of these columns.
    #[inline]
    pub fn name(&mut self, columns: &mut Columns) -> Option<Value> {
        let head = self.number()?;
        if head & 1 == 0 {
            let number = head >> 1;
            return Value::int((number >> 1) as i64 ^ -((number & 1) as i64));
        }
        match (head >> 1) & 7 {
            NIL => Some(Value::NIL),
            UNKNOWN => Some(Value::UNKNOWN),
            kind => {
                let text = self.take(usize::try_from(head >> 4).ok()?)?;
                let kind = *KINDS.get(kind as usize)?;
                Some(columns.atom(kind, std::str::from_utf8(text).ok()?))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_read() {
        let mut columns = Columns::default();
        let mut names: Vec<Value> =
            [0, 1, -1, 63, -64, 1 << 40, (1 << 61) - 1, -(1 << 61)].map(|i| columns.int(i)).to_vec();
        names.extend([columns.int(i64::MAX), columns.int(i64::MIN), Value::NIL, Value::UNKNOWN]);
        names.extend(KINDS.map(|kind| columns.atom(kind, "a b")));
        names.push(columns.atom(AtomKind::Text, ""));
        let mut bytes = Vec::new();
        names.iter().for_each(|&name| put_name(&mut bytes, &columns, name));
        let numbers = [0, 127, 128, u64::MAX];
        numbers.iter().for_each(|&n| put_number(&mut bytes, n));
        let signed = [0, -1, i64::MAX, i64::MIN];
        signed.iter().for_each(|&n| put_signed(&mut bytes, n));
        let (mut cursor, mut lengths) = (Cursor::new(&bytes), Cursor::new(&bytes));
        for name in names {
            assert_eq!(cursor.name(&mut columns), Some(name));
            assert!(lengths.name_bytes().is_some());
            assert_eq!(lengths.at, cursor.at);
        }
        assert_eq!(numbers.map(|_| cursor.number()), numbers.map(Some));
        assert_eq!(signed.map(|_| cursor.signed()), signed.map(Some));
        assert!(cursor.is_at_end());
        for cut in 0..bytes.len() {
            let mut cursor = Cursor::new(&bytes[..cut]);
            while !cursor.is_at_end() && cursor.name_bytes().is_some() {}
        }
    }
}
