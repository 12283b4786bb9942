//! What is to be found out besides an order, as clauses: which write an open read returned, who of unknown outcome took effect,
//! and what the level demands, given that.
//!
//! Everything about sources is written down before the search; the demands of the level come as orders miss them.

use super::facts::{Facts, Found, From};
use super::log::Cause;
use super::model::{Family, Model, Visible};
use super::open_lists::{Element, OpenList};
use super::scan::{Decided, Demand, Link};
use super::search::Decisions;
use super::solver::{Lit, Solver, Var};
use anomalist_history::{OpId, TxnId};
use anomalist_level::Choice;
use rustc_hash::FxHashSet;

/// The variable for what an open read (or element) is. It comes before the reader, unless the level does not care.
pub(crate) fn source(model: &Model<'_>, open: u32, write: OpId) -> Var {
    let (facts, rules) = (model.facts, model.rules);
    let read = facts.open[open as usize].read.map(|i| &facts.reads[i as usize]);
    let read = read.filter(|read| rules.own(read.reader).follows_reads());
    let edge = read.map(|read| (rules.commit(facts.history.txn_of(write)), rules.begin(read.reader)));
    Var::Source { open, write, edge }
}

/// The writes that an open read may be, at this level.
pub(crate) fn candidates(model: &Model<'_>, open: u32) -> impl Iterator<Item = (TxnId, OpId)> {
    let open = &model.facts.open[open as usize];
    let follows = model.rules.own(open.reader).follows_reads();
    let intermediate = if follows { &[][..] } else { &open.intermediate[..] };
    open.candidates.iter().chain(intermediate).copied()
}

/// Adds everything that is known about sources and outcomes.
pub(crate) fn add(model: &Model<'_>, solver: &mut Solver) {
    if !model.facts.has_open_reads() && !model.facts.alone && model.rules.family != Family::Mixed {
        return;
    }
    let mut open = Writer { model, solver, facts: model.facts, neighbours: FxHashSet::default() };
    open.sources();
    open.certain_reads();
    for list in &model.facts.open_lists {
        open.list(list);
    }
    open.repeated();
}

struct Writer<'a, 's> {
    model: &'a Model<'a>,
    facts: &'a Facts<'a>,
    solver: &'s mut Solver,
    /// Certain neighbours that have been written down.
    neighbours: FxHashSet<(OpId, OpId)>,
}

impl Writer<'_, '_> {
    fn absent(&mut self, t: TxnId) -> Option<Lit> {
        unless_absent(self.model, self.solver, t)
    }

    fn observed(&mut self, reader: TxnId, choice: Choice, source: Option<Lit>) {
        let writer = self.facts.history.txn_of(choice.write);
        if self.facts.certain[writer.index()] {
            return;
        }
        let mut clause: Vec<Lit> = source.map(|s| !s).into_iter().chain(self.absent(reader)).collect();
        clause.push(self.solver.literal(Var::Exists(writer)));
        self.solver.add(clause, Cause::Observed(choice));
    }

    /// Every open read is one of its candidates, which takes effect.
    fn sources(&mut self) {
        for (i, open) in (0..).zip(&self.facts.open) {
            let mut clause: Vec<Lit> = self.absent(open.reader).into_iter().collect();
            for (_, write) in candidates(self.model, i) {
                let lit = self.solver.literal(source(self.model, i, write));
                clause.push(lit);
                if self.model.ruled_out.contains_key(&(i, write)) {
                    self.solver.add(vec![!lit], Cause::RuledOut { open: i, write });
                }
                self.observed(open.reader, Choice { read: open.op, write }, Some(lit));
            }
            // What a list does not show matters as well, so each element is one append only.
            for (at, &a) in clause.iter().enumerate().skip(usize::from(clause.len() > open.candidates.len()))
            {
                for &b in clause[at + 1..].iter().filter(|_| open.of_list) {
                    self.solver.add(vec![!a, !b], Cause::Repeated { first: open.op, second: open.op });
                }
            }
            self.solver.add(clause, Cause::Source(i));
        }
    }

    /// What follows from reads of those who may have taken effect.
    fn certain_reads(&mut self) {
        let (facts, rules) = (self.facts, self.model.rules);
        for (i, read) in facts.reads.iter().enumerate() {
            let From::Txn(writer) = read.from else { continue };
            let Some(absent) = self.absent(read.reader) else { continue };
            if rules.own(read.reader).follows_reads() {
                let follows = self.solver.before(rules.commit(writer), rules.begin(read.reader));
                self.solver.add(vec![absent, follows], Cause::Follows { read: i as u32, writer });
            }
            if let Some(write) = facts.write_of(writer, read.key).filter(|_| !facts.appends.is_open(read.key))
            {
                self.observed(read.reader, Choice { read: read.op, write }, None);
            }
        }
        for &(t, read, kind, replaced) in &facts.impossible {
            if !rules.own(t).forbids(kind) {
                continue;
            }
            let absent = self.absent(t).into_iter().collect();
            self.solver.add(absent, Cause::Impossible { read, replaced });
        }
    }

