//! After every step the engine says what the offline check says of the recording so far.
//!
//! Random histories arrive in random orders that keep sessions. Where reads are pending only violations are
//! compared; a violation must also be one of the whole.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use anomalist_check::{Budget, Request, check};
use anomalist_history::{
    Builder, History, Indexed, Interval, OpKind, Outcome, SessionId, TxnId, Value, View,
};
use anomalist_incremental::{Arrival, Doubt, Engine, Operation, Standing};
use anomalist_level::{Judgement, Level, Verdict};
use anomalist_testkit::mini;
use anomalist_testkit::random::{self, Reference, Shape};
use fastrand::Rng;

const LEVELS: [Level; 9] = [
    Level::ReadCommitted,
    Level::ReadAtomic,
    Level::Causal,
    Level::Serializable,
    Level::StrongSessionSerializable,
    Level::StrictSerializable,
    Level::SnapshotIsolation,
    Level::StrongSessionSnapshotIsolation,
    Level::StrongSnapshotIsolation,
];

/// The transactions in a random order that keeps each client's.
fn arrivals(rng: &mut Rng, history: &History) -> Vec<TxnId> {
    let mut clients: Vec<Vec<TxnId>> = vec![Vec::new(); history.session_count()];
    for t in history.txns() {
        clients[history.issuer(t).index()].push(t);
    }
    for client in &mut clients {
        client.sort_by_key(|&t| history.issue_rank(t));
        client.reverse();
    }
    let mut order = Vec::new();
    loop {
        clients.retain(|client| !client.is_empty());
        if clients.is_empty() {
            return order;
        }
        let next = rng.usize(..clients.len());
        order.extend(clients[next].pop());
    }
}

/// What was recorded when these transactions had ended.
fn prefix(history: &History, order: &[TxnId]) -> History {
    let mut b = Builder::new();
    fn copy(b: &mut Builder, history: &History, value: Value) -> Value {
        match (history.list(value), value.view()) {
            (Some(elements), _) => b.list(elements),
            (None, View::Int(i)) => b.int(i),
            (None, _) => value,
        }
    }
    b.set_initial_default(history.initial().default);
    for &t in order {
        let label = b.int(history.issuer(t).0.into());
        let session = b.session(label);
        let draft = b.transaction(session);
        b.set_outcome(draft, history.outcome(t));
        if let Some(intervals) = history.intervals() {
            b.set_interval(draft, intervals[t.index()]);
        }
        for (_, op) in history.ops(t) {
            let label = b.int(op.key.0.into());
            let (key, value) = (b.key(label), copy(&mut b, history, op.value));
            b.op(draft, op.kind, key, value);
        }
    }
    b.finish().unwrap()
}

fn accept(engine: &mut Engine, history: &History, t: TxnId) {
    let operation = |op: anomalist_history::Op| Operation {
        kind: op.kind,
        key: op.key,
        value: op.value,
        elements: history.list(op.value).filter(|_| op.kind == OpKind::Read),
    };
    let ops: Vec<Operation<'_>> = history.ops(t).map(|(_, op)| operation(op)).collect();
    let interval = history.intervals().map(|intervals| intervals[t.index()]);
    let session = SessionId(history.issuer(t).0);
    engine.accept(&Arrival { session, outcome: history.outcome(t), interval, ops: &ops });
}

fn judged(history: &History) -> Judgement {
    let indexed = Indexed::new(history, 1.try_into().unwrap());
    let request = Request { levels: LEVELS.to_vec(), ..Request::default() };
    check(&indexed, &request, &Budget::unlimited())
}

/// How often each answer was given: holds, violated, unknown.
type Counts = [[usize; 3]; LEVELS.len()];

fn compare(rng: &mut Rng, history: &History, counts: &mut Counts) {
    let order = arrivals(rng, history);
    let mut engine = Engine::new(&LEVELS);
    engine.set_initial(history.initial().clone());
    for (step, &t) in order.iter().enumerate() {
        accept(&mut engine, history, t);
        let so_far = prefix(history, &order[..=step]);
        let expected = judged(&so_far);
        for level in LEVELS {
            agree(&engine, level, &expected, || mini::print(&so_far));
        }
    }
    engine.end();
    let whole = prefix(history, &order);
    let expected = judged(&whole);
    for (level, count) in LEVELS.into_iter().zip(counts) {
        agree(&engine, level, &expected, || format!("at the end\n{}", mini::print(&whole)));
        match engine.standing(level) {
            Standing::Holds { pending } => {
                assert_eq!(pending, 0, "{level}\n{}", mini::print(&whole));
                count[0] += 1;
            }
            Standing::Violated(_) => count[1] += 1,
            Standing::Unknown(_) => count[2] += 1,
        }
    }
}

fn agree(engine: &Engine, level: Level, expected: &Judgement, shown: impl Fn() -> String) {
    let expected = expected.verdict(level).unwrap();
    let standing = engine.standing(level);
    let fits = match standing {
        Standing::Holds { pending } => pending > 0 || *expected == Verdict::Holds,
        Standing::Violated(_) => *expected == Verdict::Violated,
        Standing::Unknown(_) => true,
    };
    assert!(fits, "{level}: {standing:?}, not {expected:?}\n{}", shown());
}

fn cases(default: u64) -> u64 {
    anomalist_testkit::number("ANOMALIST_ORACLE_CASES", default)
}

fn run(name: &str, cases: u64, mut make: impl FnMut(&mut Rng) -> History) -> Counts {
    let mut counts = Counts::default();
    for seed in 0..cases {
        let mut rng = Rng::with_seed(seed ^ name.len() as u64);
        let history = make(&mut rng);
        compare(&mut rng, &history, &mut counts);
    }
    counts
}

