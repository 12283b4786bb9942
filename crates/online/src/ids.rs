//! Which transaction ids have been seen.
//!
//! Numbers are kept as ranges: those that a database or a harness hands out one after another cost nothing, however many.
//! Anything else is kept by its fingerprint. Where memory is bounded there are two generations, and the older is forgotten
//! when the younger is full; a repetition is then found if it comes within so many ids.

use crate::{Datum, Shape};
use rustc_hash::FxHashSet;
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
    /// Disjoint, not adjacent: start to end, both included.
    ranges: BTreeMap<i64, i64>,
    others: FxHashSet<Datum>,
}

/// Ranges of numbers, and other ids.
pub(crate) type Part = (Vec<(i64, i64)>, Vec<Datum>);

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
    pub fn insert(&mut self, id: Datum) -> bool {
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
            let mut others: Vec<Datum> = g.others.iter().copied().collect();
            others.sort_unstable();
            (g.ranges.iter().map(|(&a, &b)| (a, b)).collect(), others)
        })
    }

    /// Puts back what [`Ids::parts`] gave.
    pub fn restore(&mut self, parts: [Part; 2]) {
        let [old, young] = parts.map(|(ranges, others)| Generation {
            ranges: ranges.into_iter().collect(),
            others: others.into_iter().collect(),
        });
        (self.old, self.young) = (old, young);
    }
}

impl Generation {
    fn len(&self) -> usize {
        self.ranges.len() + self.others.len()
    }

    fn contains(&self, id: Datum) -> bool {
        match id.shape() {
            Shape::Int(i) => self.ranges.range(..=i).next_back().is_some_and(|(_, &end)| end >= i),
            _ => self.others.contains(&id),
        }
    }

    fn insert(&mut self, id: Datum) -> bool {
        let Shape::Int(i) = id.shape() else { return self.others.insert(id) };
        let before = self.ranges.range(..=i).next_back().map(|(&start, &end)| (start, end));
        if before.is_some_and(|(_, end)| end >= i) {
            return false;
        }
        let after = i.checked_add(1).and_then(|next| self.ranges.remove(&next)).unwrap_or(i);
        match before {
            Some((start, end)) if end.checked_add(1) == Some(i) => self.ranges.insert(start, after),
            _ => self.ranges.insert(i, after),
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isolde_history::AtomKind;

    #[test]
    fn numbers_become_ranges() {
        let mut ids = Ids::new(usize::MAX);
        let mut numbers: Vec<i64> = (0..1000).chain([i64::MAX, i64::MIN]).collect();
        fastrand::Rng::with_seed(1).shuffle(&mut numbers);
        for &n in &numbers {
            assert!(ids.insert(Datum::int(n)), "{n}");
        }
        assert_eq!(ids.len(), 3);
        assert!(numbers.iter().all(|&n| !ids.insert(Datum::int(n))));
        let text = Datum::text(AtomKind::Text, "5");
        assert!(ids.insert(text) && !ids.insert(text));
        let mut again = Ids::new(usize::MAX);
        again.restore(ids.parts());
        assert!(!again.insert(text) && !again.insert(Datum::int(7)) && again.insert(Datum::int(1000)));
    }

    #[test]
    fn bounded_memory_forgets_the_oldest() {
        let mut ids = Ids::new(0);
        for n in 0..100_000 {
            assert!(ids.insert(Datum::int(2 * n)));
            assert!(ids.len() <= 2048);
        }
        assert!(!ids.insert(Datum::int(2 * 99_500)) && ids.insert(Datum::int(0)));
    }
}
