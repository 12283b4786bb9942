//! Which transaction ids have been seen.
//!
//! Numbers are kept sixty-four to a word, and full words as ranges: those that a database or a harness
//! hands out one after another cost nothing, however many, and next to nothing while they arrive out of
//! order. Anything else is kept by its fingerprint. Where memory is bounded there are two generations, and
//! the older is forgotten when the younger is full; a repetition is then found if it comes within so many
//! ids.

use crate::{Key128, Shape};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// Ids seen.
#[derive(Clone, Debug)]
pub(crate) struct Ids {
    young: Generation,
    old: Generation,
    /// Entries per generation.
    limit: usize,
}

#[derive(Clone, Debug, Default)]
struct Generation {
    /// Words of which every number was seen: disjoint, not adjacent, start to end, both included.
    full: BTreeMap<i64, i64>,
    /// Other words, by what the numbers of each have in common: a bit for each number seen.
    words: FxHashMap<i64, u64>,
    others: FxHashSet<Key128>,
}

/// Ranges of numbers, and other ids.
pub(crate) type Part = (Vec<(i64, i64)>, Vec<Key128>);

/// What an entry costs, about.
pub(crate) const ENTRY: usize = 40;

impl Ids {
    pub fn new(limit: usize) -> Ids {
        Ids { young: Generation::default(), old: Generation::default(), limit: limit.max(1024) }
    }

    /// Entries in memory.
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Adds an id; false if it was there.
    pub fn insert(&mut self, id: Key128) -> bool {
        if self.old.contains(id) || !self.young.insert(id) {
            return false;
        }
        if self.young.len() >= self.limit {
            self.old = std::mem::take(&mut self.young);
        }
        true
    }

    /// Ranges of numbers, and others, older generation first.
    pub fn parts(&self) -> [Part; 2] {
        [&self.old, &self.young].map(|g| {
            let mut others: Vec<Key128> = g.others.iter().copied().collect();
            others.sort_unstable();
            (g.ranges(), others)
        })
    }

    /// Puts back what [`Ids::parts`] gave.
    pub fn restore(&mut self, parts: [Part; 2]) {
        let [old, young] = parts.map(|(ranges, others)| {
            let mut g = Generation { others: others.into_iter().collect(), ..Generation::default() };
            ranges.into_iter().for_each(|(start, end)| g.insert_range(start, end));
            g
        });
        (self.old, self.young) = (old, young);
    }
}

/// Numbers in a word.
const WORD: i64 = 64;

impl Generation {
    fn len(&self) -> usize {
        self.full.len() + self.words.len() + self.others.len()
    }

    fn is_full(&self, word: i64) -> bool {
        self.full.range(..=word).next_back().is_some_and(|(_, &end)| end >= word)
    }

    fn contains(&self, id: Key128) -> bool {
        match id.shape() {
            Shape::Int(i) => {
                let (word, bit) = (i.div_euclid(WORD), 1 << i.rem_euclid(WORD));
                self.words.get(&word).is_some_and(|bits| bits & bit != 0) || self.is_full(word)
            }
            _ => self.others.contains(&id),
        }
    }

    fn insert(&mut self, id: Key128) -> bool {
        let Shape::Int(i) = id.shape() else { return self.others.insert(id) };
        let (word, bit) = (i.div_euclid(WORD), 1 << i.rem_euclid(WORD));
        let Some(bits) = self.words.get_mut(&word) else {
            let is_new = !self.is_full(word);
            if is_new {
                self.words.insert(word, bit);
            }
            return is_new;
        };
        let is_new = *bits & bit == 0;
        *bits |= bit;
        if *bits == u64::MAX {
            self.words.remove(&word);
            self.fill(word, word);
        }
        is_new
    }

    /// All numbers of these words, none of which was full, have been seen.
    fn fill(&mut self, first: i64, last: i64) {
        let before = self.full.range(..first).next_back().map(|(&start, &end)| (start, end));
        let last = self.full.remove(&(last + 1)).unwrap_or(last);
        match before {
            Some((start, end)) if end + 1 == first => self.full.insert(start, last),
            _ => self.full.insert(first, last),
        };
    }

