//! What of a history is kept, and what has to go with what is not.

use super::Group;
use anomalist_history::{Filter, History, KeyId, OpId, OpKind, TxnId, Value};
use rustc_hash::{FxHashMap, FxHashSet};

/// The transactions and operations kept, and the elements that are gone from lists.
#[derive(Clone)]
pub(super) struct Mask {
    txns: Vec<bool>,
    ops: Vec<bool>,
    gone: FxHashSet<(KeyId, Value)>,
}

impl Filter for Mask {
    fn txn(&self, t: TxnId) -> bool {
        self.txns[t.index()]
    }

    fn op(&self, op: OpId) -> bool {
        self.ops[op.index()]
    }

    fn element(&self, key: KeyId, element: Value) -> bool {
        !self.gone.contains(&(key, element))
    }
}

impl Mask {
    pub fn all(history: &History) -> Mask {
        let (txns, ops) = (vec![true; history.txn_count()], vec![true; history.op_count()]);
        Mask { txns, ops, gone: FxHashSet::default() }
    }

    pub fn none(history: &History) -> Mask {
        let (txns, ops) = (vec![false; history.txn_count()], vec![false; history.op_count()]);
        Mask { txns, ops, gone: FxHashSet::default() }
    }

    pub fn keep_txns(&mut self, txns: &[TxnId]) {
        txns.iter().for_each(|t| self.txns[t.index()] = true);
    }

    pub fn keep_ops(&mut self, ops: &[OpId]) {
        ops.iter().for_each(|op| self.ops[op.index()] = true);
    }

    pub fn keep_all_ops_of(&mut self, history: &History, t: TxnId) {
        history.op_range(t).for_each(|i| self.ops[i] = true);
    }

    pub fn remove(&mut self, history: &History, group: &Group) {
        for &t in &group.txns {
            self.txns[t.index()] = false;
            history.op_range(t).for_each(|i| self.ops[i] = false);
        }
        group.ops.iter().for_each(|op| self.ops[op.index()] = false);
    }

    /// Drops the reads of what is gone, and elements of lists whose append is gone. A transaction that has
    /// nothing left goes. With `ends`, a list that loses its last element goes, so that what is left of a
    /// list is a read of the same version.
    pub fn drop_unexplained(&mut self, history: &History, values: &Values, ends: bool) {
        for (i, head) in history.heads().iter().enumerate() {
            if !head.is_read() && !self.ops[i] {
                self.gone.insert((head.key(), history.values()[i]));
            }
        }
        for t in history.txns() {
            for (op, o) in history.ops(t) {
                let lost = |value: Value| self.gone.contains(&(o.key, value));
                let unexplained = o.kind == OpKind::Read
                    && match history.list(o.value) {
                        Some(elements) => {
                            let own = own_appends(history, t, op);
                            let others = &elements[..elements.len().saturating_sub(own)];
                            ends && others.last().is_some_and(|&e| lost(e))
                                || elements.iter().any(|&e| lost(e) && values.is_repeated(o.key, e))
                        }
                        None => lost(o.value),
                    };
                if unexplained {
                    self.ops[op.index()] = false;
                }
            }
            self.txns[t.index()] &= history.op_range(t).any(|i| self.ops[i]);
        }
    }
}

/// The appends of a transaction to the key of a read before it: the tail of what it shows.
fn own_appends(history: &History, t: TxnId, read: OpId) -> usize {
    let key = history.op(read).key;
    let own =
        |(op, o): &(OpId, anomalist_history::Op)| *op < read && o.kind == OpKind::Append && o.key == key;
    history.ops(t).filter(own).count()
}

/// How often each value was written.
pub(super) struct Values(FxHashMap<(KeyId, Value), u32>);

impl Values {
    pub fn new(history: &History) -> Values {
        let mut written = FxHashMap::default();
        for (head, &value) in history.heads().iter().zip(history.values()).filter(|(h, _)| !h.is_read()) {
            *written.entry((head.key(), value)).or_insert(0) += 1;
        }
        Values(written)
    }

    /// True if the value was written to the key more than once.
    fn is_repeated(&self, key: KeyId, value: Value) -> bool {
        self.0.get(&(key, value)).is_some_and(|&count| count > 1)
    }
}
