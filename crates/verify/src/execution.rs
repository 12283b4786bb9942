//! Does an execution satisfy a level?
//!
//! Everything that needs no more than the places of transactions in the order is here: that the order is
//! complete, keeps sessions and real time, never reads ahead, and makes lists what they were seen to be;
//! then serial replay and snapshot replay. What a weak level counts as visible is in `visible.rs`.

use crate::definition::{Definition, Kind, definition};
use crate::flaw::{Flaw, FlawKind};
use crate::reading::{External, Fault, Reading, Source};
use crate::{updates, visible};
use anomalist_history::{KeyId, OpId, OpKind, TxnId};
use anomalist_level::{Definitions, Level, Order, Point};
use rustc_hash::FxHashMap;

/// Place of the initial state: before every transaction.
pub(crate) const INITIAL: u32 = 0;

/// Transactions that count, in order of commit; places start at 1.
pub(crate) struct Commits<'a> {
    pub reading: &'a Reading<'a>,
    pub order: Vec<TxnId>,
    place: Vec<u32>,
    /// Whose reads are looked at; all if that is not said.
    pub asked: Option<Vec<bool>>,
}

impl<'a> Commits<'a> {
    pub fn new(reading: &'a Reading<'a>, order: Vec<TxnId>) -> Result<Commits<'a>, Flaw> {
        let mut place = vec![INITIAL; reading.facts.history.txn_count()];
        for (&t, at) in order.iter().zip(1..) {
            match place.get_mut(t.index()) {
                None => return Err(Flaw::new(FlawKind::NoSuchTransaction)),
                Some(slot) if *slot == INITIAL && reading.counts(t) => *slot = at,
                Some(_) => return Err(Flaw::new(FlawKind::Twice).txns([t])),
            }
        }
        if let Some(missing) = reading.txns().find(|t| place[t.index()] == INITIAL) {
            return Err(Flaw::new(FlawKind::Missing).txns([missing]));
        }
        Ok(Commits { reading, order, place, asked: None })
    }

    /// Whether the reads of a transaction are looked at.
    pub fn asks(&self, t: TxnId) -> bool {
        self.asked.as_ref().is_none_or(|asked| asked[t.index()])
    }

    /// The reads that the level holds a transaction to, in program order.
    pub fn reads(&self, t: TxnId) -> impl DoubleEndedIterator<Item = External> + '_ {
        self.reading.external(t)
    }

    /// Where a transaction that counts stands.
    pub fn place(&self, t: TxnId) -> u32 {
        self.place[t.index()]
    }

    /// Where the writer of an external read stands.
    pub fn place_read(&self, read: External) -> u32 {
        self.reading.writer(read).map_or(INITIAL, |w| self.place(w))
    }

    fn keeps_sessions(&self) -> Result<(), Flaw> {
        let history = self.reading.facts.history;
        for t in self.reading.txns() {
            let before = history.before_in_session(t).rfind(|&p| self.reading.counts(p));
            if let Some(before) = before.filter(|&before| self.place(before) > self.place(t)) {
                return Err(Flaw::new(FlawKind::SessionOrder).txns([before, t]));
            }
        }
        Ok(())
    }

    /// No transaction reads from a later transaction.
    pub fn reads_earlier(&self) -> Result<(), Flaw> {
        for &t in self.order.iter().filter(|&&t| self.asks(t)) {
            let ahead = self.reads(t).find(|&r| self.place_read(r) > self.place(t));
            if let Some(read) = ahead {
                return Err(Flaw::new(FlawKind::ReadsLater).txns([t]).ops([read.op]));
            }
        }
        Ok(())
    }

    /// Every list shows the first so many appends to its key, by commit and then program order. Of a faulty
    /// one that is asked of what remains of it, if its reader's level forgives the fault.
    pub fn makes_lists(&self, forgiving: impl Fn(TxnId) -> bool) -> Result<(), Flaw> {
        let history = self.reading.facts.history;
        let mut appends: FxHashMap<KeyId, Vec<OpId>> = FxHashMap::default();
        for &t in &self.order {
            for (op, o) in history.ops(t) {
                if o.kind == OpKind::Append {
                    appends.entry(o.key).or_default().push(op);
                }
            }
        }
        let agrees = |read: OpId, shown: &[OpId]| {
            let all = appends.get(&history.op(read).key).map_or(&[][..], Vec::as_slice);
            if all.starts_with(shown) { Ok(()) } else { Err(Flaw::new(FlawKind::ListOrder).ops([read])) }
        };
        self.reading.lists().try_for_each(|(read, shown)| agrees(read, shown))?;
        for &t in self.order.iter().filter(|&&t| forgiving(t)) {
            for (read, op) in history.ops(t).filter(|(_, op)| self.reading.facts.is_list_key(op.key)) {
                let remains = self.reading.remains(read).filter(|_| op.kind == OpKind::Read);
                remains.map_or(Ok(()), |shown| agrees(read, shown))?;
            }
        }
        Ok(())
    }

    /// PL-2 forgives a transaction's ignoring its own writes. What it read instead must still be final, and
    /// of an earlier transaction.
    pub fn ignores_own_writes_only(&self, t: TxnId) -> Result<(), Flaw> {
        let reading = self.reading;
        let faulty = |op: &OpId| matches!(reading.source(*op), Source::Fault(_));
        let suits = |write: OpId| {
            let writer = reading.facts.owner(write);
            reading.counts(writer) && reading.facts.is_final(write) && self.place(writer) < self.place(t)
        };
        for (op, read) in reading.facts.history.ops(t).filter(|(op, _)| faulty(op)) {
            let flaw = match reading.remains(op).map(<[OpId]>::last) {
                // Nothing else depends on which of several writers of the value it was.
                None if reading
                    .facts
                    .candidates(t, read.key, read.value)
                    .iter()
                    .any(|w| w.is_none_or(suits)) =>
                {
                    continue;
                }
                None => FlawKind::OpenSource,
                Some(Some(&write)) if reading.facts.owner(write) != t => {
                    if !reading.facts.is_final(write) {
                        FlawKind::IntermediateRead
                    } else if self.place(reading.facts.owner(write)) > self.place(t) {
                        FlawKind::ReadsLater
                    } else {
                        continue;
                    }
                }
                Some(_) => continue,
            };
            return Err(Flaw::new(flaw).txns([t]).ops([op]));
        }
        Ok(())
    }
}

