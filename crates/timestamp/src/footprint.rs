//! One pass over a transaction: what it read of others, what it leaves behind, and where it contradicts
//! itself.
//!
//! An *external* read is the first operation on its key; what the transaction did before determines any
//! other read, and INT asks that it does (paper, section II-B). A read that breaks INT is what later reads
//! are compared with, as in Algorithm 2, line 22. Linear in the number of operations.

use crate::Nil;
use rustc_hash::FxHashMap;
use std::hash::Hash;

/// One operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access<'a, V> {
    /// A read that returned one value.
    Read(V),
    /// A read that returned a list.
    ReadList(&'a [V]),
    /// A read whose result was not recorded.
    Unknown,
    /// Replaced the value.
    Write(V),
    /// Added an element at the end.
    Append(V),
}

/// The operations of one transaction.
pub trait Operations {
    /// Names a key.
    type Key: Copy + Eq + Hash;
    /// A value, or an element of a list.
    type Value: Nil;

    /// Number of operations.
    fn len(&self) -> usize;

    /// True if there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The key of an operation.
    fn key(&self, op: usize) -> Self::Key;

    /// What it does.
    fn access(&self, op: usize) -> Access<'_, Self::Value>;
}

/// A read of what others wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct External<K> {
    /// The key.
    pub key: K,
    /// The read, counted from 0 in its transaction.
    pub op: u32,
    /// How many elements at the end of the list are the transaction's own.
    pub own: u32,
}

/// A read that contradicts its own transaction: INT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Internal<K> {
    /// The key.
    pub key: K,
    /// The read.
    pub op: u32,
    /// The transaction's operation on the key before it.
    pub before: u32,
}

/// What a transaction does to a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Replaces it by what this operation writes.
    Write(u32),
    /// Appends this many elements, the first by this operation.
    Append(u32, u32),
    /// Leaves it without a defined content: it appends to a register value.
    Undefined,
}

/// A key that a transaction writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written<K> {
    /// The key.
    pub key: K,
    /// What it does to it.
    pub effect: Effect,
}

/// What the transaction itself says about a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// The one value that operation `last` read or wrote.
    One,
    /// The list that this operation read, and own appends since.
    List(u32),
    /// Own appends, to a list not yet read.
    Tail,
    /// A register value was appended to.
    Undefined,
}

#[derive(Clone, Copy)]
struct Entry {
    known: Known,
    /// The last operation on the key whose result is known.
    last: u32,
    /// Own appends since the list was read, or in all.
    appended: u32,
    /// Place in `writes`, plus one.
    write: u32,
}

/// The result of a pass. Keep one and reuse it: the pass then allocates nothing.
///
/// ```
/// use anomalist_history::Value;
/// use anomalist_timestamp::{Access, Effect, Footprint, Operations};
/// struct Ops<'a>(&'a [(u32, Access<'a, Value>)]);
/// impl Operations for Ops<'_> {
///     type Key = u32;
///     type Value = Value;
///     fn len(&self) -> usize { self.0.len() }
///     fn key(&self, op: usize) -> u32 { self.0[op].0 }
///     fn access(&self, op: usize) -> Access<'_, Value> { self.0[op].1 }
/// }
/// let (five, six) = (Value::int(5).unwrap(), Value::int(6).unwrap());
/// let ops = [(1, Access::Read(five)), (1, Access::Write(six)), (1, Access::Read(five))];
/// let mut footprint = Footprint::default();
/// footprint.pass(&Ops(&ops));
/// assert_eq!(footprint.reads[0].op, 0);
/// assert_eq!(footprint.writes[0].effect, Effect::Write(1));
/// assert_eq!((footprint.internal[0].op, footprint.internal[0].before), (2, 1));
/// ```
pub struct Footprint<K> {
    /// Reads of what others wrote, in program order; at most one per key.
    pub reads: Vec<External<K>>,
    /// The keys it writes, in the order of their first write.
    pub writes: Vec<Written<K>>,
    /// INT violations, in program order.
    pub internal: Vec<Internal<K>>,
    keys: Vec<K>,
    entries: Vec<Entry>,
    /// Used when a transaction touches more than [`FEW`] keys.
    by_key: FxHashMap<K, u32>,
}

impl<K> Default for Footprint<K> {
    fn default() -> Footprint<K> {
        let (reads, writes, internal) = (Vec::new(), Vec::new(), Vec::new());
        let (keys, entries, by_key) = (Vec::new(), Vec::new(), FxHashMap::default());
        Footprint { reads, writes, internal, keys, entries, by_key }
    }
}

/// Up to here, comparing with every key so far is faster than hashing.
const FEW: usize = 32;

impl<K: Copy + Eq + Hash> Footprint<K> {
    /// Forgets the last transaction and looks at this one.
    pub fn pass<O: Operations<Key = K>>(&mut self, ops: &O) {
        self.reads.clear();
        self.writes.clear();
        self.internal.clear();
        self.keys.clear();
        self.entries.clear();
        self.by_key.clear();
        for op in 0..ops.len() {
            let (key, access) = (ops.key(op), ops.access(op));
            if matches!(access, Access::Unknown) {
                continue;
            }
            match self.find(key) {
                None => self.first(key, op as u32, access),
                Some(entry) => self.again(ops, key, op, access, entry),
            }
        }
    }

    #[inline]
    fn find(&self, key: K) -> Option<usize> {
        if self.keys.len() <= FEW {
            self.keys.iter().position(|&k| k == key)
        } else {
            self.by_key.get(&key).map(|&i| i as usize)
        }
    }

