//! Random histories, seeded.
//!
//! A history is what a small simulated store answers to interleaved sessions, then, every second time,
//! damaged in one or two places: so that levels hold often and are violated often, by little. Values
//! repeat, the initial value is written, rows are deleted (a write of nil), elements are appended twice,
//! transactions of unknown outcome take effect late or never and their sessions go on, clocks are coarse.

use crate::model::{Atom, History, Key, Kind, Op, Outcome, Seen, Txn};
use fastrand::Rng;

/// The most operations of a history.
pub const MOST_OPS: usize = 12;
/// The most transactions of a history.
pub const MOST_TXNS: usize = 5;

/// What a history has besides operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// Nothing.
    None,
    /// When clients began and ended.
    Intervals,
    /// What the database says.
    Stamps,
}

/// How the store answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Store {
    /// A transaction happens at its commit.
    Serial,
    /// Reads are of the state at its beginning; writers of the same key may abort it.
    Snapshot { checked: bool },
    /// Reads are of the last commit.
    Committed,
    /// Reads are of any older state.
    Stale,
    /// Writes are seen at once.
    Dirty,
    /// Reads are of any state, later ones included.
    Any,
}

/// A random history.
pub fn history(rng: &mut Rng, clock: Clock) -> History {
    if clock == Clock::Stamps && rng.u8(..16) == 0 {
        return burst(rng);
    }
    let single = clock == Clock::Intervals && rng.u8(..3) == 0;
    let mut history = skeleton(rng, clock, single);
    let store = match rng.u8(..12) {
        0..3 => Store::Serial,
        3 => Store::Snapshot { checked: true },
        4 => Store::Snapshot { checked: false },
        5 => Store::Committed,
        6 => Store::Stale,
        7..9 => Store::Dirty,
        _ => Store::Any,
    };
    let reuse = rng.u8(..3);
    fill_writes(rng, &mut history, reuse);
    let states = Simulation::new(&history, store).run(rng, &mut history);
    if store == Store::Any {
        answer_anything(rng, &mut history, &states);
    } else if rng.u8(..3) != 0 {
        for _ in 0..rng.usize(1..3) {
            damage(rng, &mut history);
        }
    }
    coarsen(rng, &mut history);
    history
}

/// Several transactions that append to one list at one time, and one that reads it then or later.
fn burst(rng: &mut Rng) -> History {
    let mut blocks: Vec<Vec<Op>> = (0..rng.usize(2..MOST_TXNS))
        .map(|_| (0..rng.usize(1..3)).map(|_| Op::Append(0, Some(rng.i32(1..3)))).collect())
        .collect();
    let mut txns: Vec<Txn> = Vec::new();
    for (t, ops) in blocks.iter().enumerate() {
        let session = if rng.u8(..4) == 0 { 0 } else { t };
        let outcome = [Outcome::Committed, Outcome::Indeterminate][usize::from(rng.u8(..8) == 0)];
        txns.push(Txn { session, ops: ops.clone(), outcome, interval: (5, Some(5)), stamps: (5, 5) });
    }
    rng.shuffle(&mut blocks);
    let shown =
        blocks.iter().flatten().filter_map(|op| if let Op::Append(_, e) = op { Some(*e) } else { None });
    let mut list: Vec<Atom> = shown.collect();
    if rng.u8(..4) == 0 {
        damage_list(rng, &mut list, Some(1));
    }
    let (ops, at) = (vec![Op::Read(0, Seen::List(list))], rng.i64(5..7));
    let session = rng.usize(..MOST_TXNS);
    txns.push(Txn { session, ops, outcome: Outcome::Committed, interval: (6, Some(6)), stamps: (at, at) });
    txns.sort_by_key(|t| t.session);
    History { txns, kinds: vec![Kind::List], initial: None, has_intervals: false, has_stamps: true }
}

