//! Names and values of a stream, sixteen bytes each, without a table of names.
//!
//! A table that interns whatever was ever seen grows as long as the stream does. So an integer is itself, a
//! text of at most 15 bytes is itself with its kind, and a longer one is a fingerprint of 126 bits of its
//! kind and text: SipHash-2-4-128 of the crate `siphasher` (Aumasson and Bernstein, SipHash: a fast
//! short-input PRF,
//! 2012). By the birthday bound two of n different long texts share a fingerprint with probability at most
//! n²/2¹²⁷, 2⁻⁶³ after 2³² texts; nothing else about the checker is probable. The key is fixed, so that
//! checkpoints are read again by any process and the same stream gives the same report: the bound is one
//! for texts that were not chosen to collide.
//!
//! Reports keep the texts they need: a key its name, a transaction its id.

use anomalist_history::AtomKind;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher;

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
    /// Something else: a short text, or the fingerprint of a longer one.
    Text,
}

const INT: u64 = 0;
const NIL: u64 = 1;
/// Set in the first word of everything else.
const TEXT: u64 = 1 << 63;
/// Set in the first word of a text that is held itself. The six bits after it are its kind and its length.
const SHORT: u64 = 1 << 62;
/// The longest of these, in bytes.
const LONGEST: usize = 15;

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
            AtomKind::Text => 0,
            AtomKind::Keyword => 1,
            AtomKind::Token => 2,
            AtomKind::Compound => 3,
        };
        if text.len() <= LONGEST {
            Key128::short(kind, text.as_bytes())
        } else {
            Key128::long(kind, text.as_bytes())
        }
    }

    fn short(kind: u8, text: &[u8]) -> Key128 {
        let mut bytes = [0; 16];
        bytes[0] = kind << 4 | text.len() as u8;
        bytes[1..=text.len()].copy_from_slice(text);
        let both = u128::from_be_bytes(bytes);
        Key128((both >> 64) as u64 | TEXT | SHORT, both as u64)
    }

    fn long(kind: u8, text: &[u8]) -> Key128 {
        let mut hasher = SipHasher24::new_with_keys(0x616e_6f6d_616c_6973, 0x7420_6f6e_6c69_6e65);
        hasher.write(&[kind]);
        hasher.write(text);
        let found = hasher.finish128();
        Key128((found.h1 | TEXT) & !SHORT, found.h2)
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
            // Around the longest that is held itself, and texts that differ in their ends only.
            for length in 12..20 {
                assert!(seen.insert(Key128::text(kind, &"x".repeat(length))));
                assert!(seen.insert(Key128::text(kind, &("x".repeat(length) + "\0"))));
            }
        }
        assert!(seen.iter().all(|d| d.shape() == Shape::Text));
        assert_eq!(Key128::int(-3).shape(), Shape::Int(-3));
        for text in ["x", "fifteen letters", "sixteen letters!"] {
            let d = Key128::text(AtomKind::Text, text);
            assert_eq!(Key128::from_words(d.words().0, d.words().1), Some(d));
        }
        assert_eq!(Key128::from_words(7, 7), None);
    }

    /// Checkpoints hold these words: another hash, key or layout needs another version of them.
    #[test]
    fn words_stay_what_they_are() {
        let words = |text| Key128::text(AtomKind::Text, text).words();
        assert_eq!(words("ab"), (0xC261_6200_0000_0000, 0));
        assert_eq!(
            words("a text of more than fifteen bytes"),
            (0xB909_A71E_929C_A47D, 0xE25F_9CC5_92CF_08A8)
        );
    }
}
