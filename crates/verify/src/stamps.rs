//! Violations by timestamps, looked up in the raw operations and stamps.
//!
//! The definitions again (Li et al., Definitions 4 to 6; `docs/timestamps.md`), for the one transaction,
//! pair or read that a witness names: who counts, who sees whom, and what the last visible version is.
//! Linear in the history for each kind of anomaly, but for the writers of one key. Where many appended to
//! one list at one and the same commit, or many transactions are of unknown outcome, the work is bounded;
//! beyond that a witness is refused as not verified.

mod open;
mod shuffle;

use crate::flaw::{Flaw, FlawKind};
use anomalist_history::{History, KeyId, Op, OpId, OpKind, Outcome, Stamps, TxnId, Value};
use anomalist_level::{Anomaly, AnomalyKind};
use rustc_hash::FxHashMap;
use shuffle::{Chain, is_shuffle};
use std::cell::OnceCell;

/// A history with timestamps.
pub(crate) struct Stamped<'a> {
    history: &'a History,
    stamps: &'a [Stamps],
    /// A snapshot does not contain what committed at its very timestamp.
    exclusive: bool,
    /// By key, the transactions that wrote it and did not abort.
    writers: FxHashMap<KeyId, Vec<TxnId>>,
    /// Who counts, under snapshot isolation and under serializability.
    counts: [OnceCell<Option<Vec<bool>>>; 2],
}

