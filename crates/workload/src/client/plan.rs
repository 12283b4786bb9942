//! Plans transactions.
//!
//! Registers, lists and sets come from the generator of simulated histories: a key per operation by the
//! chosen distribution, rotating. The other workloads are those of Jepsen, by the same names:
//!
//! * *bank*: a transfer of 1 to 5 between two accounts, or a read of all of them;
//! * *long-fork*: each key of a group is written once, alone; readers read the whole group in any order;
//! * *predicate*: rows are inserted, changed and deleted, each value once; readers ask for a remainder, or
//!   for one row.

use super::application;
use super::spec::Plan;
use super::{ClientSpec, Key, Op, Workload};
use crate::keys::{Keys, Planned};
use crate::sample::Sampler;
use crate::spec::SpecError;

/// Yields one transaction after another.
pub struct Planner {
    workload: Workload,
    rng: fastrand::Rng,
    keys: Keys,
    sampler: Sampler,
    count: u64,
    read_ratio: f64,
    ops: std::ops::RangeInclusive<u32>,
    /// The last value handed out: 0 is what registers hold at first.
    value: i64,
    /// Long fork: the groups in use. Predicate: the rows in use.
    live: Vec<Group>,
    next_key: Key,
    plan: Vec<Planned>,
}

#[derive(Clone, Copy)]
struct Group {
    first: Key,
    /// How many of its keys have been written; of a row: whether it was inserted.
    written: u32,
}

impl Planner {
    /// Checks the specification and gets ready.
    pub fn new(spec: &ClientSpec) -> Result<Planner, SpecError> {
        let shared = spec.shared()?;
        let mut planner = Planner {
            workload: spec.workload,
            rng: fastrand::Rng::with_seed(spec.seed),
            keys: Keys::new(&shared),
            sampler: Sampler::new(spec.distribution, spec.keys),
            count: spec.keys,
            read_ratio: spec.read_ratio,
            ops: spec.min_ops_per_txn..=spec.ops_per_txn,
            value: 0,
            live: Vec::new(),
            next_key: 0,
            plan: Vec::new(),
        };
        if matches!(spec.workload, Workload::LongFork | Workload::Predicate) {
            planner.live = (0..spec.keys).map(|_| planner.fresh()).collect();
        }
        Ok(planner)
    }

    /// Replaces `ops` by the next transaction.
    pub fn next(&mut self, ops: &mut Vec<Op>) {
        ops.clear();
        match self.workload.plan() {
            Plan::Datatype(plan) => plan(self, ops),
            Plan::Application(plan) => {
                let mut deal = application::Deal {
                    rng: &mut self.rng,
                    sampler: &self.sampler,
                    scale: self.count,
                    value: &mut self.value,
                    fresh: &mut self.next_key,
                };
                plan(&mut deal, ops);
            }
        }
    }

    pub(super) fn registers(&mut self, ops: &mut Vec<Op>) {
        self.by_key(ops, Op::Read, Op::Write);
    }

    pub(super) fn lists(&mut self, ops: &mut Vec<Op>) {
        self.by_key(ops, Op::ReadList, Op::Append);
    }

    pub(super) fn sets(&mut self, ops: &mut Vec<Op>) {
        self.by_key(ops, Op::ReadSet, Op::Add);
    }

    pub(super) fn counter(&mut self, ops: &mut Vec<Op>) {
        ops.push(if self.reads() { Op::ReadCounter } else { Op::Increment(self.rng.i64(1..=5)) });
    }

    pub(super) fn bank(&mut self, ops: &mut Vec<Op>) {
        if self.reads() {
            return ops.push(Op::ReadBalances);
        }
        let (from, to) = self.two();
        ops.push(Op::Transfer { from, to, amount: self.rng.i64(1..=5) });
    }

    /// Gives the operations of a transaction that did not commit new values, so that it can be tried again
    /// as a new one. Rows are inserted once only: then it is another transaction altogether.
    pub fn again(&mut self, ops: &mut Vec<Op>) {
        if ops.iter().any(|op| matches!(op, Op::Insert(..))) {
            return self.next(ops);
        }
        for op in ops {
            match op {
                Op::Write(_, v) | Op::Append(_, v) | Op::Add(_, v) | Op::Update(_, v) => {
                    self.value += 1;
                    *v = self.value;
                }
                _ => {}
            }
        }
    }

    fn reads(&mut self) -> bool {
        self.rng.f64() < self.read_ratio
    }

    fn fresh_value(&mut self) -> i64 {
        self.value += 1;
        self.value
    }

    fn by_key(&mut self, ops: &mut Vec<Op>, read: fn(Key) -> Op, write: fn(Key, i64) -> Op) {
        let mut plan = std::mem::take(&mut self.plan);
        self.keys.plan(&mut self.rng, &mut plan);
        for p in &plan {
            let key = self.keys.label(p.cell);
            ops.push(if p.write { write(key, self.fresh_value()) } else { read(key) });
        }
        // Keys are named by labels, which never return: it does no harm if their cells do.
        self.keys.done(&plan, |_| {});
        self.plan = plan;
    }

    /// Two different keys.
    fn two(&mut self) -> (Key, Key) {
        let from = self.sampler.sample(&mut self.rng);
        let other = self.rng.u64(0..self.count - 1);
        (from, if other >= from { other + 1 } else { other })
    }

    fn fresh(&mut self) -> Group {
        let size = if self.workload == Workload::LongFork { u64::from(*self.ops.end()).max(2) } else { 1 };
        let first = self.next_key;
        self.next_key += size;
        Group { first, written: 0 }
    }

