//! Builds a [`History`] from operations in whatever order the input has them.
//!
//! Operations are appended to two columns as they come; a *segment* remembers where a run of operations of
//! one transaction begins. [`Builder::finish`] then lays transactions out session by session, moving each
//! segment once: O(n), and no move at all when the input was already in that order. A transaction of
//! unknown outcome may lose its place in its session (`builder/indeterminate.rs`).

mod indeterminate;
mod partial;

use crate::ids::{KeyId, SessionId, TxnId};
use crate::labels::Labels;
use crate::model::{History, NO_VERSION};
use crate::operation::{Initial, Interval, Metadata, OpHead, OpKind, Outcome, Stamps};
use crate::snapshots::{Drafted, SnapshotSet, Snapshots};
use crate::value::{AtomKind, Atoms, Lists, Value};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::ops::Range;

/// A transaction being built: its rank in the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub struct Draft(pub u32);

/// A history with more of something than ids can number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// What there is too much of.
    pub what: &'static str,
    /// How many fit.
    pub limit: u64,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "too many {} (the limit is {})", self.what, self.limit)
    }
}

impl std::error::Error for TooLarge {}

/// Builds a [`History`].
///
/// ```
/// use anomalist_history::{Builder, OpKind, Value};
/// let mut b = Builder::new();
/// let (x, one) = (b.int(0), b.int(1));
/// let key = b.key(x);
/// let session = b.session(x);
/// let writer = b.transaction(session);
/// b.op(writer, OpKind::Write, key, one);
/// let reader = b.transaction(session);
/// b.op(reader, OpKind::Read, key, one);
/// let history = b.finish().unwrap();
/// assert_eq!((history.txn_count(), history.op_count()), (2, 2));
/// ```
#[derive(Clone, Default)]
pub struct Builder {
    atoms: Atoms,
    lists: Lists,
    keys: Labels,
    sessions: Labels,
    initial: Initial,
    session: Vec<u32>,
    /// `None`: discarded.
    outcome: Vec<Option<Outcome>>,
    label: Vec<Value>,
    line: Vec<u32>,
    stamps: Vec<(Draft, Stamps)>,
    numbers: Vec<(Draft, u64)>,
    snapshots: Vec<Drafted>,
    intervals: Vec<(Draft, Interval)>,
    metadata: BTreeMap<Draft, Metadata>,
    has_appends: bool,
    heads: Vec<OpHead>,
    values: Vec<Value>,
    /// Version numbers by transaction and place of the operation.
    versions: Vec<(Draft, u32, i64)>,
    /// (transaction, its first operation in the columns), in input order.
    segments: Vec<(Draft, u32)>,
    /// Some sessions have one name.
    shared_names: bool,
    /// Sessions that branch off a transaction of another.
    branches: Vec<(SessionId, Draft)>,
}

impl Builder {
    /// An empty history without initial values.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// An integer value.
    #[inline]
    pub fn int(&mut self, v: i64) -> Value {
        Value::int(v).unwrap_or_else(|| self.atoms.intern(AtomKind::Token, &v.to_string()))
    }

    /// An atom.
    pub fn atom(&mut self, kind: AtomKind, text: &str) -> Value {
        self.atoms.intern(kind, text)
    }

    /// A list value.
    pub fn list(&mut self, elements: &[Value]) -> Value {
        Value::list(self.lists.push(elements))
    }

    /// The kind and text of an atom made with [`Builder::atom`].
    pub fn text(&self, value: Value) -> Option<(AtomKind, &str)> {
        match value.view() {
            crate::View::Atom(id) => Some(self.atoms.get(id)),
            _ => None,
        }
    }

    /// The elements of a list made with [`Builder::list`].
    pub fn elements(&self, value: Value) -> Option<&[Value]> {
        match value.view() {
            crate::View::List(id) => Some(self.lists.get(id)),
            _ => None,
        }
    }

    /// The key of this name.
    #[inline]
    pub fn key(&mut self, label: Value) -> KeyId {
        KeyId(self.keys.intern(label))
    }

    /// The session of this name. Sessions are numbered in the order in which they are first named.
    #[inline]
    pub fn session(&mut self, label: Value) -> SessionId {
        SessionId(self.sessions.intern(label))
    }

