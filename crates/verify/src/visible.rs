//! The weak levels' axiom, looked up in a given order of commits.
//!
//! Whenever `t3` reads `x` from `t1`, every other writer `t2` of `x` that is visible to the read comes
//! before `t1` (Biswas & Enea 2019). Since the order is given, "all visible writers come before" is "the
//! latest visible writer comes no later than `t1`", so it is enough to know, per read, the latest place of
//! a visible writer of its key. What is visible:
//!
//! | level | `t2` is visible to a read of `t3` | cost |
//! |---|---|---|
//! | read committed | `t3` read from it before (by Plume's definition: another key) | m^{3/2} |
//! | read atomic | `t3` reads from it, or follows it in the session | the same |
//! | causal | it happens before `t3` | m × sessions |
//! | session guarantees | `so`, `wr;so`, `so;wr`, `wr;so;wr` | m × sessions |
//! | parallel snapshot | a path of `so`, `wr` and version order leads to `t3` | m × sessions |
//!
//! The first two cost Σ min(keys `t2` writes, keys `t3` reads) ≤ m^{3/2}.

use crate::execution::Commits;
use crate::flaw::{Flaw, FlawKind};
use crate::reading::External;
use anomalist_history::{History, KeyId, SessionId, TxnId};
use anomalist_level::Definitions;
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;

fn overlooked(read: External, t2: TxnId) -> Flaw {
    Flaw::new(FlawKind::Overlooked).txns([t2]).ops([read.op])
}

/// Who writes what, with questions that avoid going through the larger side.
struct Writes {
    keys: Vec<Vec<KeyId>>,
    pairs: FxHashSet<(TxnId, KeyId)>,
}

impl Writes {
    fn new(commits: &Commits<'_>) -> Writes {
        let mut keys = vec![Vec::new(); commits.reading.facts.history.txn_count()];
        let mut pairs = FxHashSet::default();
        for &t in &commits.order {
            keys[t.index()] = commits.reading.facts.written(t).map(|(key, _)| key).collect();
            pairs.extend(keys[t.index()].iter().map(|&key| (t, key)));
        }
        Writes { keys, pairs }
    }

    /// The keys of `read` that `t` writes.
    fn among(&self, t: TxnId, read: &FxHashMap<KeyId, External>) -> Vec<External> {
        let keys = &self.keys[t.index()];
        if keys.len() <= read.len() {
            keys.iter().filter_map(|key| read.get(key).copied()).collect()
        } else {
            read.values().copied().filter(|r| self.pairs.contains(&(t, r.key))).collect()
        }
    }
}

/// Keeps, per key, the read whose source comes earliest: the one that a visible writer contradicts first.
fn keep_earliest(commits: &Commits<'_>, earliest: &mut FxHashMap<KeyId, External>, read: External) {
    let kept = earliest.entry(read.key).or_insert(read);
    if commits.place_read(read) < commits.place_read(*kept) {
        *kept = read;
    }
}

/// Visible: who the transaction read from before this read; by Plume's RC-(4), read another key from.
///
/// Going backwards, a writer is held against all later reads of its keys when its first read is met.
/// Plume's leaves out the key of that read, which is held against the first read of another key from the
/// writer.
pub(crate) fn read_committed(commits: &Commits<'_>, definitions: Definitions) -> Result<(), Flaw> {
    let plume = definitions == Definitions::Plume;
    let writes = Writes::new(commits);
    let mut later: FxHashMap<KeyId, External> = FxHashMap::default();
    // The first read from each writer, and the first of another key.
    let mut first_read: FxHashMap<TxnId, (External, Option<External>)> = FxHashMap::default();
    for &t3 in commits.order.iter().filter(|&&t| commits.asks(t)) {
        later.clear();
        first_read.clear();
        for read in commits.reads(t3) {
            if let Some(t2) = commits.reading.writer(read) {
                let (first, other) = first_read.entry(t2).or_insert((read, None));
                if read.key != first.key {
                    other.get_or_insert(read);
                }
            }
        }
        for read in commits.reads(t3).rev() {
            let from = commits.reading.writer(read).and_then(|t2| Some((t2, first_read.get(&t2)?)));
            if let Some((t2, &(first, other))) = from {
                let mut reads = Vec::new();
                if first.op == read.op {
                    reads = writes.among(t2, &later);
                    reads.retain(|r| !plume || r.key != first.key);
                } else if plume && other.is_some_and(|other| other.op == read.op) {
                    let of_first = later.get(&first.key).copied();
                    reads.extend(of_first.filter(|r| writes.pairs.contains(&(t2, r.key))));
                }
                if let Some(bad) = contradicted(commits, t2, reads) {
                    return Err(overlooked(bad, t2));
                }
            }
            keep_earliest(commits, &mut later, read);
        }
    }
    Ok(())
}

