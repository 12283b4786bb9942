//! Transactions in order of commit, and how much of that order each of them sees.
//!
//! A *place* is a transaction's rank in the order of [`Place`](crate::Place). What a timestamp sees are the
//! places below a bound; for serializability, those below the transaction's own, as far as no commits are
//! equal. The order is found by a sort that takes ascending runs as they are (a session's commits are one),
//! the bounds by galloping back from each place.
//!
//! Transactions of unknown outcome that write have a place too; which of them count is decided later
//! (`open.rs`).

use super::Findings;
use crate::{
    Axiom, Mode, Place, Rule, Sight, Stamped, Tie, Violation, breaks_numbers, is_later_tie, unfollowed,
};
use anomalist_history::{History, Outcome, SessionId, Snapshot, Stamps, Timestamp, TxnId};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Ordering;

pub(crate) struct Timeline<'a> {
    pub history: &'a History,
    pub rule: Rule,
    /// By transaction.
    stamps: &'a [Stamps],
    /// By place.
    pub txn_of: Vec<TxnId>,
    /// By place: a timestamp sees the places below.
    pub bound: Vec<u32>,
    /// By place: whether it counts.
    pub counts: Vec<bool>,
    /// By place: its commit is that of a neighbour. Empty if no two commits are equal.
    tied: Vec<bool>,
    /// Of equal commits, those of one session are in its order.
    pub ties_keep_sessions: bool,
    /// By place, under snapshot isolation: a later transaction of its session commits at its start
    /// timestamp. Empty if there is none such.
    later_tied: Vec<bool>,
    /// Some snapshot is a set.
    pub sets: bool,
    /// By transaction; `u32::MAX` for those that do not count.
    place_of: Vec<u32>,
}

impl<'a> Timeline<'a> {
    /// Only committed transactions count, for now. `None` if the history has no timestamps.
    pub fn new(history: &'a History, rule: Rule) -> Option<Timeline<'a>> {
        let stamps = history.stamps()?;
        let commit = |t: TxnId| stamps[t.index()].commit;
        let start = |t: TxnId| stamps[t.index()].start;
        let committed = |t: TxnId| history.outcome(t) == Outcome::Committed;
        let may_count =
            |t: &TxnId| committed(*t) || history.outcome(*t) == Outcome::Indeterminate && writes(history, *t);
        let mut txn_of: Vec<TxnId> = history.txns().filter(may_count).collect();
        txn_of.sort_by_key(|&t| commit(t));
        let mut tied = Vec::new();
        let equal = |pair: &[TxnId]| commit(pair[0]) == commit(pair[1]);
        if txn_of.windows(2).any(equal) {
            break_ties(history, &mut txn_of, commit, start);
            tied = vec![false; txn_of.len()];
            for i in (1..txn_of.len()).filter(|&i| equal(&txn_of[i - 1..=i])) {
                tied[i - 1] = true;
                tied[i] = true;
            }
        }
        let sets = rule.mode == Mode::Si && history.has_snapshots();
        let bound = match rule.mode {
            Mode::Ser => (0..txn_of.len() as u32).collect(),
            Mode::Si => {
                let sees = |i: usize, at: Timestamp| rule.contains(at, commit(txn_of[i]));
                (0..txn_of.len()).map(|i| gallop(i, txn_of.len(), |j| sees(j, start(txn_of[i])))).collect()
            }
        };
        let mut place_of = vec![u32::MAX; history.txn_count()];
        for (place, t) in txn_of.iter().enumerate() {
            place_of[t.index()] = place as u32;
        }
        let ties_keep_sessions = tied.is_empty()
            || txn_of.chunk_by(|&a, &b| commit(a) == commit(b)).all(|group| keeps_sessions(history, group));
        let counts = txn_of.iter().map(|&t| committed(t)).collect();
        let mut later_tied = Vec::new();
        if rule.mode == Mode::Si && rule.tie == Tie::Inclusive {
            for t in later_ties(history, stamps, |t| place_of[t.index()] != u32::MAX) {
                later_tied.resize(txn_of.len(), false);
                later_tied[place_of[t.index()] as usize] = true;
            }
        }
        Some(Timeline {
            history,
            rule,
            stamps,
            txn_of,
            bound,
            counts,
            tied,
            ties_keep_sessions,
            later_tied,
            sets,
            place_of,
        })
    }

    /// SESSION and TIMESTAMP.
    pub fn check(&self, limit: usize, found: &mut Findings) {
        self.check_stamps(limit, found);
        self.check_sessions(limit, found);
    }

    /// Whether a transaction counts.
    pub fn counted(&self, t: TxnId) -> bool {
        self.place(t).is_some_and(|place| self.counts[place as usize])
    }

    /// A transaction's place, if it may count.
    pub fn place(&self, t: TxnId) -> Option<u32> {
        Some(self.place_of[t.index()]).filter(|&p| p != u32::MAX)
    }

    /// A place as the rules see it.
    #[inline]
    pub fn at(&self, place: u32) -> At<'a> {
        self.view(self.txn_of[place as usize])
    }

