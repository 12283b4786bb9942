//! What follows from the known order, to a fixpoint: constraints of which one alternative is ruled out
//! become known edges, and so does the source of a read when all its other candidates are ruled out.
//!
//! Reachability is kept as clocks over *chains* of transactions that follow each other (`chains.rs`:
//! sessions, where the level keeps them): per event and chain, how much of the chain precedes it, and what
//! of the chain it precedes first. So for each constraint only the extreme writers per chain matter: the
//! latest that precedes a read must precede what was read, the earliest that follows what was read must
//! follow the read, and of two writers of a key that must not overlap, the one that began before the
//! other's end comes first. What a read may have returned is not what comes after it, nor what was
//! overwritten before it. A round costs O((edges + reads) · chains). (`docs/spec/algorithms.md` 4.5.)

use super::chains::Chains;
use super::facts::{From, Origin};
use super::guess::{self, Cyclic};
use super::model::{Edge, Family, Model, RuledOut, Why};
use super::search::Progress;
use crate::{Budget, OutOfBudget};
use anomalist_graph::Graph;
use anomalist_history::{OpId, TxnId};

/// Adds what follows. `Err` inside: the known edges contradict each other.
pub(crate) fn saturate(
    model: &mut Model<'_>,
    chains: &Chains,
    budget: &Budget<'_>,
    progress: &mut Progress,
) -> Result<Result<(), Cyclic>, OutOfBudget> {
    let wished = guess::even_pace(model);
    let groups = Groups::new(model, chains);
    let mut rank = model.edges.iter().map(|e| e.rank).max().unwrap_or(0) + 1;
    loop {
        progress.known = model.edges.len();
        if budget.is_spent() {
            return Err(OutOfBudget);
        }
        let Some(clocks) = Clocks::new(model, chains, &wished, budget)? else { return Ok(Err(Cyclic)) };
        let mut round = Round {
            model,
            chains,
            groups: &groups,
            clocks,
            found: Vec::new(),
            out: Vec::new(),
            resolved: Vec::new(),
            rank,
        };
        round.reads(budget)?;
        if model.rules.family == Family::Snapshot {
            round.conflicts(budget)?;
        }
        let Round { found, out, resolved, rank: next, .. } = round;
        model.ruled_out.extend(out);
        model.resolved.extend(resolved);
        if found.is_empty() {
            return Ok(Ok(()));
        }
        rank = next;
        model.extend(found);
    }
}

/// The writers of each key, by chain.
struct Groups {
    /// Per key, its groups; per group, its chain and its writers.
    key_start: Vec<u32>,
    groups: Vec<(u32, u32)>,
    writers: Vec<TxnId>,
}

impl Groups {
    fn new(model: &Model<'_>, chains: &Chains) -> Groups {
        let facts = model.facts;
        let mut all = Groups { key_start: vec![0], groups: Vec::new(), writers: Vec::new() };
        let mut here: Vec<TxnId> = Vec::new();
        for key in facts.history.keys() {
            let mut last = None;
            here.clear();
            here.extend(facts.index.writers(key));
            here.sort_by_key(|&w| chains.place(model, w));
            for &w in &here {
                let (chain, _) = chains.place(model, w);
                if last != Some(chain) {
                    all.groups.push((chain, all.writers.len() as u32));
                    last = Some(chain);
                }
                all.writers.push(w);
            }
            all.key_start.push(all.groups.len() as u32);
        }
        all.groups.push((0, all.writers.len() as u32));
        all
    }

    /// Chain and writers, ascending, of each group of a key.
    fn of(&self, key: usize) -> impl Iterator<Item = (usize, &[TxnId])> {
        (self.key_start[key] as usize..self.key_start[key + 1] as usize).map(|g| {
            let (chain, start) = self.groups[g];
            (chain as usize, &self.writers[start as usize..self.groups[g + 1].1 as usize])
        })
    }
}

/// Per node and chain: events of the chain before the `before`-th precede it; those from the `after`-th on
/// it precedes.
struct Clocks {
    chains: usize,
    before: Vec<u32>,
    after: Vec<u32>,
}

