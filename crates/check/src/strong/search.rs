//! Decides one level: guess an order, see what it misses, ask the solver for one that does not, until
//! nothing is missed or the solver says that there is none.
//!
//! Only constraints that some candidate order missed ever become clauses. Each round adds a clause that no
//! earlier round had, or asks about an open read that no earlier round asked about, and there are finitely
//! many, so it ends. (`docs/spec/algorithms.md` 4.3.)

use super::certify;
use super::chains::Chains;
use super::facts::{Facts, Origin};
use super::guess::{self, Cyclic};
use super::log::Cause;
use super::model::{Family, Model, Rules};
use super::open::{self, Sources};
use super::open_lists;
use super::saturate;
use super::scan::{self, Constraint, Decided};
use super::solver::{Answer, Solver, Var};
use super::updates;
use super::visible;
use crate::{Budget, OutOfBudget};
use anomalist_graph::Ordered;
use anomalist_history::TxnId;
use anomalist_level::Execution;
pub(crate) use anomalist_level::Progress;

/// What was found out about a level.
pub(crate) enum Found<'a> {
    /// It holds, as this execution shows.
    Holds(Execution),
    /// It does not: the known edges alone have a cycle.
    KnownCycle(Model<'a>),
    /// It does not: the clause of this number in the solver's log is empty.
    Refuted(Model<'a>, Box<Solver>, u32),
}

/// Switches for comparing one way with another; the answers are the same.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct SearchOptions {
    /// Start from sessions side by side, whatever hints there are.
    pub no_guess: bool,
    /// Never saturate.
    pub no_saturation: bool,
}

/// The solver's current model, in the words of the level.
pub(crate) struct Decisions<'a> {
    pub model: &'a Model<'a>,
    pub solver: &'a Solver,
    pub sources: &'a Sources,
}

impl Decided for Decisions<'_> {
    fn took_effect(&self, t: TxnId) -> bool {
        self.solver.is_true(Var::Exists(t))
    }

    fn source(&self, open: u32) -> Option<Origin> {
        if !self.sources.is_asked(open) {
            return self.sources.default(open);
        }
        let chosen = |origin: &Origin| self.solver.is_true(open::source(self.model, open, *origin));
        let commit =
            |origin: &Origin| origin.txn().map(|t| self.solver.order.position(self.model.rules.commit(t)));
        // Of several that the solver allows the latest, which misses the least.
        open::candidates(self.model, open).filter(chosen).max_by_key(commit)
    }
}

/// Decides a level.
pub(crate) fn decide<'a>(
    facts: &'a Facts<'a>,
    rules: Rules<'a>,
    options: SearchOptions,
    budget: &Budget<'_>,
    progress: &mut Progress,
) -> Result<Found<'a>, OutOfBudget> {
    let poll = || if budget.is_over() { Err(OutOfBudget) } else { Ok(()) };
    poll()?;
    let mut model = Model::new(facts, rules);
    poll()?;
    let hint = if options.no_guess { None } else { guess::hint(&model) };
    // Two tables of a number per event and chain; without the memory for them the search does without.
    let fits = |chains: &Chains| budget.allows(8 * u64::from(model.nodes) * chains.count as u64);
    let chains = if options.no_saturation { None } else { Chains::new(&model).filter(fits) };
    // Without hints the guess is worth little, and on hot keys a search alone leads nowhere.
    let mut saturated = chains.is_none();
    let hot = has_hot_keys(facts);
    if let (Some(hint), true) = (&hint, hot && chains.is_some()) {
        let graph = model.graph();
        let Ok(order) = guess::order(&model, &graph, hint) else { return Ok(Found::KnownCycle(model)) };
        poll()?;
        let mut solver = Solver::new(Ordered::new(graph, order));
        let mut sources = open::add(&model, &mut solver, budget)?;
        if matches!(solver.solve(CONFLICTS, budget)?, Answer::Model) {
            sources.follow(&model, &solver);
            if missed(&model, &solver, &sources).is_empty() {
                return Ok(Found::Holds(certify::execution(&model, &solver, &sources)));
            }
        }
    }
    if let Some(chains) = &chains
        && (hint.is_none() || hot)
    {
        saturated = true;
        if saturate::saturate(&mut model, chains, budget, progress)?.is_err() {
            return Ok(Found::KnownCycle(model));
        }
    }
    let mut wished = hint.unwrap_or_else(|| guess::even_pace(&model));
    loop {
        let limit =
            if saturated { u64::MAX } else { CONFLICTS + 2 * facts.history.txn_count().isqrt() as u64 };
        let graph = model.graph();
        let order = match guess::order(&model, &graph, &wished) {
            Ok(order) => order,
            Err(Cyclic) => return Ok(Found::KnownCycle(model)),
        };
        poll()?;
        let mut solver = Solver::new(Ordered::new(graph, order));
        let mut sources = open::add(&model, &mut solver, budget)?;
        match search(&model, &mut solver, &mut sources, limit, budget, progress)? {
            Some(Ending::Order) => return Ok(Found::Holds(certify::execution(&model, &solver, &sources))),
            Some(Ending::Refuted(step)) => return Ok(Found::Refuted(model, Box::new(solver), step)),
            None => {
                saturated = true;
                for (i, &node) in solver.order.order().iter().enumerate().filter(|(_, n)| **n < model.events)
                {
                    wished[rules.txn(node).index()] = i as u32;
                }
                if let Some(chains) = &chains
                    && saturate::saturate(&mut model, chains, budget, progress)?.is_err()
                {
                    return Ok(Found::KnownCycle(model));
                }
            }
        }
    }
}

