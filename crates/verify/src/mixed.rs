//! Does an execution suit transactions of different levels?
//!
//! One order of commits for all, with the begins of those whose levels have snapshots; each transaction is
//! held to its own level: what it must follow, what its reads may be, what it may not overlook. Linear but
//! for causal transactions, as usual.

use crate::definition::{Kind, kind};
use crate::execution::{Commits, lists_repeat, reads_latest, repeats, sound_reads};
use crate::flaw::{Flaw, FlawKind};
use crate::levels::{keeps_real_time, keeps_sessions};
use crate::reading::{Reading, Source};
use crate::visible;
use anomalist_history::TxnId;
use anomalist_level::{Definitions, Level, Order, Point};

/// Whether transactions of a level take a snapshot at one moment and commit at another.
pub(crate) fn has_snapshot(level: Level) -> bool {
    kind(level).is_some_and(Kind::has_snapshot)
}

fn forbids_conflicts(level: Level) -> bool {
    kind(level) == Some(Kind::Snapshot)
}

fn is_serial(level: Level) -> bool {
    kind(level) == Some(Kind::Serial)
}

/// What a level makes visible to its readers.
type Visibility = for<'a, 'b> fn(&'a Commits<'b>) -> Result<(), Flaw>;

/// `None`: the level cannot be mixed with others, or has no definition.
fn visibility(level: Level) -> Option<Option<Visibility>> {
    Some(match kind(level)? {
        Kind::ReadCommitted => Some(|commits| visible::read_committed(commits, Definitions::Anomalist)),
        Kind::ReadAtomic => Some(visible::read_atomic),
        Kind::Causal => Some(visible::causal_in_any_order),
        Kind::ReadYourWrites => Some(visible::read_your_writes),
        Kind::MonotonicReads => Some(visible::monotonic_reads),
        Kind::MonotonicWrites => Some(visible::monotonic_writes),
        Kind::WritesFollowReads => Some(visible::writes_follow_reads),
        Kind::Serial | Kind::Prefix | Kind::Snapshot | Kind::Flow | Kind::Writes | Kind::Cut => None,
        Kind::Parallel | Kind::View | Kind::Updates => return None,
    })
}

/// Checks an execution against the definitions of the levels; `levels` has that of each transaction.
pub(crate) fn check(reading: &Reading<'_>, levels: &[Level], order: &Order) -> Result<(), Flaw> {
    let level = |t: TxnId| levels[t.index()];
    let judges_reads = |t: TxnId| !matches!(kind(level(t)), Some(Kind::Writes | Kind::Cut));
    for t in reading.txns() {
        let Some(kind) = kind(level(t)).filter(|_| visibility(level(t)).is_some()) else {
            return Err(Flaw::new(FlawKind::NoDefinition(level(t))));
        };
        if let Some((op, _)) =
            reading.facts.history.ops(t).find(|(op, _)| reading.source(*op) == Source::Open)
        {
            return Err(Flaw::new(FlawKind::OpenSource).ops([op]));
        }
        if judges_reads(t) {
            sound_reads(reading, kind, t)?;
        }
        if matches!(kind, Kind::Cut | Kind::ReadAtomic) {
            repeats(reading, t)?;
        }
    }
    lists_repeat(reading, |t| matches!(kind(level(t)), Some(Kind::ReadAtomic | Kind::Causal)))?;
    let events: Vec<Point> = match order {
        Order::Any => return Err(Flaw::new(FlawKind::WrongKind)),
        Order::Events(events) => events.clone(),
        Order::Commits(order) => {
            let in_range = |t: TxnId| t.index() < levels.len();
            let begins = |t: TxnId| (in_range(t) && has_snapshot(level(t))).then_some(Point::Begin(t));
            order.iter().flat_map(|&t| begins(t).into_iter().chain([Point::Commit(t)])).collect()
        }
    };
    let commits = events.iter().filter(|e| matches!(e, Point::Commit(_))).map(|e| e.txn()).collect();
    let mut commits = Commits::new(reading, commits)?;
    let forgiving = |t: TxnId| kind(level(t)).is_some_and(Kind::shows_remains);
    commits.makes_lists(forgiving)?;
    let mut forgiven = reading.txns().filter(|&t| kind(level(t)) == Some(Kind::Flow));
    forgiven.try_for_each(|t| commits.ignores_own_writes_only(t))?;
    replay(&commits, levels, &events)?;
    keeps_sessions_and_time(&commits, levels, &events)?;
    let asked = |wanted: &dyn Fn(TxnId) -> bool| -> Vec<bool> {
        reading.facts.history.txns().map(|t| reading.counts(t) && wanted(t)).collect()
    };
    commits.asked = Some(asked(&judges_reads));
    commits.reads_earlier()?;
    for &weak in Level::ALL.iter().filter(|weak| levels.contains(weak)) {
        if let Some(Some(check)) = visibility(weak) {
            commits.asked = Some(asked(&|t| level(t) == weak));
            check(&commits)?;
        }
    }
    Ok(())
}

