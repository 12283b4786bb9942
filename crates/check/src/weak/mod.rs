//! Weak isolation, decided completely: read committed, read atomic, causal, and the session guarantees.
//!
//! A level holds iff some commit order contains causality and, whenever `t3` reads `x` from `t1` and could
//! see another writer `t2` of `x`, puts `t2` before `t1` (Biswas & Enea 2019; Plume, Definitions 4 to 6).
//! The order of the input, if it respects causality, is simulated (`simulate.rs`), which proves most good
//! histories in one pass; otherwise an order is built from its end (`backwards.rs`). Where there is none,
//! the constraints that an order does not meet are added and the order repaired (`order.rs`), until they
//! contradict each other; if that leads nowhere, all constraints are collected at once (`required.rs`),
//! which bounds the cost: O(m^{3/2}) for read committed and read atomic, O(m·k) for causal. What
//! contradicts itself is counted in Plume's patterns (`taps.rs`) and explained (`witness.rs`).
//!
//! Where the user asks for the definitions of Plume to the letter, `plume.rs` and `initial.rs` say what
//! differs.

mod backwards;
mod clocks;
mod initial;
mod order;
mod order_search;
pub(crate) mod plume;
pub(crate) mod refuted;
mod required;
mod sessions;
mod simulate;
mod taps;
pub(crate) mod witness;

use crate::view::CommittedView;
use crate::{Budget, OutOfBudget};
use anomalist_history::TxnId;
use anomalist_level::{Anomaly, AnomalyKind, Bound, Definitions, Family, Level, Visible, Witness};
use order_search::{Broken, Conclusion, OrderSearch, Rule};
pub(crate) use sessions::Guarantee;
use sessions::SessionSeen;
use taps::{Classifier, Tap, TapCounts};
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

    /// The patterns of its violations, by causality and by what reads force.
    pub fn patterns(self) -> [AnomalyKind; 2] {
        match self {
            Weak::ReadCommitted => [AnomalyKind::NonMonoReadCo, AnomalyKind::NonMonoReadCm],
            Weak::ReadAtomic => [AnomalyKind::FracturedReadCo, AnomalyKind::FracturedReadCm],
            Weak::Causal => [AnomalyKind::CoConflictCm, AnomalyKind::ConflictCm],
        }
    }
}

/// What this engine decides of a level: an axiom, or a guarantee that sessions give.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Decides {
    Axiom(Weak),
    Guarantee(Guarantee),
}

impl From<Visible> for Decides {
    fn from(visible: Visible) -> Decides {
        match visible {
            Visible::Causal => Decides::Axiom(Weak::Causal),
            Visible::ReadAtomic => Decides::Axiom(Weak::ReadAtomic),
            Visible::ReadCommitted => Decides::Axiom(Weak::ReadCommitted),
            Visible::ReadYourWrites => Decides::Guarantee(Guarantee::ReadYourWrites),
            Visible::MonotonicReads => Decides::Guarantee(Guarantee::MonotonicReads),
            Visible::MonotonicWrites => Decides::Guarantee(Guarantee::MonotonicWrites),
            Visible::WritesFollowReads => Decides::Guarantee(Guarantee::WritesFollowReads),
        }
    }
}

/// The levels that this engine decides.
pub(crate) fn levels() -> impl Iterator<Item = (Level, Decides)> {
    Level::CANONICAL.iter().filter(|level| level.bound() < Bound::RealTime).filter_map(|&level| {
        let Some(Family::Visible(visible)) = level.info().family else { return None };
        Some((level, visible.into()))
    })
}

/// What to find out.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Questions {
    pub levels: [bool; 3],
    pub guarantees: [bool; 4],
    /// Is causality acyclic? (Implied by every other question.)
    pub cycles: bool,
    /// Collect all constraints at once instead of trying orders first: to compare the two ways.
    pub no_guess: bool,
    /// Whose read committed, and whose patterns.
    pub definitions: Definitions,
}

impl Questions {
    pub fn ask(&mut self, level: Weak) {
        self.levels[level as usize] = true;
    }

