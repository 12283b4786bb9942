//! Weak levels by definition: is there a commit order?
//!
//! `cm` is a total order of the existing transactions that contains `hb`, with INIT before all of them. For
//! every external read (`t3` reads `x` from `t1`) and every other `t2` that writes `x` and is visible to
//! the read: `t2 <cm t1`. On list keys, every list read is a prefix of all appends to the key in `cm`
//! order. (Biswas & Enea 2019, Def. 2.2; `docs/spec/levels.md` 1.)

use super::WeakLevel;
use super::reading::{Ambiguous, Facts, Reading};
use super::relation::{Orders, Relation};
use super::taps::repeatable;
use anomalist_history::{History, OpKind, Outcome, TxnId};

pub(super) fn satisfies(history: &History, level: WeakLevel, versions: &[(usize, usize)]) -> bool {
    let facts = Facts::new(history);
    facts.readings(Ambiguous::Enumerate).iter().any(|reading| holds(&facts, reading, level, versions))
}

fn holds(facts: &Facts<'_>, reading: &Reading, level: WeakLevel, versions: &[(usize, usize)]) -> bool {
    if level == WeakLevel::CutIsolation {
        return repeatable(reading) && facts.lists_are_versions(reading);
    }
    if reading.read_taps != [0; 6] || reading.duplicate_elements > 0 {
        return false;
    }
    if level == WeakLevel::ReadAtomic && !repeatable(reading) {
        return false;
    }
    if !lists_repeat(reading, level) {
        return false;
    }
    let orders = Orders::new(facts, reading);
    if orders.cyclic() {
        return false;
    }
    let Some(required) = required(facts, reading, &orders, level) else { return false };
    let mut before = vec![0u32; facts.txn_count()];
    for a in 0..before.len() {
        for (b, must_precede) in before.iter_mut().enumerate() {
            if orders.hb.has(a, b) || required.has(a, b) || versions.contains(&(a, b)) {
                *must_precede |= 1 << a;
            }
        }
    }
    commit_order(facts, reading, &before, &mut Vec::new())
}

/// PL-2 (`reads`) or PL-1: an order of commits that lists agree with and, for PL-2, that puts readers after
/// what they read. `None` where a level forgives a read that still says something about the order; of that
/// the verifier has its own transcription (`try_everything`).
pub(super) fn flows(history: &History, reads: bool) -> Option<bool> {
    let facts = Facts::new(history);
    let readings = facts.readings(Ambiguous::Enumerate);
    let forgives = |r: &Reading| r.read_taps[2..5] != [0; 3] || !reads && r.faulty_list;
    if readings.iter().any(|r| forgives(r) || r.duplicate_elements > 0) {
        return None;
    }
    // PL-1 allows reads of registers that aborted transactions wrote, so reads do not show that one took
    // effect.
    let open = |t: &TxnId| history.outcome(*t) == Outcome::Indeterminate;
    let writes = |t: TxnId| history.ops(t).any(|(_, o)| o.kind == OpKind::Write);
    if !reads && history.has_lists() && history.txns().filter(open).any(writes) {
        return None;
    }
    Some(readings.iter().any(|reading| {
        let mut before = vec![0u32; facts.txn_count()];
        if reads {
            if reading.read_taps != [0; 6] {
                return false;
            }
            for read in &reading.external {
                if let Some(from) = read.from {
                    before[read.reader] |= 1 << from;
                }
            }
        }
        commit_order(&facts, reading, &before, &mut Vec::new())
    }))
}

/// From read atomic on, all reads of a list by one transaction show the same appends of others: after an
/// own append a list still begins with those.
pub(super) fn lists_repeat(reading: &Reading, level: WeakLevel) -> bool {
    if !matches!(level, WeakLevel::ReadAtomic | WeakLevel::Causal) {
        return true;
    }
    reading.bodies.iter().all(|a| {
        let mut same = reading.bodies.iter().filter(|b| (b.reader, b.key) == (a.reader, a.key));
        let mut empty =
            reading.external.iter().filter(|e| (e.reader, e.key, e.from) == (a.reader, a.key, None));
        same.all(|b| a.appends == b.appends) && empty.all(|_| a.appends.is_empty())
    })
}

/// `t2 -> t1` for all pairs that the level puts in this order; `None` if it wants something before INIT.
fn required(facts: &Facts<'_>, reading: &Reading, orders: &Orders, level: WeakLevel) -> Option<Relation> {
    let mut edges = Relation::empty(facts.txn_count());
    for (t2, t1) in required_pairs(facts, reading, orders, level) {
        edges.add(t2, t1?);
    }
    Some(edges)
}

/// All `(t2, t1)` of the definition; `t1` is `None` for INIT.
pub(super) fn required_pairs(
    facts: &Facts<'_>,
    reading: &Reading,
    orders: &Orders,
    level: WeakLevel,
) -> Vec<(usize, Option<usize>)> {
    let (so, wr) = (&orders.so, &orders.wr);
    let visible = match level {
        WeakLevel::CutIsolation => Relation::empty(facts.txn_count()),
        // Depends on the position of the read, see below; nothing outside `wr` is visible.
        WeakLevel::ReadCommitted => wr.clone(),
        WeakLevel::ReadAtomic => so.union(wr),
        WeakLevel::Causal => orders.hb.clone(),
        WeakLevel::ReadYourWrites => so.clone(),
        WeakLevel::MonotonicReads => wr.then(so),
        WeakLevel::MonotonicWrites => so.then(wr),
        WeakLevel::WritesFollowReads => wr.then(so).then(wr),
    };
    let mut pairs = Vec::new();
    for read in &reading.external {
        let (t1, t3) = (read.from, read.reader);
        for t2 in (0..facts.txn_count()).filter(|&t2| visible.has(t2, t3)) {
            let seen = level != WeakLevel::ReadCommitted || read_before(reading, t3, read.op, t2);
            if seen && t2 != t3 && Some(t2) != t1 && facts.writes(t2, read.key) {
                pairs.push((t2, t1));
            }
        }
    }
    pairs
}

/// `t3` read something, of any key, from `t2` before its operation `op`.
pub(super) fn read_before(reading: &Reading, t3: usize, op: usize, t2: usize) -> bool {
    reading.external.iter().any(|e| e.reader == t3 && e.op < op && e.from == Some(t2))
}

/// Tries to complete `order`, placing a transaction only after all in `before` of it.
fn commit_order(facts: &Facts<'_>, reading: &Reading, before: &[u32], order: &mut Vec<usize>) -> bool {
    let placed = order.iter().fold(0u32, |mask, &t| mask | 1 << t);
    if placed == reading.committed {
        return agrees_with_lists(facts, reading, order);
    }
    for t in 0..before.len() {
        let candidate = (reading.committed & !placed) >> t & 1 == 1;
        if candidate && before[t] & !placed == 0 {
            order.push(t);
            if commit_order(facts, reading, before, order) {
                return true;
            }
            order.pop();
        }
    }
    false
}

/// Each list is a prefix of the appends to its key, by commit order and then program order.
fn agrees_with_lists(facts: &Facts<'_>, reading: &Reading, order: &[usize]) -> bool {
    reading.bodies.iter().all(|body| {
        let mut appends = order.iter().flat_map(|&t| {
            let on_key = move |op: &usize| {
                let op = &facts.ops[*op];
                op.txn == t && op.kind == OpKind::Append && op.key == body.key
            };
            (0..facts.ops.len()).filter(on_key)
        });
        body.appends.iter().all(|&shown| appends.next() == Some(shown))
    })
}
