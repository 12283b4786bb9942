//! A sorted sequence that is cheap to extend at the end, to cut at the front and to insert into anywhere.
//!
//! Blocks of at most [`BLOCK`] items. In order of arrival an insertion is a push; a late one moves part of
//! one block; one that is hopelessly out of order costs the same, so no arrival order makes a hot key
//! quadratic. Each block also knows two bounds of its items, so that a scan for items within such bounds
//! passes over whole blocks, and whether the lower one ascends from item to item, so that it leaves a block
//! at the first item beyond: writers of a key that follow one another start in the order of their commits.

use anomalist_history::Timestamp;
use std::cmp::Ordering;

/// Items per block: a block of reads or versions is about a page.
const BLOCK: usize = 32;

/// What a block summarises.
pub(crate) trait Bounded {
    /// What the sequence is sorted by in the first place.
    fn at(&self) -> Timestamp;
    /// A block knows the least of these.
    fn low(&self) -> Timestamp;
    /// A block knows the greatest of these.
    fn high(&self) -> u64;
}

/// Some items. The bounds stay valid, if not tight, when items leave.
#[derive(Clone, Debug)]
struct Block<T> {
    items: Vec<T>,
    /// The physical part of each item's `at`: searches read these, close together, instead of items, which
    /// are large.
    places: Vec<i64>,
    /// The first of them.
    first: i64,
    low: Timestamp,
    high: u64,
    /// Each item's `low` is at least that of the one before it.
    ascending: bool,
}

impl<T: Bounded> Block<T> {
    fn of(items: Vec<T>) -> Block<T> {
        let mut places = Vec::with_capacity(items.capacity());
        places.extend(items.iter().map(|item| item.at().physical));
        let first = places.first().copied().unwrap_or(i64::MIN);
        let low = items.iter().map(T::low).min().unwrap_or(END);
        let high = items.iter().map(T::high).max().unwrap_or(0);
        let ascending = items.is_sorted_by_key(T::low);
        Block { items, places, first, low, high, ascending }
    }

    fn insert(&mut self, at: usize, item: T) {
        let low = item.low();
        self.low = self.low.min(low);
        self.high = self.high.max(item.high());
        self.ascending = self.ascending
            && self.items.get(at).is_none_or(|after| low <= after.low())
            && at.checked_sub(1).is_none_or(|before| self.items[before].low() <= low);
        self.places.insert(at, item.at().physical);
        self.first = self.places[0];
        self.items.insert(at, item);
    }

    /// Takes out a range of items; the bounds stay.
    fn drain(&mut self, range: impl std::ops::RangeBounds<usize> + Clone) -> std::vec::Drain<'_, T> {
        self.places.drain(range.clone());
        self.first = self.places.first().copied().unwrap_or(i64::MIN);
        self.items.drain(range)
    }

    /// [`Ring::find`], in this block.
    #[inline]
    fn find(&self, at: Timestamp, before: impl FnMut(&T) -> bool) -> usize {
        let first = self.places.partition_point(|&place| place < at.physical);
        if self.places.get(first) != Some(&at.physical) {
            return first;
        }
        let same = self.places[first..].partition_point(|&place| place == at.physical);
        first + self.items[first..first + same].partition_point(before)
    }
}

/// The greatest timestamp.
pub(crate) const END: Timestamp = Timestamp { physical: i64::MAX, logical: i64::MAX };

/// A sorted sequence. Its order is the caller's: every search is by a predicate.
#[derive(Clone, Debug)]
pub(crate) struct Ring<T> {
    /// No block is empty.
    blocks: Vec<Block<T>>,
    len: usize,
}

/// A place before an item, or at the end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Cursor {
    block: usize,
    item: usize,
}

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Ring { blocks: Vec::new(), len: 0 }
    }
}

/// `partition_point`, found from the end in steps that double: that is where most arrivals belong, and what
/// the cache holds.
#[inline]
fn partition_from_end<T>(items: &[T], mut before: impl FnMut(&T) -> bool) -> usize {
    let (mut high, mut step) = (items.len(), 1);
    loop {
        let low = high.saturating_sub(step);
        if low == 0 || before(&items[low]) {
            return low + items[low..high].partition_point(before);
        }
        (high, step) = (low, 2 * step);
    }
}

