//! Does an execution suit transactions of different levels?
//!
//! One order of commits for all, with the begins of those whose levels have snapshots; each transaction is held to its own
//! level: what it must follow, what its reads may be, what it may not overlook. Linear but for causal transactions, as usual.

use crate::execution::{Commits, lists_repeat, reads_latest, repeats, sound_reads};
use crate::flaw::{Flaw, FlawKind};
use crate::reading::{Reading, Source};
use crate::visible;
use anomalist_history::TxnId;
use anomalist_level::{Definitions, Level, Order, Point};

/// Whether transactions of a level take a snapshot at one moment and commit at another.
pub(crate) fn has_snapshot(level: Level) -> bool {
    level == Level::Prefix || forbids_conflicts(level)
}

fn forbids_conflicts(level: Level) -> bool {
    use Level::{SnapshotIsolation, StrongSessionSnapshotIsolation, StrongSnapshotIsolation};
    matches!(level, SnapshotIsolation | StrongSessionSnapshotIsolation | StrongSnapshotIsolation)
}

fn is_serial(level: Level) -> bool {
    use Level::{RepeatableRead, Serializable, StrictSerializable, StrongSessionSerializable};
    matches!(level, RepeatableRead | Serializable | StrongSessionSerializable | StrictSerializable)
}

/// What a level makes visible to its readers.
type Visibility = for<'a, 'b> fn(&'a Commits<'b>) -> Result<(), Flaw>;

const VISIBLE: [(Level, Visibility); 7] = [
    (Level::ReadCommitted, |commits| visible::read_committed(commits, Definitions::Anomalist)),
    (Level::ReadAtomic, visible::read_atomic),
    (Level::Causal, visible::causal_in_any_order),
    (Level::ReadYourWrites, visible::read_your_writes),
    (Level::MonotonicReads, visible::monotonic_reads),
    (Level::MonotonicWrites, visible::monotonic_writes),
    (Level::WritesFollowReads, visible::writes_follow_reads),
];

/// Checks an execution against the definitions of the levels; `levels` has that of each transaction.
pub(crate) fn check(reading: &Reading<'_>, levels: &[Level], order: &Order) -> Result<(), Flaw> {
    let level = |t: TxnId| levels[t.index()];
    let judges_reads = |t: TxnId| !matches!(level(t), Level::ReadUncommitted | Level::CutIsolation);
    for t in reading.txns() {
        let known = [Level::ReadUncommitted, Level::AdyaReadCommitted, Level::CutIsolation];
        let weak = VISIBLE.iter().any(|(l, _)| *l == level(t));
        if !known.contains(&level(t)) && !weak && !has_snapshot(level(t)) && !is_serial(level(t)) {
            return Err(Flaw::new(FlawKind::NoDefinition(level(t))));
        }
        if let Some((op, _)) =
            reading.facts.history.ops(t).find(|(op, _)| reading.source(*op) == Source::Open)
        {
            return Err(Flaw::new(FlawKind::OpenSource).ops([op]));
        }
        if judges_reads(t) {
            sound_reads(reading, level(t), t)?;
        }
        if matches!(level(t), Level::CutIsolation | Level::ReadAtomic) {
            repeats(reading, t)?;
        }
    }
    lists_repeat(reading, |t| matches!(level(t), Level::ReadAtomic | Level::Causal))?;
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
    let forgiving = |t: TxnId| matches!(level(t), Level::ReadUncommitted | Level::AdyaReadCommitted);
    commits.makes_lists(forgiving)?;
    let mut forgiven = reading.txns().filter(|&t| level(t) == Level::AdyaReadCommitted);
    forgiven.try_for_each(|t| commits.ignores_own_writes_only(t))?;
    replay(&commits, levels, &events)?;
    keeps_sessions_and_time(&commits, levels, &events)?;
    let asked = |wanted: &dyn Fn(TxnId) -> bool| -> Vec<bool> {
        reading.facts.history.txns().map(|t| reading.counts(t) && wanted(t)).collect()
    };
    commits.asked = Some(asked(&judges_reads));
    commits.reads_earlier()?;
    for (weak, check) in VISIBLE.iter().filter(|(weak, _)| levels.contains(weak)) {
        commits.asked = Some(asked(&|t| level(t) == *weak));
        check(&commits)?;
    }
    Ok(())
}

/// Replays begins and commits: whose level has a snapshot reads what was latest when it began, a serializable transaction
/// what was latest when it committed; and where the level says so, nobody else has written its keys since it began.
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

/// Whose level has session order begins after everybody before it in its session; whose level has real time, after everybody
/// who had completed when it was invoked.
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
    // Of each transaction and those before it in its session, the one that commits last. (A branch comes after its trunk.)
    let mut last: Vec<Option<TxnId>> = vec![None; history.txn_count()];
    for t in reading.txns() {
        let predecessor = history.before_in_session(t).rfind(|&p| reading.counts(p));
        let latest = predecessor.and_then(|p| last[p.index()]);
        if let Some(before) = latest
            && levels[t.index()].info().session_order
            && committed_at[before.index()] > began_at[t.index()]
        {
            return Err(Flaw::new(FlawKind::SessionOrder).txns([before, t]));
        }
        let earlier = |p: &TxnId| committed_at[p.index()] >= committed_at[t.index()];
        last[t.index()] = latest.filter(earlier).or(Some(t));
    }
    if !reading.txns().any(|t| levels[t.index()].info().real_time) {
        return Ok(());
    }
    let Some(intervals) = history.intervals() else { return Err(Flaw::new(FlawKind::RealTime)) };
    // From the last event to the first, with the earliest completion among commits that come later.
    let mut earliest: Option<(u64, TxnId)> = None;
    for &event in events.iter().rev() {
        let t = event.txn();
        if let Some((completed, other)) = earliest
            && begins(event)
            && levels[t.index()].info().real_time
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