    /// The value of every key that no transaction has written.
    pub fn set_initial_default(&mut self, value: Option<Value>) {
        self.initial.default = value;
    }

    /// The value of one key before any transaction wrote it.
    pub fn set_initial(&mut self, key: KeyId, value: Value) {
        self.initial.keys.insert(key, value);
    }

    /// A new transaction, the last of its session so far. It counts as committed until set otherwise.
    pub fn transaction(&mut self, session: SessionId) -> Draft {
        let draft = Draft(self.session.len() as u32);
        self.session.push(session.0);
        self.outcome.push(Some(Outcome::Committed));
        draft
    }

    /// Number of transactions so far.
    pub fn txn_count(&self) -> usize {
        self.session.len()
    }

    /// Number of operations so far.
    pub fn op_count(&self) -> usize {
        self.heads.len()
    }

    /// What became of it.
    pub fn set_outcome(&mut self, draft: Draft, outcome: Outcome) {
        self.outcome[draft.0 as usize] = Some(outcome);
    }

    /// Forgets a transaction, for instance one that only loads initial values.
    pub fn discard(&mut self, draft: Draft) {
        self.outcome[draft.0 as usize] = None;
    }

    /// Its name in the input.
    pub fn set_label(&mut self, draft: Draft, label: Value) {
        fill(&mut self.label, draft, label, Value::NIL);
    }

    /// The line of the input on which it begins, from 1.
    pub fn set_line(&mut self, draft: Draft, line: u32) {
        fill(&mut self.line, draft, line, 0);
    }

    /// Its timestamps. They are kept only if every transaction that did not abort has them.
    pub fn set_stamps(&mut self, draft: Draft, stamps: Stamps) {
        self.stamps.push((draft, stamps));
    }

    /// Its number in its session. Numbers are kept, and are the order of sessions, only if every
    /// transaction that did not abort has one.
    pub fn set_number(&mut self, draft: Draft, number: u64) {
        self.numbers.push((draft, number));
    }

    /// The id by which snapshots name it, and what it saw if that is a set of ids.
    pub fn set_snapshot(&mut self, draft: Draft, id: Option<u64>, set: Option<SnapshotSet>) {
        self.snapshots.push(Drafted { draft, id, set });
    }

    /// Its real-time interval. Intervals are kept only if every transaction has one.
    pub fn set_interval(&mut self, draft: Draft, interval: Interval) {
        self.intervals.push((draft, interval));
    }

    /// Records a fact about it.
    pub fn set_metadata(&mut self, draft: Draft, name: &str, value: &str) {
        self.metadata.entry(draft).or_default().insert(name.into(), value.into());
    }

    /// Appends an operation to a transaction.
    #[inline]
    pub fn op(&mut self, draft: Draft, kind: OpKind, key: KeyId, value: Value) {
        self.continue_with(draft);
        self.has_appends |= kind == OpKind::Append;
        self.heads.push(OpHead::new(kind, key));
        self.values.push(value);
    }

    /// The number that the database gave the version which an operation of a transaction, counted from 0,
    /// read or wrote. (The least integer means that it has none.)
    pub fn set_version(&mut self, draft: Draft, place: u32, number: i64) {
        self.versions.push((draft, place, number));
    }

    /// Appends many operations to a transaction.
    pub fn ops(&mut self, draft: Draft, ops: impl Iterator<Item = (OpKind, KeyId, Value)>) {
        self.continue_with(draft);
        for (kind, key, value) in ops {
            self.has_appends |= kind == OpKind::Append;
            self.heads.push(OpHead::new(kind, key));
            self.values.push(value);
        }
    }

    /// Appends many operations to a transaction: kinds with the names of keys, and as many values. The
    /// columns are extended one after the other, in a loop that does nothing else; readers of large files
    /// need that. `seen` gets the key of each.
    pub fn named_ops(
        &mut self,
        draft: Draft,
        heads: impl Iterator<Item = (OpKind, Value)>,
        values: impl Iterator<Item = Value>,
        mut seen: impl FnMut(KeyId),
    ) {
        self.continue_with(draft);
        let (keys, has_appends) = (&mut self.keys, &mut self.has_appends);
        self.heads.extend(heads.map(|(kind, key)| {
            *has_appends |= kind == OpKind::Append;
            let key = KeyId(keys.intern(key));
            seen(key);
            OpHead::new(kind, key)
        }));
        self.values.extend(values);
        assert_eq!(self.heads.len(), self.values.len(), "every operation has a value");
    }