impl<T: Bounded> Ring<T> {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn start(&self) -> Cursor {
        Cursor { block: 0, item: 0 }
    }

    pub fn end(&self) -> Cursor {
        Cursor { block: self.blocks.len(), item: 0 }
    }

    #[inline]
    pub fn get(&self, at: Cursor) -> Option<&T> {
        self.blocks.get(at.block)?.items.get(at.item)
    }

    #[inline]
    pub fn get_mut(&mut self, at: Cursor) -> Option<&mut T> {
        self.blocks.get_mut(at.block)?.items.get_mut(at.item)
    }

    /// The place after this one, which must not be the end.
    #[inline]
    pub fn next(&self, at: Cursor) -> Cursor {
        match self.blocks.get(at.block) {
            Some(block) if at.item + 1 < block.items.len() => Cursor { item: at.item + 1, ..at },
            _ => Cursor { block: at.block + 1, item: 0 },
        }
    }

    /// The place before this one.
    #[inline]
    pub fn prev(&self, at: Cursor) -> Option<Cursor> {
        if at.item > 0 {
            return Some(Cursor { item: at.item - 1, ..at });
        }
        let block = at.block.checked_sub(1)?;
        Some(Cursor { block, item: self.blocks[block].items.len() - 1 })
    }

    /// The first place whose item does not satisfy `before`. That must hold for items before the moment
    /// `at`, fail for items after it, and among those at it hold for a beginning.
    #[inline]
    pub fn find(&self, at: Timestamp, mut before: impl FnMut(&T) -> bool) -> Cursor {
        // Nearly everything happens in the last few blocks.
        let mut starts_before = |block: &Block<T>| match block.first.cmp(&at.physical) {
            Ordering::Less => true,
            Ordering::Equal => before(&block.items[0]),
            Ordering::Greater => false,
        };
        let after = partition_from_end(&self.blocks, &mut starts_before);
        let Some(block) = after.checked_sub(1) else { return self.start() };
        let item = self.blocks[block].find(at, before);
        if item == self.blocks[block].items.len() {
            Cursor { block: block + 1, item: 0 }
        } else {
            Cursor { block, item }
        }
    }

    /// Inserts before a place; returns where the item now is.
    pub fn insert(&mut self, at: Cursor, item: T) -> Cursor {
        self.len += 1;
        if self.blocks.is_empty() {
            self.blocks.push(Block::of(vec![item]));
            return self.start();
        }
        // The end of a block and the start of the next are the same place: the former takes it, if it
        // exists.
        let (mut block, mut index) = match at.block.checked_sub(1) {
            Some(before) if at.item == 0 => (before, self.blocks[before].items.len()),
            _ => (at.block, at.item),
        };
        if self.blocks[block].items.len() >= BLOCK {
            // The last block is cut where the item belongs, near its end as a rule: cut in half, most
            // blocks would stay half empty.
            let last = block + 1 == self.blocks.len();
            let kept = if last { index.max(BLOCK / 2) } else { BLOCK / 2 };
            let mut rest = Vec::with_capacity(BLOCK);
            rest.extend(self.blocks[block].drain(kept..));
            self.blocks.insert(block + 1, Block::of(rest));
            if index > kept || index == BLOCK {
                (block, index) = (block + 1, index - kept);
            }
        }
        self.blocks[block].insert(index, item);
        Cursor { block, item: index }
    }

    /// Visits items from a place on, in order: all with a lower bound of at most `low` and an upper one of
    /// at least `high`, and perhaps others.
    #[inline]
    pub fn scan(&self, from: Cursor, low: Timestamp, high: u64, mut visit: impl FnMut(&T)) {
        let mut skip = from.item;
        for block in self.blocks.get(from.block..).unwrap_or_default() {
            let skip = std::mem::take(&mut skip);
            if block.low > low || block.high < high {
                continue;
            }
            for item in &block.items[skip..] {
                if item.low() <= low {
                    visit(item);
                } else if block.ascending {
                    break;
                }
            }
        }
    }

    /// From the start of a block, past all blocks with upper bounds of at most `high`.
    pub fn pass(&self, mut at: Cursor, high: u64) -> Cursor {
        while at.item == 0 && self.blocks.get(at.block).is_some_and(|block| block.high <= high) {
            at.block += 1;
        }
        at
    }

