//! Which transactions of unknown outcome must have committed.
//!
//! Without them, some reads of transactions that count are wrong. One that only a single transaction can
//! make right shows that this one committed, or is wrong anyway. What can make a read right is tried: a
//! written value alone; of appends to a list, those of elements that are missing. All such transactions
//! count, and the question is asked again.

use super::{Deed, Reading, Stamped};
use anomalist_history::{KeyId, OpId, OpKind, Outcome, TxnId, Value};
use rustc_hash::{FxHashMap, FxHashSet};

/// Writers of a key looked at in all.
const WORK: usize = 30_000_000;

impl Stamped<'_> {
    /// Who counts; `None` if that is too much work.
    pub(super) fn who_counts(&self, serial: bool) -> Option<Vec<bool>> {
        let committed = |t: TxnId| self.history.outcome(t) == Outcome::Committed;
        let mut work = WORK;
        self.follow(self.history.txns().map(committed).collect(), serial, &mut work)
    }

    /// Who counts if these do.
    fn follow(&self, mut counts: Vec<bool>, serial: bool, work: &mut usize) -> Option<Vec<bool>> {
        let history = self.history;
        let is = |outcome| move |t: &TxnId| history.outcome(*t) == outcome;
        loop {
            let wrote =
                |t: TxnId| history.ops(t).filter(|(_, op)| op.kind != OpKind::Read).map(|(_, op)| op.key);
            let open = history.txns().filter(is(Outcome::Indeterminate)).filter(|t| !counts[t.index()]);
            let keys: FxHashSet<KeyId> = open.flat_map(wrote).collect();
            if keys.is_empty() {
                return Some(counts);
            }
            let mut sure: Vec<TxnId> = Vec::new();
            for t in history.txns().filter(|t| counts[t.index()]) {
                let reads =
                    history.ops(t).filter(|(_, op)| op.kind == OpKind::Read && keys.contains(&op.key));
                for (read, op) in reads {
                    *work = work.checked_sub(1 + self.writers(op.key).len())?;
                    if self.reading(t, read.index(), serial, &counts) == Some(Reading::Wrong) {
                        let one_of = self.one_of(t, read, serial, &counts);
                        *work = work.checked_sub(self.writers(op.key).len() * self.writers(op.key).len())?;
                        if let [one] = one_of[..] {
                            sure.push(one);
                        }
                    }
                }
            }
            if sure.is_empty() {
                return Some(counts);
            }
            sure.into_iter().for_each(|t| counts[t.index()] = true);
        }
    }

    /// Whether every choice of who else committed breaks an axiom other than SESSION.
    pub(super) fn every_choice_breaks(&self, counts: &[bool], serial: bool) -> Option<bool> {
        let mut work = WORK;
        self.breaks(counts.to_vec(), serial, &mut work)
    }

    fn breaks(&self, counts: Vec<bool>, serial: bool, work: &mut usize) -> Option<bool> {
        let counts = self.follow(counts, serial, work)?;
        let mut choice: Option<Vec<TxnId>> = None;
        for t in self.history.txns().filter(|t| counts[t.index()]) {
            if !serial && self.breaks_as_writer(t, &counts, work)? {
                return Some(true);
            }
            for (read, op) in self.history.ops(t).filter(|(_, op)| op.kind == OpKind::Read) {
                let writers = self.writers(op.key).len();
                *work = work.checked_sub((1 + writers) * (1 + writers))?;
                if self.within(t, read.index()) == Some(Err(false)) {
                    return Some(true);
                }
                match self.reading(t, read.index(), serial, &counts) {
                    Some(Reading::Wrong) => {}
                    Some(Reading::GaveUp) => return None,
                    _ => continue,
                }
                let one_of = self.one_of(t, read, serial, &counts);
                if one_of.is_empty() {
                    return Some(true);
                }
                if choice.as_ref().is_none_or(|choice| one_of.len() < choice.len()) {
                    choice = Some(one_of);
                }
            }
        }
        let Some(choice) = choice else { return Some(false) };
        for t in choice {
            let mut counts = counts.clone();
            counts[t.index()] = true;
            if !self.breaks(counts, serial, work)? {
                return Some(false);
            }
        }
        Some(true)
    }

    /// TIMESTAMP and NOCONFLICT of one transaction.
    fn breaks_as_writer(&self, t: TxnId, counts: &[bool], work: &mut usize) -> Option<bool> {
        if self.history.snapshot(t).is_none() && self.at(t).start > self.at(t).commit {
            return Some(true);
        }
        for (_, op) in self.history.ops(t).filter(|(_, op)| op.kind != OpKind::Read) {
            *work = work.checked_sub(self.writers(op.key).len())?;
            let others = self.writers(op.key).iter().filter(|&&w| w != t && counts[w.index()]);
            if others.into_iter().any(|&w| !self.sees(t, w) && !self.sees(w, t)) {
                return Some(true);
            }
        }
        Some(false)
    }

    /// One of these must have committed if a read that is wrong so far is right.
    pub(super) fn one_of(&self, t: TxnId, read: OpId, serial: bool, counts: &[bool]) -> Vec<TxnId> {
        let key = self.history.op(read).key;
        let is_open = |w: &TxnId| self.history.outcome(*w) == Outcome::Indeterminate && !counts[w.index()];
        let mut with_all = counts.to_vec();
        self.writers(key).iter().filter(|w| is_open(w)).for_each(|w| with_all[w.index()] = true);
        let (sure, perhaps) = self.seen_by(t, key, serial, &with_all);
        let seen = [sure, perhaps].concat();
        let open: Vec<TxnId> = seen.iter().copied().filter(is_open).collect();
        let appends = |w: &TxnId| !matches!(self.deed(*w, key), Some(Deed::Write(_)));
        let only_appends = |w: &TxnId| matches!(self.deed(*w, key), Some(Deed::Append(_)));
        if seen.iter().all(only_appends) {
            return self.missing(t, read, serial, counts, &open);
        }
        let mixed = seen.iter().any(appends);
        let mut trial = counts.to_vec();
        let helps = |w: &TxnId| {
            if appends(w) {
                return mixed;
            }
            trial[w.index()] = true;
            let right = self.reading(t, read.index(), serial, &trial) != Some(Reading::Wrong);
            trial[w.index()] = false;
            right
        };
        open.into_iter().filter(helps).collect()
    }

    /// Of those that appended, the fewest that share an element that is missing in the list.
    fn missing(&self, t: TxnId, read: OpId, serial: bool, counts: &[bool], open: &[TxnId]) -> Vec<TxnId> {
        let key = self.history.op(read).key;
        let Some(Ok(list)) = self.shown(t, read.index()) else { return Vec::new() };
        let (sure, perhaps) = self.seen_by(t, key, serial, counts);
        let elements = |w: TxnId| match self.deed(w, key) {
            Some(Deed::Append(block)) => block,
            _ => Vec::new(),
        };
        let count = |list: &[Value]| {
            let mut number: FxHashMap<Value, usize> = FxHashMap::default();
            list.iter().for_each(|&element| *number.entry(element).or_default() += 1);
            number
        };
        let at_most = |few: &[Value], most: &FxHashMap<Value, usize>| {
            count(few).iter().all(|(element, n)| most.get(element).is_some_and(|most| n <= most))
        };
        let there: Vec<Value> =
            self.initial_list(key).iter().copied().chain(sure.into_iter().flat_map(elements)).collect();
        let mut need = count(&list);
        if !at_most(&there, &need) {
            return Vec::new();
        }
        for element in there {
            need.entry(element).and_modify(|n| *n -= 1);
        }
        let fitting: Vec<TxnId> = open.iter().copied().filter(|&w| at_most(&elements(w), &need)).collect();
        let elsewhere: Vec<Value> = perhaps.into_iter().flat_map(elements).collect();
        let is_wanted = |e: &Value| need.get(e).is_some_and(|&n| n > 0) && !elsewhere.contains(e);
        let wanted = list.iter().copied().filter(is_wanted);
        let holders = |e: Value| fitting.iter().copied().filter(|&w| elements(w).contains(&e)).collect();
        wanted.map(holders).chain([fitting.clone()]).min_by_key(Vec::len).unwrap_or_default()
    }
}
