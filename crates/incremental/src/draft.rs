//! A transaction taken apart: what it read from others, what it wrote, and the reads that its own writes
//! forbid.
//!
//! A read after own writes of the key must return the last of them; a list must end with all of them, and
//! what is before them it read from others (Plume's TAP-c to TAP-e; the rules of the index in
//! `anomalist-history`).

use crate::fact::Node;
use anomalist_history::{FaultKind, Interval, KeyId, OpKind, Value};
use rustc_hash::FxHashMap;

/// An operation. A read of a list has its elements.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'a> {
    /// What it does.
    pub kind: OpKind,
    /// The key.
    pub key: KeyId,
    /// The value read or written, or the element appended.
    pub value: Value,
    /// The elements of a list that was read.
    pub elements: Option<&'a [Value]>,
}

/// What a read returned.
#[derive(Debug)]
pub(crate) enum Seen {
    Value(Value),
    /// The elements that others appended.
    Elements(Vec<Value>),
}

/// A read from others.
#[derive(Debug)]
pub(crate) struct DraftRead {
    pub key: KeyId,
    pub seen: Seen,
    /// The last transaction before it in its session that wrote the key.
    pub own: Option<Node>,
}

/// A transaction that counts, or may yet.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub step: u32,
    /// The transaction before it in its session.
    pub before: Option<Node>,
    pub session: Option<u32>,
    pub interval: Option<Interval>,
    pub reads: Vec<DraftRead>,
    pub writes: Vec<(KeyId, Value)>,
    pub faults: Vec<(FaultKind, KeyId)>,
    /// Its number among those that are held.
    pub held: Option<u32>,
}

impl Draft {
    /// Takes operations apart.
    pub fn new(step: u32, ops: &[Operation<'_>], own: impl Fn(KeyId) -> Option<Node>) -> Draft {
        let mut draft = Draft { step, ..Draft::default() };
        let mut mine: FxHashMap<KeyId, Vec<Value>> = FxHashMap::default();
        for op in ops {
            let written = mine.get(&op.key).map_or(&[][..], Vec::as_slice);
            match (op.kind, op.elements) {
                (OpKind::Write | OpKind::Append, _) => {
                    draft.writes.push((op.key, op.value));
                    mine.entry(op.key).or_default().push(op.value);
                }
                (OpKind::Read, _) if op.value == Value::UNKNOWN => {}
                (OpKind::Read, None) => match written.last() {
                    Some(&last) if last == op.value => {}
                    Some(_) => draft.faults.push((fault(written.contains(&op.value)), op.key)),
                    None => draft.read(op.key, Seen::Value(op.value), own(op.key)),
                },
                (OpKind::Read, Some(elements)) => match elements.strip_suffix(written) {
                    Some(others) => draft.read(op.key, Seen::Elements(others.to_vec()), own(op.key)),
                    None => {
                        let older = elements.last().is_some_and(|e| written.contains(e));
                        draft.faults.push((fault(older), op.key));
                    }
                },
            }
        }
        draft
    }

    fn read(&mut self, key: KeyId, seen: Seen, own: Option<Node>) {
        self.reads.push(DraftRead { key, seen, own });
    }
}

fn fault(older: bool) -> FaultKind {
    if older { FaultKind::NotMyLastWrite } else { FaultKind::NotMyOwnWrite }
}
