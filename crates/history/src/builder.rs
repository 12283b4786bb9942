//! Builds a [`History`](crate::History) from operations in whatever order the input has them.
//!
//! Operations are appended to two columns as they come; a *segment* remembers where a run of operations of
//! one transaction begins. [`Builder::finish`] then lays transactions out session by session
//! (`builder/layout.rs`). A transaction of unknown outcome may lose its place in its session
//! (`builder/indeterminate.rs`).

mod indeterminate;
mod layout;
mod partial;

use crate::ids::{KeyId, SessionId};
use crate::labels::Labels;
use crate::operation::{Clock, Initial, Interval, Metadata, OpHead, OpKind, Outage, Outcome, Stamps};
use crate::snapshots::{Drafted, SnapshotSet};
use crate::value::{AtomKind, Atoms, Lists, Value};
use std::collections::BTreeMap;
use std::fmt;

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

/// Builds a [`History`](crate::History).
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
    clock: Option<Clock>,
    metadata: BTreeMap<Draft, Metadata>,
    outages: Vec<Outage>,
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

    /// What the numbers of intervals count.
    pub fn set_clock(&mut self, clock: Clock) {
        self.clock = Some(clock);
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

    /// Records a fault that is no transaction.
    pub fn add_outage(&mut self, outage: Outage) {
        self.outages.push(outage);
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
}

fn fill<T: Clone>(column: &mut Vec<T>, draft: Draft, value: T, missing: T) {
    let i = draft.0 as usize;
    if column.len() <= i {
        column.resize(i + 1, missing);
    }
    column[i] = value;
}

#[cfg(test)]
mod tests;