/// The read whose source comes before `t2`.
fn contradicted(commits: &Commits<'_>, t2: TxnId, reads: Vec<External>) -> Option<External> {
    reads.into_iter().find(|&r| commits.place_read(r) < commits.place(t2))
}

/// Visible: who the transaction reads from, and earlier transactions of its session.
pub(crate) fn read_atomic(commits: &Commits<'_>) -> Result<(), Flaw> {
    let writes = Writes::new(commits);
    let mut reads: FxHashMap<KeyId, External> = FxHashMap::default();
    for &t3 in commits.order.iter().filter(|&&t| commits.asks(t)) {
        reads.clear();
        for read in commits.reads(t3) {
            keep_earliest(commits, &mut reads, read);
        }
        let sources: FxHashSet<TxnId> = commits.reads(t3).filter_map(|r| commits.reading.writer(r)).collect();
        for t2 in sources {
            if let Some(bad) = contradicted(commits, t2, writes.among(t2, &reads)) {
                return Err(overlooked(bad, t2));
            }
        }
    }
    read_your_writes(commits)
}

/// The two writers that come last: a transaction's own writes do not count, and it may be the last itself.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Two {
    last: TxnId,
    before: Option<TxnId>,
}

impl Two {
    /// With one more.
    fn with(two: Option<Two>, commits: &Commits<'_>, t: TxnId) -> Two {
        let Some(two) = two else { return Two { last: t, before: None } };
        if t == two.last || Some(t) == two.before {
            two
        } else if commits.place(t) > commits.place(two.last) {
            Two { last: t, before: Some(two.last) }
        } else if two.before.is_none_or(|b| commits.place(t) > commits.place(b)) {
            Two { before: Some(t), ..two }
        } else {
            two
        }
    }

    /// The last one that is not this transaction.
    fn other_than(self, t: TxnId) -> Option<TxnId> {
        if self.last == t { self.before } else { Some(self.last) }
    }
}

/// The writers of each key that come last.
type Latest = FxHashMap<KeyId, Two>;

fn note_writer(commits: &Commits<'_>, latest: &mut Latest, key: KeyId, t: TxnId) {
    let two = Two::with(latest.get(&key).copied(), commits, t);
    latest.insert(key, two);
}

/// Goes through each session with what it has seen so far: `learn` adds it after each transaction.
fn by_session(
    commits: &Commits<'_>,
    mut learn: impl FnMut(SessionId, TxnId, &mut Latest),
) -> Result<(), Flaw> {
    let history = commits.reading.facts.history;
    let mut seen = Latest::default();
    let mut last: Option<SessionId> = None;
    for t3 in commits.reading.txns() {
        let session = history.session_of(t3);
        if last.replace(session) != Some(session) {
            seen.clear();
            // Those of another session, which this one branches off.
            let before = history.before_in_session(t3).filter(|&t| commits.reading.counts(t));
            before.for_each(|t| learn(session, t, &mut seen));
        }
        for read in commits.reads(t3) {
            if let Some(t2) = seen.get(&read.key).and_then(|two| two.other_than(t3))
                && commits.asks(t3)
                && commits.place(t2) > commits.place_read(read)
            {
                return Err(overlooked(read, t2));
            }
        }
        learn(session, t3, &mut seen);
    }
    Ok(())
}

/// Visible: earlier transactions of the session.
pub(crate) fn read_your_writes(commits: &Commits<'_>) -> Result<(), Flaw> {
    by_session(commits, |_, t, seen| {
        for (key, _) in commits.reading.facts.written(t) {
            note_writer(commits, seen, key, t);
        }
    })
}

/// Visible: who earlier transactions of the session read from.
pub(crate) fn monotonic_reads(commits: &Commits<'_>) -> Result<(), Flaw> {
    let mut learnt: FxHashSet<(SessionId, TxnId)> = FxHashSet::default();
    by_session(commits, |session, t, seen| {
        for t2 in commits.reads(t).filter_map(|r| commits.reading.writer(r)) {
            if learnt.insert((session, t2)) {
                for (key, _) in commits.reading.facts.written(t2) {
                    note_writer(commits, seen, key, t2);
                }
            }
        }
    })
}

/// Per session and key: transactions of the session, ascending, and which writers are visible from each on.
type Visible = FxHashMap<(SessionId, KeyId), Vec<(TxnId, Two)>>;

fn add_visible(commits: &Commits<'_>, visible: &mut Visible, at: TxnId, key: KeyId, writer: TxnId) {
    let session = commits.reading.facts.history.session_of(at);
    let seen = visible.entry((session, key)).or_default();
    let last = seen.last().map(|&(_, two)| two);
    let two = Two::with(last, commits, writer);
    if last != Some(two) {
        seen.push((at, two));
    }
}

