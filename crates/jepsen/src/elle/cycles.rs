//! Elle's search for cycles: per component, first which models have any cycle at all, then one cycle per
//! type.
//!
//! Types are tried in Elle's order, and one is left out if a type already found in the component implies
//! it, or if a model without cycles forbids it. Elle walks an edge by any of its relations, and afterwards
//! *tells* it by the one of highest precedence: a step that is real time but also an anti-dependency is
//! reported as that. A cycle that is then of another type than the one searched for is dropped, except for
//! G0 and G1c. So here cycles are searched for as they are reported, and those two types by all relations
//! as well. (Elle also gives the type up when the first cycle it meets is reported otherwise, and which
//! that is depends on its hashing.)

use super::elle_history::{ALL, ElleHistory, label, labels};
use super::steps::Step;
use super::{Case, Findings, Inference};
use anomalist_check::Budget;
use anomalist_graph::components;
use anomalist_graph::labelled::{
    AntiCount, CycleQuery, Effort, Found, Labelled, Labels, Walk, alternating, search_component,
};
use anomalist_history::TxnId;
use anomalist_level::AnomalyKind as A;
use anomalist_level::elle::{
    self, AntiDependencies, CYCLE_EXISTS, CYCLES, CycleExists, CycleSpec, Edge, SEARCH_ORDER,
};

/// A cycle of transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// Its type.
    pub kind: A,
    /// Its steps; the last one leads back to the first.
    pub steps: Vec<Step>,
}

/// How many edges the search for one type looks at in a component before it gives up. A count, so that
/// every machine gives the same answer; large enough for components of a million transactions with
/// anomalies at hand.
const EFFORT: u64 = 2_000_000_000;

/// Searches the graph and adds what it finds. An edge that several relations hold is explained by the first
/// of `precedence`.
pub(super) fn search(
    numbered: &ElleHistory<'_>,
    edges: Vec<(u32, u32, Labels)>,
    inference: &Inference,
    precedence: &[Edge],
    budget: &Budget<'_>,
    findings: &mut Findings,
) {
    if edges.is_empty() {
        findings.push((A::EmptyTransactionGraph, Case::EmptyGraph));
        return;
    }
    let whole = Labelled::from_edges(numbered.len(), edges);
    for members in whole.cyclic_components(Labels::MAX) {
        let graph = whole.induced(&members);
        let printed_as = |set: Labels| precedence.iter().copied().find(|&edge| set & label(edge) != 0);
        let reported = graph.map_labels(|set| printed_as(set).map_or(0, label));
        let component = Component { graph, reported, members, numbered, inference };
        component.search(budget, findings);
    }
}

struct Component<'a, 'h> {
    graph: Labelled,
    /// The same with the one relation by which each edge is reported.
    reported: Labelled,
    /// The nodes of the whole graph.
    members: Vec<u32>,
    numbered: &'a ElleHistory<'h>,
    inference: &'a Inference,
}

impl Component<'_, '_> {
    fn search(&self, budget: &Budget<'_>, findings: &mut Findings) {
        let mut cyclic: Vec<A> = Vec::new();
        let mut impossible = Vec::new();
        for exists in CYCLE_EXISTS {
            if impossible.contains(&exists.model) {
                continue;
            }
            if let Some(txns) = self.smallest_cyclic_part(exists) {
                cyclic.push(exists.anomaly);
                impossible = elle::impossible(&cyclic);
                findings.push((exists.anomaly, Case::CycleExists { model: exists.model, txns }));
            }
        }
        let possible: Vec<_> =
            CYCLE_EXISTS.iter().map(|e| e.model).filter(|m| !impossible.contains(m)).collect();
        let ruled_out = elle::prohibited(&possible);
        let stop = || budget.is_spent();
        let mut found: Vec<A> = Vec::new();
        for &kind in SEARCH_ORDER {
            if ruled_out.contains(&kind) || found.iter().any(|f| f.implies(kind)) {
                continue;
            }
            let Some((spec, order)) = spec_of(kind) else { continue };
            let query = query(spec, order);
            let find = |graph| search_component(graph, &query, &mut Effort::new(EFFORT, &stop));
            let mut result = find(&self.reported);
            if spec.anti_dependencies == AntiDependencies::None && result == Found::Nothing {
                result = find(&self.graph);
            }
            match result {
                Found::Cycle(walk) => {
                    let cycle = self.cycle(&walk);
                    found.push(cycle.kind);
                    findings.push((cycle.kind, Case::Cycle(cycle)));
                }
                Found::GaveUp => {
                    let case = Case::Timeout { searching: kind, size: self.members.len() };
                    findings.push((A::CycleSearchTimeout, case));
                    if budget.is_spent() {
                        return;
                    }
                }
                // Elle's cycles pass no transaction twice.
                Found::OnlyWalk(_) | Found::Nothing => {}
            }
        }
    }

