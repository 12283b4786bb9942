//! Orders of transactions, tried one transaction at a time; what every definition below is made of.
//!
//! An indeterminate transaction took effect or did not: it is placed somewhere or left out. All committed
//! ones are placed. Exponential: for a handful of transactions.

use crate::facts::{Parts, Set, members, set};
use crate::model::{History, Outcome};

/// What session order says of transactions of unknown outcome; the papers have none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sessions {
    /// Elle, section 3.2 and Jepsen: a client does not learn when such a transaction took effect, so
    /// nothing follows it; it follows what its session had committed before.
    Issued,
    /// The order in which the session issued them, whatever their outcome: Chronos, section III-B, where
    /// a transaction has a sequence number in its session.
    Numbered,
}

/// By transaction, those that must come before it if both took effect.
pub type Before = [Set; History::MOST];

/// Nothing comes before anything.
pub const FREE: Before = [0; History::MOST];

/// The order of sessions.
pub fn session_order(history: &History, rule: Sessions) -> Before {
    let open = |t: usize| history.txns[t].outcome == Outcome::Indeterminate;
    relation(history, |a, b| {
        history.issued_before(a, b)
            && match rule {
                Sessions::Numbered => true,
                Sessions::Issued => !open(a),
            }
    })
}

/// The order of real time: over before the other began.
pub fn real_time(history: &History) -> Before {
    relation(history, |a, b| history.over_before(a, b))
}

/// Both.
pub fn union(a: &Before, b: &Before) -> Before {
    std::array::from_fn(|t| a[t] | b[t])
}

fn relation(history: &History, holds: impl Fn(usize, usize) -> bool) -> Before {
    let count = history.txns.len();
    std::array::from_fn(|b| if b < count { set(history, |a| holds(a, b)) } else { 0 })
}

/// The transactions that may be placed next.
pub fn next<'p>(
    parts: &'p Parts<'_>,
    before: &'p Before,
    placed: Set,
) -> impl Iterator<Item = usize> + use<'p> {
    let committed = parts.committed;
    let fits = move |&t: &usize| {
        let too_late = members(placed).any(|p| before[p] >> t & 1 == 1);
        !too_late && before[t] & committed & !placed == 0
    };
    members((committed | parts.open) & !placed).filter(fits)
}

/// Whether every committed transaction is placed.
pub fn complete(parts: &Parts<'_>, placed: Set) -> bool {
    parts.committed & !placed == 0
}
