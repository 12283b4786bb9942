//! A commit order, built from its end.
//!
//! A constraint says: `t3` reads `x` from `t1` and sees another writer `t2` of `x`, so `t2` comes before
//! `t1`. Whatever a read sees happened before it, so `t3` follows both in causality. Kahn's algorithm from
//! the last transaction to the first therefore has placed `t3` before it comes to `t1` or `t2`, and knows
//! every constraint on `t2` by the time it could place it: they are the reads of `t2`'s keys from writers
//! not placed yet. `t2` waits until those are placed. So one pass places all transactions and meets every
//! constraint, or ends where every transaction left waits for another one left: a cycle of causality and
//! constraints, which no commit order has.
//!
//! Costs O(1) per operation, and for each write a look at the reads of its key that are waiting for other
//! writers. Those are few unless many old versions stay in use; when the looks get many, the search gives
//! up and says nothing.

use super::Weak;
use super::clocks::{Chains, Clocks};
use super::plume::OtherKeys;
use crate::view::{CommittedView, EpochMap, Read};
use crate::{Budget, OutOfBudget};
use anomalist_graph::Csr;
use anomalist_history::{KeyId, OpId, TxnId};
use anomalist_level::Definitions;
use std::collections::VecDeque;

const NONE: u32 = u32::MAX;
/// Transactions between two looks at the budget.
const POLL_EVERY: usize = 4096;
/// Looks at waiting reads, per operation, before giving up.
const PATIENCE: usize = 32;

/// An order of the committed transactions that meets all constraints of the level and has the edges of
/// `versions`. `None`: there is none, or finding it would take long.
pub(crate) fn order(
    view: CommittedView<'_>,
    (level, definitions): (Weak, Definitions),
    versions: &[(u32, u32)],
    budget: &Budget<'_>,
) -> Result<Option<Vec<TxnId>>, OutOfBudget> {
    match level {
        Weak::ReadCommitted if definitions == Definitions::Plume => {
            Backwards::new(view, OtherKeys::new(view), versions).run(budget)
        }
        Weak::ReadCommitted => Backwards::new(view, Direct::new(view, false), versions).run(budget),
        Weak::ReadAtomic => Backwards::new(view, Direct::new(view, true), versions).run(budget),
        Weak::Causal => {
            let chains = Chains::new(&view).reversed(&view);
            let clocks = Clocks::backward(view, &chains);
            Backwards::new(view, Causal { view, clocks }, versions).run(budget)
        }
    }
}

/// Which later transactions see a writer.
pub(super) trait Sight {
    /// Everything that has seen `t` has been placed.
    fn enter(&mut self, t: TxnId, waiting: &Waiting);
    /// Does this read, by a transaction already placed, see `t`?
    fn is_seen(&mut self, t: TxnId, by: &WaitingRead, waiting: &Waiting) -> bool;
    /// `t` has been placed: whether it is seen is not asked any more.
    fn place(&mut self, _: TxnId) {}
}

/// The reads of placed transactions from transactions not placed yet, by key and by source. Entries are
/// used again.
pub(super) struct Waiting {
    reads: Vec<WaitingRead>,
    free: u32,
    of_key: Vec<u32>,
    of_source: Vec<u32>,
}

#[derive(Clone, Copy)]
pub(super) struct WaitingRead {
    pub reader: TxnId,
    pub op: OpId,
    /// `NONE`: the initial state.
    from: u32,
    next_of_key: u32,
    next_of_source: u32,
}

impl Waiting {
    fn push(&mut self, reader: TxnId, read: Read) {
        let from = read.from.map_or(NONE, |w| w.0);
        let next_of_source = self.of_source.get(from as usize).copied().unwrap_or(NONE);
        let next_of_key = self.of_key[read.key.index()];
        let entry = WaitingRead { reader, op: read.op, from, next_of_key, next_of_source };
        let at = self.free;
        if let Some(slot) = self.reads.get_mut(at as usize) {
            self.free = slot.next_of_source;
            *slot = entry;
        } else {
            self.reads.push(entry);
        }
        let at = if at == NONE { self.reads.len() as u32 - 1 } else { at };
        self.of_key[read.key.index()] = at;
        if let Some(head) = self.of_source.get_mut(from as usize) {
            *head = at;
        }
    }

    /// Takes the reads of a key from `t` off the key's list.
    fn unlink(&mut self, key: KeyId, t: TxnId) {
        let mut before = NONE;
        let mut at = self.of_key[key.index()];
        while at != NONE {
            let WaitingRead { from, next_of_key: next, .. } = self.reads[at as usize];
            if from != t.0 {
                before = at;
            } else if let Some(before) = self.reads.get_mut(before as usize) {
                before.next_of_key = next;
            } else {
                self.of_key[key.index()] = next;
            }
            at = next;
        }
    }

