//! Names and values of a stream, sixteen bytes each, without a table of names.
//!
//! A table that interns whatever was ever seen grows as long as the stream does. So an integer is itself, and anything else
//! is a fingerprint of 127 bits of its kind and text. Two different texts of one stream share a fingerprint with probability
//! under 2⁻⁶⁰ even after 2³² texts; nothing else about the checker is probable. Texts that reports need are kept by whoever
//! needs them: a key its name, a transaction its id.

use anomalist_history::AtomKind;

/// A value, or the name of a key, session or transaction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Key128(u64, u64);

/// What a [`Key128`] is known to hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// No value.
    Nil,
    /// An integer.
    Int(i64),
    /// Something else, known by its fingerprint.
    Text,
}

const INT: u64 = 0;
const NIL: u64 = 1;
/// Set in the first word of every fingerprint.
const TEXT: u64 = 1 << 63;

impl Key128 {
    /// No value.
    pub const NIL: Key128 = Key128(NIL, 0);

    /// An integer.
    #[inline]
    pub const fn int(value: i64) -> Key128 {
        Key128(INT, value as u64)
    }

    /// Anything else, by kind and text.
    pub fn text(kind: AtomKind, text: &str) -> Key128 {
        let kind = match kind {
            AtomKind::Text => 1,
            AtomKind::Keyword => 2,
            AtomKind::Token => 3,
            AtomKind::Compound => 4,
        };
        Key128(hash(text.as_bytes(), kind) | TEXT, hash(text.as_bytes(), kind ^ 0x5851_F42D_4C95_7F2D))
    }

    /// What it holds.
    pub fn shape(self) -> Shape {
        match self.0 {
            INT => Shape::Int(self.1 as i64),
            NIL => Shape::Nil,
            _ => Shape::Text,
        }
    }

    /// The two words, for [`Key128::from_words`].
    pub(crate) fn words(self) -> (u64, u64) {
        (self.0, self.1)
    }

    /// What [`Key128::words`] took apart; `None` if nothing has these words.
    pub(crate) fn from_words(a: u64, b: u64) -> Option<Key128> {
        (a == INT || (a == NIL && b == 0) || a & TEXT != 0).then_some(Key128(a, b))
    }
}

/// Multiply and fold, eight bytes at a time; the seed enters every step through the state.
fn hash(bytes: &[u8], seed: u64) -> u64 {
    let mut state = mix(seed ^ 0x9E37_79B9_7F4A_7C15, bytes.len() as u64);
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        state = mix(state, u64::from_le_bytes(word));
    }
    let mut word = [0; 8];
    word[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    mix(mix(state, u64::from_le_bytes(word)), seed)
}

fn mix(state: u64, word: u64) -> u64 {
    let mut x = (state ^ word).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 29)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (x ^ (x >> 32)).wrapping_add(state.rotate_left(25))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustc_hash::FxHashSet;

    #[test]
    fn different_texts_and_kinds_are_different() {
        let mut seen = FxHashSet::default();
        for kind in [AtomKind::Text, AtomKind::Keyword, AtomKind::Token, AtomKind::Compound] {
            for n in 0..5_000 {
                assert!(seen.insert(Key128::text(kind, &format!("{n}"))));
                assert!(seen.insert(Key128::text(kind, &format!("a longer text with number {n} in it"))));
            }
            assert!(seen.insert(Key128::text(kind, "")) && seen.insert(Key128::text(kind, "\0")));
        }
        assert!(seen.iter().all(|d| d.shape() == Shape::Text));
        assert_eq!(Key128::int(-3).shape(), Shape::Int(-3));
        let d = Key128::text(AtomKind::Text, "x");
        assert_eq!(Key128::from_words(d.words().0, d.words().1), Some(d));
        assert_eq!(Key128::from_words(7, 7), None);
    }
}