    pub(super) fn long_fork(&mut self, ops: &mut Vec<Op>) {
        let size = (*self.ops.end()).max(2);
        let at = self.sampler.sample(&mut self.rng) as usize;
        let group = self.live[at];
        if self.reads() {
            ops.extend((0..u64::from(size)).map(|i| Op::Read(group.first + i)));
            self.rng.shuffle(ops);
            return;
        }
        if group.written == size {
            self.live[at] = self.fresh();
        }
        let group = &mut self.live[at];
        let key = group.first + u64::from(group.written);
        group.written += 1;
        let value = self.fresh_value();
        ops.push(Op::Write(key, value));
    }

    pub(super) fn predicate(&mut self, ops: &mut Vec<Op>) {
        const MODULI: [i64; 3] = [2, 3, 5];
        for _ in 0..self.rng.u32(self.ops.clone()) {
            let at = self.sampler.sample(&mut self.rng) as usize;
            let row = self.live[at];
            if self.reads() {
                ops.push(if self.rng.u32(0..3) == 0 {
                    Op::ReadRow(row.first)
                } else {
                    let modulus = MODULI[self.rng.usize(0..MODULI.len())];
                    Op::ReadWhere { modulus, rest: self.rng.i64(0..modulus) }
                });
            } else if row.written == 0 {
                let value = self.fresh_value();
                ops.push(Op::Insert(row.first, value));
                self.live[at].written = 1;
            } else if self.rng.u32(0..4) == 0 {
                ops.push(Op::Delete(row.first));
                self.live[at] = self.fresh();
            } else {
                let value = self.fresh_value();
                ops.push(Op::Update(row.first, value));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn plans(spec: &ClientSpec, n: usize) -> Vec<Vec<Op>> {
        let mut planner = Planner::new(spec).unwrap();
        let mut ops = Vec::new();
        (0..n)
            .map(|_| {
                planner.next(&mut ops);
                ops.clone()
            })
            .collect()
    }

    #[test]
    fn every_value_is_written_once_and_the_seed_decides() {
        for workload in Workload::ALL {
            let spec = ClientSpec { seed: 7, ..ClientSpec::of(workload) };
            let all = plans(&spec, 2_000);
            assert_eq!(all, plans(&spec, 2_000), "{workload:?}");
            assert_ne!(all, plans(&ClientSpec { seed: 8, ..spec }, 2_000), "{workload:?}");
            let mut values = BTreeSet::new();
            let (mut reads, mut writes) = (0, 0);
            for op in all.iter().flatten() {
                if op.is_read() {
                    reads += 1;
                    continue;
                }
                writes += 1;
                if let Op::Write(_, v)
                | Op::Append(_, v)
                | Op::Add(_, v)
                | Op::Update(_, v)
                | Op::Insert(_, v) = op
                {
                    assert!(*v > 0 && values.insert(*v), "{workload:?} writes {v} twice");
                }
            }
            assert!(all.iter().all(|ops| !ops.is_empty()), "{workload:?}");
            assert!(reads > 200 && writes > 200, "{workload:?}: {reads} reads, {writes} writes");
        }
    }

    #[test]
    fn keys_rotate() {
        let spec = ClientSpec { writes_per_key: Some(8), ..ClientSpec::of(Workload::ListAppend) };
        let mut appends: BTreeMap<Key, u32> = BTreeMap::new();
        for op in plans(&spec, 3_000).iter().flatten() {
            if let Op::Append(key, _) = op {
                *appends.entry(*key).or_default() += 1;
            }
        }
        assert!(appends.values().all(|&n| n <= 8) && appends.len() > 100, "{}", appends.len());
    }

    #[test]
    fn groups_are_written_key_by_key_and_read_whole() {
        let spec = ClientSpec::of(Workload::LongFork);
        let mut written = BTreeSet::new();
        for ops in plans(&spec, 2_000) {
            match ops[..] {
                [Op::Write(key, _)] => assert!(written.insert(key), "{key} twice"),
                _ => {
                    let keys: BTreeSet<Key> = ops
                        .iter()
                        .map(|op| if let Op::Read(k) = op { *k } else { panic!("{op:?}") })
                        .collect();
                    assert_eq!(keys.len(), 3);
                    assert_eq!(keys.last().unwrap() - keys.first().unwrap(), 2);
                }
            }
        }
    }

    #[test]
    fn a_retry_repeats_the_operations_with_new_values() {
        let mut planner = Planner::new(&ClientSpec::of(Workload::Register)).unwrap();
        let mut ops = Vec::new();
        for _ in 0..200 {
            planner.next(&mut ops);
            let before = ops.clone();
            planner.again(&mut ops);
            for (a, b) in before.iter().zip(&ops) {
                match (a, b) {
                    (Op::Write(k, v), Op::Write(l, w)) => assert!(k == l && v < w),
                    (a, b) => assert_eq!(a, b),
                }
            }
        }
    }

    #[test]
    fn a_bank_needs_two_accounts() {
        let spec = ClientSpec { keys: 1, ..ClientSpec::of(Workload::Bank) };
        assert!(Planner::new(&spec).is_err());
        assert!(Planner::new(&ClientSpec { read_ratio: 1.5, ..ClientSpec::of(Workload::Bank) }).is_err());
        assert_eq!(ClientSpec::preset("generalrh").unwrap().ops_per_txn, 20);
    }
}
