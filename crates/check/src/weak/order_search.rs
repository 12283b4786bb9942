//! The search for a commit order that meets all constraints of a level.

use super::Weak;
use super::backwards;
use super::clocks::{AllClocks, Chains};
use super::initial::InitialCycles;
use super::order::{self, Causality, Condensation};
use super::plume::{self, SeenByOtherKeys};
use super::required::{self, Required, RequiredEdge};
use super::sessions::{Guarantee, SessionSeen};
use super::simulate::{
    CausallySeen, CyclicallySeen, DirectlySeen, Visibility, reads_the_latest, unmet_constraints,
};
use super::taps::LevelGraph;
use crate::view::{CommittedView, VersionEdge};
use crate::{Budget, OutOfBudget};
use anomalist_graph::components;
use anomalist_history::TxnId;
use anomalist_level::Definitions;
use std::cell::OnceCell;

/// What the levels share; costly parts are made when first needed.
pub(crate) struct OrderSearch<'a, 'b> {
    pub view: CommittedView<'a>,
    pub version_edges: Vec<VersionEdge>,
    /// The same as plain pairs.
    pub versions: Vec<(u32, u32)>,
    pub definitions: Definitions,
    no_guess: bool,
    budget: &'b Budget<'b>,
    /// The input order, if it respects causality.
    input: Option<Condensation>,
    start: OnceCell<Condensation>,
    causality: OnceCell<Causality<'a>>,
    chains: OnceCell<Chains>,
    clocks: OnceCell<AllClocks<'a>>,
}

/// Why a level does not hold: constraints that contradict each other, or a read of an overwritten initial
/// value.
pub(crate) struct Broken {
    pub constraints: Vec<RequiredEdge>,
    pub initial_overwritten: bool,
    pub graph: LevelGraph,
}

/// How a search ends.
pub(crate) enum Conclusion {
    /// This order meets all constraints.
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

/// Orders tried before all constraints are collected at once. Good histories need one or two; more than a
/// few means that the guess was no help.
const ROUNDS: usize = 12;

impl<'a, 'b> OrderSearch<'a, 'b> {
    pub fn new(
        view: CommittedView<'a>,
        definitions: Definitions,
        no_guess: bool,
        budget: &'b Budget<'b>,
    ) -> OrderSearch<'a, 'b> {
        let version_edges = view.version_edges();
        OrderSearch {
            view,
            versions: version_edges.iter().map(|e| (e.from.0, e.to.0)).collect(),
            version_edges,
            definitions,
            no_guess,
            budget,
            input: order::input_order(&view),
            start: OnceCell::new(),
            causality: OnceCell::new(),
            chains: OnceCell::new(),
            clocks: OnceCell::new(),
        }
    }

    pub fn causality(&self) -> &Causality<'a> {
        self.causality.get_or_init(|| Causality::new(self.view))
    }

