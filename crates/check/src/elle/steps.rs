//! Why one transaction precedes another: the operations behind an edge, found again when a cycle is told.

use super::ground::Ground;
use isolde_history::{KeyId, OpId, OpKind, TxnId, Value};
use isolde_level::elle::Edge;
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

    /// The version before this one; the last of all if nobody has seen it; `None` for the initial state.
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
}

impl Evidence {
    /// The step from one node to another by a relation.
    pub fn step(&self, ground: &Ground<'_>, from: u32, to: u32, relation: Edge) -> Step {
        let (first, second) = match relation {
            Edge::Process | Edge::Realtime => (None, None),
            _ => match self {
                Evidence::Lists { writer, versions } => lists(ground, writer, versions, from, to, relation),
                Evidence::Registers { versions } => registers(ground, versions, from, to, relation),
            },
        };
        Step { from: ground.txn(from), to: ground.txn(to), relation, first, second }
    }
}

type Pair = (Option<OpId>, Option<OpId>);

fn lists(
    ground: &Ground<'_>,
    writer: &FxHashMap<(KeyId, Value), OpId>,
    versions: &Versions,
    from: u32,
    to: u32,
    relation: Edge,
) -> Pair {
    let by_from = |key, value| writer.get(&(key, value)).copied().filter(|&w| ground.node_of(w) == from);
    for (op, o) in ground.ops(to) {
        match (relation, o.kind) {
            (Edge::Wr, OpKind::Read) => {
                let last = ground.list(&o).and_then(|list| list.last());
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
                let read = ground.ops(from).find(|(_, r)| {
                    r.key == o.key && ground.list(r).is_some_and(|list| list.last().copied() == previous)
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
    ground: &Ground<'_>,
    versions: &[(KeyId, Value, Value)],
    from: u32,
    to: u32,
    relation: Edge,
) -> Pair {
    let (mine, theirs) = (External::of(ground, from), External::of(ground, to));
    let later = |key, a, b| versions.binary_search(&(key, a, b)).is_ok();
    let candidates = match relation {
        Edge::Wr => (&mine.writes, &theirs.reads),
        Edge::Ww => (&mine.writes, &theirs.writes),
        _ => (&mine.reads, &theirs.writes),
    };
    for &(key, a, first) in candidates.0 {
        for &(k, b, second) in candidates.1 {
            if k == key && (if relation == Edge::Wr { a == b } else { later(key, a, b) }) {
                return (Some(first), Some(second));
            }
        }
    }
    (None, None)
}

/// What a transaction shows others: the first read of a key unless a write came before it, and the last write.
#[derive(Default)]
pub(crate) struct External {
    pub reads: Vec<(KeyId, Value, OpId)>,
    pub writes: Vec<(KeyId, Value, OpId)>,
}

impl External {
    /// In program order of first touch; initial values are nil.
    pub fn of(ground: &Ground<'_>, node: u32) -> External {
        let mut external = External::default();
        for (op, o) in ground.ops(node) {
            let entry = (o.key, ground.register(o.key, o.value), op);
            let touched = |list: &[(KeyId, Value, OpId)]| list.iter().any(|e| e.0 == o.key);
            if o.kind != OpKind::Read {
                match external.writes.iter_mut().find(|e| e.0 == o.key) {
                    Some(write) => *write = entry,
                    None => external.writes.push(entry),
                }
            } else if o.value != Value::UNKNOWN && !touched(&external.reads) && !touched(&external.writes) {
                external.reads.push(entry);
            }
        }
        external
    }

    pub fn read(&self, key: KeyId) -> Option<Value> {
        self.reads.iter().find(|e| e.0 == key).map(|e| e.1)
    }

    pub fn write(&self, key: KeyId) -> Option<Value> {
        self.writes.iter().find(|e| e.0 == key).map(|e| e.1)
    }
}