    /// Takes out the items before a place.
    pub fn take_front(&mut self, end: Cursor) -> Vec<T> {
        let mut taken = Vec::new();
        for block in self.blocks.drain(..end.block.min(self.blocks.len())) {
            taken.extend(block.items);
        }
        if end.item > 0
            && let Some(block) = self.blocks.first_mut()
        {
            taken.extend(block.drain(..end.item));
            // What is left stays for long, perhaps as the only item of its key.
            block.items.shrink_to(block.items.len() * 2);
            block.places.shrink_to(block.items.len() * 2);
        }
        self.len -= taken.len();
        taken
    }

    /// Puts items, in order, before all others.
    pub fn put_front(&mut self, items: Vec<T>) {
        self.len += items.len();
        let mut blocks = Vec::with_capacity(items.len().div_ceil(BLOCK) + self.blocks.len());
        let mut items = items.into_iter().peekable();
        while items.peek().is_some() {
            blocks.push(Block::of(items.by_ref().take(BLOCK).collect()));
        }
        blocks.append(&mut self.blocks);
        self.blocks = blocks;
    }

    /// Reads a little of what an arrival will need. The result means nothing.
    ///
    /// Each step of a search waits for memory. A caller that does this for several keys, before it searches
    /// any of them, waits for all of them at the same time.
    #[inline]
    pub fn warm(&self) -> i64 {
        let Some(block) = self.blocks.last() else { return 0 };
        block.places[block.places.len() / 2] ^ block.items[block.items.len() - 1].at().logical
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.blocks.iter().flat_map(|block| &block.items)
    }

    #[cfg(test)]
    fn take(&mut self) -> Vec<T> {
        self.take_front(self.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seven items share each moment; only the predicate of `find` distinguishes them.
    fn at(item: u32) -> Timestamp {
        Timestamp { physical: i64::from(item / 21), logical: i64::from(item / 7) }
    }

    impl Bounded for u32 {
        fn at(&self) -> Timestamp {
            at(*self)
        }

        fn low(&self) -> Timestamp {
            Timestamp { physical: i64::from(self % 50), logical: 0 }
        }

        fn high(&self) -> u64 {
            u64::from(self / 2)
        }
    }

    #[test]
    fn any_order_of_insertion_gives_the_same_sequence() {
        let mut rng = fastrand::Rng::with_seed(7);
        for n in [0, 1, 5, 127, 128, 129, 1000, 3000] {
            for order in 0..4 {
                let mut items: Vec<u32> = (0..n).collect();
                match order {
                    0 => {}
                    1 => items.reverse(),
                    2 => rng.shuffle(&mut items),
                    _ => items.chunks_mut(9).for_each(|c| rng.shuffle(c)),
                }
                let mut ring = Ring::default();
                for &item in &items {
                    let place = ring.find(at(item), |&x| x < item);
                    let place = ring.insert(place, item);
                    assert_eq!(ring.get(place), Some(&item));
                }
                assert!(ring.iter().copied().eq(0..n), "{n} {order}");
                assert_eq!(ring.len(), n as usize);
                let mut place = ring.end();
                for expected in (0..n).rev() {
                    place = ring.prev(place).unwrap();
                    assert_eq!(ring.get(place), Some(&expected));
                    let next = ring.next(place);
                    assert_eq!(ring.get(next).copied(), (expected + 1 < n).then_some(expected + 1));
                }
                assert_eq!(ring.prev(place), None);
                let mut scanned = Vec::new();
                let low = Timestamp { physical: 2, logical: 0 };
                ring.scan(ring.find(at(n / 2), |&x| x < n / 2), low, u64::from(n / 3), |&x| scanned.push(x));
                scanned.retain(|x| x % 50 < 3 && x / 2 >= n / 3);
                let expected = (n / 2..n).filter(|x| x % 50 < 3 && x / 2 >= n / 3);
                assert!(scanned.into_iter().eq(expected), "{n} {order}");
                let cut = n / 3;
                let front = ring.take_front(ring.find(at(cut), |&x| x < cut));
                assert!(front.iter().copied().eq(0..cut) && ring.iter().copied().eq(cut..n));
                ring.put_front(front);
                assert!(ring.iter().copied().eq(0..n));
                assert_eq!((ring.take().len(), ring.len()), (n as usize, 0));
            }
        }
    }
}
