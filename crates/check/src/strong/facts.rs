//! What every strong level starts from: who wrote which keys, what each transaction found under the keys it
//! read, and the order of appends that lists show.
//!
//! Everything is taken from the index once, for all levels. Reads with several possible sources
//! (transactions that wrote the value, the initial state) stay *open*, with their candidates (lists:
//! `open_lists.rs`); transactions of unknown outcome that only open reads can have seen *may* have
//! committed. Candidates are kept once per key and value, not per read, so memory is linear in the history.

use super::open_lists::{Appends, OpenList};
use super::rules::Rules;
use crate::view::CommittedView;
use crate::view::{EpochMap, VersionEdge};
use anomalist_history::{FaultKind, History, Index, KeyId, OpId, OpKind, ReadFault, Source, TxnId, Value};
use rustc_hash::FxHashMap;

/// Where a read got its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum From {
    Initial,
    Txn(TxnId),
    /// One of several: a place in [`Facts::open`].
    Open(u32),
}

/// An open read before it has its number.
const UNNUMBERED: From = From::Open(u32::MAX);

/// What a transaction found under a key it had not written (or, on lists, below its own appends). Repeated
/// reads with the same answer count once, unless some reads are open (then two of them may have returned
/// different writes of one value) or levels are asked about to which it matters what was read in between.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub op: OpId,
    pub reader: TxnId,
    pub key: KeyId,
    pub from: From,
}

/// What a read may have returned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Origin {
    Initial,
    Write(TxnId, OpId),
}

impl Origin {
    /// Whose write; `None`: the initial state.
    pub fn txn(self) -> Option<TxnId> {
        match self {
            Origin::Initial => None,
            Origin::Write(t, _) => Some(t),
        }
    }

    /// Which write; `None`: the initial state.
    pub fn write(self) -> Option<OpId> {
        match self {
            Origin::Initial => None,
            Origin::Write(_, write) => Some(write),
        }
    }
}

/// A read, or an element of a list, that has several possible sources.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    pub op: OpId,
    pub reader: TxnId,
    /// Which element of the list; 0 for a register.
    pub element: u32,
    /// Its place in [`Facts::reads`], unless it is an older element of a list.
    pub read: Option<u32>,
    pub of_list: bool,
    /// A place in [`Facts::pools`].
    pub pool: u32,
}

/// The possible sources of a value of a key: what all open reads of it choose from, except for the reader's
/// own writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    /// The writes of the value, ascending. Of a register only final ones.
    pub writes: Vec<(TxnId, OpId)>,
    /// Registers: writes of the value that their transaction replaced. No other transaction may see those.
    pub replaced: Vec<(TxnId, OpId)>,
    /// It is the initial value of the key, too.
    pub initial: bool,
}

/// The order in which transactions appended to a list, as its longest read shows it.
#[derive(Clone, Debug)]
pub(crate) struct ListOrder {
    pub key: KeyId,
    /// The read that shows it.
    pub read: OpId,
    /// Each run of appends by one transaction: who, its first and its last append.
    pub runs: Vec<(TxnId, OpId, OpId)>,
    /// Committed appends it does not show, the first of each transaction.
    pub later: Vec<(TxnId, OpId)>,
}

pub(crate) struct Facts<'a> {
    pub history: &'a History,
    pub index: &'a Index,
    /// Whether a transaction certainly took effect; others with `index.is_committed` may have.
    pub certain: Vec<bool>,
    pub reads: Vec<Found>,
    read_start: Vec<u32>,
    write_start: Vec<u32>,
    write_key: Vec<KeyId>,
    pub open: Vec<Open>,
    open_start: Vec<u32>,
    pub pools: Vec<Pool>,
    /// Per transaction, the pools of registers that it is in, with its write.
    pool_start: Vec<u32>,
    pool_writes: Vec<(u32, OpId)>,
    /// Transactions that may have committed but for a read that nothing explains, or only a write (it is
    /// named) that its transaction replaced.
    pub impossible: Vec<(TxnId, OpId, FaultKind, Option<OpId>)>,
    pub lists: Vec<ListOrder>,
    /// Reads of lists that do not show for sure whose appends they show, and all others of the same keys.
    pub open_lists: Vec<OpenList>,
    pub appends: Appends,
    /// No other engine has looked at the history.
    pub alone: bool,
    /// What is assumed about the order of registers' versions.
    pub assumed: &'a [VersionEdge],
    /// List reads that show part of another transaction's appends, up to this one: no transaction may that
    /// follows what it reads.
    pub partial: Vec<(OpId, OpId)>,
}

