//! Snapshot isolation and serializability by timestamps (Chronos, section III-B of the paper), key by key.
//!
//! The paper plays all start and commit events in one sweep. But the axioms speak of one transaction (INT,
//! TIMESTAMP), one session (SESSION) or one key (EXT, NOCONFLICT), so nothing needs to be played together:
//! 1. `timeline.rs` puts transactions in order of commit and finds, for each, how much of that order it
//!    sees: a *bound*, since what a timestamp sees is a prefix. SESSION and TIMESTAMP are decided on the
//!    way.
//! 2. `events.rs` moves external reads and final writes to their keys, in that order, for one range of keys
//!    at a time. INT is decided on the way.
//! 3. `key.rs` walks along a key: a read looks back from its own place to its bound, past the few versions
//!    that committed while its transaction ran; a write conflicts with just those. `careful.rs` is for what
//!    sees no prefix of the past.
//! 4. `open.rs` finds out which transactions of unknown outcome must have committed.
//! 5. `explain.rs` says of each listed EXT what was read instead.
//!
//! Nothing is sorted but transactions: O(N log N + M), and O(N + M) where sessions are in order of commit,
//! as the sort takes runs as it finds them. Ranges of keys are checked in parallel. Every violation is
//! counted; at most `limit` of each axiom are listed, the first in order of key (EXT, NOCONFLICT, TIE) or of
//! commit, whatever the number of threads.
//!
//! What is judged, and what ties mean, is said in the [crate documentation](crate).

mod careful;
mod events;
mod explain;
mod judge;
mod key;
mod open;
mod proof;
mod timeline;

use crate::{Axiom, Rule, Violation};
use anomalist_history::{History, TxnId};
use anomalist_level::{Budget, OutOfBudget};
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use timeline::Timeline;

pub use judge::{ByStamps, LISTED, conclude, judge};
pub use open::{Doubts, doubts};
pub use proof::certificate;

/// What a check by timestamps found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// How many violations of each axiom there are, in the order of [`Axiom::ALL`].
    pub counts: [u64; Axiom::ALL.len()],
    /// The first of each axiom, axiom by axiom.
    pub listed: Vec<Violation>,
    /// Reads of a register value that was appended to: what they should have returned is not defined.
    pub unjudged: u64,
    /// Reads of a list to which very many appended at one moment: too many orders to try.
    pub unmatched: u64,
    /// Reads that are right only if some transaction of unknown outcome committed, and there is a choice of
    /// which.
    pub open: u64,
    /// Snapshots that are sets do not all contain one another: visibility is no order of commits.
    pub forks: bool,
}

impl Findings {
    /// How many violations of an axiom there are.
    pub fn count(&self, axiom: Axiom) -> u64 {
        self.counts[axiom as usize]
    }

    /// True if no axiom is broken; a TIE breaks none.
    pub fn is_clean(&self) -> bool {
        Axiom::ALL.iter().all(|&axiom| axiom == Axiom::Tie || self.count(axiom) == 0)
    }

    #[inline]
    fn add(&mut self, violation: Violation, limit: usize) {
        let axiom = violation.axiom as usize;
        self.counts[axiom] += 1;
        if self.counts[axiom] <= limit as u64 {
            self.listed.push(violation);
        }
    }

    /// Adds what another range of keys (the next one) has.
    fn append(&mut self, other: Findings) {
        for (sum, count) in self.counts.iter_mut().zip(other.counts) {
            *sum += count;
        }
        self.listed.extend(other.listed);
        self.unjudged += other.unjudged;
        self.unmatched += other.unmatched;
        self.forks |= other.forks;
    }
}

/// The transactions that count, in order of commit, ties broken as [`Place`](crate::Place) says; `None` if
/// the history has no timestamps. If a serializable level holds by timestamps and no writer shares its
/// commit, this order is the proof.
pub fn commit_order(history: &History, rule: Rule) -> Option<Vec<TxnId>> {
    let mut timeline = Timeline::new(history, rule)?;
    let run = Run { limit: 0, threads: 1, ranges: 1, budget: &Budget::unlimited() };
    if timeline.counts.contains(&false) {
        open::resolve(&mut timeline, run).ok()?;
    }
    let counts = |(place, t): (usize, &TxnId)| timeline.counts[place].then_some(*t);
    Some(timeline.txn_of.iter().enumerate().filter_map(counts).collect())
}

/// Operations in one range of keys: few enough that their events stay small beside the history, many enough
/// that a scan of all operations per range costs little.
const OPS_PER_RANGE: usize = 12_000_000;
/// Operations that are worth a thread.
const OPS_PER_THREAD: usize = 50_000;

