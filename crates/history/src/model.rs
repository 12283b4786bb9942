//! The history itself: columns indexed by dense ids.

use crate::ids::{KeyId, OpId, SessionId, TxnId};
use crate::inert::inert;
use crate::operation::{
    Clock, Initial, Interval, Metadata, Op, OpHead, OpKind, Outage, Outcome, Stamps, Timestamp,
};
use crate::snapshots::{Snapshot, Snapshots};
use crate::value::{AtomId, AtomKind, Atoms, Lists, Value, View};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// In a column of version numbers: the operation has none.
pub(crate) const NO_VERSION: i64 = i64::MIN;

/// What clients observed. Built by [`Builder`](crate::Builder), read by everybody else.
///
/// Operations cost 12 bytes each; see the [crate documentation](crate) for the whole account.
#[derive(Clone, Debug)]
pub struct History {
    pub(crate) session_start: Vec<u32>,
    pub(crate) session_label: Vec<Value>,
    /// Per session, the transaction of another session that it branches off; empty if none does.
    pub(crate) branches: Vec<Option<TxnId>>,
    /// Per session, the one of its name that its client went on in; empty if each has a name of its own.
    pub(crate) issuers: Vec<SessionId>,
    /// All transactions by issuer and rank; empty if each session has a name of its own.
    pub(crate) issued: Vec<TxnId>,
    pub(crate) txn_session: Vec<SessionId>,
    pub(crate) op_start: Vec<u32>,
    pub(crate) outcome: Vec<Outcome>,
    pub(crate) position: Vec<u32>,
    /// Which of all transactions under its session's name one is, from 1; empty if no sessions share names.
    pub(crate) rank: Vec<u32>,
    pub(crate) label: Vec<Value>,
    pub(crate) line: Vec<u32>,
    pub(crate) stamps: Option<Vec<Stamps>>,
    pub(crate) numbers: Option<Vec<u64>>,
    pub(crate) snapshots: Option<Box<Snapshots>>,
    pub(crate) intervals: Option<Vec<Interval>>,
    pub(crate) clock: Option<Clock>,
    pub(crate) metadata: BTreeMap<TxnId, Metadata>,
    pub(crate) outages: Vec<Outage>,
    pub(crate) has_appends: bool,
    pub(crate) heads: Vec<OpHead>,
    pub(crate) values: Vec<Value>,
    /// Version numbers, one per operation, [`NO_VERSION`] for none; empty if there are none at all.
    pub(crate) versions: Vec<i64>,
    pub(crate) key_label: Vec<Value>,
    pub(crate) atoms: Atoms,
    pub(crate) lists: Lists,
    pub(crate) initial: Initial,
}

impl History {
    /// Number of sessions.
    pub fn session_count(&self) -> usize {
        self.session_label.len()
    }

    /// Number of transactions, whatever their outcome.
    pub fn txn_count(&self) -> usize {
        self.outcome.len()
    }

    /// Number of operations.
    pub fn op_count(&self) -> usize {
        self.heads.len()
    }

    /// Number of keys.
    pub fn key_count(&self) -> usize {
        self.key_label.len()
    }

    /// All sessions.
    pub fn sessions(&self) -> impl Iterator<Item = SessionId> + use<> {
        (0..self.session_count() as u32).map(SessionId)
    }

