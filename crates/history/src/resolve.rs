//! Pairs each read with the write of the same key and value, key by key.
//!
//! Operations are bucketed by key with one counting sort; inside a bucket a small open-addressing table from value to
//! write stays in cache, where one table for the whole history would miss on every probe. Buckets are independent, so
//! threads take contiguous ranges of keys.

use crate::ids::{KeyId, OpId, TxnId};
use crate::index::PackedSource;
use crate::lists::Appends;
use crate::model::{History, Outcome};
use crate::value::Value;
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The result of resolving by key.
pub(crate) struct Resolved {
    /// Per operation: for a read the write it saw, or a special [`PackedSource`].
    pub source: Vec<u32>,
    /// Writes that the same transaction overwrote, ascending.
    pub nonfinal: Vec<OpId>,
    /// Per key, the transactions that write it and did not abort.
    pub writers: Writers,
    /// What the elements of lists were appended by.
    pub appends: Appends,
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
    /// Calls `f` with every write that a read shows to have taken effect.
    pub fn for_each_source(&self, history: &History, read: OpId, mut f: impl FnMut(OpId)) {
        let (key, source) = (history.heads()[read.index()].key(), self.source[read.index()]);
        match history.list(history.values()[read.index()]) {
            Some(elements) => {
                let certain = elements.iter().filter(|&&e| !self.appends.is_repeated(key, e));
                certain.filter_map(|&e| self.appends.of(key, e)).for_each(f);
            }
            None if source < PackedSource::FIRST_SPECIAL => f(OpId(source)),
            None => {}
        }
    }
}

const WRITE_BIT: u32 = 1 << 31;

