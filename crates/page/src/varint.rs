//! Numbers in as few bytes as they need: seven bits per byte, the lowest first, as in Protocol Buffers.
//!
//! The page reads them into doubles, so a number is below 2^53; larger ones are written as text.

/// The first number that the page could not represent.
pub(crate) const LIMIT: u64 = 1 << 53;

/// A column of numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Column {
    pub bytes: Vec<u8>,
}

impl Column {
    /// Appends a number.
    pub fn push(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.bytes.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.bytes.push(n as u8);
    }

    /// Appends a number that may be negative: the sign is the lowest bit.
    pub fn push_signed(&mut self, n: i64) {
        self.push(zigzag(n));
    }

    /// Appends a text: its length in bytes, and UTF-8.
    pub fn push_text(&mut self, text: &str) {
        self.push(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }
}

/// 0, -1, 1, -2 … as 0, 1, 2, 3 …
pub(crate) fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_as_many_bytes_as_they_need() {
        let mut column = Column::default();
        column.push(0);
        column.push(127);
        column.push(128);
        column.push(300);
        column.push_signed(-1);
        column.push_text("é");
        assert_eq!(column.bytes, [0, 127, 0x80, 1, 0xac, 2, 1, 2, 0xc3, 0xa9]);
    }
}
