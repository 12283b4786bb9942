//! Weak isolation, decided completely: read committed, read atomic, causal, and the session guarantees.
//!
//! A level holds iff some commit order contains causality and, whenever `t3` reads `x` from `t1` and could see another
//! writer `t2` of `x`, puts `t2` before `t1` (Biswas & Enea 2019; Plume, Definitions 4 to 6). First a guess: an order that
//! respects causality is played through (`simulate.rs`), which proves most good histories in one pass. If the guess fails,
//! the demanded edges are collected (`required.rs`); the level holds iff they and causality have no cycle. If they have,
//! `taps.rs` says how often and in which of Plume's patterns.

mod clocks;
mod order;
pub(crate) mod problem;
mod required;
mod sessions;
mod simulate;
mod taps;
pub(crate) mod witness;

use crate::budget::{Budget, OutOfBudget};
use clocks::AllClocks;
use isolde_graph::{Components, components};
use isolde_history::TxnId;
use isolde_level::{Anomaly, AnomalyKind, Relation};
use order::{Causality, Order};
pub(crate) use problem::Problem;
use problem::VersionEdge;
use required::{Required, RequiredEdge};
pub(crate) use sessions::Guarantee;
use simulate::{CausallySeen, DirectlySeen, proves};
use taps::{Classifier, LevelGraph, Tap};
use witness::{Explainer, Extra};

/// The three levels that differ only in what a read must take into account, weakest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(usize)]
pub(crate) enum Weak {
    ReadCommitted,
    ReadAtomic,
    Causal,
}

impl Weak {
    pub const ALL: [Weak; 3] = [Weak::ReadCommitted, Weak::ReadAtomic, Weak::Causal];
}

/// What to find out.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Questions {
    pub levels: [bool; 3],
    pub guarantees: [bool; 4],
    /// Is causality acyclic? (Implied by every other question.)
    pub cycles: bool,
}

impl Questions {
    pub fn ask(&mut self, level: Weak) {
        self.levels[level as usize] = true;
    }

    fn strongest(&self) -> Option<Weak> {
        if self.guarantees.contains(&true) {
            return Some(Weak::Causal);
        }
        Weak::ALL.into_iter().rev().find(|&l| self.levels[l as usize])
    }
}

/// An answer about the order axioms; the faults of single reads are judged elsewhere.
pub(crate) enum Answer {
    /// This order is a proof.
    Holds(Vec<TxnId>),
    /// There is none.
    Violated,
}

/// What was found out.
#[derive(Default)]
pub(crate) struct Findings {
    /// By [`Weak`]; `None`: not asked.
    pub levels: [Option<Answer>; 3],
    /// By position in [`Guarantee::ALL`]; `None`: not asked.
    pub guarantees: [Option<Answer>; 4],
    /// What contradicts the order axioms.
    pub anomalies: Vec<Anomaly>,
}

/// Answers the questions.
pub(crate) fn decide(
    problem: Problem<'_>,
    questions: Questions,
    budget: &Budget<'_>,
) -> Result<Findings, OutOfBudget> {
    let mut findings = Findings::default();
    let strongest = questions.strongest();
    if strongest.is_none() && !questions.cycles {
        return Ok(findings);
    }
    let version_edges = problem.version_edges();
    let mut causality = None;
    let guess = order::input_order(&problem).or_else(|| {
        let graph = causality.insert(Causality::new(problem));
        order::topological(&problem, graph)
    });
    if let Some(order) = &guess
        && version_edges.iter().all(|e| order.before(e.from, e.to))
        && prove_by_guess(problem, questions, strongest, order, &mut findings, budget)?
    {
        return Ok(findings);
    }
    let causality = causality.unwrap_or_else(|| Causality::new(problem));
    Investigation { problem, questions, causality, version_edges, budget }.run(&mut findings)?;
    Ok(findings)
}

