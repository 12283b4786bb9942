//! Makes a history smaller as long as something stays true of it: greedily, until nothing more can go.

use crate::model::{History, Outcome};

/// A smaller history of which `interesting` is still true.
pub fn shrink(history: &History, interesting: &dyn Fn(&History) -> bool) -> History {
    let mut best = history.clone();
    while let Some(smaller) = candidates(&best).into_iter().find(|c| interesting(c)) {
        best = smaller;
    }
    best
}

/// One step: without a transaction, without an operation, a transaction committed, without clocks, one
/// session less.
fn candidates(history: &History) -> Vec<History> {
    let mut found = Vec::new();
    let mut with = |change: &dyn Fn(&mut History)| {
        let mut changed = history.clone();
        change(&mut changed);
        if changed != *history {
            found.push(changed);
        }
    };
    for t in 0..history.txns.len() {
        with(&|h| drop(h.txns.remove(t)));
    }
    for t in 0..history.txns.len() {
        for place in 0..history.txns[t].ops.len() {
            with(&|h| drop(h.txns[t].ops.remove(place)));
        }
    }
    with(&|h| h.has_intervals = false);
    for t in 0..history.txns.len() {
        with(&|h| {
            if h.txns[t].outcome == Outcome::Indeterminate && !h.has_intervals {
                h.txns[t].outcome = Outcome::Committed;
            }
        });
    }
    found
}
