//! Conflict-driven clause learning with a theory of order, and a log from which proofs are made.
//!
//! Variables stand for unordered pairs of events: the one comes before the other, or the other way round,
//! and either answer is an edge in a graph that must stay acyclic ([`Ordered`]). A decision always agrees
//! with the current order, so it never disturbs it; only what clauses force can move events or close a
//! cycle. Every clause has a number in the log together with its cause; a learnt clause names those it
//! follows from, in the order in which they become unit (reverse unit propagation, hints as in LRAT).
//! What is learnt from conflicts, and forgotten, is in `solver/learn.rs`.
//! (MiniSat's architecture: Eén & Sörensson 2003; order theory: `docs/spec/algorithms.md` 4.4.)

mod learn;

use super::log::{Cause, Log};
use super::vsids::Vsids;
use crate::{Budget, OutOfBudget};
use anomalist_graph::Ordered;
use anomalist_history::{OpId, TxnId};
use rustc_hash::FxHashMap;

/// What a variable says when it is true.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Var {
    /// The first node comes before the second; if it is false, the second before the first.
    Before(u32, u32),
    /// An open read (or element) is this write (`None`: the initial state), which may therefore come before
    /// it.
    Source { open: u32, write: Option<OpId>, edge: Option<(u32, u32)> },
    /// A transaction of unknown outcome took effect.
    Exists(TxnId),
}

/// A variable or its negation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Lit(u32);

impl Lit {
    fn new(var: usize, negative: bool) -> Lit {
        Lit((var as u32) << 1 | u32::from(negative))
    }

    pub fn var(self) -> usize {
        (self.0 >> 1) as usize
    }

    pub fn is_negative(self) -> bool {
        self.0 & 1 == 1
    }

    fn index(self) -> usize {
        self.0 as usize
    }
}

impl std::ops::Not for Lit {
    type Output = Lit;

    fn not(self) -> Lit {
        Lit(self.0 ^ 1)
    }
}

/// How a search for a model ended.
pub(crate) enum Answer {
    /// All clauses hold in the current order.
    Model,
    /// They contradict each other; the number of the empty clause in the log.
    Refuted(u32),
    /// So many conflicts were not enough.
    ConflictLimit,
}

struct Clause {
    lits: Vec<Lit>,
    /// Its number in the log.
    id: u32,
    learnt: bool,
    /// Literal block distance: the number of decision levels when it was learnt. The lower, the better.
    lbd: u32,
}

const NO_REASON: u32 = u32::MAX;
const UNDEFINED: u8 = 2;

pub(crate) struct Solver {
    pub order: Ordered,
    pub log: Log,
    vars: Vec<Var>,
    by_var: FxHashMap<Var, u32>,
    /// Per variable: 0 true, 1 false, 2 undefined, so that a literal is true iff the value equals its sign.
    value: Vec<u8>,
    level: Vec<u32>,
    reason: Vec<u32>,
    /// Where it stands in the trail.
    place: Vec<u32>,
    /// For variables fixed at level 0: the unit clause in the log.
    unit: Vec<u32>,
    /// What a variable that is not about order would be decided to be.
    phase: Vec<bool>,
    trail: Vec<Lit>,
    starts: Vec<usize>,
    next: usize,
    edges: usize,
    clauses: Vec<Clause>,
    watches: Vec<Vec<(u32, Lit)>>,
    vsids: Vsids,
    seen: Vec<bool>,
    learnt: usize,
    refuted: Option<u32>,
    pub conflicts: u64,
}

impl Solver {
    pub fn new(order: Ordered) -> Solver {
        Solver {
            order,
            log: Log::default(),
            vars: Vec::new(),
            by_var: FxHashMap::default(),
            value: Vec::new(),
            level: Vec::new(),
            reason: Vec::new(),
            place: Vec::new(),
            unit: Vec::new(),
            phase: Vec::new(),
            trail: Vec::new(),
            starts: Vec::new(),
            next: 0,
            edges: 0,
            clauses: Vec::new(),
            watches: Vec::new(),
            vsids: Vsids::default(),
            seen: Vec::new(),
            learnt: 0,
            refuted: None,
            conflicts: 0,
        }
    }

    pub fn vars(&self) -> &[Var] {
        &self.vars
    }

    /// The literal for "`a` comes before `b`".
    pub fn before(&mut self, a: u32, b: u32) -> Lit {
        let var = self.var(Var::Before(a.min(b), a.max(b)));
        Lit::new(var, a > b)
    }

    /// The literal that is true if a variable is.
    pub fn literal(&mut self, var: Var) -> Lit {
        Lit::new(self.var(var), false)
    }

