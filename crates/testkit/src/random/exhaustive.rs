//! All histories of a tiny size, each once up to the names of keys, values and sessions.
//!
//! Registers, all transactions committed, every write of a value of its own; a read returns the initial
//! value or any write of its key, also of its own transaction. First the skeletons (who does what to which
//! key), then for each skeleton all sources of its reads. Of the histories that differ only in the order of
//! sessions of equal length, and then in the names of keys, the one with the least code is given.

use crate::plan::{Act, Plan, Step, Txn};
use anomalist_history::{History, Outcome};

/// An operation of a skeleton: a key, and whether it writes.
type Slot = (usize, bool);

/// Iterates over all histories of a tiny size; made by [`exhaustive`].
pub struct Exhaustive {
    /// Session lengths, non-increasing; all partitions of all numbers of transactions.
    partitions: Vec<Vec<usize>>,
    /// All transactions of at most so many operations.
    bodies: Vec<Vec<Slot>>,
    partition: usize,
    /// Index into `bodies` for each transaction: an odometer.
    txns: Vec<usize>,
    /// Index into the sources of each read: an odometer; empty between skeletons.
    sources: Vec<usize>,
    started: bool,
}

/// All histories of 1 to `max_txns` transactions of 1 to `max_ops` operations on at most `keys` keys.
///
/// ```
/// use anomalist_testkit::{mini::print, random::exhaustive};
/// let all: Vec<String> = exhaustive(1, 2, 1).map(|h| print(&h)).collect();
/// assert_eq!(all, ["r(x,0)", "w(x,1)", "r(x,0) r(x,0)", "r(x,0) w(x,1)", "r(x,1) w(x,1)", "w(x,1) r(x,0)",
///     "w(x,1) r(x,1)", "w(x,1) w(x,2)"]);
/// ```
pub fn exhaustive(max_txns: usize, max_ops: usize, keys: usize) -> Exhaustive {
    let slots: Vec<Slot> = (0..keys).flat_map(|key| [(key, false), (key, true)]).collect();
    let mut bodies: Vec<Vec<Slot>> = Vec::new();
    let mut longest: Vec<Vec<Slot>> = vec![Vec::new()];
    for _ in 0..max_ops {
        longest = longest
            .iter()
            .flat_map(|body| slots.iter().map(move |&slot| [body.as_slice(), &[slot]].concat()))
            .collect();
        bodies.extend(longest.iter().cloned());
    }
    let partitions: Vec<Vec<usize>> = (1..=max_txns).flat_map(|n| partitions(n, n)).collect();
    let txns = partitions.first().map_or(Vec::new(), |p| vec![0; p.iter().sum()]);
    Exhaustive { partitions, bodies, partition: 0, txns, sources: Vec::new(), started: false }
}

/// Ways to write `n` as a non-increasing sum of parts up to `largest`.
fn partitions(n: usize, largest: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for first in (1..=largest.min(n)).rev() {
        all.extend(partitions(n - first, first).into_iter().map(|rest| [vec![first], rest].concat()));
    }
    all
}

impl Iterator for Exhaustive {
    type Item = History;

    fn next(&mut self) -> Option<History> {
        if self.bodies.is_empty() {
            return None;
        }
        while self.partition < self.partitions.len() {
            if !self.started || !self.next_sources() {
                if self.started && !self.next_skeleton() {
                    return None;
                }
                self.started = true;
                self.sources = vec![0; self.ops().filter(|op| !op.1).count()];
            }
            if self.is_least() {
                return Some(self.plan().build());
            }
        }
        None
    }
}

