//! Pairs each read with the write of the same key and value, key by key.
//!
//! Operations are bucketed by key with one counting sort that carries value and transaction along, so that
//! a bucket is read front to back; inside it a small open-addressing table from value to writer stays in
//! cache, where one table for the whole history would miss on every probe. Buckets are independent: threads
//! take contiguous ranges of keys.

use crate::by_value::Table;
use crate::ids::{KeyId, OpId, TxnId};
use crate::index::PackedSource;
use crate::lists::Appends;
use crate::model::History;
use crate::operation::{OpKind, Outcome};
use crate::value::Value;
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread::Builder;

/// The result of resolving by key.
pub(crate) struct Resolved {
    /// Per operation: for a read the [`Seen`] writer, or a special [`PackedSource`]. Empty if there is a
    /// table.
    pub source: Vec<u32>,
    /// Where the value alone tells what a read saw.
    pub table: Option<Table>,
    /// Per key, the transactions that write it and did not abort.
    pub writers: Writers,
    /// What the elements of lists were appended by.
    pub appends: Appends,
}

/// The transaction a read saw, and whether it saw a write that the same transaction replaced later.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen(u32);

impl Seen {
    pub const NOT_FINAL: u32 = 1 << 31;

    pub fn new(txn: TxnId) -> Seen {
        Seen(txn.0)
    }

    /// Takes apart what [`Resolved::source`] holds for an ordinary read.
    pub fn unpack(source: u32) -> Option<Seen> {
        (source < PackedSource::FIRST_SPECIAL).then_some(Seen(source))
    }

    /// As [`Resolved::source`] holds it.
    pub fn packed(self) -> u32 {
        self.0
    }

    pub fn txn(self) -> TxnId {
        TxnId(self.0 & !Self::NOT_FINAL)
    }

    pub fn is_final(self) -> bool {
        self.0 & Self::NOT_FINAL == 0
    }

    fn not_final(self) -> Seen {
        Seen(self.0 | Self::NOT_FINAL)
    }
}

/// Transactions per key, as one array with offsets.
pub(crate) struct Writers {
    pub start: Vec<u32>,
    pub txns: Vec<TxnId>,
}

impl Writers {
    pub fn retain_committed(&mut self, committed: &[bool]) {
        let mut kept = 0;
        for k in 0..self.start.len() - 1 {
            let range = self.start[k] as usize..self.start[k + 1] as usize;
            self.start[k] = kept as u32;
            for i in range {
                if committed[self.txns[i].index()] {
                    self.txns[kept] = self.txns[i];
                    kept += 1;
                }
            }
        }
        self.txns.truncate(kept);
        if let Some(last) = self.start.last_mut() {
            *last = kept as u32;
        }
    }
}

impl Resolved {
    /// Calls `f` with every transaction that a read shows to have taken effect.
    pub fn for_each_writer(&self, history: &History, read: OpId, mut f: impl FnMut(TxnId)) {
        let (key, value) = (history.heads()[read.index()].key(), history.values()[read.index()]);
        match history.list(value) {
            Some(elements) => {
                let (repeated, certain): (Vec<_>, Vec<_>) =
                    elements.iter().partition(|&&e| self.appends.is_repeated(key, e));
                certain.iter().filter_map(|&&e| self.appends.of(key, e)).for_each(|a| f(a.txn));
                if !repeated.is_empty() {
                    self.for_each_only_append(history, read, elements, f);
                }
            }
            None => {
                let source = match &self.table {
                    Some(table) => {
                        let mut source = [PackedSource::NOT_JUDGED.0];
                        table.sources(history, read.index()..read.index() + 1, &mut source);
                        source[0]
                    }
                    None => self.source[read.index()],
                };
                if let Some(seen) = Seen::unpack(source) {
                    f(seen.txn());
                }
            }
        }
    }
}

