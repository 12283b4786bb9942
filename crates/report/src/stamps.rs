//! Sentences for what contradicts timestamps.
//!
//! A witness of these kinds begins with the read, then the write that it should have returned; whose value
//! it returned instead is an edge. That is what `anomalist-timestamp` makes; anything else is reported
//! operation by operation.

use crate::explain::{did, saw};
use crate::witness_view::{WitnessView, stamp};
use anomalist_history::{OpId, OpKind, Stamps, TxnId};
use anomalist_level::{AnomalyKind, Evidence};
use anomalist_timestamp::breaks_numbers;

/// The steps for a kind of the timestamp check.
pub(crate) fn steps(view: &WitnessView<'_>) -> Option<Vec<String>> {
    match view.anomaly.kind {
        AnomalyKind::ExtStamp | AnomalyKind::ExtCommit => wrong_version(view),
        AnomalyKind::NoConflictStamp => conflict(view),
        AnomalyKind::SessionStamp | AnomalyKind::SessionCommit => session(view),
        AnomalyKind::IntStamp => internal(view),
        AnomalyKind::TimestampOrder => clock(view),
        AnomalyKind::TieStamp => tie(view),
        _ => None,
    }
}

fn at(view: &WitnessView<'_>, t: TxnId) -> Option<Stamps> {
    view.history.stamps().map(|stamps| stamps[t.index()])
}

fn commit(view: &WitnessView<'_>, t: TxnId) -> Option<String> {
    Some(stamp(at(view, t)?.commit))
}

fn wrong_version(view: &WitnessView<'_>) -> Option<Vec<String>> {
    let (&read, expected) = view.anomaly.witness.operations.split_first()?;
    let t = view.history.txn_of(read);
    let (name, key) = (view.name(t), view.key_of(read));
    let seen = match view.anomaly.kind {
        AnomalyKind::ExtCommit => format!("{name} commits at {}", commit(view, t)?),
        _ => match view.history.snapshot(t) {
            Some(set) => format!("{name}'s snapshot is {set}"),
            None => format!("{name} starts at {}", stamp(at(view, t)?.start)),
        },
    };
    let last = match expected.first() {
        Some(&write) => {
            let writer = view.history.txn_of(write);
            format!(
                "The last version of {key} before that is {}'s, which {} (commit {})",
                view.name(writer),
                did(view, write),
                commit(view, writer)?
            )
        }
        None => format!("No version of {key} is before that"),
    };
    Some(vec![format!("{seen}. {last}."), format!("But {}.", instead(view, read, t)?)])
}

/// What was read, and where that came from.
fn instead(view: &WitnessView<'_>, read: OpId, t: TxnId) -> Option<String> {
    let history = view.history;
    let op = history.op(read);
    let source = view.anomaly.witness.edges.iter().find_map(|edge| match edge.evidence {
        Evidence::Read { write: Some(write), .. } => Some(write),
        _ => None,
    });
    if let Some(write) = source {
        let writer = history.txn_of(write);
        let how = match history.outcome(writer) {
            anomalist_history::Outcome::Aborted => "aborted".to_owned(),
            _ => format!("commit {}", commit(view, writer)?),
        };
        return Some(format!("{} ({how})", saw(view, read, Some(write))));
    }
    let seen = format!("{} read {} = {}", view.name(t), view.key_of(read), view.value(read));
    let wrote = |o: anomalist_history::Op| o.kind != OpKind::Read && o.key == op.key && o.value == op.value;
    Some(if history.initial().of(op.key) == Some(op.value) {
        saw(view, read, None)
    } else if history.ops(t).any(|(_, o)| wrote(o)) {
        format!("{seen}, which it wrote only later")
    } else if history.list(op.value).is_some() {
        seen
    } else {
        format!("{seen}, which no transaction wrote")
    })
}

fn conflict(view: &WitnessView<'_>) -> Option<Vec<String>> {
    let [first, second] = *view.anomaly.witness.operations.as_slice() else { return None };
    let span = |write: OpId| {
        let t = view.history.txn_of(write);
        let stamps = at(view, t)?;
        let ran = match view.history.snapshot(t) {
            Some(set) => format!("with snapshot {set}"),
            None => format!("from {} to {}", stamp(stamps.start), stamp(stamps.commit)),
        };
        Some(format!("{} {} and ran {ran}.", view.name(t), did(view, write)))
    };
    Some(vec![
        span(first)?,
        span(second)?,
        "Neither saw the other, so only one of them should have committed.".to_owned(),
    ])
}

/// A number that does not follow the one before it, if that is what is wrong.
fn number(view: &WitnessView<'_>) -> Option<Vec<String>> {
    let (&t, before) = view.anomaly.witness.transactions.split_last()?;
    let before = before.first().copied();
    let numbers = view.history.numbers()?;
    let number = |t: TxnId| Some(numbers[t.index()]);
    if !breaks_numbers(before.map(number), number(t)) {
        return None;
    }
    let reported =
        format!("{} is number {} of session {}", view.name(t), numbers[t.index()], view.session(t));
    Some(vec![match before {
        Some(before) => {
            let (name, number) = (view.name(before), numbers[before.index()]);
            format!(
                "{reported}, and the one before it, {name}, is number {number}: they do not follow one another."
            )
        }
        None => format!("{reported}, and none before it was recorded."),
    }])
}

fn session(view: &WitnessView<'_>) -> Option<Vec<String>> {
    if let Some(steps) = number(view) {
        return Some(steps);
    }
    let [before, t] = *view.anomaly.witness.transactions.as_slice() else { return None };
    let (first, second) = (view.name(before), view.name(t));
    let reported = format!(
        "{first} comes before {second} in session {} and commits at {}.",
        view.session(t),
        commit(view, before)?
    );
    let broken = match view.anomaly.kind {
        AnomalyKind::SessionCommit => format!("But {second} commits at {}, before that.", commit(view, t)?),
        _ => match view.history.snapshot(t) {
            Some(set) => format!("But {second}'s snapshot {set} does not contain it."),
            None => format!("But {second} starts at {}, before that.", stamp(at(view, t)?.start)),
        },
    };
    Some(vec![reported, broken])
}

fn internal(view: &WitnessView<'_>) -> Option<Vec<String>> {
    let [read, before] = *view.anomaly.witness.operations.as_slice() else { return None };
    let name = view.name(view.history.txn_of(read));
    Some(vec![format!("{name} {}, and then {}.", did(view, before), did(view, read))])
}

fn clock(view: &WitnessView<'_>) -> Option<Vec<String>> {
    let &t = view.anomaly.witness.transactions.first()?;
    let Stamps { start, commit } = at(view, t)?;
    Some(vec![format!("{} starts at {} and commits at {}.", view.name(t), stamp(start), stamp(commit))])
}

fn tie(view: &WitnessView<'_>) -> Option<Vec<String>> {
    let [read, write] = *view.anomaly.witness.operations.as_slice() else { return None };
    let writer = view.history.txn_of(write);
    Some(vec![format!(
        "{} {}. Several transactions wrote {} and committed at {}, among them {}: which came last is open.",
        view.name(view.history.txn_of(read)),
        did(view, read),
        view.key_of(read),
        commit(view, writer)?,
        view.name(writer)
    )])
}
