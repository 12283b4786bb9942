//! Pairs each read with the write of the same value, for histories in which no value is written twice.
//!
//! Recorders that hand out values from one counter are the common case. There a value names its write: one
//! table from value to key and writer, no sorting by key. Values that were written at about the same time
//! are neighbours in it. So a pass over the transactions in the order of the input uses a small part of a
//! large table at a time; a pass session by session, which is better for the other columns, walks through
//! all of it for each session. Where a value repeats, or is no small integer, `resolve.rs` takes over.

use crate::ids::{KeyId, TxnId};
use crate::index::PackedSource;
use crate::lists::Appends;
use crate::model::History;
use crate::operation::{OpHead, OpKind, Outcome};
use crate::reads::MaybeWritten;
use crate::resolve::{Resolved, Seen, Writers, both};
use crate::value::{Value, View};
use rustc_hash::FxHashMap;
use std::hint::select_unpredictable as select;
use std::ops::Range;

/// Largest value in the table, per operation of the history.
const SPARSENESS: u64 = 4;

/// Finds out what reads need to be resolved, if no value repeats.
pub(crate) fn resolve(history: &History, threads: usize) -> Option<Resolved> {
    if history.has_lists() {
        return None;
    }
    let size = table_size(history)?;
    let order = if size > CACHED { history.input_order() } else { history.txns().collect() };
    let (table, writers) = if threads == 1 {
        (table(history, &order, size), writers(history))
    } else {
        let (writers, table) = both(|| writers(history), || table(history, &order, size));
        (table, writers)
    };
    Some(Resolved {
        source: Vec::new(),
        table: Some(Table { slots: table?, order }),
        writers,
        appends: Appends::default(),
    })
}

/// One more than the largest value written; `None` if that is no small number.
fn table_size(history: &History) -> Option<usize> {
    let limit = SPARSENESS * history.op_count() as u64;
    let values = history.heads().iter().zip(history.values());
    let written = values.map(|(head, value)| select(head.is_read(), 0, small(*value).unwrap_or(u64::MAX)));
    written.max().filter(|&largest| largest < limit).map(|largest| largest as usize + 1)
}

/// The number a value is, if it is a natural number; else some number that is too large for any table.
#[inline]
fn number(value: Value) -> u64 {
    value.bits().rotate_right(Value::TAG_BITS)
}

/// The number a value is; `None` if it is no natural number.
#[inline]
fn small(value: Value) -> Option<u64> {
    match value.view() {
        View::Int(i) => u64::try_from(i).ok(),
        _ => None,
    }
}

/// By value: one more than its key, and the [`Seen`] writer below. 0: no transaction wrote it. The last
/// place is that of values which are too large, and 0.
pub(crate) struct Table {
    slots: Vec<u64>,
    /// The transactions in the order in which the table is best used.
    pub order: Vec<TxnId>,
}

impl Table {
    /// What a range of operations saw, as [`Resolved::source`] would have it. The first loop has no branch
    /// that depends on an operation, so that the processor has many look-ups under way: most miss the cache.
    pub fn sources(&self, history: &History, range: Range<usize>, sources: &mut [u32]) {
        let (heads, values) = (&history.heads()[range.clone()], &history.values()[range]);
        let last = self.slots.len() - 1;
        let mut all_found = true;
        for ((&head, &value), source) in heads.iter().zip(values).zip(&mut *sources) {
            let slot = self.slots[(number(value) as usize).min(last)];
            let found = slot >> 32 == u64::from(head.key().0) + 1;
            let seen = select(found, slot as u32, PackedSource::NOT_FOUND.0);
            *source = select(head.is_read(), seen, PackedSource::NOT_JUDGED.0);
            all_found &= found | !head.is_read();
        }
        if all_found {
            return;
        }
        for ((head, &value), source) in heads.iter().zip(values).zip(sources) {
            if *source == PackedSource::NOT_FOUND.0 {
                *source = not_written(history, head.key(), value);
            }
        }
    }
}

/// What a read saw if no transaction wrote the value.
fn not_written(history: &History, key: KeyId, value: Value) -> u32 {
    if value == Value::UNKNOWN {
        PackedSource::NOT_JUDGED.0
    } else if history.initial().of(key) == Some(value) {
        PackedSource::INITIAL.0
    } else {
        PackedSource::FAULT.0
    }
}

/// A table of more values than this does not stay in the cache.
const CACHED: usize = 1 << 21;

/// Transactions with more writes than this look their own writes up by key.
const LONG: usize = 1 << 10;