    /// Gives up the reads from `t`, which are on no key's list any more.
    fn release(&mut self, t: TxnId) {
        let first = std::mem::replace(&mut self.of_source[t.index()], NONE);
        let mut last = first;
        while let Some(read) = self.reads.get(last as usize) {
            if read.next_of_source == NONE {
                self.reads[last as usize].next_of_source = std::mem::replace(&mut self.free, first);
                return;
            }
            last = read.next_of_source;
        }
    }

    /// The reads from `t`, the one placed last first.
    #[inline]
    pub fn from(&self, t: TxnId) -> impl Iterator<Item = &WaitingRead> + Clone {
        let get = |at: u32| self.reads.get(at as usize);
        std::iter::successors(get(self.of_source[t.index()]), move |r| get(r.next_of_source))
    }
}

struct Backwards<'a, S> {
    view: CommittedView<'a>,
    sight: S,
    waiting: Waiting,
    /// Readers, the session's next and the next versions that are not placed yet.
    later: Vec<u32>,
    /// By version order: the transactions just before each.
    version_before: Csr,
    /// Per transaction, those that must come before it and could be placed otherwise: the first, and the
    /// next of each.
    held: Vec<u32>,
    next_held: Vec<u32>,
    ready: VecDeque<TxnId>,
    /// Last to first.
    placed: Vec<TxnId>,
    looks: usize,
    /// Per key that the transaction at hand writes: do reads wait for another writer of it?
    others_wait: Vec<bool>,
}

impl<'a, S: Sight> Backwards<'a, S> {
    fn new(view: CommittedView<'a>, sight: S, versions: &[(u32, u32)]) -> Self {
        let n = view.txn_count();
        let mut later = vec![0u32; n];
        for t in view.committed() {
            for w in view.reads(t).filter_map(|r| r.from) {
                later[w.index()] += 1;
            }
            if let Some(before) = view.session_predecessor(t) {
                later[before.index()] += 1;
            }
        }
        for &(from, _) in versions {
            later[from as usize] += 1;
        }
        let reversed = || versions.iter().map(|&(from, to)| (to, from));
        Backwards {
            view,
            sight,
            waiting: Waiting {
                reads: Vec::new(),
                free: NONE,
                of_key: vec![NONE; view.history.key_count()],
                of_source: vec![NONE; n],
            },
            ready: view.committed().filter(|t| later[t.index()] == 0).collect(),
            later,
            version_before: Csr::from_edges(n, reversed),
            held: vec![NONE; n],
            next_held: vec![NONE; n],
            placed: Vec::with_capacity(n),
            looks: 0,
            others_wait: Vec::new(),
        }
    }

    fn run(mut self, budget: &Budget<'_>) -> Result<Option<Vec<TxnId>>, OutOfBudget> {
        let patience = PATIENCE * self.view.history.op_count();
        let committed = self.view.committed().count();
        while let Some(t) = self.ready.pop_front() {
            self.sight.enter(t, &self.waiting);
            self.try_to_place(t);
            if self.looks > patience {
                return Ok(None);
            }
            if self.placed.len().is_multiple_of(POLL_EVERY) && budget.is_spent() {
                return Err(OutOfBudget);
            }
        }
        self.placed.reverse();
        Ok((self.placed.len() == committed).then_some(self.placed))
    }

    /// Places a transaction, and those that waited for it alone; or lets it wait for one that must come
    /// after it.
    fn try_to_place(&mut self, t: TxnId) {
        let mut next = t.0;
        let mut more = NONE;
        while next != NONE {
            let t = TxnId(next);
            let after = std::mem::replace(&mut self.next_held[t.index()], NONE);
            match self.must_follow(t) {
                // Nothing comes before the initial state: this one, and all before it, stay.
                Some(NONE) => {}
                Some(t1) => {
                    self.next_held[t.index()] = std::mem::replace(&mut self.held[t1 as usize], t.0);
                }
                None => self.place(t, &mut more),
            }
            next = if after == NONE { std::mem::replace(&mut more, NONE) } else { after };
        }
    }

    /// A transaction not placed yet that a read requires to come after `t`.
    fn must_follow(&mut self, t: TxnId) -> Option<u32> {
        self.others_wait.clear();
        for key in self.view.written(t) {
            let mut others_wait = false;
            let mut at = self.waiting.of_key[key.index()];
            while at != NONE {
                let read = self.waiting.reads[at as usize];
                if read.from != t.0 {
                    others_wait = true;
                    self.looks += 1;
                    if self.sight.is_seen(t, &read, &self.waiting) {
                        return Some(read.from);
                    }
                }
                at = read.next_of_key;
            }
            self.others_wait.push(others_wait);
        }
        None
    }

