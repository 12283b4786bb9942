//! The search for a commit order that meets all demands of a level.

use super::Weak;
use super::backwards;
use super::clocks::{AllClocks, Chains};
use super::initial::InitialCycles;
use super::order::{self, Causality, Units};
use super::plume::{self, SeenByOtherKeys};
use super::problem::{Problem, VersionEdge};
use super::required::{self, Required, RequiredEdge};
use super::sessions::{Guarantee, SessionSeen};
use super::simulate::{CausallySeen, CyclicallySeen, DirectlySeen, Visibility, unmet_demands};
use super::taps::LevelGraph;
use crate::{Budget, OutOfBudget};
use anomalist_graph::components;
use anomalist_history::TxnId;
use anomalist_level::Definitions;
use std::cell::OnceCell;

/// What the levels share; costly parts are made when first needed.
pub(crate) struct Ground<'a, 'b> {
    pub problem: Problem<'a>,
    pub version_edges: Vec<VersionEdge>,
    /// The same as plain pairs.
    pub versions: Vec<(u32, u32)>,
    pub definitions: Definitions,
    no_guess: bool,
    budget: &'b Budget<'b>,
    /// The input order, if it respects causality.
    input: Option<Units>,
    start: OnceCell<Units>,
    causality: OnceCell<Causality<'a>>,
    chains: OnceCell<Chains>,
    clocks: OnceCell<AllClocks<'a>>,
}

/// Why a level does not hold: demands that contradict each other, or a read of an overwritten initial value.
pub(crate) struct Broken {
    pub demanded: Vec<RequiredEdge>,
    pub initial_overwritten: bool,
    pub graph: LevelGraph,
}

/// How a search ends.
pub(crate) enum Conclusion {
    /// This order meets all demands.
    Order(Vec<TxnId>),
    /// None does.
    Broken(Box<Broken>),
}

/// What the commit order must respect.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rule {
    Level(Weak),
    Guarantee(Guarantee),
}

/// Orders tried before all demands are collected at once. Good histories need one or two; more than a few means that the
/// guess was no help.
const ROUNDS: usize = 12;

impl<'a, 'b> Ground<'a, 'b> {
    pub fn new(
        problem: Problem<'a>,
        definitions: Definitions,
        no_guess: bool,
        budget: &'b Budget<'b>,
    ) -> Ground<'a, 'b> {
        let version_edges = problem.version_edges();
        Ground {
            problem,
            versions: version_edges.iter().map(|e| (e.from.0, e.to.0)).collect(),
            version_edges,
            definitions,
            no_guess,
            budget,
            input: order::input_order(&problem),
            start: OnceCell::new(),
            causality: OnceCell::new(),
            chains: OnceCell::new(),
            clocks: OnceCell::new(),
        }
    }

