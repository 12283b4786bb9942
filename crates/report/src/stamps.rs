//! Sentences for what contradicts timestamps.
//!
//! A witness of these kinds begins with the read, then the write that it should have returned; whose value
//! it returned instead is an edge. That is what `anomalist-timestamp` makes; anything else is told operation
//! by operation.

use crate::cast::{Cast, stamp};
use crate::explain::{did, saw};
use anomalist_history::{OpId, OpKind, Stamps, TxnId};
use anomalist_level::{AnomalyKind, Evidence};
use anomalist_timestamp::breaks_numbers;

/// The steps for a kind of the timestamp check.
pub(crate) fn steps(cast: &Cast<'_>) -> Option<Vec<String>> {
    match cast.anomaly.kind {
        AnomalyKind::ExtStamp | AnomalyKind::ExtCommit => wrong_version(cast),
        AnomalyKind::NoConflictStamp => conflict(cast),
        AnomalyKind::SessionStamp | AnomalyKind::SessionCommit => session(cast),
        AnomalyKind::IntStamp => internal(cast),
        AnomalyKind::TimestampOrder => clock(cast),
        AnomalyKind::TieStamp => tie(cast),
        _ => None,
    }
}

fn at(cast: &Cast<'_>, t: TxnId) -> Option<Stamps> {
    cast.history.stamps().map(|stamps| stamps[t.index()])
}

fn commit(cast: &Cast<'_>, t: TxnId) -> Option<String> {
    Some(stamp(at(cast, t)?.commit))
}

fn wrong_version(cast: &Cast<'_>) -> Option<Vec<String>> {
    let (&read, expected) = cast.anomaly.witness.operations.split_first()?;
    let t = cast.history.txn_of(read);
    let (name, key) = (cast.name(t), cast.key_of(read));
    let seen = match cast.anomaly.kind {
        AnomalyKind::ExtCommit => format!("{name} commits at {}", commit(cast, t)?),
        _ => match cast.history.snapshot(t) {
            Some(set) => format!("{name}'s snapshot is {set}"),
            None => format!("{name} starts at {}", stamp(at(cast, t)?.start)),
        },
    };
    let last = match expected.first() {
        Some(&write) => {
            let writer = cast.history.txn_of(write);
            format!(
                "The last version of {key} before that is {}'s, which {} (commit {})",
                cast.name(writer),
                did(cast, write),
                commit(cast, writer)?
            )
        }
        None => format!("No version of {key} is before that"),
    };
    Some(vec![format!("{seen}. {last}."), format!("But {}.", instead(cast, read, t)?)])
}

/// What was read, and where that came from.
fn instead(cast: &Cast<'_>, read: OpId, t: TxnId) -> Option<String> {
    let history = cast.history;
    let op = history.op(read);
    let source = cast.anomaly.witness.edges.iter().find_map(|edge| match edge.evidence {
        Evidence::Read { write: Some(write), .. } => Some(write),
        _ => None,
    });
    if let Some(write) = source {
        let writer = history.txn_of(write);
        let how = match history.outcome(writer) {
            anomalist_history::Outcome::Aborted => "aborted".to_owned(),
            _ => format!("commit {}", commit(cast, writer)?),
        };
        return Some(format!("{} ({how})", saw(cast, read, Some(write))));
    }
    let seen = format!("{} read {} = {}", cast.name(t), cast.key_of(read), cast.value(read));
    let wrote = |o: anomalist_history::Op| o.kind != OpKind::Read && o.key == op.key && o.value == op.value;
    Some(if history.initial().of(op.key) == Some(op.value) {
        saw(cast, read, None)
    } else if history.ops(t).any(|(_, o)| wrote(o)) {
        format!("{seen}, which it wrote only later")
    } else if history.list(op.value).is_some() {
        seen
    } else {
        format!("{seen}, which nobody wrote")
    })
}

fn conflict(cast: &Cast<'_>) -> Option<Vec<String>> {
    let [first, second] = *cast.anomaly.witness.operations.as_slice() else { return None };
    let span = |write: OpId| {
        let t = cast.history.txn_of(write);
        let stamps = at(cast, t)?;
        let ran = match cast.history.snapshot(t) {
            Some(set) => format!("with snapshot {set}"),
            None => format!("from {} to {}", stamp(stamps.start), stamp(stamps.commit)),
        };
        Some(format!("{} {} and ran {ran}.", cast.name(t), did(cast, write)))
    };
    Some(vec![
        span(first)?,
        span(second)?,
        "Neither saw the other, so only one of them should have committed.".to_owned(),
    ])
}

/// A number that does not follow the one before it, if that is what is wrong.
fn number(cast: &Cast<'_>) -> Option<Vec<String>> {
    let (&t, before) = cast.anomaly.witness.transactions.split_last()?;
    let before = before.first().copied();
    let numbers = cast.history.numbers()?;
    let number = |t: TxnId| Some(numbers[t.index()]);
    if !breaks_numbers(before.map(number), number(t)) {
        return None;
    }
    let told = format!("{} is number {} of session {}", cast.name(t), numbers[t.index()], cast.session(t));
    Some(vec![match before {
        Some(before) => {
            let (name, number) = (cast.name(before), numbers[before.index()]);
            format!(
                "{told}, and the one before it, {name}, is number {number}: they do not follow one another."
            )
        }
        None => format!("{told}, and none before it was recorded."),
    }])
}

fn session(cast: &Cast<'_>) -> Option<Vec<String>> {
    if let Some(steps) = number(cast) {
        return Some(steps);
    }
    let [before, t] = *cast.anomaly.witness.transactions.as_slice() else { return None };
    let (first, second) = (cast.name(before), cast.name(t));
    let told = format!(
        "{first} comes before {second} in session {} and commits at {}.",
        cast.session(t),
        commit(cast, before)?
    );
    let broken = match cast.anomaly.kind {
        AnomalyKind::SessionCommit => format!("But {second} commits at {}, before that.", commit(cast, t)?),
        _ => match cast.history.snapshot(t) {
            Some(set) => format!("But {second}'s snapshot {set} does not contain it."),
            None => format!("But {second} starts at {}, before that.", stamp(at(cast, t)?.start)),
        },
    };
    Some(vec![told, broken])
}

fn internal(cast: &Cast<'_>) -> Option<Vec<String>> {
    let [read, before] = *cast.anomaly.witness.operations.as_slice() else { return None };
    let name = cast.name(cast.history.txn_of(read));
    Some(vec![format!("{name} {}, and then {}.", did(cast, before), did(cast, read))])
}

fn clock(cast: &Cast<'_>) -> Option<Vec<String>> {
    let &t = cast.anomaly.witness.transactions.first()?;
    let Stamps { start, commit } = at(cast, t)?;
    Some(vec![format!("{} starts at {} and commits at {}.", cast.name(t), stamp(start), stamp(commit))])
}

fn tie(cast: &Cast<'_>) -> Option<Vec<String>> {
    let [read, write] = *cast.anomaly.witness.operations.as_slice() else { return None };
    let writer = cast.history.txn_of(write);
    Some(vec![format!(
        "{} {}. Several transactions wrote {} and committed at {}, among them {}: which came last is open.",
        cast.name(cast.history.txn_of(read)),
        did(cast, read),
        cast.key_of(read),
        commit(cast, writer)?,
        cast.name(writer)
    )])
}
