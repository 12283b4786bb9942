//! The committed view of a history, which all engines share: committed transactions, session order, external
//! reads and the version order that is assumed or shown.

use anomalist_history::{History, Index, KeyId, OpId, OpKind, Outcome, Source, TxnId, Value};
use anomalist_level::{Choice, Evidence, VersionReason};

/// Who a read got its value from: a transaction, or the initial state (which precedes everything).
pub(crate) type Writer = Option<TxnId>;

/// An external read: its transaction had not written the key before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Read {
    pub op: OpId,
    pub key: KeyId,
    pub from: Writer,
}

/// The external reads of all committed transactions, one after another, and the keys that transactions
/// write. They are gone through half a dozen times, so it pays to pick them out of the operations once: 12
/// bytes per read, 4 per write.
pub(crate) struct ExternalReads {
    start: Vec<u32>,
    reads: Vec<PackedRead>,
    write_start: Vec<u32>,
    written: Vec<KeyId>,
    /// Committed transactions that branch off a session, each after the committed one that it directly
    /// follows; sorted.
    branches: Vec<(TxnId, TxnId)>,
}

/// A [`Read`] whose source is a plain number.
#[derive(Clone, Copy)]
struct PackedRead {
    op: OpId,
    key: KeyId,
    from: u32,
}

const INITIAL: u32 = u32::MAX;

impl From<Read> for PackedRead {
    fn from(read: Read) -> PackedRead {
        PackedRead { op: read.op, key: read.key, from: read.from.map_or(INITIAL, |w| w.0) }
    }
}

impl ExternalReads {
    pub fn new(history: &History, index: &Index) -> ExternalReads {
        let reads = history.heads().iter().filter(|h| h.is_read()).count();
        let writes = history.op_count() - reads;
        let mut picked = ExternalReads {
            start: Vec::with_capacity(history.txn_count() + 1),
            reads: Vec::with_capacity(reads),
            write_start: Vec::with_capacity(history.txn_count() + 1),
            written: Vec::with_capacity(writes),
            branches: branches(history, index),
        };
        picked.start.push(0);
        picked.write_start.push(0);
        // Whether an operation is a read, and of what kind, no processor foresees: picking without branches
        // takes half the time.
        let mut reads = Vec::new();
        let mut written = Vec::new();
        for t in history.txns() {
            let range = history.op_range(t);
            reads
                .resize(reads.len().max(range.len() + 1), PackedRead { op: OpId(0), key: KeyId(0), from: 0 });
            written.resize(reads.len(), KeyId(0));
            let (mut r, mut w) = (0, 0);
            for i in range {
                let (op, head) = (OpId(i as u32), history.heads()[i]);
                let (from, is_external) = match index.source(op) {
                    Source::From(from) => (from.0, true),
                    Source::Initial => (INITIAL, true),
                    _ => (INITIAL, false),
                };
                reads[r] = PackedRead { op, key: head.key(), from };
                r += usize::from(is_external);
                written[w] = head.key();
                w += usize::from(!head.is_read());
            }
            picked.reads.extend_from_slice(&reads[..r]);
            picked.written.extend_from_slice(&written[..w]);
            picked.start.push(picked.reads.len() as u32);
            picked.write_start.push(picked.written.len() as u32);
        }
        picked
    }

    /// The same with further reads, which are in the order of the history.
    pub fn with(self, history: &History, added: &[Read]) -> ExternalReads {
        let mut added = added.iter().copied().map(PackedRead::from).peekable();
        let (mut start, mut reads) = (vec![0], Vec::with_capacity(self.reads.len()));
        for t in history.txns() {
            let own = self.start[t.index()] as usize..self.start[t.index() + 1] as usize;
            for &read in &self.reads[own] {
                reads.extend(std::iter::from_fn(|| added.next_if(|a| a.op < read.op)));
                reads.push(read);
            }
            let end = history.op_range(t).end;
            reads.extend(std::iter::from_fn(|| added.next_if(|a| a.op.index() < end)));
            start.push(reads.len() as u32);
        }
        ExternalReads { start, reads, ..self }
    }

    /// Number of writes.
    pub fn write_count(&self) -> usize {
        self.written.len()
    }
}

fn branches(history: &History, index: &Index) -> Vec<(TxnId, TxnId)> {
    let single = |s| history.branches_off(s).and(history.session_txns(s).next());
    let committed = |t: &TxnId| index.is_committed(*t);
    let singles = history.sessions().filter_map(single).filter(committed);
    let after = |t: TxnId| Some((history.before_in_session(t).rfind(committed)?, t));
    let mut branches: Vec<(TxnId, TxnId)> = singles.filter_map(after).collect();
    branches.sort_unstable();
    branches
}