impl Resolved {
    /// Calls `f` with who made, of the appends of an element that was appended several times, the only one
    /// that was not the reader's own.
    fn for_each_only_append(
        &self,
        history: &History,
        read: OpId,
        elements: &[Value],
        mut f: impl FnMut(TxnId),
    ) {
        let (t, key) = (history.txn_of(read), history.heads()[read.index()].key());
        let own: Vec<Value> = history
            .ops(t)
            .take_while(|(op, _)| *op < read)
            .filter(|(_, o)| o.kind != OpKind::Read && o.key == key)
            .map(|(_, o)| o.value)
            .collect();
        for &e in elements.strip_suffix(own.as_slice()).unwrap_or(elements) {
            let mut others = self.appends.all_of(key, e).iter().filter(|&&a| history.txn_of(a) != t);
            if let (Some(&only), None) = (others.next(), others.next()) {
                f(history.txn_of(only));
            }
        }
    }
}

/// An operation in its key's bucket.
#[derive(Clone, Copy)]
struct Entry {
    value: Value,
    /// Marked for a write.
    op: u32,
    txn: TxnId,
}

impl Entry {
    const WRITE: u32 = 1 << 31;
    const EMPTY: Entry = Entry { value: Value::NIL, op: 0, txn: TxnId(0) };

    fn is_write(&self) -> bool {
        self.op & Self::WRITE != 0
    }
}

/// Resolves all reads.
pub(crate) fn by_key(history: &History, threads: usize) -> Resolved {
    let keys = history.key_count();
    let mut start = vec![0u32; keys + 1];
    for h in history.heads() {
        start[h.key().index() + 1] += 1;
    }
    for k in 0..keys {
        start[k + 1] += start[k];
    }
    let appends = Appends::collect(history);
    let mut buckets = vec![Entry::EMPTY; history.op_count()];
    let source: Vec<AtomicU32> =
        (0..history.op_count()).map(|_| AtomicU32::new(PackedSource::NOT_JUDGED.0)).collect();
    let shared = Shared { history, start: &start, source: &source, appends: &appends };

    let parts = in_parallel(&start, threads, &mut buckets, |range, mine| shared.resolve(range, mine));
    drop(buckets);

    let mut writers = Writers { start: vec![0], txns: Vec::new() };
    writers.start.reserve(keys);
    writers.txns.reserve_exact(parts.iter().map(|p| p.writers.len()).sum());
    for part in parts {
        let offset = writers.txns.len() as u32;
        writers.start.extend(part.ends.iter().map(|end| end + offset));
        writers.txns.extend_from_slice(&part.writers);
    }
    let source = source.into_iter().map(AtomicU32::into_inner).collect();
    Resolved { source, table: None, writers, appends }
}

