//! The simulated databases of `isolde-workload` as an engine, every datatype on top of registers and lists.
//!
//! Before each operation a session sleeps for the time a network would take, so that transactions of different sessions overlap
//! as they do against a real server; otherwise threads would hardly ever meet.

use super::{Answer, Ended, Engine, EngineError, Key, Op, Session};
use isolde_workload::client::{ClientSpec, Recording, Workload};
use isolde_workload::{Refused, SimLevel, Simulated};
use std::sync::Arc;
use std::time::Duration;

/// The time between two operations.
const LATENCY: Duration = Duration::from_micros(50);

/// A simulated database of a chosen level.
pub struct SimulatedEngine {
    level: SimLevel,
    accounts: u64,
    store: Arc<Simulated>,
}

impl SimulatedEngine {
    /// A fresh one for a workload and this many sessions.
    pub fn new(level: SimLevel, spec: &ClientSpec, sessions: u32) -> SimulatedEngine {
        let lists = spec.workload.recording() == Recording::Lists || spec.workload == Workload::Set;
        let store = Arc::new(Simulated::new(level, lists, sessions, spec.seed));
        SimulatedEngine { level, accounts: spec.keys, store }
    }
}

impl Engine for SimulatedEngine {
    fn describe(&self) -> String {
        format!("simulated store, {}", self.level.name())
    }

    fn open(&self, session: u32) -> Result<Box<dyn Session>, EngineError> {
        Ok(Box::new(SimulatedSession { session, accounts: self.accounts, store: Arc::clone(&self.store) }))
    }
}

struct SimulatedSession {
    session: u32,
    accounts: u64,
    store: Arc<Simulated>,
}

/// Why a transaction is rolled back.
enum Stop {
    Refused,
    Poor,
    Constraint,
    Unsupported(Op),
}

impl From<Refused> for Stop {
    fn from(_: Refused) -> Stop {
        Stop::Refused
    }
}

impl SimulatedSession {
    fn read(&self, key: Key) -> Result<u64, Refused> {
        self.store.read(self.session, key)
    }

    fn write(&self, key: Key, value: i64) -> Result<Answer, Refused> {
        self.store.write(self.session, key, value as u64)?;
        Ok(Answer::Done)
    }

    fn list(&self, key: Key) -> Result<Answer, Refused> {
        let list = self.store.read_list(self.session, key)?;
        Ok(Answer::List(list.into_iter().map(|v| v as i64).collect()))
    }

    /// A balance is kept one too high: 0 is an account that nobody has touched.
    fn balance(&self, account: Key) -> Result<i64, Refused> {
        let kept = self.read(account)?;
        Ok(if kept == 0 { ClientSpec::BALANCE } else { kept as i64 - 1 })
    }

    fn perform(&self, op: Op) -> Result<Answer, Stop> {
        let some = |value: u64| (value != 0).then_some(value as i64);
        Ok(match op {
            Op::Read(key) | Op::ReadRow(key) => Answer::Value(some(self.read(key)?)),
            Op::Write(key, value) => self.write(key, value)?,
            Op::ReadList(key) | Op::ReadSet(key) => self.list(key)?,
            Op::Append(key, value) | Op::Add(key, value) => self.write(key, value)?,
            Op::ReadCounter => Answer::Value(Some(self.read(0)? as i64)),
            Op::Increment(by) => self.write(0, self.read(0)? as i64 + by)?,
            Op::ReadBalances => {
                let mut rows = Vec::new();
                for account in 0..self.accounts {
                    rows.push((account, self.balance(account)?));
                }
                Answer::Rows(rows)
            }
            Op::Transfer { from, to, amount } => {
                let (paying, paid) = (self.balance(from)?, self.balance(to)?);
                if paying < amount {
                    return Err(Stop::Poor);
                }
                self.write(from, paying - amount + 1)?;
                self.write(to, paid + amount + 1)?
            }
            Op::Insert(key, value) => match self.read(key)? {
                0 => self.write(key, value)?,
                _ => return Err(Stop::Constraint),
            },
            Op::Update(key, value) => match self.read(key)? {
                0 => Answer::Missed,
                _ => self.write(key, value)?,
            },
            Op::Delete(key) => match self.read(key)? {
                0 => Answer::Missed,
                _ => self.write(key, 0)?,
            },
            Op::ReadWhere { modulus, rest } if modulus != 0 => {
                let mut rows = Vec::new();
                for key in self.store.keys() {
                    match self.read(key)? as i64 {
                        0 => {}
                        value if value % modulus == rest => rows.push((key, value)),
                        _ => {}
                    }
                }
                Answer::Rows(rows)
            }
            op => return Err(Stop::Unsupported(op)),
        })
    }
}

/// The keys that operations may write.
fn written(ops: &[Op]) -> Vec<Key> {
    let mut keys = Vec::new();
    for op in ops {
        match *op {
            Op::Write(key, _) | Op::Append(key, _) | Op::Add(key, _) | Op::Insert(key, _) => keys.push(key),
            Op::Update(key, _) | Op::Delete(key) => keys.push(key),
            Op::Increment(_) => keys.push(0),
            Op::Transfer { from, to, .. } => keys.extend([from, to]),
            _ => {}
        }
    }
    keys.sort_unstable();
    keys.dedup();
    keys
}

impl Session for SimulatedSession {
    fn transact(&mut self, ops: &[Op], answers: &mut Vec<Answer>) -> Ended {
        self.store.begin(self.session, &written(ops));
        for &op in ops {
            std::thread::sleep(LATENCY);
            match self.perform(op) {
                Ok(answer) => answers.push(answer),
                Err(stop) => {
                    self.store.rollback(self.session);
                    return match stop {
                        Stop::Refused => Ended::aborted("conflict", Refused),
                        Stop::Poor => Ended::aborted("constraint", "the account has too little"),
                        Stop::Constraint => Ended::aborted("constraint", "the row exists"),
                        Stop::Unsupported(op) => Ended::unsupported(op),
                    };
                }
            }
        }
        std::thread::sleep(LATENCY);
        match self.store.commit(self.session) {
            Ok(()) => Ended::Committed,
            Err(refused) => Ended::aborted("conflict", refused),
        }
    }
}
