//! Which transactions count.
//!
//! Committed ones do, aborted ones do not. An indeterminate one does if a transaction that counts read, from somebody else, a
//! value that no committed transaction wrote to the key and that is not its initial one: a least fixpoint. Leaving the others
//! out is the permissive choice: nobody saw them, and as writers they could only make more reads stale.

use anomalist_history::{History, KeyId, OpKind, Outcome, TxnId, Value};
use rustc_hash::{FxHashMap, FxHashSet};

/// By transaction.
pub(crate) fn counted(history: &History) -> Vec<bool> {
    let mut counts: Vec<bool> = history.txns().map(|t| history.outcome(t) == Outcome::Committed).collect();
    if history.txns().any(|t| history.outcome(t) == Outcome::Indeterminate) {
        observe(history, &mut counts);
    }
    counts
}

fn observe(history: &History, counts: &mut [bool]) {
    let mut committed: FxHashSet<(KeyId, Value)> = FxHashSet::default();
    let mut open: FxHashMap<(KeyId, Value), Vec<TxnId>> = FxHashMap::default();
    for t in history.txns() {
        for (_, op) in history.ops(t).filter(|(_, op)| op.kind != OpKind::Read) {
            match history.outcome(t) {
                Outcome::Committed => drop(committed.insert((op.key, op.value))),
                Outcome::Indeterminate => open.entry((op.key, op.value)).or_default().push(t),
                Outcome::Aborted => {}
            }
        }
    }
    let mut work: Vec<TxnId> = history.txns().filter(|t| counts[t.index()]).collect();
    while let Some(t) = work.pop() {
        for (_, op) in history.ops(t).filter(|(_, op)| op.kind == OpKind::Read) {
            let one = [op.value];
            for &value in history.list(op.value).unwrap_or(&one) {
                if committed.contains(&(op.key, value)) || history.initial().of(op.key) == Some(value) {
                    continue;
                }
                let Some(writers) = open.get(&(op.key, value)) else { continue };
                // Its own value tells nothing about others.
                if writers.contains(&t) {
                    continue;
                }
                for &writer in writers {
                    if !counts[writer.index()] {
                        counts[writer.index()] = true;
                        work.push(writer);
                    }
                }
            }
        }
    }
}