/// Checks an execution against the definition of a level.
pub(crate) fn check(
    reading: &Reading<'_>,
    level: Level,
    order: &Order,
    definitions: Definitions,
) -> Result<(), Flaw> {
    let Some(definition) = definition(level) else { return Err(Flaw::new(FlawKind::NoDefinition(level))) };
    let kind = definition.kind;
    if kind == Kind::Cut {
        repeatable(reading)?;
        if definitions == Definitions::Plume {
            reading.txns().try_for_each(|t| repeats_after_own(reading, t))?;
        }
        return lists_are_versions(reading);
    }
    let commits = match order {
        Order::Any => return Err(Flaw::new(FlawKind::WrongKind)),
        Order::Commits(order) => order.clone(),
        Order::Events(events) => {
            events.iter().filter(|e| matches!(e, Point::Commit(_))).map(|e| e.txn()).collect()
        }
    };
    let commits = Commits::new(reading, commits)?;
    if definition.sessions {
        commits.keeps_sessions()?;
    }
    commits.makes_lists(|_| kind.shows_remains())?;
    if kind == Kind::Writes {
        return Ok(());
    }
    commits.reads_earlier()?;
    reading.txns().try_for_each(|t| sound_reads(reading, kind, t))?;
    if definition.real_time && !kind.has_snapshot() {
        real_time(&commits, commits.order.iter().map(|&t| Point::Commit(t)), true)?;
    }
    match kind {
        Kind::Flow => reading.txns().try_for_each(|t| commits.ignores_own_writes_only(t)),
        Kind::ReadCommitted => visible::read_committed(&commits, definitions),
        Kind::ReadAtomic => {
            repeatable(reading)?;
            lists_repeat(reading, |_| true)?;
            visible::read_atomic(&commits)
        }
        Kind::Causal => {
            lists_repeat(reading, |_| true)?;
            visible::causal(&commits)
        }
        Kind::ReadYourWrites => visible::read_your_writes(&commits),
        Kind::MonotonicReads => visible::monotonic_reads(&commits),
        Kind::MonotonicWrites => visible::monotonic_writes(&commits),
        Kind::WritesFollowReads => visible::writes_follow_reads(&commits),
        Kind::Parallel => visible::parallel_snapshot(&commits),
        Kind::Updates => updates::update_serializable(&commits),
        Kind::Serial => serial(&commits),
        Kind::Prefix | Kind::Snapshot => {
            let events = match order {
                Order::Events(events) => events.clone(),
                _ => commits.order.iter().flat_map(|&t| [Point::Begin(t), Point::Commit(t)]).collect(),
            };
            snapshots(&commits, definition, &events)
        }
        // The first two were judged above.
        Kind::Cut | Kind::Writes | Kind::View => Err(Flaw::new(FlawKind::NoDefinition(level))),
    }
}

