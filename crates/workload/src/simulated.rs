//! A simulated database of a chosen level that real, concurrent sessions can run against.
//!
//! The engines are those behind [`generate`](crate::generate); here threads call them, one operation at a
//! time under a lock, instead of the seeded scheduler. So an execution is one that the scheduler could have
//! chosen, and keeps the same level. What happens concurrently is up to the threads: a session that pauses
//! between its operations lets others in.
//!
//! A transaction says beforehand which keys it will write, because locking engines take all locks at the
//! start (so there are no deadlocks); [`Simulated::begin`] waits until they are free.

use crate::client::Key;
use crate::engine::{Engine, Txn, engine_for};
use crate::keys::Planned;
use crate::spec::{Kind, SimLevel, Spec};
use crate::store::Cell;
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The database gave the transaction up: another transaction was first. It has had no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("refused: another transaction was first")]
pub struct Refused;

/// A simulated database. Keys hold 0, or the empty list, before their first write.
pub struct Simulated {
    lists: bool,
    state: Mutex<State>,
    /// A transaction committed or was given up: locks may be free.
    ended: Condvar,
}

struct State {
    engine: Box<dyn Engine + Send>,
    cells: BTreeMap<Key, Cell>,
    /// Begins and ends so far.
    clock: u64,
    /// Per session, its open transaction.
    open: Vec<Txn>,
}

impl Simulated {
    /// An empty database for this many sessions, of registers or of lists.
    pub fn new(level: SimLevel, lists: bool, sessions: u32, seed: u64) -> Simulated {
        let kind = if lists { Kind::ListAppend } else { Kind::Register };
        let spec = Spec { level, kind, sessions, keys: 1, ..Spec::default() };
        let open = (0..sessions).map(|session| Txn { session, ..Txn::default() }).collect();
        let engine = engine_for(&spec, seed);
        Simulated {
            lists,
            state: Mutex::new(State { engine, cells: BTreeMap::new(), clock: 0, open }),
            ended: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a transaction of a session that will write these keys and no others.
    pub fn begin(&self, session: u32, writes: &[Key]) {
        let mut state = self.state();
        let plan: Vec<Planned> =
            writes.iter().map(|&key| Planned { write: true, cell: state.cell(key) }).collect();
        loop {
            let State { engine, open, clock, .. } = &mut *state;
            let txn = &mut open[session as usize];
            txn.reset();
            if engine.begin(txn, &plan, *clock + 1, false) {
                *clock += 1;
                return;
            }
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Reads a register.
    pub fn read(&self, session: u32, key: Key) -> Result<u64, Refused> {
        let mut state = self.state();
        let cell = state.cell(key);
        let State { engine, open, .. } = &mut *state;
        let txn = &mut open[session as usize];
        match txn.own(cell) {
            Some(value) => Ok(value),
            None => engine.read(txn, cell).map(|seen| seen.value).map_err(|_| Refused),
        }
    }

    /// Reads a list.
    pub fn read_list(&self, session: u32, key: Key) -> Result<Vec<u64>, Refused> {
        let mut state = self.state();
        let cell = state.cell(key);
        let State { engine, open, .. } = &mut *state;
        let txn = &mut open[session as usize];
        let seen = engine.read(txn, cell).map_err(|_| Refused)?;
        let mut list = engine.log(cell)[..seen.value as usize].to_vec();
        list.extend(txn.writes.iter().filter(|w| seen.own && w.0 == cell).map(|w| w.1));
        Ok(list)
    }

    /// Writes a register, or appends to a list.
    pub fn write(&self, session: u32, key: Key, value: u64) -> Result<(), Refused> {
        let mut state = self.state();
        let cell = state.cell(key);
        let State { engine, open, .. } = &mut *state;
        let txn = &mut open[session as usize];
        engine.write(txn, cell, value).map_err(|_| Refused)?;
        txn.writes.push((cell, value));
        Ok(())
    }

    /// Commits. If that is refused, the transaction has been rolled back.
    pub fn commit(&self, session: u32) -> Result<(), Refused> {
        let mut state = self.state();
        let State { engine, open, clock, .. } = &mut *state;
        let txn = &mut open[session as usize];
        *clock += 1;
        let result = engine.commit(txn, *clock).map_err(|_| Refused);
        if result.is_err() {
            engine.rollback(txn);
        }
        txn.reset();
        drop(state);
        self.ended.notify_all();
        result
    }

    /// Gives the open transaction up.
    pub fn rollback(&self, session: u32) {
        let mut state = self.state();
        let State { engine, open, .. } = &mut *state;
        let txn = &mut open[session as usize];
        engine.rollback(txn);
        txn.reset();
        drop(state);
        self.ended.notify_all();
    }

    /// Every key that was ever read or written, in order.
    pub fn keys(&self) -> Vec<Key> {
        self.state().cells.keys().copied().collect()
    }

    /// Whether keys hold lists.
    pub fn has_lists(&self) -> bool {
        self.lists
    }
}

impl State {
    fn cell(&mut self, key: Key) -> Cell {
        let next = self.cells.len();
        *self.cells.entry(key).or_insert_with(|| {
            self.engine.grow(next + 1);
            next as Cell
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_stay_and_the_first_committer_wins() {
        let db = Simulated::new(SimLevel::SnapshotIsolation, false, 2, 1);
        db.begin(0, &[1]);
        db.begin(1, &[1]);
        db.write(0, 1, 10).unwrap();
        assert_eq!((db.read(0, 1), db.read(1, 1)), (Ok(10), Ok(0)));
        db.commit(0).unwrap();
        assert_eq!(db.read(1, 1), Ok(0));
        assert_eq!(db.write(1, 1, 20), Err(Refused));
        db.rollback(1);
        db.begin(1, &[]);
        assert_eq!(db.read(1, 1), Ok(10));
        db.commit(1).unwrap();
        assert_eq!((db.keys(), db.has_lists()), (vec![1], false));
    }

    #[test]
    fn locks_are_waited_for() {
        let db = Simulated::new(SimLevel::ReadCommitted, true, 2, 1);
        std::thread::scope(|scope| {
            db.begin(0, &[5]);
            db.write(0, 5, 1).unwrap();
            let other = scope.spawn(|| {
                db.begin(1, &[5]);
                db.write(1, 5, 2).unwrap();
                let seen = db.read_list(1, 5).unwrap();
                db.commit(1).unwrap();
                seen
            });
            assert_eq!(db.read_list(0, 5), Ok(vec![1]));
            db.commit(0).unwrap();
            assert_eq!(other.join().unwrap(), [1, 2]);
        });
    }
}
