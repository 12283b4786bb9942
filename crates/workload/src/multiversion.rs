//! One multi-version store: snapshot isolation, serializability and read atomicity.
//!
//! * *Snapshot isolation*: read as of the start; first committer wins.
//! * *Serializable*: the same, and at commit nothing it read may have changed since its start. So a
//!   transaction could have happened at its commit alone (which is between its begin and end: strict
//!   serializability), and its timestamps satisfy both the SI and the SER axioms.
//! * *Read atomic*: a snapshot of a random recent moment, plus the session's own later transactions;
//!   nothing is refused. With commits ordered by time the ReadAtomic axiom (Biswas & Enea 2019) holds:
//!   every transaction that a given one reads from, or follows in its session, is in the snapshot as a
//!   whole or is in the overlay as a whole, and of each key the newest such version is read. Causality does
//!   not hold: the next snapshot may be older, and the overlay lacks what it depends on.

use crate::engine::{Conflict, Engine, Seen, Txn};
use crate::keys::Planned;
use crate::spec::SimLevel;
use crate::store::{Cell, Horizon, Store, Version};

pub(crate) struct Multiversion {
    level: SimLevel,
    lists: bool,
    store: Store,
    logs: Vec<Vec<u64>>,
    horizon: Horizon,
    /// Read atomic: how far back a snapshot may lie.
    staleness: u64,
    /// Read atomic: per session, what it wrote since the oldest moment a snapshot may still show.
    overlay: Vec<Vec<(Cell, Version)>>,
    rng: fastrand::Rng,
}

impl Multiversion {
    pub fn new(level: SimLevel, lists: bool, cells: usize, sessions: usize, seed: u64) -> Multiversion {
        Multiversion {
            level,
            lists,
            store: Store::new(cells),
            logs: vec![Vec::new(); if lists { cells } else { 0 }],
            horizon: Horizon::new(sessions),
            // Two clock ticks per transaction: about four transactions of every session.
            staleness: if level == SimLevel::ReadAtomic { 8 * sessions as u64 } else { 0 },
            overlay: vec![Vec::new(); sessions],
            rng: fastrand::Rng::with_seed(seed),
        }
    }

    fn changed_since(&self, cell: Cell, snapshot: u64) -> bool {
        self.store.newest(cell).at > snapshot
    }

    fn may_commit(&self, txn: &Txn) -> bool {
        if self.level == SimLevel::ReadAtomic {
            return txn.pinned.iter().all(|&(cell, len)| self.store.newest(cell).value == len);
        }
        let unchanged = |cell| !self.changed_since(cell, txn.snapshot);
        txn.writes.iter().all(|w| unchanged(w.0)) && txn.reads.iter().all(|&cell| unchanged(cell))
    }
}

impl Engine for Multiversion {
    fn begin(&mut self, txn: &mut Txn, _plan: &[Planned], now: u64, alone: bool) -> bool {
        let back = if self.staleness == 0 || alone { 0 } else { self.rng.u64(0..=self.staleness) };
        txn.snapshot = now.saturating_sub(back);
        self.horizon.open(txn.session, txn.snapshot);
        true
    }

    #[inline]
    fn read(&mut self, txn: &mut Txn, cell: Cell) -> Result<Seen, Conflict> {
        let mut version = self.store.at(cell, txn.snapshot);
        match self.level {
            SimLevel::Serializable => {
                if self.changed_since(cell, txn.snapshot) {
                    return Err(Conflict);
                }
                txn.reads.push(cell);
            }
            SimLevel::ReadAtomic => {
                let mine = self.overlay[txn.session as usize].iter().rev().find(|o| o.0 == cell);
                version = mine.map(|o| o.1).filter(|v| v.at > version.at).unwrap_or(version);
                if self.lists && txn.own(cell).is_some() {
                    if self.store.newest(cell).value != version.value {
                        return Err(Conflict);
                    }
                    txn.pinned.push((cell, version.value));
                }
            }
            _ => {}
        }
        Ok(Seen { value: version.value, own: true })
    }

    #[inline]
    fn write(&mut self, txn: &mut Txn, cell: Cell, _value: u64) -> Result<(), Conflict> {
        // It could not commit any more: no need to go on.
        let doomed = self.level != SimLevel::ReadAtomic && self.changed_since(cell, txn.snapshot);
        if doomed { Err(Conflict) } else { Ok(()) }
    }

    fn commit(&mut self, txn: &mut Txn, now: u64) -> Result<(), Conflict> {
        if !self.may_commit(txn) {
            return Err(Conflict);
        }
        self.horizon.close(txn.session);
        let earliest_snapshot = now.saturating_sub(self.staleness);
        let oldest = self.horizon.oldest(earliest_snapshot);
        let overlay = &mut self.overlay[txn.session as usize];
        overlay.retain(|o| o.1.at > earliest_snapshot);
        for &(cell, value) in &txn.writes {
            let value = if self.lists {
                let log = &mut self.logs[cell as usize];
                log.push(value);
                log.len() as u64
            } else {
                value
            };
            let version = Version { at: now, value };
            self.store.install(cell, version, oldest);
            if self.staleness > 0 {
                overlay.push((cell, version));
            }
        }
        Ok(())
    }

    fn rollback(&mut self, txn: &mut Txn) {
        self.horizon.close(txn.session);
    }

    fn log(&self, cell: Cell) -> &[u64] {
        &self.logs[cell as usize]
    }

    fn grow(&mut self, cells: usize) {
        self.store.grow(cells);
        if self.lists {
            self.logs.resize(cells, Vec::new());
        }
    }

    fn clear(&mut self, cell: Cell) {
        self.store.clear(cell);
        if self.lists {
            self.logs[cell as usize].clear();
        }
        if self.staleness > 0 {
            for overlay in &mut self.overlay {
                overlay.retain(|o| o.0 != cell);
            }
        }
    }
}
