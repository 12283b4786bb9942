//! From transactions to keys: external reads and final writes, in order of commit, for one range of keys.
//!
//! A range has room for every operation on its keys; transactions are visited in order of their places, so
//! each key's events come out in that order, a transaction's read before its write. Sixteen bytes per event.
//! Where there are no lists, an operation costs one look at its key, which knows what the transaction did to
//! it before; lists take the longer way through [`Footprint`], which looks keys up by comparing or hashing
//! and stores a transaction's events before they are moved. INT itself is decided in one place
//! (`footprint.rs`, `repeats`); only the bookkeeping around it is written for registers a second time, for
//! speed.

use super::Findings;
use super::key::Checker;
use super::timeline::Timeline;
use crate::footprint::repeats;
use crate::{Access, Axiom, Effect, Footprint, Operations, Violation, Written};
use anomalist_history::{History, KeyId, OpId, OpKind, TxnId, Value};
use anomalist_level::{Budget, OutOfBudget};
use std::ops::Range;

/// What a transaction does to a key: reads what others wrote, or leaves a version behind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    /// The highest bit: a version.
    place: u32,
    /// The highest bit: appends.
    op: u32,
    /// What was read, written, or appended first.
    pub value: Value,
}

const MARK: u32 = 1 << 31;

impl Event {
    const NOTHING: Event = Event { place: 0, op: 0, value: Value::NIL };

    #[inline]
    pub fn place(self) -> u32 {
        self.place & !MARK
    }

    #[inline]
    pub fn is_version(self) -> bool {
        self.place & MARK != 0
    }

    /// Whether a version appends, to a list or to its own written value.
    #[inline]
    pub fn appends(self) -> bool {
        self.op & MARK != 0
    }

    /// Whether a version does nothing but append.
    pub fn is_append(self) -> bool {
        self.appends() && self.op != u32::MAX
    }

    /// The version that a transaction leaves of a key, of whose operations these were looked at.
    pub fn version(history: &History, place: u32, ops: &[u32], written: &Written<KeyId>) -> Event {
        let (op, mark) = match written.effect {
            Effect::Write(op) => (op, 0),
            Effect::Append(first, _) => (first, MARK),
            Effect::Undefined => (u32::MAX, MARK),
        };
        let op = ops.get(op as usize).copied().unwrap_or(!MARK);
        let value = history.values().get(op as usize).copied().unwrap_or(Value::NIL);
        Event { place: place | MARK, op: op | mark, value }
    }

    /// A read at a place.
    pub fn read(place: u32, op: OpId, value: Value) -> Event {
        Event { place, op: op.0, value }
    }

    /// The read; the last write; the first append.
    #[inline]
    pub fn op(self) -> OpId {
        OpId(self.op & !MARK)
    }
}

/// Ranges of keys with about equally many operations.
pub(crate) fn ranges(history: &History, count: usize) -> Vec<KeyRange> {
    let mut per_key = vec![0u32; history.key_count()];
    for head in history.heads() {
        per_key[head.key().index()] += 1;
    }
    let share = history.op_count() / count + 1;
    let mut ranges = Vec::new();
    let (mut first, mut ops) = (0, 0);
    for (key, &n) in per_key.iter().enumerate() {
        ops += n as usize;
        if ops >= share || key + 1 == per_key.len() {
            let room = &per_key[first..=key];
            let mut start = Vec::with_capacity(room.len() + 1);
            let mut sum = 0;
            start.push(0);
            start.extend(room.iter().map(|&n| {
                sum += n;
                sum
            }));
            ranges.push(KeyRange { keys: first as u32..key as u32 + 1, start });
            (first, ops) = (key + 1, 0);
        }
    }
    ranges
}

/// A range of keys, and where each one's events go.
pub(crate) struct KeyRange {
    keys: Range<u32>,
    start: Vec<u32>,
}

/// The operations of one transaction on a range of keys.
pub(crate) struct Part<'a> {
    pub history: &'a History,
    pub ops: &'a [u32],
}

impl Operations for Part<'_> {
    type Key = KeyId;
    type Value = Value;

    fn len(&self) -> usize {
        self.ops.len()
    }

    fn key(&self, op: usize) -> KeyId {
        self.history.heads()[self.ops[op] as usize].key()
    }

    fn access(&self, op: usize) -> Access<'_, Value> {
        let i = self.ops[op] as usize;
        let value = self.history.values()[i];
        match self.history.heads()[i].kind() {
            OpKind::Read if value == Value::UNKNOWN => Access::Unknown,
            OpKind::Read => match self.history.list(value) {
                Some(list) => Access::ReadList(list),
                None => Access::Read(value),
            },
            OpKind::Write => Access::Write(value),
            OpKind::Append => Access::Append(value),
        }
    }
}

