//! A level that holds by timestamps as a proof that needs none: the order of begins and commits.
//!
//! What a transaction sees is what committed before it began, so the timestamps in order are the execution
//! that Definition 4 asks for. Given only where that is plain: keys are registers or lists, every writer
//! commits at a moment of its own and after its start, no snapshot is a set, and no value was written to a
//! key twice (else the proof would have to say which write each read returned).

use super::timeline::{At, later_ties};
use crate::{Mode, Rule, Tie, is_later_tie};
use anomalist_history::{History, OpKind, TxnId, Value};
use anomalist_level::{Certificate, Execution, Level, Point};
use rustc_hash::FxHashSet;

/// The proof of a level that holds by timestamps; `None` where it is not plain.
pub fn certificate(history: &History, level: Level, tie: Tie) -> Option<Certificate> {
    let stamps = history.stamps()?;
    let rule = Rule { mode: Mode::of(level)?, tie };
    let sessions = level.info().session_order;
    if history.has_snapshots() || !is_plain(history) {
        return None;
    }
    let order = super::commit_order(history, rule)?;
    let at = |t: TxnId| stamps[t.index()];
    let writes = |t: &TxnId| super::timeline::writes(history, *t);
    let writers: Vec<TxnId> = order.iter().copied().filter(writes).collect();
    if writers.windows(2).any(|pair| at(pair[0]).commit == at(pair[1]).commit) {
        return None;
    }
    if rule.mode == Mode::Ser {
        // Who reads when another commits may have read from before it.
        if order.windows(2).any(|pair| at(pair[0]).commit == at(pair[1]).commit && pair.iter().any(writes)) {
            return None;
        }
        let in_order = !sessions || follows_sessions(history, order.iter().map(|&t| Point::Commit(t)));
        return in_order.then(|| Certificate::Holds(Execution::commits(order)));
    }
    if order.iter().any(|&t| at(t).start > at(t).commit)
        || writers.iter().any(|&t| at(t).start == at(t).commit)
    {
        return None;
    }
    // Of one moment: first the snapshots that do not contain a commit then because their session issued it
    // later, then the commits that a snapshot then contains, then snapshots, then what they do not contain.
    // One that only read ends where it begins.
    let tied = later_ties(history, stamps, |_| true);
    let precedes = |t: TxnId| {
        let writer = || writers.binary_search_by_key(&at(t).start, |&w| at(w).commit).map(|i| writers[i]);
        let view = |t: TxnId| At::by_stamps(history, stamps, t);
        tied.binary_search(&t).is_ok() && writer().is_ok_and(|w| is_later_tie(&view(t), &view(w)))
    };
    let mut points = Vec::with_capacity(2 * order.len());
    for t in order {
        let (start, commit) = (at(t).start, at(t).commit);
        let rank = if start == commit || tie == Tie::Exclusive { 3 } else { 1 };
        points.push(((start, if precedes(t) { 0 } else { 2 }, t), Point::Begin(t)));
        points.push(((commit, rank, t), Point::Commit(t)));
    }
    points.sort_unstable();
    let points: Vec<Point> = points.into_iter().map(|(_, point)| point).collect();
    let in_order = !sessions || follows_sessions(history, points.iter().copied());
    in_order.then(|| Certificate::Holds(Execution::events(points)))
}

/// Whether each transaction begins after those before it in its session have committed. Equal timestamps may
/// be in the order of sessions by Definition 4 and yet not in this one.
fn follows_sessions(history: &History, points: impl Iterator<Item = Point>) -> bool {
    // Per session the rank of the last that began, and whether it has committed.
    let mut last: Vec<Option<(u32, bool)>> = vec![None; history.session_count()];
    for point in points {
        let before = &mut last[history.issuer(point.txn()).index()];
        let rank = history.issue_rank(point.txn());
        match point {
            Point::Begin(_) if before.is_some_and(|(b, ended)| b > rank || !ended) => return false,
            Point::Begin(_) => *before = Some((rank, false)),
            Point::Commit(_) if before.is_some_and(|(b, ended)| b > rank || b < rank && !ended) => {
                return false;
            }
            Point::Commit(_) => *before = Some((rank, true)),
        }
    }
    true
}

/// Keys are registers or lists, and no value was written to a key by two transactions, nor an element
/// appended twice. (By timestamps nil is the empty list; by values it is not.)
fn is_plain(history: &History) -> bool {
    let mut is_list = vec![false; history.key_count()];
    for (head, value) in history.heads().iter().zip(history.values()) {
        is_list[head.key().index()] |= head.kind() == OpKind::Append || value.is_list();
    }
    let mut seen = FxHashSet::default();
    history.txns().all(|t| {
        let mut own = FxHashSet::default();
        history.ops(t).all(|(_, op)| match (op.kind, is_list[op.key.index()]) {
            (OpKind::Read, true) => op.value.is_list() || op.value == Value::UNKNOWN,
            (OpKind::Read, false) => true,
            (OpKind::Write, true) => false,
            (OpKind::Append, _) => seen.insert((op.key, op.value)),
            (OpKind::Write, false) => {
                let initial = history.initial().of(op.key) == Some(op.value);
                !initial && (!own.insert((op.key, op.value)) || seen.insert((op.key, op.value)))
            }
        })
    })
}
