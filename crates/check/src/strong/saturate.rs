//! What follows from the known order, to a fixpoint: demands of which one alternative is ruled out become known edges.
//!
//! Reachability is kept as clocks: per event and session, how much of the session precedes it, and what of the session it
//! precedes first. So for each demand only the extreme writers per session matter: the latest that precedes a read must
//! precede what was read, the earliest that follows what was read must follow the read, and of two writers of a key that
//! must not overlap, the one that began before the other's end comes first. A round costs O((edges + reads) · sessions).
//! For levels with session order only: elsewhere sessions are no chains. (algorithms.md 3.2, P3.)

use super::facts::From;
use super::guess::{self, Cyclic};
use super::model::{Edge, Family, Model, Why};
use crate::budget::{Budget, OutOfBudget};
use isolde_graph::Graph;
use isolde_history::TxnId;

/// Clocks may have so many entries; beyond that the search has to do without.
const LARGEST: usize = 1 << 27;

/// Whether saturation is possible at all.
pub(crate) fn applies(model: &Model<'_>) -> bool {
    let entries = model.nodes as usize * model.facts.history.session_count();
    let closes = model.rules.reads_latest() || model.rules.family == Family::Parallel;
    closes && model.rules.sessions && entries <= LARGEST && !model.facts.has_open_reads()
}

/// Adds what follows. `Err` inside: the known edges contradict each other.
pub(crate) fn saturate(
    model: &mut Model<'_>,
    budget: &Budget<'_>,
) -> Result<Result<(), Cyclic>, OutOfBudget> {
    let wished = guess::even_pace(model);
    let groups = Groups::new(model);
    let mut rank = model.edges.iter().map(|e| e.rank).max().unwrap_or(0) + 1;
    loop {
        if budget.is_spent() {
            return Err(OutOfBudget);
        }
        let Some(clocks) = Clocks::new(model, &wished) else { return Ok(Err(Cyclic)) };
        let mut round = Round { model, groups: &groups, clocks, found: Vec::new(), rank };
        round.reads(budget)?;
        if model.rules.family == Family::Snapshot {
            round.conflicts(budget)?;
        }
        let Round { found, rank: next, .. } = round;
        if found.is_empty() {
            return Ok(Ok(()));
        }
        rank = next;
        model.extend(found);
    }
}

/// The writers of each key that certainly took effect, by session.
struct Groups {
    /// Per key, its groups; per group, its session and its writers.
    key_start: Vec<u32>,
    groups: Vec<(u32, u32)>,
    writers: Vec<TxnId>,
}

impl Groups {
    fn new(model: &Model<'_>) -> Groups {
        let facts = model.facts;
        let mut all = Groups { key_start: vec![0], groups: Vec::new(), writers: Vec::new() };
        for key in facts.history.keys() {
            let mut last = None;
            for &w in facts.index.writers(key) {
                let session = facts.history.session_of(w).0;
                if last != Some(session) {
                    all.groups.push((session, all.writers.len() as u32));
                    last = Some(session);
                }
                all.writers.push(w);
            }
            all.key_start.push(all.groups.len() as u32);
        }
        all.groups.push((0, all.writers.len() as u32));
        all
    }

    /// Session and writers, ascending, of each group of a key.
    fn of(&self, key: usize) -> impl Iterator<Item = (usize, &[TxnId])> {
        (self.key_start[key] as usize..self.key_start[key + 1] as usize).map(|g| {
            let (session, start) = self.groups[g];
            (session as usize, &self.writers[start as usize..self.groups[g + 1].1 as usize])
        })
    }
}

/// Per node and session: nodes of the session below `before` precede it; those from `after` on it precedes.
struct Clocks {
    sessions: usize,
    before: Vec<u32>,
    after: Vec<u32>,
}