    /// The literal for an element's being an append; `None`: it is, for sure.
    fn element(&mut self, element: Element, write: OpId) -> Option<Lit> {
        match element {
            Element::Certain(_) => None,
            Element::Open(open) => Some(self.solver.literal(source(self.model, open, write))),
        }
    }

    fn appends(&self, element: Element) -> Vec<OpId> {
        match element {
            Element::Certain(write) => vec![write],
            Element::Open(open) => {
                self.facts.open[open as usize].candidates.iter().map(|&(_, write)| write).collect()
            }
        }
    }

    fn list(&mut self, list: &OpenList) {
        let (facts, rules) = (self.facts, self.model.rules);
        for &element in &list.elements {
            if let Element::Certain(write) = element {
                self.observed(list.reader, Choice { read: list.op, write }, None);
            }
        }
        if rules.family == Family::Cut {
            return;
        }
        let rules = rules.own(list.reader);
        let absent = self.absent(list.reader);
        let Some((&first, &last)) = list.elements.first().zip(list.elements.last()) else { return };
        for write in self.appends(first) {
            if facts.appends.place(write).0 > 0 {
                let clause = self.element(first, write).map(|l| !l).into_iter().chain(absent).collect();
                let first = facts.appends.previous(list.key, write);
                self.solver.add(clause, Cause::Version { read: list.op, first, second: write });
            }
        }
        for pair in list.elements.windows(2) {
            for first in self.appends(pair[0]) {
                for second in self.appends(pair[1]) {
                    self.neighbours(list, (pair[0], first), (pair[1], second), absent);
                }
            }
        }
        if rules.follows_reads() {
            for write in self.appends(last) {
                if facts.appends.place(write).1 > 0 {
                    let clause = self.element(last, write).map(|l| !l).into_iter().chain(absent).collect();
                    self.solver.add(clause, Cause::Intermediate { read: list.op, write });
                }
            }
        }
    }

    /// A list shows one append right before another.
    fn neighbours(
        &mut self,
        list: &OpenList,
        (a, first): (Element, OpId),
        (b, second): (Element, OpId),
        absent: Option<Lit>,
    ) {
        let (facts, rules) = (self.facts, self.model.rules);
        let (t, u) = (facts.history.txn_of(first), facts.history.txn_of(second));
        let ((before, after_first), (before_second, _)) =
            (facts.appends.place(first), facts.appends.place(second));
        if t == u && before + 1 == before_second {
            return;
        }
        let unlikely = [self.element(a, first), self.element(b, second)];
        let mut clause: Vec<Lit> = unlikely.into_iter().flatten().map(|l| !l).chain(absent).collect();
        if t != u && after_first == 0 && before_second == 0 {
            if clause.is_empty() && !self.neighbours.insert((first, second)) {
                return;
            }
            clause.push(self.solver.before(rules.commit(t), rules.commit(u)));
        }
        self.solver.add(clause, Cause::Version { read: list.op, first, second });
    }

    /// A transaction repeats its reads: at cut isolation their sources, at read atomic and causal what lists show of others.
    fn repeated(&mut self) {
        for t in self.facts.txns() {
            match self.model.rules.own(t).family {
                Family::Cut => self.repeated_sources(t),
                Family::Visible(Visible::ReadAtomic | Visible::Causal) => self.repeated_lists(t),
                _ => {}
            }
        }
    }

    fn repeated_sources(&mut self, t: TxnId) {
        let reads = &self.facts.reads[self.facts.reads_of(t)];
        for (i, a) in reads.iter().enumerate() {
            if let Some(b) = reads[i + 1..].iter().find(|b| b.key == a.key) {
                self.same_source(t, a, b);
            }
        }
    }

    fn repeated_lists(&mut self, t: TxnId) {
        let lists = self.facts.open_lists_of(t);
        for (i, a) in lists.iter().enumerate() {
            let Some(b) = lists[i + 1..].iter().find(|b| b.key == a.key) else { continue };
            if a.elements.len() != b.elements.len() {
                let clause = self.absent(t).into_iter().collect();
                self.solver.add(clause, Cause::Repeated { first: a.op, second: b.op });
            }
        }
    }

    fn same_source(&mut self, t: TxnId, a: &Found, b: &Found) {
        let absent = self.absent(t);
        for (w, first) in self.possible(a) {
            for (v, second) in self.possible(b) {
                if w != v {
                    let clause = [first, second].into_iter().flatten().map(|l| !l).chain(absent).collect();
                    self.solver.add(clause, Cause::Repeated { first: a.op, second: b.op });
                }
            }
        }
    }

