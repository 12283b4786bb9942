//! Names of what is in the store's map, roughly: a Bloom filter with two probes.
//!
//! Most names that are new to memory are new altogether. Asking the store about each would be most of the
//! work when keys or sessions are many.

use crate::Key128;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// A set that may have more than was put in.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    /// A power of two of them; none until something is added.
    words: Vec<u64>,
    count: usize,
}

/// What a name is of.
#[derive(Clone, Copy, Hash)]
pub(crate) enum Of {
    Key,
    Session,
}

impl Filter {
    /// A filter for a checker with so much memory.
    pub fn new(memory: usize) -> Filter {
        Filter {
            words: Vec::new(),
            count: (memory / 64 / size_of::<u64>()).clamp(1 << 10, 1 << 21).next_power_of_two(),
        }
    }

    /// Two bits, each as a word and a bit in it.
    fn bits(&self, of: Of, name: Key128) -> [(usize, u64); 2] {
        let mut hasher = FxHasher::default();
        (of, name).hash(&mut hasher);
        let hash = hasher.finish();
        let mixed = (hash ^ hash >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        [mixed >> 32, mixed & 0xffff_ffff]
            .map(|part| ((part >> 6) as usize & (self.count - 1), 1 << (part & 63)))
    }

    pub fn add(&mut self, of: Of, name: Key128) {
        if self.words.is_empty() {
            self.words = vec![0; self.count];
        }
        for (word, bit) in self.bits(of, name) {
            self.words[word] |= bit;
        }
    }

    /// False if it was certainly not added.
    pub fn may_have(&self, of: Of, name: Key128) -> bool {
        !self.words.is_empty()
            && self.bits(of, name).into_iter().all(|(word, bit)| self.words[word] & bit != 0)
    }

    /// In bytes.
    pub fn memory(&self) -> usize {
        size_of_val::<[u64]>(&self.words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_there_and_little_else() {
        let mut filter = Filter::new(50 << 20);
        assert!(!filter.may_have(Of::Key, Key128::int(1)));
        (0..200_000).for_each(|n| filter.add(Of::Key, Key128::int(n)));
        assert!((0..200_000).all(|n| filter.may_have(Of::Key, Key128::int(n))));
        let wrong =
            |of, from: i64| (from..from + 100_000).filter(|&n| filter.may_have(of, Key128::int(n))).count();
        assert!(wrong(Of::Key, 200_000) < 5_000 && wrong(Of::Session, 0) < 5_000);
    }
}
