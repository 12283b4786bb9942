//! A sorted sequence that is cheap to extend at the end, to cut at the front and to insert into anywhere.
//!
//! Blocks of at most [`BLOCK`] items. In order of arrival an insertion is a push; a late one moves part of one block; one
//! that is hopelessly out of order costs the same, so no arrival order makes a hot key quadratic. Each block also knows two
//! bounds of its items, so that a scan for items within such bounds passes over whole blocks.

use isolde_history::Timestamp;

/// Items per block: a block of reads or versions is a few pages.
const BLOCK: usize = 128;

/// What a block summarises.
pub(crate) trait Bounded {
    /// A block knows the least of these.
    fn low(&self) -> Timestamp;
    /// A block knows the greatest of these.
    fn high(&self) -> u64;
}

/// Some items. The bounds stay valid, if not tight, when items leave.
#[derive(Clone, Debug)]
struct Block<T> {
    items: Vec<T>,
    low: Timestamp,
    high: u64,
}

impl<T: Bounded> Block<T> {
    fn of(items: Vec<T>) -> Block<T> {
        let low = items.iter().map(T::low).min().unwrap_or(END);
        let high = items.iter().map(T::high).max().unwrap_or(0);
        Block { items, low, high }
    }
}

/// The greatest timestamp.
const END: Timestamp = Timestamp { physical: i64::MAX, logical: i64::MAX };

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

/// `partition_point`, found from the end in steps that double: that is where most arrivals belong, and what the cache holds.
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

    /// The first place whose item does not satisfy `before`, which holds for a beginning of the sequence.
    #[inline]
    pub fn partition_point(&self, mut before: impl FnMut(&T) -> bool) -> Cursor {
        let Some(last) = self.blocks.last() else { return self.end() };
        // Nearly everything happens in the last block.
        let block = if before(&last.items[0]) {
            self.blocks.len() - 1
        } else {
            match self.blocks.partition_point(|block| before(&block.items[0])).checked_sub(1) {
                Some(block) => block,
                None => return self.start(),
            }
        };
        let item = partition_from_end(&self.blocks[block].items, before);
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
        // The end of a block and the start of the next are the same place: the former takes it, if it exists.
        let (mut block, mut index) = match at.block.checked_sub(1) {
            Some(before) if at.item == 0 => (before, self.blocks[before].items.len()),
            _ => (at.block, at.item),
        };
        if self.blocks[block].items.len() >= BLOCK {
            // At the end a new block begins; elsewhere one is split.
            let last = index == BLOCK && block + 1 == self.blocks.len();
            let kept = if last { BLOCK } else { BLOCK / 2 };
            let mut rest = Vec::with_capacity(BLOCK);
            rest.extend(self.blocks[block].items.drain(kept..));
            self.blocks.insert(block + 1, Block::of(rest));
            if index > kept || last {
                (block, index) = (block + 1, index - kept);
            }
        }
        let target = &mut self.blocks[block];
        target.low = target.low.min(item.low());
        target.high = target.high.max(item.high());
        target.items.insert(index, item);
        Cursor { block, item: index }
    }

    /// Items from a place on, in order, passing over blocks whose bounds do not satisfy `may_matter`.
    pub fn scan(
        &self,
        from: Cursor,
        may_matter: impl Fn(Timestamp, u64) -> bool,
    ) -> impl Iterator<Item = &T> {
        let blocks = self.blocks.get(from.block..).unwrap_or_default();
        blocks.iter().enumerate().filter(move |(_, block)| may_matter(block.low, block.high)).flat_map(
            move |(i, block)| {
                let skip = if i == 0 { from.item } else { 0 };
                &block.items[skip..]
            },
        )
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
            taken.extend(block.items.drain(..end.item));
            // What is left stays for long, perhaps as the only item of its key.
            block.items.shrink_to(block.items.len() * 2);
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

    impl Bounded for u32 {
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
                    let at = ring.partition_point(|&x| x < item);
                    let at = ring.insert(at, item);
                    assert_eq!(ring.get(at), Some(&item));
                }
                assert!(ring.iter().copied().eq(0..n), "{n} {order}");
                assert_eq!(ring.len(), n as usize);
                let mut at = ring.end();
                for expected in (0..n).rev() {
                    at = ring.prev(at).unwrap();
                    assert_eq!(ring.get(at), Some(&expected));
                    let next = ring.next(at);
                    assert_eq!(ring.get(next).copied(), (expected + 1 < n).then_some(expected + 1));
                }
                assert_eq!(ring.prev(at), None);
                let scanned: Vec<u32> = ring
                    .scan(ring.partition_point(|&x| x < n / 2), |low, high| {
                        low.physical < 3 && high >= u64::from(n / 3)
                    })
                    .copied()
                    .filter(|x| x % 50 < 3 && x / 2 >= n / 3)
                    .collect();
                let expected = (n / 2..n).filter(|x| x % 50 < 3 && x / 2 >= n / 3);
                assert!(scanned.into_iter().eq(expected), "{n} {order}");
                let cut = n / 3;
                let front = ring.take_front(ring.partition_point(|&x| x < cut));
                assert!(front.iter().copied().eq(0..cut) && ring.iter().copied().eq(cut..n));
                ring.put_front(front);
                assert!(ring.iter().copied().eq(0..n));
                assert_eq!((ring.take().len(), ring.len()), (n as usize, 0));
            }
        }
    }
}