    pub fn clocks(&self) -> Result<&AllClocks<'a>, OutOfBudget> {
        if let Some(clocks) = self.clocks.get() {
            return Ok(clocks);
        }
        let clocks = AllClocks::new(self.view, components(self.causality()), self.budget)?;
        Ok(self.clocks.get_or_init(|| clocks))
    }

    pub fn poll(&self) -> Result<(), OutOfBudget> {
        if self.budget.is_spent() { Err(OutOfBudget) } else { Ok(()) }
    }

    /// An order that respects causality and the orders that lists show.
    pub fn start(&self) -> &Condensation {
        match &self.input {
            Some(condensation) if self.versions.is_empty() => condensation,
            Some(condensation) => self.start.get_or_init(|| self.respecting(&[], &condensation.rank)),
            None => self.start.get_or_init(|| self.respecting(&[], &order::even_pace(&self.view))),
        }
    }

    fn respecting(&self, constraints: &[RequiredEdge], wished: &[u32]) -> Condensation {
        let constraints = constraints.iter().map(|e| (e.from.0, e.to.0));
        let edges: Vec<(u32, u32)> = self.versions.iter().copied().chain(constraints).collect();
        order::respecting(&self.view, &self.causality().joined(&edges), wished)
    }

    /// Finds an order that proves the level, or the contradiction.
    ///
    /// The input order first, then one built from the end. If there is none, each round simulates an order
    /// and adds the constraints it does not meet. When all are met, constraints run only inside components
    /// or forward; so the components are exactly the strongly connected components of causality with *all*
    /// constraints.
    pub fn analyse(&self, rule: Rule) -> Result<Conclusion, OutOfBudget> {
        let mut found = Required::default();
        let mut current: Option<Condensation> = None;
        let rounds = match rule {
            Rule::Level(_) if self.no_guess => 0,
            Rule::Level(_) => ROUNDS,
            // There is no other way; every round adds a constraint, so it ends.
            Rule::Guarantee(_) => usize::MAX,
        };
        if self.input.is_none()
            && let Some(order) = self.built_from_the_end(rule)?
        {
            return Ok(Conclusion::Order(order));
        }
        for round in 0..rounds {
            let condensation = current.as_ref().unwrap_or_else(|| self.start());
            let unmet = self.unmet_constraints(rule, condensation)?;
            found.initial_overwritten |= unmet.initial_overwritten;
            if unmet.edges.is_empty() {
                let condensation = current.unwrap_or_else(|| self.start().clone());
                return self.conclude(rule, condensation, found);
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
            current = Some(self.respecting(&found.edges, &condensation.rank));
        }
        self.poll()?;
        let all = match rule {
            Rule::Level(level) => self.all_constraints(level)?,
            Rule::Guarantee(_) => found,
        };
        let condensation =
            self.respecting(&all.edges, &current.as_ref().unwrap_or_else(|| self.start()).rank);
        self.conclude(rule, condensation, all)
    }

    fn all_constraints(&self, level: Weak) -> Result<Required, OutOfBudget> {
        Ok(match (level, self.definitions) {
            (Weak::ReadCommitted, Definitions::Anomalist) => required::read_committed(&self.view),
            (Weak::ReadCommitted, Definitions::Plume) => plume::read_committed(&self.view),
            (Weak::ReadAtomic, _) => required::read_atomic(&self.view),
            (Weak::Causal, _) => required::causal(&self.view, self.clocks()?, self.budget)?,
        })
    }

    fn built_from_the_end(&self, rule: Rule) -> Result<Option<Vec<TxnId>>, OutOfBudget> {
        match rule {
            Rule::Level(level) if !self.no_guess => {
                backwards::order(self.view, (level, self.definitions), &self.versions, self.budget)
            }
            _ => Ok(None),
        }
    }

    fn unmet_constraints(&self, rule: Rule, condensation: &Condensation) -> Result<Required, OutOfBudget> {
        let view = self.view;
        match rule {
            Rule::Level(Weak::ReadCommitted) if self.definitions == Definitions::Plume => {
                self.simulate(condensation, &mut SeenByOtherKeys::new(view))
            }
            Rule::Level(Weak::ReadCommitted) => {
                self.simulate(condensation, &mut DirectlySeen::new(view, false))
            }
            Rule::Level(Weak::ReadAtomic) => self.simulate(condensation, &mut DirectlySeen::new(view, true)),
            // Once there is a cycle the history is broken, and filing what was found will need all clocks
            // anyway.
            // Clocks cost more than looking whether they are needed.
            Rule::Level(Weak::Causal) if condensation.is_order() && reads_the_latest(&view, condensation) => {
                Ok(Required::default())
            }
            Rule::Level(Weak::Causal) if condensation.is_order() => {
                let chains = self.chains.get_or_init(|| Chains::new(&view));
                self.simulate(condensation, &mut CausallySeen::new(view, chains))
            }
            Rule::Level(Weak::Causal) => {
                self.simulate(condensation, &mut CyclicallySeen::new(view, self.clocks()?))
            }
            Rule::Guarantee(guarantee) => {
                self.simulate(condensation, &mut SessionSeen::new(view, self.causality(), guarantee))
            }
        }
    }

    fn simulate(
        &self,
        condensation: &Condensation,
        visibility: &mut impl Visibility,
    ) -> Result<Required, OutOfBudget> {
        unmet_constraints(&self.view, condensation, visibility, self.budget)
    }

    fn conclude(
        &self,
        rule: Rule,
        condensation: Condensation,
        required: Required,
    ) -> Result<Conclusion, OutOfBudget> {
        if condensation.is_order() && !required.initial_overwritten {
            return Ok(Conclusion::Order(condensation.txns));
        }
        let components = condensation.components.unwrap_or_else(|| components(self.causality()));
        let Required { edges: mut constraints, initial_overwritten } = required;
        let mut initial = InitialCycles::default();
        if let (Rule::Level(level), Definitions::Plume, true) = (rule, self.definitions, initial_overwritten)
        {
            // The constraints that an order misses make the components, but what leads where takes all of
            // them.
            constraints = self.all_constraints(level)?.edges;
            initial = self.initial_cycles(level, &constraints)?;
        }
        let graph = LevelGraph::new(&self.view, components, initial);
        Ok(Conclusion::Broken(Box::new(Broken { constraints, initial_overwritten, graph })))
    }

    fn initial_cycles(
        &self,
        level: Weak,
        constraints: &[RequiredEdge],
    ) -> Result<InitialCycles, OutOfBudget> {
        let (view, versions) = (self.view, &self.versions);
        Ok(match level {
            Weak::ReadCommitted => {
                InitialCycles::new(&view, &mut SeenByOtherKeys::new(view), constraints, versions)
            }
            Weak::ReadAtomic => {
                InitialCycles::new(&view, &mut DirectlySeen::new(view, true), constraints, versions)
            }
            Weak::Causal => {
                let mut seen = CyclicallySeen::new(view, self.clocks()?);
                InitialCycles::new(&view, &mut seen, constraints, versions)
            }
        })
    }
}
