//! Levels by timestamps (Chronos/AION, Definitions 4 to 6, and section VI-A for serializability).
//!
//! Snapshot isolation: arbitration is the order of commit timestamps (Definition 5), a transaction sees
//! those whose commit timestamp is at most its start timestamp (Definition 6), and INT, EXT and
//! NOCONFLICT hold, `start <= commit` (1); with sessions also SESSION. PREFIX follows. Serializability:
//! "all transactions appear to execute sequentially in commit timestamp order", start timestamps are
//! ignored and there is no NOCONFLICT; with sessions, commit timestamps do not decrease in a session.
//!
//! The paper's timestamps are unique. Ties (issue 16, item 3): a violation only if no order of the tied
//! transactions that keeps sessions explains the read. Each read may use an order of its own. Under
//! snapshot isolation what commits at the start timestamp of a transaction is visible (Definition 6),
//! except what its own session issued later. An abstract execution has one visibility (Definition 3), so
//! EXT and NOCONFLICT take the same.
//!
//! INT (Chronos, after Definition 4): a read that is not the first operation on its key returns what the
//! last one on that key in the transaction wrote or read. Transactions of unknown outcome: there is a
//! choice of those that took effect.

use crate::facts::{External, Parts, Set, members};
use crate::model::{History, Seen};
use crate::order::{Sessions, session_order};

/// Which axioms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Axioms {
    /// Of snapshot isolation.
    Snapshot,
    /// Of serializability.
    Serial,
}

/// Whether a choice of outcomes satisfies the axioms, with SESSION if `sessions`.
pub fn satisfies(parts: &Parts<'_>, axioms: Axioms, sessions: bool) -> bool {
    let mut outcomes =
        (0..=parts.open).filter(|kept| kept & !parts.open == 0).map(|kept| kept | parts.committed);
    parts.internal() && outcomes.any(|there| holds(parts, there, axioms, sessions))
}

fn holds(parts: &Parts<'_>, there: Set, axioms: Axioms, sessions: bool) -> bool {
    let snapshot = axioms == Axioms::Snapshot;
    let stamps = |t: usize| parts.history.txns[t].stamps;
    let pairs = || members(there).flat_map(|a| members(there).map(move |b| (a, b))).filter(|(a, b)| a != b);
    let session = |(a, b): (usize, usize)| {
        let moment = if snapshot { stamps(b).0 } else { stamps(b).1 };
        !parts.history.issued_before(a, b) || stamps(a).1 <= moment
    };
    let apart = |(a, b): (usize, usize)| sees(parts.history, a, b) || sees(parts.history, b, a);
    let conflict = |(a, b): (usize, usize)| {
        (0..parts.history.kinds.len()).any(|key| parts.facts[a].writes(key) && parts.facts[b].writes(key))
    };
    let ordered = || members(there).all(|t| stamps(t).0 <= stamps(t).1);
    (!sessions || pairs().all(session))
        && (!snapshot || (ordered() && pairs().all(|pair| !conflict(pair) || apart(pair))))
        && members(there).all(|t| repeats(&parts.facts[t].reads))
        && ext(parts, there, snapshot)
}

/// INT for reads after reads; reads after writes are external reads no more.
fn repeats(reads: &[External]) -> bool {
    reads.iter().all(|a| reads.iter().all(|b| a.key != b.key || a.seen == b.seen))
}

/// EXT: every external read is explained by some order of the transactions.
fn ext(parts: &Parts<'_>, there: Set, snapshot: bool) -> bool {
    let mut open: Vec<(usize, &External)> =
        members(there).flat_map(|t| parts.facts[t].reads.iter().map(move |read| (t, read))).collect();
    orders(parts, there, &mut Vec::new(), &mut |order| {
        open.retain(|&(t, read)| value(parts, order, t, read, snapshot) != read.seen);
        open.is_empty()
    })
}

/// Whether `t` sees another transaction: Definition 6, and of equal timestamps the session decides.
fn sees(history: &History, t: usize, other: usize) -> bool {
    let (start, commit) = (history.txns[t].stamps.0, history.txns[other].stamps.1);
    commit < start || commit == start && other != t && !history.issued_before(t, other)
}

/// What a read of `t` returns if transactions commit in this order.
fn value(parts: &Parts<'_>, order: &[usize], t: usize, read: &External, snapshot: bool) -> Seen {
    let history = parts.history;
    let before = order.iter().position(|&other| other == t).unwrap_or(0);
    let seen = order
        .iter()
        .enumerate()
        .filter(|&(place, &s)| if snapshot { sees(history, t, s) } else { place < before });
    let mut state = parts.initial_state();
    for (_, &s) in seen {
        state = parts.after(&state, s);
    }
    state.swap_remove(read.key)
}

/// Visits the orders of commit timestamps in which transactions of one session with one timestamp keep
/// their order, until `done`.
fn orders(
    parts: &Parts<'_>,
    rest: Set,
    order: &mut Vec<usize>,
    done: &mut dyn FnMut(&[usize]) -> bool,
) -> bool {
    if rest == 0 {
        return done(order);
    }
    let sessions = session_order(parts.history, Sessions::Numbered);
    let commit = |t: usize| parts.history.txns[t].stamps.1;
    let first = members(rest).map(commit).min();
    let tied: Set = members(rest).filter(|&t| Some(commit(t)) == first).fold(0, |set, t| set | 1 << t);
    for t in members(tied).filter(|&t| sessions[t] & tied == 0) {
        order.push(t);
        let found = orders(parts, rest & !(1 << t), order, done);
        order.pop();
        if found {
            return true;
        }
    }
    false
}
