//! Banks: every transfer keeps the total, so a read of another total saw half of a transfer, or the result of one that
//! lost an update.
//!
//! Either way there is a transaction that the read both follows and precedes with one anti-dependency: half of a transfer
//! seen is read skew (the read follows it by what it saw and precedes it by what it missed); and a lost update is such a
//! cycle between two transfers. Both are G-single; otherwise somebody read what was aborted or not final, which is worse.
//! Which transfer it was is open, so a transaction stands for it: it wrote the total that was read, and the read missed
//! the rest of what it did. Levels that allow lost updates and fractured reads are not concerned.
//!
//! Reads of the right total, and transfers, prove nothing here. O(size of the reads).

use super::recorder::Recorder;
use super::{Datatype, Dependency, LowerError, Lowered};
use isolde_history::{Events, OpKind};

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
        let other = recorder.stand_in(&format!("some transfer before {}", op.shown()));
        let key = recorder.key(&format!("total of the balances at {}", op.shown()));
        recorder.op(other, OpKind::Write, key, shown);
        let at = recorder.op(draft, OpKind::Read, key, shown);
        let reason =
            format!("the total is {total} instead of {expected}, so something of that transfer is missing");
        recorder.depends(draft, other, Dependency::Rw, reason, vec![at]);
    }
    recorder.finish(Datatype::Bank, Some(DOUBT))
}
