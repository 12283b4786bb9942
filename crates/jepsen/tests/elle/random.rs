//! Small histories with a bit of everything.

use anomalist_history::{Builder, History, Interval, OpKind, Outcome, Value};
use anomalist_jepsen::elle::{Datatype, Options};
use anomalist_level::elle;

/// What an operation read or wrote.
#[derive(Clone, Debug, PartialEq)]
pub enum Val {
    Nil,
    Int(i64),
    List(Vec<i64>),
    Unknown,
}

#[derive(Clone, Debug)]
pub struct Op {
    pub read: bool,
    pub key: i64,
    pub val: Val,
}

/// A transaction; the list of them is in the order of completion.
#[derive(Clone, Debug)]
pub struct Txn {
    pub outcome: Outcome,
    pub process: i64,
    pub ops: Vec<Op>,
    /// Invocation and completion, if the history has them.
    pub span: Option<(u64, u64)>,
}

pub fn transactions(rng: &mut fastrand::Rng, datatype: Datatype) -> Vec<Txn> {
    let n = rng.usize(1..7);
    let keys = rng.i64(1..4);
    let (dirty, timed, repeat) = (rng.bool(), rng.bool(), rng.u8(0..20) == 0);
    let mut next = 0;
    let mut txns: Vec<Txn> = (0..n)
        .map(|_| Txn {
            outcome: match rng.u8(0..8) {
                0 if dirty => Outcome::Aborted,
                1 => Outcome::Indeterminate,
                _ => Outcome::Committed,
            },
            process: rng.i64(0..3),
            ops: (0..rng.usize(1..4))
                .map(|_| {
                    let (read, key) = (rng.bool(), rng.i64(0..keys));
                    let val = if read {
                        Val::Unknown
                    } else {
                        next += i64::from(!repeat || rng.bool());
                        Val::Int(next)
                    };
                    Op { read, key, val }
                })
                .collect(),
            span: None,
        })
        .collect();
    // The order of versions, as far as there is one.
    let versions: Vec<Vec<i64>> = (0..keys)
        .map(|key| {
            let ops = txns.iter().flat_map(|t| &t.ops).filter(|op| op.key == key);
            let mut all: Vec<i64> = ops
                .filter_map(|op| match op.val {
                    Val::Int(v) => Some(v),
                    _ => None,
                })
                .collect();
            if rng.u8(0..3) == 0 {
                rng.shuffle(&mut all);
            }
            all
        })
        .collect();
    for t in &mut txns {
        let outcome = t.outcome;
        for op in t.ops.iter_mut().filter(|op| op.read) {
            if outcome != Outcome::Committed && rng.u8(0..4) > 0 {
                continue;
            }
            let known = &versions[op.key as usize];
            let seen = rng.usize(0..=known.len());
            op.val = match datatype {
                Datatype::ListAppend => {
                    let mut list = known[..seen].to_vec();
                    match rng.u8(0..20) {
                        0 => rng.shuffle(&mut list),
                        1 => list.push(rng.i64(0..next + 2)),
                        _ => {}
                    }
                    Val::List(list)
                }
                Datatype::RwRegister if seen == 0 => Val::Nil,
                Datatype::RwRegister if rng.u8(0..20) == 0 => Val::Int(rng.i64(0..next + 2)),
                Datatype::RwRegister => Val::Int(known[seen - 1]),
            };
        }
    }
    if timed {
        time(rng, &mut txns);
    }
    txns
}

/// Invocations before completions, and one at a time per process.
fn time(rng: &mut fastrand::Rng, txns: &mut [Txn]) {
    let mut free: [u64; 3] = [0; 3];
    for (i, t) in txns.iter_mut().enumerate() {
        let end = (i as u64 + 1) * 100 + 50;
        let earliest = free[t.process as usize];
        // Distinct invocations: the last digits are the transaction's own.
        let start =
            rng.u64(earliest / 100..=i as u64 + 1) * 100 + i as u64 * 2 + if rng.bool() { 60 } else { 1 };
        let start = if start > earliest && start < end { start } else { end - 1 };
        t.span = Some((start, end));
        free[t.process as usize] = end;
    }
}

pub fn history(txns: &[Txn], datatype: Datatype) -> History {
    let write = if datatype == Datatype::ListAppend { OpKind::Append } else { OpKind::Write };
    let mut b = Builder::new();
    b.set_initial_default(Some(Value::NIL));
    for (i, t) in txns.iter().enumerate() {
        let process = b.int(t.process);
        let session = b.session(process);
        let draft = b.transaction(session);
        let label = b.int(i as i64);
        b.set_label(draft, label);
        b.set_outcome(draft, t.outcome);
        if let Some((invoked, completed)) = t.span {
            let completed = (t.outcome != Outcome::Indeterminate).then_some(completed);
            b.set_interval(draft, Interval { invoked, completed });
        }
        for op in &t.ops {
            let label = b.int(op.key);
            let key = b.key(label);
            let value = match &op.val {
                Val::Nil => Value::NIL,
                Val::Unknown => Value::UNKNOWN,
                Val::Int(v) => b.int(*v),
                Val::List(list) => {
                    let list: Vec<Value> = list.iter().map(|&v| b.int(v)).collect();
                    b.list(&list)
                }
            };
            b.op(draft, if op.read { OpKind::Read } else { write }, key, value);
        }
    }
    b.finish().unwrap()
}

pub fn options(rng: &mut fastrand::Rng, datatype: Datatype, txns: &[Txn]) -> Options {
    let mut options = Options::new(datatype);
    let models = elle::models();
    let common = ["strict-serializable", "serializable", "snapshot-isolation", "strong-session-serializable"];
    options.models = match rng.u8(0..6) {
        0 => Vec::new(),
        1 => vec![models[rng.usize(0..models.len())].level],
        i => vec![elle::model(common[i as usize - 2]).unwrap().level],
    };
    if options.models.is_empty() || rng.u8(0..4) == 0 {
        options.anomalies = vec![elle::anomalies()[rng.usize(0..60)].kind];
    }
    options.wfr_keys = rng.bool();
    options.sequential_keys = rng.u8(0..3) == 0;
    options.linearizable_keys = rng.u8(0..3) == 0;
    if rng.u8(0..4) == 0 {
        let numbers = (0..txns.len() as i64).filter(|i| i % 3 != 2);
        options.transaction_order = Some(numbers.map(|i| (i, rng.f64())).collect());
    }
    options
}
