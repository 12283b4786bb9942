//! Phenomena of single operations, by definition (Adya 1999, 4.2.2 and 4.4): G-monotonic, G-MSR, G-cursor.
//!
//! The transactions' operations stand in one line, those of a transaction together and in program order.

use crate::oracle::relation::Relation;

/// A phenomenon that tells the operations of a transaction apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operational {
    /// A read misses the write of a transaction on which an operation not after it depends, directly or
    /// through others.
    Monotonic,
    /// No order of operations and commits has every operation after the commits it depends on and before
    /// those it misses.
    Snapshots,
    /// A transaction missed a version of a key that comes before its own version of that key.
    Cursor,
}

/// The dependencies of operations in one interpretation.
pub(super) struct Unfolded {
    owner: Vec<usize>,
    n: usize,
    /// That an operation depends on another transaction.
    depends: Vec<(usize, usize)>,
    /// That a read does not see what these transactions wrote, in version order.
    misses: Vec<(usize, Vec<usize>)>,
}

impl Unfolded {
    pub fn new(owner: Vec<usize>, n: usize) -> Unfolded {
        Unfolded { owner, n, depends: Vec::new(), misses: Vec::new() }
    }

    pub fn depends(&mut self, on: usize, op: usize) {
        if self.owner[op] != on {
            self.depends.push((on, op));
        }
    }

    pub fn misses(&mut self, read: usize, later: impl Iterator<Item = usize>) {
        self.misses.push((read, later.collect()));
    }

    pub fn has(&self, phenomenon: Operational) -> bool {
        match phenomenon {
            Operational::Monotonic => self.is_monotonic_broken(),
            Operational::Snapshots => self.is_unordered(),
            Operational::Cursor => self.misses.iter().any(|(read, later)| {
                // Its own version, after another transaction's.
                later.iter().position(|&t| t == self.owner[*read]).is_some_and(|at| at > 0)
            }),
        }
    }

    fn is_monotonic_broken(&self) -> bool {
        let mut flow = Relation::empty(self.n);
        self.depends.iter().for_each(|&(on, op)| flow.add(on, self.owner[op]));
        let flow = flow.closure();
        self.misses.iter().any(|(read, later)| {
            let reader = self.owner[*read];
            later.iter().filter(|&&t| t != reader).any(|&missed| {
                self.depends.iter().any(|&(on, op)| {
                    self.owner[op] == reader && op <= *read && (on == missed || flow.has(missed, on))
                })
            })
        })
    }

    fn is_unordered(&self) -> bool {
        let ops = self.owner.len();
        let commit = |t: usize| ops + t;
        let mut before = Relation::empty(ops + self.n);
        for op in 0..ops {
            before.add(op, commit(self.owner[op]));
            (op + 1..ops)
                .filter(|&next| self.owner[next] == self.owner[op])
                .for_each(|next| before.add(op, next));
        }
        self.depends.iter().for_each(|&(on, op)| before.add(commit(on), op));
        for (read, later) in &self.misses {
            let others = later.iter().filter(|&&t| t != self.owner[*read]);
            others.for_each(|&missed| before.add(*read, commit(missed)));
        }
        let closure = before.closure();
        (0..ops + self.n).any(|node| closure.has(node, node))
    }
}
