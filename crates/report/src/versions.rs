//! Sentences about the order of a key's versions: who overwrote what, and how one knows.

use crate::cast::Cast;
use crate::explain::{did, saw};
use isolde_history::OpId;
use isolde_level::VersionReason;

/// How a read shows the order of two appends (or writes).
pub(crate) fn shown(cast: &Cast<'_>, first: OpId, second: OpId, read: OpId) -> String {
    let history = cast.history;
    let (a, b) = (cast.name(history.txn_of(first)), cast.name(history.txn_of(second)));
    let reader = cast.name(history.txn_of(read));
    let (one, two) = (cast.value(first), cast.value(second));
    let seen = format!("{reader} read {} = {}", cast.key_of(read), cast.value(read));
    match history.list(history.op(read).value) {
        Some(elements) if elements.contains(&history.op(second).value) => {
            format!("{seen}, where {one}, which {a} appended, is before {two}, which {b} appended")
        }
        Some(_) => format!("{seen}, up to {one}, which {a} appended, and without {two}, which {b} appended"),
        None => format!("{seen}, which orders {one}, which {a} wrote, before {two}, which {b} wrote"),
    }
}

/// A read, and who replaced what it returned.
pub(crate) fn replaced(
    cast: &Cast<'_>,
    (read, seen): (OpId, Option<OpId>),
    write: OpId,
    shown_by: Option<OpId>,
) -> String {
    let history = cast.history;
    let writer = cast.name(history.txn_of(write));
    let (key, new) = (cast.key_of(write), cast.value(write));
    if history.list(history.op(read).value).is_none() {
        return format!("{}, and {writer} {}", saw(cast, read, seen), did(cast, write));
    }
    let list = format!("{} read {key} = {}", cast.name(history.txn_of(read)), cast.value(read));
    let missed = format!("{list}, without {new}, which {writer} appended");
    match shown_by.filter(|&other| other != read) {
        None => missed,
        Some(other) => {
            let reader = cast.name(history.txn_of(other));
            let shows =
                history.list(history.op(other).value).is_some_and(|l| l.contains(&history.op(write).value));
            match shows {
                true => format!("{missed} next, as {reader} saw: {key} = {}", cast.value(other)),
                false => format!(
                    "{missed} after all that anybody saw: {reader} read {key} = {}",
                    cast.value(other)
                ),
            }
        }
    }
}

/// A read, and a version that is assumed to be later than what it returned.
pub(crate) fn overwritten(
    cast: &Cast<'_>,
    (read, seen): (OpId, Option<OpId>),
    write: OpId,
    why: VersionReason,
) -> String {
    let writer = cast.name(cast.history.txn_of(write));
    let new = cast.value(write);
    format!("{}, and {writer} wrote the later version {new} ({})", saw(cast, read, seen), reason(cast, why))
}

/// Two writes of a register.
pub(crate) fn ordered(cast: &Cast<'_>, first: OpId, second: OpId, why: VersionReason) -> String {
    let name = |op: OpId| cast.name(cast.history.txn_of(op));
    format!(
        "{} {}, and {} {} after that ({})",
        name(first),
        did(cast, first),
        name(second),
        did(cast, second),
        reason(cast, why)
    )
}

/// How one knows that a version is later.
pub(crate) fn reason(cast: &Cast<'_>, why: VersionReason) -> String {
    let told = |op: OpId| format!("{} {}", cast.name(cast.history.txn_of(op)), did(cast, op));
    match why {
        VersionReason::Initial => "the initial state comes first".to_owned(),
        VersionReason::ReadThenWritten { read } => {
            format!("{} before it wrote, and writes follow reads", told(read))
        }
        VersionReason::Session { before, after } => {
            format!("in one session {}, then {}, and each key is sequential", told(before), told(after))
        }
        VersionReason::RealTime { before, after } => {
            format!("{}, and after that {}, and each key is linearizable", told(before), told(after))
        }
        VersionReason::Given => "by the order of transactions that was given".to_owned(),
        VersionReason::Stamps => "by their commit timestamps".to_owned(),
    }
}