/// No read overlooks what is visible before (in session order) a transaction that its own transaction reads
/// from.
fn before_sources(commits: &Commits<'_>, visible: &Visible) -> Result<(), Flaw> {
    let history = commits.reading.facts.history;
    // By session, the end of its part before the latest source: what is visible there includes what is
    // visible before earlier ones.
    let mut sources: FxHashMap<SessionId, u32> = FxHashMap::default();
    for &t3 in commits.order.iter().filter(|&&t| commits.asks(t)) {
        sources.clear();
        for w in commits.reads(t3).filter_map(|r| commits.reading.writer(r)) {
            let session = history.trunk(w);
            let end = sources.entry(session).or_default();
            *end = (*end).max(history.part_before(session, w).end);
        }
        for read in commits.reads(t3) {
            for (&session, &end) in &sources {
                let Some(seen) = visible.get(&(session, read.key)) else { continue };
                let before = seen.partition_point(|&(at, _)| at.0 < end);
                if let Some(t2) = seen[..before].last().and_then(|(_, two)| two.other_than(t3))
                    && commits.place(t2) > commits.place_read(read)
                {
                    return Err(overlooked(read, t2));
                }
            }
        }
    }
    Ok(())
}

/// Visible: transactions that precede, in its session, one that this transaction reads from.
pub(crate) fn monotonic_writes(commits: &Commits<'_>) -> Result<(), Flaw> {
    let mut visible = Visible::default();
    for t in commits.reading.txns() {
        for (key, _) in commits.reading.facts.written(t) {
            add_visible(commits, &mut visible, t, key, t);
        }
    }
    before_sources(commits, &visible)
}

/// Visible: who was read from before, in its session, one that this transaction reads from.
pub(crate) fn writes_follow_reads(commits: &Commits<'_>) -> Result<(), Flaw> {
    let mut visible = Visible::default();
    let mut learnt: FxHashSet<(SessionId, TxnId)> = FxHashSet::default();
    for t in commits.reading.txns() {
        let session = commits.reading.facts.history.session_of(t);
        for t2 in commits.reads(t).filter_map(|r| commits.reading.writer(r)) {
            if learnt.insert((session, t2)) {
                for (key, _) in commits.reading.facts.written(t2) {
                    add_visible(commits, &mut visible, t, key, t2);
                }
            }
        }
    }
    before_sources(commits, &visible)
}

/// Visible: everything that happens before.
pub(crate) fn causal(commits: &Commits<'_>) -> Result<(), Flaw> {
    by_clocks(commits, false)
}

/// Visible: everything from which session order, reads and version order lead here.
pub(crate) fn parallel_snapshot(commits: &Commits<'_>) -> Result<(), Flaw> {
    by_clocks(commits, true)
}

/// Visible: everything that happens before, in an order that need not agree with that.
///
/// What has been seen is worked out by going over the order until nothing changes: once, if the order
/// agrees.
pub(crate) fn causal_in_any_order(commits: &Commits<'_>) -> Result<(), Flaw> {
    let history = commits.reading.facts.history;
    let predecessors = predecessors(commits, false);
    let mut clocks: Vec<Clock> = vec![Clock::default(); history.txn_count()];
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for &t in &commits.order {
            let mut clock = clocks[t.index()].clone();
            for &p in &predecessors[t.index()] {
                clock = merge(&merge(&clock, &clocks[p.index()]), &seen(history, p));
            }
            if clock != clocks[t.index()] {
                clocks[t.index()] = clock;
                changed = true;
            }
        }
    }
    let mut writers: FxHashMap<(SessionId, KeyId), Vec<TxnId>> = FxHashMap::default();
    for t in commits.reading.txns() {
        for (key, _) in commits.reading.facts.written(t) {
            writers.entry((history.session_of(t), key)).or_default().push(t);
        }
    }
    for &t3 in commits.order.iter().filter(|&&t| commits.asks(t)) {
        for read in commits.reads(t3) {
            for &(session, bound) in clocks[t3.index()].iter() {
                let Some(here) = writers.get(&(session, read.key)) else { continue };
                let later = |t2: &&TxnId| **t2 != t3 && commits.place(**t2) > commits.place_read(read);
                if let Some(&t2) = here.iter().take_while(|t2| t2.0 < bound).find(later) {
                    return Err(overlooked(read, t2));
                }
            }
        }
    }
    Ok(())
}

/// Per session, ascending: the first transaction that has not been seen. Clocks that are equal because one
/// was made from the other are one.
type Clock = Rc<Vec<(SessionId, u32)>>;

/// A clock that has seen one transaction.
fn seen(history: &History, t: TxnId) -> Clock {
    Rc::new(vec![(history.session_of(t), t.0 + 1)])
}