    #[inline]
    fn continue_with(&mut self, draft: Draft) {
        if self.segments.last().is_none_or(|&(last, _)| last != draft) {
            self.segments.push((draft, self.heads.len() as u32));
        }
    }

    /// The operations of a transaction so far, in program order. Linear in the number of segments: for the
    /// rare look back.
    pub fn draft_ops(&self, draft: Draft) -> Vec<(OpHead, Value)> {
        let mut ops = Vec::new();
        for (i, &(d, start)) in self.segments.iter().enumerate() {
            if d == draft {
                let end = self.segments.get(i + 1).map_or(self.heads.len(), |s| s.1 as usize);
                let range = start as usize..end;
                ops.extend(self.heads[range.clone()].iter().copied().zip(self.values[range].iter().copied()));
            }
        }
        ops
    }

    /// The finished history.
    pub fn finish(self) -> Result<History, TooLarge> {
        self.finish_on(NonZeroUsize::MIN)
    }

    /// The finished history, laid out by up to two threads: for large ones this takes as long as a third of
    /// the parsing.
    pub fn finish_on(mut self, threads: NonZeroUsize) -> Result<History, TooLarge> {
        // 31 bits: the index uses the highest as a mark.
        check("operations", self.heads.len(), (1 << 31) - 16)?;
        check("transactions", self.session.len(), (1 << 31) - 16)?;
        check("keys", self.keys.names.len(), u64::from(OpHead::KEY_LIMIT))?;
        check("list elements", self.lists.stored(), u64::from(u32::MAX))?;

        self.separate_indeterminate();
        let drafts = self.session.len();
        let kept = |d: usize| self.outcome[d].is_some();

        // Sessions whose every transaction was discarded disappear; the others keep their order.
        let mut per_session = vec![0u32; self.sessions.names.len()];
        for d in (0..drafts).filter(|&d| kept(d)) {
            per_session[self.session[d] as usize] += 1;
        }
        let mut renumbered = vec![u32::MAX; per_session.len()];
        let (mut session_label, mut session_start) = (Vec::new(), vec![0u32]);
        let mut total = 0;
        for (s, &count) in per_session.iter().enumerate().filter(|&(_, &count)| count > 0) {
            renumbered[s] = session_label.len() as u32;
            session_label.push(self.sessions.names[s]);
            total += count;
            session_start.push(total);
        }

        let n = total as usize;
        let mut next = session_start.clone();
        let mut txn_of = vec![u32::MAX; drafts];
        let (mut txn_session, mut outcome, mut position) =
            (vec![SessionId(0); n], vec![Outcome::Committed; n], vec![0; n]);
        let mut ranks = vec![0; drafts];
        for (rank, d) in (0..).zip((0..drafts).filter(|&d| kept(d))) {
            ranks[d] = rank;
        }
        for d in self.in_session_order() {
            let Some(out) = self.outcome[d] else { continue };
            let s = renumbered[self.session[d] as usize];
            let t = next[s as usize] as usize;
            next[s as usize] += 1;
            txn_of[d] = t as u32;
            txn_session[t] = SessionId(s);
            outcome[t] = out;
            position[t] = ranks[d];
        }

        let (heads, values, op_start) = self.lay_out(&txn_of, n, threads);
        let versions = versions(&self.versions, &txn_of, &op_start);
        let by_txn = |d: Draft| txn_of[d.0 as usize];
        let unneeded = |t: usize| (outcome[t] == Outcome::Aborted).then(Stamps::default);
        let stamps = complete(&self.stamps, by_txn, n, unneeded);
        let unnumbered = |t: usize| (outcome[t] == Outcome::Aborted).then_some(0);
        let numbers = complete(&self.numbers, by_txn, n, unnumbered);
        let mut branches = vec![None; if self.branches.is_empty() { 0 } else { session_label.len() }];
        for &(s, from) in self.branches.iter().filter(|&&(s, _)| renumbered[s.index()] != u32::MAX) {
            branches[renumbered[s.index()] as usize] = Some(TxnId(by_txn(from))).filter(|t| t.0 != u32::MAX);
        }
        let rank = permuted(&self.ranks(), &txn_of, n, 0);
        let issuers = if self.shared_names { issuers(&session_label) } else { Vec::new() };
        let mut issued: Vec<TxnId> = (0..if self.shared_names { n as u32 } else { 0 }).map(TxnId).collect();
        issued.sort_by_key(|t| (issuers[txn_session[t.index()].index()], rank[t.index()]));
        Ok(History {
            session_start,
            branches,
            issuers,
            issued,
            session_label,
            txn_session,
            op_start,
            outcome,
            position,
            rank,
            label: permuted(&self.label, &txn_of, n, Value::NIL),
            line: permuted(&self.line, &txn_of, n, 0),
            stamps,
            numbers,
            snapshots: Snapshots::build(&self.snapshots, &txn_of, n),
            intervals: complete(&self.intervals, by_txn, n, |_| None),
            metadata: self
                .metadata
                .into_iter()
                .map(|(d, m)| (TxnId(by_txn(d)), m))
                .filter(|(t, _)| t.0 != u32::MAX)
                .collect(),
            has_appends: self.has_appends,
            heads,
            values,
            versions,
            key_label: self.keys.names,
            atoms: self.atoms,
            lists: self.lists,
            initial: self.initial,
        })
    }

