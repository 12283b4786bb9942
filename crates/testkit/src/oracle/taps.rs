//! The 14 transactional anomalous patterns of Plume (Liu et al. 2024, Table 1), counted by trying every
//! tuple.
//!
//! What is one instance, and under which letter it is filed, is `docs/spec/anomalies.md` 2.

use super::levels::{read_before, required_pairs};
use super::reading::{Ambiguous, External, Facts, Reading};
use super::relation::{Orders, Relation};
use super::{RepeatedRead, TapCounts, WeakLevel};
use anomalist_history::{History, OpKind};

const G: usize = 6;
const J: usize = 9;

pub(super) fn taps(history: &History, repeated: RepeatedRead) -> TapCounts {
    let facts = Facts::new(history);
    let mut counts = [0u64; 14];
    // Skipping ambiguous reads leaves exactly one reading.
    for reading in facts.readings(Ambiguous::Skip) {
        let orders = Orders::new(&facts, &reading);
        counts[..6].copy_from_slice(&reading.read_taps);
        counts[G] = cycles(&orders.hb);
        counts[J] = reading.external.iter().filter(|read| unrepeatable(&reading, read)).count() as u64;
        let graphs = Graphs {
            rc: graph(&facts, &reading, &orders, WeakLevel::ReadCommitted),
            ra: graph(&facts, &reading, &orders, WeakLevel::ReadAtomic),
            cc: graph(&facts, &reading, &orders, WeakLevel::Causal),
        };
        for read in &reading.external {
            for t2 in (0..facts.txn_count()).filter(|&t2| reading.committed >> t2 & 1 == 1) {
                if t2 != read.reader && Some(t2) != read.from && facts.writes(t2, read.key) {
                    let filed = file(&reading, &orders, &graphs, read, t2, repeated);
                    if let Some(letter) = filed {
                        counts[usize::from(letter - b'a')] += 1;
                    }
                }
            }
        }
    }
    TapCounts(counts)
}

/// Number of strongly connected components of two or more transactions, given a closure.
fn cycles(closure: &Relation) -> u64 {
    let n = closure.rows.len();
    let together = |a: usize, b: usize| closure.has(a, b) && closure.has(b, a);
    (0..n).filter(|&a| together(a, a) && !(0..a).any(|b| together(a, b))).count() as u64
}

/// TAP-j: its writer differs from that of the transaction's first external read of the key.
fn unrepeatable(reading: &Reading, read: &External) -> bool {
    let first = reading.external.iter().find(|e| e.reader == read.reader && e.key == read.key);
    first.is_some_and(|first| first.from != read.from)
}

/// No TAP-j.
pub(super) fn repeatable(reading: &Reading) -> bool {
    !reading.external.iter().any(|read| unrepeatable(reading, read))
}

/// Closures of `G_L = hb ∪ required_L ∪ version order`.
struct Graphs {
    rc: Relation,
    ra: Relation,
    cc: Relation,
}

fn graph(facts: &Facts<'_>, reading: &Reading, orders: &Orders, level: WeakLevel) -> Relation {
    let mut g = orders.hb.union(&version_order(facts, reading));
    for (t2, t1) in required_pairs(facts, reading, orders, level) {
        // An edge into INIT closes a cycle with everything; `file` knows, so it needs no node.
        if let Some(t1) = t1 {
            g.add(t2, t1);
        }
    }
    g.closure()
}

/// What list reads say about the order of writers: neighbours in the list, and its last element before all
/// it lacks.
fn version_order(facts: &Facts<'_>, reading: &Reading) -> Relation {
    let mut order = Relation::empty(facts.txn_count());
    let mut add = |a: usize, b: usize| {
        let (a, b) = (facts.ops[a].txn, facts.ops[b].txn);
        if a != b {
            order.add(a, b);
        }
    };
    for body in &reading.bodies {
        body.appends.windows(2).for_each(|pair| add(pair[0], pair[1]));
        let Some(&last) = body.appends.last() else { continue };
        for (i, op) in facts.ops.iter().enumerate() {
            let exists = reading.committed >> op.txn & 1 == 1;
            if op.kind == OpKind::Append && op.key == body.key && exists && !body.appends.contains(&i) {
                add(last, i);
            }
        }
    }
    order
}