/// Replays begins and commits: whose level has a snapshot reads what was latest when it began, a
/// serializable transaction what was latest when it committed; and where the level says so, no other
/// transaction has written its keys since it began.
fn replay(commits: &Commits<'_>, levels: &[Level], events: &[Point]) -> Result<(), Flaw> {
    let history = commits.reading.facts.history;
    let mut latest: Vec<Option<TxnId>> = vec![None; history.key_count()];
    // Places of events, from 1.
    let mut written_at = vec![0u32; history.key_count()];
    let mut began_at = vec![0u32; history.txn_count()];
    let mut ended: Vec<bool> = vec![false; history.txn_count()];
    for (&event, at) in events.iter().zip(1..) {
        let t = event.txn();
        if t.index() >= history.txn_count() {
            return Err(Flaw::new(FlawKind::NoSuchTransaction));
        }
        let level = levels[t.index()];
        if matches!(event, Point::Begin(_)) {
            let twice = began_at[t.index()] != 0 || ended[t.index()] || !commits.reading.counts(t);
            if twice || !has_snapshot(level) {
                return Err(Flaw::new(FlawKind::Twice).txns([t]));
            }
            began_at[t.index()] = at;
            reads_latest(commits, t, &latest)?;
            continue;
        }
        // `Commits` has seen that everybody who counts commits exactly once.
        ended[t.index()] = true;
        if has_snapshot(level) && began_at[t.index()] == 0 {
            return Err(Flaw::new(FlawKind::CommitBeforeBegin).txns([t]));
        }
        if is_serial(level) {
            reads_latest(commits, t, &latest)?;
        }
        for (key, _) in commits.reading.facts.written(t) {
            if forbids_conflicts(level) && written_at[key.index()] > began_at[t.index()] {
                let other = latest[key.index()];
                return Err(Flaw::new(FlawKind::WriteConflict).txns(other.into_iter().chain([t])));
            }
            written_at[key.index()] = at;
            latest[key.index()] = Some(t);
        }
    }
    Ok(())
}

/// Whose level has session order begins after everybody before it in its session; whose level has real
/// time, after everybody who had completed when it was invoked.
fn keeps_sessions_and_time(commits: &Commits<'_>, levels: &[Level], events: &[Point]) -> Result<(), Flaw> {
    let (reading, history) = (commits.reading, commits.reading.facts.history);
    let begins = |event: Point| match event {
        Point::Begin(_) => true,
        Point::Commit(t) => !has_snapshot(levels[t.index()]),
    };
    let mut began_at = vec![0u32; history.txn_count()];
    let mut committed_at = vec![0u32; history.txn_count()];
    for (&event, at) in events.iter().zip(1..) {
        if begins(event) {
            began_at[event.txn().index()] = at;
        }
        if matches!(event, Point::Commit(_)) {
            committed_at[event.txn().index()] = at;
        }
    }
    // Of each transaction and those before it in its session, the one that commits last. (A branch comes
    // after its trunk.)
    let mut last: Vec<Option<TxnId>> = vec![None; history.txn_count()];
    for t in reading.txns() {
        let predecessor = history.before_in_session(t).rfind(|&p| reading.counts(p));
        let latest = predecessor.and_then(|p| last[p.index()]);
        if let Some(before) = latest
            && keeps_sessions(levels[t.index()])
            && committed_at[before.index()] > began_at[t.index()]
        {
            return Err(Flaw::new(FlawKind::SessionOrder).txns([before, t]));
        }
        let earlier = |p: &TxnId| committed_at[p.index()] >= committed_at[t.index()];
        last[t.index()] = latest.filter(earlier).or(Some(t));
    }
    if !reading.txns().any(|t| keeps_real_time(levels[t.index()])) {
        return Ok(());
    }
    let Some(intervals) = history.intervals() else { return Err(Flaw::new(FlawKind::RealTime)) };
    // From the last event to the first, with the earliest completion among commits that come later.
    let mut earliest: Option<(u64, TxnId)> = None;
    for &event in events.iter().rev() {
        let t = event.txn();
        if let Some((completed, other)) = earliest
            && begins(event)
            && keeps_real_time(levels[t.index()])
            && completed < intervals[t.index()].invoked
        {
            return Err(Flaw::new(FlawKind::RealTime).txns([other, t]));
        }
        if let Some(completed) = reading.facts.end(t)
            && matches!(event, Point::Commit(_))
            && earliest.is_none_or(|(least, _)| completed < least)
        {
            earliest = Some((completed, t));
        }
    }
    Ok(())
}
