//! From the log of a search to a refutation that a stranger can check.
//!
//! Only what the contradiction needs is written down: going back from the empty clause, the clauses it
//! follows from, and for each cycle the known edges between its decided ones. A known edge that is more
//! than a fact of the history (an axiom of the level, one of whose alternatives earlier edges rule out) is
//! derived first: the axiom, the cycle that rules the alternative out, and the conclusion.

use super::facts::{Found, Open};
use super::log::{Cause, Log};
use super::model::{Edge, Model, Why};
use super::open_lists::Element;
use super::scan::Constraint;
use super::solver::{Lit, Solver, Var};
use crate::Budget;
use crate::view::returned;
use anomalist_history::{KeyId, OpId, TxnId};
use anomalist_level::{Choice, Literal, Point, Reason, Refutation, Step};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A path of known edges, as places in `Model::edges`.
pub(crate) type Path = Vec<u32>;

/// Writes refutations for one level.
pub(crate) struct Prover<'a> {
    pub(super) model: &'a Model<'a>,
    /// Where the edges of each node begin in `Model::edges`.
    start: Vec<u32>,
    /// A topological order of the known edges, if there is one: paths need not look beyond their end.
    position: Option<&'a dyn Fn(u32) -> u32>,
    pub(super) steps: Vec<Step>,
    /// The step that has a known edge as its whole clause.
    pub(super) derived: FxHashMap<u32, u32>,
    /// Per open read, the edge that tells what it returned, and the step that says so.
    pub(super) sources: FxHashMap<u32, u32>,
    pub(super) returned: FxHashMap<u32, u32>,
    /// The step that says that an open read did not return something.
    pub(super) excluded: FxHashMap<(u32, Option<OpId>), u32>,
}