    /// Transactions, each session's in its order: that of their numbers if all have one, else that of the
    /// input.
    fn in_session_order(&self) -> Vec<usize> {
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

    /// Moves the operations to their transaction's place.
    fn lay_out(
        &mut self,
        txn_of: &[u32],
        n: usize,
        threads: NonZeroUsize,
    ) -> (Vec<OpHead>, Vec<Value>, Vec<u32>) {
        let m = self.heads.len();
        let ends = self.segments.iter().skip(1).map(|s| s.1).chain([m as u32]);
        let mut op_start = vec![0u32; n + 1];
        for (&(d, start), end) in self.segments.iter().zip(ends.clone()) {
            let t = txn_of[d.0 as usize];
            if t != u32::MAX {
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
        std::thread::scope(|scope| {
            let heads = scope.spawn(move || gather(heads, ranges, total));
            let values = gather(values, ranges, total);
            match heads.join() {
                Ok(heads) => (heads, values, op_start),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }
}

/// Operations that are worth a second thread.
const LARGE: usize = 1 << 18;

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

/// Per session, the first of its name.
fn issuers(labels: &[Value]) -> Vec<SessionId> {
    let mut first: FxHashMap<Value, SessionId> = FxHashMap::default();
    (0..).zip(labels).map(|(s, &label)| *first.entry(label).or_insert(SessionId(s))).collect()
}

fn check(what: &'static str, count: usize, limit: u64) -> Result<(), TooLarge> {
    if count as u64 > limit { Err(TooLarge { what, limit }) } else { Ok(()) }
}

fn fill<T: Clone>(column: &mut Vec<T>, draft: Draft, value: T, missing: T) {
    let i = draft.0 as usize;
    if column.len() <= i {
        column.resize(i + 1, missing);
    }
    column[i] = value;
}

/// A column by draft as a column by transaction; empty if no draft has an entry.
fn permuted<T: Clone>(column: &[T], txn_of: &[u32], n: usize, missing: T) -> Vec<T> {
    if column.is_empty() {
        return Vec::new();
    }
    let mut out = vec![missing; n];
    for (value, &t) in column.iter().zip(txn_of) {
        if t != u32::MAX {
            out[t as usize] = value.clone();
        }
    }
    out
}

/// A column by transaction if every transaction has an entry, or can do without.
fn complete<T: Copy>(
    entries: &[(Draft, T)],
    by_txn: impl Fn(Draft) -> u32,
    n: usize,
    otherwise: impl Fn(usize) -> Option<T>,
) -> Option<Vec<T>> {
    if entries.is_empty() {
        return None;
    }
    let mut column = vec![None; n];
    for &(d, value) in entries {
        if let Some(slot) = column.get_mut(by_txn(d) as usize) {
            *slot = Some(value);
        }
    }
    column.into_iter().enumerate().map(|(t, entry)| entry.or_else(|| otherwise(t))).collect()
}

#[cfg(test)]
mod tests;
