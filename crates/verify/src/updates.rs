//! Update serializability (PL-3U), looked up in a given order of commits. O(readers × update transactions)
//! in the worst case.

use crate::execution::{Commits, INITIAL};
use crate::flaw::{Flaw, FlawKind};
use crate::reading::External;
use anomalist_history::{KeyId, TxnId};
use rustc_hash::{FxHashMap, FxHashSet};

/// The transactions that write are serial in the order. A reader adds no cycle: nothing that replaced what
/// it read leads to anything that it read, by versions, reads and replaced reads of writing transactions.
pub(crate) fn update_serializable(commits: &Commits<'_>) -> Result<(), Flaw> {
    let reading = commits.reading;
    let history = reading.facts.history;
    let mut next_writer: FxHashMap<(TxnId, KeyId), TxnId> = FxHashMap::default();
    let mut first_writer: Vec<Option<TxnId>> = vec![None; history.key_count()];
    let mut latest: Vec<Option<TxnId>> = vec![None; history.key_count()];
    let mut readers: Vec<Vec<TxnId>> = vec![Vec::new(); history.txn_count()];
    let writes = |t: TxnId| reading.facts.written(t).next().is_some();
    for &t in commits.order.iter().filter(|&&t| writes(t)) {
        for read in commits.reads(t) {
            if reading.writer(read) != latest[read.key.index()] {
                return Err(Flaw::new(FlawKind::StaleRead).ops([read.op]));
            }
            if let Some(w) = reading.writer(read) {
                readers[w.index()].push(t);
            }
        }
        for (key, _) in reading.facts.written(t) {
            match latest[key.index()].replace(t) {
                Some(before) => drop(next_writer.insert((before, key), t)),
                None => first_writer[key.index()] = Some(t),
            }
        }
    }
    let replacer = |read: External| match reading.writer(read) {
        Some(w) => next_writer.get(&(w, read.key)).copied(),
        None => first_writer[read.key.index()],
    };
    for &r in commits.order.iter().filter(|&&t| !writes(t)) {
        let sources: FxHashSet<TxnId> = commits.reads(r).filter_map(|x| reading.writer(x)).collect();
        let last = sources.iter().map(|&w| commits.place(w)).max().unwrap_or(INITIAL);
        let within = |t: &TxnId| commits.place(*t) <= last;
        let mut reached: FxHashSet<TxnId> = FxHashSet::default();
        let mut work: Vec<TxnId> = commits.reads(r).filter_map(replacer).filter(within).collect();
        while let Some(t) = work.pop() {
            if !reached.insert(t) {
                continue;
            }
            if sources.contains(&t) {
                return Err(Flaw::new(FlawKind::Overlooked).txns([t, r]));
            }
            let versions =
                reading.facts.written(t).filter_map(|(key, _)| next_writer.get(&(t, key)).copied());
            work.extend(versions.filter(within));
            work.extend(readers[t.index()].iter().copied().filter(within));
            work.extend(commits.reads(t).filter_map(replacer).filter(within));
        }
    }
    Ok(())
}
