//! Why one transaction precedes another: the operations behind an edge, found again when a cycle is
//! reported.

use super::elle_history::ElleHistory;
use anomalist_history::{KeyId, OpId, OpKind, TxnId, Value};
use anomalist_level::elle::Edge;
use rustc_hash::FxHashMap;

/// A step of a cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The transaction that comes first.
    pub from: TxnId,
    /// The one that comes later.
    pub to: TxnId,
    /// The relation that explains it.
    pub relation: Edge,
    /// The operation of the first that shows it; none for orders.
    pub first: Option<OpId>,
    /// The operation of the second.
    pub second: Option<OpId>,
}

/// The versions of keys, oldest first.
#[derive(Default)]
pub(crate) struct Versions {
    place: FxHashMap<(KeyId, Value), u32>,
    order: FxHashMap<KeyId, (Vec<Value>, Option<OpId>)>,
}

impl Versions {
    /// The order that a list shows; of elements that occur twice the first counts.
    pub fn show(&mut self, key: KeyId, list: &[Value], read: Option<OpId>) {
        let (order, _) = self.order.entry(key).or_insert_with(|| (Vec::with_capacity(list.len()), read));
        for &element in list {
            self.place.entry((key, element)).or_insert_with(|| {
                order.push(element);
                order.len() as u32 - 1
            });
        }
    }

    /// The version before this one; the last of all if no transaction has seen it; `None` for the initial
    /// state.
    pub fn before(&self, key: KeyId, value: Value) -> Option<Value> {
        let (order, _) = self.order.get(&key)?;
        match self.place.get(&(key, value)) {
            Some(&0) => None,
            Some(&place) => Some(order[place as usize - 1]),
            None => order.last().copied(),
        }
    }
}

/// What the edges of a history rest on.
pub(crate) enum Evidence {
    /// Lists: who appended what, and the order of elements.
    Lists { writer: FxHashMap<(KeyId, Value), OpId>, versions: Versions },
    /// Registers: versions that directly precede others, by key, ascending.
    Registers { versions: Vec<(KeyId, Value, Value)> },
    /// Kept by the caller.
    Elsewhere,
}

impl Evidence {
    /// The step from one node to another by a relation.
    pub fn step(&self, numbered: &ElleHistory<'_>, from: u32, to: u32, relation: Edge) -> Step {
        let (first, second) = match relation {
            Edge::Process | Edge::Realtime => (None, None),
            _ => match self {
                Evidence::Lists { writer, versions } => lists(numbered, writer, versions, from, to, relation),
                Evidence::Registers { versions } => registers(numbered, versions, from, to, relation),
                Evidence::Elsewhere => (None, None),
            },
        };
        Step { from: numbered.txn(from), to: numbered.txn(to), relation, first, second }
    }
}

type Pair = (Option<OpId>, Option<OpId>);

fn lists(
    numbered: &ElleHistory<'_>,
    writer: &FxHashMap<(KeyId, Value), OpId>,
    versions: &Versions,
    from: u32,
    to: u32,
    relation: Edge,
) -> Pair {
    let by_from = |key, value| writer.get(&(key, value)).copied().filter(|&w| numbered.node_of(w) == from);
    for (op, o) in numbered.ops(to) {
        match (relation, o.kind) {
            (Edge::Wr, OpKind::Read) => {
                let last = numbered.list(&o).and_then(|list| list.last());
                if let Some(write) = last.and_then(|&last| by_from(o.key, last)) {
                    return (Some(write), Some(op));
                }
            }
            (Edge::Ww, OpKind::Append) => {
                if let Some(write) = versions.before(o.key, o.value).and_then(|v| by_from(o.key, v)) {
                    return (Some(write), Some(op));
                }
            }
            (Edge::Rw, OpKind::Append) => {
                let previous = versions.before(o.key, o.value);
                let read = numbered.ops(from).find(|(_, r)| {
                    r.key == o.key && numbered.list(r).is_some_and(|list| list.last().copied() == previous)
                });
                if let Some((read, _)) = read {
                    return (Some(read), Some(op));
                }
            }
            _ => {}
        }
    }
    (None, None)
}

fn registers(
    numbered: &ElleHistory<'_>,
    versions: &[(KeyId, Value, Value)],
    from: u32,
    to: u32,
    relation: Edge,
) -> Pair {
    let theirs = external(numbered, to);
    for mine in external(numbered, from) {
        let Ok(i) = theirs.binary_search_by_key(&mine.key, |e| e.key) else { continue };
        let (first, second) = match relation {
            Edge::Wr => (mine.write, theirs[i].read),
            Edge::Ww => (mine.write, theirs[i].write),
            _ => (mine.read, theirs[i].write),
        };
        if let (Some((a, first)), Some((b, second))) = (first, second) {
            let precedes = || versions.binary_search(&(mine.key, a, b)).is_ok();
            if if relation == Edge::Wr { a == b } else { precedes() } {
                return (Some(first), Some(second));
            }
        }
    }
    (None, None)
}

/// What a transaction shows others of a key: its first operation if that is a read, and its last write.
pub(crate) struct External {
    pub key: KeyId,
    pub read: Option<(Value, OpId)>,
    pub write: Option<(Value, OpId)>,
}

/// What a transaction shows others, by key. Initial values are nil; reads without a recorded result show
/// nothing.
pub(crate) fn external(numbered: &ElleHistory<'_>, node: u32) -> Vec<External> {
    let mut ops: Vec<(KeyId, OpId)> =
        numbered.ops(node).filter(|(_, o)| o.value != Value::UNKNOWN).map(|(op, o)| (o.key, op)).collect();
    ops.sort_unstable();
    let of_key = ops.chunk_by(|a, b| a.0 == b.0);
    of_key
        .map(|ops| {
            let key = ops[0].0;
            let shown = |op: OpId| (numbered.register(key, numbered.history.op(op).value), op);
            let is_read = |op: OpId| numbered.history.op(op).kind == OpKind::Read;
            let read = Some(ops[0].1).filter(|&op| is_read(op)).map(shown);
            let write = ops.iter().rev().map(|&(_, op)| op).find(|&op| !is_read(op)).map(shown);
            External { key, read, write }
        })
        .collect()
}
