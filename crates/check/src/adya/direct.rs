//! Anomalies of lists and of pairs of writers that need no search: lost updates, dirty updates, and lists
//! that contradict what the same transaction read before. (Other reads that no write explains:
//! `crate::direct`.)

use super::lists::{Lists, Place};
use crate::view::CommittedView;
use crate::view::{EpochMap, Read};
use crate::weak::witness::witness;
use anomalist_history::{FaultKind, KeyId, OpId, OpKind, Outcome, Source, TxnId, Value};
use anomalist_level::{Anomaly, AnomalyKind, Edge, Evidence, Node, Relation, Witness};
use rustc_hash::{FxHashMap, FxHashSet};

/// The version of a key that a transaction's first read of it returned.
type Version = u32;
const INITIAL: Version = u32::MAX;

/// A transaction that read a version of a key and then wrote the key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Update {
    key: KeyId,
    version: Version,
    txn: TxnId,
    read: OpId,
    write: OpId,
}

/// Lost updates: two or more transactions read the same version of a key and then wrote the key. One
/// instance per version; whichever of the writes came second, its transaction had not seen the first. O(m
/// log m).
pub(crate) fn lost_updates(view: CommittedView<'_>, lists: &Lists) -> Option<Anomaly> {
    let CommittedView { history, index, .. } = view;
    let mut updates: Vec<Update> = Vec::new();
    let mut first: EpochMap<(Version, u32)> = EpochMap::new(history.key_count());
    const DONE: u32 = u32::MAX;
    for txn in view.committed() {
        first.next_round();
        for i in history.op_range(txn) {
            let (op, head) = (OpId(i as u32), history.heads()[i]);
            let key = head.key();
            if !head.is_read() {
                if let Some((version, read)) = first.get(key.index())
                    && read != DONE
                {
                    updates.push(Update { key, version, txn, read: OpId(read), write: op });
                }
                // What comes after an own write is no version that another transaction could have read.
                first.set(key.index(), (0, DONE));
            } else if first.get(key.index()).is_none() {
                let version = match (lists.place(op), index.source(op)) {
                    (Some(Place::At(position)), _) => position,
                    (Some(Place::Beyond(_)), _) => continue,
                    (None, Source::From(writer)) => writer.0,
                    (None, Source::Initial) => INITIAL,
                    _ => continue,
                };
                first.set(key.index(), (version, i as u32));
            }
        }
    }
    updates.sort_unstable();
    let groups = updates.chunk_by(|a, b| (a.key, a.version) == (b.key, b.version));
    let mut lost: Vec<&[Update]> = groups.filter(|group| group.len() > 1).collect();
    let count = lost.len() as u64;
    // Of each group the last: it wrote over what it had not seen.
    let places = lost.iter().filter_map(|group| group.last()).map(|u| u.txn).collect();
    let size = |u: &Update| history.op_range(u.txn).len();
    lost.sort_by_key(|group| size(&group[0]) + size(&group[1]));
    let pair = &lost.first()?[..2];
    let edges: Vec<Edge> = pair
        .iter()
        .filter_map(|u| {
            let seen = match lists.place(u.read) {
                Some(_) => lists.seen(u.key, u.read).map(|a| (a.txn, Some(a.op))),
                None => match index.source(u.read) {
                    Source::From(w) => {
                        Some((w, view.write_seen(Read { op: u.read, key: u.key, from: Some(w) })))
                    }
                    _ => None,
                },
            };
            let (from, write) = seen.map_or((Node::Initial, None), |(t, write)| (Node::Txn(t), write));
            let evidence = Evidence::Read { write, read: u.read };
            (from != Node::Txn(u.txn)).then_some(Edge {
                from,
                to: Node::Txn(u.txn),
                relation: Relation::WriteRead,
                evidence,
            })
        })
        .collect();
    let mut found = witness(view, edges);
    for u in pair {
        found.transactions.push(u.txn);
        found.operations.extend([u.read, u.write]);
    }
    Some(Anomaly::new(AnomalyKind::LostUpdate, count, tidy(found)).seen_in(places))
}