/// Runs `work` on ranges of `0..start.len() - 1` with about equal shares of `column`, of which item `i` owns
/// `start[i]..start[i + 1]`. Results come in order. Where the system refuses threads there are fewer.
pub(crate) fn in_parallel<T: Send, R: Send>(
    start: &[u32],
    threads: usize,
    column: &mut [T],
    work: impl Fn(Range<usize>, &mut [T]) -> R + Sync,
) -> Vec<R> {
    let ranges = even_ranges(start, threads);
    let mut rest = column;
    let mut jobs = Vec::new();
    for range in ranges {
        let (mine, others) = rest.split_at_mut((start[range.end] - start[range.start]) as usize);
        rest = others;
        jobs.push((range, mine));
    }
    let helpers = jobs.len().saturating_sub(1);
    let jobs = Mutex::new(jobs.into_iter().enumerate());
    let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work_off = || {
        let mut done = Vec::new();
        while let Some((number, (range, mine))) = next() {
            done.push((number, work(range, mine)));
        }
        done
    };
    let mut done = std::thread::scope(|scope| {
        let start = |_| Builder::new().spawn_scoped(scope, work_off).ok();
        let helpers: Vec<_> = (0..helpers).filter_map(start).collect();
        // This thread works too: a single share starts no other.
        let mut done = work_off();
        for helper in helpers {
            done.extend(helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|&(number, _)| number);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Does two things at a time or, where the system refuses a thread, one after the other.
pub(crate) fn both<A: Send, B>(other: impl FnOnce() -> A + Send, mine: impl FnOnce() -> B) -> (A, B) {
    let slot = Mutex::new(Some(other));
    let work_off = || slot.lock().unwrap_or_else(PoisonError::into_inner).take().map(|work| work());
    std::thread::scope(|scope| {
        let helper = Builder::new().spawn_scoped(scope, work_off);
        let mine = mine();
        let other = match helper {
            Ok(helper) => helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => work_off(),
        };
        (other.expect("the first to come works, and this is the first"), mine)
    })
}

/// Cuts `0..start.len() - 1` into ranges with about the same share of the last offset.
fn even_ranges(start: &[u32], threads: usize) -> Vec<Range<usize>> {
    let len = start.len() - 1;
    let total = u64::from(start[len]);
    let mut ranges = Vec::new();
    let mut from = 0;
    for i in 1..=threads as u64 {
        let target = (total * i / threads as u64) as u32;
        let to = if i == threads as u64 { len } else { start.partition_point(|&s| s < target).min(len) };
        if to > from {
            ranges.push(from..to);
            from = to;
        }
    }
    ranges
}

struct Shared<'a> {
    history: &'a History,
    start: &'a [u32],
    source: &'a [AtomicU32],
    appends: &'a Appends,
}

#[derive(Default)]
struct Part {
    writers: Vec<TxnId>,
    ends: Vec<u32>,
}

impl Shared<'_> {
    fn resolve(&self, keys: Range<usize>, buckets: &mut [Entry]) -> Part {
        self.scatter(keys.clone(), buckets);
        let base = self.start[keys.start];
        let mut part = Part::default();
        let mut table = KeyTable::default();
        for k in keys {
            let bucket = &buckets[(self.start[k] - base) as usize..(self.start[k + 1] - base) as usize];
            self.collect_writers(bucket, &mut part);
            part.ends.push(part.writers.len() as u32);
            if self.appends.is_list_key(KeyId(k as u32)) {
                self.resolve_list_reads(KeyId(k as u32), bucket);
            } else {
                self.resolve_reads(KeyId(k as u32), bucket, &mut table);
            }
        }
        part
    }

    /// Fills the buckets of these keys with their operations, in the order of the history.
    fn scatter(&self, keys: Range<usize>, buckets: &mut [Entry]) {
        let base = self.start[keys.start];
        let mut next: Vec<u32> = self.start[keys.clone()].iter().map(|s| s - base).collect();
        let low = keys.start as u32;
        for txn in self.history.txns() {
            let range = self.history.op_range(txn);
            let ops = self.history.heads()[range.clone()].iter().zip(&self.history.values()[range.clone()]);
            for (i, (head, &value)) in range.zip(ops) {
                let Some(slot) = next.get_mut(head.key().0.wrapping_sub(low) as usize) else { continue };
                let mark = if head.is_read() { 0 } else { Entry::WRITE };
                buckets[*slot as usize] = Entry { value, op: i as u32 | mark, txn };
                *slot += 1;
            }
        }
    }

    /// Ids ascend inside a bucket, so the writes of one transaction are neighbours.
    fn collect_writers(&self, bucket: &[Entry], part: &mut Part) {
        let mut last = None;
        for write in bucket.iter().filter(|e| e.is_write()) {
            if last != Some(write.txn) && self.history.outcome(write.txn) != Outcome::Aborted {
                part.writers.push(write.txn);
            }
            last = Some(write.txn);
        }
    }

    fn resolve_reads(&self, key: KeyId, bucket: &[Entry], table: &mut KeyTable) {
        table.reset(bucket.iter().filter(|e| e.is_write()).count());
        // Writers of a value that more than one write has: rare, so a map of its own.
        let mut repeated: FxHashMap<Value, Vec<Seen>> = FxHashMap::default();
        let mut writes = bucket.iter().filter(|e| e.is_write()).peekable();
        while let Some(write) = writes.next() {
            let replaced = writes.peek().is_some_and(|next| next.txn == write.txn);
            let seen = if replaced { Seen::new(write.txn).not_final() } else { Seen::new(write.txn) };
            if let Some(first) = table.insert(write.value, seen) {
                repeated.entry(write.value).or_insert_with(|| vec![first]).push(seen);
            }
        }
        let initial = self.history.initial().of(key);
        for read in bucket.iter().filter(|e| !e.is_write() && e.value != Value::UNKNOWN) {
            let is_initial = initial == Some(read.value);
            let source = match table.get(read.value) {
                None if is_initial => PackedSource::INITIAL.0,
                None => PackedSource::FAULT.0,
                Some(seen) if repeated.is_empty() && !is_initial => seen.0,
                Some(seen) => {
                    let all = repeated.get(&read.value).map_or(std::slice::from_ref(&seen), Vec::as_slice);
                    self.choose(read.txn, all, is_initial)
                }
            };
            self.source[read.op as usize].store(source, Relaxed);
        }
    }

    /// Which of several writers of one value a read saw. A committed one beats an aborted one (a client's
    /// retry), and another transaction beats the reader itself, whose own writes `reads.rs` considers
    /// first. The initial state, if that is its value too, is one more possible source beside other
    /// transactions, and the only one beside aborted writers.
    fn choose(&self, reader: TxnId, writers: &[Seen], is_initial: bool) -> u32 {
        let rank = |w: Seen| match self.history.outcome(w.txn()) {
            _ if w.txn() == reader => 1,
            Outcome::Aborted => 0,
            _ => 2,
        };
        let mut best: Option<Seen> = None;
        for &w in writers {
            match best {
                Some(b) if rank(b) > rank(w) => {}
                Some(b) if rank(w) == 2 && rank(b) == 2 && b.txn() != w.txn() => {
                    return PackedSource::AMBIGUOUS.0;
                }
                _ => best = Some(w),
            }
        }
        match best {
            Some(b) if is_initial && rank(b) == 2 => PackedSource::AMBIGUOUS.0,
            _ if is_initial => PackedSource::INITIAL.0,
            Some(b) => b.0,
            None => PackedSource::FAULT.0,
        }
    }

    /// A list was read from the transaction that appended its last element.
    fn resolve_list_reads(&self, key: KeyId, bucket: &[Entry]) {
        for read in bucket.iter().filter(|e| !e.is_write()) {
            let source = match self.history.list(read.value) {
                Some([]) => PackedSource::INITIAL.0,
                Some([.., last]) => match self.appends.of(key, *last) {
                    Some(append) if append.replaced => Seen::new(append.txn).not_final().0,
                    Some(append) => append.txn.0,
                    None => PackedSource::FAULT.0,
                },
                None if read.value == Value::UNKNOWN => PackedSource::NOT_JUDGED.0,
                None => PackedSource::FAULT.0,
            };
            self.source[read.op as usize].store(source, Relaxed);
        }
    }
}

/// Open addressing from value to writer, reused for one key after another.
#[derive(Default)]
struct KeyTable {
    slots: Vec<(Value, Seen)>,
    mask: usize,
}

const EMPTY: Seen = Seen(u32::MAX);

impl KeyTable {
    fn reset(&mut self, entries: usize) {
        let capacity = (entries * 2).next_power_of_two();
        if self.slots.len() < capacity {
            self.slots.resize(capacity, (Value::NIL, EMPTY));
        }
        self.slots[..capacity].fill((Value::NIL, EMPTY));
        self.mask = capacity - 1;
    }

    #[inline]
    fn first_slot(&self, value: Value) -> usize {
        let hash = value.bits().wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (hash >> 32) as usize & self.mask
    }

    /// Adds a write; the earlier write of the same value, if there is one, stays.
    #[inline]
    fn insert(&mut self, value: Value, seen: Seen) -> Option<Seen> {
        let mut i = self.first_slot(value);
        loop {
            match self.slots[i] {
                (_, EMPTY) => {
                    self.slots[i] = (value, seen);
                    return None;
                }
                (v, first) if v == value => return Some(first),
                _ => i = (i + 1) & self.mask,
            }
        }
    }

    #[inline]
    fn get(&self, value: Value) -> Option<Seen> {
        let mut i = self.first_slot(value);
        loop {
            match self.slots[i] {
                (_, EMPTY) => return None,
                (v, seen) if v == value => return Some(seen),
                _ => i = (i + 1) & self.mask,
            }
        }
    }
}
