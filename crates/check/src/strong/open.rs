//! What is to be found out besides an order, as clauses: which write an open read returned, and which
//! transactions of unknown outcome took effect. What the level requires, given that, is in
//! `open/clause.rs`.
//!
//! Nearly all open reads take care of themselves: in most orders the latest version before such a read is
//! one of its candidates. So a register's open read has a *default* source, the latest candidate before it
//! in the current order, until an order misses a constraint that rests on it. Only then is the solver
//! *asked* about it: it gets a variable per candidate and a clause that says that one of them is true.
//! Lists are asked about from the beginning, since all their elements must agree.

mod clause;

use super::facts::{Facts, Found, From, Origin};
use super::log::Cause;
use super::model::{Family, Model, Visible};
use super::open_lists::{Element, OpenList};
use super::scan::{Constraint, Decided};
use super::search::Decisions;
use super::solver::{Lit, Solver, Var};
use crate::{Budget, OutOfBudget};
use anomalist_history::{OpId, TxnId};
use anomalist_level::Choice;
use clause::unless_absent;
use rustc_hash::{FxHashMap, FxHashSet};

pub(crate) use clause::{clause, is_certain};

/// The variable for what an open read (or element) is. It comes before the reader, unless the level does
/// not care.
pub(crate) fn source(model: &Model<'_>, open: u32, origin: Origin) -> Var {
    let (facts, rules) = (model.facts, model.rules);
    let read = facts.open[open as usize].read.map(|i| &facts.reads[i as usize]);
    let read = read.filter(|read| rules.own(read.reader).follows_reads());
    let edge = read.zip(origin.txn()).map(|(read, w)| (rules.commit(w), rules.begin(read.reader)));
    Var::Source { open, write: origin.write(), edge }
}

/// What an open read may have returned, at this level.
pub(crate) fn candidates(model: &Model<'_>, open: u32) -> impl Iterator<Item = Origin> {
    let follows = model.rules.own(model.facts.open[open as usize].reader).follows_reads();
    let replaced = (!follows).then(|| model.facts.replaced(open)).into_iter().flatten();
    model.facts.candidates(open).chain(replaced.map(|(t, write)| Origin::Write(t, write)))
}

/// Which open reads the solver has been asked about, and what the others return in the current order.
pub(crate) struct Sources {
    asked: Vec<bool>,
    default: Vec<Option<Origin>>,
}

impl Sources {
    pub fn is_asked(&self, open: u32) -> bool {
        self.asked[open as usize]
    }

    /// What an open read returns that the solver has not been asked about; `None`: no candidate comes
    /// before it.
    pub fn default(&self, open: u32) -> Option<Origin> {
        self.default[open as usize]
    }

    /// Finds the defaults in the solver's current order: the latest candidate before each read. Linear in
    /// the history.
    pub fn follow(&mut self, model: &Model<'_>, solver: &Solver) {
        let (facts, rules) = (model.facts, model.rules);
        if self.asked.iter().all(|&asked| asked) {
            return;
        }
        self.default.fill(None);
        let initial = |pool: &super::facts::Pool| pool.initial.then_some(Origin::Initial);
        let mut last: Vec<Option<Origin>> = facts.pools.iter().map(initial).collect();
        for &node in solver.order.order().iter().filter(|&&node| model.counts(node)) {
            let t = rules.txn(node);
            if !facts.certain[t.index()] && !solver.is_true(Var::Exists(t)) {
                continue;
            }
            if node == rules.begin(t) {
                for open in facts.open_of(t).filter(|&open| !self.asked[open]) {
                    self.default[open] = match rules.own(t).follows_reads() {
                        true => last[facts.open[open].pool as usize],
                        false => any_certain(model, open as u32),
                    };
                }
            }
            if node == rules.commit(t) {
                for &(pool, write) in facts.pool_writes(t) {
                    last[pool as usize] = Some(Origin::Write(t, write));
                }
            }
        }
    }
}

/// A candidate that exists for sure: at levels that do not ask for more, the same for all reads of the
/// transaction.
fn any_certain(model: &Model<'_>, open: u32) -> Option<Origin> {
    let certain = |origin: &Origin| origin.txn().is_none_or(|t| model.facts.certain[t.index()]);
    candidates(model, open).find(certain)
}

/// The reads that have no source in the current order, of transactions that take effect.
pub(crate) fn without_source(model: &Model<'_>, decisions: &Decisions<'_>) -> Vec<Constraint> {
    let facts = model.facts;
    let reads = (0..).zip(&facts.open).filter(|(open, found)| {
        !decisions.sources.is_asked(*open)
            && decisions.sources.default(*open).is_none()
            && (facts.certain[found.reader.index()] || decisions.took_effect(found.reader))
    });
    reads.map(|(open, _)| Constraint::Source { open }).collect()
}