impl Exhaustive {
    fn ops(&self) -> impl Iterator<Item = Slot> + '_ {
        self.txns.iter().flat_map(|&body| self.bodies[body].iter().copied())
    }

    /// Number of sources of each read: the initial state and the writes of its key.
    fn source_counts(&self) -> Vec<usize> {
        let writes = |key: usize| self.ops().filter(|op| *op == (key, true)).count();
        self.ops().filter(|op| !op.1).map(|(key, _)| writes(key) + 1).collect()
    }

    fn next_sources(&mut self) -> bool {
        let counts = self.source_counts();
        advance(&mut self.sources, |i| counts[i])
    }

    fn next_skeleton(&mut self) -> bool {
        let bodies = self.bodies.len();
        if advance(&mut self.txns, |_| bodies) {
            return true;
        }
        self.partition += 1;
        match self.partitions.get(self.partition) {
            Some(p) => self.txns = vec![0; p.iter().sum()],
            None => return false,
        }
        true
    }

    /// Per operation: key, and 0 for a write, or 1 + the operation read from (shifted by one: 1 is the
    /// initial state).
    fn coded(&self) -> Vec<Vec<(usize, usize)>> {
        let ops: Vec<Slot> = self.ops().collect();
        let mut reads = self.sources.iter();
        let mut coded = ops.iter().map(|&(key, write)| {
            if write {
                return (key, 0);
            }
            match reads.next() {
                Some(&source) if source > 0 => {
                    let nth = (0..ops.len()).filter(|&w| ops[w] == (key, true)).nth(source - 1);
                    (key, 2 + nth.unwrap_or(0))
                }
                _ => (key, 1),
            }
        });
        self.txns.iter().map(|&body| coded.by_ref().take(self.bodies[body].len()).collect()).collect()
    }

    /// True if no renaming of sessions and keys has a lesser code.
    fn is_least(&self) -> bool {
        let txns = self.coded();
        let lengths = &self.partitions[self.partition];
        let own = rename(&txns, &(0..txns.len()).collect::<Vec<_>>());
        if own != txns {
            return false;
        }
        let mut least = true;
        permutations(lengths.len(), &mut Vec::new(), &mut |perm| {
            if perm.iter().enumerate().all(|(i, &p)| lengths[i] == lengths[p]) {
                let order: Vec<usize> = perm
                    .iter()
                    .flat_map(|&p| {
                        let start: usize = lengths[..p].iter().sum();
                        start..start + lengths[p]
                    })
                    .collect();
                least &= rename(&txns, &order) >= txns;
            }
        });
        least
    }

    fn plan(&self) -> Plan {
        let txns = self.coded();
        // The n-th write, in the order of operations, writes n.
        let mut values = Vec::new();
        let mut next = 0;
        for &(_, source) in txns.iter().flatten() {
            next += i64::from(source == 0);
            values.push(next);
        }
        let mut op = 0;
        let mut built = txns.iter().map(|txn| {
            let steps = txn.iter().map(|&(key, source)| {
                op += 1;
                let act = match source {
                    0 => Act::Write(values[op - 1]),
                    1 => Act::Read(0),
                    from => Act::Read(values[from - 2]),
                };
                Step { key, act }
            });
            Txn { steps: steps.collect(), outcome: Outcome::Committed }
        });
        let lengths = &self.partitions[self.partition];
        Plan {
            sessions: lengths.iter().map(|&n| built.by_ref().take(n).collect()).collect(),
            ..Plan::default()
        }
    }
}

/// The code with transactions in this order and keys numbered by first use.
fn rename(txns: &[Vec<(usize, usize)>], order: &[usize]) -> Vec<Vec<(usize, usize)>> {
    let starts: Vec<usize> = (0..txns.len()).map(|t| txns[..t].iter().map(Vec::len).sum()).collect();
    // Old operations in their new order, to renumber sources.
    let moved: Vec<usize> = order.iter().flat_map(|&t| starts[t]..starts[t] + txns[t].len()).collect();
    let mut keys: Vec<usize> = Vec::new();
    let mut renamed = Vec::new();
    for &t in order {
        let mut txn = Vec::new();
        for &(key, source) in &txns[t] {
            let name = keys.iter().position(|&k| k == key).unwrap_or_else(|| {
                keys.push(key);
                keys.len() - 1
            });
            let source = match source {
                0 | 1 => source,
                from => 2 + moved.iter().position(|&op| op == from - 2).unwrap_or(0),
            };
            txn.push((name, source));
        }
        renamed.push(txn);
    }
    renamed
}

/// The next state of an odometer, last digit fastest; false (and all zero) after the last.
fn advance(digits: &mut [usize], limit: impl Fn(usize) -> usize) -> bool {
    for i in (0..digits.len()).rev() {
        digits[i] += 1;
        if digits[i] < limit(i) {
            return true;
        }
        digits[i] = 0;
    }
    false
}

fn permutations(n: usize, perm: &mut Vec<usize>, f: &mut impl FnMut(&[usize])) {
    if perm.len() == n {
        return f(perm);
    }
    for next in 0..n {
        if !perm.contains(&next) {
            perm.push(next);
            permutations(n, perm, f);
            perm.pop();
        }
    }
}
