//! Levels at which a read must take account of some writers only: which reads overlook one that is visible
//! to them?
//!
//! Given an order of transactions and the sources of all reads, a read of `x` from `w` is wrong if a
//! writer of `x` that comes after `w` is visible to it. What is visible differs (`docs/spec/levels.md` 2):
//! who the transaction read from before the read (read committed) or at all, or earlier transactions of
//! its session (read atomic, the session guarantees), or everything that session order and reads lead from
//! (causal), and version order too (parallel snapshot isolation). For the last two, reachability is kept
//! in clocks: per transaction and session, how much of the session reaches it. O(m·k); the others O(m ·
//! operations per transaction). One constraint per read, about the latest visible writer.

use super::causes;
use super::facts::{Facts, From, Origin};
use super::model::{Family, Model, Visible};
use super::scan::{Constraint, Decided, Link};
use anomalist_graph::Rows;
use anomalist_history::{KeyId, SessionId, TxnId};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

pub(super) const NONE: u32 = u32::MAX;

/// The reads that an order makes wrong.
pub(crate) fn missed(model: &Model<'_>, order: &[u32], decided: &impl Decided) -> Vec<Constraint> {
    let facts = model.facts;
    let place = vec![NONE; facts.history.txn_count()];
    let mut view = View { model, facts, decided, place, family: model.rules.family, constraints: Vec::new() };
    let committed = order.iter().filter_map(|&node| model.committed(node));
    let order: Vec<TxnId> = committed.filter(|&t| view.exists(t)).collect();
    for (i, &t) in (0..).zip(&order) {
        view.place[t.index()] = i;
    }
    if view.family == Family::Mixed {
        let mut families: Vec<Family> = Vec::new();
        for family in facts.txns().map(|t| model.rules.own(t).family) {
            if matches!(family, Family::Visible(_)) && !families.contains(&family) {
                families.push(family);
            }
        }
        for family in families {
            view.family = family;
            view.run(&order);
        }
    } else {
        view.run(&order);
    }
    view.constraints
}

pub(super) struct View<'a, D> {
    pub model: &'a Model<'a>,
    pub facts: &'a Facts<'a>,
    decided: &'a D,
    /// Where each transaction that counts stands in the order.
    pub place: Vec<u32>,
    /// Which reads are looked at, and how.
    family: Family,
    pub constraints: Vec<Constraint>,
}

/// A writer seen, through whom, and how.
type Sight = (TxnId, Vec<TxnId>, Vec<Link>);

/// From this transaction on, these are visible to its session.
type Noted = (TxnId, Vec<Sight>);

/// For each key, the two latest writers seen, the latest first. (The reader itself does not count; where
/// levels are mixed it may be the latest.)
type Seen = FxHashMap<KeyId, Vec<Sight>>;

