//! The dependencies of a list history one by one, with the row each is about: for callers who look for
//! particular cycles.
//!
//! The same version orders and places as in `depend.rs`, which keeps only which transactions are related.
//! One difference: a read after an own append returns the own version: it is no `wr` from the transaction
//! that wrote the one before, which is a `ww` already, and its `rw` goes to who wrote the one after.
//! O(operations), and the readers of a key's last version times its appends that no transaction saw.

use super::lists::{Lists, Place};
use crate::view::CommittedView;
use crate::view::{EpochMap, ExternalReads};
use anomalist_history::{Indexed, KeyId, OpId, OpKind, TxnId};
use anomalist_level::Relation;

/// That one transaction depends on another through a key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Dependency {
    /// The transaction that comes first.
    pub from: TxnId,
    /// The transaction that comes later.
    pub to: TxnId,
    /// `WriteRead`, `VersionOrder` or `AntiDependency`.
    pub relation: Relation,
    /// The key.
    pub key: KeyId,
    /// The operation of `from`.
    pub first: OpId,
    /// The operation of `to`.
    pub second: OpId,
}

/// Every dependency between committed transactions that the lists of a history show, sorted.
pub fn dependencies(indexed: &Indexed<'_>) -> Vec<Dependency> {
    let (history, index) = (indexed.history(), indexed.index());
    let reads = ExternalReads::new(history, index);
    let view = CommittedView { history, index, reads: &reads, assumed: &[] };
    let lists = Lists::new(view);
    let mut found = Vec::new();
    let mut add = |from: (TxnId, OpId), to: (TxnId, OpId), relation, key| {
        if from.0 != to.0 {
            found.push(Dependency { from: from.0, to: to.0, relation, key, first: from.1, second: to.1 });
        }
    };
    let mut own: EpochMap<u32> = EpochMap::new(history.key_count());
    for t in view.committed() {
        own.next_round();
        for (op, o) in history.ops(t) {
            if o.kind == OpKind::Append {
                own.set(o.key.index(), own.get(o.key.index()).unwrap_or(0) + 1);
                continue;
            }
            let order = lists.range(o.key);
            match lists.place(op) {
                Some(Place::At(position)) => {
                    let mine = own.get(o.key.index()).unwrap_or(0);
                    if mine > 0 && lists.is_damaged(o.key) {
                        continue;
                    }
                    let position = position + mine;
                    if position > order.start && mine == 0 {
                        let seen = lists.at(position - 1);
                        add((seen.txn, seen.op), (t, op), Relation::WriteRead, o.key);
                    }
                    if position < order.end {
                        let next = lists.at(position);
                        add((t, op), (next.txn, next.op), Relation::AntiDependency, o.key);
                    } else {
                        for later in lists.later(o.key) {
                            add((t, op), (later.txn, later.op), Relation::AntiDependency, o.key);
                        }
                    }
                }
                Some(Place::Beyond(seen)) => add((seen.txn, seen.op), (t, op), Relation::WriteRead, o.key),
                None => {}
            }
        }
    }
    for key in history.keys() {
        let order = lists.range(key);
        for position in order.start + 1..order.end {
            let (first, second) = (lists.at(position - 1), lists.at(position));
            add((first.txn, first.op), (second.txn, second.op), Relation::VersionOrder, key);
        }
        if !order.is_empty() {
            let last = lists.at(order.end - 1);
            for later in lists.later(key) {
                add((last.txn, last.op), (later.txn, later.op), Relation::VersionOrder, key);
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use anomalist_testkit::mini;

    fn listed(text: &str) -> Vec<String> {
        let history = mini::history(text);
        let indexed = Indexed::new(&history, 1.try_into().unwrap());
        let show =
            |d: &Dependency| format!("{} {}({}) {}", d.from.0, d.relation, history.show_key(d.key), d.to.0);
        let mut all: Vec<String> = dependencies(&indexed).iter().map(show).collect();
        all.dedup();
        all
    }

    #[test]
    fn each_with_its_key() {
        let found = listed("r(x,[]) a(y,1) || a(x,1) a(y,2) || r(x,[1]) r(y,[2 1])");
        assert_eq!(found, ["0 rw(x) 1", "0 wr(y) 2", "1 ww(y) 0", "1 wr(x) 2"]);
    }

    #[test]
    fn a_read_after_an_own_append_reads_nothing_from_others() {
        assert_eq!(listed("a(x,1) || a(x,2) r(x,[1 2])"), ["0 ww(x) 1"]);
        let found = listed("a(x,1) r(x,[1]) || a(x,2) r(x,[1 2])");
        assert_eq!(found, ["0 ww(x) 1", "0 rw(x) 1"]);
    }
}