    /// Ranges of numbers, both ends included, in order.
    fn ranges(&self) -> Vec<(i64, i64)> {
        let of_words = |(&first, &last): (&i64, &i64)| (first * WORD, last * WORD + (WORD - 1));
        let mut ranges: Vec<(i64, i64)> = self.full.iter().map(of_words).collect();
        for (&word, &bits) in &self.words {
            let (mut bits, mut at) = (bits, word * WORD);
            while bits != 0 {
                at += i64::from(bits.trailing_zeros());
                bits >>= bits.trailing_zeros();
                let ones = bits.trailing_ones();
                ranges.push((at, at + i64::from(ones - 1)));
                // Not all are ones, or the word would be full.
                bits >>= ones;
                at = at.saturating_add(i64::from(ones));
            }
        }
        ranges.sort_unstable();
        ranges
    }

    fn insert_range(&mut self, start: i64, end: i64) {
        // Whole words at once, the ends one by one.
        let (first, last) = (start.div_euclid(WORD), end.div_euclid(WORD));
        let first_full = if start == first * WORD { first } else { first + 1 };
        let last_full = if end == last * WORD + (WORD - 1) { last } else { last - 1 };
        let mut one_by_one =
            |start: i64, end: i64| (start..=end).for_each(|i| _ = self.insert(Key128::int(i)));
        if first_full > last_full {
            return one_by_one(start, end);
        }
        if first_full > first {
            one_by_one(start, first_full * WORD - 1);
        }
        if last_full < last {
            one_by_one(last * WORD, end);
        }
        self.fill(first_full, last_full);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anomalist_history::AtomKind;

    #[test]
    fn numbers_become_ranges() {
        let mut ids = Ids::new(usize::MAX);
        let mut numbers: Vec<i64> = (0..1000).chain([i64::MAX, i64::MIN]).collect();
        fastrand::Rng::with_seed(1).shuffle(&mut numbers);
        for &n in &numbers {
            assert!(ids.insert(Key128::int(n)), "{n}");
        }
        assert!(ids.len() < 5, "{}", ids.len());
        assert!(numbers.iter().all(|&n| !ids.insert(Key128::int(n))));
        let text = Key128::text(AtomKind::Text, "5");
        assert!(ids.insert(text) && !ids.insert(text));
        let mut again = Ids::new(usize::MAX);
        again.restore(ids.parts());
        assert!(!again.insert(text) && !again.insert(Key128::int(7)) && again.insert(Key128::int(1000)));
    }

    #[test]
    fn what_was_seen_comes_back_from_its_ranges() {
        let mut rng = fastrand::Rng::with_seed(3);
        for _ in 0..500 {
            let base = rng.choice([0, -100, i64::MAX - 400, i64::MIN]).unwrap_or(0);
            let mut ids = Ids::new(usize::MAX);
            let mut seen = std::collections::BTreeSet::new();
            for _ in 0..rng.usize(0..40) {
                let start = base + rng.i64(0..300);
                for i in start..=start + rng.i64(0..100) {
                    assert_eq!(ids.insert(Key128::int(i)), seen.insert(i));
                }
            }
            let mut again = Ids::new(usize::MAX);
            again.restore(ids.parts());
            assert_eq!(again.parts(), ids.parts());
            for i in (0..=400).map(|i| base + i) {
                assert_eq!(again.insert(Key128::int(i)), seen.insert(i), "{i}");
            }
        }
    }

    #[test]
    fn bounded_memory_forgets_the_oldest() {
        let mut ids = Ids::new(0);
        for n in 0..1_000_000 {
            assert!(ids.insert(Key128::int(2 * n)));
            assert!(ids.len() <= 2048);
        }
        assert!(!ids.insert(Key128::int(2 * 999_500)) && ids.insert(Key128::int(0)));
    }
}
