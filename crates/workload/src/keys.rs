//! What a transaction will do, and the life of keys.
//!
//! A transaction's operations are planned before it starts: a retry then repeats the same operations, so
//! conflicts don't bias the distribution, and a locking engine knows what to lock.
//!
//! List-append histories retire keys, because every read repeats the whole list: after `writes_per_key`
//! planned appends a fresh key takes the slot of the old one. The old key's cell is used again once no open
//! transaction has planned it, so memory follows the number of active keys, not of all keys there ever
//! were.

use crate::sample::Sampler;
use crate::spec::Spec;
use crate::store::Cell;

/// One operation to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Planned {
    pub write: bool,
    pub cell: Cell,
}

/// Plans transactions, and owns the names of keys.
pub(crate) struct Keys {
    sampler: Sampler,
    read_ratio: f64,
    ops: std::ops::RangeInclusive<u32>,
    next_label: u64,
    rotation: Option<Rotation>,
}

struct Rotation {
    writes_per_key: u32,
    /// Which cell has a slot now.
    cell: Vec<Cell>,
    cells: Vec<CellState>,
    free: Vec<Cell>,
}

#[derive(Clone, Copy)]
struct CellState {
    label: u64,
    appends: u32,
    /// Operations that open transactions have planned on it.
    planned: u32,
    retired: bool,
}

impl Keys {
    pub fn new(spec: &Spec) -> Keys {
        let fresh = |label| CellState { label, appends: 0, planned: 0, retired: false };
        let rotation = spec.writes_per_key.map(|writes_per_key| Rotation {
            writes_per_key,
            cell: (0..spec.keys as Cell).collect(),
            cells: (0..spec.keys).map(fresh).collect(),
            free: Vec::new(),
        });
        Keys {
            sampler: Sampler::new(spec.distribution, spec.keys),
            read_ratio: spec.read_ratio,
            ops: spec.min_ops_per_txn.unwrap_or(spec.ops_per_txn)..=spec.ops_per_txn,
            next_label: spec.keys,
            rotation,
        }
    }

    /// Plans one transaction.
    pub fn plan(&mut self, rng: &mut fastrand::Rng, plan: &mut Vec<Planned>) {
        plan.clear();
        let ops =
            if self.ops.start() == self.ops.end() { *self.ops.end() } else { rng.u32(self.ops.clone()) };
        for _ in 0..ops {
            let write = rng.f64() >= self.read_ratio;
            let slot = self.sampler.sample(rng);
            let cell = match &mut self.rotation {
                None => slot as Cell,
                Some(rotation) => rotation.plan(slot as usize, write, &mut self.next_label),
            };
            plan.push(Planned { write, cell });
        }
    }

    /// A planned transaction is over. Calls `clear` for every cell that no transaction needs any more.
    pub fn done(&mut self, plan: &[Planned], mut clear: impl FnMut(Cell)) {
        let Some(rotation) = &mut self.rotation else { return };
        for p in plan {
            let state = &mut rotation.cells[p.cell as usize];
            state.planned -= 1;
            if state.retired && state.planned == 0 {
                clear(p.cell);
                rotation.free.push(p.cell);
            }
        }
    }

    /// The name of the key in a cell.
    #[inline]
    pub fn label(&self, cell: Cell) -> u64 {
        self.rotation.as_ref().map_or(u64::from(cell), |r| r.cells[cell as usize].label)
    }

    /// A name that no key has had yet.
    pub fn fresh_label(&mut self) -> u64 {
        self.next_label += 1;
        self.next_label - 1
    }

    /// Number of cells in use or to be used again.
    pub fn cells(&self) -> Option<usize> {
        self.rotation.as_ref().map(|r| r.cells.len())
    }
}

impl Rotation {
    fn plan(&mut self, slot: usize, write: bool, next_label: &mut u64) -> Cell {
        let cell = self.cell[slot];
        let state = &mut self.cells[cell as usize];
        state.planned += 1;
        state.appends += u32::from(write);
        if state.appends == self.writes_per_key {
            state.retired = true;
            let fresh = CellState { label: *next_label, appends: 0, planned: 0, retired: false };
            *next_label += 1;
            self.cell[slot] = match self.free.pop() {
                Some(cell) => {
                    self.cells[cell as usize] = fresh;
                    cell
                }
                None => {
                    self.cells.push(fresh);
                    (self.cells.len() - 1) as Cell
                }
            };
        }
        cell
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_key_retires_after_its_last_append_and_its_cell_returns() {
        let spec = Spec {
            kind: crate::Kind::ListAppend,
            keys: 3,
            writes_per_key: Some(5),
            ops_per_txn: 7,
            min_ops_per_txn: Some(1),
            ..Spec::default()
        };
        let mut keys = Keys::new(&spec);
        let mut rng = fastrand::Rng::with_seed(1);
        let (mut plan, mut appends, mut lengths) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        for _ in 0..500 {
            keys.plan(&mut rng, &mut plan);
            *lengths.entry(plan.len()).or_insert(0) += 1;
            for p in plan.iter().filter(|p| p.write) {
                *appends.entry(keys.label(p.cell)).or_insert(0) += 1;
            }
            keys.done(&plan, |_| {});
        }
        assert_eq!(lengths.keys().copied().collect::<Vec<_>>(), (1..=7).collect::<Vec<_>>());
        assert!(appends.len() > 100);
        assert_eq!(appends.values().filter(|&&n| n != 5).count(), 3, "{appends:?}");
        assert!(keys.cells() < Some(20), "{:?}", keys.cells());
    }
}
