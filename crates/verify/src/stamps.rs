//! Violations by timestamps, looked up in the raw operations and stamps.
//!
//! The definitions again (Li et al., Definitions 4 to 6; `docs/timestamps.md`), for the one transaction, pair or read that a witness
//! names: who counts, who sees whom, and what the last visible version is. Linear in the history for each kind of anomaly, but
//! for the sorting of one key's writers; and exponential in the number of appenders to one list at one and the same commit,
//! beyond sixteen of which the checker is believed.

use crate::flaw::{Flaw, FlawKind};
use anomalist_history::{History, KeyId, Op, OpKind, Outcome, Stamps, TxnId, Value};
use anomalist_level::{Anomaly, AnomalyKind};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Ordering;

/// A history with timestamps.
pub(crate) struct Stamped<'a> {
    history: &'a History,
    stamps: &'a [Stamps],
    /// A snapshot does not contain what committed at its very timestamp.
    exclusive: bool,
    counts: Vec<bool>,
}

/// What is to be thought of a read of others' work.
#[derive(PartialEq, Eq)]
enum Reading {
    Right,
    /// Right by one of several versions.
    Tied,
    Wrong,
    /// A written value that was appended to.
    Undefined,
}

/// What a transaction leaves in a key.
enum Deed {
    Write(Value),
    Append(Vec<Value>),
    Both,
}

