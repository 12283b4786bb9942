//! One state, written in place or at commit: read committed and read uncommitted.
//!
//! * *Read committed*: writes are installed together at commit; a read sees the committed state of that
//!   moment, and own writes. With commits ordered by time, having read from `t2` means that all of `t2` is
//!   in the state from then on, so the axiom of Biswas & Enea holds. Non-repeatable reads, fractured reads
//!   and lost updates are common.
//! * *Read uncommitted*: writes happen in place, and reads see them at once: intermediate, aborted and
//!   cyclic reads.
//!
//! No transaction may overwrite an uncommitted write (that would be G0), nor append to a list between
//! another transaction's append and commit (that one may have read its own append). Where this could happen
//! a transaction takes the locks of all keys it will write before it starts: its plan is known, so there
//! are no deadlocks, and no transaction is ever refused.

use crate::engine::{Conflict, Engine, Seen, Txn};
use crate::keys::Planned;
use crate::store::Cell;

const FREE: u32 = u32::MAX;

pub(crate) struct Locking {
    dirty: bool,
    lists: bool,
    /// Registers.
    values: Vec<u64>,
    /// Lists.
    logs: Vec<Vec<u64>>,
    holder: Vec<u32>,
}

impl Locking {
    /// `dirty`: writes are visible before their transaction commits.
    pub fn new(dirty: bool, lists: bool, cells: usize) -> Locking {
        let mut engine = Locking { dirty, lists, values: Vec::new(), logs: Vec::new(), holder: Vec::new() };
        engine.grow(cells);
        engine
    }

    fn apply(&mut self, cell: Cell, value: u64) {
        if self.lists {
            self.logs[cell as usize].push(value);
        } else {
            self.values[cell as usize] = value;
        }
    }

    /// The value of a register, or the length of a list.
    fn state(&self, cell: Cell) -> u64 {
        if self.lists { self.logs[cell as usize].len() as u64 } else { self.values[cell as usize] }
    }

    fn unlock(&mut self, txn: &mut Txn) {
        for cell in txn.locks.drain(..) {
            self.holder[cell as usize] = FREE;
        }
    }
}

impl Engine for Locking {
    fn begin(&mut self, txn: &mut Txn, plan: &[Planned], _now: u64, _alone: bool) -> bool {
        if !self.dirty && !self.lists {
            return true;
        }
        let writes = || plan.iter().filter(|p| p.write).map(|p| p.cell);
        if writes().any(|cell| self.holder[cell as usize] != FREE) {
            return false;
        }
        for cell in writes() {
            self.holder[cell as usize] = txn.session;
            txn.locks.push(cell);
        }
        true
    }

    #[inline]
    fn read(&mut self, _txn: &mut Txn, cell: Cell) -> Result<Seen, Conflict> {
        Ok(Seen { value: self.state(cell), own: !self.dirty })
    }

    #[inline]
    fn write(&mut self, txn: &mut Txn, cell: Cell, value: u64) -> Result<(), Conflict> {
        if self.dirty {
            txn.undo.push((cell, self.state(cell)));
            self.apply(cell, value);
        }
        Ok(())
    }

    fn commit(&mut self, txn: &mut Txn, _now: u64) -> Result<(), Conflict> {
        if !self.dirty {
            for &(cell, value) in &txn.writes {
                self.apply(cell, value);
            }
        }
        self.unlock(txn);
        Ok(())
    }

    fn rollback(&mut self, txn: &mut Txn) {
        for (cell, before) in txn.undo.drain(..).rev() {
            if self.lists {
                self.logs[cell as usize].truncate(before as usize);
            } else {
                self.values[cell as usize] = before;
            }
        }
        self.unlock(txn);
    }

    fn log(&self, cell: Cell) -> &[u64] {
        &self.logs[cell as usize]
    }

    fn grow(&mut self, cells: usize) {
        if self.lists {
            self.logs.resize(cells, Vec::new());
        } else {
            self.values.resize(cells, 0);
        }
        self.holder.resize(cells, FREE);
    }

    fn clear(&mut self, cell: Cell) {
        if self.lists {
            self.logs[cell as usize].clear();
        } else {
            self.values[cell as usize] = 0;
        }
    }
}