    fn place(&mut self, t: TxnId, released: &mut u32) {
        self.placed.push(t);
        self.sight.place(t);
        for (key, &others_wait) in self.view.written(t).zip(&self.others_wait) {
            if others_wait {
                self.waiting.unlink(key, t);
            } else {
                self.waiting.of_key[key.index()] = NONE;
            }
        }
        self.waiting.release(t);
        for read in self.view.reads(t) {
            self.waiting.push(t, read);
            if let Some(w) = read.from {
                self.one_less(w);
            }
        }
        if let Some(before) = self.view.session_predecessor(t) {
            self.one_less(before);
        }
        for i in 0..self.version_before.successors(t.0).len() {
            self.one_less(TxnId(self.version_before.successors(t.0)[i]));
        }
        // What `t` held back joins the list of those to be tried again.
        let mut at = std::mem::replace(&mut self.held[t.index()], NONE);
        while at != NONE {
            let next = std::mem::replace(&mut self.next_held[at as usize], *released);
            *released = at;
            at = next;
        }
    }

    fn one_less(&mut self, t: TxnId) {
        let left = &mut self.later[t.index()];
        *left -= 1;
        if *left == 0 {
            self.ready.push_back(t);
        }
    }
}

/// Read committed: a transaction is seen by the reads that follow a read from it in the same transaction.
/// Read atomic: by all reads of the transactions that read from it, and of the later ones of its session.
struct Direct<'a> {
    view: CommittedView<'a>,
    atomic: bool,
    /// Whose readers `first_read` knows.
    known: Option<TxnId>,
    first_read: EpochMap<u32>,
}

impl<'a> Direct<'a> {
    fn new(view: CommittedView<'a>, atomic: bool) -> Self {
        Direct { view, atomic, known: None, first_read: EpochMap::new(view.txn_count()) }
    }
}

impl Sight for Direct<'_> {
    fn enter(&mut self, _: TxnId, _: &Waiting) {}

    fn is_seen(&mut self, t: TxnId, by: &WaitingRead, waiting: &Waiting) -> bool {
        if self.atomic && self.view.history.session_before(t, by.reader) {
            return true;
        }
        if self.known != Some(t) {
            self.known = Some(t);
            self.first_read.next_round();
            for read in waiting.from(t) {
                let first = self.first_read.get(read.reader.index()).unwrap_or(NONE);
                self.first_read.set(read.reader.index(), first.min(read.op.0));
            }
        }
        self.first_read.get(by.reader.index()).is_some_and(|first| self.atomic || first < by.op.0)
    }
}

/// Causal: a transaction is seen by everything that happened after it.
struct Causal<'a, 'b> {
    view: CommittedView<'a>,
    clocks: Clocks<'a, 'b>,
}

impl Sight for Causal<'_, '_> {
    fn enter(&mut self, t: TxnId, waiting: &Waiting) {
        let seen_by = waiting.from(t).map(|r| r.reader).chain(self.view.branches(t));
        self.clocks.enter(t, seen_by.clone());
        self.clocks.release(seen_by);
    }

    #[inline]
    fn is_seen(&mut self, t: TxnId, by: &WaitingRead, _: &Waiting) -> bool {
        self.clocks.has_seen(t, by.reader)
    }

    fn place(&mut self, t: TxnId) {
        if self.view.first_of_session(t) {
            self.clocks.release_last(t);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::order_search::{Conclusion, OrderSearch, Rule};
    use super::*;
    use crate::view::ExternalReads;
    use anomalist_history::Indexed;
    use anomalist_testkit::random::{self, Reference, Shape};

    /// The search itself decides: what it does not order has no order. (Elsewhere a second search would
    /// hide a failure.)
    #[test]
    fn finds_an_order_exactly_where_there_is_one() {
        let mut found = [0; 2];
        for seed in 0..4_000 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let shape = if rng.bool() { Shape::default() } else { Shape::anything() };
            let reference = *rng.choice(&Reference::ALL[..]).unwrap();
            let history = random::mutated(&mut rng, reference, &shape);
            let indexed = Indexed::new(&history, 1.try_into().unwrap());
            let reads = ExternalReads::new(&history, indexed.index());
            let view =
                CommittedView { history: &history, index: indexed.index(), reads: &reads, assumed: &[] };
            let budget = Budget::unlimited();
            for definitions in Definitions::ALL {
                let search = OrderSearch::new(view, definitions, true, &budget);
                for level in Weak::ALL {
                    let order = order(view, (level, definitions), &search.versions, &budget).unwrap();
                    let all_constraints = search.analyse(Rule::Level(level)).unwrap();
                    let expected = matches!(all_constraints, Conclusion::Order(_));
                    assert_eq!(order.is_some(), expected, "seed {seed}, {level:?} of {definitions}");
                    found[usize::from(expected)] += 1;
                }
            }
        }
        assert!(found.iter().all(|&n| n > 500), "{found:?}");
    }
}