/// Adds what is known about outcomes and lists.
pub(crate) fn add(
    model: &Model<'_>,
    solver: &mut Solver,
    budget: &Budget<'_>,
) -> Result<Sources, OutOfBudget> {
    let opens = model.facts.open.len();
    let mut sources = Sources { asked: vec![false; opens], default: vec![None; opens] };
    if !model.facts.has_open_reads() && !model.facts.alone && model.rules.family != Family::Mixed {
        return Ok(sources);
    }
    let poll = || if budget.is_spent() { Err(OutOfBudget) } else { Ok(()) };
    let mut writer = Writer::new(model, solver, &mut sources);
    for (i, _) in (0..).zip(&model.facts.open).filter(|(_, open)| open.of_list) {
        poll()?;
        writer.ask(i);
    }
    writer.certain_reads();
    for list in &model.facts.open_lists {
        poll()?;
        writer.list(list);
    }
    for t in model.facts.txns() {
        poll()?;
        writer.repeated(t);
    }
    Ok(sources)
}

/// Asks the solver what an open read returned.
pub(crate) fn ask(model: &Model<'_>, solver: &mut Solver, sources: &mut Sources, open: u32) {
    Writer::new(model, solver, sources).ask(open);
}

/// Adds a clause, and asks about the open reads that it mentions.
pub(crate) fn post(
    model: &Model<'_>,
    solver: &mut Solver,
    sources: &mut Sources,
    clause: Vec<Lit>,
    cause: Cause,
) {
    Writer::new(model, solver, sources).post(clause, cause);
}

/// Whom a read may be from, and the literal that says so; none: it is, for sure.
type Candidate = (Option<TxnId>, Option<Lit>);

struct Writer<'a, 's> {
    model: &'a Model<'a>,
    facts: &'a Facts<'a>,
    solver: &'s mut Solver,
    sources: &'s mut Sources,
    /// Certain neighbours that have been written down.
    neighbours: FxHashSet<(OpId, OpId)>,
}

impl<'a, 's> Writer<'a, 's> {
    fn new(model: &'a Model<'a>, solver: &'s mut Solver, sources: &'s mut Sources) -> Writer<'a, 's> {
        Writer { model, facts: model.facts, solver, sources, neighbours: FxHashSet::default() }
    }

    fn post(&mut self, clause: Vec<Lit>, cause: Cause) {
        let open = |lit: &Lit| match self.solver.vars()[lit.var()] {
            Var::Source { open, .. } => Some(open),
            _ => None,
        };
        let mentioned: Vec<u32> = clause.iter().filter_map(open).collect();
        self.solver.add(clause, cause);
        mentioned.into_iter().for_each(|open| self.ask(open));
    }

    fn lit(&mut self, open: u32, origin: Origin) -> Lit {
        self.solver.literal(source(self.model, open, origin))
    }

    fn absent(&mut self, t: TxnId) -> Option<Lit> {
        unless_absent(self.model, self.solver, t)
    }

    fn observed(&mut self, reader: TxnId, choice: Choice, source: Option<Lit>) {
        let writer = choice.write.map(|write| self.facts.history.txn_of(write));
        let Some(writer) = writer.filter(|w| !self.facts.certain[w.index()]) else { return };
        let mut clause: Vec<Lit> = source.map(|s| !s).into_iter().chain(self.absent(reader)).collect();
        clause.push(self.solver.literal(Var::Exists(writer)));
        self.solver.add(clause, Cause::Observed(choice));
    }

    /// An open read is one of its candidates, which takes effect.
    fn ask(&mut self, i: u32) {
        if std::mem::replace(&mut self.sources.asked[i as usize], true) {
            return;
        }
        let open = self.facts.open[i as usize];
        let mut possible: Vec<Lit> = Vec::new();
        for origin in candidates(self.model, i) {
            let (lit, write) = (self.lit(i, origin), origin.write());
            possible.push(lit);
            if self.model.ruled_out.contains_key(&(i, write)) {
                self.solver.add(vec![!lit], Cause::RuledOut { open: i, write });
            }
            self.observed(open.reader, Choice { read: open.op, element: open.element, write }, Some(lit));
        }
        // What a list does not show matters as well, so each element is one append only.
        for (at, &a) in possible.iter().enumerate().filter(|_| open.of_list) {
            for &b in &possible[at + 1..] {
                self.solver.add(vec![!a, !b], Cause::Repeated { first: open.op, second: open.op });
            }
        }
        let clause = self.absent(open.reader).into_iter().chain(possible).collect();
        self.solver.add(clause, Cause::Source(i));
        if self.model.rules.own(open.reader).family == Family::Cut {
            self.repeated_read(open.reader, open.read);
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
                self.observed(read.reader, Choice::write(read.op, write), None);
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
            Element::Open(open) => {
                Some(self.lit(open, Origin::Write(self.facts.history.txn_of(write), write)))
            }
        }
    }

    fn appends(&self, element: Element) -> Vec<OpId> {
        match element {
            Element::Certain(write) => vec![write],
            Element::Open(open) => self.facts.candidates(open).filter_map(Origin::write).collect(),
        }
    }

