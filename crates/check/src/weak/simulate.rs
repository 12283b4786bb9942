//! Simulates an order of transactions and finds the constraints of a level that it does not meet.
//!
//! If `t3` reads `x` from `t1`, then every `t2` that writes `x` and is visible to the read must come before
//! `t1` (Biswas & Enea 2019, Def. 2.4, with the visibility of `docs/spec/levels.md` 2). The simulation
//! keeps, per key, the chain of its writers so far; nearly always the last one is `t1` and the read is
//! done. Otherwise the chain is walked back to `t1`, and what is visible on the way is an unmet constraint.
//! A walk that gets long gives way to asking for the visible writers, so a read costs O(min(writers since
//! `t1`, visible candidates)).

use super::clocks::{AllClocks, Chains, Clocks};
use super::order::Condensation;
use super::required::{Required, RequiredEdge};
use crate::view::{CommittedView, EpochMap, Read};
use crate::{Budget, OutOfBudget};
use anomalist_history::{KeyId, OpId, SessionId, TxnId};

/// Which transactions a read must take into account.
pub(crate) trait Visibility {
    /// Starts the next transaction of the order.
    fn enter(&mut self, t: TxnId);
    /// Is `other` visible to this read of the transaction entered last?
    fn sees(&self, other: TxnId, read: OpId) -> bool;
    /// Steps after which asking for the visible writers beats walking on.
    fn walk_limit(&self) -> u32 {
        64
    }
    /// Calls `f` with visible writers of the read's key: at least the latest of each session.
    fn latest_writers(&self, read: Read, f: &mut dyn FnMut(TxnId));
    /// Ends the transaction entered last.
    fn leave(&mut self, t: TxnId);
}

const NONE: u32 = u32::MAX;
/// Components between two looks at the budget.
const POLL_EVERY: usize = 4096;

/// The constraints that the order, which respects causality, does not meet. None: it proves the level (as
/// far as its components are single transactions).
pub(crate) fn unmet_constraints(
    view: &CommittedView<'_>,
    condensation: &Condensation,
    visibility: &mut impl Visibility,
    budget: &Budget<'_>,
) -> Result<Required, OutOfBudget> {
    let mut simulation =
        Simulation { view, condensation, versions: Versions::new(view), unmet: Required::default() };
    for (i, component) in condensation.iter().enumerate() {
        if i % POLL_EVERY == 0 && budget.is_spent() {
            return Err(OutOfBudget);
        }
        // Transactions on one cycle may see each other's writes, whichever comes first.
        if let [single] = *component {
            simulation.reads(single, visibility);
            simulation.writes(single);
        } else {
            component.iter().for_each(|&t| simulation.writes(t));
            component.iter().for_each(|&t| simulation.reads(t, visibility));
        }
    }
    Ok(simulation.unmet)
}

/// True if every read returns the last version before it in the order: then nothing that is visible comes
/// after the source, whatever is visible. Ends at the first read that does not.
pub(crate) fn reads_the_latest(view: &CommittedView<'_>, condensation: &Condensation) -> bool {
    let mut last = vec![NONE; view.history.key_count()];
    condensation.txns.iter().all(|&t| {
        let latest = view.reads(t).all(|read| last[read.key.index()] == read.from.map_or(NONE, |w| w.0));
        view.written(t).for_each(|key| last[key.index()] = t.0);
        latest
    })
}

/// Per key, the writers so far, latest first.
struct Versions {
    last: Vec<u32>,
    links: Vec<(TxnId, u32)>,
}

impl Versions {
    fn new(view: &CommittedView<'_>) -> Versions {
        let links = Vec::with_capacity(view.reads.write_count());
        Versions { last: vec![NONE; view.history.key_count()], links }
    }

    fn push(&mut self, key: KeyId, t: TxnId) {
        let last = &mut self.last[key.index()];
        if *last == NONE || self.links[*last as usize].0 != t {
            self.links.push((t, *last));
            *last = self.links.len() as u32 - 1;
        }
    }
}