impl Clocks {
    /// `None`: there is a cycle.
    fn new(model: &Model<'_>, wished: &[u32]) -> Option<Clocks> {
        let sessions = model.facts.history.session_count();
        let graph = model.graph();
        let order = guess::kahn(model, &graph, wished);
        if order.len() < model.nodes as usize {
            return None;
        }
        let size = model.nodes as usize * sessions;
        let mut clocks = Clocks { sessions, before: vec![0; size], after: vec![u32::MAX; size] };
        let session = |node: u32| {
            let event = node < model.events;
            event.then(|| model.facts.history.session_of(model.rules.txn(node)).index())
        };
        for &node in &order {
            let own = session(node);
            graph.for_each_successor(node, |next| {
                let (mine, theirs) = rows(&mut clocks.before, node, next, sessions);
                theirs.iter_mut().zip(mine).for_each(|(t, m)| *t = (*t).max(*m));
                if let Some(s) = own {
                    theirs[s] = theirs[s].max(node + 1);
                }
            });
        }
        for &node in order.iter().rev() {
            graph.for_each_successor(node, |next| {
                let (theirs, mine) = rows(&mut clocks.after, next, node, sessions);
                mine.iter_mut().zip(theirs).for_each(|(m, t)| *m = (*m).min(*t));
                if let Some(s) = session(next) {
                    mine[s] = mine[s].min(next);
                }
            });
        }
        Some(clocks)
    }

    #[inline]
    fn before(&self, node: u32, session: usize) -> u32 {
        self.before[node as usize * self.sessions + session]
    }

    #[inline]
    fn after(&self, node: u32, session: usize) -> u32 {
        self.after[node as usize * self.sessions + session]
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
    groups: &'a Groups,
    clocks: Clocks,
    found: Vec<Edge>,
    rank: u32,
}

/// Reads or writes between two looks at the budget.
const POLL: usize = 4096;

impl Round<'_, '_> {
    fn add(&mut self, from: u32, to: u32, why: Why) {
        if from == to {
            return;
        }
        self.found.push(Edge { from, to, rank: self.rank, why });
        self.rank += 1;
        let session = |node: u32| self.model.facts.history.session_of(self.model.rules.txn(node)).index();
        // So that the same edge is not found again in this round.
        let (f, t) = (session(from), session(to));
        let before = &mut self.clocks.before[to as usize * self.clocks.sessions + f];
        *before = (*before).max(from + 1);
        let after = &mut self.clocks.after[from as usize * self.clocks.sessions + t];
        *after = (*after).min(to);
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
                From::Open(_) => continue,
            };
            let begin = rules.begin(read.reader);
            for (session, writers) in groups.of(read.key.index()) {
                let why = |other| Why::Axiom { read: i as u32, other };
                if let Some(w) = from {
                    let bound = self.clocks.before(begin, session);
                    let at = writers.partition_point(|&o| rules.commit(o) < bound);
                    if let Some(&o) = at.checked_sub(1).map(|at| &writers[at])
                        && o != w
                        && o != read.reader
                        && rules.commit(o) >= self.clocks.before(rules.commit(w), session)
                    {
                        self.add(rules.commit(o), rules.commit(w), why(o));
                    }
                }
                if parallel {
                    continue;
                }
                let at = from.map_or(0, |w| {
                    let bound = self.clocks.after(rules.commit(w), session);
                    writers.partition_point(|&o| rules.commit(o) < bound)
                });
                if let Some(&o) = writers.get(at)
                    && o != read.reader
                    && Some(o) != from
                    && rules.commit(o) < self.clocks.after(begin, session)
                {
                    self.add(begin, rules.commit(o), why(o));
                }
            }
        }
        Ok(())
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
                for (session, writers) in groups.of(key.index()) {
                    let bound = self.clocks.before(commit, session);
                    let at = writers.partition_point(|&o| rules.begin(o) < bound);
                    if let Some(&first) = at.checked_sub(1).map(|at| &writers[at])
                        && first != second
                        && rules.commit(first) >= self.clocks.before(begin, session)
                    {
                        self.add(rules.commit(first), begin, Why::Conflict { key, first, second });
                    }
                }
            }
        }
        Ok(())
    }
}