    fn list(&mut self, list: &OpenList) {
        let (facts, rules) = (self.facts, self.model.rules);
        for (element_at, &element) in list.elements.iter().enumerate() {
            if let Element::Certain(write) = element {
                self.observed(list.reader, Choice::append(list.op, element_at as u32, write), None);
            }
        }
        // Cut isolation asks for no order; there, a list only says which choices are no version of its key.
        let free = rules.family == Family::Cut;
        if free {
            self.distinct(list);
        }
        let rules = rules.own(list.reader);
        let absent = self.absent(list.reader);
        let Some((&first, &last)) = list.elements.first().zip(list.elements.last()) else { return };
        for write in self.appends(first) {
            if facts.appends.place(write).0 > 0 && !(free && is_certain_element(first)) {
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

    /// No append is two elements of a list. (Where lists show an order, that follows from it.)
    fn distinct(&mut self, list: &OpenList) {
        for (i, &a) in list.elements.iter().enumerate() {
            for &b in &list.elements[i + 1..] {
                let others = self.appends(b);
                for append in self.appends(a).into_iter().filter(|append| others.contains(append)) {
                    let clause = [self.element(a, append), self.element(b, append)];
                    let clause = clause.into_iter().flatten().map(|l| !l).collect();
                    self.solver.add(clause, Cause::Repeated { first: list.op, second: list.op });
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
        let free = rules.family == Family::Cut;
        if free && is_certain_element(a) && is_certain_element(b) {
            return;
        }
        let unlikely = [self.element(a, first), self.element(b, second)];
        let mut clause: Vec<Lit> = unlikely.into_iter().flatten().map(|l| !l).chain(absent).collect();
        if t != u && after_first == 0 && before_second == 0 {
            if free {
                return;
            }
            if clause.is_empty() && !self.neighbours.insert((first, second)) {
                return;
            }
            clause.push(self.solver.before(rules.commit(t), rules.commit(u)));
        }
        self.solver.add(clause, Cause::Version { read: list.op, first, second });
    }

    /// A transaction repeats its reads: at cut isolation their sources, at read atomic and causal what
    /// lists show of others.
    fn repeated(&mut self, t: TxnId) {
        match self.model.rules.own(t).family {
            Family::Cut => self.repeated_sources(t),
            Family::Visible(Visible::ReadAtomic | Visible::Causal) => self.repeated_lists(t),
            _ => {}
        }
    }

    /// Reads of a key that are from different pools have different sources, unless one transaction wrote
    /// both values.
    fn repeated_sources(&mut self, t: TxnId) {
        let reads = &self.facts.reads[self.facts.reads_of(t)];
        for (i, a) in reads.iter().enumerate() {
            if let Some(b) = reads[i + 1..].iter().find(|b| b.key == a.key)
                && !self.same_pool(a, b)
            {
                self.same_source(t, a, b);
            }
        }
    }

    /// An open read that has been asked about has the source of other reads of the key.
    fn repeated_read(&mut self, t: TxnId, read: Option<u32>) {
        let Some(a) = read.map(|read| self.facts.reads[read as usize]) else { return };
        for b in &self.facts.reads[self.facts.reads_of(t)] {
            if b.op != a.op && b.key == a.key && self.same_pool(&a, b) {
                self.same_source(t, &a, b);
            }
        }
    }

    /// Both are open, with the same candidates.
    fn same_pool(&self, a: &Found, b: &Found) -> bool {
        let pool = |read: &Found| match read.from {
            From::Open(open) => {
                Some(self.facts.open[open as usize]).filter(|open| !open.of_list).map(|open| open.pool)
            }
            _ => None,
        };
        pool(a).is_some() && pool(a) == pool(b)
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

    /// Two reads are from one transaction: what makes the one its version makes the other so, either way.
    /// Where the solver lets both have several sources, they have the same, and thus the same latest.
    /// Linear in the candidates.
    fn same_source(&mut self, t: TxnId, a: &Found, b: &Found) {
        let (of_a, of_b) = (self.possible(a), self.possible(b));
        self.implies(t, (a, &of_a), (b, &of_b));
        self.implies(t, (b, &of_b), (a, &of_a));
    }

    fn implies(&mut self, t: TxnId, (a, of_a): (&Found, &[Candidate]), (b, of_b): (&Found, &[Candidate])) {
        let absent = self.absent(t);
        let mut by_writer: FxHashMap<Option<TxnId>, Vec<Option<Lit>>> = FxHashMap::default();
        for &(v, second) in of_b {
            by_writer.entry(v).or_default().push(second);
        }
        for &(w, first) in of_a {
            let same = by_writer.get(&w).map_or(&[][..], Vec::as_slice);
            // A literal that is missing is true.
            if let Some(same) = same.iter().copied().collect::<Option<Vec<Lit>>>() {
                let clause = first.map(|l| !l).into_iter().chain(absent).chain(same).collect();
                self.post(clause, Cause::Repeated { first: a.op, second: b.op });
            }
        }
    }

    fn possible(&mut self, read: &Found) -> Vec<Candidate> {
        match read.from {
            From::Initial => vec![(None, None)],
            From::Txn(w) => vec![(Some(w), None)],
            From::Open(open) => {
                let all: Vec<Origin> = candidates(self.model, open).collect();
                all.into_iter().map(|origin| (origin.txn(), Some(self.lit(open, origin)))).collect()
            }
        }
    }
}

fn is_certain_element(element: Element) -> bool {
    matches!(element, Element::Certain(_))
}
