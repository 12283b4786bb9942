//! Banks: every transfer keeps the total, so a read of another total saw half of a transfer, or the result of one that
//! lost an update.
//!
//! Either way there is a cycle with one anti-dependency. Half of a transfer seen is read skew: the read follows the transfer
//! by what it saw, and precedes it by what it missed. A lost update is such a cycle between two transfers, of an
//! anti-dependency and the order of two writes. Otherwise somebody read what was aborted or not final, which is worse.
//! So a transaction stands for the transfer, which the read precedes by an anti-dependency and follows by the order of
//! versions: that claims of the two explanations what both have. Levels that allow lost updates are not concerned.
//!
//! Reads of the right total, and transfers, prove nothing here. O(size of the reads).

use super::recorder::Recorder;
use super::{Datatype, Dependency, LowerError, Lowered};
use anomalist_history::{Events, OpKind};

const DOUBT: &str =
    "no violation was found, but a bank's reads show totals, not which transfers they include";

pub(super) fn lower(events: &Events) -> Result<Lowered, LowerError> {
    let ops = events.operations();
    let mut recorder = Recorder::new(events, &ops);
    let all = recorder.key("total of the balances");
    let mut reads: Vec<_> = ops.iter().filter(|op| op.is_ok() && events.f(op) == "read").collect();
    reads.sort_by_key(|op| op.shown());
    let mut expected = None;
    for op in reads {
        let total = crate::models::total(&crate::models::balances(events, op)?);
        let draft = recorder.transaction(op);
        let shown = recorder.token(&total.to_string());
        let expected = *expected.get_or_insert_with(|| {
            recorder.builder.set_initial(all, shown);
            total
        });
        if total == expected {
            recorder.op(draft, OpKind::Read, all, shown);
            continue;
        }
        // A key for this read alone: totals are no versions of anything, and may come and go.
        let key = recorder.key(&format!("total of the balances at {}", op.shown()));
        recorder.builder.set_initial(key, shown);
        let at = recorder.op(draft, OpKind::Read, key, shown);
        let other = recorder.stand_in(&format!("some transfer before {}", op.shown()));
        let missed =
            format!("the total is {total} instead of {expected}, so something of that transfer is missing");
        recorder.depends(draft, other, Dependency::Rw, missed, vec![at]);
        let seen =
            format!("the total of {total} shows something of that transfer, or of one that overwrote it");
        recorder.depends(other, draft, Dependency::Ww, seen, vec![at]);
    }
    recorder.finish(Datatype::Bank, Some(DOUBT))
}
