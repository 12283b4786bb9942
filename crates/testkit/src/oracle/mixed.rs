//! Mixed levels by definition: is there one commit order in which every transaction's own axiom holds?
//!
//! Every order is tried, and visibility is what Biswas & Enea (2019) write for each level, with the order
//! in it where theirs has it. `so` into a transaction counts if its level has session order, `wr` unless it
//! is read uncommitted.

use super::reading::{Ambiguous, Facts, Reading};
use super::relation::{Orders, Relation};
use anomalist_history::{History, OpKind};
use anomalist_level::Level;

/// True if one order suits everybody; `levels` has the level of each transaction.
pub(super) fn satisfies(history: &History, levels: &[Level]) -> bool {
    let facts = Facts::new(history);
    facts.readings(Ambiguous::Enumerate).iter().any(|reading| {
        let game = Game { facts: &facts, reading, orders: Orders::new(&facts, reading), levels };
        let mut txns: Vec<usize> = (0..levels.len()).filter(|&t| reading.committed >> t & 1 == 1).collect();
        game.reads_are_sound() && game.some_order(&mut txns, 0)
    })
}

struct Game<'a> {
    facts: &'a Facts<'a>,
    reading: &'a Reading,
    orders: Orders,
    levels: &'a [Level],
}

impl Game<'_> {
    /// A faulty read is its transaction's fault, unless that promised nothing about it. PL-2 does not
    /// promise that own writes are read (TAP-d and TAP-e).
    fn reads_are_sound(&self) -> bool {
        self.reading.faulty.iter().all(|&(t, tap)| match self.levels[t] {
            Level::ReadUncommitted | Level::CutIsolation => true,
            Level::AdyaReadCommitted => matches!(tap, Some(3..=4)),
            _ => false,
        })
    }

    fn some_order(&self, txns: &mut Vec<usize>, from: usize) -> bool {
        if from == txns.len() {
            return self.suits(txns);
        }
        for i in from..txns.len() {
            txns.swap(from, i);
            if self.some_order(txns, from + 1) {
                return true;
            }
            txns.swap(from, i);
        }
        false
    }

    fn suits(&self, order: &[usize]) -> bool {
        let mut cm = Relation::empty(self.levels.len());
        for (i, &a) in order.iter().enumerate() {
            order[i + 1..].iter().for_each(|&b| cm.add(a, b));
        }
        self.lists_agree(order) && order.iter().all(|&t| self.suits_one(t, order, &cm))
    }

    fn lists_agree(&self, order: &[usize]) -> bool {
        self.reading.bodies.iter().all(|body| {
            let mut appends = order.iter().flat_map(|&t| {
                (0..self.facts.ops.len()).filter(move |&op| {
                    let op = &self.facts.ops[op];
                    op.txn == t && op.kind == OpKind::Append && op.key == body.key
                })
            });
            body.appends.iter().all(|&shown| appends.next() == Some(shown))
        })
    }

    fn suits_one(&self, t: usize, order: &[usize], cm: &Relation) -> bool {
        let level = self.levels[t];
        if level == Level::ReadUncommitted {
            return true;
        }
        let so =
            |a: usize, b: usize| self.levels[b].info().session_order && self.facts.same_session_before(a, b);
        let earlier = order.iter().filter(|&&a| so(a, t));
        let timed = order
            .iter()
            .filter(|&&a| level.info().real_time && a != t && self.facts.ended_before(a, t) == Some(true));
        let known: Vec<usize> = earlier.chain(timed).copied().collect();
        if known.iter().any(|&a| !cm.has(a, t)) {
            return false;
        }
        let reads: Vec<_> = self.reading.external.iter().filter(|e| e.reader == t).collect();
        if level == Level::CutIsolation || level == Level::ReadAtomic {
            let twice = |a: usize| reads.iter().any(|b| b.key == reads[a].key && b.from != reads[a].from);
            if (0..reads.len()).any(twice) {
                return false;
            }
        }
        if level == Level::CutIsolation {
            return true;
        }
        if reads.iter().any(|e| e.from.is_some_and(|w| !cm.has(w, t))) {
            return false;
        }
        let up_to = |a: usize, b: usize| a == b || cm.has(a, b);
        let prefix = |t2: usize| {
            known.iter().copied().chain(reads.iter().filter_map(|e| e.from)).any(|t4| up_to(t2, t4))
        };
        let writes = |a: usize, key: usize| self.facts.writes(a, key);
        let conflict = |t2: usize| {
            order.iter().any(|&t4| {
                t4 != t
                    && cm.has(t4, t)
                    && up_to(t2, t4)
                    && self
                        .facts
                        .ops
                        .iter()
                        .any(|op| op.txn == t && op.kind != OpKind::Read && writes(t4, op.key))
            })
        };
        let (session, wr) = (&self.orders.so, &self.orders.wr);
        let visible = |t2: usize, op: usize| match level {
            Level::AdyaReadCommitted => false,
            Level::ReadCommitted => reads.iter().any(|e| e.op < op && e.from == Some(t2)),
            Level::ReadAtomic => session.has(t2, t) || wr.has(t2, t),
            Level::Causal => self.orders.hb.has(t2, t),
            Level::ReadYourWrites => session.has(t2, t),
            Level::MonotonicReads => wr.then(session).has(t2, t),
            Level::MonotonicWrites => session.then(wr).has(t2, t),
            Level::WritesFollowReads => wr.then(session).then(wr).has(t2, t),
            Level::Prefix => prefix(t2),
            Level::SnapshotIsolation
            | Level::StrongSessionSnapshotIsolation
            | Level::StrongSnapshotIsolation => prefix(t2) || conflict(t2),
            _ => cm.has(t2, t),
        };
        reads.iter().all(|read| {
            order.iter().all(|&t2| {
                let asked = t2 != t && Some(t2) != read.from && writes(t2, read.key) && visible(t2, read.op);
                !asked || read.from.is_some_and(|t1| cm.has(t2, t1))
            })
        })
    }
}