/// The slots of a table; `None` if a value repeats, or if a key is given its initial value again.
fn table(history: &History, order: &[TxnId], size: usize) -> Option<Vec<u64>> {
    let mut table = vec![0u64; size + 1];
    let mut written = MaybeWritten::new();
    let mut last: FxHashMap<KeyId, usize> = FxHashMap::default();
    let (initial, own_initial) = (history.initial().default, !history.initial().keys.is_empty());
    let mut writes = Vec::new();
    for &t in order {
        let ops = history.op_range(t);
        // Whether an operation is a read cannot be predicted by the processor: picking out the writes
        // without a branch takes half the time.
        writes.resize(writes.len().max(ops.len() + 1), (OpHead::new(OpKind::Read, KeyId(0)), Value::NIL));
        let mut count = 0;
        for (head, &value) in history.heads()[ops.clone()].iter().zip(&history.values()[ops]) {
            writes[count] = (*head, value);
            count += usize::from(!head.is_read());
        }
        for (i, &(head, value)) in writes[..count].iter().enumerate() {
            let key = head.key();
            if initial == Some(value) || own_initial && history.initial().of(key) == Some(value) {
                return None;
            }
            let value = small(value)? as usize;
            let slot = &mut table[value];
            if *slot != 0 {
                return None;
            }
            *slot = (u64::from(key.0) + 1) << 32 | u64::from(Seen::new(t).packed());
            let before = match count {
                0..=LONG if !written.follow(t, head) => None,
                0..=LONG => writes[..i].iter().rfind(|(head, _)| head.key() == key).and_then(|w| small(w.1)),
                _ => last.insert(key, value).map(|value| value as u64),
            };
            if let Some(before) = before {
                // The same transaction has just replaced it.
                table[before as usize] |= u64::from(Seen::NOT_FINAL);
            }
        }
        last.clear();
    }
    Some(table)
}

/// Per key, the transactions that write it and did not abort.
fn writers(history: &History) -> Writers {
    let not_aborted = || history.txns().filter(|&t| history.outcome(t) != Outcome::Aborted);
    let mut start = vec![0u32; history.key_count() + 1];
    for t in not_aborted() {
        for head in &history.heads()[history.op_range(t)] {
            start[head.key().index() + 1] += u32::from(!head.is_read());
        }
    }
    for k in 1..start.len() {
        start[k] += start[k - 1];
    }
    // One more place, for reads to leave their transaction in: again without a branch.
    let total = start.last().map_or(0, |&n| n as usize);
    let mut txns = vec![TxnId(0); total + 1];
    let mut next = start.clone();
    for t in not_aborted() {
        for head in &history.heads()[history.op_range(t)] {
            let slot = &mut next[head.key().index()];
            txns[select(head.is_read(), total, *slot as usize)] = t;
            *slot += u32::from(!head.is_read());
        }
    }
    txns.truncate(total);
    if txns.windows(2).any(|pair| pair[0] == pair[1]) {
        forget_repeats(&mut start, &mut txns);
    }
    Writers { start, txns }
}

/// Keeps one of several writes of a key by one transaction.
fn forget_repeats(start: &mut [u32], txns: &mut Vec<TxnId>) {
    let mut kept = 0;
    for k in 0..start.len() - 1 {
        let range = start[k] as usize..start[k + 1] as usize;
        start[k] = kept as u32;
        for i in range {
            if kept == start[k] as usize || txns[kept - 1] != txns[i] {
                txns[kept] = txns[i];
                kept += 1;
            }
        }
    }
    txns.truncate(kept);
    if let Some(last) = start.last_mut() {
        *last = kept as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Builder;
    use crate::resolve;

    /// Writes of distinct values by committed and aborted transactions, several to a key; reads of any
    /// value.
    fn random(seed: u64) -> History {
        let mut state = seed;
        let mut below = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let mut b = Builder::new();
        let initial = b.int(0);
        b.set_initial_default(Some(initial));
        let mut value = 0;
        for i in 0..12 {
            let session = b.int((i % 3) as i64);
            let session = b.session(session);
            let t = b.transaction(session);
            if below(6) == 0 {
                b.set_outcome(t, Outcome::Aborted);
            }
            for _ in 0..below(6) {
                let key = b.int(below(3) as i64);
                let key = b.key(key);
                if below(2) == 0 {
                    value += 1;
                    let v = b.int(value);
                    b.op(t, OpKind::Write, key, v);
                } else {
                    let v = b.int(below(value as u64 + 3) as i64);
                    b.op(t, OpKind::Read, key, v);
                }
            }
        }
        b.finish().unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn both_ways_agree() {
        for seed in 0..2_000 {
            let history = random(seed);
            for threads in [1, 2] {
                let Some(mine) = resolve(&history, threads) else { panic!("seed {seed}: values repeat?") };
                let other = resolve::by_key(&history, threads);
                let mut sources = vec![0; history.op_count()];
                if let Some(table) = &mine.table {
                    table.sources(&history, 0..history.op_count(), &mut sources);
                }
                for (i, _) in history.heads().iter().enumerate().filter(|(_, head)| head.is_read()) {
                    assert_eq!(sources[i], other.source[i], "seed {seed}");
                }
                assert_eq!(mine.writers.start, other.writers.start, "seed {seed}");
                assert_eq!(mine.writers.txns, other.writers.txns, "seed {seed}");
            }
        }
    }
}
