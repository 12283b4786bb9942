//! Proves levels for reads by predicate: an order in which every read returns exactly what it returned.
//!
//! Played through from the initial rows, every read of a key must return the row at that moment, and every
//! read by predicate the rows that match and no other. A serial order that does so proves serializability,
//! with sessions and real time as far as the order keeps them. An order of begins and commits, in which
//! transactions read at their begin and write at their commit, proves snapshot isolation, since its rule
//! about writes is about items.
//!
//! Two kinds of orders are tried. The first is built as it is played: of the transactions that no other
//! must precede in real time, the one that completed first is next, unless it would spoil the reads of
//! another that could go before it. The others are the orders by which the engines proved levels for the
//! items alone.
//!
//! O(micro-operations + reads by predicate × rows), for the first order times the square of the concurrency.

use super::Lowered;
use super::predicates::{Mop, Recording};
use anomalist_check::Budget;
use anomalist_history::{Datum, Outcome, TxnId};
use anomalist_level::{Certificate, Family, Judgement, Level, Order, Point, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// The levels that hold for the recording, among those that hold for its items.
pub(super) fn proven(lowered: &Lowered, judgement: &Judgement, budget: &Budget<'_>) -> Vec<Level> {
    let Some(recording) = &lowered.recording else { return Vec::new() };
    let history = &lowered.history;
    let place = |t| history.position(t);
    let replay = |order: &[Point]| Replay::new(recording, place).explains(order, budget);
    let unrefuted = judgement.levels.iter().all(|l| l.verdict != Verdict::Violated);
    if unrefuted && Replay::new(recording, place).finds_an_order(lowered, budget) {
        return vec![Level::StrictSerializable];
    }
    let mut proven: Vec<Level> = Vec::new();
    for (level, certificate) in judgement.certificates.iter().rev() {
        let Certificate::Holds(execution) = certificate else { continue };
        if proven.iter().any(|stronger| stronger.implies(*level)) {
            continue;
        }
        // Levels whose order says what every read sees.
        let is_serial = level.info().family == Some(Family::Serial);
        let is_snapshot = level.info().family == Some(Family::Snapshot);
        let order = match &execution.order {
            Order::Commits(commits) if is_serial || is_snapshot => serial(commits),
            Order::Events(points) if is_snapshot => points.clone(),
            _ => continue,
        };
        if replay(&order) {
            proven.push(*level);
        }
    }
    proven
}

fn serial(commits: &[TxnId]) -> Vec<Point> {
    commits.iter().flat_map(|&t| [Point::Begin(t), Point::Commit(t)]).collect()
}

struct Replay<'r, P> {
    recording: &'r Recording,
    /// The place of a transaction in the recording.
    place: P,
    rows: BTreeMap<&'r Datum, &'r Datum>,
}

impl<'r, P: Fn(TxnId) -> u32> Replay<'r, P> {
    fn new(recording: &'r Recording, place: P) -> Self {
        Replay { recording, place, rows: recording.init.iter().collect() }
    }

    /// True if all reads return what they returned, in this order of all transactions that are known to
    /// have committed.
    fn explains(mut self, order: &[Point], budget: &Budget<'_>) -> bool {
        let ok = self.recording.txns.iter().filter(|t| t.ok).count();
        let txns = &self.recording.txns;
        let place = |t: TxnId| (self.place)(t) as usize;
        let begun = order.iter().filter(|p| matches!(p, Point::Begin(t) if txns[place(*t)].ok)).count();
        begun == ok
            && order.iter().all(|point| match *point {
                Point::Begin(t) => !budget.is_spent() && self.reads(t, None),
                Point::Commit(t) => {
                    self.commit(t);
                    true
                }
            })
    }

    /// True if there is a serial order of the committed transactions that keeps real time and explains all
    /// reads, as far as looking one step ahead finds it.
    fn finds_an_order(mut self, lowered: &Lowered, budget: &Budget<'_>) -> bool {
        let history = &lowered.history;
        let Some(intervals) = history.intervals() else { return false };
        let completed = |t: &TxnId| intervals[t.index()].completed.unwrap_or(u64::MAX);
        let invoked = |t: &TxnId| intervals[t.index()].invoked;
        let mut coming: Vec<TxnId> =
            history.txns().filter(|&t| history.outcome(t) == Outcome::Committed).collect();
        let mut ends = coming.clone();
        ends.sort_by_key(completed);
        coming.sort_by_key(|t| std::cmp::Reverse(invoked(t)));
        let (mut running, mut placed): (Vec<TxnId>, BTreeSet<TxnId>) = (Vec::new(), BTreeSet::new());
        for &first in &ends {
            while !placed.contains(&first) {
                while let Some(next) = coming.pop_if(|t| invoked(t) < completed(&first)) {
                    running.push(next);
                }
                running.sort_by_key(completed);
                let Some(next) = self.next(&running).filter(|_| !budget.is_spent()) else { return false };
                let t = running.remove(next);
                self.commit(t);
                placed.insert(t);
            }
        }
        true
    }

    /// Which of the running transactions comes next: the first whose reads are right now, unless it would
    /// spoil those of another whose reads are right now and that would not spoil its own.
    fn next(&self, running: &[TxnId]) -> Option<usize> {
        let ready: Vec<usize> = (0..running.len()).filter(|&i| self.reads(running[i], None)).collect();
        let mut next = *ready.first()?;
        for &other in &ready {
            let (t, u) = (running[next], running[other]);
            if other != next && !self.reads(u, Some(t)) && self.reads(t, Some(u)) {
                next = other;
            }
        }
        Some(next)
    }

    /// True if the reads of a transaction return what they returned now, or right after another.
    fn reads(&self, t: TxnId, after: Option<TxnId>) -> bool {
        let txn = |t: TxnId| &self.recording.txns[(self.place)(t) as usize];
        let written = after.map(|t| txn(t).final_writes()).unwrap_or_default();
        let mut own: BTreeMap<&Datum, Option<&Datum>> =
            written.into_iter().map(|(key, (_, row))| (key, row)).collect();
        let txn = txn(t);
        txn.mops.iter().all(|mop| match mop {
            Mop::Write(key, row) => {
                own.insert(key, row.as_ref());
                true
            }
            Mop::Read(key, row) => {
                let now = own.get(key).copied().unwrap_or_else(|| self.rows.get(key).copied());
                now == row.as_ref()
            }
            Mop::Rows(predicate, found) => {
                let others = self.rows.iter().filter(|(key, _)| !own.contains_key(**key));
                let own = own.iter().filter_map(|(key, row)| Some((*key, (*row)?)));
                let now = others.map(|(key, row)| (*key, *row)).chain(own);
                let mut matching = now.filter(|(_, row)| predicate.matches(Some(row)));
                let mut count = 0;
                let all_found = matching.all(|(key, row)| {
                    count += 1;
                    found.get(key) == Some(row)
                });
                all_found && count == found.len()
            }
        })
    }

    fn commit(&mut self, t: TxnId) {
        for (key, (_, row)) in self.recording.txns[(self.place)(t) as usize].final_writes() {
            match row {
                Some(row) => self.rows.insert(key, row),
                None => self.rows.remove(key),
            };
        }
    }
}