/// Dirty updates: in a list, an element of an aborted transaction comes before one of a committed
/// transaction. One instance per aborted element and the next committed one. Only damaged keys can have
/// any.
pub(crate) fn dirty_updates(view: CommittedView<'_>, lists: &Lists) -> Option<Anomaly> {
    let history = view.history;
    if lists.damaged().is_empty() {
        return None;
    }
    // An element counts as a transaction's of an outcome only if all that appended it had that outcome: a
    // client may try again what was aborted.
    let mut appended: FxHashMap<(KeyId, Value), (OpId, Option<Outcome>)> = FxHashMap::default();
    for t in history.txns() {
        for (op, o) in history.ops(t).filter(|(_, o)| o.kind == OpKind::Append && lists.is_damaged(o.key)) {
            let outcome = Some(history.outcome(t));
            let entry = appended.entry((o.key, o.value)).or_insert((op, outcome));
            entry.1 = entry.1.filter(|_| entry.1 == outcome);
        }
    }
    let mut longest: FxHashMap<KeyId, OpId> = FxHashMap::default();
    let length = |op: OpId| history.list(history.op(op).value).map_or(0, <[Value]>::len);
    for t in view.committed() {
        for (op, o) in history.ops(t) {
            if o.kind == OpKind::Read && lists.is_damaged(o.key) && history.list(o.value).is_some() {
                let best = longest.entry(o.key).or_insert(op);
                if length(op) > length(*best) {
                    *best = op;
                }
            }
        }
    }
    let (mut places, mut example) = (Vec::new(), None);
    for &key in lists.damaged() {
        let Some(&read) = longest.get(&key) else { continue };
        let elements = history.list(history.op(read).value).unwrap_or_default();
        let mut seen = FxHashSet::default();
        let mut dirty: Option<OpId> = None;
        for (append, outcome) in elements.iter().filter_map(|&e| appended.get(&(key, e)).copied()) {
            if !seen.insert(append) {
                continue;
            }
            if outcome == Some(Outcome::Aborted) {
                dirty.get_or_insert(append);
            } else if outcome == Some(Outcome::Committed)
                && let Some(aborted) = dirty.take()
            {
                places.push(history.txn_of(append));
                example.get_or_insert((aborted, append, read));
            }
        }
    }
    let (aborted, append, read) = example?;
    let found = Witness {
        transactions: [aborted, append, read].map(|op| history.txn_of(op)).to_vec(),
        operations: vec![aborted, append, read],
        edges: vec![Edge {
            from: Node::Txn(history.txn_of(aborted)),
            to: Node::Txn(history.txn_of(append)),
            relation: Relation::VersionOrder,
            evidence: Evidence::Version { first: aborted, second: append, read },
        }],
        ..Witness::default()
    };
    Some(Anomaly::new(AnomalyKind::DirtyUpdate, places.len() as u64, tidy(found)).seen_in(places))
}

/// Damaged keys whose reads, faulty ones included, no one order of appends explains, though the sound ones
/// may agree. The index has found those in which sound reads disagree.
pub(crate) fn incompatible_orders(view: CommittedView<'_>, lists: &Lists) -> Option<Anomaly> {
    let history = view.history;
    let key = |op: OpId| history.heads()[op.index()].key();
    let known = view.index.faults().iter().filter(|f| f.kind == FaultKind::IncompatibleOrder);
    let known: FxHashSet<KeyId> = known.map(|f| key(f.op)).collect();
    let new: Vec<(OpId, OpId)> =
        lists.contradictions().iter().copied().filter(|&(read, _)| !known.contains(&key(read))).collect();
    let length = |op: OpId| history.list(history.op(op).value).map_or(0, <[Value]>::len);
    let &(one, other) = new.iter().min_by_key(|(a, b)| length(*a) + length(*b))?;
    let found = Witness {
        transactions: vec![history.txn_of(one), history.txn_of(other)],
        operations: vec![one, other],
        ..Witness::default()
    };
    let places = new.iter().map(|&(read, _)| history.txn_of(read)).collect();
    Some(Anomaly::new(AnomalyKind::IncompatibleOrder, new.len() as u64, tidy(found)).seen_in(places))
}

