//! Explains a level that does not hold: the anomaly by name where one cycle is the reason, and the
//! refutation.
//!
//! Cycles of known edges are shown with their evidence, and named as Adya and Elle name them, by their
//! edges: none that overwrites what was read (G1c), one (G-single), several that do not touch
//! (G-nonadjacent), two that do (G2). Everything else is "no order exists", with the transactions and
//! operations that the refutation is about.

use super::facts::{Facts, Found, From};
use super::model::{Edge, Model, Rules, Why};
use super::refute::{Prover, price};
use super::search;
use super::unsat_core;
use crate::Budget;
use crate::view::CommittedView;
use crate::view::returned;
use anomalist_graph::{Graph, components};
use anomalist_history::{OpId, TxnId};
use anomalist_level::{
    self as level, Anomaly, AnomalyKind, Evidence, Node, Reason, Refutation, Relation, Step, VersionReason,
    Witness,
};

/// The refutation that is one reason.
pub(crate) fn at_once(reason: Reason) -> Refutation {
    Refutation { steps: vec![Step { clause: Vec::new(), reason }] }
}

/// A list read that shows part of another transaction's appends below the reader's own.
pub(crate) fn part_of_a_transaction(
    view: CommittedView<'_>,
    rules: Rules<'_>,
    read: OpId,
    write: OpId,
) -> (Anomaly, Refutation) {
    let refutation = at_once(Reason::Intermediate(returned(view.history, read, write)));
    (unnamed(view, rules, &refutation, Vec::new()), refutation)
}

/// The anomaly and the proof behind a level that does not hold.
pub(crate) fn explain(
    view: CommittedView<'_>,
    facts: &Facts<'_>,
    rules: Rules<'_>,
    found: search::Found<'_>,
    budget: &Budget<'_>,
) -> (Anomaly, Refutation) {
    match found {
        search::Found::KnownCycle(model) => {
            let prover = Prover::new(&model, None);
            let cycle = known_cycle(&model, &prover);
            let edges: Vec<Edge> = cycle.iter().map(|&i| model.edges[i as usize]).collect();
            let refutation = prover.by_cycle(&cycle);
            match named(view, &model, &edges) {
                Some(anomaly) => (anomaly, refutation),
                None => smallest(view, facts, rules, refutation, budget),
            }
        }
        search::Found::Refuted(model, solver, end) => {
            let position = |node: u32| solver.order.position(node);
            let refutation = Prover::new(&model, Some(&position)).by_log(&solver, end, budget);
            smallest(view, facts, rules, refutation, budget)
        }
        search::Found::Holds(_) => {
            (unnamed(view, rules, &Refutation::default(), Vec::new()), Refutation::default())
        }
    }
}

/// The smallest refutation that a little effort finds.
fn smallest(
    view: CommittedView<'_>,
    facts: &Facts<'_>,
    rules: Rules<'_>,
    whole: Refutation,
    budget: &Budget<'_>,
) -> (Anomaly, Refutation) {
    let reduced =
        if whole.steps.is_empty() { None } else { unsat_core::reduced(facts, rules, &whole, budget) };
    let refutation = reduced.unwrap_or(whole);
    // The reads that its cycles lead over, and what they returned.
    let mut also = Vec::new();
    for read in unsat_core::spoken_of(facts, &refutation).into_iter().map(|i| &facts.reads[i as usize]) {
        also.push(read.op);
        if let From::Txn(w) = read.from {
            also.extend(facts.write_of(w, read.key));
        }
    }
    (unnamed(view, rules, &refutation, also), refutation)
}

/// How many nodes a cycle is looked for through.
const STARTS: usize = 32;

/// The cheapest cycle through some node of each small, and of the first large, component.
pub(crate) fn known_cycle(model: &Model<'_>, prover: &Prover<'_>) -> Vec<u32> {
    let graph = model.graph();
    let found = components(&graph);
    let mut starts: Vec<u32> = (0..model.nodes).filter(|&node| found.is_cyclic(node)).collect();
    starts.sort_by_key(|&node| {
        (found.size(found.of(node)), (0..).map_while(|i| graph.successor(node, i)).count())
    });
    let cost = |cycle: &Vec<u32>| cycle.iter().map(|&e| price(&model.edges[e as usize])).sum::<u32>();
    let cycles = starts.into_iter().take(STARTS).filter_map(|node| prover.cycle_through(node));
    cycles.min_by_key(cost).unwrap_or_default()
}

/// An anomaly that is no more than its refutation; these operations belong to it too.
fn unnamed(view: CommittedView<'_>, rules: Rules<'_>, refutation: &Refutation, also: Vec<OpId>) -> Anomaly {
    let witness = Witness::refuted(view.history, refutation.clone(), also);
    Anomaly::new(rules.no_order, 1, witness)
}