impl Clocks {
    /// `None`: there is a cycle.
    fn new(
        model: &Model<'_>,
        chains: &Chains,
        wished: &[u32],
        budget: &Budget<'_>,
    ) -> Result<Option<Clocks>, OutOfBudget> {
        let graph = model.graph();
        let order = guess::kahn(model, &graph, wished);
        if order.len() < model.nodes as usize {
            return Ok(None);
        }
        let size = model.nodes as usize * chains.count;
        let mut clocks = Clocks { chains: chains.count, before: vec![0; size], after: vec![u32::MAX; size] };
        for (i, &node) in order.iter().enumerate() {
            if i.is_multiple_of(POLL) && budget.is_spent() {
                return Err(OutOfBudget);
            }
            let own = chains.event(model, node);
            graph.for_each_successor(node, |next| {
                let (mine, theirs) = rows(&mut clocks.before, node, next, chains.count);
                theirs.iter_mut().zip(mine).for_each(|(t, m)| *t = (*t).max(*m));
                if let Some((chain, at)) = own {
                    theirs[chain] = theirs[chain].max(at + 1);
                }
            });
        }
        for (i, &node) in order.iter().rev().enumerate() {
            if i.is_multiple_of(POLL) && budget.is_spent() {
                return Err(OutOfBudget);
            }
            graph.for_each_successor(node, |next| {
                let (theirs, mine) = rows(&mut clocks.after, next, node, chains.count);
                mine.iter_mut().zip(theirs).for_each(|(m, t)| *m = (*m).min(*t));
                if let Some((chain, at)) = chains.event(model, next) {
                    mine[chain] = mine[chain].min(at);
                }
            });
        }
        Ok(Some(clocks))
    }

    #[inline]
    fn before(&self, node: u32, chain: usize) -> u32 {
        self.before[node as usize * self.chains + chain]
    }

    #[inline]
    fn after(&self, node: u32, chain: usize) -> u32 {
        self.after[node as usize * self.chains + chain]
    }
}

/// The row of one node to read and that of another to write.
fn rows(all: &mut [u32], read: u32, write: u32, width: usize) -> (&[u32], &mut [u32]) {
    let (r, w) = (read as usize * width, write as usize * width);
    if r < w {
        let (low, high) = all.split_at_mut(w);
        (&low[r..r + width], &mut high[..width])
    } else {
        let (low, high) = all.split_at_mut(r);
        (&high[..width], &mut low[w..w + width])
    }
}

struct Round<'a, 'm> {
    model: &'a Model<'m>,
    chains: &'a Chains,
    groups: &'a Groups,
    clocks: Clocks,
    found: Vec<Edge>,
    out: Vec<((u32, Option<OpId>), RuledOut)>,
    resolved: Vec<u32>,
    rank: u32,
}

/// Reads or writes between two looks at the budget.
const POLL: usize = 4096;

impl Round<'_, '_> {
    #[inline]
    fn at(&self, event: u32) -> u32 {
        self.chains.at(self.model, event)
    }

    /// Does one event precede another?
    fn reaches(&self, from: u32, to: u32) -> bool {
        let event = self.chains.event(self.model, from);
        event.is_some_and(|(chain, at)| self.clocks.before(to, chain) > at)
    }

    fn add(&mut self, from: u32, to: u32, why: Why) {
        if from == to {
            return;
        }
        self.found.push(Edge { from, to, rank: self.rank, why });
        self.rank += 1;
        // So that the same edge is not found again in this round.
        if let Some((chain, at)) = self.chains.event(self.model, from) {
            let before = &mut self.clocks.before[to as usize * self.clocks.chains + chain];
            *before = (*before).max(at + 1);
        }
        if let Some((chain, at)) = self.chains.event(self.model, to) {
            let after = &mut self.clocks.after[from as usize * self.clocks.chains + chain];
            *after = (*after).min(at);
        }
    }

