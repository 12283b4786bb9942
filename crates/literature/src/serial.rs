//! One transaction after the other: serializability and linearizability.
//!
//! The transactions that took effect are executed in some order on the initial state, and every read
//! returns what is there: the definition of Papadimitriou 1979 by reads of values, as MonkeyDB restates it
//! after Figure 3 ("each transaction observes the effects of all the co predecessors"). Without sessions
//! any order will do, which is Adya's PL-3 on items (Elle, section 2: an equivalent serial history).
//! Strict: a transaction that was over before another began comes first (Herlihy & Wing 1990, section 3.3;
//! restated in Elle, section 5: real-time dependencies), and sessions count (`docs/spec/levels.md` 4).

use crate::Answer;
use crate::facts::{Parts, Set};
use crate::model::{Kind, Op, Outcome, Seen};
use crate::order::{Before, complete, next, real_time};

/// Whether there are outcomes and a serial execution in an order that contains `before`.
pub fn serializable(parts: &Parts<'_>, before: &Before) -> bool {
    parts.internal() && execute(parts, before, 0, &parts.initial_state())
}

fn execute(parts: &Parts<'_>, before: &Before, placed: Set, state: &[Seen]) -> bool {
    complete(parts, placed)
        || next(parts, before, placed)
            .filter(|&t| parts.reads_from_state(state, t))
            .any(|t| execute(parts, before, placed | 1 << t, &parts.after(state, t)))
}

/// Linearizability of registers (Herlihy & Wing 1990, Definition in section 2.3): operations, some of
/// those without a response left out, have a sequential order that is legal for a register and contains
/// their order in real time. Sessions are sequential, so their order is real time. Objects are
/// independent (Theorem 1), so is each key here.
///
/// Only for histories with intervals whose every transaction is one operation on a register.
pub fn linearizable(parts: &Parts<'_>) -> Answer {
    let history = parts.history;
    let single = history.txns.iter().all(|t| t.ops.len() == 1);
    if !history.has_intervals || !single || history.kinds.contains(&Kind::List) {
        return Answer::Undefined;
    }
    let order = real_time(history);
    Answer::from((0..history.kinds.len()).all(|key| {
        let mut of_key = history.clone();
        for txn in of_key.txns.iter_mut().filter(|t| t.ops.first().map(Op::key) != Some(key)) {
            txn.outcome = Outcome::Aborted;
        }
        serializable(&Parts::of(&of_key), &order)
    }))
}