/// No transaction has read a key from two transactions.
fn repeatable(reading: &Reading<'_>) -> Result<(), Flaw> {
    reading.txns().try_for_each(|t| repeats(reading, t))
}

/// A list read, and the appends that it shows.
type Shown<'a> = (OpId, &'a [OpId]);

/// Where elements were appended more than once, what lists show is a choice, and must be versions of the
/// key in some order of its writers: each begins the longest, in which every transaction's appends stand
/// together, in program order and complete but for the last.
fn lists_are_versions(reading: &Reading<'_>) -> Result<(), Flaw> {
    let (facts, history) = (reading.facts, reading.facts.history);
    let mut by_key: FxHashMap<KeyId, (bool, Vec<Shown<'_>>)> = FxHashMap::default();
    for (read, shown) in reading.lists() {
        let key = history.op(read).key;
        let reader = facts.owner(read);
        let choice = |&append: &OpId| facts.candidates(reader, key, history.op(append).value).len() > 1;
        let (chosen, lists) = by_key.entry(key).or_default();
        *chosen |= shown.iter().any(choice);
        lists.push((read, shown));
    }
    for (key, (_, lists)) in by_key.into_iter().filter(|(_, (chosen, _))| *chosen) {
        let Some(&(last, longest)) = lists.iter().max_by_key(|(_, shown)| shown.len()) else { continue };
        let stray = lists.iter().find(|(_, shown)| !longest.starts_with(shown));
        if let Some(&(read, _)) = stray {
            return Err(Flaw::new(FlawKind::ListOrder).ops([read, last]));
        }
        let mut rest = longest;
        let mut met: Vec<TxnId> = Vec::new();
        while let Some(&first) = rest.first() {
            let t = facts.owner(first);
            let own = history.ops(t).filter(|(_, o)| o.kind == OpKind::Append && o.key == key);
            let own: Vec<OpId> = own.map(|(op, _)| op).collect();
            let run = own.len().min(rest.len());
            let partial = || rest.iter().all(|&append| facts.owner(append) == t) && own.starts_with(rest);
            if met.contains(&t) || !rest.starts_with(&own) && !partial() {
                return Err(Flaw::new(FlawKind::ListOrder).ops([last]));
            }
            met.push(t);
            rest = &rest[run..];
        }
    }
    Ok(())
}

/// The transaction has read no key from two transactions.
pub(crate) fn repeats(reading: &Reading<'_>, t: TxnId) -> Result<(), Flaw> {
    let mut first: FxHashMap<KeyId, External> = FxHashMap::default();
    let open = reading.facts.history.ops(t).find(|(op, _)| reading.source(*op) == Source::Open);
    if let Some((op, _)) = open {
        return Err(Flaw::new(FlawKind::OpenSource).ops([op]));
    }
    for read in reading.external(t) {
        let earlier = *first.entry(read.key).or_insert(read);
        if reading.writer(earlier) != reading.writer(read) {
            return Err(Flaw::new(FlawKind::NonRepeatable).ops([earlier.op, read.op]));
        }
    }
    Ok(())
}

/// The same with reads that follow own writes of the key and yet return another transaction's value, as
/// Plume has it.
fn repeats_after_own(reading: &Reading<'_>, t: TxnId) -> Result<(), Flaw> {
    let mut first: FxHashMap<KeyId, (OpId, Option<TxnId>)> = FxHashMap::default();
    for (op, o) in reading.facts.history.ops(t).filter(|(_, o)| !reading.facts.is_list_key(o.key)) {
        let external = match reading.source(op) {
            Source::Fault(Fault::NotMyOwnWrite) => {
                reading.after_own(op).ok_or_else(|| Flaw::new(FlawKind::OpenSource).ops([op]))?
            }
            Source::From(write) => Some(write),
            Source::Initial => None,
            _ => continue,
        };
        let writer = external.map(|write| reading.facts.owner(write));
        let &mut (earlier, from) = first.entry(o.key).or_insert((op, writer));
        if from != writer {
            return Err(Flaw::new(FlawKind::NonRepeatable).ops([earlier, op]));
        }
    }
    Ok(())
}

/// All reads of a list by one transaction, if its lists matter, show the same appends of others.
pub(crate) fn lists_repeat(reading: &Reading<'_>, matters: impl Fn(TxnId) -> bool) -> Result<(), Flaw> {
    let mut first: FxHashMap<(TxnId, KeyId), OpId> = FxHashMap::default();
    for (read, shown) in reading.lists().filter(|(read, _)| matters(reading.facts.owner(*read))) {
        let key = reading.facts.history.op(read).key;
        let earlier = *first.entry((reading.facts.owner(read), key)).or_insert(read);
        if reading.shown(earlier) != Some(shown) {
            return Err(Flaw::new(FlawKind::NonRepeatable).ops([earlier, read]));
        }
    }
    Ok(())
}

/// No read of the transaction is wrong whatever the order. PL-2 does not ask that it reads its own writes.
pub(crate) fn sound_reads(reading: &Reading<'_>, kind: Kind, t: TxnId) -> Result<(), Flaw> {
    for (op, _) in reading.facts.history.ops(t) {
        let flaw = match reading.source(op) {
            Source::Open => FlawKind::OpenSource,
            Source::Fault(Fault::NotMyOwnWrite | Fault::NotMyLastWrite) if kind == Kind::Flow => {
                continue;
            }
            Source::Fault(_) => FlawKind::FaultyRead,
            Source::From(write) if !reading.facts.is_final(write) => FlawKind::IntermediateRead,
            _ => continue,
        };
        return Err(Flaw::new(flaw).ops([op]));
    }
    Ok(())
}

/// Replays the transactions one after another: each reads the latest versions.
fn serial(commits: &Commits<'_>) -> Result<(), Flaw> {
    let mut latest: Vec<Option<TxnId>> = vec![None; commits.reading.facts.history.key_count()];
    for &t in &commits.order {
        reads_latest(commits, t, &latest)?;
        for (key, _) in commits.reading.facts.written(t) {
            latest[key.index()] = Some(t);
        }
    }
    Ok(())
}

/// Every read of a transaction returns the latest version of its key, below the transaction's own writes.
pub(crate) fn reads_latest(commits: &Commits<'_>, t: TxnId, latest: &[Option<TxnId>]) -> Result<(), Flaw> {
    for read in commits.reads(t) {
        if commits.reading.writer(read) != latest[read.key.index()] {
            return Err(Flaw::new(FlawKind::StaleRead).ops([read.op]));
        }
    }
    Ok(())
}

/// Replays begins and commits: a transaction reads what was latest when it began, and (not for prefix
/// consistency) no other transaction writes its keys before it commits.
fn snapshots(commits: &Commits<'_>, definition: Definition, events: &[Point]) -> Result<(), Flaw> {
    let history = commits.reading.facts.history;
    let mut latest: Vec<Option<TxnId>> = vec![None; history.key_count()];
    // Places of events, from 1.
    let mut written_at = vec![0u32; history.key_count()];
    let mut began_at = vec![0u32; history.txn_count()];
    let mut ended: Vec<bool> = vec![false; history.txn_count()];
    let mut open = 0usize;
    for (&event, at) in events.iter().zip(1..) {
        let t = event.txn();
        if t.index() >= history.txn_count() {
            return Err(Flaw::new(FlawKind::NoSuchTransaction));
        }
        match event {
            Point::Begin(_) => {
                if began_at[t.index()] != 0 || ended[t.index()] || !commits.reading.counts(t) {
                    return Err(Flaw::new(FlawKind::Twice).txns([t]));
                }
                began_at[t.index()] = at;
                open += 1;
                reads_latest(commits, t, &latest)?;
            }
            Point::Commit(_) => {
                // `Commits` has seen that everybody who counts commits exactly once.
                if began_at[t.index()] == 0 {
                    return Err(Flaw::new(FlawKind::CommitBeforeBegin).txns([t]));
                }
                ended[t.index()] = true;
                open -= 1;
                for (key, _) in commits.reading.facts.written(t) {
                    let written = written_at[key.index()] > began_at[t.index()];
                    if written && definition.kind == Kind::Snapshot {
                        let other = latest[key.index()];
                        return Err(Flaw::new(FlawKind::WriteConflict).txns(other.into_iter().chain([t])));
                    }
                    written_at[key.index()] = at;
                    latest[key.index()] = Some(t);
                }
            }
        }
    }
    debug_assert_eq!(open, 0, "everybody commits");
    if definition.sessions {
        snapshots_keep_sessions(commits.reading, events)?;
    }
    if definition.real_time {
        real_time(commits, events.iter().copied(), false)?;
    }
    Ok(())
}

/// A snapshot contains what its session committed before.
fn snapshots_keep_sessions(reading: &Reading<'_>, events: &[Point]) -> Result<(), Flaw> {
    let history = reading.facts.history;
    let mut committed = vec![false; history.txn_count()];
    for &event in events {
        let t = event.txn();
        match event {
            Point::Begin(_) => {
                let before = history.before_in_session(t).rfind(|&p| reading.counts(p));
                if let Some(before) = before.filter(|before| !committed[before.index()]) {
                    return Err(Flaw::new(FlawKind::SessionOrder).txns([before, t]));
                }
            }
            Point::Commit(_) => committed[t.index()] = true,
        }
    }
    Ok(())
}

/// Any transaction that had completed when another was invoked commits before the other begins. From the
/// last point to the first, with the earliest completion among commits that come later. With `single`, a
/// commit is its transaction's begin as well.
fn real_time(
    commits: &Commits<'_>,
    points: impl DoubleEndedIterator<Item = Point>,
    single: bool,
) -> Result<(), Flaw> {
    let history = commits.reading.facts.history;
    let Some(intervals) = history.intervals() else { return Err(Flaw::new(FlawKind::RealTime)) };
    let mut earliest: Option<(u64, TxnId)> = None;
    for point in points.rev() {
        let t = point.txn();
        if (single || matches!(point, Point::Begin(_)))
            && let Some((completed, other)) = earliest
            && completed < intervals[t.index()].invoked
        {
            return Err(Flaw::new(FlawKind::RealTime).txns([other, t]));
        }
        if matches!(point, Point::Commit(_))
            && let Some(completed) = commits.reading.facts.end(t)
            && earliest.is_none_or(|(least, _)| completed < least)
        {
            earliest = Some((completed, t));
        }
    }
    Ok(())
}