/// Tries the guess for each level, strongest first: what it proves for one it proves for all weaker ones.
/// True if nothing is left to investigate.
fn prove_by_guess(
    problem: Problem<'_>,
    questions: Questions,
    strongest: Option<Weak>,
    order: &Order,
    findings: &mut Findings,
    budget: &Budget<'_>,
) -> Result<bool, OutOfBudget> {
    let mut proven = None;
    for level in Weak::ALL.into_iter().rev().filter(|&l| Some(l) <= strongest) {
        let holds = match level {
            Weak::ReadCommitted => {
                proves(&problem, order, &mut DirectlySeen::read_committed(problem), budget)?
            }
            Weak::ReadAtomic => proves(&problem, order, &mut DirectlySeen::read_atomic(problem), budget)?,
            Weak::Causal => proves(&problem, order, &mut CausallySeen::new(problem), budget)?,
        };
        if holds {
            proven = Some(level);
            break;
        }
    }
    for level in Weak::ALL.into_iter().filter(|&l| proven.is_some_and(|p| l <= p)) {
        if questions.levels[level as usize] {
            findings.levels[level as usize] = Some(Answer::Holds(order.txns.clone()));
        }
    }
    if proven == Some(Weak::Causal) {
        for (asked, answer) in questions.guarantees.iter().zip(&mut findings.guarantees) {
            *answer = asked.then(|| Answer::Holds(order.txns.clone()));
        }
    }
    Ok(proven == strongest)
}

/// The complete procedure, for what the guess did not prove.
struct Investigation<'a, 'b> {
    problem: Problem<'a>,
    questions: Questions,
    causality: Causality<'a>,
    version_edges: Vec<VersionEdge>,
    budget: &'b Budget<'b>,
}

/// A level whose demands have a cycle, or overwrite an initial value that was read.
struct Broken {
    demanded: Vec<RequiredEdge>,
    graph: LevelGraph,
}

impl Investigation<'_, '_> {
    fn run(&self, findings: &mut Findings) -> Result<(), OutOfBudget> {
        let strongest = self.questions.strongest();
        let causal_components = components(&self.causality);
        // Clocks only where they are needed: to see causally, or to file what was found.
        let mut clocks = None;
        let all_clocks = || AllClocks::new(self.problem, causal_components.clone());
        let mut broken: [Option<Broken>; 3] = [None, None, None];
        for level in Weak::ALL.into_iter().filter(|&l| Some(l) <= strongest) {
            self.poll()?;
            let answer = &mut findings.levels[level as usize];
            if answer.is_some() {
                continue;
            }
            let Required { edges, initial_overwritten } = match level {
                Weak::ReadCommitted => required::read_committed(&self.problem),
                Weak::ReadAtomic => required::read_atomic(&self.problem),
                Weak::Causal => required::causal(&self.problem, clocks.get_or_insert_with(all_clocks)),
            };
            let components = self.components_with(&edges);
            if components.cyclic_count() == 0 && !initial_overwritten {
                *answer = Some(Answer::Holds(self.certificate(&components)));
            } else {
                *answer = Some(Answer::Violated);
                let graph = LevelGraph::new(&self.problem, components);
                broken[level as usize] = Some(Broken { demanded: edges, graph });
            }
        }
        if broken.iter().any(Option::is_some) || causal_components.cyclic_count() > 0 {
            let clocks = clocks.get_or_insert_with(all_clocks);
            self.explain(clocks, &broken, findings)?;
        } else if let Some(Answer::Holds(order)) = &findings.levels[Weak::Causal as usize] {
            for (asked, answer) in self.questions.guarantees.iter().zip(&mut findings.guarantees) {
                *answer = asked.then(|| Answer::Holds(order.clone()));
            }
        }
        for (asked, answer) in self.questions.levels.iter().zip(&mut findings.levels) {
            if !asked {
                *answer = None;
            }
        }
        Ok(())
    }

    fn poll(&self) -> Result<(), OutOfBudget> {
        if self.budget.is_spent() { Err(OutOfBudget) } else { Ok(()) }
    }

    fn components_with(&self, demanded: &[RequiredEdge]) -> Components {
        let versions = self.version_edges.iter().map(|e| (e.from.0, e.to.0));
        let edges: Vec<(u32, u32)> = versions.chain(demanded.iter().map(|e| (e.from.0, e.to.0))).collect();
        components(&self.causality.joined(&edges))
    }

    /// The committed transactions in topological order.
    fn certificate(&self, components: &Components) -> Vec<TxnId> {
        let order = components.topological().into_iter().map(TxnId);
        order.filter(|&t| self.problem.index.is_committed(t)).collect()
    }

