//! From graphs to verdicts.
//!
//! The strongest graph that was asked about comes first: if it has no cycle, its topological order proves
//! every level below it at once, and nothing else is built. Otherwise its cycles are named, and each level
//! gets its own graph.
//!
//! What proves a level when version orders are not total:
//! - *PL-1, PL-2 and their session and real-time forms*: registers may be given versions in the order of
//!   any topological sort, and so may appends that no transaction saw. So no cycle of what is certain means
//!   the level holds, always.
//! - *Serializable and prefix*, lists only: as well (`docs/spec/algorithms.md` 3.3).
//! - *Snapshot isolation*, lists only: two writers of a key must not overlap, so the order of appends that
//!   no transaction saw is a choice. The order of a sort is tried; if that fails the level is unknown.

use super::cursor;
use super::cycles::{Cyclic, Names};
use super::depend::{Dependencies, RT};
use super::direct;
use super::extra::{Analyser, Given};
use super::orders::Clock;
use super::registers::Registers;
use super::shapes::{Shape, Shapes, Sorted};
use super::unfolded::{Answers, Unfolded};
use crate::Budget;
use crate::verdicts::JudgementBuilder;
use crate::view::CommittedView;
use anomalist_graph::Components;
use anomalist_history::TxnId;
use anomalist_level::{Anomaly, AnomalyKind, Bound, Family, Graph, Level, Verdict, Why};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// What the engine is asked.
pub(crate) struct Question<'a> {
    pub asked: &'a [Level],
    pub registers: &'a Registers,
    pub analysers: &'a [&'a dyn Analyser],
    /// An example from each component is wanted.
    pub every: bool,
}

/// Whether the weak engine decides the level by itself, of registers.
fn is_weak(level: Level) -> bool {
    match level.info().family {
        Some(Family::Visible(_)) => level.bound() < Bound::RealTime,
        Some(Family::Cut) => true,
        Some(
            Family::Serial
            | Family::Snapshot
            | Family::Prefix
            | Family::Parallel
            | Family::Updates
            | Family::Flow
            | Family::Writes,
        )
        | None => false,
    }
}

impl Question<'_> {
    /// False if dependencies have nothing to say that the weak engine does not say.
    pub fn is_about(&self, view: CommittedView<'_>) -> bool {
        view.history.has_lists()
            || self.registers.contradiction.is_some()
            || !self.analysers.is_empty()
            || !self.asked.iter().all(|&level| is_weak(level))
    }

    /// True if the answer for a level tells something about a level that was asked about.
    fn concerns(&self, level: Level) -> bool {
        self.asked.iter().any(|a| a.implies(level))
    }

    fn bound(&self) -> Bound {
        self.asked.iter().map(|level| level.bound()).max().unwrap_or(Bound::Data)
    }
}

/// The edges of a graph; none if the level follows from another's.
fn shape(graph: Graph) -> Option<Shape> {
    Some(match graph {
        Graph::Serial => Shape::SERIAL,
        Graph::Items => Shape::ITEMS,
        Graph::Snapshot => Shape::SNAPSHOT,
        Graph::Prefix => Shape::PREFIX,
        Graph::Flow => Shape::FLOW,
        Graph::Writes => Shape::WRITES,
        Graph::Follows => return None,
    })
}

/// Levels that are the absence of cycles in a graph, strongest graphs first. Of Elle's further models some
/// are PL-2 without a few anomalies that need no search.
static GRAPHS: LazyLock<Vec<(Shape, Bound, Vec<Level>)>> = LazyLock::new(|| {
    let mut graphs: BTreeMap<(Graph, Reverse<Bound>), Vec<Level>> = BTreeMap::new();
    for &level in Level::ALL {
        if let Some(graph) = level.info().graph {
            graphs.entry((graph, Reverse(level.bound()))).or_default().push(level);
        }
    }
    let of = |((graph, Reverse(bound)), levels)| Some((shape(graph)?, bound, levels));
    graphs.into_iter().filter_map(of).collect()
});

/// Levels that follow from a serial order that respects their bound, beside those of [`GRAPHS`].
fn followers() -> impl Iterator<Item = (Bound, Level)> {
    let follow = |level: &&Level| level.info().graph == Some(Graph::Follows);
    Level::ALL.iter().filter(follow).map(|&level| (level.bound(), level))
}

/// Levels about single operations.
const UNFOLDED: [Level; 2] = [Level::MonotonicView, Level::MonotonicSnapshotRead];

/// The dependencies of a history, and the strongest graph that was asked about, sorted.
pub(crate) struct Engine<'a> {
    question: &'a Question<'a>,
    deps: Dependencies<'a>,
    clock: Option<Clock>,
    /// The strongest bound that can be looked at.
    last: Bound,
    serial: Sorted,
}

