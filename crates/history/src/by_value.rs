//! Pairs each read with the write of the same value, for histories in which no value is written twice.
//!
//! Recorders that hand out values from one counter are the common case. There a value names its write: one
//! table from value to key and writer, no sorting by key. Values that were written at about the same time
//! are neighbours in it, so a pass over a session walks through it in order. Where a value repeats, or is
//! no small integer, `resolve.rs` takes over.

use crate::ids::{KeyId, TxnId};
use crate::index::PackedSource;
use crate::lists::Appends;
use crate::model::History;
use crate::operation::Outcome;
use crate::resolve::{Resolved, Seen, Writers};
use crate::value::{Value, View};
use std::hint::select_unpredictable as select;

/// Largest value in the table, per operation of the history.
const SPARSENESS: u64 = 4;

/// Finds out what reads need to be resolved, if no value repeats.
pub(crate) fn resolve(history: &History, threads: usize) -> Option<Resolved> {
    if history.has_lists() {
        return None;
    }
    let size = table_size(history)?;
    let (table, writers) = if threads == 1 {
        (table(history, size), writers(history))
    } else {
        std::thread::scope(|scope| {
            let writers = scope.spawn(|| writers(history));
            let table = table(history, size);
            (table, writers.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    };
    Some(Resolved { source: Vec::new(), table: Some(table?), writers, appends: Appends::default() })
}

/// One more than the largest value written; `None` if that is no small number.
fn table_size(history: &History) -> Option<usize> {
    let limit = SPARSENESS * history.op_count() as u64;
    let values = history.heads().iter().zip(history.values());
    let written = values.map(|(head, value)| select(head.is_read(), 0, small(*value).unwrap_or(u64::MAX)));
    written.max().filter(|&largest| largest < limit).map(|largest| largest as usize + 1)
}

/// The number a value is; `None` if it is no natural number.
#[inline]
fn small(value: Value) -> Option<u64> {
    match value.view() {
        View::Int(i) => u64::try_from(i).ok(),
        _ => None,
    }
}

/// By value: one more than its key, and the [`Seen`] writer below. 0: no transaction wrote it.
pub(crate) struct Table(Vec<u64>);

impl Table {
    /// What a read of this value saw, as [`Resolved::source`] would have it.
    #[inline]
    pub fn source(&self, history: &History, key: KeyId, value: Value) -> u32 {
        let slot = small(value).and_then(|v| self.0.get(usize::try_from(v).ok()?)).copied().unwrap_or(0);
        if slot >> 32 == u64::from(key.0) + 1 {
            slot as u32
        } else if value == Value::UNKNOWN {
            PackedSource::NOT_JUDGED.0
        } else if history.initial().of(key) == Some(value) {
            PackedSource::INITIAL.0
        } else {
            PackedSource::FAULT.0
        }
    }
}

/// The table; `None` if a value repeats, or if a key is given its initial value again.
fn table(history: &History, size: usize) -> Option<Table> {
    let mut table = vec![0u64; size];
    // Per key, one more than the transaction that wrote it last, and the value.
    let mut last = vec![(0u32, 0u32); history.key_count()];
    let (initial, own_initial) = (history.initial().default, !history.initial().keys.is_empty());
    let mut writes = Vec::new();
    for t in history.txns() {
        let ops = history.op_range(t);
        // Whether an operation is a read cannot be predicted by the processor: picking out the writes
        // without a branch takes half the time.
        writes.resize(writes.len().max(ops.len() + 1), (KeyId(0), Value::NIL));
        let mut count = 0;
        for (head, &value) in history.heads()[ops.clone()].iter().zip(&history.values()[ops]) {
            writes[count] = (head.key(), value);
            count += usize::from(!head.is_read());
        }
        for &(key, value) in &writes[..count] {
            if initial == Some(value) || own_initial && history.initial().of(key) == Some(value) {
                return None;
            }
            let value = small(value)? as usize;
            let slot = &mut table[value];
            if *slot != 0 {
                return None;
            }
            *slot = (u64::from(key.0) + 1) << 32 | u64::from(Seen::new(t).packed());
            let (by, before) = std::mem::replace(&mut last[key.index()], (t.0 + 1, value as u32));
            if by == t.0 + 1 {
                // The same transaction has just replaced it.
                table[before as usize] |= u64::from(Seen::NOT_FINAL);
            }
        }
    }
    Some(Table(table))
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
    use crate::resolve;
    use crate::{Builder, OpKind};

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
                let reads = history.heads().iter().zip(history.values()).enumerate();
                for (i, (head, &value)) in reads.filter(|(_, (head, _))| head.is_read()) {
                    let table = mine.table.as_ref();
                    let source = table.map(|t| t.source(&history, head.key(), value));
                    assert_eq!(source, Some(other.source[i]), "seed {seed}");
                }
                assert_eq!(mine.writers.start, other.writers.start, "seed {seed}");
                assert_eq!(mine.writers.txns, other.writers.txns, "seed {seed}");
            }
        }
    }
}