struct Simulation<'a, 'b> {
    view: &'b CommittedView<'a>,
    condensation: &'b Condensation,
    versions: Versions,
    unmet: Required,
}

impl Simulation<'_, '_> {
    fn writes(&mut self, t: TxnId) {
        for key in self.view.written(t) {
            self.versions.push(key, t);
        }
    }

    fn reads(&mut self, t: TxnId, visibility: &mut impl Visibility) {
        visibility.enter(t);
        let limit = visibility.walk_limit();
        for read in self.view.reads(t) {
            let mut at = self.versions.last[read.key.index()];
            let mut steps = 0;
            while at != NONE {
                let (writer, before) = self.versions.links[at as usize];
                if !self.is_later(writer, read) {
                    break;
                }
                if writer != t && visibility.sees(writer, read.op) {
                    self.constrain(writer, read);
                }
                steps += 1;
                if steps == limit {
                    visibility.latest_writers(read, &mut |t2| {
                        if t2 != t && self.is_later(t2, read) {
                            self.constrain(t2, read);
                        }
                    });
                    break;
                }
                at = before;
            }
        }
        visibility.leave(t);
    }

    /// Does `t2` come after the transaction that was read from?
    #[inline]
    fn is_later(&self, t2: TxnId, read: Read) -> bool {
        read.from.is_none_or(|t1| self.condensation.rank[t1.index()] < self.condensation.rank[t2.index()])
    }

    fn constrain(&mut self, t2: TxnId, read: Read) {
        match read.from {
            Some(to) => self.unmet.edges.push(RequiredEdge { from: t2, to, read: read.op }),
            None => self.unmet.initial_overwritten = true,
        }
    }
}

/// Read committed: what the transaction read from, before this read.
/// Read atomic: what it read from anywhere, and the earlier transactions of its session.
pub(crate) struct DirectlySeen<'a> {
    view: CommittedView<'a>,
    first_read: EpochMap<u32>,
    current: TxnId,
    atomic: bool,
}

impl<'a> DirectlySeen<'a> {
    pub fn new(view: CommittedView<'a>, atomic: bool) -> Self {
        DirectlySeen { view, first_read: EpochMap::new(view.txn_count()), current: TxnId(0), atomic }
    }

    fn own_session_sees(&self, other: TxnId) -> bool {
        self.atomic && self.view.history.session_before(other, self.current)
    }

    /// The latest earlier writer of a key in the current session.
    fn own_session_writer(&self, key: KeyId) -> Option<TxnId> {
        if self.atomic { self.view.own_writer(self.current, key) } else { None }
    }
}

impl Visibility for DirectlySeen<'_> {
    fn enter(&mut self, t: TxnId) {
        self.current = t;
        self.first_read.next_round();
        for read in self.view.reads(t) {
            if let Some(w) = read.from
                && self.first_read.get(w.index()).is_none()
            {
                self.first_read.set(w.index(), read.op.0);
            }
        }
    }

    #[inline]
    fn sees(&self, other: TxnId, read: OpId) -> bool {
        match self.first_read.get(other.index()) {
            Some(first) if self.atomic || first < read.0 => true,
            _ => self.own_session_sees(other),
        }
    }

    fn latest_writers(&self, read: Read, f: &mut dyn FnMut(TxnId)) {
        let seen = self.view.reads(self.current).filter(|r| self.atomic || r.op < read.op);
        let sources = seen.filter_map(|r| r.from).filter(|&w| self.view.index.writes(w, read.key));
        sources.chain(self.own_session_writer(read.key)).for_each(f);
    }

    fn leave(&mut self, _: TxnId) {}
}

/// Causal: everything that happened before.
pub(crate) struct CausallySeen<'a, 'b> {
    view: CommittedView<'a>,
    clocks: Clocks<'a, 'b>,
    current: TxnId,
}