fn merge(a: &Clock, b: &Clock) -> Clock {
    if b.is_empty() || Rc::ptr_eq(a, b) {
        return a.clone();
    }
    if a.is_empty() {
        return b.clone();
    }
    let mut merged = Vec::with_capacity(a.len().max(b.len()));
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        match (a.get(i), b.get(j)) {
            (Some(x), Some(y)) if x.0 == y.0 => {
                merged.push((x.0, x.1.max(y.1)));
                (i, j) = (i + 1, j + 1);
            }
            (Some(x), Some(y)) if x.0 < y.0 => {
                merged.push(*x);
                i += 1;
            }
            (Some(x), None) => {
                merged.push(*x);
                i += 1;
            }
            (_, Some(y)) => {
                merged.push(*y);
                j += 1;
            }
            (None, None) => break,
        }
    }
    Rc::new(merged)
}

fn by_clocks(commits: &Commits<'_>, versions: bool) -> Result<(), Flaw> {
    let history = commits.reading.facts.history;
    // If every read returns the latest version so far, nothing can have been overlooked.
    let mut latest: Vec<Option<TxnId>> = vec![None; history.key_count()];
    let mut doubtful = false;
    for &t in &commits.order {
        doubtful |= commits.reads(t).any(|r| commits.reading.writer(r) != latest[r.key.index()]);
        for (key, _) in commits.reading.facts.written(t) {
            latest[key.index()] = Some(t);
        }
    }
    if !doubtful {
        return Ok(());
    }
    let predecessors = predecessors(commits, versions);
    let mut uses = vec![0u32; history.txn_count()];
    predecessors.iter().flatten().for_each(|p| uses[p.index()] += 1);
    let mut writers: Vec<Vec<TxnId>> = vec![Vec::new(); history.key_count()];
    for t in commits.reading.txns() {
        for (key, _) in commits.reading.facts.written(t) {
            writers[key.index()].push(t);
        }
    }
    let mut clocks: Vec<Option<Clock>> = vec![None; history.txn_count()];
    latest.fill(None);
    for &t3 in &commits.order {
        let mut clock = Clock::default();
        for &p in &predecessors[t3.index()] {
            let Some(before) = clocks[p.index()].as_ref() else { continue };
            clock = merge(&clock, before);
            uses[p.index()] -= 1;
            if uses[p.index()] == 0 {
                clocks[p.index()] = None;
            }
        }
        for read in commits.reads(t3) {
            if commits.reading.writer(read) != latest[read.key.index()]
                && let Some(t2) = latest_seen(commits, &clock, &writers[read.key.index()])
                && commits.place(t2) > commits.place_read(read)
            {
                return Err(overlooked(read, t2));
            }
        }
        for (key, _) in commits.reading.facts.written(t3) {
            latest[key.index()] = Some(t3);
        }
        clocks[t3.index()] = (uses[t3.index()] > 0).then(|| merge(&clock, &seen(history, t3)));
    }
    Ok(())
}

/// Who comes directly before each transaction: in its session, by reading, and with `versions` as writer of
/// the same key.
fn predecessors(commits: &Commits<'_>, versions: bool) -> Vec<Vec<TxnId>> {
    let history = commits.reading.facts.history;
    let mut before: Vec<Vec<TxnId>> = vec![Vec::new(); history.txn_count()];
    for t in commits.reading.txns() {
        let direct = &mut before[t.index()];
        direct.extend(history.before_in_session(t).rfind(|&p| commits.reading.counts(p)));
        direct.extend(commits.reads(t).filter_map(|r| commits.reading.writer(r)));
    }
    if versions {
        let mut latest: Vec<Option<TxnId>> = vec![None; history.key_count()];
        for &t in &commits.order {
            for (key, _) in commits.reading.facts.written(t) {
                before[t.index()].extend(latest[key.index()].replace(t));
            }
        }
    }
    for direct in &mut before {
        direct.sort_unstable();
        direct.dedup();
    }
    before
}

/// The writer that comes last in the order among those a clock has seen: of each session, its latest writer
/// seen. Goes through the sessions or through the writers, whichever are fewer.
fn latest_seen(commits: &Commits<'_>, clock: &Clock, writers: &[TxnId]) -> Option<TxnId> {
    let history = commits.reading.facts.history;
    if writers.len() < clock.len() {
        let has_seen = |w: &&TxnId| {
            let at = clock.binary_search_by_key(&history.session_of(**w), |entry| entry.0);
            at.is_ok_and(|at| w.0 < clock[at].1)
        };
        return writers.iter().filter(has_seen).copied().max_by_key(|&w| commits.place(w));
    }
    let seen_in = |&(session, bound): &(SessionId, u32)| {
        let before = writers.partition_point(|w| w.0 < bound);
        writers[..before].last().copied().filter(|&w| history.session_of(w) == session)
    };
    clock.iter().filter_map(seen_in).max_by_key(|&w| commits.place(w))
}
