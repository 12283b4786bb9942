//! What every simulated database offers to the scheduler.
//!
//! An engine decides one thing: which version of a key a transaction sees, and whether it may commit.
//! Schedules, retries, own writes and recording are the same for all and live in `run.rs`. An engine gets
//! the time from its caller (a counter of begin and commit events), so a run depends on nothing but its
//! seed.

use crate::keys::Planned;
use crate::spec::{SimLevel, Spec};
use crate::store::Cell;
use crate::{locking::Locking, multiversion::Multiversion, replicas::Replicas};

/// The transaction must start again: another transaction was first.
#[derive(Debug)]
pub(crate) struct Conflict;

/// A running transaction, as engines see it.
#[derive(Default)]
pub(crate) struct Txn {
    pub session: u32,
    /// The time up to which it sees others; each engine has its own clock for this.
    pub snapshot: u64,
    /// Its writes or appends so far, in program order.
    pub writes: Vec<(Cell, u64)>,
    /// Cells it read, where the engine validates reads.
    pub reads: Vec<Cell>,
    /// Lists it read after appending to them, with the length it saw: no other transaction may append
    /// before it commits.
    pub pinned: Vec<(Cell, u64)>,
    /// Cells it has locked.
    pub locks: Vec<Cell>,
    /// How to take back what it wrote in place.
    pub undo: Vec<(Cell, u64)>,
}

impl Txn {
    /// Forgets everything but the session.
    pub fn reset(&mut self) {
        self.writes.clear();
        self.reads.clear();
        self.pinned.clear();
        self.locks.clear();
        self.undo.clear();
    }

    /// The latest value it wrote to a cell itself.
    #[inline]
    pub fn own(&self, cell: Cell) -> Option<u64> {
        self.writes.iter().rev().find(|w| w.0 == cell).map(|w| w.1)
    }
}

/// What a read sees of others: the value of a register, or the length of a prefix of the list. With `own`,
/// the transaction's own writes come on top.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    pub value: u64,
    pub own: bool,
}

/// A simulated database.
pub(crate) trait Engine {
    /// Starts a transaction whose operations will be `plan`; false if it has to wait. `alone`: nothing else
    /// will happen until it commits, and it must not be refused any more.
    fn begin(&mut self, txn: &mut Txn, plan: &[Planned], now: u64, alone: bool) -> bool;

    /// What a read of a cell sees.
    fn read(&mut self, txn: &mut Txn, cell: Cell) -> Result<Seen, Conflict>;

    /// Called before a write is added to `txn.writes`.
    fn write(&mut self, txn: &mut Txn, cell: Cell, value: u64) -> Result<(), Conflict>;

    /// Makes the writes of a transaction visible, at once.
    fn commit(&mut self, txn: &mut Txn, now: u64) -> Result<(), Conflict>;

    /// Takes the transaction back.
    fn rollback(&mut self, txn: &mut Txn);

    /// The elements ever appended to a list cell.
    fn log(&self, cell: Cell) -> &[u64];

    /// Brings everybody up to date: what follows may depend on anything before.
    fn synchronise(&mut self) {}

    /// There are now this many cells.
    fn grow(&mut self, cells: usize);

    /// The key of this cell has retired and no open transaction uses it.
    fn clear(&mut self, cell: Cell);
}

/// The engine for a specification.
pub(crate) fn engine_for(spec: &Spec, seed: u64) -> Box<dyn Engine + Send> {
    let (cells, sessions) = (spec.keys as usize, spec.sessions as usize);
    let lists = spec.kind.is_list();
    match spec.level {
        SimLevel::Serializable | SimLevel::SnapshotIsolation | SimLevel::ReadAtomic => {
            Box::new(Multiversion::new(spec.level, lists, cells, sessions, seed))
        }
        SimLevel::Causal => Box::new(Replicas::new(lists, cells, sessions, seed)),
        SimLevel::ReadCommitted => Box::new(Locking::new(false, lists, cells)),
        SimLevel::ReadUncommitted => Box::new(Locking::new(true, lists, cells)),
    }
}