    #[inline]
    fn first<V>(&mut self, key: K, op: u32, access: Access<'_, V>) {
        let mut entry = Entry { known: Known::One, last: op, appended: 0, write: 0 };
        match access {
            Access::Read(_) => self.reads.push(External { key, op, own: 0 }),
            Access::ReadList(_) => {
                entry.known = Known::List(op);
                self.reads.push(External { key, op, own: 0 });
            }
            Access::Write(_) => entry.write = self.wrote(key, Effect::Write(op)),
            Access::Append(_) => {
                entry.known = Known::Tail;
                entry.appended = 1;
                entry.write = self.wrote(key, Effect::Append(op, 1));
            }
            Access::Unknown => return,
        }
        if self.keys.len() == FEW {
            self.by_key.extend(self.keys.iter().enumerate().map(|(i, &k)| (k, i as u32)));
        }
        if self.keys.len() >= FEW {
            self.by_key.insert(key, self.keys.len() as u32);
        }
        self.keys.push(key);
        self.entries.push(entry);
    }

    fn wrote(&mut self, key: K, effect: Effect) -> u32 {
        self.writes.push(Written { key, effect });
        self.writes.len() as u32
    }

    fn again<O: Operations<Key = K>>(
        &mut self,
        ops: &O,
        key: K,
        op: usize,
        access: Access<'_, O::Value>,
        at: usize,
    ) {
        let mut entry = self.entries[at];
        match access {
            Access::Read(value) => {
                let holds = reads_value(ops, entry, value);
                self.internal_read(holds, key, op, entry.last);
                entry.known = Known::One;
                entry.appended = 0;
            }
            Access::ReadList(list) => {
                let holds = reads_list(ops, key, op, entry, list);
                if holds && entry.known == Known::Tail {
                    self.reads.push(External { key, op: op as u32, own: entry.appended });
                } else {
                    self.internal_read(holds, key, op, entry.last);
                }
                entry.known = Known::List(op as u32);
                entry.appended = 0;
            }
            Access::Write(_) => {
                self.affect(&mut entry, key, |_| Effect::Write(op as u32));
                entry.known = Known::One;
                entry.appended = 0;
            }
            Access::Append(_) => {
                self.affect(&mut entry, key, |before| match before {
                    None => Effect::Append(op as u32, 1),
                    Some(Effect::Append(first, count)) => Effect::Append(first, count + 1),
                    Some(_) => Effect::Undefined,
                });
                match entry.known {
                    Known::One if one(ops, entry) == Some(O::Value::NIL) => {
                        entry.known = Known::List(entry.last);
                    }
                    Known::One => entry.known = Known::Undefined,
                    _ => {}
                }
                entry.appended += 1;
            }
            Access::Unknown => return,
        }
        entry.last = op as u32;
        self.entries[at] = entry;
    }

    fn internal_read(&mut self, holds: bool, key: K, op: usize, before: u32) {
        if !holds {
            self.internal.push(Internal { key, op: op as u32, before });
        }
    }

    fn affect(&mut self, entry: &mut Entry, key: K, effect: impl Fn(Option<Effect>) -> Effect) {
        match self.writes.get_mut((entry.write as usize).wrapping_sub(1)) {
            Some(written) => written.effect = effect(Some(written.effect)),
            None => entry.write = self.wrote(key, effect(None)),
        }
    }
}

/// INT for one value: a read after another operation on its key returns what that operation read or wrote.
#[inline]
pub(crate) fn repeats<V: PartialEq>(last: V, read: V) -> bool {
    last == read
}

/// The one value that a transaction last read or wrote of a key.
fn one<O: Operations>(ops: &O, entry: Entry) -> Option<O::Value> {
    match ops.access(entry.last as usize) {
        Access::Read(value) | Access::Write(value) => Some(value),
        _ => None,
    }
}

/// INT: whether a read of one value returns what the transaction itself determines.
fn reads_value<O: Operations>(ops: &O, entry: Entry, value: O::Value) -> bool {
    match entry.known {
        Known::One => one(ops, entry).is_some_and(|last| repeats(last, value)),
        Known::List(read) => {
            value == O::Value::NIL
                && entry.appended == 0
                && ops.access(read as usize) == Access::ReadList(&[])
        }
        Known::Tail => false,
        Known::Undefined => true,
    }
}

/// INT: whether a read of a list, operation `op`, returns what the transaction itself determines.
fn reads_list<O: Operations>(ops: &O, key: O::Key, op: usize, entry: Entry, list: &[O::Value]) -> bool {
    let own = entry.appended as usize;
    let (rest, tail) = list.split_at(list.len().saturating_sub(own));
    let appends = |from: u32| {
        (from as usize..op).filter(|&i| ops.key(i) == key).filter_map(|i| match ops.access(i) {
            Access::Append(element) => Some(element),
            _ => None,
        })
    };
    match entry.known {
        Known::One => list.is_empty() && one(ops, entry) == Some(O::Value::NIL),
        Known::List(read) => {
            // A read of nil that an append made a list counts as a read of the empty one.
            let before = match ops.access(read as usize) {
                Access::ReadList(before) => before,
                _ => &[],
            };
            tail.len() == own && rest == before && tail.iter().copied().eq(appends(read))
        }
        Known::Tail => tail.len() == own && tail.iter().copied().eq(appends(0)),
        Known::Undefined => true,
    }
}