fn skeleton(rng: &mut Rng, clock: Clock, single: bool) -> History {
    let keys = [1, 2, 2, 2, 2, 3][rng.usize(..6)];
    let of_kinds = if single { 0 } else { rng.u8(..4) };
    let kinds: Vec<Kind> = (0..keys)
        .map(|_| match of_kinds {
            0 | 1 => Kind::Register,
            2 => Kind::List,
            _ => [Kind::Register, Kind::List][rng.usize(..2)],
        })
        .collect();
    let (mut open, mut aborted) = ([0, 0, 25, 50][rng.usize(..4)], [0, 0, 20][rng.usize(..3)]);
    let count = [2, 3, 4, 4, 4, MOST_TXNS, MOST_TXNS, MOST_TXNS][rng.usize(..8)];
    let sessions = [1, 2, 2, 3, 4, 5, 5][rng.usize(..7)];
    let most = if single { 1 } else { rng.usize(2..5) };
    let (mut left, mut key, reads) = (MOST_OPS, 0, rng.u8(3..7));
    let style = if single { 0 } else { rng.u8(..4) };
    let plan = PLANS[rng.usize(..PLANS.len())];
    if style == 3 && rng.bool() {
        (open, aborted) = (0, 0);
    }
    let apart = style == 3 && rng.bool();
    let count = if style == 3 { (plan.len() + usize::from(rng.bool())).min(MOST_TXNS) } else { count };
    let mut txns: Vec<Txn> = (0..count)
        .map(|t| {
            let size = rng.usize(most.div_ceil(2)..most + 1).min(left);
            left -= size;
            let outcome = match rng.u8(..100) {
                p if p < open => Outcome::Indeterminate,
                p if p < open + aborted => Outcome::Aborted,
                _ => Outcome::Committed,
            };
            let mut any = || {
                key = if rng.u8(..4) == 0 { key } else { rng.usize(..kinds.len()) };
                operation(key, kinds[key], rng.u8(..10) < reads)
            };
            let ops = match style {
                0 | 1 => (0..size).map(|_| any()).collect(),
                3 if t < plan.len() => planned(plan[t], &kinds),
                _ => template(rng, &kinds),
            };
            let session = if apart { t } else { rng.usize(..sessions) };
            Txn { session, ops, outcome, interval: (0, None), stamps: (0, 0) }
        })
        .collect();
    txns.sort_by_key(|t| t.session);
    let initial = [None, Some(0)][rng.usize(..2)];
    let (has_intervals, has_stamps) = (clock == Clock::Intervals, clock == Clock::Stamps);
    History { txns, kinds, initial, has_intervals, has_stamps }
}

/// Transactions that together tell levels apart: `w0 r1` writes the first key and reads the second.
const PLANS: &[&[&str]] = &[
    &["w0", "w1", "r0 r1", "r1 r0"],
    &["r0 w1", "r1 w0"],
    &["r0 r1 w0", "r0 r1 w1", "r0 r1"],
    &["w0", "r0 w1", "r1 r0"],
    &["r0 w0", "r0 w0", "r0"],
    &["w0 w1", "w0 w1", "r0 r1", "r1 r0"],
    &["w0 w0", "r0 r0", "w0"],
    &["w0", "w0 w1", "r1 r0", "r0"],
    &["w0", "w0 w0", "w0", "w0 w0", "r0"],
];

fn planned(ops: &str, kinds: &[Kind]) -> Vec<Op> {
    let key = |op: &str| usize::from(op.ends_with('1')) % kinds.len();
    ops.split(' ').map(|op| operation(key(op), kinds[key(op)], op.starts_with('r'))).collect()
}

/// The small transactions that anomalies are made of.
fn template(rng: &mut Rng, kinds: &[Kind]) -> Vec<Op> {
    let a = rng.usize(..kinds.len());
    let b = (a + 1) % kinds.len();
    let (read, write) =
        (|key: Key| operation(key, kinds[key], true), |key: Key| operation(key, kinds[key], false));
    match rng.u8(..8) {
        0 => vec![write(a)],
        1 => vec![write(a), write(b)],
        2..4 => vec![read(a), read(b)],
        4 => vec![read(a), write(b)],
        5 => vec![read(a), write(a)],
        6 => vec![read(a), read(b), write(a)],
        _ => vec![read(a)],
    }
}

/// An operation without its value.
fn operation(key: Key, kind: Kind, read: bool) -> Op {
    match (read, kind) {
        (true, Kind::Register) => Op::Read(key, Seen::Atom(None)),
        (true, Kind::List) => Op::Read(key, Seen::List(Vec::new())),
        (false, Kind::Register) => Op::Write(key, None),
        (false, Kind::List) => Op::Append(key, None),
    }
}

/// Values to write: 0 from few, 1 each once, 2 both. Few of them are the initial one.
fn fill_writes(rng: &mut Rng, history: &mut History, reuse: u8) {
    let initial = history.initial;
    for (i, op) in history.txns.iter_mut().flat_map(|t| &mut t.ops).enumerate() {
        let fresh = reuse == 1 || reuse == 2 && rng.bool();
        let value = if fresh { Some(i as i32 + 10) } else { few(rng, initial) };
        match op {
            Op::Write(_, v) => *v = value,
            Op::Append(_, e) => *e = value.or(Some(1)),
            Op::Read(..) => {}
        }
    }
}

fn few(rng: &mut Rng, initial: Atom) -> Atom {
    match rng.u8(..8) {
        0..2 => initial,
        2 => None,
        3..6 => Some(1),
        _ => Some(2),
    }
}

