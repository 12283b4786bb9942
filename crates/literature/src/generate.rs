//! Random histories, seeded.
//!
//! A history is what a small simulated store answers to interleaved sessions, then, every second time, damaged in one or two
//! places: so that levels hold often and are violated often, by little. Values repeat, the initial value is written,
//! rows are deleted (a write of nil), elements are appended twice, transactions of unknown outcome take effect late or never and
//! their sessions go on, clocks are coarse.

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
    Snapshot {
        checked: bool,
    },
    /// Reads are of the last commit.
    Committed,
    /// Reads are of any older state.
    Stale,
    /// Writes are seen at once.
    Dirty,
}

/// A random history.
pub fn history(rng: &mut Rng, clock: Clock) -> History {
    let single = clock == Clock::Intervals && rng.u8(..3) == 0;
    let mut history = skeleton(rng, clock, single);
    let store = match rng.u8(..12) {
        0..4 => Store::Serial,
        4..6 => Store::Snapshot { checked: true },
        6 => Store::Snapshot { checked: false },
        7..9 => Store::Committed,
        9..11 => Store::Stale,
        _ => Store::Dirty,
    };
    let reuse = rng.u8(..3);
    fill_writes(rng, &mut history, reuse);
    Simulation::new(&history, store).run(rng, &mut history);
    if rng.bool() {
        for _ in 0..rng.usize(1..3) {
            damage(rng, &mut history);
        }
    }
    coarsen(rng, &mut history);
    history
}

fn skeleton(rng: &mut Rng, clock: Clock, single: bool) -> History {
    let keys = rng.usize(1..4);
    let style = if single { 0 } else { rng.u8(..4) };
    let kinds: Vec<Kind> = (0..keys)
        .map(|_| match style {
            0 | 1 => Kind::Register,
            2 => Kind::List,
            _ => [Kind::Register, Kind::List][rng.usize(..2)],
        })
        .collect();
    let (open, aborted) = ([0, 25, 50][rng.usize(..3)], [0, 0, 20][rng.usize(..3)]);
    let count = rng.usize(2..MOST_TXNS + 1);
    let sessions = rng.usize(1..4.min(count + 1));
    let most = if single { 1 } else { rng.usize(1..5) };
    let mut left = MOST_OPS;
    let mut txns: Vec<Txn> = (0..count)
        .map(|_| {
            let size = rng.usize(1..most + 1).min(left);
            left -= size;
            let outcome = match rng.u8(..100) {
                p if p < open => Outcome::Indeterminate,
                p if p < open + aborted => Outcome::Aborted,
                _ => Outcome::Committed,
            };
            let ops = (0..size).map(|_| operation(rng, &kinds)).collect();
            Txn { session: rng.usize(..sessions), ops, outcome, interval: (0, None), stamps: (0, 0) }
        })
        .collect();
    txns.sort_by_key(|t| t.session);
    let initial = [None, Some(0)][rng.usize(..2)];
    let (has_intervals, has_stamps) = (clock == Clock::Intervals, clock == Clock::Stamps);
    History { txns, kinds, initial, has_intervals, has_stamps }
}

fn operation(rng: &mut Rng, kinds: &[Kind]) -> Op {
    let key = rng.usize(..kinds.len());
    match (rng.bool(), kinds[key]) {
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
        Simulation { store, states, place: vec![0; count], snapshot: vec![0; count], late: Vec::new(), now: 1 }
    }

    fn run(mut self, rng: &mut Rng, history: &mut History) {
        loop {
            let ready = |&t: &usize| {
                let over = |t: usize| self.place[t] > history.txns[t].ops.len() + 1;
                !over(t) && (0..t).all(|before| over(before) || history.txns[before].session != history.txns[t].session)
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
            let place = rng.usize(..txn.ops.len());
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
    let tick = [1, 1, 2, 3, 5][rng.usize(..5)];
    for txn in &mut history.txns {
        txn.stamps = (txn.stamps.0 / tick, txn.stamps.1 / tick);
        let (from, to) = txn.interval;
        txn.interval = (from / tick as u64, to.map(|to| to / tick as u64));
    }
}

/// The keys that a history uses, for shrinking.
pub fn used(history: &History) -> Vec<Key> {
    let mut keys: Vec<Key> = history.txns.iter().flat_map(|t| &t.ops).map(Op::key).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}
