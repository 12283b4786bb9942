//! Proves levels for reads by predicate: an order in which every read returns exactly what it returned.
//!
//! The engines prove levels for the items alone, each with an order. That order proves the level for the recording if the
//! reads by predicate agree with it too: played through from the initial rows, every read of a key must return the row at
//! that moment, and every read by predicate the rows that match and no other. In a serial order that is serializability
//! (with sessions and real time, as far as the order keeps them); in an order of begins and commits, where transactions
//! read at their begin and write at their commit, it is snapshot isolation, since its rule about writes is about items.
//! If no such order was handed over, the order of completions is tried: it keeps sessions and real time.
//!
//! O(micro-operations + reads by predicate × rows).

use super::Lowered;
use super::predicates::{Mop, Recording};
use crate::Budget;
use anomalist_history::{Datum, Outcome, TxnId};
use anomalist_level::{Certificate, Judgement, Level, Order, Point, Verdict};
use std::collections::BTreeMap;

/// Levels whose order says what every read sees.
const SERIAL: [Level; 3] = [Level::Serializable, Level::StrongSessionSerializable, Level::StrictSerializable];
const SNAPSHOT: [Level; 3] =
    [Level::SnapshotIsolation, Level::StrongSessionSnapshotIsolation, Level::StrongSnapshotIsolation];

/// The levels that hold for the recording, among those that hold for its items.
pub(super) fn proven(lowered: &Lowered, judgement: &Judgement, budget: &Budget<'_>) -> Vec<Level> {
    let Some(recording) = &lowered.recording else { return Vec::new() };
    let history = &lowered.history;
    let replay = |order: &[Point]| Replay::new(recording, |t| history.position(t)).explains(order, budget);
    let strict = Level::StrictSerializable;
    if judgement.verdict(strict) == Some(&Verdict::Holds) && replay(&by_completion(lowered)) {
        return vec![strict];
    }
    let mut proven: Vec<Level> = Vec::new();
    for (level, certificate) in judgement.certificates.iter().rev() {
        let Certificate::Holds(execution) = certificate else { continue };
        if proven.iter().any(|stronger| stronger.implies(*level)) {
            continue;
        }
        let order = match &execution.order {
            Order::Commits(commits) if SERIAL.contains(level) || SNAPSHOT.contains(level) => serial(commits),
            Order::Events(points) if SNAPSHOT.contains(level) => points.clone(),
            _ => continue,
        };
        if replay(&order) {
            proven.push(*level);
        }
    }
    proven
}

/// The committed transactions one after another, as they completed; nothing if the recording does not say when that was.
fn by_completion(lowered: &Lowered) -> Vec<Point> {
    let history = &lowered.history;
    let Some(intervals) = history.intervals() else { return Vec::new() };
    let mut committed: Vec<TxnId> =
        history.txns().filter(|&t| history.outcome(t) == Outcome::Committed).collect();
    committed.sort_by_key(|t| intervals[t.index()].completed);
    serial(&committed)
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

    /// True if all reads return what they returned, in this order of all transactions that are known to have committed.
    fn explains(mut self, order: &[Point], budget: &Budget<'_>) -> bool {
        let ok = self.recording.txns.iter().filter(|t| t.ok).count();
        let txns = &self.recording.txns;
        let place = |t: TxnId| (self.place)(t) as usize;
        let begun = order.iter().filter(|p| matches!(p, Point::Begin(t) if txns[place(*t)].ok)).count();
        begun == ok
            && order.iter().all(|point| match *point {
                Point::Begin(t) => !budget.is_spent() && self.reads(t),
                Point::Commit(t) => {
                    self.commit(t);
                    true
                }
            })
    }

    fn reads(&self, t: TxnId) -> bool {
        let txn = &self.recording.txns[(self.place)(t) as usize];
        let mut own: BTreeMap<&Datum, Option<&Datum>> = BTreeMap::new();
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