/// A cycle of edges that can each be described in one sentence, with its name.
fn named(view: CommittedView<'_>, model: &Model<'_>, cycle: &[Edge]) -> Option<Anomaly> {
    let mut edges: Vec<level::Edge> = Vec::new();
    // Through moments of real time it goes from the transaction that ended to the one that began.
    let mut ended: Option<TxnId> = None;
    let first_event = cycle.iter().position(|e| e.from < model.events)?;
    for edge in cycle[first_event..].iter().chain(&cycle[..first_event]) {
        match edge.why {
            Why::Program => {}
            Why::RealTime => {
                if edge.from < model.events {
                    ended = Some(model.rules.txn(edge.from));
                }
                if edge.to < model.events {
                    let from = Node::Txn(ended?);
                    let to = Node::Txn(model.rules.txn(edge.to));
                    edges.push(level::Edge {
                        from,
                        to,
                        relation: Relation::RealTime,
                        evidence: Evidence::RealTime,
                    });
                }
            }
            _ => edges.push(described(model.facts, model.rules, edge)?),
        }
    }
    let kind = name(&edges, model.rules)?;
    if !model.rules.level.forbids(kind) {
        return None;
    }
    Some(Anomaly::new(kind, 1, crate::weak::witness::witness(view, edges)))
}

/// A read, unless it is of a list whose appends are open: no single edge says which transactions appended.
fn outside(facts: &Facts<'_>, read: u32) -> Option<Found> {
    let read = facts.reads[read as usize];
    (!facts.appends.is_open(read.key)).then_some(read)
}

/// An edge with its evidence, if that is simple.
fn described(facts: &Facts<'_>, rules: Rules<'_>, edge: &Edge) -> Option<level::Edge> {
    let (from, to) = (rules.txn(edge.from), rules.txn(edge.to));
    let (relation, evidence) = match edge.why {
        Why::Session => (Relation::SessionOrder, Evidence::Session),
        Why::Read(read) => {
            let read = outside(facts, read)?;
            (Relation::WriteRead, Evidence::Read { write: facts.write_of(from, read.key), read: read.op })
        }
        Why::Version { read, first, second } => {
            (Relation::VersionOrder, Evidence::Version { first, second, read })
        }
        Why::Assumed { first, second, reason } => {
            (Relation::VersionOrder, Evidence::Ordered { first, second, reason })
        }
        Why::Axiom { read, other } => {
            let read = outside(facts, read)?;
            let list = facts.lists.iter().find(|l| l.key == read.key);
            if edge.to != rules.commit(other) || list.is_some() && edge.rank > 1 {
                return None;
            }
            let mut write = facts.write_of(other, read.key)?;
            let (seen, reason) = match read.from {
                From::Initial => (None, VersionReason::Initial),
                From::Txn(w) => {
                    let same = |r: &&Found| r.key == read.key && r.from == From::Txn(w);
                    let own = facts.reads[facts.reads_of(other)].iter().find(same).map(|r| r.op);
                    let mut later = false;
                    if let Some(list) = list {
                        let run = list.runs.iter().find(|run| run.0 == other).map(|run| run.1);
                        later = run.is_none();
                        write = run.or(list.later.iter().find(|l| l.0 == other).map(|l| l.1))?;
                    }
                    let reason = match (list, own) {
                        (Some(list), _) if later => VersionReason::Missing { read: Some(list.read) },
                        (Some(list), _) => VersionReason::Shown { read: list.read },
                        (None, own) => VersionReason::ReadThenWritten { read: own? },
                    };
                    (Some(facts.write_of(w, read.key)?), reason)
                }
                From::Open(_) => return None,
            };
            let evidence = Evidence::Overwritten { read: read.op, seen, write, reason };
            (Relation::AntiDependency, evidence)
        }
        Why::Program | Why::RealTime | Why::Source { .. } | Why::Conflict { .. } => return None,
    };
    Some(level::Edge { from: Node::Txn(from), to: Node::Txn(to), relation, evidence })
}

/// The name of a cycle, by its edges.
fn name(edges: &[level::Edge], rules: Rules<'_>) -> Option<AnomalyKind> {
    use AnomalyKind as A;
    let has = |relation: Relation| edges.iter().any(|e| e.relation == relation);
    let rw = |i: usize| edges[i % edges.len()].relation == Relation::AntiDependency;
    let count = (0..edges.len()).filter(|&i| rw(i)).count();
    let adjacent = edges.len() > 1 && (0..edges.len()).any(|i| rw(i) && rw(i + 1));
    // Which orders besides the data close it: none, sessions, or real time.
    let order = if has(Relation::RealTime) { 2 } else { usize::from(has(Relation::SessionOrder)) };
    let kinds = match (count, adjacent) {
        (0, _) if !has(Relation::WriteRead) => [A::G0, A::G0Process, A::G0Realtime],
        (0, _) => [A::G1c, A::G1cProcess, A::G1cRealtime],
        (1, _) => [A::GSingleItem, A::GSingleItemProcess, A::GSingleItemRealtime],
        (_, false) => [A::GNonadjacentItem, A::GNonadjacentItemProcess, A::GNonadjacentItemRealtime],
        (_, true) => [A::G2Item, A::G2ItemProcess, A::G2ItemRealtime],
    };
    (edges.len() > 1 && (order == 0 || rules.sessions)).then_some(kinds[order])
}
