//! The finished history: transactions session by session, and every column in that order.
//!
//! A [`Placement`] says where each transaction goes. Each segment of operations is moved once: O(n), and no
//! move at all when the input was already in that order. Facts by transaction are moved one by one.

use super::{Builder, Draft, TooLarge};
use crate::ids::{SessionId, TxnId};
use crate::model::{History, NO_VERSION};
use crate::operation::{OpHead, Outcome, Stamps};
use crate::resolve::both;
use crate::snapshots::Snapshots;
use crate::value::Value;
use rustc_hash::FxHashMap;
use std::num::NonZeroUsize;
use std::ops::Range;

/// Operations that are worth a second thread.
const LARGE: usize = 1 << 18;

/// In place of a transaction or session that disappears.
const GONE: u32 = u32::MAX;

impl Builder {
    /// The finished history.
    pub fn finish(self) -> Result<History, TooLarge> {
        self.finish_on(NonZeroUsize::MIN)
    }

    /// The finished history, laid out by up to two threads: for large ones this takes as long as a third of
    /// the parsing.
    pub fn finish_on(mut self, threads: NonZeroUsize) -> Result<History, TooLarge> {
        self.check_size()?;
        self.separate_indeterminate();
        let placed = self.place();
        let (heads, values, op_start) = self.lay_out(&placed, threads);
        let versions = versions(&self.versions, &placed.txn_of, &op_start);
        let aborted = |t: usize| placed.outcome[t] == Outcome::Aborted;
        let stamps = placed.complete(&self.stamps, |t| aborted(t).then(Stamps::default));
        let numbers = placed.complete(&self.numbers, |t| aborted(t).then_some(0));
        let rank = placed.permuted(&self.ranks(), 0);
        let (issuers, issued) = self.issuers(&placed, &rank);
        Ok(History {
            branches: self.branches(&placed),
            issuers,
            issued,
            op_start,
            rank,
            label: placed.permuted(&self.label, Value::NIL),
            line: placed.permuted(&self.line, 0),
            stamps,
            numbers,
            snapshots: Snapshots::build(&self.snapshots, &placed.txn_of, placed.len()),
            intervals: placed.complete(&self.intervals, |_| None),
            clock: self.clock,
            outages: self.outages,
            metadata: self.metadata.into_iter().filter_map(|(d, m)| Some((placed.txn(d)?, m))).collect(),
            has_appends: self.has_appends,
            heads,
            values,
            versions,
            key_label: self.keys.names,
            atoms: self.atoms,
            lists: self.lists,
            initial: self.initial,
            session_start: placed.session_start,
            session_label: placed.session_label,
            txn_session: placed.session,
            outcome: placed.outcome,
            position: placed.position,
        })
    }

    fn check_size(&self) -> Result<(), TooLarge> {
        // 31 bits: the index uses the highest as a mark.
        check("operations", self.heads.len(), (1 << 31) - 16)?;
        check("transactions", self.session.len(), (1 << 31) - 16)?;
        check("keys", self.keys.names.len(), u64::from(OpHead::KEY_LIMIT))?;
        check("list elements", self.lists.stored(), u64::from(u32::MAX))
    }