/// What is to be thought of a read of others' work.
#[derive(PartialEq, Eq, Debug)]
enum Reading {
    Right,
    /// Right by one of several versions.
    Tied,
    Wrong,
    /// A written value that was appended to.
    Undefined,
    /// Too many orders of equal commits.
    GaveUp,
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
        let mut writers: FxHashMap<KeyId, Vec<TxnId>> = FxHashMap::default();
        for t in history.txns().filter(|&t| history.outcome(t) != Outcome::Aborted) {
            for (_, op) in history.ops(t).filter(|(_, op)| op.kind != OpKind::Read) {
                let of_key = writers.entry(op.key).or_default();
                if of_key.last() != Some(&t) {
                    of_key.push(t);
                }
            }
        }
        let counts = [OnceCell::new(), OnceCell::new()];
        Some(Stamped { history, stamps: history.stamps()?, exclusive, writers, counts })
    }

    fn counts(&self, serial: bool) -> Option<&[bool]> {
        self.counts[usize::from(serial)].get_or_init(|| self.who_counts(serial)).as_deref()
    }

    fn writers(&self, key: KeyId) -> &[TxnId] {
        self.writers.get(&key).map_or(&[], Vec::as_slice)
    }

    /// Does the history have this anomaly, as its witness shows?
    pub fn check(&self, anomaly: &Anomaly) -> Result<(), Flaw> {
        let witness = &anomaly.witness;
        let flaw = |kind| {
            let flaw = Flaw::new(kind);
            flaw.txns(witness.transactions.iter().copied()).ops(witness.operations.iter().copied())
        };
        let known = |op: &OpId| op.index() < self.history.op_count();
        if !witness.operations.iter().all(known) {
            return Err(Flaw::new(FlawKind::NoSuchOperation));
        }
        let Some(&txn) = witness.transactions.last().filter(|t| t.index() < self.history.txn_count()) else {
            return Err(Flaw::new(FlawKind::NoSuchTransaction));
        };
        let modes: &[bool] = match anomaly.kind {
            AnomalyKind::SessionCommit | AnomalyKind::ExtCommit => &[true],
            AnomalyKind::IntStamp | AnomalyKind::TieStamp => &[false, true],
            _ => &[false],
        };
        let operation = witness.operations.first().copied();
        let mut refused = FlawKind::NotThisAnomaly;
        for &serial in modes {
            match self.shows(anomaly.kind, txn, operation, serial) {
                Some(true) => return Ok(()),
                Some(false) => {}
                None => refused = FlawKind::NotVerified,
            }
        }
        Err(flaw(refused))
    }

    /// Whether this is so; `None` if finding out is too much work.
    fn shows(&self, kind: AnomalyKind, txn: TxnId, first: Option<OpId>, serial: bool) -> Option<bool> {
        let counts = self.counts(serial)?;
        if !counts[txn.index()] {
            return Some(false);
        }
        let first = first.map(|op| (self.history.txn_of(op), op));
        let reading = |read: OpId| match self.reading(txn, read.index(), serial, counts) {
            Some(Reading::GaveUp) => None,
            reading => Some(reading),
        };
        Some(match (kind, first) {
            (AnomalyKind::TimestampOrder, _) => {
                self.history.snapshot(txn).is_none() && self.at(txn).start > self.at(txn).commit
            }
            (AnomalyKind::SessionStamp | AnomalyKind::SessionCommit, _) => {
                self.breaks_session(txn, serial, counts)
            }
            (AnomalyKind::IntStamp, Some((reader, read))) => {
                reader == txn && self.within(reader, read.index()) == Some(Err(false))
            }
            (AnomalyKind::ExtStamp | AnomalyKind::ExtCommit, Some((reader, read))) => {
                // Wrong regardless of which others committed, or right only where something else is wrong.
                reader == txn
                    && reading(read)? == Some(Reading::Wrong)
                    && (self.one_of(txn, read, serial, counts).is_empty()
                        || self.every_choice_breaks(counts, serial)?)
            }
            (AnomalyKind::TieStamp, Some((reader, read))) => {
                reader == txn && reading(read)? == Some(Reading::Tied)
            }
            (AnomalyKind::NoConflictStamp, Some((other, write))) => {
                let wrote = |t| self.deed(t, self.history.op(write).key).is_some();
                let apart = other != txn && counts[other.index()] && wrote(other) && wrote(txn);
                apart && !self.sees(txn, other) && !self.sees(other, txn)
            }
            _ => false,
        })
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

    /// Whether a snapshot contains another transaction. Of equal timestamps in one session the session
    /// decides: what it issued after the viewer is not seen.
    fn sees(&self, viewer: TxnId, other: TxnId) -> bool {
        match (self.history.snapshot(viewer), self.history.snapshot_id(other)) {
            (Some(set), Some(id)) => id < set.xmin || id < set.xmax && !set.running.contains(&id),
            _ if self.exclusive => self.at(other).commit < self.at(viewer).start,
            _ => {
                let (commit, start) = (self.at(other).commit, self.at(viewer).start);
                commit < start || commit == start && !self.history.issued_before(viewer, other)
            }
        }
    }

    fn breaks_session(&self, t: TxnId, serial: bool, counts: &[bool]) -> bool {
        let session = self.history.issued(self.history.issuer(t));
        let mut before: Vec<TxnId> = session.take_while(|&o| o != t).filter(|o| counts[o.index()]).collect();
        if let Some(numbers) = self.history.numbers() {
            let expected = before.last().map(|o| u128::from(numbers[o.index()]) + 1);
            let number = u128::from(numbers[t.index()]);
            if expected.map_or(number > 1, |expected| number != expected) {
                return true;
            }
        }
        if !serial && self.history.snapshot(t).is_some() {
            before.retain(|&o| !self.is_read_only(o));
            return before.last().is_some_and(|&writer| !self.sees(t, writer));
        }
        let from = if serial { self.at(t).commit } else { self.at(t).start };
        before.last().is_some_and(|&o| from < self.at(o).commit)
    }

    /// What a read shows of others' work, or else whether it is what its own transaction had read and
    /// written before.
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

    /// A list as its elements, without the reader's own; any other value as itself.
    fn shown(&self, t: TxnId, op: usize) -> Option<Result<Vec<Value>, Value>> {
        let shown = self.within(t, op)?.ok()?;
        let read = self.history.op(OpId(op as u32));
        Some(match self.history.list(read.value) {
            Some(list) if shown == [read.value] => Ok(list.to_vec()),
            Some(_) => Ok(shown),
            None => Err(read.value),
        })
    }

    fn initial_list(&self, key: KeyId) -> &[Value] {
        self.history.initial().of(key).and_then(|value| self.history.list(value)).unwrap_or_default()
    }

    /// The writers of a key that a transaction sees, and those that it may or may not see, by commit and in
    /// the order of sessions.
    fn seen_by(&self, t: TxnId, key: KeyId, serial: bool, counts: &[bool]) -> (Vec<TxnId>, Vec<TxnId>) {
        let mut all: Vec<TxnId> =
            self.writers(key).iter().copied().filter(|&w| w != t && counts[w.index()]).collect();
        all.sort_by_key(|&w| (self.at(w).commit, self.history.issue(w)));
        if !serial {
            all.retain(|&w| self.sees(t, w));
            return (all, Vec::new());
        }
        all.retain(|&w| self.at(w).commit <= self.at(t).commit);
        let (before, mut same): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|&w| self.at(w).commit < self.at(t).commit);
        let own = |w: &TxnId| self.history.issuer(*w) == self.history.issuer(t);
        // Its own session goes on after it.
        same.retain(|&w| !self.history.issued_before(t, w));
        let (own, others): (Vec<_>, Vec<_>) = same.into_iter().partition(own);
        ([before, own].concat(), others)
    }

    /// Those that may come last among transactions by commit: of each session the last with the last commit.
    fn last_of(&self, txns: &[TxnId]) -> Vec<TxnId> {
        let Some(&last) = txns.last() else { return Vec::new() };
        let tied = txns.iter().copied().filter(|&w| self.at(w).commit == self.at(last).commit);
        let later = |w: TxnId| tied.clone().any(|o| self.history.issued_before(w, o));
        tied.clone().filter(|&w| !later(w)).collect()
    }

    /// Compares an external read with the last version of its key among those visible.
    fn reading(&self, t: TxnId, op: usize, serial: bool, counts: &[bool]) -> Option<Reading> {
        let history = self.history;
        let seen = self.shown(t, op)?;
        let key = history.op(OpId(op as u32)).key;
        let (sure, perhaps) = self.seen_by(t, key, serial, counts);
        let initial = history.initial().of(key);
        let is_initial = || match initial.map(|value| (value, history.list(value))) {
            Some((_, Some(list))) => is_list(&seen, list),
            Some((value, None)) => seen == Err(value) || seen == Ok(Vec::new()),
            None => seen == Ok(Vec::new()),
        };
        let last = [self.last_of(&sure), perhaps.clone()].concat();
        let tied = last.len() + usize::from(sure.is_empty()) > 1;
        let deeds =
            |txns: &[TxnId]| -> Vec<Deed> { txns.iter().filter_map(|&w| self.deed(w, key)).collect() };
        let all = deeds(&[&sure[..], &perhaps].concat());
        let holds = if all.iter().all(|deed| matches!(deed, Deed::Append(_))) {
            match &seen {
                _ if sure.is_empty() && is_initial() => true,
                Ok(list) => match self.is_list_of(key, list, &sure, &perhaps) {
                    Some(holds) => holds,
                    None => return Some(Reading::GaveUp),
                },
                Err(_) => false,
            }
        } else {
            let is = |value: Value| match history.list(value) {
                Some(list) => is_list(&seen, list),
                None => seen == Err(value),
            };
            let last = deeds(&last);
            if last.iter().any(|deed| !matches!(deed, Deed::Write(_))) {
                return Some(Reading::Undefined);
            }
            sure.is_empty() && is_initial()
                || last.iter().any(|deed| matches!(deed, Deed::Write(value) if is(*value)))
        };
        Some(match holds {
            true if tied => Reading::Tied,
            true => Reading::Right,
            false => Reading::Wrong,
        })
    }

    /// Whether a list is what these appended, and perhaps those.
    fn is_list_of(&self, key: KeyId, list: &[Value], sure: &[TxnId], perhaps: &[TxnId]) -> Option<bool> {
        let Some(list) = list.strip_prefix(self.initial_list(key)) else { return Some(false) };
        let all: Vec<(TxnId, bool, Vec<Value>)> = sure
            .iter()
            .map(|&w| (w, true))
            .chain(perhaps.iter().map(|&w| (w, false)))
            .filter_map(|(w, required)| match self.deed(w, key)? {
                Deed::Append(block) => Some((w, required, block)),
                _ => None,
            })
            .collect();
        let commit = |w: TxnId| self.at(w).commit;
        let mut groups: Vec<Vec<Chain<'_>>> = Vec::new();
        for group in all.chunk_by(|a, b| commit(a.0) == commit(b.0)) {
            let mut chains: FxHashMap<anomalist_history::SessionId, Chain<'_>> = FxHashMap::default();
            for (w, required, block) in group {
                let chain = chains.entry(self.history.issuer(*w)).or_default();
                chain.required += usize::from(*required);
                chain.blocks.push(block);
            }
            groups.push(chains.into_values().collect());
        }
        is_shuffle(&groups, list)
    }
}

/// Whether a value is this list; nil is the empty one.
fn is_list(seen: &Result<Vec<Value>, Value>, list: &[Value]) -> bool {
    match seen {
        Ok(seen) => seen == list,
        Err(value) => *value == Value::NIL && list.is_empty(),
    }
}