/// A history with its index.
#[derive(Clone, Copy)]
pub(crate) struct CommittedView<'a> {
    pub history: &'a History,
    pub index: &'a Index,
    pub reads: &'a ExternalReads,
    /// What the caller assumes about the order of registers' versions.
    pub assumed: &'a [VersionEdge],
}

impl<'a> CommittedView<'a> {
    /// Transactions, committed or not: the size of columns.
    pub fn txn_count(&self) -> usize {
        self.history.txn_count()
    }

    /// The committed transactions, session by session.
    pub fn committed(&self) -> impl Iterator<Item = TxnId> + use<'a> {
        let index = self.index;
        self.history.txns().filter(move |&t| index.is_committed(t))
    }

    /// The external reads of a committed transaction that have a source, in program order.
    #[inline]
    pub fn reads(&self, t: TxnId) -> impl DoubleEndedIterator<Item = Read> + use<'a> {
        let range = self.reads.start[t.index()] as usize..self.reads.start[t.index() + 1] as usize;
        self.reads.reads[range].iter().map(|r| Read {
            op: r.op,
            key: r.key,
            from: (r.from != INITIAL).then_some(TxnId(r.from)),
        })
    }

    /// The keys a transaction writes, in program order; a key written twice comes twice.
    #[inline]
    pub fn written(&self, t: TxnId) -> impl Iterator<Item = KeyId> + use<'a> {
        let start = &self.reads.write_start;
        let range = start[t.index()] as usize..start[t.index() + 1] as usize;
        self.reads.written[range].iter().copied()
    }

    /// The committed transaction just before one in session order.
    pub fn session_predecessor(&self, t: TxnId) -> Option<TxnId> {
        self.history.before_in_session(t).rfind(|&p| self.index.is_committed(p))
    }

    /// True if no committed transaction comes before one in its own session (not in one it branches off).
    pub fn first_of_session(&self, t: TxnId) -> bool {
        let start = self.history.session_range(self.history.session_of(t)).start;
        !(start..t.0).rev().any(|p| self.index.is_committed(TxnId(p)))
    }

    /// The committed transaction that one directly follows by branching off its session.
    pub fn trunk(&self, t: TxnId) -> Option<TxnId> {
        if self.reads.branches.is_empty() {
            return None;
        }
        self.history.branches_off(self.history.session_of(t)).and_then(|_| self.session_predecessor(t))
    }

    /// The committed transactions that branch off a session just after this one.
    pub fn branches(&self, t: TxnId) -> impl ExactSizeIterator<Item = TxnId> + Clone + use<'a> {
        let all = &self.reads.branches;
        let range = match all.is_empty() {
            true => 0..0,
            false => all.partition_point(|b| b.0 < t)..all.partition_point(|b| b.0 <= t),
        };
        all[range].iter().map(|b| b.1)
    }

    /// The latest committed writer of a key before `t` in session order.
    pub fn own_writer(&self, t: TxnId, key: KeyId) -> Option<TxnId> {
        let ids = self.history.part_before(self.history.trunk(t), t);
        let writers = self.index.writers(key);
        let before = &writers[..writers.partition_point(|w| w.0 < ids.end)];
        before.last().copied().filter(|w| w.0 >= ids.start)
    }

    /// The next committed transaction of the same session.
    pub fn session_successor(&self, t: TxnId) -> Option<TxnId> {
        let end = self.history.session_range(self.history.session_of(t)).end;
        (t.0 + 1..end).map(TxnId).find(|&n| self.index.is_committed(n))
    }

    /// Whether a transaction of unknown outcome counts as committed because a register that it wrote was
    /// read, perhaps. In a history of lists alone, or of registers whose versions have no known order, that
    /// changes nothing for PL-1, the only level to allow aborted reads.
    pub fn may_be_dirty(&self) -> bool {
        let history = self.history;
        let counts = |t: &TxnId| history.outcome(*t) == Outcome::Indeterminate && self.index.is_committed(*t);
        let writes = |t: TxnId| history.ops(t).any(|(_, o)| o.kind == OpKind::Write);
        (history.has_lists() || !self.assumed.is_empty()) && history.txns().filter(counts).any(writes)
    }

    /// The version-order edges that are assumed of registers and those that list reads show: consecutive
    /// appends by different transactions, and from the last observed append to every committed append that
    /// no read shows.
    pub fn version_edges(&self) -> Vec<VersionEdge> {
        let mut edges = self.assumed.to_vec();
        for order in self.index.version_orders() {
            let txn = |op: OpId| self.history.txn_of(op);
            let reason = VersionReason::Shown { read: order.read };
            for pair in order.appends.windows(2) {
                let (from, to) = (txn(pair[0]), txn(pair[1]));
                if from != to {
                    edges.push(VersionEdge { from, to, first: pair[0], second: pair[1], reason });
                }
            }
            let Some(&last) = order.appends.last() else { continue };
            let mut observed = order.appends.clone();
            observed.sort_unstable();
            for &to in self.index.writers(order.key).iter().filter(|&&to| to != txn(last)) {
                let missing = self.history.ops(to).find(|(op, o)| {
                    o.kind == OpKind::Append && o.key == order.key && observed.binary_search(op).is_err()
                });
                if let Some((second, _)) = missing {
                    edges.push(VersionEdge { from: txn(last), to, first: last, second, reason });
                }
            }
        }
        edges
    }

    /// A transaction's final write of a key.
    pub fn write_of(&self, t: TxnId, key: KeyId) -> Option<OpId> {
        self.history
            .op_range(t)
            .rev()
            .find(|&i| !self.history.heads()[i].is_read() && self.history.heads()[i].key() == key)
            .map(|i| OpId(i as u32))
    }

    /// True if a read of a register returned a version: not what its writer went on to replace.
    pub fn is_installed(&self, read: Read) -> bool {
        read.from.is_none_or(|writer| self.write_seen(read) == self.write_of(writer, read.key))
    }

    /// The write a read returned: same key, same value (for a list: the last element that is not the
    /// reader's own).
    pub fn write_seen(&self, read: Read) -> Option<OpId> {
        let value = self.history.op(read.op).value;
        let written = |value: Value| {
            let mut ops = self.history.op_range(read.from?).rev();
            let is_it = |&i: &usize| {
                let head = self.history.heads()[i];
                !head.is_read() && head.key() == read.key && self.history.values()[i] == value
            };
            ops.find(is_it).map(|i| OpId(i as u32))
        };
        match self.history.list(value) {
            None => written(value),
            Some(elements) => {
                let before =
                    self.history.ops(self.history.txn_of(read.op)).take_while(|(op, _)| *op < read.op);
                let own = before.filter(|(_, o)| o.kind == OpKind::Append && o.key == read.key).count();
                written(*elements[..elements.len().saturating_sub(own)].last()?)
            }
        }
    }
}