/// Every level was found to hold and to be violated.
fn both_sides(name: &str, counts: Counts, least: usize, levels: &[Level]) {
    for (level, [holds, violated, _]) in LEVELS.into_iter().zip(counts).filter(|(l, _)| levels.contains(l)) {
        assert!(holds >= least && violated >= least, "{name}: {level} {counts:?}");
    }
}

#[test]
fn weak_levels_of_registers() {
    let shape = Shape { aborted: 0.05, indeterminate: 0.1, internal: true, ..Shape::default() };
    let counts = run("registers", cases(1500), |rng| random::tiny(rng, &shape));
    both_sides("registers", counts, 50, &LEVELS[..3]);
    let causal = run("causal", cases(700), |rng| random::mutated(rng, Reference::Causal, &Shape::default()));
    both_sides("causal", causal, 20, &LEVELS[1..3]);
    run("faulty", cases(700), |rng| random::tiny(rng, &Shape::faulty()));
    run("uncertain", cases(700), |rng| random::tiny(rng, &Shape::uncertain()));
}

#[test]
fn lists() {
    let shape = Shape { timed: 1.0, ..Shape::lists() };
    let counts = run("lists", cases(1500), |rng| random::tiny(rng, &shape));
    both_sides("lists", counts, 20, &LEVELS[..3]);
    for reference in [Reference::Serial, Reference::Snapshot] {
        let shape = Shape { timed: 1.0, aborted: 0.1, indeterminate: 0.1, ..Shape::lists() };
        run("executed", cases(700), |rng| random::executed(rng, reference, &shape));
        let counts = run("mutated", cases(1500), |rng| random::mutated(rng, reference, &shape));
        both_sides("mutated", counts, 20, &LEVELS);
    }
    run("uncertain lists", cases(700), |rng| {
        random::tiny(rng, &Shape { lists: 1.0, timed: 0.5, ..Shape::uncertain() })
    });
    run("faulty lists", cases(700), |rng| random::tiny(rng, &Shape { lists: 1.0, ..Shape::faulty() }));
}

#[test]
fn anything() {
    run("anything", cases(1500), |rng| random::tiny(rng, &Shape::anything()));
    run("repeated", cases(700), |rng| random::tiny(rng, &Shape::repeated()));
    run("repeated lists", cases(500), |rng| random::tiny(rng, &Shape { lists: 1.0, ..Shape::repeated() }));
}

/// Registers that are read before they are written, with some stale reads.
fn read_modify_write(rng: &mut Rng) -> History {
    let mut b = Builder::new();
    let zero = b.int(0);
    b.set_initial_default(Some(zero));
    let keys: Vec<_> = (0..1 + rng.i64(0..3)).map(|i| b.key(Value::int(i).unwrap())).collect();
    let sessions: Vec<_> = (0..1 + rng.i64(0..3)).map(|i| b.session(Value::int(i).unwrap())).collect();
    let stale = if rng.bool() { 0.0 } else { 0.2 };
    let mut versions = vec![vec![zero]; keys.len()];
    let mut next = 1;
    for moment in 0..2 + rng.u64(..6) {
        let draft = b.transaction(sessions[rng.usize(..sessions.len())]);
        let outcome = match rng.u8(..20) {
            0 => Outcome::Aborted,
            1 => Outcome::Indeterminate,
            _ => Outcome::Committed,
        };
        b.set_outcome(draft, outcome);
        let completed = (outcome != Outcome::Indeterminate).then_some(10 * moment + 5 + rng.u64(..4));
        b.set_interval(draft, Interval { invoked: 10 * moment + rng.u64(..4), completed });
        let mut touched: Vec<usize> = (0..keys.len()).collect();
        rng.shuffle(&mut touched);
        touched.truncate(1 + rng.usize(..2));
        for k in touched {
            let known = &mut versions[k];
            let back = if rng.f64() < stale { rng.usize(..known.len()) } else { 0 };
            let blind = known.len() == 1 && rng.u8(..3) == 0;
            if !blind {
                b.op(draft, OpKind::Read, keys[k], known[known.len() - 1 - back]);
            }
            if blind || rng.u8(..3) > 0 {
                let value = b.int(next);
                next += 1;
                b.op(draft, OpKind::Write, keys[k], value);
                if outcome != Outcome::Aborted {
                    known.push(value);
                }
            }
        }
    }
    b.finish().unwrap()
}

#[test]
fn read_modify_write_registers() {
    let counts = run("read-modify-write", cases(3000), read_modify_write);
    both_sides("read-modify-write", counts, 20, &LEVELS);
}

#[test]
fn what_is_not_decided_says_so() {
    let mut engine = Engine::new(&[Level::Serializable, Level::Prefix]);
    assert!(!Engine::decides(Level::Prefix));
    assert_eq!(engine.standing(Level::Prefix), Standing::Unknown(Doubt::NotJudged));
    assert_eq!(engine.standing(Level::Serializable), Standing::Holds { pending: 0 });
    let mut b = Builder::new();
    let one = b.int(1);
    let (key, session) = (b.key(one), b.session(one));
    let read = Operation { kind: OpKind::Read, key, value: one, elements: None };
    let write = Operation { kind: OpKind::Write, ..read };
    let mut arrive = |ops: &[Operation<'_>]| {
        engine.accept(&Arrival { session, outcome: Outcome::Committed, interval: None, ops });
    };
    arrive(&[read]);
    arrive(&[write]);
    arrive(&[write]);
    assert!(matches!(engine.standing(Level::Serializable), Standing::Unknown(Doubt::Unsupported(_))));
}