    /// Finds the places of transactions. Sessions whose every transaction was discarded disappear; the
    /// others keep their order.
    fn place(&self) -> Placement {
        let drafts = self.session.len();
        let kept = || (0..drafts).filter(|&d| self.outcome[d].is_some());
        let mut per_session = vec![0u32; self.sessions.names.len()];
        for d in kept() {
            per_session[self.session[d] as usize] += 1;
        }
        let mut session_of = vec![GONE; per_session.len()];
        let (mut session_label, mut session_start) = (Vec::new(), vec![0u32]);
        let mut total = 0;
        for (s, &count) in per_session.iter().enumerate().filter(|&(_, &count)| count > 0) {
            session_of[s] = session_label.len() as u32;
            session_label.push(self.sessions.names[s]);
            total += count;
            session_start.push(total);
        }

        let n = total as usize;
        let mut next = session_start.clone();
        let mut txn_of = vec![GONE; drafts];
        let (mut session, mut outcome, mut position) =
            (vec![SessionId(0); n], vec![Outcome::Committed; n], vec![0; n]);
        let mut ranks = vec![0; drafts];
        for (rank, d) in (0..).zip(kept()) {
            ranks[d] = rank;
        }
        for d in self.in_session_order() {
            let Some(out) = self.outcome[d] else { continue };
            let s = session_of[self.session[d] as usize];
            let t = next[s as usize] as usize;
            next[s as usize] += 1;
            txn_of[d] = t as u32;
            session[t] = SessionId(s);
            outcome[t] = out;
            position[t] = ranks[d];
        }
        Placement { txn_of, session_of, session_start, session_label, session, outcome, position }
    }

    /// Transactions, each session's in its order: that of their numbers if all have one, else that of the
    /// input.
    pub(super) fn in_session_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.session.len()).collect();
        let mut numbers: Vec<Option<u64>> = vec![None; if self.numbers.is_empty() { 0 } else { order.len() }];
        for &(d, number) in &self.numbers {
            numbers[d.0 as usize] = Some(number);
        }
        let unneeded = |d: usize| matches!(self.outcome[d], None | Some(Outcome::Aborted));
        if !numbers.is_empty() && order.iter().all(|&d| numbers[d].is_some() || unneeded(d)) {
            order.sort_by_key(|&d| (self.session[d], numbers[d]));
        }
        order
    }

    /// Per session, the transaction that it branches off; empty if none does.
    fn branches(&self, placed: &Placement) -> Vec<Option<TxnId>> {
        let sessions = if self.branches.is_empty() { 0 } else { placed.session_label.len() };
        let mut branches = vec![None; sessions];
        for &(s, from) in &self.branches {
            let s = placed.session_of[s.index()];
            if s != GONE {
                branches[s as usize] = placed.txn(from);
            }
        }
        branches
    }

    /// Per session, the first of its name; and all transactions, by these and in the order of issue. Empty
    /// if names are not shared.
    fn issuers(&self, placed: &Placement, rank: &[u32]) -> (Vec<SessionId>, Vec<TxnId>) {
        if !self.shared_names {
            return (Vec::new(), Vec::new());
        }
        let mut first: FxHashMap<Value, SessionId> = FxHashMap::default();
        let labels = (0..).zip(&placed.session_label);
        let issuers: Vec<SessionId> =
            labels.map(|(s, &label)| *first.entry(label).or_insert(SessionId(s))).collect();
        let mut issued: Vec<TxnId> = (0..placed.len() as u32).map(TxnId).collect();
        issued.sort_by_key(|t| (issuers[placed.session[t.index()].index()], rank[t.index()]));
        (issuers, issued)
    }

    /// Moves the operations to their transaction's place.
    fn lay_out(&mut self, placed: &Placement, threads: NonZeroUsize) -> (Vec<OpHead>, Vec<Value>, Vec<u32>) {
        let (txn_of, n) = (&placed.txn_of[..], placed.len());
        let m = self.heads.len();
        let ends = self.segments.iter().skip(1).map(|s| s.1).chain([m as u32]);
        let mut op_start = vec![0u32; n + 1];
        for (&(d, start), end) in self.segments.iter().zip(ends.clone()) {
            let t = txn_of[d.0 as usize];
            if t != GONE {
                op_start[t as usize + 1] += end - start;
            }
        }
        for t in 0..n {
            op_start[t + 1] += op_start[t];
        }
        let (heads, values) = (std::mem::take(&mut self.heads), std::mem::take(&mut self.values));
        let mut next = op_start.clone();
        let in_place = self.segments.iter().zip(ends.clone()).all(|(&(d, start), end)| {
            let t = txn_of[d.0 as usize] as usize;
            let ok = t < n && next[t] == start;
            if ok {
                next[t] = end;
            }
            ok
        });
        if in_place {
            return (heads, values, op_start);
        }
        // Ranges of the columns in the order of their transactions, by a counting sort.
        next.fill(0);
        let kept = |d: Draft| Some(txn_of[d.0 as usize] as usize).filter(|&t| t < n);
        for t in self.segments.iter().filter_map(|s| kept(s.0)) {
            next[t + 1] += 1;
        }
        for t in 0..n {
            next[t + 1] += next[t];
        }
        let mut ranges = vec![0..0; next[n] as usize];
        for (&(d, start), end) in self.segments.iter().zip(ends) {
            if let Some(t) = kept(d) {
                ranges[next[t] as usize] = start..end;
                next[t] += 1;
            }
        }
        let (ranges, total) = (&ranges, op_start[n] as usize);
        if threads.get() == 1 || total < LARGE {
            return (gather(heads, ranges, total), gather(values, ranges, total), op_start);
        }
        let (heads, values) = both(|| gather(heads, ranges, total), || gather(values, ranges, total));
        (heads, values, op_start)
    }
}