impl<'a> Facts<'a> {
    /// `view.index` knows what certainly committed, `index` what may have; they are the same unless reads
    /// are open. `alone`: no other engine has looked at the history, so lists are taken element by element,
    /// and nothing is left out.
    pub fn new(view: CommittedView<'a>, index: &'a Index, alone: bool) -> Facts<'a> {
        Facts::with(view, index, alone, alone || index.ambiguous_reads() > 0)
    }

    /// With `every` read, those too that repeat an earlier one.
    pub fn with(view: CommittedView<'a>, index: &'a Index, alone: bool, every: bool) -> Facts<'a> {
        let history = view.history;
        let certain = history.txns().map(|t| view.index.is_committed(t)).collect();
        let mut facts = Facts {
            history,
            index,
            certain,
            reads: Vec::new(),
            read_start: vec![0],
            write_start: vec![0],
            write_key: Vec::new(),
            open: Vec::new(),
            open_start: Vec::new(),
            pools: Vec::new(),
            pool_start: Vec::new(),
            pool_writes: Vec::new(),
            impossible: Vec::new(),
            lists: Vec::new(),
            open_lists: Vec::new(),
            appends: Appends::new(view, index, alone),
            alone,
            assumed: view.assumed,
            partial: Vec::new(),
        };
        let appends = facts.collect_lists();
        facts.collect_operations(&appends, every);
        facts.find_candidates();
        facts.find_impossible();
        facts
    }

    /// A faulty read that levels forgive, but not whatever it shows, which is not among these facts: an
    /// order that was found proves nothing.
    pub fn forgiven(&self, rules: Rules<'_>) -> Option<OpId> {
        let concerns = |fault: &&ReadFault| {
            let of_list = self.history.list(self.history.op(fault.op).value).is_some();
            rules.own(self.history.txn_of(fault.op)).still_concerns(fault.kind, of_list)
        };
        self.index.faults().iter().find(concerns).map(|fault| fault.op)
    }

    /// Whether any read is open, so that more than the order of events is to be found out.
    pub fn has_open_reads(&self) -> bool {
        !self.open.is_empty() || !self.open_lists.is_empty()
    }

    /// What an open read (or element) may have returned, if it returned what is final.
    pub fn candidates(&self, open: u32) -> impl Iterator<Item = Origin> + use<'_, 'a> {
        let Open { reader, pool, .. } = self.open[open as usize];
        let pool = &self.pools[pool as usize];
        let writes = pool.writes.iter().filter(move |w| w.0 != reader).map(|&(t, op)| Origin::Write(t, op));
        writes.chain(pool.initial.then_some(Origin::Initial))
    }

    /// What an open read of a register may have returned that its transaction replaced.
    pub fn replaced(&self, open: u32) -> impl Iterator<Item = (TxnId, OpId)> + use<'_, 'a> {
        let Open { reader, pool, .. } = self.open[open as usize];
        self.pools[pool as usize].replaced.iter().copied().filter(move |w| w.0 != reader)
    }

    /// The candidate of an open read of a register that this transaction (`None`: the initial state) is, if
    /// it is one.
    pub fn candidate_of(&self, open: u32, t: Option<TxnId>) -> Option<Origin> {
        let Open { reader, pool, .. } = self.open[open as usize];
        let pool = &self.pools[pool as usize];
        match t {
            None => pool.initial.then_some(Origin::Initial),
            Some(t) if t == reader => None,
            Some(t) => {
                let at = pool.writes.binary_search_by_key(&t, |w| w.0).ok()?;
                Some(Origin::Write(t, pool.writes[at].1))
            }
        }
    }

    /// The final writes of a transaction that open reads of registers may have returned, each with its pool.
    pub fn pool_writes(&self, t: TxnId) -> &[(u32, OpId)] {
        &self.pool_writes[range(&self.pool_start, t)]
    }

    /// The open reads and elements of a transaction, as places in `open`.
    pub fn open_of(&self, t: TxnId) -> std::ops::Range<usize> {
        range(&self.open_start, t)
    }

    /// The open lists that a transaction read.
    pub fn open_lists_of(&self, t: TxnId) -> &[OpenList] {
        let at = |t: TxnId| self.open_lists.partition_point(|l| l.reader < t);
        &self.open_lists[at(t)..at(TxnId(t.0 + 1))]
    }

    /// The transactions that took effect or may have, session by session.
    pub fn txns(&self) -> impl Iterator<Item = TxnId> + use<'a> {
        let index = self.index;
        self.history.txns().filter(move |&t| index.is_committed(t))
    }

    /// What a transaction found, as places in `reads`.
    #[inline]
    pub fn reads_of(&self, t: TxnId) -> std::ops::Range<usize> {
        self.read_start[t.index()] as usize..self.read_start[t.index() + 1] as usize
    }

    /// The writes of a transaction, one per key, as places of the column behind [`key_of`](Self::key_of).
    #[inline]
    pub fn writes_of(&self, t: TxnId) -> std::ops::Range<usize> {
        self.write_start[t.index()] as usize..self.write_start[t.index() + 1] as usize
    }

    #[inline]
    pub fn key_of(&self, write: usize) -> KeyId {
        self.write_key[write]
    }

    /// Number of writes, one per transaction and key.
    pub fn write_count(&self) -> usize {
        self.write_key.len()
    }

    pub fn writes(&self, t: TxnId, key: KeyId) -> bool {
        self.index.writes(t, key)
    }

    /// A transaction's final write of a key.
    pub fn write_of(&self, t: TxnId, key: KeyId) -> Option<OpId> {
        let heads = self.history.heads();
        let mut ops = self.history.op_range(t).rev();
        ops.find(|&i| !heads[i].is_read() && heads[i].key() == key).map(|i| OpId(i as u32))
    }

    /// Notes the version orders; returns, for each list key, its appends in order.
    fn collect_lists(&mut self) -> FxHashMap<KeyId, &'a [OpId]> {
        let mut appends: FxHashMap<KeyId, &'a [OpId]> = FxHashMap::default();
        let index = self.index;
        for order in index.version_orders().iter().filter(|o| !self.appends.is_open(o.key)) {
            if appends.insert(order.key, &order.appends).is_some() {
                // Reads that contradict each other: a fault, which the levels below have reported.
                continue;
            }
            let mut runs: Vec<(TxnId, OpId, OpId)> = Vec::new();
            for &append in &order.appends {
                let txn = self.history.txn_of(append);
                match runs.last_mut() {
                    Some(run) if run.0 == txn => run.2 = append,
                    _ => runs.push((txn, append, append)),
                }
            }
            let mut observed = order.appends.clone();
            observed.sort_unstable();
            let is_append = |o: anomalist_history::Op| o.kind == OpKind::Append && o.key == order.key;
            let missing = |t: &TxnId| {
                let mut ops = self.history.ops(*t);
                let found = ops.find(|(op, o)| is_append(*o) && observed.binary_search(op).is_err());
                found.map(|(op, _)| (*t, op))
            };
            let later = index.writers(order.key).iter().filter_map(missing).collect();
            self.lists.push(ListOrder { key: order.key, read: order.read, runs, later });
        }
        appends
    }

    fn collect_operations(&mut self, appends: &FxHashMap<KeyId, &'a [OpId]>, every: bool) {
        let history = self.history;
        let keys = history.key_count();
        let mut written: EpochMap<u32> = EpochMap::new(keys);
        let mut found: EpochMap<u32> = EpochMap::new(keys);
        for t in history.txns() {
            written.next_round();
            found.next_round();
            if self.index.is_committed(t) {
                for i in history.op_range(t) {
                    let (op, head) = (OpId(i as u32), history.heads()[i]);
                    let key = head.key();
                    if !head.is_read() {
                        let before = written.get(key.index());
                        if before.is_none() {
                            self.write_key.push(key);
                        }
                        written.set(key.index(), before.unwrap_or(0) + 1);
                        continue;
                    }
                    let own = written.get(key.index()).unwrap_or(0) as usize;
                    let from = match self.appends.is_open(key) {
                        true => self.open_list(op, t, own),
                        false => self.source(op, own, appends),
                    };
                    let Some(from) = from else { continue };
                    if let Some(earlier) = found.get(key.index())
                        && !every
                        && self.reads[earlier as usize].from == from
                        && history.values()[self.reads[earlier as usize].op.index()] == history.values()[i]
                    {
                        continue;
                    }
                    found.set(key.index(), self.reads.len() as u32);
                    if let (From::Open(open), true) = (from, self.appends.is_open(key)) {
                        self.open[open as usize].read = Some(self.reads.len() as u32);
                    }
                    self.reads.push(Found { op, reader: t, key, from });
                }
            }
            self.read_start.push(self.reads.len() as u32);
            self.write_start.push(self.write_key.len() as u32);
        }
    }

    /// Where a read by a transaction with `own` earlier writes of the key got its value from; open reads
    /// have no number yet.
    fn source(&mut self, op: OpId, own: usize, appends: &FxHashMap<KeyId, &'a [OpId]>) -> Option<From> {
        let from = match self.index.source(op) {
            Source::Initial => return Some(From::Initial),
            Source::From(t) => From::Txn(t),
            Source::Ambiguous => UNNUMBERED,
            Source::Own | Source::NotJudged | Source::Fault => return None,
        };
        if matches!(from, From::Txn(_)) && appends.is_empty() {
            return Some(from);
        }
        let Some(elements) = self.history.list(self.history.values()[op.index()]) else {
            return Some(from);
        };
        // What the list shows below the transaction's own appends.
        let Some(shown) = elements.len().checked_sub(own).filter(|&shown| shown > 0) else {
            return Some(From::Initial);
        };
        let key = self.history.heads()[op.index()].key();
        let last = *appends.get(&key)?.get(shown - 1)?;
        let author = self.history.txn_of(last);
        if self.write_of(author, key) != Some(last) {
            self.partial.push((op, last));
        }
        Some(From::Txn(author))
    }

    /// Notes what a list of unclear origin may show; returns what its last element is from.
    fn open_list(&mut self, op: OpId, reader: TxnId, own: usize) -> Option<From> {
        if matches!(self.index.source(op), Source::NotJudged | Source::Fault) {
            return None;
        }
        let (history, first) = (self.history, self.open.len() as u32);
        let elements = history.list(history.values()[op.index()])?;
        let shown = &elements[..elements.len().saturating_sub(own)];
        let (list, open) = self.appends.list(history, op, reader, shown, first, &mut self.pools);
        let from = match list.elements.last() {
            None => From::Initial,
            Some(&super::open_lists::Element::Certain(write)) => From::Txn(history.txn_of(write)),
            Some(&super::open_lists::Element::Open(open)) => From::Open(open),
        };
        self.open.extend(open);
        self.open_lists.push(list);
        Some(from)
    }

    fn find_candidates(&mut self) {
        if self.index.ambiguous_reads() == 0 {
            return;
        }
        let (history, first) = (self.history, self.pools.len());
        let mut pools: FxHashMap<(KeyId, Value), u32> = FxHashMap::default();
        for i in 0..self.reads.len() {
            let Found { op, reader, key, from: UNNUMBERED } = self.reads[i] else { continue };
            let value = history.values()[op.index()];
            let pool = *pools.entry((key, value)).or_insert_with(|| {
                let initial = history.initial().of(key) == Some(value);
                self.pools.push(Pool { initial, ..Pool::default() });
                self.pools.len() as u32 - 1
            });
            self.open.push(Open { op, reader, element: 0, read: Some(i as u32), of_list: false, pool });
        }
        for t in history.txns().filter(|&t| self.index.is_committed(t)) {
            for (op, o) in history.ops(t).filter(|(_, o)| o.kind != OpKind::Read) {
                let Some(&pool) = pools.get(&(o.key, o.value)) else { continue };
                let writes = &mut self.pools[pool as usize].writes;
                match writes.last_mut() {
                    Some(last) if last.0 == t => last.1 = op,
                    _ => writes.push((t, op)),
                }
            }
        }
        for (&(key, _), &pool) in &pools {
            let writes = std::mem::take(&mut self.pools[pool as usize].writes);
            let (writes, replaced) = writes.into_iter().partition(|w| self.write_of(w.0, key) == Some(w.1));
            let initial = self.pools[pool as usize].initial;
            self.pools[pool as usize] = Pool { writes, replaced, initial };
        }
        self.list_pool_writes(first);
        self.number_by_reader();
    }

    /// Lists by transaction what is in the pools from `first` on, those of registers.
    fn list_pool_writes(&mut self, first: usize) {
        let mut writes: Vec<(TxnId, u32, OpId)> = Vec::new();
        for (pool, found) in self.pools.iter().enumerate().skip(first) {
            writes.extend(found.writes.iter().map(|&(t, op)| (t, pool as u32, op)));
        }
        writes.sort_unstable();
        self.pool_start = starts(self.history.txn_count(), writes.iter().map(|w| w.0));
        self.pool_writes = writes.into_iter().map(|(_, pool, op)| (pool, op)).collect();
    }

    /// Sorts open reads by reader, so that those of a transaction lie together; the reads learn their
    /// numbers.
    fn number_by_reader(&mut self) {
        let mut order: Vec<u32> = (0..self.open.len() as u32).collect();
        order.sort_by_key(|&i| (self.open[i as usize].reader, i));
        let mut number = vec![0; order.len()];
        let mut sorted = Vec::with_capacity(order.len());
        for (new, &old) in order.iter().enumerate() {
            number[old as usize] = new as u32;
            sorted.push(self.open[old as usize]);
        }
        self.open = sorted;
        self.open_start = starts(self.history.txn_count(), self.open.iter().map(|open| open.reader));
        for list in &mut self.open_lists {
            list.renumber(&number);
        }
        for (i, open) in self.open.iter().enumerate() {
            if let Some(read) = open.read {
                self.reads[read as usize].from = From::Open(i as u32);
            }
        }
    }

    fn find_impossible(&mut self) {
        for fault in self.index.faults() {
            let t = self.history.txn_of(fault.op);
            if !self.certain[t.index()] && fault.kind != FaultKind::IncompatibleOrder {
                let replaced = fault.other.filter(|_| fault.kind == FaultKind::Intermediate);
                self.impossible.push((t, fault.op, fault.kind, replaced));
            }
        }
    }
}

/// Where the items of each transaction begin, if items are sorted by the transactions given.
fn starts(txns: usize, items: impl Iterator<Item = TxnId>) -> Vec<u32> {
    let mut start = vec![0u32; txns + 1];
    items.for_each(|t| start[t.index() + 1] += 1);
    for t in 1..start.len() {
        start[t] += start[t - 1];
    }
    start
}

/// The items of a transaction; without `start` there are none.
fn range(start: &[u32], t: TxnId) -> std::ops::Range<usize> {
    match start.get(t.index()..t.index() + 2) {
        Some(&[start, end]) => start as usize..end as usize,
        _ => 0..0,
    }
}