/// G1b of reads that ignore an own write: what they return instead is a value that its writer went on to
/// replace. (Other such reads are TAP-f.)
pub(crate) fn intermediate_reads(view: CommittedView<'_>, _: &Lists) -> Option<Anomaly> {
    let CommittedView { history, index, .. } = view;
    let replaced = |write: OpId| {
        let (writer, key) = (history.txn_of(write), history.op(write).key);
        history.ops(writer).any(|(op, o)| op > write && o.key == key && o.kind != OpKind::Read)
    };
    // With an element that was appended twice in it, whose appends a list shows is open.
    let clear = |op: OpId| !index.repeats_elements() || history.list(history.op(op).value).is_none();
    let faults = index.faults().iter().filter(|f| f.kind == FaultKind::NotMyOwnWrite && clear(f.op));
    let found = faults.filter_map(|f| {
        let writer = history.txn_of(f.other?);
        let foreign = writer != history.txn_of(f.op) && index.is_committed(writer);
        (foreign && replaced(f.other?)).then_some((f.op, f.other?, writer))
    });
    let found: Vec<(OpId, OpId, TxnId)> = found.collect();
    let &(read, write, writer) = found.first()?;
    let edge = Edge {
        from: Node::Txn(writer),
        to: Node::Txn(history.txn_of(read)),
        relation: Relation::WriteRead,
        evidence: Evidence::Read { write: Some(write), read },
    };
    let places = found.iter().map(|&(read, ..)| history.txn_of(read)).collect();
    Some(Anomaly::new(AnomalyKind::G1b, found.len() as u64, witness(view, vec![edge])).seen_in(places))
}

/// Lists after own appends whose beginning is not what the transaction read of the key before. One instance
/// per transaction. (Two reads without an own append between them are TAP-j's.)
pub(crate) fn internal(view: CommittedView<'_>, lists: &Lists) -> Option<Anomaly> {
    let CommittedView { history, .. } = view;
    if !lists.any() {
        return None;
    }
    let mut first: EpochMap<(Place32, u32)> = EpochMap::new(history.key_count());
    let mut own: EpochMap<bool> = EpochMap::new(history.key_count());
    let (mut places, mut example): (Vec<TxnId>, Option<(usize, [OpId; 2])>) = (Vec::new(), None);
    for t in view.committed() {
        first.next_round();
        own.next_round();
        for i in history.op_range(t) {
            let (op, head) = (OpId(i as u32), history.heads()[i]);
            let key = head.key().index();
            if !head.is_read() {
                own.set(key, true);
                continue;
            }
            let Some(place) = lists.place(op) else { continue };
            match first.get(key) {
                None => first.set(key, (Place32::of(place), i as u32)),
                Some((before, read)) if before != Place32::of(place) && own.get(key).is_some() => {
                    places.push(t);
                    let size = history.op_range(t).len();
                    if example.is_none_or(|(best, _)| size < best) {
                        example = Some((size, [OpId(read), op]));
                    }
                    break;
                }
                Some(_) => {}
            }
        }
    }
    let (_, [first, second]) = example?;
    let (t, key) = (history.txn_of(first), history.op(first).key);
    let between = history.ops(t).filter(|(op, o)| *op < second && o.kind == OpKind::Append && o.key == key);
    let operations = between.map(|(op, _)| op).chain([first, second]).collect();
    let found = Witness { transactions: vec![t], operations, ..Witness::default() };
    Some(Anomaly::new(AnomalyKind::Internal, places.len() as u64, tidy(found)).seen_in(places))
}

/// A [`Place`] to compare.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Place32(u64);

impl Place32 {
    fn of(place: Place) -> Place32 {
        match place {
            Place::At(position) => Place32(u64::from(position)),
            Place::Beyond(append) => Place32(1 << 32 | u64::from(append.op.0)),
        }
    }
}

fn tidy(mut witness: Witness) -> Witness {
    witness.transactions.sort_unstable();
    witness.transactions.dedup();
    witness.operations.sort_unstable();
    witness.operations.dedup();
    witness
}