    fn var(&mut self, var: Var) -> usize {
        let next = self.vars.len() as u32;
        let index = *self.by_var.entry(var).or_insert(next) as usize;
        if index == self.vars.len() {
            self.vars.push(var);
            self.value.push(UNDEFINED);
            self.level.push(0);
            self.reason.push(NO_REASON);
            self.place.push(0);
            self.unit.push(NO_REASON);
            self.phase.push(false);
            self.seen.push(false);
            self.watches.push(Vec::new());
            self.watches.push(Vec::new());
            self.vsids.add(index);
        }
        index
    }

    /// True if the last model makes this variable true.
    pub fn is_true(&self, var: Var) -> bool {
        self.by_var.get(&var).is_some_and(|&i| self.value[i as usize] == 0)
    }

    fn lit_value(&self, lit: Lit) -> u8 {
        match self.value[lit.var()] {
            UNDEFINED => UNDEFINED,
            v => v ^ u8::from(lit.is_negative()),
        }
    }

    /// The edge that a literal stands for when it is true.
    pub fn edge(&self, lit: Lit) -> Option<(u32, u32)> {
        match self.vars[lit.var()] {
            Var::Before(a, b) => Some(if lit.is_negative() { (b, a) } else { (a, b) }),
            Var::Source { edge, .. } => edge.filter(|_| !lit.is_negative()),
            Var::Exists(_) => None,
        }
    }

    /// Adds a clause that every answer satisfies. Undoes all decisions.
    pub fn add(&mut self, mut lits: Vec<Lit>, cause: Cause) {
        self.back_to(0);
        lits.sort_unstable();
        lits.dedup();
        let id = self.log.add(lits.clone(), cause);
        if lits.windows(2).any(|p| p[0] == !p[1]) {
            return;
        }
        self.attach(lits, id, false, 0);
    }

    /// Puts a clause to work at level 0, where the literals that are false stay false.
    fn attach(&mut self, mut lits: Vec<Lit>, id: u32, learnt: bool, lbd: u32) {
        lits.sort_by_key(|&l| self.lit_value(l) == 1);
        let open = lits.iter().filter(|&&l| self.lit_value(l) != 1).count();
        if open >= 2 {
            let index = self.clauses.len() as u32;
            self.watches[(!lits[0]).index()].push((index, lits[1]));
            self.watches[(!lits[1]).index()].push((index, lits[0]));
            self.clauses.push(Clause { lits, id, learnt, lbd });
            return;
        }
        let hints = self.units_of(lits[open..].iter().map(|l| l.var())).chain([id]).collect();
        if open == 0 {
            self.refuted = self.refuted.or(Some(self.log.add(Vec::new(), Cause::Implied(hints))));
        } else if self.lit_value(lits[0]) == UNDEFINED {
            let unit = if lits.len() == 1 { id } else { self.log.add(vec![lits[0]], Cause::Implied(hints)) };
            self.assign(lits[0], NO_REASON);
            self.unit[lits[0].var()] = unit;
        }
    }

    fn units_of<'s>(&'s self, vars: impl Iterator<Item = usize> + 's) -> impl Iterator<Item = u32> + 's {
        vars.map(|v| self.unit[v])
    }

    fn assign(&mut self, lit: Lit, reason: u32) {
        let v = lit.var();
        self.value[v] = u8::from(lit.is_negative());
        self.level[v] = self.starts.len() as u32;
        self.reason[v] = reason;
        self.place[v] = self.trail.len() as u32;
        self.trail.push(lit);
    }

    fn back_to(&mut self, level: usize) {
        let Some(&start) = self.starts.get(level) else { return };
        while self.trail.len() > start {
            let Some(lit) = self.trail.pop() else { break };
            if self.edges > self.trail.len() {
                self.edges = self.trail.len();
                if let Some((a, b)) = self.edge(lit) {
                    self.order.take_back(a, b);
                }
            }
            let v = lit.var();
            self.value[v] = UNDEFINED;
            self.reason[v] = NO_REASON;
            self.phase[v] = !lit.is_negative();
            self.vsids.insert(v);
        }
        self.next = start;
        self.starts.truncate(level);
    }

    /// Follows all consequences; a conflict is a clause (its literals, all false, and its number).
    fn propagate(&mut self) -> Option<(Vec<Lit>, u32)> {
        while self.next < self.trail.len() {
            let lit = self.trail[self.next];
            if let Some((a, b)) = self.edge(lit)
                && let Err(labels) = self.order.add(a, b, lit.0)
            {
                let mut cycle = vec![lit];
                cycle.extend(labels.into_iter().map(Lit));
                let mut clause: Vec<Lit> = cycle.iter().map(|&l| !l).collect();
                clause.sort_unstable();
                clause.dedup();
                let id = self.log.add(clause.clone(), Cause::Cycle(cycle));
                return Some((clause, id));
            }
            self.next += 1;
            self.edges = self.next;
            if let Some(conflict) = self.propagate_clauses(lit) {
                return Some(conflict);
            }
        }
        None
    }