impl<'a, 'b> CausallySeen<'a, 'b> {
    pub fn new(view: CommittedView<'a>, chains: &'b Chains) -> Self {
        CausallySeen { view, clocks: Clocks::forward(view, chains), current: TxnId(0) }
    }
}

impl Visibility for CausallySeen<'_, '_> {
    fn enter(&mut self, t: TxnId) {
        self.current = t;
        self.clocks.enter(t, sources(self.view, t));
    }

    #[inline]
    fn sees(&self, other: TxnId, _: OpId) -> bool {
        self.clocks.has_seen(self.current, other)
    }

    fn latest_writers(&self, read: Read, f: &mut dyn FnMut(TxnId)) {
        by_session(&self.view, read.key, |session, writers| {
            let seen = leading(writers, self.clocks.unseen(self.current, session));
            writers[..seen].last().copied().into_iter().for_each(&mut *f);
        });
    }

    fn leave(&mut self, t: TxnId) {
        self.clocks.release(sources(self.view, t));
        if self.view.session_successor(t).is_none() {
            self.clocks.release_last(t);
        }
    }
}

/// The transactions a transaction reads from, and the one it branches off.
fn sources<'a>(view: CommittedView<'a>, t: TxnId) -> impl Iterator<Item = TxnId> + use<'a> {
    view.reads(t).filter_map(|r| r.from).chain(view.trunk(t))
}

/// Causal, when causality itself has cycles.
pub(crate) struct CyclicallySeen<'a, 'b> {
    view: CommittedView<'a>,
    clocks: &'b AllClocks<'a>,
    current: TxnId,
}

impl<'a, 'b> CyclicallySeen<'a, 'b> {
    pub fn new(view: CommittedView<'a>, clocks: &'b AllClocks<'a>) -> Self {
        CyclicallySeen { view, clocks, current: TxnId(0) }
    }
}

impl Visibility for CyclicallySeen<'_, '_> {
    fn enter(&mut self, t: TxnId) {
        self.current = t;
    }

    fn sees(&self, other: TxnId, _: OpId) -> bool {
        self.clocks.has_seen(self.current, other)
    }

    fn latest_writers(&self, read: Read, f: &mut dyn FnMut(TxnId)) {
        by_session(&self.view, read.key, |session, writers| {
            let seen = leading(writers, self.clocks.unseen(self.current, session));
            // The reader itself may be the latest: then the one before it counts.
            writers[..seen]
                .iter()
                .rev()
                .copied()
                .find(|&t2| t2 != self.current)
                .into_iter()
                .for_each(&mut *f);
        });
    }

    fn leave(&mut self, _: TxnId) {}
}

/// The writers of a key, session by session.
pub(crate) fn by_session<'a>(
    view: &CommittedView<'a>,
    key: KeyId,
    mut f: impl FnMut(SessionId, &'a [TxnId]),
) {
    let mut rest = view.index.writers(key);
    while let Some(&first) = rest.first() {
        let session = view.history.session_of(first);
        let (group, others) = rest.split_at(leading(rest, view.history.session_range(session).end));
        f(session, group);
        rest = others;
    }
}

/// How many leading transactions are below `bound`: galloping, because groups are usually short.
pub(crate) fn leading(txns: &[TxnId], bound: u32) -> usize {
    let mut step = 1;
    while step < txns.len() && txns[step].0 < bound {
        step *= 2;
    }
    let low = step / 2;
    let high = step.min(txns.len());
    low + txns[low..high].partition_point(|t| t.0 < bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn galloping_counts_what_is_below() {
        let txns: Vec<TxnId> = [2, 3, 5, 8, 13, 21, 34].map(TxnId).to_vec();
        for bound in 0..40 {
            let expected = txns.iter().filter(|t| t.0 < bound).count();
            assert_eq!(leading(&txns, bound), expected, "{bound}");
            assert_eq!(leading(&txns[..1], bound), expected.min(1), "{bound}");
        }
        assert_eq!(leading(&[], 3), 0);
    }
}