/// Resolves all reads.
pub(crate) fn by_key(history: &History, txn_of: &[TxnId], threads: usize) -> Resolved {
    let keys = history.key_count();
    let mut start = vec![0u32; keys + 1];
    for h in history.heads() {
        start[h.key().index() + 1] += 1;
    }
    for k in 0..keys {
        start[k + 1] += start[k];
    }
    let appends = Appends::collect(history, txn_of);
    let mut by_key = vec![0u32; history.op_count()];
    let source: Vec<AtomicU32> =
        (0..history.op_count()).map(|_| AtomicU32::new(PackedSource::NOT_JUDGED.0)).collect();
    let shared = Shared { history, txn_of, start: &start, source: &source, appends: &appends };

    let ranges = even_ranges(&start, threads);
    let mut parts: Vec<Part> = Vec::new();
    std::thread::scope(|scope| {
        let mut rest = by_key.as_mut_slice();
        let mut workers = Vec::new();
        for range in ranges {
            let len = (start[range.end] - start[range.start]) as usize;
            let (mine, others) = rest.split_at_mut(len);
            rest = others;
            let shared = &shared;
            workers.push(scope.spawn(move || shared.resolve(range, mine)));
        }
        for worker in workers {
            match worker.join() {
                Ok(part) => parts.push(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    drop(by_key);

    let mut writers = Writers { start: vec![0], txns: Vec::new() };
    let mut nonfinal = Vec::new();
    writers.start.reserve(keys);
    writers.txns.reserve_exact(parts.iter().map(|p| p.writers.len()).sum());
    for part in parts {
        let offset = writers.txns.len() as u32;
        writers.start.extend(part.ends.iter().map(|end| end + offset));
        writers.txns.extend_from_slice(&part.writers);
        nonfinal.extend(part.nonfinal);
    }
    nonfinal.sort_unstable();
    Resolved { source: source.into_iter().map(AtomicU32::into_inner).collect(), nonfinal, writers, appends }
}

/// Cuts the keys into ranges with about the same number of operations.
fn even_ranges(start: &[u32], threads: usize) -> Vec<Range<usize>> {
    let keys = start.len() - 1;
    let total = u64::from(start[keys]);
    let mut ranges = Vec::new();
    let mut from = 0;
    for i in 1..=threads as u64 {
        let target = (total * i / threads as u64) as u32;
        let to = if i == threads as u64 { keys } else { start.partition_point(|&s| s < target).min(keys) };
        if to > from {
            ranges.push(from..to);
            from = to;
        }
    }
    ranges
}

struct Shared<'a> {
    history: &'a History,
    txn_of: &'a [TxnId],
    start: &'a [u32],
    source: &'a [AtomicU32],
    appends: &'a Appends,
}

#[derive(Default)]
struct Part {
    writers: Vec<TxnId>,
    ends: Vec<u32>,
    nonfinal: Vec<OpId>,
}

impl Shared<'_> {
    fn resolve(&self, keys: Range<usize>, bucket_space: &mut [u32]) -> Part {
        self.scatter(keys.clone(), bucket_space);
        let base = self.start[keys.start];
        let mut part = Part::default();
        let mut table = Table::default();
        for k in keys {
            let bucket = &bucket_space[(self.start[k] - base) as usize..(self.start[k + 1] - base) as usize];
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

    /// Fills the buckets of these keys with their operations, ascending; writes are marked.
    fn scatter(&self, keys: Range<usize>, bucket_space: &mut [u32]) {
        let base = self.start[keys.start];
        let mut next: Vec<u32> = self.start[keys.clone()].iter().map(|s| s - base).collect();
        let (low, high) = (keys.start as u32, keys.end as u32);
        for (i, head) in self.history.heads().iter().enumerate() {
            let key = head.key().0;
            if key >= low && key < high {
                let slot = &mut next[(key - low) as usize];
                let mark = if head.is_read() { 0 } else { WRITE_BIT };
                bucket_space[*slot as usize] = i as u32 | mark;
                *slot += 1;
            }
        }
    }

    /// Ids ascend inside a bucket, so the writes of one transaction are neighbours: all but the last are not final.
    fn collect_writers(&self, bucket: &[u32], part: &mut Part) {
        let mut last: Option<(TxnId, u32)> = None;
        for op in bucket.iter().filter(|&&op| op & WRITE_BIT != 0).map(|op| op & !WRITE_BIT) {
            let t = self.txn_of[op as usize];
            match last {
                Some((previous, overwritten)) if previous == t => part.nonfinal.push(OpId(overwritten)),
                _ if self.history.outcome(t) != Outcome::Aborted => part.writers.push(t),
                _ => {}
            }
            last = Some((t, op));
        }
    }

    fn resolve_reads(&self, key: KeyId, bucket: &[u32], table: &mut Table) {
        let values = self.history.values();
        let writes = bucket.iter().filter(|&&op| op & WRITE_BIT != 0).count();
        table.reset(writes);
        // Writers of a value that more than one write has: rare, so a map of its own.
        let mut repeated: FxHashMap<Value, Vec<u32>> = FxHashMap::default();
        for op in bucket.iter().filter(|&&op| op & WRITE_BIT != 0).map(|op| op & !WRITE_BIT) {
            let value = values[op as usize];
            if let Some(first) = table.insert(value, op) {
                repeated.entry(value).or_insert_with(|| vec![first]).push(op);
            }
        }
        let initial = self.history.initial().of(key);
        for &op in bucket.iter().filter(|&&op| op & WRITE_BIT == 0) {
            let value = values[op as usize];
            if value == Value::UNKNOWN {
                continue;
            }
            let source = match table.get(value) {
                Some(_) if repeated.contains_key(&value) => self.choose(op, &repeated[&value]),
                Some(write) => write,
                None if initial == Some(value) => PackedSource::INITIAL.0,
                None => PackedSource::FAULT.0,
            };
            self.source[op as usize].store(source, Relaxed);
        }
    }

    /// Which of several writes of one value a read saw. A committed writer beats an aborted one (a client's retry);
    /// another transaction beats the reader itself, whose own writes `reads.rs` considers first.
    fn choose(&self, read: u32, writes: &[u32]) -> u32 {
        let reader = self.txn_of[read as usize];
        let mut best: Option<u32> = None;
        let rank = |op: u32| {
            let t = self.txn_of[op as usize];
            match self.history.outcome(t) {
                _ if t == reader => 1,
                Outcome::Aborted => 0,
                _ => 2,
            }
        };
        for &op in writes {
            match best {
                Some(b) if rank(b) > rank(op) => {}
                Some(b)
                    if rank(b) == rank(op)
                        && rank(op) == 2
                        && self.txn_of[b as usize] != self.txn_of[op as usize] =>
                {
                    return PackedSource::AMBIGUOUS.0;
                }
                _ => best = Some(op),
            }
        }
        best.unwrap_or(PackedSource::FAULT.0)
    }

    /// A list was read from whoever appended its last element.
    fn resolve_list_reads(&self, key: KeyId, bucket: &[u32]) {
        for &op in bucket.iter().filter(|&&op| op & WRITE_BIT == 0) {
            let value = self.history.values()[op as usize];
            let source = match self.history.list(value) {
                Some([]) => PackedSource::INITIAL.0,
                Some(elements) => match self.appends.of(key, elements[elements.len() - 1]) {
                    Some(append) => append.0,
                    None => PackedSource::FAULT.0,
                },
                None if value == Value::UNKNOWN => PackedSource::NOT_JUDGED.0,
                None => PackedSource::FAULT.0,
            };
            self.source[op as usize].store(source, Relaxed);
        }
    }
}

/// Open addressing from value to write, reused for one key after another.
#[derive(Default)]
struct Table {
    slots: Vec<(Value, u32)>,
    mask: usize,
}

const EMPTY: u32 = u32::MAX;

impl Table {
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
    fn insert(&mut self, value: Value, op: u32) -> Option<u32> {
        let mut i = self.first_slot(value);
        loop {
            match self.slots[i] {
                (_, EMPTY) => {
                    self.slots[i] = (value, op);
                    return None;
                }
                (v, first) if v == value => return Some(first),
                _ => i = (i + 1) & self.mask,
            }
        }
    }

    #[inline]
    fn get(&self, value: Value) -> Option<u32> {
        let mut i = self.first_slot(value);
        loop {
            match self.slots[i] {
                (_, EMPTY) => return None,
                (v, op) if v == value => return Some(op),
                _ => i = (i + 1) & self.mask,
            }
        }
    }
}
