//! Anomalies that need no graph: reads that no write explains (TAP-a to TAP-f, and their list forms), and
//! non-repeatable reads (TAP-j).

use crate::view::CommittedView;
use crate::view::{EpochMap, Read};
use crate::weak::witness::witness;
use anomalist_history::{FaultKind, OpId, ReadFault, TxnId};
use anomalist_level::{Anomaly, AnomalyKind, Edge, Evidence, Node, Relation, Witness};
use std::collections::BTreeMap;

/// The anomaly that a faulty read is.
fn kind(fault: FaultKind) -> AnomalyKind {
    match fault {
        FaultKind::ThinAir => AnomalyKind::ThinAirRead,
        FaultKind::Aborted => AnomalyKind::AbortedRead,
        FaultKind::Future => AnomalyKind::FutureRead,
        FaultKind::NotMyOwnWrite => AnomalyKind::NotMyOwnWrite,
        FaultKind::NotMyLastWrite => AnomalyKind::NotMyLastWrite,
        FaultKind::Intermediate => AnomalyKind::IntermediateRead,
        FaultKind::DuplicateElement => AnomalyKind::DuplicateElements,
        FaultKind::IncompatibleOrder => AnomalyKind::IncompatibleOrder,
    }
}

/// The faulty reads as anomalies, those of the index and further ones: one instance per read, the smallest
/// as witness.
pub(crate) fn faults(view: CommittedView<'_>, further: &[ReadFault]) -> Vec<Anomaly> {
    let size = |f: &ReadFault| {
        let len = |op: OpId| view.history.op_range(view.history.txn_of(op)).len();
        len(f.op) + f.other.map_or(0, len)
    };
    let mut found: BTreeMap<AnomalyKind, (Vec<TxnId>, usize, ReadFault)> = BTreeMap::new();
    for fault in view.index.faults().iter().chain(further) {
        let weight = size(fault);
        let entry = found.entry(kind(fault.kind)).or_insert((Vec::new(), weight, *fault));
        entry.0.push(view.history.txn_of(fault.op));
        if weight < entry.1 {
            (entry.1, entry.2) = (weight, *fault);
        }
    }
    found
        .into_iter()
        .map(|(kind, (readers, _, fault))| {
            let witness = fault_witness(view, fault);
            Anomaly::new(kind, readers.len() as u64, witness).seen_in(readers)
        })
        .collect()
}

fn fault_witness(view: CommittedView<'_>, fault: ReadFault) -> Witness {
    let reader = view.history.txn_of(fault.op);
    let mut transactions = vec![reader];
    let mut operations = vec![fault.op];
    let mut edges = Vec::new();
    if let Some(other) = fault.other {
        let txn = view.history.txn_of(other);
        operations.push(other);
        transactions.push(txn);
        if txn != reader && fault.kind != FaultKind::IncompatibleOrder {
            edges.push(Edge {
                from: Node::Txn(txn),
                to: Node::Txn(reader),
                relation: Relation::WriteRead,
                evidence: Evidence::Read { write: Some(other), read: fault.op },
            });
        }
    }
    if matches!(fault.kind, FaultKind::NotMyOwnWrite | FaultKind::NotMyLastWrite) {
        operations.extend(own_write_before(view, reader, fault.op));
    }
    transactions.sort_unstable();
    transactions.dedup();
    operations.sort_unstable();
    operations.dedup();
    Witness { transactions, operations, edges, ..Witness::default() }
}

/// The latest write of the same key before a read in its transaction.
fn own_write_before(view: CommittedView<'_>, t: TxnId, read: OpId) -> Option<OpId> {
    let heads = view.history.heads();
    let key = heads[read.index()].key();
    (view.history.op_range(t).start..read.index())
        .rev()
        .find(|&i| !heads[i].is_read() && heads[i].key() == key)
        .map(|i| OpId(i as u32))
}

/// Non-repeatable reads: external reads of a key from another writer than the transaction's first. O(m).
pub(crate) fn non_repeatable_reads(view: CommittedView<'_>) -> Option<Anomaly> {
    let mut first: EpochMap<u32> = EpochMap::new(view.history.key_count());
    let mut reads: Vec<Read> = Vec::new();
    let mut readers: Vec<TxnId> = Vec::new();
    let mut smallest: Option<(usize, Read, Read)> = None;
    for t in view.committed() {
        first.next_round();
        reads.clear();
        for read in view.reads(t) {
            let Some(at) = first.get(read.key.index()) else {
                first.set(read.key.index(), reads.len() as u32);
                reads.push(read);
                continue;
            };
            let earlier = reads[at as usize];
            if earlier.from != read.from {
                readers.push(t);
                let len = |t: TxnId| view.history.op_range(t).len();
                let weight = len(t) + earlier.from.map_or(0, len) + read.from.map_or(0, len);
                if smallest.is_none_or(|(w, ..)| weight < w) {
                    smallest = Some((weight, earlier, read));
                }
            }
        }
    }
    let (_, a, b) = smallest?;
    let edge = |r: Read| Edge {
        from: r.from.map_or(Node::Initial, Node::Txn),
        to: Node::Txn(view.history.txn_of(r.op)),
        relation: Relation::WriteRead,
        evidence: Evidence::Read { write: view.write_seen(r), read: r.op },
    };
    let witness = witness(view, vec![edge(a), edge(b)]);
    Some(Anomaly::new(AnomalyKind::NonRepeatableRead, readers.len() as u64, witness).seen_in(readers))
}