    fn view(&self, txn: TxnId) -> At<'a> {
        At { sets: self.sets, ..At::by_stamps(self.history, self.stamps, txn) }
    }

    pub fn start(&self, place: u32) -> Timestamp {
        self.at(place).stamps.start
    }

    pub fn commit(&self, place: u32) -> Timestamp {
        self.at(place).stamps.commit
    }

    /// Whether a later transaction of a place's session commits at its start timestamp, under snapshot
    /// isolation.
    #[inline]
    pub fn is_later_tied(&self, place: u32) -> bool {
        !self.later_tied.is_empty() && self.later_tied[place as usize]
    }

    /// Whether a place is a later transaction of the viewer's session that commits at the viewer's start
    /// timestamp.
    pub fn is_later_tie(&self, viewer: u32, place: u32) -> bool {
        self.is_later_tied(viewer) && is_later_tie(&self.at(viewer), &self.at(place))
    }

    /// Whether a place may share its commit with another.
    #[inline]
    pub fn is_tied(&self, place: u32) -> bool {
        !self.tied.is_empty() && self.tied[place as usize]
    }

    /// The set that a place's snapshot is, if it is one.
    pub fn set(&self, place: u32) -> Option<Snapshot<'a>> {
        if self.sets { self.history.snapshot(self.txn_of[place as usize]) } else { None }
    }

    /// The id by which sets name a place.
    pub fn id(&self, place: u32) -> Option<u64> {
        self.history.snapshot_id(self.txn_of[place as usize])
    }

    /// A transaction's number in its session, where the recording has one.
    fn number(&self, t: TxnId) -> Option<u64> {
        self.history.numbers().map(|numbers| numbers[t.index()])
    }

    /// What one place sees of another.
    pub fn sight(&self, viewer: u32, place: u32) -> Sight {
        match viewer == place {
            true => Sight::Unseen,
            false => self.rule.sight(&self.at(viewer), &self.at(place)),
        }
    }

    /// Whether the writers at two places conflict.
    pub fn conflict(&self, a: u32, b: u32) -> bool {
        self.rule.conflict(&self.at(a), &self.at(b))
    }

    fn check_stamps(&self, limit: usize, found: &mut Findings) {
        if self.rule.mode != Mode::Si {
            return;
        }
        for (_, &t) in self.txn_of.iter().enumerate().filter(|(place, _)| self.counts[*place]) {
            if self.rule.starts_late(&self.view(t)) {
                found.add(Violation::of(Axiom::Timestamp, t), limit);
            }
        }
    }

    fn check_sessions(&self, limit: usize, found: &mut Findings) {
        let mut broken: Vec<(u32, Option<TxnId>)> = Vec::new();
        for session in self.history.sessions() {
            let mut before: Option<At<'_>> = None;
            let mut writer: Option<At<'_>> = None;
            for t in self.history.issued(session) {
                let Some(place) = self.place(t).filter(|&p| self.counts[p as usize]) else { continue };
                let txn = self.view(t);
                let other = unfollowed(self.rule, &txn, before, writer);
                let gap = breaks_numbers(before.map(|before| self.number(before.txn)), self.number(t));
                if other.is_some() || gap {
                    broken.push((place, other.or(before).map(|other| other.txn)));
                }
                before = Some(txn);
                if self.sets && writes(self.history, t) {
                    writer = Some(txn);
                }
            }
        }
        broken.sort_unstable();
        for (place, other) in broken {
            let t = self.txn_of[place as usize];
            found.add(Violation { other, ..Violation::of(Axiom::Session, t) }, limit);
        }
    }

    /// Whether two sets exist of which neither contains the other, as far as transactions of this history
    /// go. Then no order of commits explains what they see.
    pub fn forks(&self) -> bool {
        if !self.sets {
            return false;
        }
        let places = (0..self.txn_of.len() as u32).filter(|&p| self.counts[p as usize]);
        let mut ids: Vec<u64> = places.clone().filter_map(|p| self.id(p)).collect();
        ids.sort_unstable();
        let below = |id: u64| ids.partition_point(|&i| i < id);
        let known = |id: &u64| ids.binary_search(id).is_ok();
        let mut sets: Vec<(usize, Snapshot<'_>)> = places
            .filter_map(|p| self.set(p))
            .map(|s| (below(s.xmax) - s.running.iter().filter(|&id| known(id)).count(), s))
            .collect();
        sets.sort_by_key(|&(size, s)| (size, s.xmax));
        sets.windows(2).any(|pair| {
            let [(_, small), (_, large)] = pair else { return false };
            let left_out = large.running.iter().filter(|&id| known(id)).any(|&id| small.sees(id));
            left_out
                || ids[below(large.xmax)..]
                    .iter()
                    .take_while(|&&id| id < small.xmax)
                    .any(|&id| small.sees(id))
        })
    }
}