/// Where transactions and sessions go.
struct Placement {
    /// By draft; [`GONE`] if it was discarded.
    txn_of: Vec<u32>,
    /// By session of the input; [`GONE`] if nothing is left of it.
    session_of: Vec<u32>,
    session_start: Vec<u32>,
    session_label: Vec<Value>,
    /// By transaction, like all below.
    session: Vec<SessionId>,
    outcome: Vec<Outcome>,
    position: Vec<u32>,
}

impl Placement {
    /// How many transactions there are.
    fn len(&self) -> usize {
        self.outcome.len()
    }

    fn txn(&self, draft: Draft) -> Option<TxnId> {
        Some(TxnId(self.txn_of[draft.0 as usize])).filter(|t| t.0 != GONE)
    }

    /// A column by draft as a column by transaction; empty if no draft has an entry.
    fn permuted<T: Clone>(&self, column: &[T], missing: T) -> Vec<T> {
        if column.is_empty() {
            return Vec::new();
        }
        let mut out = vec![missing; self.len()];
        for (value, &t) in column.iter().zip(&self.txn_of) {
            if t != GONE {
                out[t as usize] = value.clone();
            }
        }
        out
    }

    /// A column by transaction if every transaction has an entry, or can do without.
    fn complete<T: Copy>(
        &self,
        entries: &[(Draft, T)],
        otherwise: impl Fn(usize) -> Option<T>,
    ) -> Option<Vec<T>> {
        if entries.is_empty() {
            return None;
        }
        let mut column = vec![None; self.len()];
        for &(d, value) in entries {
            if let Some(slot) = column.get_mut(self.txn_of[d.0 as usize] as usize) {
                *slot = Some(value);
            }
        }
        column.into_iter().enumerate().map(|(t, entry)| entry.or_else(|| otherwise(t))).collect()
    }
}

/// Version numbers as a column; empty if there are none.
fn versions(given: &[(Draft, u32, i64)], txn_of: &[u32], op_start: &[u32]) -> Vec<i64> {
    let mut column = Vec::new();
    for &(d, place, number) in given {
        let t = txn_of[d.0 as usize] as usize;
        if t + 1 < op_start.len() && place < op_start[t + 1] - op_start[t] {
            column.resize(op_start[op_start.len() - 1] as usize, NO_VERSION);
            column[(op_start[t] + place) as usize] = number;
        }
    }
    column
}

/// The ranges of a column one after another.
fn gather<T: Copy>(column: Vec<T>, ranges: &[Range<u32>], total: usize) -> Vec<T> {
    let mut gathered = Vec::with_capacity(total);
    for range in ranges {
        gathered.extend_from_slice(&column[range.start as usize..range.end as usize]);
    }
    gathered
}

fn check(what: &'static str, count: usize, limit: u64) -> Result<(), TooLarge> {
    if count as u64 > limit { Err(TooLarge { what, limit }) } else { Ok(()) }
}