impl<'a> Engine<'a> {
    pub fn new(view: CommittedView<'a>, question: &'a Question<'a>) -> Engine<'a> {
        let given = Given::collect(view.history, view.index, question.analysers);
        let given_labels = given.labels();
        let with_events = UNFOLDED.iter().any(|&level| question.asked.contains(&level));
        let deps = Dependencies::new(view, question.registers, given, with_events);
        let clock = match question.bound() {
            Bound::RealTime => Clock::new(view),
            _ => None,
        };
        // Without intervals there is no real time to be bound by, unless an analyser knows some.
        let timed = clock.is_some() || given_labels & RT != 0;
        let last = if timed { question.bound() } else { question.bound().min(Bound::Session) };
        let shapes = Shapes { deps: &deps, clock: clock.as_ref(), chosen: Vec::new() };
        let serial = shapes.sort(Shape::SERIAL, last);
        Engine { question, deps, clock, last, serial }
    }

    /// Notes what needs no search, and every level that follows from the absence of any cycle. True if that
    /// is everything that was asked about.
    pub fn prove(&self, builder: &mut JudgementBuilder<'_>) -> bool {
        self.question.registers.contradiction.iter().cloned().for_each(|anomaly| builder.found(anomaly));
        self.question.analysers.iter().flat_map(|a| a.anomalies()).for_each(|anomaly| builder.found(anomaly));
        let finders = [
            direct::lost_updates,
            direct::dirty_updates,
            direct::intermediate_reads,
            direct::incompatible_orders,
            direct::internal,
        ];
        for anomaly in finders.iter().filter_map(|find| find(self.deps.view, &self.deps.lists)) {
            builder.found(anomaly);
        }
        match &self.serial {
            Ok(sorted) => self.judge(builder).acyclic(self.last, sorted),
            Err(_) => false,
        }
    }

    /// Names the cycles, and decides each level by its own graph. After the weak engine: what that has
    /// explained is not explained again.
    pub fn refute(&self, builder: &mut JudgementBuilder<'_>, budget: &Budget<'_>) {
        if let Err(found) = &self.serial {
            self.judge(builder).cyclic(self.last, found, budget);
        }
        if !budget.is_spent() {
            self.judge(builder).unfold();
            self.judge(builder).cursors();
        }
    }

    fn judge<'e, 'b>(&'e self, builder: &'e mut JudgementBuilder<'b>) -> Judge<'e, 'b> {
        let shapes = Shapes { deps: &self.deps, clock: self.clock.as_ref(), chosen: Vec::new() };
        Judge { question: self.question, builder, shapes, has_clock: self.clock.is_some() }
    }
}

struct Judge<'a, 'b> {
    question: &'a Question<'a>,
    builder: &'a mut JudgementBuilder<'b>,
    shapes: Shapes<'a>,
    has_clock: bool,
}

impl Judge<'_, '_> {
    /// No cycle at all, up to a bound.
    fn acyclic(&mut self, last: Bound, sorted: &[u32]) -> bool {
        let serial = (Shape::SERIAL, sorted);
        for &(shape, bound, ref levels) in GRAPHS.iter().filter(|(_, bound, _)| *bound <= last) {
            for &level in levels {
                if self.is_free(shape) {
                    self.prove(bound, level, serial)
                } else {
                    self.note_undecided(level)
                }
            }
        }
        let ordered = self.shapes.deps.is_ordered();
        for (bound, level) in followers().filter(|(bound, _)| *bound <= last) {
            if ordered { self.prove(bound, level, serial) } else { self.note_undecided(level) }
        }
        ordered && self.question.asked.iter().all(|&level| self.builder.holds(level))
    }

    /// True if what is not known about versions can be chosen as in any sort of the graph.
    fn is_free(&self, shape: Shape) -> bool {
        match shape {
            Shape::FLOW | Shape::WRITES => {
                let deps = self.shapes.deps;
                let unattributed = deps.lists.is_unattributed() || shape == Shape::FLOW && deps.unattributed;
                !deps.lists.is_contradictory() && !unattributed
            }
            _ => self.shapes.deps.is_ordered(),
        }
    }

