//! Guess and verify: does this order prove the level?
//!
//! A commit order proves a level iff, for every external read of `x` from `t1` by `t3`, no transaction that writes `x` and
//! is visible to `t3` comes after `t1` (Biswas & Enea 2019, Def. 2.4, with the visibility of `algorithms.md` 2.2). Playing
//! the order keeps, per key, the chain of its writers so far; nearly always the last one is `t1` and the read is done.
//! Otherwise the chain is walked back to `t1`. A walk that gets long gives way to asking which writers are visible, so a
//! read costs O(min(writers since `t1`, visible candidates)).

use super::clocks::Clocks;
use super::order::Order;
use super::problem::{Problem, Read, Stamped};
use crate::budget::{Budget, OutOfBudget};
use isolde_history::{KeyId, OpId, TxnId};

/// Which transactions a read must take into account.
pub(crate) trait Visibility {
    /// Starts the next transaction of the order.
    fn enter(&mut self, t: TxnId);
    /// Is `other` visible to this read of the transaction entered last?
    fn sees(&self, other: TxnId, read: OpId) -> bool;
    /// Is some writer of `key` visible to this read and later than `bound` (anything, if `None`) in the order?
    fn sees_later_writer(&self, read: Read, order: &Order) -> bool;
    /// Ends the transaction entered last.
    fn leave(&mut self, t: TxnId);
}

const NONE: u32 = u32::MAX;
const WALK_LIMIT: u32 = 64;
/// Transactions between two looks at the budget.
const POLL_EVERY: usize = 4096;

/// True if the order, which respects causality, proves the level.
pub(crate) fn proves(
    problem: &Problem<'_>,
    order: &Order,
    visibility: &mut impl Visibility,
    budget: &Budget<'_>,
) -> Result<bool, OutOfBudget> {
    let mut last = vec![NONE; problem.history.key_count()];
    let mut chain: Vec<(TxnId, u32)> = Vec::new();
    for (i, &t) in order.txns.iter().enumerate() {
        if i % POLL_EVERY == 0 && budget.is_spent() {
            return Err(OutOfBudget);
        }
        visibility.enter(t);
        for read in problem.reads(t) {
            let mut node = last[read.key.index()];
            let mut steps = 0;
            while node != NONE {
                let (writer, before) = chain[node as usize];
                if Some(writer) == read.from {
                    break;
                }
                if visibility.sees(writer, read.op) {
                    return Ok(false);
                }
                steps += 1;
                if steps == WALK_LIMIT {
                    if visibility.sees_later_writer(read, order) {
                        return Ok(false);
                    }
                    break;
                }
                node = before;
            }
        }
        for key in problem.written(t) {
            let head = &mut last[key.index()];
            if *head == NONE || chain[*head as usize].0 != t {
                chain.push((t, *head));
                *head = chain.len() as u32 - 1;
            }
        }
        visibility.leave(t);
    }
    Ok(true)
}

/// Is `t2` after the writer that the read saw?
fn is_later(order: &Order, t2: TxnId, read: Read) -> bool {
    read.from.is_none_or(|t1| order.before(t1, t2))
}

/// Read committed: what the transaction read from, before this read.
/// Read atomic: what it read from anywhere, and the earlier transactions of its session.
pub(crate) struct DirectlySeen<'a> {
    problem: Problem<'a>,
    first_read: Stamped<u32>,
    current: TxnId,
    atomic: bool,
}

impl<'a> DirectlySeen<'a> {
    pub fn read_committed(problem: Problem<'a>) -> Self {
        Self::new(problem, false)
    }

    pub fn read_atomic(problem: Problem<'a>) -> Self {
        Self::new(problem, true)
    }

    fn new(problem: Problem<'a>, atomic: bool) -> Self {
        DirectlySeen { problem, first_read: Stamped::new(problem.txn_count()), current: TxnId(0), atomic }
    }

    fn own_session_sees(&self, other: TxnId) -> bool {
        let history = self.problem.history;
        self.atomic && other < self.current && history.session_of(other) == history.session_of(self.current)
    }