/// Conflicts, and rounds, that a search may take before it pays to saturate.
const CONFLICTS: u64 = 2_000;
const ROUNDS: u64 = 40;

/// Writers per key from which on saturation comes first.
const HOT: usize = 500;

fn has_hot_keys(facts: &Facts<'_>) -> bool {
    facts.write_count() > HOT * facts.history.key_count()
}

enum Ending {
    /// The solver's order misses nothing.
    Order,
    /// There is none.
    Refuted(u32),
}

/// Searches until there is an answer, or (`None`) the limit of conflicts is reached.
fn search(
    model: &Model<'_>,
    solver: &mut Solver,
    sources: &mut Sources,
    limit: u64,
    budget: &Budget<'_>,
    progress: &mut Progress,
) -> Result<Option<Ending>, OutOfBudget> {
    let rounds = if limit == u64::MAX { u64::MAX } else { ROUNDS };
    for _ in 0..rounds {
        match solver.solve(limit.saturating_sub(solver.conflicts), budget)? {
            Answer::Refuted(step) => return Ok(Some(Ending::Refuted(step))),
            Answer::ConflictLimit => return Ok(None),
            Answer::Model => {}
        }
        sources.follow(model, solver);
        let mut missed = missed(model, solver, sources);
        progress.rounds += 1;
        progress.constraints += missed.len();
        progress.missed = missed.len();
        progress.conflicts = solver.conflicts;
        if missed.is_empty() {
            return Ok(Some(Ending::Order));
        }
        // What rests on certain reads comes first: it takes no variables for sources, and refutes most of
        // what can be refuted.
        if missed.iter().any(|constraint| open::is_certain(model, constraint)) {
            missed.retain(|constraint| open::is_certain(model, constraint));
        }
        // Clauses are made from the model as it is, before adding the first undoes it.
        let clauses: Vec<_> =
            missed.into_iter().map(|d| (open::clause(model, solver, sources, &d), d)).collect();
        for (clause, constraint) in clauses {
            if budget.is_spent() {
                return Err(OutOfBudget);
            }
            match constraint {
                Constraint::Source { open } => open::ask(model, solver, sources, open),
                constraint => open::post(model, solver, sources, clause, Cause::Constraint(constraint)),
            }
        }
    }
    Ok(None)
}

fn missed(model: &Model<'_>, solver: &Solver, sources: &Sources) -> Vec<Constraint> {
    let order = solver.order.order();
    let decisions = Decisions { model, solver, sources };
    let position = |node: u32| solver.order.position(node);
    let without_source = open::without_source(model, &decisions);
    if !without_source.is_empty() {
        return without_source;
    }
    let mut constraints = match model.rules.family {
        Family::Serial | Family::Prefix | Family::Snapshot => {
            scan::missed(model, order, &position, &decisions)
        }
        Family::Updates => {
            let serial = scan::missed(model, order, &position, &decisions);
            if serial.is_empty() { updates::missed(model, order, &decisions) } else { serial }
        }
        Family::Mixed => {
            let mut constraints = scan::missed(model, order, &position, &decisions);
            constraints.extend(visible::missed(model, order, &decisions));
            constraints
        }
        Family::Parallel | Family::Visible(_) => visible::missed(model, order, &decisions),
        Family::Flow | Family::Writes | Family::Cut => Vec::new(),
    };
    if model.rules.family != Family::Cut {
        constraints.extend(open_lists::unseen(model, &position, &decisions));
    }
    constraints
}