impl<D: Decided> View<'_, D> {
    fn run(&mut self, order: &[TxnId]) {
        match self.family {
            Family::Visible(Visible::ReadCommitted) => self.read_committed(order, |_| None),
            Family::Visible(Visible::ReadCommittedByOtherKeys) => self.read_committed(order, Some),
            Family::Visible(Visible::ReadAtomic) => {
                self.read_atomic(order);
                self.by_session(false);
            }
            Family::Visible(Visible::ReadYourWrites) => self.by_session(false),
            Family::Visible(Visible::MonotonicReads) => self.by_session(true),
            Family::Visible(Visible::MonotonicWrites) => self.monotonic_writes(order),
            Family::Visible(Visible::WritesFollowReads) => self.writes_follow_reads(order),
            _ if self.model.rules.family == Family::Mixed => causes::missed(self),
            _ => Clocks::new(self).run(order),
        }
    }

    /// Whether the reads of a transaction are looked at.
    pub(super) fn asks(&self, t: TxnId) -> bool {
        self.model.rules.own(t).family == self.family
    }

    fn exists(&self, t: TxnId) -> bool {
        self.facts.certain[t.index()] || self.decided.took_effect(t)
    }

    /// What a read returned.
    pub(super) fn source(&self, read: usize) -> Option<TxnId> {
        match self.facts.reads[read].from {
            From::Initial => None,
            From::Txn(w) => Some(w),
            From::Open(open) => self.decided.source(open).and_then(Origin::txn),
        }
    }

    /// The reads of a transaction, in program order.
    pub(super) fn reads(&self, t: TxnId) -> impl Iterator<Item = usize> + use<'_, D> {
        self.facts.reads_of(t)
    }

    /// The reads that have another transaction as their source, with it.
    fn sources(&self, t: TxnId) -> Vec<(u32, TxnId)> {
        self.reads(t).filter_map(|i| Some((i as u32, self.source(i)?))).collect()
    }

    pub(super) fn is_later(&self, a: TxnId, b: Option<TxnId>) -> bool {
        b.is_none_or(|b| self.place[a.index()] > self.place[b.index()])
    }

    /// Notes that all keys that `t` writes have been seen, by `links` through the transactions between.
    fn note(&self, seen: &mut Seen, t: TxnId, between: &[TxnId], links: &[Link]) {
        self.note_except(None, seen, t, between, links);
    }

    /// The same without one key.
    fn note_except(
        &self,
        except: Option<KeyId>,
        seen: &mut Seen,
        t: TxnId,
        between: &[TxnId],
        links: &[Link],
    ) {
        for write in self.facts.writes_of(t).filter(|&w| Some(self.facts.key_of(w)) != except) {
            let kept = seen.entry(self.facts.key_of(write)).or_default();
            self.keep(kept, t, |_| (t, between.to_vec(), links.to_vec()));
        }
    }

    /// Keeps the two latest writers. True if this one is among them, and was not.
    fn keep(&self, kept: &mut Vec<Sight>, t: TxnId, sight: impl FnOnce(TxnId) -> Sight) -> bool {
        let at = kept.iter().position(|s| s.0 == t || self.is_later(t, Some(s.0))).unwrap_or(kept.len());
        if at > 1 || kept.get(at).is_some_and(|s| s.0 == t) {
            return false;
        }
        kept.insert(at, sight(t));
        kept.truncate(2);
        true
    }

    /// Constraints that the latest writer seen precedes what a read returned, if it does not.
    fn check(&mut self, read: usize, seen: &Seen) {
        let found = self.facts.reads[read];
        let sights = seen.get(&found.key).into_iter().flatten();
        if let Some((t2, between, links)) = sights.into_iter().find(|s| s.0 != found.reader) {
            self.constrain(read, *t2, between, links);
        }
    }

    pub(super) fn constrain(&mut self, read: usize, t2: TxnId, between: &[TxnId], links: &[Link]) {
        let (reader, from) = (self.facts.reads[read].reader, self.source(read));
        if self.asks(reader) && t2 != reader && Some(t2) != from && self.is_later(t2, from) {
            let path = [t2].into_iter().chain(between.iter().copied()).chain([reader]).collect();
            self.constraints.push(Constraint::Path { read: read as u32, from, path, links: links.to_vec() });
        }
    }

    /// `except`: of which key, if any, a read of a key makes no writer visible.
    fn read_committed(&mut self, order: &[TxnId], except: fn(KeyId) -> Option<KeyId>) {
        let mut seen = Seen::default();
        for t3 in order.iter().copied().filter(|&t| self.asks(t)).collect::<Vec<_>>() {
            seen.clear();
            for read in self.reads(t3).collect::<Vec<_>>() {
                self.check(read, &seen);
                if let Some(t2) = self.source(read) {
                    let except = except(self.facts.reads[read].key);
                    self.note_except(except, &mut seen, t2, &[], &[Link::Read(read as u32)]);
                }
            }
        }
    }

    fn read_atomic(&mut self, order: &[TxnId]) {
        let mut seen = Seen::default();
        for t3 in order.iter().copied().filter(|&t| self.asks(t)).collect::<Vec<_>>() {
            seen.clear();
            for (read, t2) in self.sources(t3) {
                self.note(&mut seen, t2, &[], &[Link::Read(read)]);
            }
            for read in self.reads(t3).collect::<Vec<_>>() {
                self.check(read, &seen);
            }
        }
    }

    /// Earlier transactions of the session are visible, or those that they read from.
    fn by_session(&mut self, what_they_read: bool) {
        let mut seen = Seen::default();
        let mut session = None;
        for t3 in self.facts.txns().filter(|t| self.place[t.index()] != NONE).collect::<Vec<_>>() {
            let here = self.facts.history.session_of(t3);
            if session.replace(here) != Some(here) {
                seen.clear();
                // Of a branch, its trunk.
                let before = self.facts.history.before_in_session(t3);
                for t in before.filter(|t| self.place[t.index()] != NONE) {
                    self.note_session(&mut seen, t, what_they_read);
                }
            }
            for read in self.reads(t3).collect::<Vec<_>>() {
                self.check(read, &seen);
            }
            self.note_session(&mut seen, t3, what_they_read);
        }
    }

    /// Notes what later transactions of its session see of `t`.
    fn note_session(&self, seen: &mut Seen, t: TxnId, what_it_read: bool) {
        if what_it_read {
            for (read, t2) in self.sources(t) {
                self.note(seen, t2, &[t], &[Link::Read(read), Link::Session]);
            }
        } else {
            self.note(seen, t, &[], &[Link::Session]);
        }
    }

    /// Visible: who precedes, in its session, one that the transaction reads from.
    fn monotonic_writes(&mut self, order: &[TxnId]) {
        let history = self.facts.history;
        // Where sessions need not be kept, the latest of them may be any.
        let in_order = self.model.rules.family != Family::Mixed;
        for t3 in order.iter().copied().filter(|&t| self.asks(t)).collect::<Vec<_>>() {
            let sources = self.sources(t3);
            for read in self.reads(t3).collect::<Vec<_>>() {
                let writers = self.facts.index.writers(self.facts.reads[read].key);
                for &(by, t) in &sources {
                    let within = history.part_before(history.trunk(t), t);
                    let earlier = &writers[..writers.partition_point(|w| w.0 < within.end)];
                    let here = earlier.iter().rev().take_while(|w| w.0 >= within.start);
                    let mut here = here.filter(|w| self.place[w.index()] != NONE && **w != t3);
                    let latest = match in_order {
                        true => here.next(),
                        false => here.max_by_key(|w| self.place[w.index()]),
                    };
                    if let Some(&t2) = latest {
                        self.constrain(read, t2, &[t], &[Link::Session, Link::Read(by)]);
                    }
                }
            }
        }
    }

    /// Visible: who was read from before, in its session, one that the transaction reads from.
    fn writes_follow_reads(&mut self, order: &[TxnId]) {
        // Per session and key: from which transaction on which writers are visible, by which reads.
        let mut visible: FxHashMap<(SessionId, KeyId), Vec<Noted>> = FxHashMap::default();
        for t in self.facts.txns().filter(|t| self.place[t.index()] != NONE) {
            for (read, t2) in self.sources(t) {
                for write in self.facts.writes_of(t2) {
                    let at = (self.facts.history.session_of(t), self.facts.key_of(write));
                    let seen = visible.entry(at).or_default();
                    let mut kept = seen.last().map(|s| s.1.clone()).unwrap_or_default();
                    let sight = |t2| (t2, vec![t], vec![Link::Read(read), Link::Session]);
                    if self.keep(&mut kept, t2, sight) {
                        seen.push((t, kept));
                    }
                }
            }
        }
        for t3 in order.iter().copied().filter(|&t| self.asks(t)).collect::<Vec<_>>() {
            let sources = self.sources(t3);
            for read in self.reads(t3).collect::<Vec<_>>() {
                for &(by, t) in &sources {
                    let trunk = self.facts.history.trunk(t);
                    let Some(seen) = visible.get(&(trunk, self.facts.reads[read].key)) else { continue };
                    let end = self.facts.history.part_before(trunk, t).end;
                    let before = seen.partition_point(|s| s.0.0 < end);
                    let sights = seen[..before].last().map(|s| &s.1[..]).unwrap_or_default();
                    if let Some((t2, between, links)) = sights.iter().find(|s| s.0 != t3) {
                        let between = [&between[..], &[t]].concat();
                        self.constrain(read, *t2, &between, &[&links[..], &[Link::Read(by)]].concat());
                    }
                }
            }
        }
    }
}

