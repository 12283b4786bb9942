//! Several versions of every key, as many as open snapshots can still ask for.
//!
//! The newest version lies in one dense column, because nearly all reads want it; older ones lie in a short
//! vector per key and are dropped once no open snapshot can see them. Memory: 40 bytes per key plus the
//! versions of the open window. A version's value is opaque here: the value of a register, or the length of
//! a list (lists only grow, so every version of one is a prefix of the same log).

/// A key's place in the dense columns. With key rotation a cell outlives its key and is used again.
pub(crate) type Cell = u32;

/// What a key held from the time `at` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Version {
    pub at: u64,
    pub value: u64,
}

/// The versions of all keys.
pub(crate) struct Store {
    newest: Vec<Version>,
    older: Vec<Vec<Version>>,
}

impl Store {
    pub fn new(cells: usize) -> Store {
        Store { newest: vec![Version::default(); cells], older: vec![Vec::new(); cells] }
    }

    #[inline]
    pub fn newest(&self, cell: Cell) -> Version {
        self.newest[cell as usize]
    }

    /// The version that a snapshot taken at time `snapshot` shows.
    #[inline]
    pub fn at(&self, cell: Cell, snapshot: u64) -> Version {
        let newest = self.newest[cell as usize];
        if newest.at <= snapshot {
            return newest;
        }
        let older = &self.older[cell as usize];
        older.iter().rev().find(|v| v.at <= snapshot).copied().unwrap_or_default()
    }

    /// Makes `version` the newest, replacing one of the same time. No transaction will ask for a time
    /// before `oldest` again.
    #[inline]
    pub fn install(&mut self, cell: Cell, version: Version, oldest: u64) {
        let newest = &mut self.newest[cell as usize];
        debug_assert!(newest.at <= version.at, "{newest:?} is newer than {version:?}");
        if newest.at != version.at {
            let older = &mut self.older[cell as usize];
            if newest.at <= oldest {
                older.clear();
            } else {
                let unreachable = older.partition_point(|v| v.at <= oldest).saturating_sub(1);
                older.drain(..unreachable);
            }
            older.push(*newest);
        }
        *newest = version;
    }

    /// Adds cells until there are `cells`.
    pub fn grow(&mut self, cells: usize) {
        self.newest.resize(cells, Version::default());
        self.older.resize(cells, Vec::new());
    }

    /// Forgets everything about a cell.
    pub fn clear(&mut self, cell: Cell) {
        self.newest[cell as usize] = Version::default();
        self.older[cell as usize] = Vec::new();
    }
}

/// The time of the oldest open snapshot, recomputed now and then: a bound that lags only keeps a few
/// versions longer.
pub(crate) struct Horizon {
    open: Vec<u64>,
    oldest: u64,
    calls: usize,
}

impl Horizon {
    pub fn new(sessions: usize) -> Horizon {
        Horizon { open: vec![u64::MAX; sessions], oldest: 0, calls: 0 }
    }

    #[inline]
    pub fn open(&mut self, session: u32, snapshot: u64) {
        self.open[session as usize] = snapshot;
    }

    #[inline]
    pub fn close(&mut self, session: u32) {
        self.open[session as usize] = u64::MAX;
    }

    /// A time that no snapshot, open now or taken at `earliest_new` or later, goes below. Amortised O(1).
    #[inline]
    pub fn oldest(&mut self, earliest_new: u64) -> u64 {
        self.calls += 1;
        if self.calls > self.open.len() {
            self.calls = 0;
            self.oldest = self.open.iter().copied().min().unwrap_or(earliest_new).min(earliest_new);
        }
        self.oldest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_keeps_its_versions_and_later_ones_are_dropped() {
        let mut store = Store::new(1);
        for at in 1..=10 {
            store.install(0, Version { at, value: at * 10 }, 4);
        }
        assert_eq!(store.at(0, 4).value, 40);
        assert_eq!(store.at(0, 7).value, 70);
        assert_eq!(store.at(0, 99).value, 100);
        assert!(store.older[0].len() <= 7, "{:?}", store.older[0]);
        store.install(0, Version { at: 11, value: 1 }, 10);
        assert_eq!(store.older[0].len(), 1);
    }

    #[test]
    fn the_last_write_of_one_moment_wins() {
        let mut store = Store::new(1);
        store.install(0, Version { at: 3, value: 1 }, 0);
        store.install(0, Version { at: 3, value: 2 }, 0);
        assert_eq!((store.at(0, 3).value, store.at(0, 2).value), (2, 0));
    }
}