/// The choice of a write for what a read returned: the value, or the last element of a list that is not the
/// reader's own.
pub(crate) fn returned(history: &History, read: OpId, write: OpId) -> Choice {
    let op = history.op(read);
    let Some(elements) = history.list(op.value) else { return Choice::write(read, write) };
    let before = history.ops(history.txn_of(read)).take_while(|(other, _)| *other < read);
    let own = before.filter(|(_, o)| o.kind == OpKind::Append && o.key == op.key).count();
    Choice::append(read, elements.len().saturating_sub(own + 1) as u32, write)
}

/// `from` wrote or appended before `to`, as a list shows or as is assumed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VersionEdge {
    pub from: TxnId,
    pub to: TxnId,
    pub first: OpId,
    pub second: OpId,
    pub reason: VersionReason,
}

impl VersionEdge {
    pub fn evidence(&self) -> Evidence {
        let VersionEdge { first, second, reason, .. } = *self;
        match reason {
            VersionReason::Shown { read } => Evidence::Version { first, second, read },
            reason => Evidence::Ordered { first, second, reason },
        }
    }
}

/// A value per key (or transaction) that holds for one round at a time: starting a round forgets all values
/// in O(1).
pub(crate) struct EpochMap<T> {
    slots: Vec<(u32, T)>,
    round: u32,
}

impl<T: Copy + Default> EpochMap<T> {
    pub fn new(len: usize) -> Self {
        EpochMap { slots: vec![(0, T::default()); len], round: 1 }
    }

    #[inline]
    pub fn next_round(&mut self) {
        self.round += 1;
    }

    #[inline]
    pub fn get(&self, i: usize) -> Option<T> {
        let (round, value) = self.slots[i];
        (round == self.round).then_some(value)
    }

    #[inline]
    pub fn set(&mut self, i: usize, value: T) {
        self.slots[i] = (self.round, value);
    }
}