    fn explain(
        &self,
        clocks: &AllClocks<'_>,
        broken: &[Option<Broken>; 3],
        findings: &mut Findings,
    ) -> Result<(), OutOfBudget> {
        let explainer = Explainer { problem: self.problem, causality: &self.causality, clocks };
        self.explain_cycles(&explainer, findings);
        self.poll()?;
        let graph = |level: Weak| broken[level as usize].as_ref().map(|b| &b.graph);
        let classifier = Classifier {
            problem: self.problem,
            clocks,
            read_committed: graph(Weak::ReadCommitted),
            read_atomic: graph(Weak::ReadAtomic),
            causal: graph(Weak::Causal),
        };
        let counts = classifier.count();
        for tap in Tap::ALL {
            let level = tap.level();
            let extra = broken[level as usize]
                .as_ref()
                .map(|b| (Extra::new(&b.demanded, &self.version_edges), &b.graph.components));
            let candidates = counts.smallest[tap as usize].iter().filter_map(|&(_, instance)| {
                explainer.instance(instance, extra.as_ref().map(|(e, c)| (e, *c)))
            });
            if let Some(witness) = candidates.min_by_key(|w| (w.transactions.len(), w.operations.len())) {
                findings.anomalies.push(Anomaly {
                    kind: tap.kind(),
                    count: counts.count[tap as usize],
                    witness,
                });
            }
        }
        if let Some(causal) = graph(Weak::Causal) {
            self.decide_guarantees(&explainer, causal, findings)?;
        }
        Ok(())
    }

    /// Cycles that need no demanded edge: of causality itself (TAP-g), or with the orders that lists show.
    fn explain_cycles(&self, explainer: &Explainer<'_>, findings: &mut Findings) {
        let none = Extra::new(&[], &[]);
        let causal = explainer.clocks.components();
        if causal.cyclic_count() > 0 {
            let count = causal.cyclic_count() as u64;
            findings.anomalies.extend(explainer.cycle(&none, causal).map(|witness| Anomaly {
                kind: AnomalyKind::CyclicCo,
                count,
                witness,
            }));
        } else if !self.version_edges.is_empty() {
            let components = self.components_with(&[]);
            let extra = Extra::new(&[], &self.version_edges);
            let count = components.cyclic_count() as u64;
            findings.anomalies.extend(explainer.cycle(&extra, &components).map(|witness| {
                let has = |r: Relation| witness.edges.iter().any(|e| e.relation == r);
                let kind = match (has(Relation::WriteRead), has(Relation::SessionOrder)) {
                    (false, false) => AnomalyKind::G0,
                    (true, false) => AnomalyKind::G1c,
                    (false, true) => AnomalyKind::G0Process,
                    (true, true) => AnomalyKind::G1cProcess,
                };
                Anomaly { kind, count, witness }
            }));
        }
    }

    fn decide_guarantees(
        &self,
        explainer: &Explainer<'_>,
        causal: &LevelGraph,
        findings: &mut Findings,
    ) -> Result<(), OutOfBudget> {
        let versions: Vec<(u32, u32)> = self.version_edges.iter().map(|e| (e.from.0, e.to.0)).collect();
        for (i, guarantee) in Guarantee::ALL.into_iter().enumerate() {
            if !self.questions.guarantees[i] {
                continue;
            }
            self.poll()?;
            let outcome = sessions::decide(
                self.problem,
                explainer.clocks,
                &self.causality,
                causal,
                &versions,
                guarantee,
            );
            let acyclic = outcome.components.cyclic_count() == 0;
            findings.guarantees[i] = Some(match outcome.smallest {
                None if acyclic => Answer::Holds(self.certificate(&outcome.components)),
                _ => Answer::Violated,
            });
            let extra = Extra::new(&outcome.demanded, &self.version_edges);
            let witness = outcome
                .smallest
                .and_then(|s| explainer.guarantee(guarantee, s, (&extra, &outcome.components)));
            findings.anomalies.extend(witness.map(|witness| Anomaly {
                kind: guarantee.violation(),
                count: outcome.count,
                witness,
            }));
        }
        Ok(())
    }
}