    /// The strongest level whose graph is needed.
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
    /// A contradiction to read atomic, where no pattern of it, as defined, has an instance.
    pub read_atomic: Option<Witness>,
}

/// Answers the questions.
pub(crate) fn decide(
    view: CommittedView<'_>,
    questions: Questions,
    budget: &Budget<'_>,
) -> Result<Findings, OutOfBudget> {
    let strongest = questions.strongest();
    if strongest.is_none() && !questions.cycles {
        return Ok(Findings::default());
    }
    let search = OrderSearch::new(view, questions.definitions, questions.no_guess, budget);
    let inquiry = Inquiry { questions, search };
    inquiry.run(strongest)
}

/// Answers the questions about levels for one view of the history, and those about session guarantees for
/// another.
pub(crate) fn decide_apart(
    guaranteed: CommittedView<'_>,
    view: CommittedView<'_>,
    questions: Questions,
    budget: &Budget<'_>,
) -> Result<Findings, OutOfBudget> {
    let mut findings = decide(view, Questions { guarantees: [false; 4], ..questions }, budget)?;
    if questions.guarantees.contains(&true) {
        let questions = Questions { levels: [false; 3], ..questions };
        let other = decide(guaranteed, questions, budget)?;
        let of_guarantee = |a: &Anomaly| Guarantee::ALL.iter().any(|g| g.violation() == a.kind);
        findings.guarantees = other.guarantees;
        findings.anomalies.extend(other.anomalies.into_iter().filter(of_guarantee));
    }
    Ok(findings)
}

struct Inquiry<'a, 'b> {
    questions: Questions,
    search: OrderSearch<'a, 'b>,
}

impl Inquiry<'_, '_> {
    fn run(&self, strongest: Option<Weak>) -> Result<Findings, OutOfBudget> {
        let mut findings = Findings::default();
        let mut broken: [Option<Box<Broken>>; 3] = [None, None, None];
        for level in Weak::ALL.into_iter().rev().filter(|&l| Some(l) <= strongest) {
            match self.search.analyse(Rule::Level(level))? {
                Conclusion::Order(order) => {
                    self.record_proof(level, &order, &mut findings);
                    break;
                }
                Conclusion::Broken(contradiction) => {
                    findings.levels[level as usize] =
                        self.questions.levels[level as usize].then_some(Answer::Violated);
                    broken[level as usize] = Some(contradiction);
                }
            }
        }
        if broken.iter().any(Option::is_some) || (strongest.is_none() && !self.search.start().is_order()) {
            self.explain(&broken, &mut findings)?;
            self.decide_guarantees(&mut findings)?;
        }
        Ok(findings)
    }

    /// An order that proves a level proves every weaker one.
    fn record_proof(&self, proven: Weak, order: &[TxnId], findings: &mut Findings) {
        let proof = |asked: bool| asked.then(|| Answer::Holds(order.to_vec()));
        for level in Weak::ALL.into_iter().filter(|&l| l <= proven) {
            findings.levels[level as usize] = proof(self.questions.levels[level as usize]);
        }
        if proven == Weak::Causal {
            for (answer, &asked) in findings.guarantees.iter_mut().zip(&self.questions.guarantees) {
                *answer = proof(asked);
            }
        }
    }