    /// The transactions of the smallest part of a model's graph that has a cycle.
    fn smallest_cyclic_part(&self, exists: &CycleExists) -> Option<Vec<TxnId>> {
        let (plain, anti) = (labels(exists.edges), labels(exists.then));
        let n = self.graph.len();
        let (parts, copies) = if anti == 0 {
            (self.graph.components(plain), 1)
        } else {
            (components(&alternating(&self.graph, plain, anti)), 2)
        };
        let best = (0..(n * copies) as u32)
            .map(|copy| parts.of(copy))
            .filter(|&part| parts.size(part) > 1)
            .min_by_key(|&part| parts.size(part))?;
        let inside = |node: u32| (0..copies as u32).any(|c| parts.of(node * copies as u32 + c) == best);
        Some((0..n as u32).filter(|&node| inside(node)).map(|node| self.txn(node)).collect())
    }

    fn txn(&self, node: u32) -> TxnId {
        self.numbered.txn(self.members[node as usize])
    }

    /// The cycle as Elle reports it. Consecutive steps of process or real-time order are one step.
    fn cycle(&self, walk: &Walk) -> Cycle {
        let next = |i: usize| walk.nodes[(i + 1) % walk.nodes.len()];
        let mut merged: Vec<(u32, u32, Edge)> = Vec::new();
        for i in 0..walk.nodes.len() {
            let reported = self.reported.labels(walk.nodes[i], next(i));
            let relation = ALL.into_iter().find(|&edge| reported == label(edge)).unwrap_or(Edge::Realtime);
            let (from, to) = (self.members[walk.nodes[i] as usize], self.members[next(i) as usize]);
            match merged.last_mut() {
                Some(last) if last.2 == relation && matches!(relation, Edge::Process | Edge::Realtime) => {
                    last.1 = to;
                }
                _ => merged.push((from, to, relation)),
            }
        }
        let step = |&(from, to, relation): &(u32, u32, Edge)| {
            self.inference.evidence.step(self.numbered, from, to, relation)
        };
        let steps: Vec<Step> = merged.iter().map(step).collect();
        let relations: Vec<Edge> = steps.iter().map(|step| step.relation).collect();
        Cycle { kind: classify(&relations), steps }
    }
}

/// The type and variant of a kind of cycle.
fn spec_of(kind: A) -> Option<(&'static CycleSpec, Option<Edge>)> {
    let orders = [None, Some(Edge::Process), Some(Edge::Realtime)];
    CYCLES.iter().find_map(|spec| {
        orders.into_iter().find(|&order| spec.kind(order) == kind).map(|order| (spec, order))
    })
}

/// The search for a type; with an order, at least one step must be of it.
fn query(spec: &CycleSpec, order: Option<Edge>) -> CycleQuery {
    let in_a_row = order.map_or(0, label);
    let order: &[Edge] = match &order {
        Some(order) => std::slice::from_ref(order),
        None => &[],
    };
    CycleQuery {
        plain: labels(spec.edges) | labels(order),
        anti: labels(spec.anti_edges),
        count: match spec.anti_dependencies {
            AntiDependencies::None => AntiCount::None,
            AntiDependencies::One => AntiCount::One,
            AntiDependencies::NonAdjacent => AntiCount::NonAdjacent,
            AntiDependencies::Adjacent => AntiCount::Adjacent,
        },
        required: [labels(spec.required), labels(order)].into_iter().filter(|&set| set != 0).collect(),
        order: in_a_row,
    }
}

/// The type of a cycle with these steps.
pub(crate) fn classify(steps: &[Edge]) -> A {
    let order = [Edge::Realtime, Edge::Process].into_iter().find(|order| steps.contains(order));
    let bits: Vec<Labels> = steps.iter().map(|&edge| label(edge)).collect();
    let base = |spec: &&CycleSpec| {
        let all_orders = label(Edge::Process) | label(Edge::Realtime);
        let mut query = query(spec, None);
        query.plain |= all_orders;
        query.accepts(&bits)
    };
    // A cycle of orders alone cannot be: time does not run in circles.
    CYCLES.iter().find(base).map_or(A::G0, |spec| spec.kind(order))
}