    /// The latest writer of a group that precedes an event.
    fn latest<'g>(&self, writers: &'g [TxnId], chain: usize, node: u32) -> Option<&'g TxnId> {
        let bound = self.clocks.before(node, chain);
        let end = writers.partition_point(|&o| self.at(self.model.rules.commit(o)) < bound);
        writers[..end].last()
    }

    fn reads(&mut self, budget: &Budget<'_>) -> Result<(), OutOfBudget> {
        let (facts, rules, groups) = (self.model.facts, self.model.rules, self.groups);
        let parallel = rules.family == Family::Parallel;
        for (i, read) in facts.reads.iter().enumerate() {
            if i.is_multiple_of(POLL) && budget.is_spent() {
                return Err(OutOfBudget);
            }
            let from = match read.from {
                From::Initial => None,
                From::Txn(w) => Some(w),
                From::Open(open) => match self.narrow(i, open) {
                    None => continue,
                    only => only,
                },
            };
            let begin = rules.begin(read.reader);
            for (chain, writers) in groups.of(read.key.index()) {
                let why = |other| Why::Axiom { read: i as u32, other };
                if let Some(w) = from
                    && let Some(&o) = self.latest(writers, chain, begin)
                    && o != w
                    && o != read.reader
                    && self.at(rules.commit(o)) >= self.clocks.before(rules.commit(w), chain)
                {
                    self.add(rules.commit(o), rules.commit(w), why(o));
                }
                if parallel {
                    continue;
                }
                let at = from.map_or(0, |w| {
                    let bound = self.clocks.after(rules.commit(w), chain);
                    writers.partition_point(|&o| self.at(rules.commit(o)) < bound)
                });
                if let Some(&o) = writers.get(at)
                    && o != read.reader
                    && Some(o) != from
                    && self.at(rules.commit(o)) < self.clocks.after(begin, chain)
                {
                    self.add(begin, rules.commit(o), why(o));
                }
            }
        }
        Ok(())
    }

    /// Rules out what an open read cannot have returned; returns the writer if only one write is left. (If
    /// only the initial state is left, the search finds out.)
    fn narrow(&mut self, read: usize, open: u32) -> Option<TxnId> {
        let (facts, rules) = (self.model.facts, self.model.rules);
        let found = facts.reads[read];
        let begin = rules.begin(found.reader);
        let out = |origin: &Origin| self.model.ruled_out.contains_key(&(open, origin.write()));
        let mut left: Vec<Origin> = facts.candidates(open).filter(|origin| !out(origin)).collect();
        if let [Origin::Write(w, write)] = left[..] {
            // Known since an earlier round, unless it was the only one that is final.
            if !self.model.resolved.contains(&open) {
                self.force(open, (w, write), begin);
            }
            return Some(w);
        }
        let groups = self.groups.of(found.key.index());
        let last: Vec<TxnId> = groups
            .filter_map(|(chain, writers)| self.latest(writers, chain, begin).copied())
            .filter(|&o| o != found.reader)
            .collect();
        let mut at = 0;
        while at < left.len() && left.len() > 1 {
            let Some(other) = self.excluded(left[at], begin, &last) else {
                at += 1;
                continue;
            };
            self.out.push(((open, left[at].write()), RuledOut { other, rank: self.rank }));
            self.rank += 1;
            left.remove(at);
        }
        let [Origin::Write(w, write)] = left[..] else { return None };
        self.force(open, (w, write), begin);
        Some(w)
    }

    /// Why a read that begins here did not return this, if it is known: see [`RuledOut::other`]. `last` are
    /// the latest writers of the key that precede the read.
    fn excluded(&self, origin: Origin, begin: u32, last: &[TxnId]) -> Option<Option<TxnId>> {
        let Origin::Write(w, _) = origin else { return last.first().map(|&o| Some(o)) };
        let commit = self.model.rules.commit(w);
        // That it follows the reader is the shorter proof.
        if self.reaches(begin, commit) {
            return Some(None);
        }
        let hides = |&o: &TxnId| o != w && self.reaches(commit, self.model.rules.commit(o));
        last.iter().copied().find(hides).map(Some)
    }

    fn force(&mut self, open: u32, (w, write): (TxnId, OpId), begin: u32) {
        self.resolved.push(open);
        self.add(self.model.rules.commit(w), begin, Why::Source { open, write });
    }

    /// Writers of one key must not overlap: who began before the other's end ended before the other's begin.
    fn conflicts(&mut self, budget: &Budget<'_>) -> Result<(), OutOfBudget> {
        let (facts, rules, groups) = (self.model.facts, self.model.rules, self.groups);
        for (count, second) in facts.txns().enumerate() {
            if count.is_multiple_of(POLL) && budget.is_spent() {
                return Err(OutOfBudget);
            }
            let (begin, commit) = (rules.begin(second), rules.commit(second));
            for write in facts.writes_of(second) {
                let key = facts.key_of(write);
                for (chain, writers) in groups.of(key.index()) {
                    let bound = self.clocks.before(commit, chain);
                    let end = writers.partition_point(|&o| self.at(rules.begin(o)) < bound);
                    if let Some(&first) = writers[..end].last()
                        && first != second
                        && self.at(rules.commit(first)) >= self.clocks.before(begin, chain)
                    {
                        self.add(rules.commit(first), begin, Why::Conflict { key, first, second });
                    }
                }
            }
        }
        Ok(())
    }
}
