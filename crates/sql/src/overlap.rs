//! How many transactions of a run could have shown something: those that were open together with another
//! session's.
//!
//! A level is put to the test by two transactions that are open at once, one of which writes. One is
//! certainly open from the answer to its first statement until the answer to its last one, because COMMIT
//! was not sent yet; when its BEGIN was sent says nothing, as the database may have let it wait. A database
//! that lets transactions in one by one therefore has none, and neither has a single session. Costs a sort,
//! and a look at every pair that overlaps.

use crate::instrument::Effect;
use crate::record::{Executed, Outcome, Run, Step};

/// A committed transaction of several statements: while it was certainly open.
struct Span {
    place: usize,
    session: usize,
    writes: bool,
    from: u64,
    to: u64,
}

impl Span {
    fn of((place, txn): (usize, &Executed)) -> Option<Span> {
        let touches = |s: &&Step| s.effect != Effect::None && s.failed.is_none();
        let first = txn.steps.iter().find(touches).filter(|_| txn.outcome == Outcome::Committed)?;
        // A statement alone may have committed itself before its answer.
        let last = txn.steps.last().filter(|last| last.number > first.number)?;
        let wrote =
            |s: &Step| !matches!(s.effect, Effect::Read | Effect::LockingRead | Effect::None) && !s.undone;
        let writes = txn.steps.iter().any(wrote);
        Some(Span { place, session: txn.session, writes, from: first.interval.1, to: last.interval.1 })
    }
}

/// The number of committed transactions that were open together with one of another session, one of the two
/// a writer.
pub fn overlapping(run: &Run) -> usize {
    let mut spans: Vec<Span> = run.transactions.iter().enumerate().filter_map(Span::of).collect();
    spans.sort_by_key(|s| s.from);
    let mut found = vec![false; run.transactions.len()];
    for (i, a) in spans.iter().enumerate() {
        for b in spans[i + 1..].iter().take_while(|b| b.from <= a.to) {
            if a.session != b.session && (a.writes || b.writes) {
                found[a.place] = true;
                found[b.place] = true;
            }
        }
    }
    found.into_iter().filter(|f| *f).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A transaction of one statement per pair of times.
    fn txn(session: usize, effect: Effect, steps: &[(u64, u64)]) -> Executed {
        let step = |(i, &interval): (usize, &(u64, u64))| Step { interval, ..Step::new(i + 1, "", effect) };
        let steps = steps.iter().enumerate().map(step).collect();
        Executed { id: 0, session, steps, outcome: Outcome::Committed, failed: None, interval: (0, 99) }
    }

    #[test]
    fn only_what_was_open_together_with_a_writer_counts() {
        let count = |transactions: Vec<Executed>| overlapping(&Run::of(transactions));
        let (r, w) = (Effect::Read, Effect::Update);
        assert_eq!(count(vec![txn(0, w, &[(1, 2), (3, 6)]), txn(1, r, &[(3, 4), (4, 5)])]), 2);
        // One session, readers alone, and a second transaction that had to wait for the end of the first.
        assert_eq!(count(vec![txn(0, w, &[(1, 2), (3, 6)]), txn(0, r, &[(3, 4), (4, 5)])]), 0);
        assert_eq!(count(vec![txn(0, r, &[(1, 2), (3, 6)]), txn(1, r, &[(3, 4), (4, 5)])]), 0);
        assert_eq!(count(vec![txn(0, w, &[(1, 2), (3, 6)]), txn(1, w, &[(3, 4)])]), 0);
        assert_eq!(count(vec![txn(0, w, &[(1, 2), (3, 6)]), txn(1, w, &[(3, 8), (8, 9)])]), 0);
    }
}
