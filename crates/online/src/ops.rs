//! The operations of one transaction, and what it leaves of a key.

use crate::key::Effect;
use crate::{Batch, Cell, Key128};
use anomalist_history::OpKind;
use anomalist_timestamp::{Access, Effect as Wrote, Operations, Written};
use std::hash::Hash;

/// The operations of one transaction, with the names of their keys.
pub(crate) struct Ops<'a, K> {
    pub batch: &'a Batch,
    pub first: usize,
    pub keys: &'a [K],
}

impl<K: Copy + Eq + Hash> Operations for Ops<'_, K> {
    type Key = K;
    type Value = Key128;

    fn len(&self) -> usize {
        self.keys.len()
    }

    fn key(&self, op: usize) -> K {
        self.keys[op]
    }

    fn access(&self, op: usize) -> Access<'_, Key128> {
        let op = &self.batch.ops[self.first + op];
        match (op.kind, op.cell) {
            (OpKind::Read, Cell::Unknown) => Access::Unknown,
            (OpKind::Read, Cell::One(value)) => Access::Read(value),
            (OpKind::Read, Cell::List(start, end)) => {
                Access::ReadList(&self.batch.elements[start as usize..end as usize])
            }
            (OpKind::Write, cell) => Access::Write(written(cell)),
            (OpKind::Append, cell) => Access::Append(written(cell)),
        }
    }
}

impl<K: Copy + Eq + Hash> Ops<'_, K> {
    /// What the transaction leaves of a key that it writes.
    pub fn effect(&self, written: &Written<K>) -> Effect {
        match written.effect {
            Wrote::Write(op) => match self.access(op as usize) {
                Access::Write(value) => Effect::Write(value),
                _ => Effect::Undefined,
            },
            Wrote::Append(..) => Effect::Append(
                (0..self.keys.len())
                    .filter(|&op| self.keys[op] == written.key)
                    .filter_map(|op| match self.access(op) {
                        Access::Append(element) => Some(element),
                        _ => None,
                    })
                    .collect(),
            ),
            Wrote::Undefined => Effect::Undefined,
        }
    }
}

/// The one value of a cell.
pub(crate) fn written(cell: Cell) -> Key128 {
    match cell {
        Cell::One(value) => value,
        Cell::Unknown | Cell::List(..) => Key128::NIL,
    }
}
