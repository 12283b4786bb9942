//! Variables by how much they took part in recent conflicts (VSIDS): a binary heap that can be bumped.

/// A heap of variables, the most active first.
#[derive(Default)]
pub(crate) struct Heap {
    activity: Vec<f64>,
    heap: Vec<u32>,
    /// Place in the heap, or `OUT`.
    place: Vec<u32>,
    step: f64,
}

const OUT: u32 = u32::MAX;
const DECAY: f64 = 0.95;
const LARGE: f64 = 1e100;

impl Heap {
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
        if self.place[var] == OUT {
            self.place[var] = self.heap.len() as u32;
            self.heap.push(var as u32);
            self.up(self.heap.len() - 1);
        }
    }

    pub fn pop(&mut self) -> Option<usize> {
        let top = *self.heap.first()? as usize;
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
        if self.place[var] != OUT {
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