/// A transaction as the rules see it.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    history: &'a History,
    stamps: Stamps,
    /// Snapshots may be sets.
    sets: bool,
    txn: TxnId,
}

impl<'a> At<'a> {
    /// A transaction whose snapshot is its start timestamp.
    #[inline]
    pub fn by_stamps(history: &'a History, stamps: &[Stamps], txn: TxnId) -> At<'a> {
        At { history, stamps: stamps[txn.index()], sets: false, txn }
    }
}

impl Stamped for At<'_> {
    type Session = SessionId;

    #[inline]
    fn start(&self) -> Timestamp {
        self.stamps.start
    }

    #[inline]
    fn commit(&self) -> Timestamp {
        self.stamps.commit
    }

    fn session(&self) -> SessionId {
        self.history.issuer(self.txn)
    }

    fn position(&self) -> u32 {
        self.history.issue_rank(self.txn)
    }

    #[inline]
    fn set(&self) -> Option<Snapshot<'_>> {
        if self.sets { self.history.snapshot(self.txn) } else { None }
    }

    fn id(&self) -> Option<u64> {
        self.history.snapshot_id(self.txn)
    }
}

/// How many leading places satisfy `sees`, which holds for a prefix; looks near `from` first.
fn gallop(from: usize, len: usize, sees: impl Fn(usize) -> bool) -> u32 {
    let (mut low, mut high) = (0, len);
    let mut step = 1;
    if sees(from) {
        low = from + 1;
        while low + step <= len && sees(low + step - 1) {
            low += step;
            step *= 2;
        }
        high = high.min(low + step);
    } else {
        high = from;
        while high >= step && !sees(high - step) {
            high -= step;
            step *= 2;
        }
        low = low.max(high.saturating_sub(step));
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if sees(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low as u32
}

pub(crate) fn writes(history: &History, t: TxnId) -> bool {
    history.heads()[history.op_range(t)].iter().any(|head| !head.is_read())
}

/// The transactions of whose session a later one commits at their start timestamp, as far as they count:
/// those to which [`is_later_tie`] applies, found session by session instead of pair by pair. Where
/// timestamps ascend in a session, no commit after a transaction is as early as its start: one pass finds
/// that there are none.
pub(crate) fn later_ties(history: &History, stamps: &[Stamps], counts: impl Fn(TxnId) -> bool) -> Vec<TxnId> {
    let mut found = Vec::new();
    let mut later: FxHashSet<Timestamp> = FxHashSet::default();
    for session in history.sessions() {
        let mut first: Option<Timestamp> = None;
        let suspect = history.issued(session).rev().any(|t| {
            let Stamps { start, commit } = stamps[t.index()];
            let suspect = first.is_some_and(|first| first <= start);
            first = Some(first.map_or(commit, |first| first.min(commit)));
            suspect
        });
        if !suspect {
            continue;
        }
        later.clear();
        for t in history.issued(session).rev().filter(|&t| counts(t)) {
            let Stamps { start, commit } = stamps[t.index()];
            if later.contains(&start) {
                found.push(t);
            }
            later.insert(commit);
        }
    }
    found.sort_unstable();
    found
}

/// Whether the transactions of each session are in its order.
fn keeps_sessions(history: &History, group: &[TxnId]) -> bool {
    let mut last: FxHashMap<SessionId, TxnId> = FxHashMap::default();
    group.len() == 1
        || group.iter().all(|&t| {
            let before = last.insert(history.issuer(t), t);
            before.is_none_or(|before| history.issue_rank(before) < history.issue_rank(t))
        })
}

/// Orders transactions of equal commits by the rest of their places.
fn break_ties(
    history: &History,
    txns: &mut [TxnId],
    commit: impl Fn(TxnId) -> Timestamp,
    start: impl Fn(TxnId) -> Timestamp,
) {
    let mut names: Vec<(String, usize)> = history
        .sessions()
        .map(|s| (history.show(history.session_label(s)).raw().to_string(), s.index()))
        .collect();
    names.sort();
    let mut rank = vec![0; names.len()];
    for (i, (_, session)) in names.iter().enumerate() {
        rank[*session] = i;
    }
    let place = |t: TxnId| Place {
        commit: commit(t),
        read_only: !writes(history, t),
        start: start(t),
        session: rank[history.issuer(t).index()],
        position: history.issue_rank(t),
    };
    for group in txns.chunk_by_mut(|&a, &b| commit(a).cmp(&commit(b)) == Ordering::Equal) {
        if group.len() > 1 {
            group.sort_by_cached_key(|&t| place(t));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::gallop;

    #[test]
    fn galloping_finds_the_end_of_the_prefix() {
        for len in 1..40 {
            for prefix in 0..=len {
                for from in 0..len {
                    assert_eq!(gallop(from, len, |i| i < prefix), prefix as u32, "{from} {len}");
                }
            }
        }
    }
}