/// A store and the clients' places in their transactions.
struct Simulation {
    store: Store,
    /// All committed states, oldest first.
    states: Vec<Vec<Seen>>,
    /// By transaction, its place: 0 not begun, then operations.
    place: Vec<usize>,
    snapshot: Vec<usize>,
    /// Effects that come late.
    late: Vec<usize>,
    now: i64,
}

impl Simulation {
    fn new(history: &History, store: Store) -> Simulation {
        let initial = |kind: &Kind| match kind {
            Kind::Register => Seen::Atom(history.initial),
            Kind::List => Seen::List(Vec::new()),
        };
        let states = vec![history.kinds.iter().map(initial).collect()];
        let count = history.txns.len();
        Simulation {
            store,
            states,
            place: vec![0; count],
            snapshot: vec![0; count],
            late: Vec::new(),
            now: 1,
        }
    }

    fn run(mut self, rng: &mut Rng, history: &mut History) -> Vec<Vec<Seen>> {
        loop {
            let ready = |&t: &usize| {
                let over = |t: usize| self.place[t] > history.txns[t].ops.len() + 1;
                !over(t)
                    && (0..t)
                        .all(|before| over(before) || history.txns[before].session != history.txns[t].session)
            };
            let ready: Vec<usize> = (0..history.txns.len()).filter(ready).collect();
            if ready.is_empty() {
                break;
            }
            let t = ready[rng.usize(..ready.len())];
            self.step(rng, history, t);
            if !self.late.is_empty() && rng.u8(..4) == 0 {
                let late = self.late.swap_remove(0);
                self.install(history, late);
            }
            self.now += i64::from(rng.u8(..4) != 0);
        }
        self.states
    }

    fn step(&mut self, rng: &mut Rng, history: &mut History, t: usize) {
        let (place, count) = (self.place[t], history.txns[t].ops.len());
        self.place[t] += 1;
        if place == 0 {
            self.snapshot[t] = self.states.len() - 1;
            history.txns[t].interval.0 = self.now as u64;
            history.txns[t].stamps.0 = self.now;
        } else if place <= count {
            if self.store != Store::Serial {
                self.answer(rng, history, t, place - 1);
            }
        } else {
            self.end(rng, history, t);
        }
    }

    fn answer(&mut self, rng: &mut Rng, history: &mut History, t: usize, place: usize) {
        let newest = self.states.len() - 1;
        let from = match self.store {
            Store::Snapshot { .. } => self.snapshot[t],
            Store::Stale => rng.usize(..newest + 1),
            _ => newest,
        };
        let state = &self.states[from];
        let own = if self.store == Store::Dirty { 0 } else { place };
        let ops = &history.txns[t].ops;
        let Op::Read(key, _) = ops[place] else {
            if self.store == Store::Dirty {
                let next = apply(&self.states[newest], &ops[place..place + 1]);
                self.states.push(next);
            }
            return;
        };
        let seen = apply(state, &ops[..own]).swap_remove(key);
        history.txns[t].ops[place] = Op::Read(key, seen);
    }

    fn end(&mut self, rng: &mut Rng, history: &mut History, t: usize) {
        if self.store == Store::Serial {
            for place in 0..history.txns[t].ops.len() {
                self.answer(rng, history, t, place);
            }
        }
        let since = &self.states[self.snapshot[t]];
        let newest = &self.states[self.states.len() - 1];
        let changed = |op: &Op| !matches!(op, Op::Read(..)) && since[op.key()] != newest[op.key()];
        if self.store == (Store::Snapshot { checked: true }) && history.txns[t].ops.iter().any(changed) {
            history.txns[t].outcome = Outcome::Aborted;
        }
        history.txns[t].stamps.1 = self.now;
        let outcome = history.txns[t].outcome;
        history.txns[t].interval.1 = (outcome != Outcome::Indeterminate).then_some(self.now as u64);
        match (outcome, rng.u8(..3)) {
            (Outcome::Committed, _) | (Outcome::Indeterminate, 0) => self.install(history, t),
            (Outcome::Indeterminate, 1) => self.late.push(t),
            _ => {}
        }
    }

    fn install(&mut self, history: &mut History, t: usize) {
        history.txns[t].stamps.1 = self.now;
        if self.store != Store::Dirty {
            let next = apply(&self.states[self.states.len() - 1], &history.txns[t].ops);
            self.states.push(next);
        }
    }
}