/// Causal consistency and parallel snapshot isolation.
struct Clocks<'v, 'a, D> {
    view: &'v mut View<'a, D>,
    /// Version order leads on, too.
    versions: bool,
    /// Per transaction and session: the first transaction of the session that does not reach it, as a
    /// number.
    clocks: Rows,
    /// Per key, its latest writer so far; per write, the one before it on its key.
    last: Vec<Option<TxnId>>,
    before: Vec<Option<TxnId>>,
}

impl<'v, 'a, D: Decided> Clocks<'v, 'a, D> {
    fn new(view: &'v mut View<'a, D>) -> Clocks<'v, 'a, D> {
        let facts = view.facts;
        let sessions = facts.history.session_count();
        Clocks {
            versions: view.model.rules.family == Family::Parallel,
            clocks: Rows::new(sessions, 0),
            last: vec![None; facts.history.key_count()],
            before: vec![None; facts.write_count()],
            view,
        }
    }

    /// True if some read did not return the last version before it: nothing else can have overlooked a
    /// writer.
    fn is_doubtful(&mut self, order: &[TxnId]) -> bool {
        let facts = self.view.facts;
        let doubtful = order.iter().any(|&t| {
            let stale = |read: usize| self.last[facts.reads[read].key.index()] != self.view.source(read);
            let doubtful = self.view.reads(t).any(stale);
            for write in facts.writes_of(t) {
                self.last[facts.key_of(write).index()] = Some(t);
            }
            doubtful
        });
        self.last.fill(None);
        doubtful
    }

