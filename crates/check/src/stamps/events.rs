//! From transactions to keys: external reads and final writes, in order of commit, for one range of keys.
//!
//! A range has room for every operation on its keys; transactions are visited in order of their places, so each key's events
//! come out in that order, a transaction's read before its write. Sixteen bytes per event.

use super::Findings;
use super::key::Checker;
use super::timeline::Timeline;
use crate::budget::{Budget, OutOfBudget};
use isolde_history::{History, KeyId, OpId, OpKind, Value};
use isolde_timestamp::{Access, Axiom, Effect, Footprint, Operations, Violation};
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
struct Part<'a> {
    history: &'a History,
    ops: &'a [u32],
}

impl Operations for Part<'_> {
    type Key = KeyId;
    type Value = Value;

    #[inline]
    fn len(&self) -> usize {
        self.ops.len()
    }

    #[inline]
    fn key(&self, op: usize) -> KeyId {
        self.history.heads()[self.ops[op] as usize].key()
    }

    #[inline]
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

    fn is_nil(&self, value: Value) -> bool {
        value == Value::NIL
    }
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
    let mut found = Findings::default();
    let history = timeline.history;
    let keys = range.keys.clone();
    let room = range.start.last().copied().unwrap_or(0) as usize;
    let mut events = vec![Event::NOTHING; room];
    let mut next: Vec<u32> = range.start[..range.start.len() - 1].to_vec();
    let mut footprint = Footprint::default();
    let mut ops: Vec<u32> = Vec::new();
    for (place, &t) in timeline.txn_of.iter().enumerate() {
        if place % POLL == 0 && budget.is_spent() {
            return Err(OutOfBudget);
        }
        ops.clear();
        let all = history.op_range(t);
        let first = all.start as u32;
        let heads = &history.heads()[all];
        ops.extend((first..).zip(heads).filter(|(_, h)| keys.contains(&h.key().0)).map(|(i, _)| i));
        if ops.is_empty() {
            continue;
        }
        footprint.pass(&Part { history, ops: &ops });
        let mut put = |key: KeyId, event: Event| {
            let slot = &mut next[(key.0 - keys.start) as usize];
            events[*slot as usize] = event;
            *slot += 1;
        };
        let place = place as u32;
        for read in &footprint.reads {
            let op = ops[read.op as usize];
            put(read.key, Event { place, op, value: history.values()[op as usize] });
        }
        for written in &footprint.writes {
            let (op, mark) = match written.effect {
                Effect::Write(op) => (op, 0),
                Effect::Append(first, _) => (first, MARK),
                Effect::Undefined => (u32::MAX, MARK),
            };
            let op = ops.get(op as usize).copied().unwrap_or(!MARK);
            let value = history.values().get(op as usize).copied().unwrap_or(Value::NIL);
            put(written.key, Event { place: place | MARK, op: op | mark, value });
        }
        for internal in &footprint.internal {
            let read = Some(ops[internal.op as usize] - first);
            found.add(Violation { key: Some(internal.key), read, ..Violation::of(Axiom::Int, t) }, limit);
        }
    }
    for (i, key) in keys.map(KeyId).enumerate() {
        if i % POLL == 0 && budget.is_spent() {
            return Err(OutOfBudget);
        }
        checker.check(key, &events[range.start[i] as usize..next[i] as usize], &mut found);
    }
    Ok(found)
}
