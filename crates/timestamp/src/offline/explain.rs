//! What a read that broke EXT returned instead of what it should have.
//!
//! One scan of all writes, keeping those whose key and value some listed read returned.

use super::timeline::Timeline;
use crate::{Axiom, Class, Sight, Violation};
use anomalist_history::{KeyId, OpId, OpKind, TxnId, Value};
use rustc_hash::FxHashMap;

type Writers = FxHashMap<(KeyId, Value), Vec<OpId>>;

/// Fills in class and source of the EXT violations.
pub(crate) fn classify(timeline: &Timeline<'_>, listed: &mut [Violation]) {
    let history = timeline.history;
    let read_of = |v: &Violation| {
        let key = v.key.filter(|_| v.axiom == Axiom::Ext)?;
        Some((key, OpId(history.op_range(v.txn).start as u32 + v.read?)))
    };
    let mut writers: Writers = FxHashMap::default();
    let mut keys = vec![false; history.key_count()];
    for (key, read) in listed.iter().filter_map(read_of) {
        keys[key.index()] = true;
        let one = [history.values()[read.index()]];
        for &value in history.list(one[0]).unwrap_or(&one) {
            writers.entry((key, value)).or_default();
        }
    }
    if writers.is_empty() {
        return;
    }
    for (i, (head, &value)) in history.heads().iter().zip(history.values()).enumerate() {
        if keys[head.key().index()]
            && !head.is_read()
            && let Some(found) = writers.get_mut(&(head.key(), value))
        {
            found.push(OpId(i as u32));
        }
    }
    let scene = Scene { timeline, writers };
    for violation in listed {
        let Some((key, read)) = read_of(violation) else { continue };
        let value = history.values()[read.index()];
        let (class, source) = match history.list(value) {
            Some(elements) => scene.list(violation, key, read, elements),
            None => {
                let (class, source) = scene.value(violation.txn, key, value);
                (Some(class), source)
            }
        };
        violation.class = class;
        violation.source = source;
    }
}

struct Scene<'a> {
    timeline: &'a Timeline<'a>,
    writers: Writers,
}

impl Scene<'_> {
    fn writers(&self, key: KeyId, value: Value) -> impl Iterator<Item = (OpId, TxnId)> + '_ {
        let ops = self.writers.get(&(key, value)).map_or(&[][..], Vec::as_slice);
        ops.iter().map(|&op| (op, self.timeline.history.txn_of(op)))
    }

    /// Where a reader stands to a version that it should not have read.
    fn distance(&self, reader: TxnId, writer: TxnId) -> Class {
        let (Some(at), Some(written)) = (self.timeline.place(reader), self.timeline.place(writer)) else {
            return Class::Future;
        };
        match self.timeline.sight(at, written) {
            Sight::Seen => Class::Stale,
            Sight::Perhaps if written < at => Class::Stale,
            Sight::Unseen if written < at && !self.timeline.is_later_tie(at, written) => Class::Overlapping,
            Sight::Perhaps | Sight::Unseen => Class::Future,
        }
    }

    fn value(&self, reader: TxnId, key: KeyId, value: Value) -> (Class, Option<TxnId>) {
        let history = self.timeline.history;
        let others = || self.writers(key, value).filter(|&(_, t)| t != reader && self.timeline.counted(t));
        let is_final = |op: OpId, t: TxnId| {
            let later = &history.heads()[op.index() + 1..history.op_range(t).end];
            !later.iter().any(|h| !h.is_read() && h.key() == key)
        };
        // The kindest explanation: a version that was seen too late, then one seen too early.
        let versions = others().filter(|&(op, t)| is_final(op, t));
        if let Some((class, t)) = versions.map(|(_, t)| (self.distance(reader, t), t)).min() {
            return (class, Some(t));
        }
        if history.initial().of(key) == Some(value) {
            return (Class::Stale, None);
        }
        if self.writers(key, value).any(|(_, t)| t == reader) {
            return (Class::Own, Some(reader));
        }
        if let Some((_, t)) = others().next() {
            return (Class::Intermediate, Some(t));
        }
        match self.writers(key, value).next() {
            Some((_, t)) => (Class::Aborted, Some(t)),
            None => (Class::NeverWritten, None),
        }
    }

    fn list(
        &self,
        violation: &Violation,
        key: KeyId,
        read: OpId,
        elements: &[Value],
    ) -> (Option<Class>, Option<TxnId>) {
        let (history, reader) = (self.timeline.history, violation.txn);
        for &element in elements {
            if self.writers(key, element).next().is_none() && !self.is_initial(key, element) {
                return (Some(Class::NeverWritten), None);
            }
            if let Some((_, t)) = self.writers(key, element).next()
                && !self.writers(key, element).any(|(_, t)| self.timeline.counted(t))
            {
                return (Some(Class::Aborted), Some(t));
            }
        }
        let appended_later = |i: usize| {
            let head = history.heads()[i];
            head.kind() == OpKind::Append && head.key() == key && elements.contains(&history.values()[i])
        };
        if (read.index()..history.op_range(reader).end).any(appended_later) {
            return (Some(Class::Own), Some(reader));
        }
        let foreign = elements.iter().rev().find_map(|&element| {
            self.writers(key, element).map(|(_, t)| t).find(|&t| t != reader && self.timeline.counted(t))
        });
        match (violation.class, foreign) {
            (Some(Class::Future), Some(t)) => (Some(self.distance(reader, t)), foreign),
            (class, _) => (class.or(Some(Class::Stale)), foreign),
        }
    }

    fn is_initial(&self, key: KeyId, element: Value) -> bool {
        let history = self.timeline.history;
        history.initial().of(key).and_then(|v| history.list(v)).is_some_and(|list| list.contains(&element))
    }
}