    /// Whom a read may be from, and the literal that says so.
    fn possible(&mut self, read: &Found) -> Vec<(Option<TxnId>, Option<Lit>)> {
        match read.from {
            From::Initial => vec![(None, None)],
            From::Txn(w) => vec![(Some(w), None)],
            From::Open(open) => {
                let all: Vec<_> = candidates(self.model, open).collect();
                let lit = |(w, write)| (Some(w), Some(self.solver.literal(source(self.model, open, write))));
                all.into_iter().map(lit).collect()
            }
        }
    }
}

/// "This transaction did not take effect", where that is possible.
fn unless_absent(model: &Model<'_>, solver: &mut Solver, t: TxnId) -> Option<Lit> {
    (!model.facts.certain[t.index()]).then(|| !solver.literal(Var::Exists(t)))
}

/// "The read returned something else", where that is possible.
fn unless_elsewhere(model: &Model<'_>, solver: &mut Solver, read: u32, from: TxnId) -> Option<Lit> {
    let From::Open(open) = model.facts.reads[read as usize].from else { return None };
    // Of several appends by one transaction the chosen one.
    let chosen = (Decisions { model, solver }).source(open).filter(|c| c.0 == from);
    let (_, write) = chosen.or_else(|| candidates(model, open).find(|c| c.0 == from))?;
    Some(!solver.literal(source(model, open, write)))
}

/// The clause that a demand is.
pub(crate) fn clause(model: &Model<'_>, solver: &mut Solver, demand: &Demand) -> Vec<Lit> {
    let rules = model.rules;
    let mut clause: Vec<Lit> = Vec::new();
    match demand {
        &Demand::Axiom { read, from, other } => {
            let reader = model.facts.reads[read as usize].reader;
            clause.extend(unless_absent(model, solver, reader));
            clause.extend(unless_absent(model, solver, other));
            clause.push(solver.before(rules.begin(reader), rules.commit(other)));
            if let Some(w) = from {
                clause.push(solver.before(rules.commit(other), rules.commit(w)));
                clause.extend(unless_elsewhere(model, solver, read, w));
            }
        }
        &Demand::Conflict { first, second, .. } => {
            clause.extend(unless_absent(model, solver, first));
            clause.extend(unless_absent(model, solver, second));
            clause.push(solver.before(rules.commit(first), rules.guarded(second)));
            clause.push(solver.before(rules.commit(second), rules.guarded(first)));
        }
        Demand::Path { read, from, path, links } => {
            let Some(&other) = path.first() else { return clause };
            if let Some(w) = *from {
                clause.push(solver.before(rules.commit(other), rules.commit(w)));
                clause.extend(unless_elsewhere(model, solver, *read, w));
            }
            for &t in path {
                clause.extend(unless_absent(model, solver, t));
            }
            for (pair, &link) in path.windows(2).zip(links) {
                clause.extend(broken(model, solver, (pair[0], pair[1]), link));
            }
        }
        &Demand::Unseen { list, first, second } => {
            let list = &model.facts.open_lists[list as usize];
            let (t, u) = (model.facts.history.txn_of(first), model.facts.history.txn_of(second));
            clause.extend(unless_absent(model, solver, list.reader));
            clause.extend(unless_absent(model, solver, u));
            clause.push(solver.before(rules.commit(t), rules.commit(u)));
            if let Some(&Element::Open(open)) = list.elements.last() {
                clause.push(!solver.literal(source(model, open, first)));
            }
            for &element in &list.elements {
                if let Element::Open(open) = element
                    && model.facts.open[open as usize].candidates.iter().any(|c| c.1 == second)
                {
                    clause.push(solver.literal(source(model, open, second)));
                }
            }
        }
    }
    clause
}

/// What breaks a link, if anything does: the reverse of a version order, or another source.
fn broken(model: &Model<'_>, solver: &mut Solver, (a, b): (TxnId, TxnId), link: Link) -> Vec<Lit> {
    let rules = model.rules;
    let facts = model.facts;
    match link {
        Link::Session => Vec::new(),
        Link::Read(read) => unless_elsewhere(model, solver, read, a).into_iter().collect(),
        Link::Version => vec![solver.before(rules.commit(b), rules.commit(a))],
        Link::Replaced(read) => {
            let from = match facts.reads[read as usize].from {
                From::Initial => return Vec::new(),
                From::Txn(w) => w,
                From::Open(open) => match (Decisions { model, solver }).source(open) {
                    Some((w, _)) => w,
                    None => return Vec::new(),
                },
            };
            let before = solver.before(rules.commit(b), rules.commit(from));
            [before].into_iter().chain(unless_elsewhere(model, solver, read, from)).collect()
        }
    }
}