    /// The latest earlier writer of a key in the current session.
    fn own_session_writer(&self, key: KeyId) -> Option<TxnId> {
        let writers = self.problem.index.writers(key);
        let before = writers.partition_point(|&w| w < self.current);
        writers[..before].last().copied().filter(|&w| self.own_session_sees(w))
    }
}

impl Visibility for DirectlySeen<'_> {
    fn enter(&mut self, t: TxnId) {
        self.current = t;
        self.first_read.next_round();
        for read in self.problem.reads(t) {
            if let Some(w) = read.from
                && self.first_read.get(w.index()).is_none()
            {
                self.first_read.set(w.index(), read.op.0);
            }
        }
    }

    #[inline]
    fn sees(&self, other: TxnId, read: OpId) -> bool {
        match self.first_read.get(other.index()) {
            Some(first) if self.atomic || first < read.0 => true,
            _ => self.own_session_sees(other),
        }
    }

    fn sees_later_writer(&self, read: Read, order: &Order) -> bool {
        let seen = self.problem.reads(self.current).filter(|r| self.atomic || r.op < read.op);
        let sources = seen.filter_map(|r| r.from).filter(|&w| self.problem.index.writes(w, read.key));
        sources.chain(self.own_session_writer(read.key)).any(|t2| is_later(order, t2, read))
    }

    fn leave(&mut self, _: TxnId) {}
}

/// Causal: everything that happened before.
pub(crate) struct CausallySeen<'a> {
    problem: Problem<'a>,
    clocks: Clocks<'a>,
    current: TxnId,
}

impl<'a> CausallySeen<'a> {
    pub fn new(problem: Problem<'a>) -> Self {
        CausallySeen { problem, clocks: Clocks::new(problem), current: TxnId(0) }
    }
}

impl Visibility for CausallySeen<'_> {
    fn enter(&mut self, t: TxnId) {
        self.current = t;
        self.clocks.enter(t);
    }

    #[inline]
    fn sees(&self, other: TxnId, _: OpId) -> bool {
        self.clocks.has_seen(self.current, other)
    }

    fn sees_later_writer(&self, read: Read, order: &Order) -> bool {
        let mut found = false;
        latest_seen_writers(&self.problem, self.clocks.row(self.current), read.key, |writers| {
            found |= writers.last().is_some_and(|&t2| is_later(order, t2, read));
        });
        found
    }

    fn leave(&mut self, t: TxnId) {
        self.clocks.release_sources(t);
    }
}

/// For every session with a seen writer of `key`: its seen writers, in session order.
pub(crate) fn latest_seen_writers<'a>(
    problem: &Problem<'a>,
    row: &[u32],
    key: KeyId,
    mut f: impl FnMut(&'a [TxnId]),
) {
    let mut rest = problem.index.writers(key);
    while let Some(&first) = rest.first() {
        let session = problem.history.session_of(first);
        let end = problem.history.session_range(session).end;
        let group_len = leading(rest, end);
        let (group, others) = rest.split_at(group_len);
        let seen = leading(group, row[session.index()]);
        if seen > 0 {
            f(&group[..seen]);
        }
        rest = others;
    }
}

/// How many leading transactions are below `bound`: galloping, because groups are usually short.
fn leading(txns: &[TxnId], bound: u32) -> usize {
    let mut step = 1;
    while step < txns.len() && txns[step].0 < bound {
        step *= 2;
    }
    let low = step / 2;
    let high = step.min(txns.len());
    low + txns[low..high].partition_point(|t| t.0 < bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn galloping_counts_what_is_below() {
        let txns: Vec<TxnId> = [2, 3, 5, 8, 13, 21, 34].map(TxnId).to_vec();
        for bound in 0..40 {
            let expected = txns.iter().filter(|t| t.0 < bound).count();
            assert_eq!(leading(&txns, bound), expected, "{bound}");
            assert_eq!(leading(&txns[..1], bound), expected.min(1), "{bound}");
        }
        assert_eq!(leading(&[], 3), 0);
    }
}