/// What is known about a key while its events are gathered.
#[derive(Clone, Copy)]
struct Slot {
    /// Where its next event goes.
    next: u32,
    /// The last transaction that touched it, by its place and one.
    visitor: u32,
    /// What that transaction last read or wrote.
    last: u32,
    /// Where that transaction's version is, plus one.
    version: u32,
}

/// How often the budget is asked, in transactions.
const POLL: usize = 4096;

/// Finds what is wrong on a range of keys.
pub(crate) fn check_range(
    timeline: &Timeline<'_>,
    range: &KeyRange,
    checker: &mut Checker<'_>,
    limit: usize,
    budget: &Budget<'_>,
) -> Result<Findings, OutOfBudget> {
    let history = timeline.history;
    let (start, rooms) = (range.keys.start, range.start.split_last());
    let Some((&room, starts)) = rooms else { return Ok(Findings::default()) };
    let mut gathering = Gathering {
        history,
        first_key: start,
        events: vec![Event::NOTHING; room as usize],
        slots: starts.iter().map(|&next| Slot { next, visitor: 0, last: 0, version: 0 }).collect(),
        footprint: Footprint::default(),
        found: Findings::default(),
        limit,
    };
    let lists = history.has_lists();
    let mut ops: Vec<u32> = Vec::new();
    for (place, &t) in timeline.txn_of.iter().enumerate() {
        if place % POLL == 0 && budget.is_spent() {
            return Err(OutOfBudget);
        }
        if !timeline.counts[place] {
            continue;
        }
        let all = history.op_range(t);
        ops.resize(ops.len().max(all.len()), 0);
        let mut count = 0;
        // Half of them are of other ranges, unpredictably: count, don't branch.
        for (i, head) in (all.start as u32..).zip(&history.heads()[all.clone()]) {
            ops[count] = i;
            count += usize::from(head.key().0.wrapping_sub(start) < starts.len() as u32);
        }
        let mine = &ops[..count];
        match lists {
            true => gathering.any(place as u32, t, mine),
            false => gathering.registers(place as u32, t, mine),
        }
    }
    let Gathering { events, slots, mut found, .. } = gathering;
    for (i, (slot, &first)) in slots.iter().zip(starts).enumerate() {
        if i % POLL == 0 && budget.is_spent() {
            return Err(OutOfBudget);
        }
        checker.check(KeyId(start + i as u32), &events[first as usize..slot.next as usize], &mut found);
    }
    Ok(found)
}

struct Gathering<'a> {
    history: &'a History,
    first_key: u32,
    events: Vec<Event>,
    slots: Vec<Slot>,
    footprint: Footprint<KeyId>,
    found: Findings,
    limit: usize,
}

impl Gathering<'_> {
    /// The events of a transaction on registers; INT on the way.
    fn registers(&mut self, place: u32, t: TxnId, ops: &[u32]) {
        let values = self.history.values();
        for &op in ops {
            let (head, value) = (self.history.heads()[op as usize], values[op as usize]);
            let slot = &mut self.slots[(head.key().0 - self.first_key) as usize];
            if head.is_read() {
                if value == Value::UNKNOWN {
                    continue;
                }
                if slot.visitor == place + 1 {
                    if !repeats(values[slot.last as usize], value) {
                        self.found.add(internal(self.history, t, head.key(), op), self.limit);
                    }
                } else {
                    (slot.visitor, slot.version) = (place + 1, 0);
                    self.events[slot.next as usize] = Event { place, op, value };
                    slot.next += 1;
                }
            } else {
                let event = Event { place: place | MARK, op, value };
                if slot.visitor == place + 1 && slot.version > 0 {
                    self.events[slot.version as usize - 1] = event;
                } else {
                    self.events[slot.next as usize] = event;
                    slot.next += 1;
                    (slot.visitor, slot.version) = (place + 1, slot.next);
                }
            }
            slot.last = op;
        }
    }

    /// The events of any transaction.
    fn any(&mut self, place: u32, t: TxnId, ops: &[u32]) {
        let history = self.history;
        self.footprint.pass(&Part { history, ops });
        let (slots, events, first_key) = (&mut self.slots, &mut self.events, self.first_key);
        let mut put = |key: KeyId, event: Event| {
            let slot = &mut slots[(key.0 - first_key) as usize];
            events[slot.next as usize] = event;
            slot.next += 1;
        };
        for read in &self.footprint.reads {
            let op = ops[read.op as usize];
            put(read.key, Event { place, op, value: history.values()[op as usize] });
        }
        for written in &self.footprint.writes {
            put(written.key, Event::version(history, place, ops, written));
        }
        for broken in &self.footprint.internal {
            self.found.add(internal(history, t, broken.key, ops[broken.op as usize]), self.limit);
        }
    }
}

/// INT, broken by a read.
fn internal(history: &History, t: TxnId, key: KeyId, read: u32) -> Violation {
    let read = Some(read - history.op_range(t).start as u32);
    Violation { key: Some(key), read, ..Violation::of(Axiom::Int, t) }
}
