//! Banks: every transfer keeps the total, so a read of another total saw half of a transfer, or the result
//! of one that lost an update.
//!
//! Either way there is a cycle with one anti-dependency. Half of a transfer seen is read skew: the read
//! follows the transfer by what it saw, and precedes it by what it missed. A lost update is such a cycle
//! between two transfers, of an anti-dependency and the order of two writes. Otherwise a transaction read
//! what was aborted or not final, which is worse. So a transaction stands for the transfer, which the read
//! precedes by an anti-dependency and follows by the order of versions: that claims of the two explanations
//! what both have. Levels that allow lost updates are not concerned.
//!
//! Reads of the right total, and transfers, prove nothing here. O(size of the reads).

use super::recorder::{At, Recorder};
use super::{Datatype, Dependency, LowerError, Lowered};
use crate::models::torn_transfers;
use anomalist_history::{Events, OpKind, Operation, Value};
use anomalist_level::Why;

pub(super) fn lower(events: &Events) -> Result<Lowered, LowerError> {
    let ops = events.operations();
    let mut recorder = Recorder::new(events, &ops);
    let all = recorder.key("total of the balances");
    let mut reads: Vec<_> = ops.iter().filter(|op| op.is_ok() && events.f(op) == "read").collect();
    reads.sort_by_key(|op| op.shown());
    let mut expected = None;
    for op in reads {
        let balances = crate::models::balances(events, op)?;
        let total = crate::models::total(&balances);
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
        // Keys for this read alone: balances are no versions of anything, and may come and go.
        let at: Vec<At> = balances
            .iter()
            .map(|(account, balance)| {
                let key = recorder.key(&format!("account {account} at {}", op.shown()));
                let shown = balance.map_or(Value::NIL, |b| recorder.builder.int(b));
                recorder.builder.set_initial(key, shown);
                recorder.op(draft, OpKind::Read, key, shown)
            })
            .collect();
        let torn = torn_transfers(events, &ops, op.shown(), total - expected).unwrap_or_default();
        let torn: Vec<String> = torn.iter().map(|half| reported(events, &half.transfer)).collect();
        let such =
            if torn.is_empty() { String::new() } else { format!(" (it may be {})", torn.join(" and ")) };
        let other = recorder.stand_in(&format!("some transfer before {}", op.shown()));
        let missed = format!(
            "the total is {total} instead of {expected}, so something of that transfer is missing{such}"
        );
        recorder.depends(draft, other, Dependency::Rw, missed, at.clone());
        let seen =
            format!("the total of {total} shows something of that transfer, or of one that overwrote it");
        recorder.depends(other, draft, Dependency::Ww, seen, at);
    }
    recorder.finish(Datatype::Bank, Some(Why::BankReads))
}

/// A transfer with its place in the file.
fn reported(events: &Events, transfer: &Operation) -> String {
    format!("{} in line {}", events.argument(transfer), events.get(transfer.shown()).line)
}
