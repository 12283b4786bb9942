//! List-append keys: who appended each element, and the version order that the reads show.
//!
//! A read returns the whole list, so it shows the order of all appends up to the one it saw. All reads of a
//! key must be prefixes of the longest; that one is the key's version order, and every committed append it
//! does not contain came after it (or it would be in it).

use crate::ids::{KeyId, OpId, TxnId};
use crate::index::{FaultKind, PackedSource, ReadFault, Source};
use crate::model::History;
use crate::operation::{OpKind, Outcome};
use crate::resolve::Resolved;
use crate::value::{Value, begins_with};
use rustc_hash::FxHashMap;

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

/// An append, as the elements of lists are looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Append {
    pub op: OpId,
    pub txn: TxnId,
    /// The transaction wrote the key again after it.
    pub replaced: bool,
}

/// Who appended each element. A table per key, side by side: looking up a list stays in a few cache
/// lines.
#[derive(Default)]
pub(crate) struct Appends {
    /// Per key, where its slots begin; a power of two of them, or none.
    start: Vec<u32>,
    slots: Vec<(Value, Append)>,
    /// Elements that were appended more than once, by transactions that did not abort, and all those
    /// appends: any may be the one that a list shows.
    repeated: FxHashMap<(KeyId, Value), Vec<OpId>>,
    /// Per key: something was appended, or a list read.
    is_list: Vec<bool>,
}

const FREE: Append = Append { op: OpId(u32::MAX), txn: TxnId(0), replaced: false };

impl Appends {
    pub fn collect(history: &History) -> Appends {
        let mut appends = Appends::default();
        if !history.has_lists() {
            return appends;
        }
        appends.lay_out(history);
        // Per key, the slot of the append before and its transaction.
        let mut last: Vec<(u32, TxnId)> = vec![(u32::MAX, TxnId(0)); history.key_count()];
        for txn in history.txns() {
            let aborted = history.outcome(txn) == Outcome::Aborted;
            for i in history.op_range(txn) {
                let head = history.heads()[i];
                if head.is_read() {
                    continue;
                }
                let before = &mut last[head.key().index()];
                if before.0 != u32::MAX && before.1 == txn {
                    appends.slots[before.0 as usize].1.replaced = true;
                }
                if head.kind() == OpKind::Append {
                    let append = Append { op: OpId(i as u32), txn, replaced: false };
                    let slot = appends.add(history, head.key(), history.values()[i], append, aborted);
                    *before = (slot.unwrap_or(u32::MAX), txn);
                }
            }
        }
        appends
    }

    /// Makes room for the appends of each key.
    fn lay_out(&mut self, history: &History) {
        self.is_list = vec![false; history.key_count()];
        self.start = vec![0; history.key_count() + 1];
        for (head, value) in history.heads().iter().zip(history.values()) {
            let key = head.key().index();
            let appended = head.kind() == OpKind::Append;
            self.start[key + 1] += u32::from(appended);
            self.is_list[key] |= appended || (value.is_list() && head.is_read());
        }
        let mut end = 0;
        for start in &mut self.start[1..] {
            // Never full, or the search for an element that no transaction appended would not end.
            end += if *start == 0 { 0 } else { (*start + *start / 2 + 1).next_power_of_two() };
            *start = end;
        }
        self.slots = vec![(Value::NIL, FREE); end as usize];
    }

    /// Notes an append; the slot, unless another transaction's append keeps it.
    fn add(
        &mut self,
        history: &History,
        key: KeyId,
        element: Value,
        append: Append,
        aborted: bool,
    ) -> Option<u32> {
        let slot = self.slot(key, element)?;
        let (_, known) = self.slots[slot];
        if known == FREE {
            self.slots[slot] = (element, append);
        } else if aborted {
            return None;
        } else if history.outcome(known.txn) == Outcome::Aborted {
            // A client's retry: what an aborted transaction also tried to append is the committed one's.
            self.slots[slot].1 = append;
        } else {
            self.repeated.entry((key, element)).or_insert_with(|| vec![known.op]).push(append.op);
            return None;
        }
        Some(slot as u32)
    }

    /// The slot that holds an element, or would.
    #[inline]
    fn slot(&self, key: KeyId, element: Value) -> Option<usize> {
        let start = *self.start.get(key.index())? as usize;
        let mask = (self.start[key.index() + 1] as usize).wrapping_sub(start + 1);
        if mask == usize::MAX {
            return None;
        }
        let mut i = (element.bits().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize & mask;
        while self.slots[start + i].1 != FREE && self.slots[start + i].0 != element {
            i = (i + 1) & mask;
        }
        Some(start + i)
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
        self.is_list.get(key.index()).is_some_and(|&is| is)
    }

    #[inline]
    pub fn of(&self, key: KeyId, element: Value) -> Option<Append> {
        let append = self.slots[self.slot(key, element)?].1;
        (append != FREE).then_some(append)
    }
}

/// The version order of every list key; reads that contradict it become faults.
pub(crate) fn version_orders(
    history: &History,
    resolved: &Resolved,
    committed: &[bool],
    faults: &mut Vec<ReadFault>,
) -> Vec<VersionOrder> {
    if !history.has_lists() {
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
        let contradiction = shown.windows(2).find(|pair| !begins_with(pair[1].1, pair[0].1));
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
            appends: elements.iter().filter_map(|&e| resolved.appends.of(key, e)).map(|a| a.op).collect(),
            read,
        };
        if !longest.is_empty() {
            orders.push(shows((longest_read, longest)));
            // Reads that contradict the longest show an order of their own.
            orders.extend(shown.iter().filter(|(_, e)| !begins_with(longest, e)).map(|&other| shows(other)));
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

/// A transaction's appends reach a list in program order and none without those before it. (Appends of
/// others in between are another matter: a cycle of version order.)
fn follows_program_order(history: &History, key: KeyId, elements: &[Value], appends: &Appends) -> bool {
    let mut seen: FxHashMap<TxnId, usize> = FxHashMap::default();
    elements.iter().filter_map(|&e| appends.of(key, e)).all(|append| {
        let is_append = |i: usize| history.heads()[i].kind() == OpKind::Append;
        let before = (history.op_range(append.txn).start..append.op.index())
            .filter(|&i| is_append(i) && history.heads()[i].key() == key)
            .count();
        // Most transactions append to a key once.
        if before == 0 && !append.replaced {
            return true;
        }
        let count = seen.entry(append.txn).or_insert(0);
        *count += 1;
        *count == before + 1
    })
}
