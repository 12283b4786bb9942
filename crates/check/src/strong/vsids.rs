//! Variables by how much they took part in recent conflicts (VSIDS): a binary heap that can be bumped.
//!
//! Most variables never take part in a conflict. These stay out of the heap, in a set from which the newest
//! is taken once the heap is empty: the order is the same, and adding or taking one costs a constant
//! instead of a logarithm.

/// A queue of variables, the most active first.
#[derive(Default)]
pub(crate) struct Vsids {
    activity: Vec<f64>,
    heap: Vec<u32>,
    /// Place in the heap, or `OUT`.
    place: Vec<u32>,
    /// The variables without activity that are in the queue.
    quiet: Bits,
    step: f64,
}

const OUT: u32 = u32::MAX;
const DECAY: f64 = 0.95;
const LARGE: f64 = 1e100;

impl Vsids {
    /// A new variable; they are numbered from 0.
    pub fn add(&mut self, var: usize) {
        if self.step == 0.0 {
            self.step = 1.0;
        }
        self.activity.push(0.0);
        self.place.push(OUT);
        self.insert(var);
    }

    pub fn insert(&mut self, var: usize) {
        if self.activity[var] == 0.0 {
            self.quiet.insert(var);
        } else if self.place[var] == OUT {
            self.place[var] = self.heap.len() as u32;
            self.heap.push(var as u32);
            self.up(self.heap.len() - 1);
        }
    }

    pub fn pop(&mut self) -> Option<usize> {
        let Some(&top) = self.heap.first() else { return self.quiet.pop() };
        let top = top as usize;
        self.place[top] = OUT;
        let last = self.heap.pop()?;
        if let Some(first) = self.heap.first_mut() {
            *first = last;
            self.place[last as usize] = 0;
            self.down(0);
        }
        Some(top)
    }

    pub fn bump(&mut self, var: usize) {
        self.activity[var] += self.step;
        if self.activity[var] > LARGE {
            self.activity.iter_mut().for_each(|a| *a /= LARGE);
            self.step /= LARGE;
        }
        if self.quiet.remove(var) {
            self.insert(var);
        } else if self.place[var] != OUT {
            self.up(self.place[var] as usize);
        }
    }

    pub fn decay(&mut self) {
        self.step /= DECAY;
    }

    fn more(&self, a: u32, b: u32) -> bool {
        let (x, y) = (self.activity[a as usize], self.activity[b as usize]);
        // Newest first among equals: what was asked for last is what the current order gets wrong.
        x > y || x == y && a > b
    }

    fn up(&mut self, mut at: usize) {
        while at > 0 {
            let parent = (at - 1) / 2;
            if !self.more(self.heap[at], self.heap[parent]) {
                break;
            }
            self.swap(at, parent);
            at = parent;
        }
    }

    fn down(&mut self, mut at: usize) {
        loop {
            let mut best = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && self.more(self.heap[child], self.heap[best]) {
                    best = child;
                }
            }
            if best == at {
                return;
            }
            self.swap(at, best);
            at = best;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.place[self.heap[a] as usize] = a as u32;
        self.place[self.heap[b] as usize] = b as u32;
    }
}

/// A set of numbers that gives up its largest.
#[derive(Default)]
struct Bits {
    words: Vec<u64>,
    /// No word at or above this one has a member.
    end: usize,
}

impl Bits {
    fn insert(&mut self, number: usize) {
        let word = number / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (number % 64);
        self.end = self.end.max(word + 1);
    }

    /// Whether it was a member.
    fn remove(&mut self, number: usize) -> bool {
        let bit = 1 << (number % 64);
        let Some(word) = self.words.get_mut(number / 64) else { return false };
        let member = *word & bit != 0;
        *word &= !bit;
        member
    }

    fn pop(&mut self) -> Option<usize> {
        while self.end > 0 {
            let word = &mut self.words[self.end - 1];
            if let Some(bit) = word.checked_ilog2() {
                *word &= !(1 << bit);
                return Some((self.end - 1) * 64 + bit as usize);
            }
            self.end -= 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::Vsids;

    #[test]
    fn the_most_active_come_first_then_the_newest() {
        let mut heap = Vsids::default();
        (0..200).for_each(|var| heap.add(var));
        heap.bump(3);
        heap.bump(150);
        heap.bump(150);
        assert_eq!(
            [heap.pop(), heap.pop(), heap.pop(), heap.pop()],
            [Some(150), Some(3), Some(199), Some(198)]
        );
        // Bumped while it is out of the queue: it comes back by its activity.
        heap.bump(199);
        heap.insert(198);
        heap.insert(199);
        assert_eq!([heap.pop(), heap.pop(), heap.pop()], [Some(199), Some(198), Some(197)]);
        assert_eq!(std::iter::from_fn(|| heap.pop()).count(), 195);
    }
}
