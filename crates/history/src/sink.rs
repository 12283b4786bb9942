//! Where transactions go: readers of files and of streams write to a [`TransactionSink`].
//!
//! A sink has names (of keys, sessions and transactions, and single values) and values (a name, a list, or
//! the unknown result of a read) in its own form: numbers of interned texts in a [`Builder`], fingerprints
//! in a stream that must not grow. A transaction begins, has operations, and ends with all else that is
//! known.

use crate::{AtomKind, Builder, Draft, Interval, OpKind, Outcome, SnapshotSet, Stamps, Value};
use std::fmt;

/// What is known about a transaction besides its operations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Facts<N> {
    /// Its own name.
    pub id: Option<N>,
    /// What became of it.
    pub outcome: Outcome,
    /// Its timestamps.
    pub stamps: Option<Stamps>,
    /// Its number in its session, where the recording has one.
    pub number: Option<u64>,
    /// The id by which snapshots name it.
    pub xid: Option<u64>,
    /// What it saw, if that is a set of ids.
    pub snapshot: Option<SnapshotSet>,
    /// When its client began and ended it.
    pub interval: Option<Interval>,
    /// The line of the input on which it begins, from 1.
    pub line: u64,
}

impl<N> Default for Facts<N> {
    /// A committed transaction of which nothing else is known.
    fn default() -> Facts<N> {
        Facts {
            id: None,
            outcome: Outcome::Committed,
            stamps: None,
            number: None,
            xid: None,
            snapshot: None,
            interval: None,
            line: 0,
        }
    }
}

/// A transaction without timestamps, where the sink needs them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Untimed;

impl fmt::Display for Untimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this transaction has no timestamps (start and commit)")
    }
}

impl std::error::Error for Untimed {}

/// Takes transactions.
///
/// ```
/// use anomalist_history::{Builder, Facts, OpKind, TransactionSink, Untimed};
/// /// One transaction that writes x = 1.
/// fn record<S: TransactionSink>(sink: &mut S) -> Result<(), Untimed> {
///     let (session, x, one) = (sink.name_int(0), sink.name_int(7), sink.name_int(1));
///     sink.begin(session);
///     sink.operation(OpKind::Write, x, S::one(one));
///     sink.end(Facts::default())
/// }
/// let mut builder = Builder::new();
/// record(&mut builder)?;
/// assert_eq!(builder.finish()?.op_count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait TransactionSink {
    /// The name of a key, a session or a transaction, or a single value.
    type Name: Copy;
    /// What an operation read or wrote.
    type Value: Copy;

    /// No value.
    const NIL: Self::Name;
    /// The result of a read that was not recorded.
    const UNKNOWN: Self::Value;

    /// An integer.
    fn name_int(&mut self, value: i64) -> Self::Name;

    /// Anything else.
    fn name_atom(&mut self, kind: AtomKind, text: &str) -> Self::Name;

    /// A single value.
    fn one(name: Self::Name) -> Self::Value;

    /// A list.
    fn list_of(&mut self, elements: &[Self::Name]) -> Self::Value;

    /// What keys hold before any write: the value of those without one of their own (`None`: not said;
    /// `Some(None)`: they have none), and keys with one.
    fn initially(
        &mut self,
        default: Option<Option<Self::Name>>,
        keys: impl IntoIterator<Item = (Self::Name, Self::Value)>,
    );

    /// Begins a transaction, the last of its session so far.
    fn begin(&mut self, session: Self::Name);

    /// Adds an operation to the transaction that has begun.
    fn operation(&mut self, kind: OpKind, key: Self::Name, value: Self::Value);

    /// Ends the transaction that has begun. Where it has no timestamps and the sink needs them, it is left
    /// out.
    fn end(&mut self, facts: Facts<Self::Name>) -> Result<(), Untimed>;
}

impl TransactionSink for Builder {
    type Name = Value;
    type Value = Value;

    const NIL: Value = Value::NIL;
    const UNKNOWN: Value = Value::UNKNOWN;

    fn name_int(&mut self, value: i64) -> Value {
        self.int(value)
    }

    fn name_atom(&mut self, kind: AtomKind, text: &str) -> Value {
        self.atom(kind, text)
    }

    fn one(name: Value) -> Value {
        name
    }

    fn list_of(&mut self, elements: &[Value]) -> Value {
        self.list(elements)
    }

    fn initially(&mut self, default: Option<Option<Value>>, keys: impl IntoIterator<Item = (Value, Value)>) {
        if let Some(default) = default {
            self.set_initial_default(default);
        }
        for (key, value) in keys {
            let key = self.key(key);
            self.set_initial(key, value);
        }
    }

    fn begin(&mut self, session: Value) {
        let session = self.session(session);
        self.transaction(session);
    }

    fn operation(&mut self, kind: OpKind, key: Value, value: Value) {
        let key = self.key(key);
        self.op(self.last(), kind, key, value);
    }

    fn end(&mut self, facts: Facts<Value>) -> Result<(), Untimed> {
        self.set_facts(self.last(), facts);
        Ok(())
    }
}

impl Builder {
    /// The transaction that began last.
    fn last(&self) -> Draft {
        Draft(self.txn_count().saturating_sub(1) as u32)
    }

    /// Notes all that is known about a transaction.
    #[inline]
    pub fn set_facts(&mut self, draft: Draft, facts: Facts<Value>) {
        let Facts { id, outcome, stamps, number, xid, snapshot, interval, line } = facts;
        if let Some(id) = id {
            self.set_label(draft, id);
        }
        if line > 0 {
            self.set_line(draft, u32::try_from(line).unwrap_or(u32::MAX));
        }
        self.set_outcome(draft, outcome);
        if let Some(stamps) = stamps {
            self.set_stamps(draft, stamps);
        }
        if let Some(number) = number {
            self.set_number(draft, number);
        }
        if snapshot.is_some() || xid.is_some() {
            self.set_snapshot(draft, xid, snapshot);
        }
        if let Some(interval) = interval {
            self.set_interval(draft, interval);
        }
    }
}