impl<'a> Stamped<'a> {
    /// `None` if the history has no timestamps.
    pub fn new(history: &'a History, exclusive: bool) -> Option<Stamped<'a>> {
        Some(Stamped { history, stamps: history.stamps()?, exclusive, counts: counts(history) })
    }

    /// Does the history have this anomaly, as its witness shows?
    pub fn check(&self, anomaly: &Anomaly) -> Result<(), Flaw> {
        let witness = &anomaly.witness;
        let flaw = || {
            let flaw = Flaw::new(FlawKind::NotThisAnomaly);
            flaw.txns(witness.transactions.iter().copied()).ops(witness.operations.iter().copied())
        };
        let known = |op: &anomalist_history::OpId| op.index() < self.history.op_count();
        if !witness.operations.iter().all(known) {
            return Err(Flaw::new(FlawKind::NoSuchOperation));
        }
        let Some(&txn) = witness.transactions.last().filter(|t| t.index() < self.history.txn_count()) else {
            return Err(Flaw::new(FlawKind::NoSuchTransaction));
        };
        let read = witness.operations.first().map(|&op| (self.history.txn_of(op), op));
        let shown = self.counts[txn.index()]
            && match (anomaly.kind, read) {
                (AnomalyKind::TimestampOrder, _) => {
                    self.history.snapshot(txn).is_none() && self.at(txn).start > self.at(txn).commit
                }
                (AnomalyKind::SessionStamp, _) => self.breaks_session(txn, false),
                (AnomalyKind::SessionCommit, _) => self.breaks_session(txn, true),
                (AnomalyKind::IntStamp, Some((reader, read))) => {
                    reader == txn && self.within(reader, read.index()) == Some(Err(false))
                }
                (AnomalyKind::ExtStamp, Some((reader, read))) => {
                    reader == txn && self.reading(reader, read.index(), false) == Some(Reading::Wrong)
                }
                (AnomalyKind::ExtCommit, Some((reader, read))) => {
                    reader == txn && self.reading(reader, read.index(), true) == Some(Reading::Wrong)
                }
                (AnomalyKind::TieStamp, Some((reader, read))) => {
                    reader == txn && self.reading(reader, read.index(), false) == Some(Reading::Tied)
                }
                (AnomalyKind::NoConflictStamp, Some((other, write))) => {
                    let wrote = |t| self.deed(t, self.history.op(write).key).is_some();
                    let apart = other != txn && self.counts[other.index()] && wrote(other) && wrote(txn);
                    apart && !self.sees(txn, other) && !self.sees(other, txn)
                }
                _ => false,
            };
        if shown { Ok(()) } else { Err(flaw()) }
    }

    fn at(&self, t: TxnId) -> Stamps {
        self.stamps[t.index()]
    }

    fn ops(&self, t: TxnId) -> Vec<Op> {
        self.history.ops(t).map(|(_, op)| op).collect()
    }

    fn is_read_only(&self, t: TxnId) -> bool {
        self.ops(t).iter().all(|op| op.kind == OpKind::Read)
    }

    /// The order of commits.
    fn order(&self, a: TxnId, b: TxnId) -> Ordering {
        let name = |t| self.history.show(self.history.session_label(self.history.session_of(t))).to_string();
        let rest = |t: TxnId| (self.is_read_only(t), self.at(t).start, name(t), t);
        self.at(a).commit.cmp(&self.at(b).commit).then_with(|| rest(a).cmp(&rest(b)))
    }

    /// Whether a snapshot contains another transaction.
    fn sees(&self, viewer: TxnId, other: TxnId) -> bool {
        match (self.history.snapshot(viewer), self.history.snapshot_id(other)) {
            (Some(set), Some(id)) => id < set.xmin || id < set.xmax && !set.running.contains(&id),
            _ if self.exclusive => self.at(other).commit < self.at(viewer).start,
            _ => self.at(other).commit <= self.at(viewer).start,
        }
    }

    fn breaks_session(&self, t: TxnId, serial: bool) -> bool {
        let session = self.history.session_txns(self.history.session_of(t));
        let mut before: Vec<TxnId> = session.filter(|&o| o < t && self.counts[o.index()]).collect();
        if !serial && self.history.snapshot(t).is_some() {
            before.retain(|&o| !self.is_read_only(o));
            return before.last().is_some_and(|&writer| !self.sees(t, writer));
        }
        let from = if serial { self.at(t).commit } else { self.at(t).start };
        before.last().is_some_and(|&o| from < self.at(o).commit)
    }

    /// What a read shows of others' work, or else whether it is what its own transaction had read and written before.
    fn within(&self, t: TxnId, op: usize) -> Option<Result<Vec<Value>, bool>> {
        let all = self.ops(t);
        let n = op - self.history.op_range(t).start;
        let read = *all.get(n)?;
        if read.kind != OpKind::Read || read.value == Value::UNKNOWN {
            return None;
        }
        let unknown = |o: &&Op| o.kind == OpKind::Read && o.value == Value::UNKNOWN;
        let before: Vec<&Op> =
            all[..n].iter().filter(|o| o.key == read.key).filter(|o| !unknown(o)).collect();
        let base = before.iter().rposition(|o| o.kind != OpKind::Append);
        let own: Vec<Value> = before[base.map_or(0, |b| b + 1)..].iter().map(|o| o.value).collect();
        let list = self.history.list(read.value);
        let Some(base) = base else {
            return Some(match (own.is_empty(), list) {
                (true, _) => Ok(vec![read.value]),
                (false, Some(list)) if list.ends_with(&own) => Ok(list[..list.len() - own.len()].to_vec()),
                _ => Err(false),
            });
        };
        let base = before[base].value;
        Some(Err(match self.history.list(base) {
            None if base != Value::NIL => !own.is_empty() || read.value == base,
            start => {
                let whole = [start.unwrap_or_default(), &own].concat();
                list.unwrap_or_default() == whole && (list.is_some() || read.value == Value::NIL)
            }
        }))
    }

    fn deed(&self, t: TxnId, key: KeyId) -> Option<Deed> {
        let ops = self.ops(t);
        let deeds: Vec<&Op> = ops.iter().filter(|op| op.kind != OpKind::Read && op.key == key).collect();
        let last = deeds.last()?;
        Some(match last.kind {
            OpKind::Write => Deed::Write(last.value),
            _ if deeds.iter().all(|op| op.kind == OpKind::Append) => {
                Deed::Append(deeds.iter().map(|op| op.value).collect())
            }
            _ => Deed::Both,
        })
    }

    /// Compares an external read with the last version of its key among those visible.
    fn reading(&self, t: TxnId, op: usize, serial: bool) -> Option<Reading> {
        let history = self.history;
        let shown = self.within(t, op)?.ok()?;
        let read = history.op(anomalist_history::OpId(op as u32));
        // A list as its elements; any other value as itself.
        let seen: Result<Vec<Value>, Value> = match history.list(read.value) {
            Some(list) if shown == [read.value] => Ok(list.to_vec()),
            Some(_) => Ok(shown),
            None => Err(read.value),
        };
        let visible = |w: TxnId| match serial {
            true => self.order(w, t) == Ordering::Less,
            false => self.sees(t, w),
        };
        let counting = history.txns().filter(|&w| w != t && self.counts[w.index()]);
        let writes = |w: &TxnId| {
            history.heads()[history.op_range(*w)].iter().any(|head| !head.is_read() && head.key() == read.key)
        };
        let mut versions: Vec<(TxnId, Deed)> = counting
            .filter(writes)
            .filter(|&w| visible(w))
            .filter_map(|w| Some((w, self.deed(w, read.key)?)))
            .collect();
        versions.sort_by(|a, b| self.order(a.0, b.0));
        let initial = history.initial().of(read.key);
        let right = |right| Some(if right { Reading::Right } else { Reading::Wrong });
        let Some(&(last, _)) = versions.last() else {
            return right(match initial.map(|value| (value, history.list(value))) {
                Some((_, Some(list))) => is_list(&seen, list),
                Some((value, None)) => seen == Err(value) || seen == Ok(Vec::new()),
                None => seen == Ok(Vec::new()),
            });
        };
        let same = |a: TxnId, b: TxnId| if serial { a == b } else { self.at(a).commit == self.at(b).commit };
        let group: Vec<&Deed> =
            versions.iter().filter(|(w, _)| same(*w, last)).map(|(_, deed)| deed).collect();
        let tied = group.len() > 1;
        let holds = if versions.iter().all(|(_, deed)| matches!(deed, Deed::Append(_))) {
            let start = initial.and_then(|value| history.list(value)).unwrap_or_default();
            let groups: Vec<Vec<&[Value]>> = versions
                .chunk_by(|a, b| same(a.0, b.0))
                .map(|group| {
                    let blocks = group.iter().filter_map(|(_, deed)| match deed {
                        Deed::Append(block) => Some(&block[..]),
                        _ => None,
                    });
                    blocks.collect()
                })
                .collect();
            match &seen {
                Ok(list) => list.strip_prefix(start).is_some_and(|rest| is_concatenation(&groups, rest)),
                Err(_) => false,
            }
        } else if group.iter().all(|deed| matches!(deed, Deed::Write(_))) {
            let is = |value: Value| match history.list(value) {
                Some(list) => is_list(&seen, list),
                None => seen == Err(value),
            };
            group.iter().any(|deed| matches!(deed, Deed::Write(value) if is(*value)))
        } else {
            return Some(Reading::Undefined);
        };
        if holds && tied { Some(Reading::Tied) } else { right(holds) }
    }
}

/// Whether a value is this list; nil is the empty one.
fn is_list(seen: &Result<Vec<Value>, Value>, list: &[Value]) -> bool {
    match seen {
        Ok(seen) => seen == list,
        Err(value) => *value == Value::NIL && list.is_empty(),
    }
}

/// Whether a list is the blocks of one group after the other, each group in some order.
fn is_concatenation(groups: &[Vec<&[Value]>], mut list: &[Value]) -> bool {
    for group in groups {
        let length: usize = group.iter().map(|block| block.len()).sum();
        let Some((mut segment, rest)) = list.split_at_checked(length) else { return false };
        list = rest;
        if let [block] = group[..] {
            segment = segment.strip_prefix(block).unwrap_or(&[Value::UNKNOWN]);
            if !segment.is_empty() {
                return false;
            }
            continue;
        }
        if group.len() > 16 {
            return false;
        }
        // Which blocks can be the first ones, as sets: a set says how far they reach.
        let mut reached = FxHashSet::from_iter([0_u32]);
        for _ in group {
            let mut further = FxHashSet::default();
            for &used in &reached {
                let taken = (0..group.len()).filter(|i| used >> i & 1 == 1);
                let from: usize = taken.map(|i| group[i].len()).sum();
                let fits = |i: &usize| used >> i & 1 == 0 && segment[from..].starts_with(group[*i]);
                further.extend((0..group.len()).filter(fits).map(|i| used | 1 << i));
            }
            reached = further;
        }
        if reached.is_empty() {
            return false;
        }
    }
    list.is_empty()
}

/// Committed transactions; and those of unknown outcome of which one of these read a value that it did not write, no committed
/// one wrote, and the key did not begin with.
fn counts(history: &History) -> Vec<bool> {
    let mut counts: Vec<bool> = history.txns().map(|t| history.outcome(t) == Outcome::Committed).collect();
    let mut open: FxHashMap<(KeyId, Value), Vec<TxnId>> = FxHashMap::default();
    for t in history.txns().filter(|&t| history.outcome(t) == Outcome::Indeterminate) {
        for (_, op) in history.ops(t).filter(|(_, op)| op.kind != OpKind::Read) {
            if history.initial().of(op.key) != Some(op.value) {
                open.entry((op.key, op.value)).or_default().push(t);
            }
        }
    }
    if open.is_empty() {
        return counts;
    }
    for t in history.txns().filter(|&t| history.outcome(t) == Outcome::Committed) {
        for (_, op) in history.ops(t).filter(|(_, op)| op.kind != OpKind::Read) {
            open.remove(&(op.key, op.value));
        }
    }
    let mut work: Vec<TxnId> = history.txns().filter(|t| counts[t.index()]).collect();
    while let Some(t) = work.pop() {
        for (_, op) in history.ops(t).filter(|(_, op)| op.kind == OpKind::Read) {
            let one = [op.value];
            for value in history.list(op.value).unwrap_or(&one) {
                let writers = open.get(&(op.key, *value)).filter(|writers| !writers.contains(&t));
                for &writer in writers.into_iter().flatten() {
                    if !std::mem::replace(&mut counts[writer.index()], true) {
                        work.push(writer);
                    }
                }
            }
        }
    }
    counts
}