/// Under which of h, i, k, l, m, n the pair (read, `t2`) is filed: the first that fits.
fn file(
    reading: &Reading,
    orders: &Orders,
    graphs: &Graphs,
    read: &External,
    t2: usize,
    repeated: RepeatedRead,
) -> Option<u8> {
    let t3 = read.reader;
    // INIT happens before everything, and is in one cycle with whatever is required to precede it.
    let t1_hb_t2 = read.from.is_none_or(|t1| orders.hb.has(t1, t2));
    let cycle = |g: &Relation| read.from.is_none_or(|t1| g.has(t1, t2) && g.has(t2, t1));
    let reads_x_from_t2 =
        reading.external.iter().any(|e| e.reader == t3 && e.key == read.key && e.from == Some(t2));
    if reads_x_from_t2 && repeated == RepeatedRead::OnlyJ {
        return None;
    }
    if read_before(reading, t3, read.op, t2) {
        if t1_hb_t2 {
            return Some(b'h');
        }
        if cycle(&graphs.rc) {
            return Some(b'i');
        }
    }
    if reads_x_from_t2 {
        return None;
    }
    if orders.wr.has(t2, t3) || orders.so.has(t2, t3) {
        if t1_hb_t2 {
            return Some(b'k');
        }
        if cycle(&graphs.ra) {
            return Some(b'l');
        }
    }
    if orders.hb.has(t2, t3) {
        if t1_hb_t2 {
            return Some(b'm');
        }
        if cycle(&graphs.cc) {
            return Some(b'n');
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::levels::lists_repeat;
    use super::*;
    use crate::mini::print;
    use crate::oracle::satisfies;
    use crate::random::{Reference, Shape, mutated, tiny};
    use fastrand::Rng;

    /// True if each list shows, of every writer, the first so many appends: none skipped, none out of order.
    fn unskipped(facts: &Facts<'_>, reading: &Reading) -> bool {
        reading.bodies.iter().all(|body| {
            body.appends.iter().enumerate().all(|(i, &shown)| {
                let earlier = (0..shown).filter(|&op| {
                    let (op, shown) = (&facts.ops[op], &facts.ops[shown]);
                    op.kind == OpKind::Append && op.txn == shown.txn && op.key == body.key
                });
                earlier.into_iter().all(|op| body.appends[..i].contains(&op))
            })
        })
    }

    /// The cycle test of `docs/spec/algorithms.md` 2.4.
    fn decided_by_cycles(facts: &Facts<'_>, reading: &Reading, level: WeakLevel) -> bool {
        let orders = Orders::new(facts, reading);
        let closure = graph(facts, reading, &orders, level);
        reading.read_taps == [0; 6]
            && reading.duplicate_elements == 0
            && (level != WeakLevel::ReadAtomic || repeatable(reading))
            && lists_repeat(reading, level)
            && unskipped(facts, reading)
            && required_pairs(facts, reading, &orders, level).iter().all(|(_, t1)| t1.is_some())
            && cycles(&closure) == 0
    }

    #[test]
    fn on_lists_too_a_level_is_the_absence_of_cycles() {
        let shapes = [
            Shape::lists(),
            Shape { lists: 1.0, ..Shape::faulty() },
            Shape { ops: 2..=5, keys: 1..=2, lists: 1.0, faulty: 0.1, ..Shape::default() },
            Shape::anything(),
        ];
        for seed in 0..5_000 {
            let mut rng = Rng::with_seed(seed);
            let mut histories: Vec<History> = shapes.iter().map(|shape| tiny(&mut rng, shape)).collect();
            histories.push(mutated(&mut rng, Reference::Serial, &Shape::lists()));
            for history in histories {
                let facts = Facts::new(&history);
                let readings = facts.readings(Ambiguous::Skip);
                for level in WeakLevel::ALL.into_iter().filter(|&l| l != WeakLevel::CutIsolation) {
                    let by_cycles = decided_by_cycles(&facts, &readings[0], level);
                    let text = || format!("{level:?}, seed {seed}: {}", print(&history));
                    assert_eq!(by_cycles, satisfies(&history, level), "{}", text());
                }
            }
        }
    }
}