    /// All transactions, session by session.
    pub fn txns(&self) -> impl Iterator<Item = TxnId> + use<> {
        (0..self.txn_count() as u32).map(TxnId)
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = KeyId> + use<> {
        (0..self.key_count() as u32).map(KeyId)
    }

    /// The transactions of a session, as a range of raw ids.
    #[inline]
    pub fn session_range(&self, s: SessionId) -> Range<u32> {
        self.session_start[s.index()]..self.session_start[s.index() + 1]
    }

    /// The transactions of a session, in session order.
    pub fn session_txns(&self, s: SessionId) -> impl DoubleEndedIterator<Item = TxnId> + use<> {
        self.session_range(s).map(TxnId)
    }

    /// The session of a transaction.
    #[inline]
    pub fn session_of(&self, t: TxnId) -> SessionId {
        self.txn_session[t.index()]
    }

    /// The transaction of another session that a session branches off. Such a session is a single
    /// transaction of unknown outcome: its client issued it after that one, and nothing is known to follow
    /// it.
    #[inline]
    pub fn branches_off(&self, s: SessionId) -> Option<TxnId> {
        if self.branches.is_empty() { None } else { self.branches[s.index()] }
    }

    /// Whether `a` comes before `b` in session order.
    #[inline]
    pub fn session_before(&self, a: TxnId, b: TxnId) -> bool {
        let (earlier, session) = (self.session_of(a), self.session_of(b));
        if earlier == session {
            return a < b;
        }
        self.branches_off(session).is_some_and(|from| a <= from && self.session_of(from) == earlier)
    }

    /// The transactions before `t` in session order, first to last.
    #[inline]
    pub fn before_in_session(&self, t: TxnId) -> impl DoubleEndedIterator<Item = TxnId> + use<> {
        self.part_before(self.trunk(t), t).map(TxnId)
    }

    /// The session that all transactions before `t` in session order are of: its own, or the one it
    /// branches off.
    #[inline]
    pub fn trunk(&self, t: TxnId) -> SessionId {
        let session = self.session_of(t);
        self.branches_off(session).map_or(session, |from| self.session_of(from))
    }

    /// The ids of the transactions of session `s` that come before `t` in session order.
    #[inline]
    pub fn part_before(&self, s: SessionId, t: TxnId) -> Range<u32> {
        let session = self.session_of(t);
        let start = self.session_range(s).start;
        if s == session {
            return start..t.0;
        }
        let from = self.branches_off(session).filter(|&from| self.session_of(from) == s);
        start..from.map_or(start, |from| from.0 + 1)
    }

    /// The session whose client issued a transaction: its own, or the one that it was separated from
    /// because its outcome is unknown. Where timestamps tell when a transaction took effect, this is the
    /// session that counts.
    #[inline]
    pub fn issuer(&self, t: TxnId) -> SessionId {
        let session = self.session_of(t);
        if self.issuers.is_empty() { session } else { self.issuers[session.index()] }
    }

    /// What sorts transactions by issuer, and in its order.
    pub fn issue(&self, t: TxnId) -> (SessionId, u32) {
        (self.issuer(t), self.issue_rank(t))
    }

    /// What orders the transactions of one issuer.
    #[inline]
    pub fn issue_rank(&self, t: TxnId) -> u32 {
        if self.issuers.is_empty() { t.0 } else { self.rank[t.index()] }
    }

    /// Whether one client issued both transactions, `a` first.
    #[inline]
    pub fn issued_before(&self, a: TxnId, b: TxnId) -> bool {
        self.issuer(a) == self.issuer(b) && self.issue_rank(a) < self.issue_rank(b)
    }

    /// The transactions that a session's client issued, in its order; none for a session that was separated
    /// from another.
    pub fn issued(&self, s: SessionId) -> impl DoubleEndedIterator<Item = TxnId> + '_ {
        let range = if self.issuers.is_empty() { self.session_range(s) } else { 0..0 };
        let issued = &self.issued;
        let start = issued.partition_point(|&t| self.issuer(t) < s);
        let end = issued.partition_point(|&t| self.issuer(t) <= s);
        range.map(TxnId).chain(issued[start..end].iter().copied())
    }

    /// The operations of a transaction, as a range of indices into [`heads`](Self::heads) and
    /// [`values`](Self::values).
    #[inline]
    pub fn op_range(&self, t: TxnId) -> Range<usize> {
        self.op_start[t.index()] as usize..self.op_start[t.index() + 1] as usize
    }

