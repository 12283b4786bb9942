//! List-append keys: who appended each element, and the version order that the reads show.
//!
//! A read returns the whole list, so it shows the order of all appends up to the one it saw. All reads of a key must be
//! prefixes of the longest; that one is the key's version order, and every committed append it does not contain came
//! after it (or it would be in it).

use crate::ids::{KeyId, OpId, TxnId};
use crate::index::{FaultKind, PackedSource, ReadFault, Source};
use crate::model::{History, OpKind, Outcome};
use crate::resolve::Resolved;
use crate::value::Value;
use rustc_hash::{FxHashMap, FxHashSet};

/// The order of appends to one key that a read shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionOrder {
    /// The key.
    pub key: KeyId,
    /// The appends, oldest first.
    pub appends: Vec<OpId>,
    /// The read that shows them.
    pub read: OpId,
}

/// Who appended each element.
#[derive(Default)]
pub(crate) struct Appends {
    by_element: FxHashMap<(KeyId, Value), OpId>,
    /// Elements that were appended more than once, by transactions that did not abort, and all those appends: any may be the
    /// one that a list shows.
    repeated: FxHashMap<(KeyId, Value), Vec<OpId>>,
    list_keys: FxHashSet<KeyId>,
}

impl Appends {
    pub fn collect(history: &History) -> Appends {
        let mut appends = Appends::default();
        if !history.has_lists() {
            return appends;
        }
        let txn = |op: OpId| history.txn_of(op);
        let aborted = |op: OpId| history.outcome(txn(op)) == Outcome::Aborted;
        for (i, (head, &value)) in history.heads().iter().zip(history.values()).enumerate() {
            if head.kind() == OpKind::Append {
                appends.list_keys.insert(head.key());
                let (op, element) = (OpId(i as u32), (head.key(), value));
                let entry = appends.by_element.entry(element).or_insert(op);
                if !aborted(op) {
                    // A client's retry: what an aborted transaction also tried to append is the committed one's.
                    if aborted(*entry) {
                        *entry = op;
                    } else if *entry != op {
                        appends.repeated.entry(element).or_insert_with(|| vec![*entry]).push(op);
                    }
                }
            } else if value.is_list() && head.kind() == OpKind::Read {
                appends.list_keys.insert(head.key());
            }
        }
        appends
    }

    pub fn is_repeated(&self, key: KeyId, element: Value) -> bool {
        !self.repeated.is_empty() && self.repeated.contains_key(&(key, element))
    }

    pub fn any_repeated(&self) -> bool {
        !self.repeated.is_empty()
    }

    /// The appends of an element that was appended more than once.
    pub fn all_of(&self, key: KeyId, element: Value) -> &[OpId] {
        self.repeated.get(&(key, element)).map_or(&[], Vec::as_slice)
    }

    #[inline]
    pub fn is_list_key(&self, key: KeyId) -> bool {
        !self.list_keys.is_empty() && self.list_keys.contains(&key)
    }

    #[inline]
    pub fn of(&self, key: KeyId, element: Value) -> Option<OpId> {
        self.by_element.get(&(key, element)).copied()
    }
}

/// The version order of every list key; reads that contradict it become faults.
pub(crate) fn version_orders(
    history: &History,
    resolved: &Resolved,
    committed: &[bool],
    faults: &mut Vec<ReadFault>,
) -> Vec<VersionOrder> {
    if resolved.appends.list_keys.is_empty() {
        return Vec::new();
    }
    let mut reads: FxHashMap<KeyId, Vec<(OpId, &[Value])>> = FxHashMap::default();
    for t in history.txns().filter(|t| committed[t.index()]) {
        for (op, o) in history.ops(t) {
            let source = PackedSource(resolved.source[op.index()]).view();
            if o.kind == OpKind::Read
                && source != Source::Fault
                && source != Source::Ambiguous
                && let Some(elements) = history.list(o.value)
            {
                reads.entry(o.key).or_default().push((op, others_part(history, t, op, elements)));
            }
        }
    }
    let mut orders: Vec<VersionOrder> = Vec::new();
    let mut keys: Vec<KeyId> = reads.keys().copied().collect();
    keys.sort_unstable();
    for key in keys {
        let mut shown = reads.remove(&key).unwrap_or_default();
        // Stable by length: ties keep the order of operations, so the result does not depend on hashing.
        shown.sort_by_key(|(_, elements)| elements.len());
        let Some(&(longest_read, longest)) = shown.last() else { continue };
        let contradiction = shown.windows(2).find(|pair| !pair[1].1.starts_with(pair[0].1));
        if let Some(pair) = contradiction {
            faults.push(ReadFault {
                op: pair[0].0,
                kind: FaultKind::IncompatibleOrder,
                other: Some(pair[1].0),
            });
        }
        let shown_in_order = follows_program_order(history, key, longest, &resolved.appends);
        if contradiction.is_none() && !shown_in_order {
            faults.push(ReadFault { op: longest_read, kind: FaultKind::IncompatibleOrder, other: None });
        }
        let shows = |(read, elements): (OpId, &[Value])| VersionOrder {
            key,
            appends: elements.iter().filter_map(|&e| resolved.appends.of(key, e)).collect(),
            read,
        };
        if !longest.is_empty() {
            orders.push(shows((longest_read, longest)));
            // Reads that contradict the longest show an order of their own.
            orders.extend(shown.iter().filter(|(_, e)| !longest.starts_with(e)).map(|&other| shows(other)));
        }
    }
    orders
}

/// A list without the reader's own earlier appends, which are its tail.
fn others_part<'a>(history: &History, t: TxnId, read: OpId, elements: &'a [Value]) -> &'a [Value] {
    let key = history.op(read).key;
    let mine = history
        .ops(t)
        .take_while(|(op, _)| *op < read)
        .filter(|(_, o)| o.kind == OpKind::Append && o.key == key);
    &elements[..elements.len().saturating_sub(mine.count())]
}

/// A transaction's appends reach a list in program order and none without those before it. (Appends of others in between
/// are another matter: a cycle of version order.)
fn follows_program_order(history: &History, key: KeyId, elements: &[Value], appends: &Appends) -> bool {
    let mut seen: FxHashMap<TxnId, usize> = FxHashMap::default();
    elements.iter().filter_map(|&e| appends.of(key, e)).all(|append| {
        let t = history.txn_of(append);
        let before = history.ops(t).take_while(|(op, _)| *op < append);
        let before = before.filter(|(_, o)| o.kind == OpKind::Append && o.key == key).count();
        let count = seen.entry(t).or_insert(0);
        *count += 1;
        *count == before + 1
    })
}
