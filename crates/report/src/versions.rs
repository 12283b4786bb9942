//! Sentences about the order of a key's versions: who overwrote what, and how one knows.

use crate::cast::Cast;
use crate::explain::{did, saw};
use anomalist_history::OpId;
use anomalist_level::VersionReason;

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

/// A read, and the later version that it missed.
pub(crate) fn overwritten(
    cast: &Cast<'_>,
    (read, seen): (OpId, Option<OpId>),
    write: OpId,
    why: VersionReason,
) -> String {
    let history = cast.history;
    let writer = cast.name(history.txn_of(write));
    let reader = cast.name(history.txn_of(read));
    let (key, new) = (cast.key_of(write), cast.value(write));
    let list = format!("{reader} read {key} = {}", cast.value(read));
    match why {
        VersionReason::Shown { read: longer } if longer == read => {
            format!("{list}, where {new}, which {writer} appended, comes next")
        }
        VersionReason::Shown { .. } => {
            format!("{list}, without {new}, which {writer} appended next ({})", reason(cast, why))
        }
        VersionReason::Missing { .. } => {
            format!("{list}, without {new}, which {writer} appended ({})", reason(cast, why))
        }
        VersionReason::Initial => format!(
            "{reader} read {key} = {}, the initial value, which {writer} replaced by {new}",
            cast.value(read)
        ),
        _ => format!(
            "{}, and {writer} wrote the later version {new} ({})",
            saw(cast, read, seen),
            reason(cast, why)
        ),
    }
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
        VersionReason::Shown { read } => format!("{} shows the order", told(read)),
        VersionReason::Missing { read: Some(read) } => {
            format!("{}, the most that anybody saw, so it came later", told(read))
        }
        VersionReason::Missing { read: None } => "nobody saw anything of it".to_owned(),
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
        VersionReason::Numbered => "by the version numbers of the database".to_owned(),
    }
}