    fn cyclic(&mut self, last: Bound, found: &Components, budget: &Budget<'_>) {
        let cyclic = Cyclic::new(self.shapes.deps, self.shapes.clock, last, found);
        let names = cyclic.name(last, |kind| self.builder.wants(kind), self.question.every, budget);
        for anomaly in &names.anomalies {
            self.mark_damaged(anomaly);
        }
        names.anomalies.iter().cloned().for_each(|anomaly| self.builder.found(anomaly));
        names.further.iter().cloned().for_each(|anomaly| self.builder.example(anomaly));
        if budget.is_spent() {
            self.builder.interrupt();
            return;
        }
        for &(shape, bound, ref levels) in GRAPHS.iter().filter(|(_, bound, _)| *bound <= last) {
            if levels.iter().any(|&level| self.question.concerns(level)) {
                self.graph(&cyclic, (shape, bound), levels, budget);
            }
        }
        self.updates(&cyclic, budget);
        self.single_anti(&names, last);
    }

    /// Decides levels by their own graph.
    fn graph(
        &mut self,
        cyclic: &Cyclic<'_>,
        (shape, bound): (Shape, Bound),
        levels: &[Level],
        budget: &Budget<'_>,
    ) {
        match self.shapes.sort(shape, bound) {
            Err(_) => {
                for &level in levels {
                    self.violated(cyclic, (shape, bound), level, budget);
                }
            }
            Ok(sorted) => {
                let proven = match shape {
                    _ if !self.is_free(shape) => None,
                    Shape::SNAPSHOT if self.shapes.deps.open_list.is_some() => {
                        self.completed(shape, bound, &sorted)
                    }
                    _ => Some(sorted),
                };
                for &level in levels {
                    match &proven {
                        Some(sorted) => self.prove(bound, level, (shape, sorted)),
                        None => self.note_undecided(level),
                    }
                }
            }
        }
    }

    /// The graph with appends that no transaction saw in the order of a sort; `None` if that makes a cycle.
    fn completed(&mut self, shape: Shape, bound: Bound, sorted: &[u32]) -> Option<Vec<u32>> {
        let order = self.shapes.commit_order(shape, sorted);
        let mut place = vec![0u32; self.shapes.deps.graph.len()];
        for (i, t) in (0..).zip(&order) {
            place[t.index()] = i;
        }
        let deps = self.shapes.deps;
        let mut chosen = Vec::new();
        for key in deps.view.history.keys() {
            let mut later: Vec<TxnId> = deps.lists.later(key).iter().map(|a| a.txn).collect();
            later.sort_by_key(|t| place[t.index()]);
            later.dedup();
            chosen.extend(later.windows(2).map(|pair| (pair[0].0, pair[1].0)));
        }
        self.shapes.chosen = chosen;
        let answer = self.shapes.sort(shape, bound).ok();
        self.shapes.chosen = Vec::new();
        answer
    }

    /// Update serializability: no cycle of transactions that write, nor with one that only reads.
    fn updates(&mut self, cyclic: &Cyclic<'_>, budget: &Budget<'_>) {
        let level = Level::UpdateSerializable;
        if !self.question.concerns(level) || self.builder.holds(level) {
            return;
        }
        match cyclic.update_cycle(budget) {
            Some(walk) => {
                let witness = self.shapes.deps.witness(&walk);
                self.builder.found(Anomaly::new(AnomalyKind::GUpdate, 1, witness));
            }
            None if self.shapes.deps.is_ordered() && self.shapes.deps.open_list.is_none() => {
                self.prove_by(Shape::UPDATES, Bound::Data, level);
            }
            None => self.note_undecided(level),
        }
    }

    /// Version orders are total; commits that follow them are the proof.
    fn prove_by(&mut self, shape: Shape, bound: Bound, level: Level) {
        match self.shapes.sort(shape, bound) {
            Ok(sorted) => self.prove(bound, level, (shape, &sorted)),
            Err(_) => self.builder.decide(level, Verdict::Violated),
        }
    }

    /// Levels that forbid cycles with one anti-dependency, besides those without any.
    fn single_anti(&mut self, names: &Names, last: Bound) {
        let total = self.shapes.deps.is_ordered() && self.shapes.deps.open_list.is_none();
        for (bound, level) in
            [(Bound::Data, Level::ConsistentView), (Bound::Session, Level::ParallelSnapshotIsolation)]
        {
            if bound > last || !self.question.concerns(level) || self.builder.holds(level) {
                continue;
            }
            let broken = Bound::ALL.into_iter().filter(|b| *b <= bound).any(|b| names.closed[b as usize] > 0)
                || self.shapes.sort(Shape::FLOW, bound).is_err();
            match (broken, total) {
                (true, _) => self.builder.decide(level, Verdict::Violated),
                (false, true) => {
                    self.prove_by(Shape::FLOW, bound, level);
                    if level == Level::ConsistentView {
                        // It is not known when transactions started: perhaps all before any committed.
                        self.builder.hold(Level::ForwardConsistentView);
                    }
                }
                (false, false) => self.note_undecided(level),
            }
        }
    }