    fn run(mut self, order: &[TxnId]) {
        if !self.is_doubtful(order) {
            return;
        }
        let facts = self.view.facts;
        self.clocks = Rows::new(facts.history.session_count(), facts.history.txn_count());
        for &t in order {
            for write in facts.writes_of(t) {
                let key = facts.key_of(write).index();
                self.before[write] = self.last[key];
            }
            self.place(t);
            for read in self.view.reads(t).collect::<Vec<_>>() {
                self.check(read);
            }
            for write in facts.writes_of(t) {
                self.last[facts.key_of(write).index()] = Some(t);
            }
        }
    }

    /// Calls `f` with every direct predecessor of a transaction.
    fn predecessors(&self, t: TxnId, mut f: impl FnMut(TxnId, Link)) {
        let view = &*self.view;
        let counts = |p: &TxnId| view.place[p.index()] != NONE;
        if let Some(p) = view.facts.history.before_in_session(t).rfind(counts) {
            f(p, Link::Session);
        }
        for i in view.reads(t) {
            if let Some(w) = view.source(i) {
                f(w, Link::Read(i as u32));
            }
        }
        if self.versions {
            for write in view.facts.writes_of(t) {
                if let Some(before) = self.before[write] {
                    f(before, Link::Version);
                }
            }
        }
    }

    fn place(&mut self, t: TxnId) {
        let history = self.view.facts.history;
        let mut before = Vec::new();
        self.predecessors(t, |p, _| before.push(p));
        for p in before {
            // What reaches `p` was passed on with it.
            if self.clocks.raise(t.0, history.session_of(p).index(), p.0 + 1) {
                self.clocks.join(t.0, p.0);
            }
        }
    }

    fn reaches(&self, a: TxnId, b: TxnId) -> bool {
        self.clocks.get(b.0, self.view.facts.history.session_of(a).index()) > a.0
    }

    fn check(&mut self, read: usize) {
        let view = &*self.view;
        let found = view.facts.reads[read];
        let from = view.source(read);
        if self.last[found.key.index()] == from {
            return;
        }
        // Of each session the latest writer that reaches the reader; of those the latest.
        let (writers, history) = (view.facts.index.writers(found.key), view.facts.history);
        let mut latest: Option<TxnId> = None;
        self.clocks.for_each(found.reader.0, |session, bound| {
            let reaching = writers[..writers.partition_point(|w| w.0 < bound)].iter().rev();
            let mut here = reaching.take_while(|w| history.session_of(**w).index() == session);
            if let Some(&w) = here.find(|w| view.place[w.index()] != NONE)
                && view.is_later(w, latest)
            {
                latest = Some(w);
            }
        });
        let Some(t2) = latest.filter(|&t2| t2 != found.reader && Some(t2) != from && view.is_later(t2, from))
        else {
            return;
        };
        let (path, links) = self.path(t2, found.reader);
        self.view.constraints.push(Constraint::Path { read: read as u32, from, path, links });
    }

    /// A shortest path of dependencies, both ends included.
    fn path(&self, from: TxnId, to: TxnId) -> (Vec<TxnId>, Vec<Link>) {
        let mut came: FxHashMap<TxnId, (TxnId, Link)> = FxHashMap::default();
        let mut queue = VecDeque::from([to]);
        while let Some(t) = queue.pop_front() {
            if t == from {
                break;
            }
            self.predecessors(t, |p, link| {
                if (p == from || self.reaches(from, p)) && p != to && !came.contains_key(&p) {
                    came.insert(p, (t, link));
                    queue.push_back(p);
                }
            });
        }
        let (mut path, mut links) = (vec![from], Vec::new());
        let mut at = from;
        while let Some(&(next, link)) = came.get(&at) {
            path.push(next);
            links.push(link);
            at = next;
        }
        (path, links)
    }
}
