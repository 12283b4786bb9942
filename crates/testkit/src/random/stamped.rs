//! Small histories with timestamps: mostly what a database would show, with equal stamps, wrong reads and
//! odd clocks.

use anomalist_history::{Builder, History, OpKind, Outcome, SnapshotSet, Stamps, Timestamp, Value};
use fastrand::Rng;

/// What [`stamped`] histories look like. Shares are probabilities, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StampedShape {
    /// Most transactions.
    pub txns: usize,
    /// Stamps lie below this: the fewer, the more ties.
    pub clock: i64,
    /// Share of keys that are lists; the rest are registers.
    pub lists: f64,
    /// Share of operations of the other kind on a key.
    pub mixed: f64,
    /// Share of reads that return anything.
    pub wrong: f64,
    /// Share of transactions that start after they commit.
    pub skewed: f64,
    /// Share of transactions that read only, at one point.
    pub points: f64,
    /// Share of transactions that abort, and of those whose outcome is unknown.
    pub lost: f64,
    /// Share of transactions whose snapshot is a set.
    pub sets: f64,
    /// Share of writes that repeat a value.
    pub repeated: f64,
    /// Share of writes of what a key holds at first, be that 0 or nothing.
    pub initial: f64,
    /// Share of histories whose transactions have numbers in their sessions, now and then with a gap.
    pub numbered: f64,
}

impl Default for StampedShape {
    fn default() -> StampedShape {
        StampedShape {
            txns: 8,
            clock: 40,
            lists: 0.0,
            mixed: 0.0,
            wrong: 0.1,
            skewed: 0.0,
            points: 0.2,
            lost: 0.0,
            sets: 0.0,
            repeated: 0.0,
            initial: 0.0,
            numbered: 0.0,
        }
    }
}

/// Stands for no value.
const NIL: i64 = i64::MIN;

fn value_of(b: &mut Builder, value: i64) -> Value {
    if value == NIL { Value::NIL } else { b.int(value) }
}

struct Plan {
    session: i64,
    start: i64,
    commit: i64,
    outcome: Outcome,
    /// (kind, key, element or value written); reads are filled in later.
    ops: Vec<(OpKind, usize, i64)>,
    set: Option<SnapshotSet>,
}

/// A history of this shape.
pub fn stamped(rng: &mut Rng, shape: &StampedShape) -> History {
    let keys = rng.usize(1..=3);
    let is_list: Vec<bool> = (0..keys).map(|_| rng.f64() < shape.lists).collect();
    let sessions = rng.i64(1..=4);
    let mut fresh = 1;
    let mut plans: Vec<Plan> = (0..rng.usize(1..=shape.txns))
        .map(|_| {
            let (a, b) = (rng.i64(0..shape.clock), rng.i64(0..shape.clock));
            let point = rng.f64() < shape.points;
            let (mut start, mut commit) = if point { (a, a) } else { (a.min(b), a.max(b)) };
            if rng.f64() < shape.skewed {
                (start, commit) = (commit, start);
            }
            let ops = (0..rng.usize(1..=4))
                .map(|_| {
                    let key = rng.usize(0..keys);
                    let list = is_list[key] != (rng.f64() < shape.mixed);
                    let kind = match rng.bool() || point && rng.f64() < 0.9 {
                        true => OpKind::Read,
                        false if list => OpKind::Append,
                        false => OpKind::Write,
                    };
                    fresh += 1;
                    let value = match kind {
                        OpKind::Write if rng.f64() < shape.initial => *rng.choice(&[0, NIL]).unwrap_or(&NIL),
                        _ if rng.f64() < shape.repeated => rng.i64(0..4),
                        _ => fresh,
                    };
                    (kind, key, value)
                })
                .collect();
            let outcome = match rng.f64() < shape.lost {
                true if rng.bool() => Outcome::Aborted,
                true => Outcome::Indeterminate,
                false => Outcome::Committed,
            };
            Plan { session: rng.i64(9..9 + sessions), start, commit, outcome, ops, set: None }
        })
        .collect();
    // Sessions in order, as a client would see them, most of the time.
    if rng.f64() < 0.7 {
        plans.sort_by_key(|p| p.start);
    }
    if shape.sets > 0.0 {
        for i in 0..plans.len() {
            if rng.f64() < shape.sets {
                plans[i].set = set_of(rng, &plans, i);
            }
        }
    }
    build(rng, shape, &plans, &is_list)
}

/// The id of a plan is 100 and its rank by start.
fn id(plans: &[Plan], i: usize) -> u64 {
    100 + plans.iter().enumerate().filter(|(j, p)| (p.start, *j) < (plans[i].start, i)).count() as u64
}