    /// True if nothing but the order of versions is open.
    fn is_complete(&self) -> bool {
        let deps = self.shapes.deps;
        deps.view.index.faults().is_empty()
            && deps.view.index.ambiguous_reads() == 0
            && deps.lists.damaged().is_empty()
            && deps.given.labels() == 0
            && !deps.cut_off
    }

    /// PL-2L and PL-MSR. Who asks about a stronger level has it decided by its own graph, for less.
    fn unfold(&mut self) {
        let open = |level: &Level| self.question.asked.contains(level) && !self.builder.holds(*level);
        if !UNFOLDED.iter().any(open) {
            return;
        }
        let Answers { monotonic_view, snapshots } =
            Unfolded::new(self.shapes.deps).decide(self.is_complete());
        for (level, answer) in UNFOLDED.into_iter().zip([monotonic_view, snapshots]) {
            self.note(level, answer);
        }
    }

    /// Cursor stability.
    fn cursors(&mut self) {
        let level = Level::CursorStability;
        if !self.question.asked.contains(&level) || self.builder.holds(level) || self.builder.explains(level)
        {
            return;
        }
        let deps = self.shapes.deps;
        let answer = cursor::missed_updates(deps).map_or_else(|| Ok(self.is_cursor_stable()), Err);
        self.note(level, answer);
    }

    fn is_cursor_stable(&mut self) -> bool {
        let Some(sorted) = self.shapes.sort(Shape::FLOW, Bound::Data).ok().filter(|_| self.is_complete())
        else {
            return false;
        };
        let order = self.shapes.commit_order(Shape::FLOW, &sorted);
        let Some(chosen) = cursor::stable_order(self.shapes.deps, &order) else { return false };
        self.shapes.chosen = chosen;
        let holds = self.shapes.sort(Shape::FLOW, Bound::Data).is_ok();
        self.shapes.chosen = Vec::new();
        holds
    }

    /// Notes a violation, or that a level holds, or why it is open.
    fn note(&mut self, level: Level, answer: Result<bool, Anomaly>) {
        match answer {
            Err(anomaly) => {
                self.mark_damaged(&anomaly);
                self.builder.found(anomaly);
                self.builder.decide(level, Verdict::Violated);
            }
            Ok(true) => self.builder.hold(level),
            Ok(false) => {
                self.note_undecided(level);
                self.builder.unknown(level, Why::NoVersionOrder);
            }
        }
    }

    fn violated(
        &mut self,
        cyclic: &Cyclic<'_>,
        (shape, bound): (Shape, Bound),
        level: Level,
        budget: &Budget<'_>,
    ) {
        if !self.builder.explains(level) {
            // Without a name for the cycle, the search decides the level and refutes it.
            let Some((kind, walk)) = cyclic.example(shape, bound, budget) else { return };
            let witness = self.shapes.deps.witness(&walk);
            self.builder.found(Anomaly::new(kind, 1, witness));
        }
        self.builder.decide(level, Verdict::Violated);
    }

    /// Notes that a level holds, with the sorted graph as its proof.
    fn prove(&mut self, bound: Bound, level: Level, (shape, sorted): (Shape, &[u32])) {
        if bound == Bound::RealTime && !self.has_clock {
            return;
        }
        if self.builder.certifies(level) {
            self.builder.prove(level, self.shapes.execution(shape, sorted));
        } else {
            self.builder.hold(level);
        }
    }

    /// Says why a level stays undecided.
    fn note_undecided(&mut self, level: Level) {
        let deps = self.shapes.deps;
        let why = if deps.unattributed || deps.lists.is_unattributed() {
            Why::OpenDependency
        } else if deps.lists.is_contradictory() || !deps.lists.damaged().is_empty() {
            Why::FaultyLists
        } else if deps.open_register.is_some() {
            Why::RegisterOrder
        } else if deps.cut_off {
            Why::PairsLeftOut
        } else if deps.open_list.is_some() {
            Why::AppendOrder
        } else {
            return;
        };
        self.builder.unknown(level, why);
    }

    /// Notes what a reader should know about an example that rests on damaged keys.
    fn mark_damaged(&mut self, anomaly: &Anomaly) {
        let keys = self.shapes.deps.damaged_in(&anomaly.witness);
        if keys.is_empty() {
            return;
        }
        let names: Vec<String> =
            keys.iter().map(|&key| self.shapes.deps.view.history.show_key(key).to_string()).collect();
        self.builder.note(format!(
            "The example of {} rests on key {}, whose reads are faulty themselves: it may be a consequence of that.",
            anomaly.kind.code(),
            names.join(", ")
        ));
    }
}