    fn explain(&self, broken: &[Option<Box<Broken>>; 3], findings: &mut Findings) -> Result<(), OutOfBudget> {
        let search = &self.search;
        let explainer = self.explainer()?;
        self.explain_cycles(&explainer, findings);
        if !self.questions.levels.contains(&true) {
            return Ok(());
        }
        search.poll()?;
        let graph = |level: Weak| broken[level as usize].as_ref().map(|b| &b.graph);
        let classifier = Classifier {
            view: search.view,
            definitions: search.definitions,
            clocks: search.clocks()?,
            read_committed: graph(Weak::ReadCommitted),
            read_atomic: graph(Weak::ReadAtomic),
            causal: graph(Weak::Causal),
        };
        let counts = classifier.count();
        let extras = broken.each_ref().map(|broken| {
            let Broken { constraints, graph, .. } = &**broken.as_ref()?;
            Some((Extra::new(graph, constraints, &search.version_edges), &graph.components))
        });
        let example = |counts: &TapCounts, tap: Tap| {
            let extra = &extras[tap.level() as usize];
            let candidates = counts.smallest[tap as usize].iter().filter_map(|&((implied, _), instance)| {
                let extra = extra.as_ref().map(|(extra, components)| (extra, *components));
                Some((implied, explainer.instance(instance, extra)?))
            });
            candidates
                .min_by_key(|(implied, w)| (*implied, w.transactions.len(), w.operations.len()))
                .map(|(_, witness)| witness)
        };
        for tap in Tap::ALL {
            if let Some(witness) = example(&counts, tap) {
                let count = counts.count[tap as usize];
                let readers = counts.readers[tap as usize].clone();
                findings.anomalies.push(Anomaly::new(tap.kind(), count, witness).seen_in(readers));
            }
        }
        let unnamed = Tap::ALL.iter().all(|&t| t.level() > Weak::ReadAtomic || counts.count[t as usize] == 0);
        if search.definitions == Definitions::Plume && unnamed && graph(Weak::ReadAtomic).is_some() {
            // The patterns as Anomalist completes them have an instance.
            let counts = Classifier { definitions: Definitions::Anomalist, ..classifier }.count();
            findings.read_atomic =
                [Tap::K, Tap::L, Tap::H, Tap::I].into_iter().find_map(|tap| example(&counts, tap));
        }
        Ok(())
    }

    fn explainer(&self) -> Result<Explainer<'_>, OutOfBudget> {
        let search = &self.search;
        Ok(Explainer {
            view: search.view,
            definitions: search.definitions,
            causality: search.causality(),
            clocks: search.clocks()?,
        })
    }

    /// Cycles of causality itself (TAP-g). Those that need the orders that lists show are the Adya engine's.
    fn explain_cycles(&self, explainer: &Explainer<'_>, findings: &mut Findings) {
        let causal = explainer.clocks.components();
        if causal.cyclic_count() > 0 {
            let witness = explainer.cycle(&Extra::default(), causal);
            let count = causal.cyclic_count() as u64;
            let mut met = vec![false; causal.count()];
            let is_first = |t: &TxnId| {
                causal.is_cyclic(t.0) && !std::mem::replace(&mut met[causal.of(t.0) as usize], true)
            };
            let firsts = self.search.view.committed().filter(is_first).collect();
            let anomaly = |witness| Anomaly::new(AnomalyKind::CyclicCo, count, witness).seen_in(firsts);
            findings.anomalies.extend(witness.map(anomaly));
        }
    }

    /// The guarantees of a history that is not causal, one by one.
    fn decide_guarantees(&self, findings: &mut Findings) -> Result<(), OutOfBudget> {
        let search = &self.search;
        for (i, guarantee) in Guarantee::ALL.into_iter().enumerate() {
            if !self.questions.guarantees[i] {
                continue;
            }
            let broken = match search.analyse(Rule::Guarantee(guarantee))? {
                Conclusion::Order(order) => {
                    findings.guarantees[i] = Some(Answer::Holds(order));
                    continue;
                }
                Conclusion::Broken(broken) => broken,
            };
            findings.guarantees[i] = Some(Answer::Violated);
            let (count, smallest, readers) =
                SessionSeen::new(search.view, search.causality(), guarantee).contradictions(&broken);
            let explainer = self.explainer()?;
            let components = &broken.graph.components;
            let extra =
                Extra::new(&broken.graph, &broken.constraints, &search.version_edges).of_guarantee(guarantee);
            let witness = smallest.and_then(|s| explainer.guarantee(guarantee, s, (&extra, components)));
            let anomaly = |witness| Anomaly::new(guarantee.violation(), count, witness).seen_in(readers);
            findings.anomalies.extend(witness.map(anomaly));
        }
        Ok(())
    }
}