/// Who was running when a transaction started; now and then a transaction is left out or made up.
fn set_of(rng: &mut Rng, plans: &[Plan], i: usize) -> Option<SnapshotSet> {
    let xmax = id(plans, i);
    let mut running: Vec<u64> = (0..plans.len())
        .filter(|&j| id(plans, j) < xmax && plans[j].commit > plans[i].start)
        .map(|j| id(plans, j))
        .collect();
    if rng.u8(0..6) == 0 {
        let other = 100 + rng.u64(0..plans.len() as u64);
        match running.iter().position(|&r| r == other) {
            Some(at) => drop(running.remove(at)),
            None if other < xmax => running.push(other),
            None => {}
        }
    }
    let xmin = running.iter().copied().min().unwrap_or(xmax);
    SnapshotSet::new(xmin, xmax, running).ok()
}

fn build(rng: &mut Rng, shape: &StampedShape, plans: &[Plan], is_list: &[bool]) -> History {
    let mut b = Builder::new();
    b.set_initial_default(rng.choice([Value::int(0), Some(Value::NIL), None]).flatten());
    let logical = rng.bool();
    let mut numbers = (rng.f64() < shape.numbered).then(|| vec![0; 16]);
    for (i, plan) in plans.iter().enumerate() {
        let session = b.int(plan.session);
        let session = b.session(session);
        let t = b.transaction(session);
        if let Some(next) = numbers.as_mut().and_then(|numbers| numbers.get_mut(plan.session as usize)) {
            *next += if rng.u8(0..12) == 0 { rng.u64(0..3) } else { 1 };
            b.set_number(t, *next);
        }
        b.set_outcome(t, plan.outcome);
        let stamp = |n: i64| match logical {
            true => Timestamp { physical: n / 2, logical: n % 2 },
            false => Timestamp { physical: n, logical: 0 },
        };
        b.set_stamps(t, Stamps { start: stamp(plan.start), commit: stamp(plan.commit) });
        let has_id = plan.ops.iter().any(|op| op.0 != OpKind::Read) && rng.u8(0..10) > 0;
        b.set_snapshot(t, has_id.then(|| id(plans, i)), plan.set.clone());
        for (n, &(kind, key, value)) in plan.ops.iter().enumerate() {
            let value = match kind {
                OpKind::Read => read(rng, shape, plans, i, n, is_list[key], &mut b),
                _ => value_of(&mut b, value),
            };
            let name = b.int(key as i64);
            let key = b.key(name);
            b.op(t, kind, key, value);
        }
    }
    b.finish().unwrap_or_else(|error| panic!("{error}"))
}

/// What a read returns: the state at the start and own writes since; or at the commit; or anything.
fn read(
    rng: &mut Rng,
    shape: &StampedShape,
    plans: &[Plan],
    reader: usize,
    n: usize,
    is_list: bool,
    b: &mut Builder,
) -> Value {
    let key = plans[reader].ops[n].1;
    if rng.u8(0..30) == 0 {
        return Value::UNKNOWN;
    }
    let at = if rng.u8(0..5) == 0 { plans[reader].commit } else { plans[reader].start };
    let mut sees = |j: usize| match &plans[reader].set {
        Some(set) if rng.u8(0..8) > 0 => set.view().sees(id(plans, j)),
        // Of equal timestamps, those of the reader's own session are in its order.
        _ => {
            let later = j > reader && plans[j].session == plans[reader].session;
            plans[j].commit < at || plans[j].commit == at && !later
        }
    };
    let mut order: Vec<usize> = (0..plans.len())
        .filter(|&j| j != reader && plans[j].outcome != Outcome::Aborted)
        .filter(|&j| sees(j))
        .collect();
    rng.shuffle(&mut order);
    order.sort_by_key(|&j| plans[j].commit);
    let others = order.iter().flat_map(|&j| &plans[j].ops);
    let deeds = others.chain(&plans[reader].ops[..n]).filter(|op| op.1 == key && op.0 != OpKind::Read);
    let mut values: Vec<i64> = Vec::new();
    let mut listed = is_list;
    for &(kind, _, value) in deeds {
        listed = kind == OpKind::Append;
        if kind == OpKind::Write {
            values.clear();
        }
        values.push(value);
    }
    if rng.f64() < shape.wrong {
        let all: Vec<i64> = plans
            .iter()
            .flat_map(|p| &p.ops)
            .filter(|op| op.1 == key)
            .map(|op| op.2)
            .chain([0, 77])
            .collect();
        match rng.u8(0..4) {
            0 => drop(values.pop()),
            1 => rng.shuffle(&mut values),
            _ => values.push(*rng.choice(&all).unwrap_or(&0)),
        }
    }
    if listed {
        let elements: Vec<Value> = values.iter().map(|&v| value_of(b, v)).collect();
        return if elements.is_empty() && rng.bool() { Value::NIL } else { b.list(&elements) };
    }
    match values.last() {
        Some(&value) => value_of(b, value),
        None if rng.bool() => b.int(0),
        None => Value::NIL,
    }
}