impl<'a> Prover<'a> {
    pub fn new(model: &'a Model<'a>, position: Option<&'a dyn Fn(u32) -> u32>) -> Prover<'a> {
        let mut start = vec![0u32; model.nodes as usize + 1];
        for edge in &model.edges {
            start[edge.from as usize + 1] += 1;
        }
        for i in 0..model.nodes as usize {
            start[i + 1] += start[i];
        }
        let sources = (0..).zip(&model.edges).filter_map(|(index, edge)| match edge.why {
            Why::Source { open, .. } => Some((open, index)),
            _ => None,
        });
        Prover {
            model,
            start,
            position,
            steps: Vec::new(),
            derived: FxHashMap::default(),
            sources: sources.collect(),
            returned: FxHashMap::default(),
            excluded: FxHashMap::default(),
        }
    }

    pub(super) fn edge(&self, index: u32) -> &Edge {
        &self.model.edges[index as usize]
    }

    /// The cheapest path from one node to another by edges that rest on less than `rank`: facts of the
    /// history before conclusions, and short before long; empty from a node to itself. `None`: there is
    /// none.
    pub fn path(&self, from: u32, to: u32, rank: u32) -> Option<Path> {
        if from == to { Some(Vec::new()) } else { self.route(from, to, rank) }
    }

    /// The cheapest cycle of known edges through a node.
    pub fn cycle_through(&self, node: u32) -> Option<Path> {
        self.route(node, node, u32::MAX)
    }

    fn route(&self, from: u32, to: u32, rank: u32) -> Option<Path> {
        let limit = self.position.map_or(u32::MAX, |position| position(to));
        let mut best: FxHashMap<u32, (u32, u32)> = FxHashMap::default();
        let mut heap = BinaryHeap::from([Reverse((0u32, from))]);
        while let Some(Reverse((cost, node))) = heap.pop() {
            if node == to && cost > 0 {
                break;
            }
            if best.get(&node).is_some_and(|b| b.0 < cost) {
                continue;
            }
            for index in self.start[node as usize]..self.start[node as usize + 1] {
                let edge = self.edge(index);
                if edge.rank >= rank || self.position.is_some_and(|position| position(edge.to) > limit) {
                    continue;
                }
                let price = cost + price(edge);
                if best.get(&edge.to).is_none_or(|b| price < b.0) {
                    best.insert(edge.to, (price, index));
                    heap.push(Reverse((price, edge.to)));
                }
            }
        }
        let mut path = Vec::new();
        let mut node = to;
        loop {
            let &(_, index) = best.get(&node)?;
            path.push(index);
            node = self.edge(index).from;
            if node == from {
                path.reverse();
                return Some(path);
            }
        }
    }

    /// The refutation by a cycle of known edges.
    pub fn by_cycle(mut self, cycle: &[u32]) -> Refutation {
        self.derive_all(cycle);
        let points = self.points(cycle);
        self.steps.push(Step { clause: Vec::new(), reason: Reason::Cycle(points) });
        Refutation { steps: self.steps }
    }

    /// The refutation that ends with the clause of this number in the log; without steps if the budget is
    /// spent first.
    pub fn by_log(mut self, solver: &Solver, end: u32, budget: &Budget<'_>) -> Refutation {
        let mut numbers: FxHashMap<u32, u32> = FxHashMap::default();
        for id in needed(&solver.log, end) {
            if budget.is_spent() {
                return Refutation::default();
            }
            let number = self.log_step(solver, id, &numbers);
            numbers.insert(id, number);
        }
        Refutation { steps: self.steps }
    }

    pub(super) fn push(&mut self, clause: Vec<Literal>, reason: Reason) -> u32 {
        self.steps.push(Step { clause, reason });
        (self.steps.len() - 1) as u32
    }

    fn log_step(&mut self, solver: &Solver, id: u32, numbers: &FxHashMap<u32, u32>) -> u32 {
        let entry = &solver.log.entries[id as usize];
        let clause: Vec<Literal> = entry.lits.iter().map(|&l| self.literal(solver, l)).collect();
        let reason = match &entry.cause {
            Cause::Constraint(constraint) => self.constraint(constraint, &clause),
            Cause::Source(open) => return self.source(*open, clause),
            &Cause::RuledOut { open, write } => {
                let paths = self.excluded_by(open, write);
                paths.iter().for_each(|path| self.derive_all(path));
                return self.exclude(open, write);
            }
            &Cause::Observed(choice) => Reason::Observed(choice),
            &Cause::Version { read, first, second } => Reason::Version { read, first, second },
            &Cause::Intermediate { read, write } => {
                Reason::Intermediate(returned(self.model.facts.history, read, write))
            }
            &Cause::Repeated { first, second } => Reason::Repeated { first, second },
            &Cause::Follows { read, writer } => {
                let rules = self.model.rules;
                let reader = self.model.facts.reads[read as usize].reader;
                Reason::Cycle(vec![rules.point(rules.commit(writer)), rules.point(rules.begin(reader))])
            }
            &Cause::Impossible { read, replaced: Some(write) } => {
                Reason::Intermediate(returned(self.model.facts.history, read, write))
            }
            &Cause::Impossible { read, replaced: None } => Reason::Impossible { read },
            Cause::Cycle(lits) => Reason::Cycle(self.decided_cycle(solver, lits)),
            Cause::Implied(hints) => Reason::Implied(hints.iter().map(|hint| numbers[hint]).collect()),
        };
        self.push(clause, reason)
    }

    /// The points of a cycle of decided edges with known ones between.
    fn decided_cycle(&mut self, solver: &Solver, lits: &[Lit]) -> Vec<Point> {
        let ends: Vec<(u32, u32)> = lits.iter().filter_map(|&l| solver.edge(l)).collect();
        let mut points = Vec::new();
        for (i, &(from, to)) in ends.iter().enumerate() {
            let next = ends[(i + 1) % ends.len()].0;
            let path = self.path(to, next, u32::MAX).unwrap_or_default();
            self.derive_all(&path);
            points.push(from);
            points.push(to);
            points.extend(path.iter().map(|&e| self.edge(e).to));
        }
        self.shorten(points)
    }

    fn points(&self, cycle: &[u32]) -> Vec<Point> {
        self.shorten(cycle.iter().map(|&e| self.edge(e).from).collect())
    }

    /// Leaves out moments of real time, which are no points, and repetitions.
    pub(super) fn shorten(&self, mut nodes: Vec<u32>) -> Vec<Point> {
        nodes.retain(|&node| node < self.model.events);
        nodes.dedup();
        if nodes.len() > 1 && nodes.first() == nodes.last() {
            nodes.pop();
        }
        nodes.into_iter().map(|node| self.model.rules.point(node)).collect()
    }

    pub(super) fn before(&self, from: u32, to: u32) -> Literal {
        Literal::Before(self.model.rules.point(from), self.model.rules.point(to))
    }

    fn write(&self, t: TxnId, key: KeyId) -> OpId {
        // A writer of the key writes it.
        self.model.facts.write_of(t, key).unwrap_or(OpId(0))
    }

    /// That an open read (or element) is this write, or the initial state.
    pub(super) fn choice(&self, open: u32, write: Option<OpId>) -> Choice {
        let open = self.model.facts.open[open as usize];
        Choice { read: open.op, element: open.element, write }
    }

    fn literal(&self, solver: &Solver, lit: Lit) -> Literal {
        let positive = match solver.vars()[lit.var()] {
            Var::Before(a, b) => self.before(a, b),
            Var::Source { open, write, .. } => Literal::ReadsFrom(self.choice(open, write)),
            Var::Exists(t) => Literal::Committed(t),
        };
        if lit.is_negative() { !positive } else { positive }
    }

    pub(super) fn axiom(
        &self,
        read: u32,
        from: Option<TxnId>,
        other: TxnId,
        path: Vec<TxnId>,
        clause: &[Literal],
    ) -> Reason {
        let read = self.model.facts.reads[read as usize];
        // Of several writes of an open read the one that the clause speaks of.
        let chosen = clause.iter().find_map(|literal| match literal {
            Literal::NotReadsFrom(c)
                if c.read == read.op && c.write.map(|w| self.model.facts.history.txn_of(w)) == from =>
            {
                c.write
            }
            _ => None,
        });
        Reason::Axiom {
            read: read.op,
            write: from.map(|w| chosen.unwrap_or_else(|| self.returned(read, w))),
            other: self.write(other, read.key),
            path,
        }
    }

    pub(super) fn conflict(&self, key: KeyId, first: TxnId, second: TxnId) -> Reason {
        Reason::Conflict { first: self.write(first, key), second: self.write(second, key) }
    }

    /// The write that a certain read returned.
    fn returned(&self, read: Found, writer: TxnId) -> OpId {
        let lists = self.model.facts.open_lists_of(read.reader);
        let list = lists.iter().find(|list| list.op == read.op);
        match list.and_then(|list| list.elements.last()) {
            Some(&Element::Certain(write)) => write,
            _ => self.write(writer, read.key),
        }
    }

    fn constraint(&self, constraint: &Constraint, clause: &[Literal]) -> Reason {
        match constraint {
            &Constraint::Axiom { read, from, other } => self.axiom(read, from, other, Vec::new(), clause),
            &Constraint::Conflict { key, first, second } => self.conflict(key, first, second),
            Constraint::Path { read, from, path, .. } => {
                let between = path.get(1..path.len() - 1).unwrap_or_default().to_vec();
                let other = path.first().copied().unwrap_or(TxnId(0));
                self.axiom(*read, *from, other, between, clause)
            }
            &Constraint::Unseen { list, first, second } => {
                Reason::Version { read: self.model.facts.open_lists[list as usize].op, first, second }
            }
            // Has a cause of its own.
            &Constraint::Source { open } => {
                let Open { op, element, .. } = self.model.facts.open[open as usize];
                Reason::Source { read: op, element }
            }
        }
    }

    /// A read returned one of its candidates; those that wrote the key again are out.
    pub(super) fn source(&mut self, open: u32, clause: Vec<Literal>) -> u32 {
        let Open { op, reader, element, .. } = self.model.facts.open[open as usize];
        let out: Vec<Choice> = match self.model.rules.own(reader).follows_reads() {
            true => {
                self.model.facts.replaced(open).map(|(_, write)| self.choice(open, Some(write))).collect()
            }
            false => Vec::new(),
        };
        let all = clause.iter().copied().chain(out.iter().map(|&c| Literal::ReadsFrom(c))).collect();
        let mut hints: Vec<u32> = Vec::new();
        for &choice in &out {
            let absent = clause.iter().copied().filter(|l| matches!(l, Literal::NotCommitted(_)));
            let clause = absent.chain([Literal::NotReadsFrom(choice)]).collect();
            hints.push(self.push(clause, Reason::Intermediate(choice)));
        }
        let first = self.push(all, Reason::Source { read: op, element });
        if out.is_empty() {
            return first;
        }
        hints.push(first);
        self.push(clause, Reason::Implied(hints))
    }
}

/// What it costs a reader to follow an edge.
pub(crate) fn price(edge: &Edge) -> u32 {
    match edge.why {
        Why::Program => 1,
        Why::Session | Why::Read(_) | Why::RealTime => 2,
        Why::Version { .. } | Why::Assumed { .. } => 3,
        Why::Axiom { .. } | Why::Conflict { .. } | Why::Source { .. } => 6 + edge.rank.min(1000) * 4,
    }
}

/// What a clause rests on, itself included, in the order of the log.
pub(crate) fn needed(log: &Log, end: u32) -> Vec<u32> {
    let mut met: FxHashSet<u32> = FxHashSet::default();
    let mut work = vec![end];
    while let Some(id) = work.pop() {
        if met.insert(id)
            && let Cause::Implied(hints) = &log.entries[id as usize].cause
        {
            work.extend(hints);
        }
    }
    let mut ids: Vec<u32> = met.into_iter().collect();
    ids.sort_unstable();
    ids
}
