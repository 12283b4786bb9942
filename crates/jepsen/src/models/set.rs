//! Set: elements are added one by one, and in the end read all at once.
//!
//! By the last ok `read`:
//! - `lost`: acknowledged (its `add` was ok), but not there;
//! - `unexpected`: there, but no client tried to add it;
//! - `recovered`: there, though its `add` was not acknowledged.
//!
//! Invalid if anything is lost or unexpected, unknown if the set was never read. An `add` that failed and
//! is there all the same counts as recovered, as in Jepsen, though it is an aborted read: `anomalist` names
//! those elements. Jepsen's rule and keys. O(n log n).

use super::{Malformed, ModelResult, Valid, show};
use crate::Why;
use anomalist_history::{Datum, Event, EventKind, Events, Process};
use std::collections::HashSet;

/// The elements that a read returned.
pub(crate) fn elements(event: &Event) -> Result<&[Datum], Malformed> {
    match &event.value {
        Datum::Nil => Ok(&[]),
        value => value.as_list().ok_or_else(|| Malformed::new(event, "a list or set of elements")),
    }
}

pub(super) fn check(events: &Events) -> Result<ModelResult, Malformed> {
    let clients = || events.iter().filter(|e| e.process != Process::Other);
    let adds = || clients().filter(|e| &*e.f == "add");
    let attempts: HashSet<&Datum> = adds().map(|e| &e.value).collect();
    let acknowledged: HashSet<&Datum> =
        adds().filter(|e| e.kind == EventKind::Ok).map(|e| &e.value).collect();
    let read = clients().filter(|e| e.kind == EventKind::Ok && &*e.f == "read" && !e.value.is_nil()).last();
    let Some(read) = read else {
        return Ok(ModelResult::new(Valid::Unknown(Why::SetNotRead), []));
    };
    let seen: HashSet<&Datum> = elements(read)?.iter().collect();
    let ok: Vec<&Datum> = seen.intersection(&attempts).copied().collect();
    let unexpected: Vec<&Datum> = seen.difference(&attempts).copied().collect();
    let lost: Vec<&Datum> = acknowledged.difference(&seen).copied().collect();
    let recovered: Vec<&Datum> = ok.iter().copied().filter(|e| !acknowledged.contains(e)).collect();
    let ops = events.operations();
    let possible: HashSet<&Datum> =
        ops.iter().filter(|op| events.f(op) == "add" && !op.failed()).map(|op| events.argument(op)).collect();
    let aborted: Vec<&Datum> = recovered.iter().copied().filter(|e| !possible.contains(e)).collect();
    let mut details = vec![
        ("attempt-count", Datum::count(attempts.len())),
        ("acknowledged-count", Datum::count(acknowledged.len())),
        ("ok-count", Datum::count(ok.len())),
        ("lost-count", Datum::count(lost.len())),
        ("recovered-count", Datum::count(recovered.len())),
        ("unexpected-count", Datum::count(unexpected.len())),
        ("ok", show::interval_set(&ok)),
        ("lost", show::interval_set(&lost)),
        ("unexpected", show::interval_set(&unexpected)),
        ("recovered", show::interval_set(&recovered)),
    ];
    if !aborted.is_empty() {
        details.push(("anomalist", Datum::map([("failed-but-read", show::interval_set(&aborted))])));
    }
    Ok(ModelResult::new((lost.is_empty() && unexpected.is_empty()).into(), details))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{expect, judge};
    use super::super::{Model, Valid};

    #[test]
    fn the_last_read_decides() {
        let text = "0 invoke add 0; 0 ok add 0; 0 invoke add 1; 0 ok add 1; 1 invoke add 2; 1 info add 2; \
            2 invoke read; 2 ok read []; 2 invoke read; 2 ok read [2 1 0]";
        let details = expect(Model::Set, text, true);
        let get = |key| details.get(key).unwrap().to_string();
        assert_eq!(
            (get("ok"), get("recovered"), get("ok-count")),
            ("\"#{0..2}\"".into(), "\"#{2}\"".into(), "3".into())
        );
    }

    #[test]
    fn what_was_acknowledged_stays_and_nothing_comes_from_nowhere() {
        let details = expect(Model::Set, "0 invoke add 1; 0 ok add 1; 0 invoke read; 0 ok read [5]", false);
        let get = |key| details.get(key).unwrap().to_string();
        assert_eq!(details.get("anomalist"), None);
        let aborted = expect(Model::Set, "0 invoke add 1; 0 fail add 1; 0 invoke read; 0 ok read [1]", true);
        assert_eq!(aborted.get("anomalist").unwrap().to_string(), "{:failed-but-read \"#{1}\"}");
        assert_eq!((get("lost"), get("unexpected")), ("\"#{1}\"".into(), "\"#{5}\"".into()));
        assert!(matches!(
            judge(Model::Set, "0 invoke add 1; 0 invoke read; 0 info read").valid,
            Valid::Unknown(_)
        ));
    }
}
