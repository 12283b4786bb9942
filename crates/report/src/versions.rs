//! Sentences about the order of a key's versions: who overwrote what, and how one knows.

use crate::explain::{did, saw};
use crate::witness_view::WitnessView;
use anomalist_history::OpId;
use anomalist_level::VersionReason;

/// How a read shows the order of two appends (or writes).
pub(crate) fn shown(view: &WitnessView<'_>, first: OpId, second: OpId, read: OpId) -> String {
    let history = view.history;
    let (a, b) = (view.name(history.txn_of(first)), view.name(history.txn_of(second)));
    let reader = view.name(history.txn_of(read));
    let (one, two) = (view.value(first), view.value(second));
    let seen = format!("{reader} read {} = {}", view.key_of(read), view.value(read));
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
    view: &WitnessView<'_>,
    (read, seen): (OpId, Option<OpId>),
    write: OpId,
    why: VersionReason,
) -> String {
    let history = view.history;
    let writer = view.name(history.txn_of(write));
    let reader = view.name(history.txn_of(read));
    let (key, new) = (view.key_of(write), view.value(write));
    let list = format!("{reader} read {key} = {}", view.value(read));
    match why {
        VersionReason::Shown { read: longer } if longer == read => {
            format!("{list}, where {new}, which {writer} appended, comes next")
        }
        VersionReason::Shown { .. } => {
            format!("{list}, without {new}, which {writer} appended next ({})", reason(view, why))
        }
        VersionReason::Missing { .. } => {
            format!("{list}, without {new}, which {writer} appended ({})", reason(view, why))
        }
        VersionReason::Initial => format!(
            "{reader} read {key} = {}, the initial value, which {writer} replaced by {new}",
            view.value(read)
        ),
        _ => format!(
            "{}, and {writer} wrote the later version {new} ({})",
            saw(view, read, seen),
            reason(view, why)
        ),
    }
}

/// Two writes of a register.
pub(crate) fn ordered(view: &WitnessView<'_>, first: OpId, second: OpId, why: VersionReason) -> String {
    let name = |op: OpId| view.name(view.history.txn_of(op));
    format!(
        "{} {}, and {} {} after that ({})",
        name(first),
        did(view, first),
        name(second),
        did(view, second),
        reason(view, why)
    )
}

/// How one knows that a version is later.
pub(crate) fn reason(view: &WitnessView<'_>, why: VersionReason) -> String {
    let reported = |op: OpId| format!("{} {}", view.name(view.history.txn_of(op)), did(view, op));
    match why {
        VersionReason::Initial => "the initial state comes first".to_owned(),
        VersionReason::Shown { read } => format!("{} shows the order", reported(read)),
        VersionReason::Missing { read: Some(read) } => {
            format!("{}, the longest version that was read, so it came later", reported(read))
        }
        VersionReason::Missing { read: None } => "no read shows any of it".to_owned(),
        VersionReason::ReadThenWritten { read } => {
            format!("{} before it wrote, and writes follow reads", reported(read))
        }
        VersionReason::Session { before, after } => {
            format!(
                "in one session {}, then {}, and each key is sequential",
                reported(before),
                reported(after)
            )
        }
        VersionReason::RealTime { before, after } => {
            format!("{}, and after that {}, and each key is linearizable", reported(before), reported(after))
        }
        VersionReason::Given => "by the order of transactions that was given".to_owned(),
        VersionReason::Stamps => "by their commit timestamps".to_owned(),
        VersionReason::Numbered => "by the version numbers of the database".to_owned(),
    }
}
