//! The log of a search: every clause with its cause, by number.

use super::scan::Demand;
use super::solver::Lit;
use isolde_history::{OpId, TxnId};

/// Why a clause is true.
#[derive(Clone, Debug)]
pub(crate) enum Cause {
    /// The level demands it.
    Demand(Demand),
    /// An open read returned one of its candidates.
    Source(u32),
    /// What an open read returned took effect.
    Observed { open: u32, writer: TxnId },
    /// A transaction of unknown outcome did not take effect, because this read has no source.
    Impossible(OpId),
    /// These edges close a cycle with known ones, in this order.
    Cycle(Vec<Lit>),
    /// Earlier clauses imply it.
    Implied(Vec<u32>),
}

/// A clause and its cause.
pub(crate) struct Entry {
    pub lits: Vec<Lit>,
    pub cause: Cause,
}

/// All clauses of a search.
#[derive(Default)]
pub(crate) struct Log {
    pub entries: Vec<Entry>,
}

impl Log {
    pub fn add(&mut self, lits: Vec<Lit>, cause: Cause) -> u32 {
        self.entries.push(Entry { lits, cause });
        (self.entries.len() - 1) as u32
    }
}