/// Answers every read from a state of its own.
fn answer_anything(rng: &mut Rng, history: &mut History, states: &[Vec<Seen>]) {
    for ops in history.txns.iter_mut().map(|t| &mut t.ops) {
        for place in 0..ops.len() {
            if let Op::Read(key, _) = ops[place] {
                let state = &states[rng.usize(..states.len())];
                ops[place] = Op::Read(key, apply(state, &ops[..place]).swap_remove(key));
            }
        }
    }
}

fn apply(state: &[Seen], ops: &[Op]) -> Vec<Seen> {
    let mut state = state.to_vec();
    for op in ops {
        match (op, &mut state[op.key()]) {
            (Op::Write(_, value), seen) => *seen = Seen::Atom(*value),
            (Op::Append(_, element), Seen::List(list)) => list.push(*element),
            _ => {}
        }
    }
    state
}

/// Changes something.
fn damage(rng: &mut Rng, history: &mut History) {
    if rng.u8(..8) == 0 {
        reorder(rng, history);
        return;
    }
    let count = history.txns.len();
    let t = rng.usize(..count);
    let initial = history.initial;
    let elsewhere: Vec<Atom> = history
        .txns
        .iter()
        .flat_map(|t| &t.ops)
        .filter_map(|op| match op {
            Op::Write(_, v) | Op::Append(_, v) => Some(*v),
            Op::Read(..) => None,
        })
        .chain([initial])
        .collect();
    let txn = &mut history.txns[t];
    match rng.u8(..10) {
        0 => txn.outcome = [Outcome::Committed, Outcome::Aborted, Outcome::Indeterminate][rng.usize(..3)],
        1 => txn.stamps.0 += rng.i64(-2..3),
        2 => txn.stamps.1 += rng.i64(-2..3),
        _ if txn.ops.is_empty() => {}
        _ => {
            let reads: Vec<usize> =
                (0..txn.ops.len()).filter(|&i| matches!(txn.ops[i], Op::Read(..))).collect();
            let place = match rng.u8(..4) {
                1.. if !reads.is_empty() => reads[rng.usize(..reads.len())],
                _ => rng.usize(..txn.ops.len()),
            };
            let any = elsewhere[rng.usize(..elsewhere.len())];
            match &mut txn.ops[place] {
                Op::Write(_, value) | Op::Read(_, Seen::Atom(value)) => *value = any,
                Op::Append(_, element) => *element = any.or(Some(1)),
                Op::Read(_, Seen::List(list)) => damage_list(rng, list, any.or(Some(1))),
            }
        }
    }
    if txn.outcome == Outcome::Indeterminate {
        txn.interval.1 = None;
    } else if txn.interval.1.is_none() {
        // It ended no later than its session's next one began.
        let (session, start) = (txn.session, txn.interval.0);
        let next = history.txns.get(t + 1).filter(|n| n.session == session).map(|n| n.interval.0);
        history.txns[t].interval.1 = Some(next.unwrap_or(start + 1));
    }
}

/// Exchanges two elements of a list wherever it is read: its reads agree, on another order than other keys
/// were written in.
fn reorder(rng: &mut Rng, history: &mut History) {
    let key = rng.usize(..history.kinds.len());
    let reads = history.txns.iter_mut().flat_map(|t| &mut t.ops);
    let mut lists: Vec<&mut Vec<Atom>> = reads
        .filter_map(|op| match op {
            Op::Read(k, Seen::List(list)) if *k == key => Some(list),
            _ => None,
        })
        .collect();
    let Some(longest) = lists.iter().map(|list| list.len()).max().filter(|&len| len > 1) else { return };
    let (a, b) = (rng.usize(..longest), rng.usize(..longest));
    lists.iter_mut().filter(|list| list.len() > a.max(b)).for_each(|list| list.swap(a, b));
    lists.iter_mut().filter(|list| list.len() <= a.max(b)).for_each(|list| list.truncate(a.min(b)));
}

fn damage_list(rng: &mut Rng, list: &mut Vec<Atom>, element: Atom) {
    match rng.u8(..4) {
        0 => list.push(element),
        1 => {
            list.pop();
        }
        2 if list.len() > 1 => {
            let (a, b) = (rng.usize(..list.len()), rng.usize(..list.len()));
            list.swap(a, b);
        }
        _ if !list.is_empty() => {
            let place = rng.usize(..list.len());
            list[place] = element;
        }
        _ => list.push(element),
    }
}

/// A clock that ticks rarely makes ties.
fn coarsen(rng: &mut Rng, history: &mut History) {
    let tick = [1, 1, 2, 3, 5, 100][rng.usize(..6)];
    for txn in &mut history.txns {
        txn.stamps = (txn.stamps.0 / tick, txn.stamps.1 / tick);
        let (from, to) = txn.interval;
        txn.interval = (from / tick as u64, to.map(|to| to / tick as u64));
    }
}