/// Finds every violation; `None` if the history has no timestamps.
///
/// ```
/// use anomalist_level::Budget;
/// use anomalist_history::{Builder, OpKind, Stamps, Timestamp};
/// use anomalist_timestamp::{Axiom, Mode, Rule, Tie, offline};
///
/// // Two transactions that overlap write one key.
/// let mut b = Builder::new();
/// for (name, start, commit) in [(1, 10, 30), (2, 20, 40)] {
///     let name = b.int(name);
///     let (key, session) = (b.key(name), b.session(name));
///     let x = b.key(anomalist_history::Value::NIL);
///     let t = b.transaction(session);
///     b.op(t, OpKind::Write, x, name);
///     # let _ = key;
///     let stamp = |physical| Timestamp { physical, logical: 0 };
///     b.set_stamps(t, Stamps { start: stamp(start), commit: stamp(commit) });
/// }
/// let history = b.finish()?;
/// let rule = Rule { mode: Mode::Si, tie: Tie::Inclusive };
/// let found = offline::find(&history, rule, 1000, 2.try_into()?, &Budget::unlimited()).unwrap().unwrap();
/// assert_eq!(found.count(Axiom::NoConflict), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn find(
    history: &History,
    rule: Rule,
    limit: usize,
    threads: NonZeroUsize,
    budget: &Budget<'_>,
) -> Result<Option<Findings>, OutOfBudget> {
    let ops = history.op_count();
    let threads = threads.get().min(1 + ops / OPS_PER_THREAD);
    find_in(history, rule, limit, threads, threads.max(1 + ops / OPS_PER_RANGE), budget)
}

/// [`find`], with so many ranges of keys.
fn find_in(
    history: &History,
    rule: Rule,
    limit: usize,
    threads: usize,
    ranges: usize,
    budget: &Budget<'_>,
) -> Result<Option<Findings>, OutOfBudget> {
    let Some(mut timeline) = Timeline::new(history, rule) else { return Ok(None) };
    let run = Run { limit, threads, ranges, budget };
    let mut found = match timeline.counts.contains(&false) {
        false => run.check(&timeline)?,
        true => open::resolve(&mut timeline, run)?,
    };
    tidy(&timeline, &mut found.listed, limit);
    Ok(Some(found))
}

/// Puts violations in their order, leaves out those beyond the limit, and says what was read instead.
fn tidy(timeline: &Timeline<'_>, listed: &mut Vec<Violation>, limit: usize) {
    // Ranges came in order of their keys; INT goes by commit.
    listed.sort_by_key(|v| (v.axiom, (v.axiom == Axiom::Int).then(|| (timeline.place(v.txn), v.read))));
    let mut kept = [0; Axiom::ALL.len()];
    listed.retain(|v| {
        kept[v.axiom as usize] += 1;
        kept[v.axiom as usize] <= limit
    });
    explain::classify(timeline, listed);
}

/// How to check.
#[derive(Clone, Copy)]
struct Run<'a> {
    limit: usize,
    threads: usize,
    ranges: usize,
    budget: &'a Budget<'a>,
}

impl Run<'_> {
    /// Every violation of the transactions that count.
    fn check(self, timeline: &Timeline<'_>) -> Result<Findings, OutOfBudget> {
        let Run { limit, threads, ranges, budget } = self;
        let mut found = Findings::default();
        timeline.check(limit, &mut found);
        let ranges = events::ranges(timeline.history, ranges);
        let next = AtomicUsize::new(0);
        let done: Mutex<Vec<(usize, Findings)>> = Mutex::new(Vec::new());
        let work = || -> Result<(), OutOfBudget> {
            let mut checker = key::Checker::new(timeline, limit);
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let Some(range) = ranges.get(i) else { return Ok(()) };
                let found = events::check_range(timeline, range, &mut checker, limit, budget)?;
                done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((i, found));
            }
        };
        if threads == 1 {
            work()?;
        } else {
            std::thread::scope(|scope| {
                // Where the system refuses threads there are fewer: each takes what is left.
                let start = |_| std::thread::Builder::new().spawn_scoped(scope, work).ok();
                let helpers: Vec<_> = (1..threads).filter_map(start).collect();
                let mut ended = vec![work()];
                for helper in helpers {
                    ended.push(helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
                }
                ended.into_iter().collect::<Result<(), OutOfBudget>>()
            })?;
        }
        let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        done.sort_by_key(|(i, _)| *i);
        for (_, part) in done {
            found.append(part);
        }
        found.forks = timeline.forks();
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Mode, Tie};
    use anomalist_testkit::random::{StampedShape, stamped};

    #[test]
    fn ranges_and_threads_change_nothing() {
        let mut rng = fastrand::Rng::with_seed(5);
        let shape =
            StampedShape { txns: 30, lists: 0.5, wrong: 0.3, clock: 60, skewed: 0.05, ..Default::default() };
        for _ in 0..200 {
            let history = stamped(&mut rng, &shape);
            for mode in [Mode::Si, Mode::Ser] {
                let rule = Rule { mode, tie: Tie::Inclusive };
                let find = |limit, threads, ranges| {
                    find_in(&history, rule, limit, threads, ranges, &Budget::unlimited()).unwrap().unwrap()
                };
                for limit in [2, usize::MAX] {
                    let one = find(limit, 1, 1);
                    assert_eq!(find(limit, 1, 3), one);
                    assert_eq!(find(limit, 2, 3), one);
                }
            }
        }
    }

    #[test]
    fn a_spent_budget_ends_it() {
        let history = stamped(&mut fastrand::Rng::with_seed(1), &StampedShape::default());
        let rule = Rule { mode: Mode::Si, tie: Tie::Inclusive };
        assert_eq!(find(&history, rule, 9, NonZeroUsize::MIN, &Budget::new(&|| true)), Err(OutOfBudget));
    }
}