    pub fn causality(&self) -> &Causality<'a> {
        self.causality.get_or_init(|| Causality::new(self.problem))
    }

    pub fn clocks(&self) -> &AllClocks<'a> {
        self.clocks.get_or_init(|| AllClocks::new(self.problem, components(self.causality())))
    }

    pub fn poll(&self) -> Result<(), OutOfBudget> {
        if self.budget.is_spent() { Err(OutOfBudget) } else { Ok(()) }
    }

    /// An order that respects causality and the orders that lists show.
    pub fn start(&self) -> &Units {
        match &self.input {
            Some(units) if self.versions.is_empty() => units,
            Some(units) => self.start.get_or_init(|| self.respecting(&[], &units.rank)),
            None => self.start.get_or_init(|| self.respecting(&[], &order::even_pace(&self.problem))),
        }
    }

    fn respecting(&self, demanded: &[RequiredEdge], wished: &[u32]) -> Units {
        let demanded = demanded.iter().map(|e| (e.from.0, e.to.0));
        let edges: Vec<(u32, u32)> = self.versions.iter().copied().chain(demanded).collect();
        order::respecting(&self.problem, &self.causality().joined(&edges), wished)
    }

    /// Finds an order that proves the level, or the contradiction.
    ///
    /// The input order first, then one built from the end. If there is none, each round plays an order and adds the
    /// demands it does not meet. When all are met, demands run only inside units or forward; so the units are exactly the
    /// strongly connected components of causality with *all* demands.
    pub fn analyse(&self, rule: Rule) -> Result<Conclusion, OutOfBudget> {
        let mut found = Required::default();
        let mut current: Option<Units> = None;
        let rounds = match rule {
            Rule::Level(_) if self.no_guess => 0,
            Rule::Level(_) => ROUNDS,
            // There is no other way; every round adds a demand, so it ends.
            Rule::Guarantee(_) => usize::MAX,
        };
        if self.input.is_none()
            && let Some(order) = self.built_from_the_end(rule)?
        {
            return Ok(Conclusion::Order(order));
        }
        for round in 0..rounds {
            let units = current.as_ref().unwrap_or_else(|| self.start());
            let unmet = self.unmet_demands(rule, units)?;
            found.initial_overwritten |= unmet.initial_overwritten;
            if unmet.edges.is_empty() {
                let units = current.unwrap_or_else(|| self.start().clone());
                return Ok(self.conclude(rule, units, found));
            }
            if round == 0
                && self.input.is_some()
                && !found.initial_overwritten
                && let Some(order) = self.built_from_the_end(rule)?
            {
                return Ok(Conclusion::Order(order));
            }
            found.edges.extend(unmet.edges);
            found.edges.sort_unstable_by_key(|e| (e.from, e.to, e.read));
            found.edges.dedup_by_key(|e| (e.from, e.to));
            current = Some(self.respecting(&found.edges, &units.rank));
        }
        self.poll()?;
        let all = match rule {
            Rule::Level(level) => self.all_demands(level),
            Rule::Guarantee(_) => found,
        };
        let units = self.respecting(&all.edges, &current.as_ref().unwrap_or_else(|| self.start()).rank);
        Ok(self.conclude(rule, units, all))
    }

    fn all_demands(&self, level: Weak) -> Required {
        match (level, self.definitions) {
            (Weak::ReadCommitted, Definitions::Anomalist) => required::read_committed(&self.problem),
            (Weak::ReadCommitted, Definitions::Plume) => plume::read_committed(&self.problem),
            (Weak::ReadAtomic, _) => required::read_atomic(&self.problem),
            (Weak::Causal, _) => required::causal(&self.problem, self.clocks()),
        }
    }

    fn built_from_the_end(&self, rule: Rule) -> Result<Option<Vec<TxnId>>, OutOfBudget> {
        match rule {
            Rule::Level(level) if !self.no_guess => {
                backwards::order(self.problem, (level, self.definitions), &self.versions, self.budget)
            }
            _ => Ok(None),
        }
    }

    fn unmet_demands(&self, rule: Rule, units: &Units) -> Result<Required, OutOfBudget> {
        let problem = self.problem;
        match rule {
            Rule::Level(Weak::ReadCommitted) if self.definitions == Definitions::Plume => {
                self.play(units, &mut SeenByOtherKeys::new(problem))
            }
            Rule::Level(Weak::ReadCommitted) => self.play(units, &mut DirectlySeen::new(problem, false)),
            Rule::Level(Weak::ReadAtomic) => self.play(units, &mut DirectlySeen::new(problem, true)),
            // Once there is a cycle the history is broken, and filing what was found will need all clocks anyway.
            Rule::Level(Weak::Causal) if units.is_order() => {
                let chains = self.chains.get_or_init(|| Chains::new(&problem));
                self.play(units, &mut CausallySeen::new(problem, chains))
            }
            Rule::Level(Weak::Causal) => self.play(units, &mut CyclicallySeen::new(problem, self.clocks())),
            Rule::Guarantee(guarantee) => {
                self.play(units, &mut SessionSeen::new(problem, self.causality(), guarantee))
            }
        }
    }

    fn play(&self, units: &Units, visibility: &mut impl Visibility) -> Result<Required, OutOfBudget> {
        unmet_demands(&self.problem, units, visibility, self.budget)
    }

    fn conclude(&self, rule: Rule, units: Units, required: Required) -> Conclusion {
        if units.is_order() && !required.initial_overwritten {
            return Conclusion::Order(units.txns);
        }
        let components = units.components.unwrap_or_else(|| components(self.causality()));
        let Required { edges: mut demanded, initial_overwritten } = required;
        let mut initial = InitialCycles::default();
        if let (Rule::Level(level), Definitions::Plume, true) = (rule, self.definitions, initial_overwritten)
        {
            // The demands that an order misses make the components, but what leads where takes all of them.
            demanded = self.all_demands(level).edges;
            initial = self.initial_cycles(level, &demanded);
        }
        let graph = LevelGraph::new(&self.problem, components, initial);
        Conclusion::Broken(Box::new(Broken { demanded, initial_overwritten, graph }))
    }

    fn initial_cycles(&self, level: Weak, demanded: &[RequiredEdge]) -> InitialCycles {
        let (problem, versions) = (self.problem, &self.versions);
        match level {
            Weak::ReadCommitted => {
                InitialCycles::new(&problem, &mut SeenByOtherKeys::new(problem), demanded, versions)
            }
            Weak::ReadAtomic => {
                InitialCycles::new(&problem, &mut DirectlySeen::new(problem, true), demanded, versions)
            }
            Weak::Causal => {
                let mut seen = CyclicallySeen::new(problem, self.clocks());
                InitialCycles::new(&problem, &mut seen, demanded, versions)
            }
        }
    }
}
