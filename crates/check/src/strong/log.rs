//! The log of a search: every clause with its cause, by number.

use super::scan::Constraint;
use super::solver::Lit;
use anomalist_history::{OpId, TxnId};
use anomalist_level::Choice;

/// Why a clause is true.
#[derive(Clone, Debug)]
pub(crate) enum Cause {
    /// The level requires it.
    Constraint(Constraint),
    /// An open read (or element) is one of its candidates.
    Source(u32),
    /// An open read did not return this (`None`: the initial state), as the known edges show.
    RuledOut { open: u32, write: Option<OpId> },
    /// What a read returned took effect.
    Observed(Choice),
    /// A transaction of unknown outcome, if it took effect, followed what it read.
    Follows { read: u32, writer: TxnId },
    /// A transaction of unknown outcome did not take effect: nothing explains this read, or only a write
    /// that was replaced.
    Impossible { read: OpId, replaced: Option<OpId> },
    /// A list shows (or may show) these two neighbours, or begins with the second.
    Version { read: OpId, first: OpId, second: OpId },
    /// A list's last element would be this append, after which its transaction made more.
    Intermediate { read: OpId, write: OpId },
    /// Two reads of a transaction that repeats its reads.
    Repeated { first: OpId, second: OpId },
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
