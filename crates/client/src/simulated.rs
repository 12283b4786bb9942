//! The simulated databases of `anomalist-workload` as an engine.
//!
//! Before each operation a session sleeps for the time a network would take, so that transactions of
//! different sessions overlap as they do against a real server; otherwise threads would hardly ever meet.

use crate::cells::{Cells, Stop, perform};
use crate::{Answer, Ended, Engine, EngineError, Key, Op, Session};
use anomalist_workload::client::{ClientSpec, Recording, Workload};
use anomalist_workload::{Refused, SimLevel, Simulated};
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

impl From<Refused> for Stop {
    fn from(refused: Refused) -> Stop {
        Stop::Refused(refused.to_string())
    }
}

impl Cells for SimulatedSession {
    fn read(&mut self, key: Key) -> Result<i64, Stop> {
        Ok(self.store.read(self.session, key)? as i64)
    }

    fn write(&mut self, key: Key, value: i64) -> Result<(), Stop> {
        Ok(self.store.write(self.session, key, value as u64)?)
    }

    fn list(&mut self, key: Key) -> Result<Vec<i64>, Stop> {
        let list = self.store.read_list(self.session, key)?;
        Ok(list.into_iter().map(|v| v as i64).collect())
    }

    fn append(&mut self, key: Key, value: i64) -> Result<(), Stop> {
        self.write(key, value)
    }

    fn keys(&self) -> Vec<Key> {
        self.store.keys()
    }

    fn accounts(&self) -> u64 {
        self.accounts
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
            match perform(self, op) {
                Ok(answer) => answers.push(answer),
                Err(stop) => {
                    self.store.rollback(self.session);
                    return stop.into();
                }
            }
        }
        std::thread::sleep(LATENCY);
        match self.store.commit(self.session) {
            Ok(()) => Ended::Committed,
            Err(refused) => Stop::from(refused).into(),
        }
    }
}