    fn propagate_clauses(&mut self, lit: Lit) -> Option<(Vec<Lit>, u32)> {
        let mut watching = std::mem::take(&mut self.watches[lit.index()]);
        let (mut read, mut kept) = (0, 0);
        let mut conflict = None;
        while read < watching.len() {
            let (index, blocker) = watching[read];
            read += 1;
            if self.lit_value(blocker) == 0 {
                watching[kept] = (index, blocker);
                kept += 1;
                continue;
            }
            let clause = &mut self.clauses[index as usize];
            if clause.lits.is_empty() {
                continue; // It was deleted.
            }
            if clause.lits[0] == !lit {
                clause.lits.swap(0, 1);
            }
            let first = clause.lits[0];
            let value = |l: Lit| match self.value[l.var()] {
                UNDEFINED => UNDEFINED,
                v => v ^ u8::from(l.is_negative()),
            };
            if value(first) == 0 {
                watching[kept] = (index, first);
                kept += 1;
                continue;
            }
            if let Some(k) = (2..clause.lits.len()).find(|&k| value(clause.lits[k]) != 1) {
                clause.lits.swap(1, k);
                let watch = (!clause.lits[1]).index();
                self.watches[watch].push((index, first));
                continue;
            }
            watching[kept] = (index, first);
            kept += 1;
            if value(first) == 1 {
                conflict = Some((clause.lits.clone(), clause.id));
                break;
            }
            self.imply(first, index);
        }
        while read < watching.len() {
            watching[kept] = watching[read];
            kept += 1;
            read += 1;
        }
        watching.truncate(kept);
        self.watches[lit.index()] = watching;
        conflict
    }

    fn imply(&mut self, lit: Lit, clause: u32) {
        if self.starts.is_empty() {
            let Clause { lits, id, .. } = &self.clauses[clause as usize];
            let others = lits.iter().map(|l| l.var()).filter(|&v| v != lit.var());
            let hints = self.units_of(others).chain([*id]).collect();
            self.unit[lit.var()] = self.log.add(vec![lit], Cause::Implied(hints));
        }
        self.assign(lit, clause);
    }

    fn decide(&mut self) -> bool {
        while let Some(v) = self.vsids.pop() {
            if self.value[v] != UNDEFINED {
                continue;
            }
            let negative = match self.vars[v] {
                Var::Before(a, b) | Var::Source { edge: Some((a, b)), .. } => {
                    self.order.position(a) > self.order.position(b)
                }
                Var::Source { edge: None, .. } | Var::Exists(_) => !self.phase[v],
            };
            self.starts.push(self.trail.len());
            self.assign(Lit::new(v, negative), NO_REASON);
            return true;
        }
        false
    }

    /// Searches for an order that meets all clauses.
    pub fn solve(&mut self, limit: u64, budget: &Budget<'_>) -> Result<Answer, OutOfBudget> {
        let stop = self.conflicts.saturating_add(limit);
        let mut restart = Restarts::default();
        let mut until_restart = restart.next();
        let mut steps = 0u32;
        self.back_to(0);
        loop {
            steps += 1;
            if steps.is_multiple_of(64) && budget.is_spent() {
                self.back_to(0);
                return Err(OutOfBudget);
            }
            if let Some(step) = self.refuted {
                return Ok(Answer::Refuted(step));
            }
            if let Some((clause, id)) = self.propagate() {
                self.conflicts += 1;
                until_restart = until_restart.saturating_sub(1);
                self.learn(clause, id);
                continue;
            }
            if self.conflicts >= stop {
                self.back_to(0);
                return Ok(Answer::ConflictLimit);
            }
            if until_restart == 0 {
                until_restart = restart.next();
                self.back_to(0);
                self.forget();
                continue;
            }
            if !self.decide() {
                return Ok(Answer::Model);
            }
        }
    }
}

/// Luby's sequence, times a unit.
#[derive(Default)]
struct Restarts {
    step: u64,
}

impl Restarts {
    fn next(&mut self) -> u64 {
        self.step += 1;
        let mut i = self.step;
        loop {
            let k = u64::from(u64::BITS - i.leading_zeros());
            if i + 1 == 1 << k {
                return (1 << (k - 1)) * 64;
            }
            i -= (1 << (k - 1)) - 1;
        }
    }
}
