//! Assumptions about the order of a register's versions, as rules that an order of versions keeps or breaks.
//!
//! The rank of a version is its place in the order; the initial version has rank 0. An operation that shows
//! a version has its rank: a write that of what its transaction installs, an external read of an installed
//! version that version's.

use super::raw::{Origin, Raw};
use anomalist_history::{OpId, OpKind, Outcome, TxnId};

/// What is assumed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assumed {
    /// A transaction that reads a key before it writes it installs a later version.
    pub writes_follow_reads: bool,
    /// Along a session, operation by operation, ranks of a key do not fall.
    pub sequential_keys: bool,
    /// That, and also from any operation of a transaction that ended to any of one that began after it.
    pub linearizable_keys: bool,
    /// By commit timestamp, versions do not fall in rank.
    pub commit_stamps: bool,
    /// By version number, versions do not fall in rank. A version that was shown under two numbers has none.
    pub version_numbers: bool,
    /// The same by these numbers of transactions.
    pub transaction_order: Vec<(TxnId, i64)>,
}

impl Raw<'_> {
    /// True if an order of a key's versions (final writes) keeps all rules.
    pub(super) fn agrees(
        &self,
        exists: &[bool],
        seen: &[bool],
        key: usize,
        order: &[usize],
        assumed: &Assumed,
    ) -> bool {
        if self.lists[key] {
            return true;
        }
        let ranks: Vec<(usize, usize)> = (0..self.ops.len())
            .filter(|&i| self.ops[i].key == key)
            .filter_map(|i| Some((i, self.rank(exists, seen, order, i)?)))
            .collect();
        let pairs = || ranks.iter().flat_map(|a| ranks.iter().map(move |b| (*a, *b)));
        let txn = |i: usize| TxnId(self.ops[i].txn as u32);
        let after = |i: usize, j: usize| {
            self.history.session_before(txn(i), txn(j)) || i < j && self.ops[i].txn == self.ops[j].txn
        };
        let follows = pairs().all(|((i, a), (j, b))| {
            let own = self.ops[i].txn == self.ops[j].txn
                && self.ops[i].kind == OpKind::Read
                && self.ops[j].kind == OpKind::Write;
            !assumed.writes_follow_reads || !own || j < i || a < b
        });
        let sequential = assumed.sequential_keys || assumed.linearizable_keys;
        let in_sessions = !sequential || pairs().all(|((i, a), (j, b))| !after(i, j) || a <= b);
        let ended = |i: usize, j: usize| {
            let (a, b) = (self.ops[i].txn, self.ops[j].txn);
            let Some(intervals) = self.history.intervals() else { return false };
            self.outcome(a) == Outcome::Committed
                && intervals[a].completed.is_some_and(|end| end < intervals[b].invoked)
        };
        let in_time = !assumed.linearizable_keys || pairs().all(|((i, a), (j, b))| !ended(i, j) || a <= b);
        let number = |t: usize| assumed.transaction_order.iter().find(|(of, _)| of.index() == t).map(|n| n.1);
        let commit = |t: usize| self.history.stamps().map(|s| s[t].commit);
        let writers = || order.iter().map(|&w| self.ops[w].txn);
        let written = || writers().enumerate().flat_map(|(i, a)| writers().skip(i + 1).map(move |b| (a, b)));
        let as_given = written().all(|(a, b)| match (number(a), number(b)) {
            (Some(a), Some(b)) => a <= b,
            _ => true,
        });
        let as_committed = !assumed.commit_stamps || written().all(|(a, b)| commit(a) <= commit(b));
        let numbers = self.numbers(&ranks);
        let as_numbered = !assumed.version_numbers
            || numbers.iter().all(|a| numbers.iter().all(|b| a.0 >= b.0 || a.1 <= b.1));
        follows && in_sessions && in_time && as_given && as_committed && as_numbered
    }

    /// Number and rank of every version that was shown under one number only.
    fn numbers(&self, ranks: &[(usize, usize)]) -> Vec<(i64, usize)> {
        let last = |i: usize| {
            let later = ranks.iter().filter(|(j, _)| *j > i && self.ops[*j].txn == self.ops[i].txn);
            self.ops[i].kind == OpKind::Read
                || later.into_iter().all(|(j, _)| self.ops[*j].kind == OpKind::Read)
        };
        let shown: Vec<(i64, usize)> = ranks
            .iter()
            .filter(|(i, _)| last(*i))
            .filter_map(|&(i, rank)| Some((self.history.version(OpId(i as u32))?, rank)))
            .collect();
        shown.iter().copied().filter(|a| shown.iter().all(|b| a.1 != b.1 || a.0 == b.0)).collect()
    }

    /// The rank of the version that an operation shows.
    fn rank(&self, exists: &[bool], seen: &[bool], order: &[usize], op: usize) -> Option<usize> {
        let place = |t: usize| order.iter().position(|&w| self.ops[w].txn == t).map(|i| i + 1);
        let o = &self.ops[op];
        if o.kind == OpKind::Write {
            return exists[o.txn].then(|| place(o.txn))?;
        }
        if !self.own_before(op).is_empty() || !self.reads(seen).contains(&op) {
            return None;
        }
        match self.origin(exists, op) {
            Origin::Initial => Some(0),
            Origin::Write(w) => order.contains(&w).then(|| place(self.ops[w].txn))?,
            Origin::Nothing | Origin::Several => None,
        }
    }
}
