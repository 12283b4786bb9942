//! Relations over at most 128 transactions or operations, one bit mask per row.

use super::reading::{Facts, Reading};

/// `self.rows[a]` has bit `b` iff `a -> b`.
#[derive(Clone)]
pub(super) struct Relation {
    pub rows: Vec<u128>,
}

impl Relation {
    pub fn empty(n: usize) -> Relation {
        assert!(n <= 128, "{n} are too many for one mask");
        Relation { rows: vec![0; n] }
    }

    pub fn add(&mut self, a: usize, b: usize) {
        self.rows[a] |= 1 << b;
    }

    pub fn has(&self, a: usize, b: usize) -> bool {
        self.rows[a] >> b & 1 == 1
    }

    pub fn union(&self, other: &Relation) -> Relation {
        Relation { rows: self.rows.iter().zip(&other.rows).map(|(a, b)| a | b).collect() }
    }

    /// `self ; other`: `a -> c` iff `a -> b` here and `b -> c` there for some `b`.
    pub fn then(&self, other: &Relation) -> Relation {
        let mut composed = Relation::empty(self.rows.len());
        for (a, row) in composed.rows.iter_mut().enumerate() {
            for b in (0..self.rows.len()).filter(|&b| self.has(a, b)) {
                *row |= other.rows[b];
            }
        }
        composed
    }

    /// Transitive closure (Warshall).
    pub fn closure(mut self) -> Relation {
        for via in 0..self.rows.len() {
            for a in 0..self.rows.len() {
                if self.has(a, via) {
                    self.rows[a] |= self.rows[via];
                }
            }
        }
        self
    }
}

/// The relations of section 2.2 under one reading, over transactions that exist. INIT is not in them: it
/// precedes all.
pub(super) struct Orders {
    pub so: Relation,
    pub wr: Relation,
    /// `(so ∪ wr)+`.
    pub hb: Relation,
}

impl Orders {
    pub fn new(facts: &Facts<'_>, reading: &Reading) -> Orders {
        let n = facts.txn_count();
        let exists = |t: usize| reading.committed >> t & 1 == 1;
        let (mut so, mut wr) = (Relation::empty(n), Relation::empty(n));
        for a in (0..n).filter(|&a| exists(a)) {
            for b in (a + 1..n).filter(|&b| exists(b) && facts.same_session_before(a, b)) {
                so.add(a, b);
            }
        }
        for read in &reading.external {
            if let Some(writer) = read.from {
                wr.add(writer, read.reader);
            }
        }
        let hb = so.union(&wr).closure();
        Orders { so, wr, hb }
    }

    pub fn cyclic(&self) -> bool {
        (0..self.hb.rows.len()).any(|t| self.hb.has(t, t))
    }
}
