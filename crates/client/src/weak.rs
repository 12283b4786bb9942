//! The mock weak database of `anomalist-weakdb` as an engine: every read returns any value that the level
//! allows.
//!
//! Registers only: a list that is read and written back loses appends at weak levels, which is not what an
//! append promises.

use crate::cells::{Cells, Stop, perform};
use crate::{Answer, Ended, Engine, EngineError, Key, Op, Session};
use anomalist_level::Level;
use anomalist_weakdb::{Error, Options, Store, Value};
use anomalist_workload::client::ClientSpec;
use std::sync::Arc;
use std::time::Duration;

/// The time between two operations: see `simulated.rs`.
const LATENCY: Duration = Duration::from_micros(50);

/// A mock weak database.
pub struct WeakEngine {
    store: Arc<Store>,
    accounts: u64,
}

impl WeakEngine {
    /// A fresh one. Fails if it does not know the level.
    pub fn new(level: Level, spec: &ClientSpec) -> Result<WeakEngine, EngineError> {
        let options = Options { seed: spec.seed, ..Options::new(level) };
        let store = Store::new(options).map_err(EngineError::new)?;
        Ok(WeakEngine { store, accounts: spec.keys })
    }
}

impl Engine for WeakEngine {
    fn describe(&self) -> String {
        format!("weakdb, {}", self.store.options().level)
    }

    fn open(&self, session: u32) -> Result<Box<dyn Session>, EngineError> {
        let session = self.store.session(&session.to_string());
        Ok(Box::new(WeakSession { session, accounts: self.accounts }))
    }
}

struct WeakSession {
    session: anomalist_weakdb::Session,
    accounts: u64,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Refused(error.to_string())
    }
}

impl Cells for WeakSession {
    fn read(&mut self, key: Key) -> Result<i64, Stop> {
        let value = self.session.read(&key.to_string())?;
        Ok(value.as_ref().and_then(Value::as_int).unwrap_or(0))
    }

    fn write(&mut self, key: Key, value: i64) -> Result<(), Stop> {
        Ok(self.session.write(&key.to_string(), value)?)
    }

    fn keys(&self) -> Vec<Key> {
        self.session.keys("").iter().filter_map(|name| name.parse().ok()).collect()
    }

    fn accounts(&self) -> u64 {
        self.accounts
    }
}

impl Session for WeakSession {
    fn transact(&mut self, ops: &[Op], answers: &mut Vec<Answer>) -> Ended {
        if let Err(error) = self.session.begin() {
            return Stop::from(error).into();
        }
        for &op in ops {
            std::thread::sleep(LATENCY);
            match perform(self, op) {
                Ok(answer) => answers.push(answer),
                Err(stop) => {
                    // A conflict has rolled it back already.
                    _ = self.session.rollback();
                    return stop.into();
                }
            }
        }
        match self.session.commit() {
            Ok(()) => Ended::Committed,
            Err(error) => Stop::from(error).into(),
        }
    }
}
