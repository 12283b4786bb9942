//! Cursor stability (PL-CS): any transaction that read a version of a key and wrote the key installed the
//! next version.
//!
//! Adya's G-cursor is a cycle of one anti-dependency and `ww` edges, all about one key: a transaction read
//! a version, another overwrote it, and the first overwrote that without having seen it. Every read counts
//! as one through a cursor, as in Elle. Two transactions that read the same version are a lost update
//! (`direct.rs`) whatever the order; where lists show the order of versions, a single blind write in
//! between is seen too.
//!
//! Where the order is open, versions are put in the order of a sort, each that was made from another right
//! after it; if that makes no cycle of dependencies the level holds, else it is left open. O(operations log
//! operations).

use super::depend::{Dependencies, RW, WW};
use super::lists::Place;
use crate::view::CommittedView;
use crate::view::EpochMap;
use anomalist_history::{KeyId, OpId, OpKind, TxnId};
use anomalist_level::{Anomaly, AnomalyKind, Edge};
use rustc_hash::{FxHashMap, FxHashSet};

/// That a transaction read a list, and appended to it after another transaction had.
struct Missed {
    reader: TxnId,
    read: OpId,
    /// The positions of the others' appends.
    between: std::ops::Range<u32>,
    /// The reader's own append.
    own: OpId,
}

/// G-cursor that lists show, with the example that has the fewest writes in between. One instance per
/// transaction and key.
pub(crate) fn missed_updates(deps: &Dependencies<'_>) -> Option<Anomaly> {
    let Dependencies { view, lists, .. } = deps;
    if !lists.any() {
        return None;
    }
    let history = view.history;
    // The least that a read of the key showed.
    let mut least: EpochMap<(u32, u32)> = EpochMap::new(history.key_count());
    let mut done: EpochMap<bool> = EpochMap::new(history.key_count());
    let (mut readers, mut best): (Vec<TxnId>, Option<Missed>) = (Vec::new(), None);
    for reader in view.committed() {
        least.next_round();
        done.next_round();
        for i in history.op_range(reader) {
            let (op, key) = (OpId(i as u32), history.heads()[i].key());
            if let Some(Place::At(position)) = lists.place(op).filter(|_| history.heads()[i].is_read())
                && least.get(key.index()).is_none_or(|(seen, _)| position < seen)
            {
                least.set(key.index(), (position, op.0));
            }
        }
        for i in history.op_range(reader) {
            let (op, head) = (OpId(i as u32), history.heads()[i]);
            let key = head.key();
            let Some((seen, read)) = least.get(key.index()) else { continue };
            if head.kind() != OpKind::Append || done.get(key.index()).is_some() {
                continue;
            }
            let is_later = || lists.later(key).binary_search_by_key(&op, |a| a.op).is_ok();
            let end = lists.position(op).or_else(|| is_later().then(|| lists.range(key).end));
            done.set(key.index(), true);
            let Some(end) = end.filter(|&end| end > seen) else { continue };
            readers.push(reader);
            if best.as_ref().is_none_or(|b| b.between.len() > (end - seen) as usize) {
                best = Some(Missed { reader, read: OpId(read), between: seen..end, own: op });
            }
        }
    }
    let Missed { reader, read, between, own } = best?;
    let mut edges: Vec<Edge> = Vec::new();
    let mut last = reader;
    for position in between {
        let next = lists.at(position);
        if next.txn != last {
            let label = if last == reader { RW } else { WW };
            edges.push(deps.edge_at(
                last,
                next.txn,
                label,
                Some(if label == RW { read } else { next.op }),
            )?);
            last = next.txn;
        }
    }
    edges.push(deps.edge_at(last, reader, WW, Some(own))?);
    let witness = crate::weak::witness::witness(*view, edges);
    Some(Anomaly::new(AnomalyKind::GCursor, readers.len() as u64, witness).seen_in(readers))
}

/// Pairs of consecutive versions whose order is open, in the order of a sort of transactions, each version
/// that was made from another right after it. `None` if that cannot be.
pub(crate) fn stable_order(deps: &Dependencies<'_>, sorted: &[TxnId]) -> Option<Vec<(u32, u32)>> {
    let Dependencies { view, lists, .. } = deps;
    let mut place = vec![0u32; view.txn_count()];
    for (i, t) in (0..).zip(sorted) {
        place[t.index()] = i;
    }
    let made = Made::new(*view)?;
    let mut chosen = Vec::new();
    for key in view.history.keys() {
        let order = lists.range(key);
        let is_list = !order.is_empty() || !lists.later(key).is_empty();
        let mut open: Vec<TxnId> = match is_list {
            true => lists.later(key).iter().map(|a| a.txn).collect(),
            false => view.index.writers(key).to_vec(),
        };
        open.sort_by_key(|t| place[t.index()]);
        open.dedup();
        let mut waiting: FxHashSet<TxnId> = open.iter().copied().collect();
        // First what was made from the last known version, or the initial one; then what was made from
        // nothing.
        let last = (!order.is_empty()).then(|| lists.writer(order.end - 1));
        let blind = open.iter().copied().filter(|&t| !made.from.contains_key(&(key, t)));
        let heads = made.next.get(&(key, last)).copied().into_iter().chain(blind);
        let mut ordered: Vec<TxnId> = Vec::with_capacity(open.len());
        for head in heads {
            let mut next = Some(head);
            while let Some(t) = next.filter(|t| waiting.remove(t)) {
                ordered.push(t);
                next = made.next.get(&(key, Some(t))).copied();
            }
        }
        if !waiting.is_empty() {
            return None;
        }
        chosen.extend(ordered.windows(2).map(|pair| (pair[0].0, pair[1].0)));
    }
    Some(chosen)
}

/// Versions that were made by who had read another; the initial version is of none of them.
#[derive(Default)]
struct Made {
    next: FxHashMap<(KeyId, Option<TxnId>), TxnId>,
    from: FxHashMap<(KeyId, TxnId), Option<TxnId>>,
}

impl Made {
    /// `None` if two were made from one, or one from two: that cannot be stable.
    fn new(view: CommittedView<'_>) -> Option<Made> {
        let mut made = Made::default();
        for t in view.committed() {
            for read in view.reads(t).filter(|r| view.index.writes(t, r.key)) {
                let taken = made.next.insert((read.key, read.from), t).is_some_and(|other| other != t);
                let several = made.from.insert((read.key, t), read.from).is_some_and(|w| w != read.from);
                if taken || several {
                    return None;
                }
            }
        }
        Some(made)
    }
}