    /// The operations of a transaction, in program order.
    pub fn ops(&self, t: TxnId) -> impl DoubleEndedIterator<Item = (OpId, Op)> + '_ {
        self.op_range(t).map(|i| (OpId(i as u32), self.op(OpId(i as u32))))
    }

    /// One operation.
    #[inline]
    pub fn op(&self, o: OpId) -> Op {
        let head = self.heads[o.index()];
        Op { kind: head.kind(), key: head.key(), value: self.values[o.index()] }
    }

    /// The transaction an operation belongs to. Binary search: for reports, not for inner loops.
    pub fn txn_of(&self, o: OpId) -> TxnId {
        TxnId(self.op_start.partition_point(|&start| start <= o.0) as u32 - 1)
    }

    /// Kind and key of every operation.
    #[inline]
    pub fn heads(&self) -> &[OpHead] {
        &self.heads
    }

    /// Value of every operation.
    #[inline]
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// The number that the database gave the version which an operation read or wrote, if the client was
    /// reported. Numbers of a key grow from version to version.
    #[inline]
    pub fn version(&self, o: OpId) -> Option<i64> {
        self.versions.get(o.index()).copied().filter(|&number| number != NO_VERSION)
    }

    /// True if some operation has a version number.
    pub fn has_versions(&self) -> bool {
        !self.versions.is_empty()
    }

    /// What became of a transaction.
    #[inline]
    pub fn outcome(&self, t: TxnId) -> Outcome {
        self.outcome[t.index()]
    }

    /// The same, in which these transactions are known to have committed.
    pub fn with_committed(mut self, txns: &[TxnId]) -> History {
        txns.iter().for_each(|t| self.outcome[t.index()] = Outcome::Committed);
        self
    }

    /// Where a transaction stands in the input: its rank among all transactions. A hint at commit order,
    /// never a fact.
    #[inline]
    pub fn position(&self, t: TxnId) -> u32 {
        self.position[t.index()]
    }

    /// All transactions in the order of the input.
    pub(crate) fn input_order(&self) -> Vec<TxnId> {
        let mut order = vec![TxnId(0); self.txn_count()];
        for (t, &position) in (0..).zip(&self.position) {
            order[position as usize] = TxnId(t);
        }
        order
    }

    /// The line of the input on which a transaction begins, where the format has lines.
    pub fn line(&self, t: TxnId) -> Option<u32> {
        self.line.get(t.index()).copied().filter(|&line| line > 0)
    }

    /// Start and commit timestamps, when the history has them: for all transactions or for none. Aborted
    /// ones need none; theirs are zero then.
    pub fn stamps(&self) -> Option<&[Stamps]> {
        self.stamps.as_deref()
    }

    /// How many transactions that did not abort have a commit timestamp and neither a start timestamp nor a
    /// set.
    pub fn without_start(&self) -> usize {
        let Some(stamps) = self.stamps() else { return 0 };
        let lacks = |t: &TxnId| {
            self.outcome(*t) != Outcome::Aborted
                && !stamps[t.index()].has_start()
                && self.snapshot(*t).is_none()
        };
        self.txns().filter(lacks).count()
    }

    /// The numbers that transactions have in their sessions by the recording itself, in the order of which
    /// they are, when it has them: for all transactions or for none. Aborted ones need none.
    pub fn numbers(&self) -> Option<&[u64]> {
        self.numbers.as_deref()
    }

    /// True if some transaction's snapshot is a set of ids rather than a timestamp.
    pub fn has_snapshots(&self) -> bool {
        self.snapshots.as_ref().is_some_and(|s| s.sets)
    }

    /// What a transaction saw, if its snapshot is a set of ids; else its start timestamp says it.
    pub fn snapshot(&self, t: TxnId) -> Option<Snapshot<'_>> {
        self.snapshots.as_ref()?.get(t)
    }

    /// The id by which snapshots name a transaction. One that wrote nothing may have none.
    pub fn snapshot_id(&self, t: TxnId) -> Option<u64> {
        self.snapshots.as_ref()?.id(t)
    }

    /// Real-time intervals, when the history has them: for all transactions or for none.
    pub fn intervals(&self) -> Option<&[Interval]> {
        self.intervals.as_deref()
    }

    /// What the numbers of the intervals count, if that is known.
    pub fn clock(&self) -> Option<Clock> {
        self.clock
    }

    /// The same history with the database's clock for real time: a transaction runs from its start
    /// timestamp to its commit timestamp. Without timestamps nothing changes; without a known outcome it
    /// never ends.
    pub fn timed_by_stamps(mut self) -> History {
        let Some(stamps) = &self.stamps else { return self };
        let mut moments: Vec<Timestamp> = stamps.iter().flat_map(|s| [s.start, s.commit]).collect();
        moments.sort_unstable();
        moments.dedup();
        let place = |at: Timestamp| moments.partition_point(|&m| m < at) as u64;
        let interval = |(s, outcome): (&Stamps, &Outcome)| Interval {
            invoked: place(s.start),
            completed: (*outcome != Outcome::Indeterminate).then(|| place(s.commit)),
        };
        self.clock = None;
        self.intervals = Some(stamps.iter().zip(&self.outcome).map(interval).collect());
        self
    }

    /// The same transactions and operations, under the same ids, each transaction in a session of its own.
    pub fn without_sessions(&self) -> History {
        let n = self.txn_count() as u32;
        let mut alone = self.clone();
        alone.session_start = (0..=n).collect();
        alone.branches = Vec::new();
        alone.issuers = Vec::new();
        alone.issued = Vec::new();
        alone.session_label = (0..n).map(|t| Value::int(i64::from(t)).unwrap_or(Value::NIL)).collect();
        alone.txn_session = (0..n).map(SessionId).collect();
        alone.numbers = None;
        alone
    }

    /// Facts recorded about single transactions.
    pub fn metadata(&self) -> &BTreeMap<TxnId, Metadata> {
        &self.metadata
    }

    /// Faults that were injected while it was recorded, and are no transactions.
    pub fn outages(&self) -> &[Outage] {
        &self.outages
    }

    /// Initial values.
    pub fn initial(&self) -> &Initial {
        &self.initial
    }

    /// The same history with another initial value for keys that have none of their own.
    pub fn with_initial_default(mut self, default: Option<Value>) -> History {
        self.initial.default = default;
        self
    }

    /// The elements of a list value; `None` if the value is not a list.
    #[inline]
    pub fn list(&self, value: Value) -> Option<&[Value]> {
        match value.view() {
            View::List(id) => Some(self.lists.get(id)),
            _ => None,
        }
    }

    /// Kind and text of an atom.
    pub fn atom(&self, id: AtomId) -> (AtomKind, &str) {
        self.atoms.get(id)
    }

    /// The atom table.
    pub fn atoms(&self) -> &Atoms {
        &self.atoms
    }

    /// The name of a key in the input.
    pub fn key_label(&self, k: KeyId) -> Value {
        self.key_label[k.index()]
    }

    /// The name of a session in the input.
    pub fn session_label(&self, s: SessionId) -> Value {
        self.session_label[s.index()]
    }

    /// The name of a transaction in the input, if it has one of its own.
    pub fn txn_label(&self, t: TxnId) -> Option<Value> {
        self.label.get(t.index()).copied().filter(|&l| l != Value::NIL)
    }

    /// A value as people write it. Integers and nil are the same in all formats; text is quoted only where
    /// needed.
    pub fn show(&self, value: Value) -> Show<'_> {
        Show { history: self, value, raw: false }
    }

    /// A key as people write it.
    pub fn show_key(&self, k: KeyId) -> Show<'_> {
        self.show(self.key_label(k))
    }

    /// A transaction's name: as in the input, or session and position (`3:17` is the 17th of session 3).
    pub fn txn_name(&self, t: TxnId) -> String {
        inert(&self.raw_name(t)).into_owned()
    }

    /// The same with every character as it is: for programs and for comparing, not for people.
    pub fn raw_name(&self, t: TxnId) -> String {
        match self.txn_label(t) {
            Some(label) => self.show(label).raw().to_string(),
            None => {
                let s = self.session_of(t);
                let in_session = t.0 - self.session_start[s.index()] + 1;
                let rank = self.rank.get(t.index()).copied().unwrap_or(in_session);
                format!("{}:{rank}", self.show(self.session_label(s)).raw())
            }
        }
    }

    /// True if some operation appends or reads a list.
    pub fn has_lists(&self) -> bool {
        self.has_appends || self.lists.count() > 0
    }

    /// True if some operation replaces a value or reads one that is not a list.
    pub fn has_registers(&self) -> bool {
        self.heads.iter().zip(&self.values).any(|(h, v)| match h.kind() {
            OpKind::Write => true,
            OpKind::Read => !v.is_list() && *v != Value::UNKNOWN,
            OpKind::Append => false,
        })
    }
}

/// Displays a [`Value`] with the names of its history, [inert](crate::inert).
pub struct Show<'a> {
    history: &'a History,
    value: Value,
    raw: bool,
}

impl Show<'_> {
    /// The same with every character as it is: for programs and for comparing, not for people.
    pub fn raw(self) -> Self {
        Show { raw: true, ..self }
    }
}

impl fmt::Display for Show<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value.view() {
            View::Nil => f.write_str("nil"),
            View::Unknown => f.write_str("?"),
            View::Int(i) => write!(f, "{i}"),
            View::Atom(id) => {
                let (kind, text) = self.history.atom(id);
                if kind == AtomKind::Keyword {
                    f.write_str(":")?;
                }
                if self.raw { f.write_str(text) } else { f.write_str(&inert(text)) }
            }
            View::List(id) => {
                f.write_str("[")?;
                for (i, &element) in self.history.lists.get(id).iter().enumerate() {
                    if i > 0 {
                        f.write_str(" ")?;
                    }
                    Show { value: element, ..*self }.fmt(f)?;
                }
                f.write_str("]")
            }
        }
    }
}
