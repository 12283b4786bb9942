//! Names for the cycles: Adya's phenomena, each counted and shown once, at its shortest.
//!
//! The graph of the data alone comes first; then session order joins, then real time. A variant
//! (`-process`, `-realtime`) is reported only for cycles that need the order that joined: components that
//! the graph before did not connect, anti-dependencies that it did not close. So no order hides a data
//! anomaly, nor passes for one.
//!
//! What counts: G0, G1c: components that contain such a cycle; G-single: anti-dependencies that a path of
//! other edges closes; G-nonadjacent, G2-item: components that contain one, as far as a bounded search
//! finds them. Searches count steps, not seconds (`anomalist_graph::labelled`), so names and counts do not
//! depend on the machine. Names decide nothing: the verdict is that of the level's graph (`decide.rs`).

use super::depend::{ANTI, Dependencies, RT, RW, RWP, SO, WR, WW};
use super::orders::{Clock, session_pairs};
use super::shapes::order_labels;
use super::witness::needed_label;
use crate::Budget;
use anomalist_graph::labelled::{
    AntiCount, CycleQuery, Effort, Found, Labelled, Labels, Walk, closed_edges, search_component,
};
use anomalist_graph::{Components, Csr, components};
use anomalist_history::TxnId;
use anomalist_level::AnomalyKind as A;
use anomalist_level::{Anomaly, AnomalyKind, Bound};

const DEP: Labels = WW | WR;

/// Edges looked at in the search for one kind.
const EFFORT: u64 = 20_000_000;

/// The kinds by bound: G0, G1c, G-single, G-nonadjacent, G2.
pub(super) const KINDS: [[AnomalyKind; 5]; 3] = [
    [A::G0, A::G1c, A::GSingleItem, A::GNonadjacentItem, A::G2Item],
    [A::G0Process, A::G1cProcess, A::GSingleItemProcess, A::GNonadjacentItemProcess, A::G2ItemProcess],
    [A::G0Realtime, A::G1cRealtime, A::GSingleItemRealtime, A::GNonadjacentItemRealtime, A::G2ItemRealtime],
];

/// The same with an anti-dependency of a read by predicate: G-single, G-nonadjacent, G2.
pub(super) const PREDICATE_KINDS: [[AnomalyKind; 3]; 3] = [
    [A::GSingle, A::GNonadjacent, A::G2],
    [A::GSingleProcess, A::GNonadjacentProcess, A::G2Process],
    [A::GSingleRealtime, A::GNonadjacentRealtime, A::G2Realtime],
];

/// The part of the graph that lies on cycles.
pub(crate) struct Cyclic<'a> {
    pub(super) deps: &'a Dependencies<'a>,
    /// The transactions, ascending; node `i` of the graph is `nodes[i]`.
    pub(super) nodes: Vec<u32>,
    /// All labels, orders included.
    pub(super) graph: Labelled,
}

/// What was found.
pub(crate) struct Names {
    pub anomalies: Vec<Anomaly>,
    /// Examples from other components, if they are wanted.
    pub further: Vec<Anomaly>,
    /// Per bound, how many anti-dependencies it closes that the bounds before did not.
    pub closed: [usize; 3],
}

/// A kind as the search found it.
struct Named {
    count: u64,
    shortest: Option<Walk>,
    /// One of each other component, if they are wanted.
    others: Vec<Walk>,
    /// The first node of each instance.
    places: Vec<u32>,
}

impl Named {
    const NONE: Named = Named { count: 0, shortest: None, others: Vec::new(), places: Vec::new() };
}

impl<'a> Cyclic<'a> {
    /// The components of a graph over transactions (its first nodes) with their edges.
    pub fn new(
        deps: &'a Dependencies<'a>,
        clock: Option<&Clock>,
        bound: Bound,
        found: &Components,
    ) -> Cyclic<'a> {
        let nodes: Vec<u32> = (0..deps.graph.len() as u32).filter(|&t| found.is_cyclic(t)).collect();
        let place = |t: u32| nodes.binary_search(&t).ok().map(|i| i as u32);
        let inside = |a: u32, b: u32| found.of(a) == found.of(b);
        let mut edges: Vec<(u32, u32, Labels)> = Vec::new();
        for (i, &a) in (0..).zip(&nodes) {
            for (b, labels) in deps.graph.edges(a).filter(|&(b, _)| inside(a, b)) {
                edges.extend(place(b).map(|b| (i, b, labels)));
            }
        }
        let mut ordered = |a: u32, b: u32, label: Labels| {
            if inside(a, b)
                && let (Some(a), Some(b)) = (place(a), place(b))
            {
                edges.push((a, b, label));
            }
        };
        if bound >= Bound::Session {
            session_pairs(deps.view).for_each(|(a, b)| ordered(a.0, b.0, SO));
        }
        if let Some(clock) = clock.filter(|_| bound == Bound::RealTime) {
            let keep = |t: TxnId| found.is_cyclic(t.0);
            clock.pairs(deps.view, keep).into_iter().for_each(|(a, b)| ordered(a, b, RT));
        }
        let graph = Labelled::from_edges(nodes.len(), edges);
        Cyclic { deps, nodes, graph }
    }

    /// Every kind of cycle up to a bound, with its count and shortest example.
    pub fn name(
        &self,
        last: Bound,
        wanted: impl Fn(AnomalyKind) -> bool,
        every: bool,
        budget: &Budget<'_>,
    ) -> Names {
        let (mut found, mut further) = (Vec::new(), Vec::new());
        let mut counts = [0; 3];
        // Anti-dependencies that edges of an earlier bound close.
        let mut closed: Vec<(u32, u32)> = Vec::new();
        for (bound, kinds) in Bound::ALL.into_iter().zip(KINDS).filter(|(b, _)| *b <= last) {
            let search = Stage { cyclic: self, bound, every, budget };
            let mut report = |kind: AnomalyKind, named: Named| {
                let witness = |walk: &Walk| self.deps.witness(&self.outside(walk));
                if let Some(walk) = named.shortest.filter(|_| named.count > 0) {
                    let places = named.places.iter().map(|&i| TxnId(self.nodes[i as usize])).collect();
                    found.push(Anomaly::new(kind, named.count, witness(&walk)).seen_in(places));
                }
                further.extend(named.others.iter().map(|w| Anomaly::new(kind, 1, witness(w))));
            };
            let [g0, g1c, single, nonadjacent, g2] = kinds;
            if wanted(g0) {
                report(g0, search.plain(WW, &[WW]));
            }
            if wanted(g1c) {
                report(g1c, search.plain(DEP, &[WR]));
            }
            let open = without_anti(&self.graph, &closed);
            let newly = closed_edges(&open, DEP | order_labels(bound), RW);
            if wanted(single) {
                report(single, search.single(&open, &newly));
            }
            counts[bound as usize] = newly.len();
            closed.extend(newly);
            closed.sort_unstable();
            if wanted(nonadjacent) {
                report(nonadjacent, search.nonadjacent(&without_anti(&self.graph, &closed)));
            }
            if wanted(g2) {
                report(g2, search.adjacent());
            }
            if !self.has_predicates() {
                continue;
            }
            counts[bound as usize] += closed_edges(&self.graph, DEP | order_labels(bound), RWP).len();
            let make_ups = [AntiCount::One, AntiCount::NonAdjacent, AntiCount::Adjacent];
            for (kind, count) in PREDICATE_KINDS[bound as usize].into_iter().zip(make_ups) {
                if wanted(kind) {
                    report(kind, search.predicate(count));
                }
            }
        }
        Names { anomalies: found, further, closed: counts }
    }

    fn has_predicates(&self) -> bool {
        self.deps.given.labels() & RWP != 0
    }

    pub(super) fn outside(&self, walk: &Walk) -> Walk {
        Walk {
            nodes: walk.nodes.iter().map(|&i| self.nodes[i as usize]).collect(),
            labels: walk.labels.clone(),
        }
    }
}

/// The graph without these anti-dependencies (sorted); other labels of the same edges stay.
fn without_anti(graph: &Labelled, gone: &[(u32, u32)]) -> Labelled {
    if gone.is_empty() {
        return graph.clone();
    }
    let keep = |(a, b, labels)| match gone.binary_search(&(a, b)) {
        Ok(_) => (a, b, labels & !RW),
        Err(_) => (a, b, labels),
    };
    Labelled::from_edges(graph.len(), graph.all_edges().map(keep).collect())
}

impl Named {
    /// Takes a cycle of two for the example, unless there is none at all.
    fn prefer(&mut self, pair: Walk) {
        if let Some(best) = &mut self.shortest {
            *best = pair;
        }
    }
}

/// Pairs that are looked at in the search for a pattern.
const PAIRS: usize = 1000;

/// The search with the orders of one bound.
struct Stage<'a> {
    cyclic: &'a Cyclic<'a>,
    bound: Bound,
    /// An example from each component is wanted.
    every: bool,
    budget: &'a Budget<'a>,
}

impl Stage<'_> {
    fn orders(&self) -> Labels {
        order_labels(self.bound)
    }

    fn query(&self, plain: Labels, count: AntiCount, required: &[Labels]) -> CycleQuery {
        let required = required.iter().copied().chain(needed_label(self.bound)).collect();
        let order = needed_label(self.bound).unwrap_or(0);
        CycleQuery { plain: plain | self.orders(), anti: RW, count, required, order }
    }

    /// Of these components, those that the bound before does not connect.
    fn needing(&self, all: Vec<Vec<u32>>, before: impl FnOnce(Bound) -> Components) -> Vec<Vec<u32>> {
        let before = match self.bound {
            Bound::Data => return all,
            Bound::Session => before(Bound::Data),
            Bound::RealTime => before(Bound::Session),
        };
        let new = |nodes: &Vec<u32>| nodes.iter().any(|&node| before.of(node) != before.of(nodes[0]));
        all.into_iter().filter(new).collect()
    }

    /// Cycles without anti-dependencies.
    fn plain(&self, labels: Labels, required: &[Labels]) -> Named {
        let graph = &self.cyclic.graph;
        let all = graph.cyclic_components(labels | self.orders());
        let parts = self.needing(all, |bound| graph.components(labels | order_labels(bound)));
        self.search(graph, parts, &self.query(labels, AntiCount::None, required))
    }

    fn single(&self, open: &Labelled, newly: &[(u32, u32)]) -> Named {
        if newly.is_empty() {
            return Named::NONE;
        }
        let closing = DEP | self.orders();
        let edges = open.all_edges().map(|(a, b, labels)| match newly.binary_search(&(a, b)) {
            Ok(_) => (a, b, labels),
            Err(_) => (a, b, labels & closing),
        });
        let graph = Labelled::from_edges(open.len(), edges.collect());
        let parts = graph.cyclic_components(closing | RW);
        let mut found = self.search(&graph, parts, &self.query(DEP, AntiCount::One, &[]));
        if let Some(pair) = self.pair(newly.iter().copied(), WR) {
            found.prefer(pair);
        }
        let places = newly.iter().map(|&(reader, _)| reader).collect();
        Named { count: newly.len() as u64, places, ..found }
    }

    /// Cycles in which no two anti-dependencies are adjacent, made of those that nothing closes alone.
    fn nonadjacent(&self, open: &Labelled) -> Named {
        let events = |bound: Bound| components(&events(open, DEP | order_labels(bound)));
        let now = events(self.bound);
        let mut parts: Vec<Vec<u32>> = Vec::new();
        let mut place = vec![u32::MAX; now.count()];
        for node in (0..2 * open.len() as u32).filter(|&node| now.is_cyclic(node)) {
            let slot = &mut place[now.of(node) as usize];
            if *slot == u32::MAX {
                *slot = parts.len() as u32;
                parts.push(Vec::new());
            }
            parts[*slot as usize].push(node);
        }
        let mut parts = self.needing(parts, events);
        for part in &mut parts {
            part.iter_mut().for_each(|node| *node /= 2);
            part.dedup();
        }
        let has_anti = |part: &Vec<u32>| {
            let ends = |&(b, labels): &(u32, Labels)| labels & RW != 0 && part.binary_search(&b).is_ok();
            part.iter().any(|&a| open.edges(a).any(|e| ends(&e)))
        };
        parts.retain(has_anti);
        self.search(open, parts, &self.query(DEP, AntiCount::NonAdjacent, &[]))
    }

    /// Cycles with two adjacent anti-dependencies.
    fn adjacent(&self) -> Named {
        let graph = &self.cyclic.graph;
        let all = graph.cyclic_components(DEP | RW | self.orders());
        let parts = self.needing(all, |bound| graph.components(DEP | RW | order_labels(bound)));
        let mut found = self.search(graph, parts, &self.query(DEP, AntiCount::Adjacent, &[]));
        let anti = graph.all_edges().filter(|e| e.2 & RW != 0).map(|(a, b, _)| (a, b));
        if let Some(pair) = self.pair(anti, RW) {
            found.prefer(pair);
        }
        found
    }

    /// Two transactions of which one missed a write of the other, and depends on it (or is missed by it)
    /// through another key: read skew, write skew. Of the data alone.
    fn pair(&self, anti: impl Iterator<Item = (u32, u32)>, back: Labels) -> Option<Walk> {
        if self.bound != Bound::Data {
            return None;
        }
        let Cyclic { deps, nodes, graph } = self.cyclic;
        let txn = |i: u32| TxnId(nodes[i as usize]);
        let key = |a: u32, b: u32, label: Labels| {
            let edge = deps.edge(txn(a), txn(b), label)?;
            edge.evidence.operations().first().map(|&op| deps.view.history.op(op).key)
        };
        let mut pairs = anti.filter(|&(a, b)| graph.labels(b, a) & back != 0).take(PAIRS);
        let (a, b) = pairs.find(|&(a, b)| match (key(a, b, RW), key(b, a, back)) {
            (Some(one), Some(other)) => one != other,
            _ => false,
        })?;
        Some(Walk { nodes: vec![a, b], labels: vec![RW, back] })
    }

    /// Cycles with an anti-dependency of a read by predicate among the others.
    fn predicate(&self, count: AntiCount) -> Named {
        let graph = &self.cyclic.graph;
        let all = graph.cyclic_components(DEP | ANTI | self.orders());
        let parts = self.needing(all, |bound| graph.components(DEP | ANTI | order_labels(bound)));
        let query = CycleQuery { anti: ANTI, ..self.query(DEP, count, &[RWP]) };
        self.search(graph, parts, &query)
    }

    /// How many of the components contain a cycle of the make-up, and the shortest of all. Small ones
    /// first: if the effort runs out, it is in the last, largest ones.
    fn search(&self, graph: &Labelled, mut parts: Vec<Vec<u32>>, query: &CycleQuery) -> Named {
        parts.sort_by_key(Vec::len);
        let stop = || self.budget.is_spent();
        let mut effort = Effort::new(EFFORT, &stop);
        let mut named = Named::NONE;
        for part in parts {
            if effort.is_spent() {
                // Every component has its turn, but a short one.
                effort = Effort::new(EFFORT / 100, &stop);
            }
            if self.budget.is_spent() {
                break;
            }
            let found = search_component(&graph.induced(&part), query, &mut effort);
            let Found::Cycle(walk) = found else { continue };
            named.count += 1;
            let nodes: Vec<u32> = walk.nodes.iter().map(|&i| part[i as usize]).collect();
            named.places.extend(nodes.iter().min());
            let next = |i: usize| nodes[(i + 1) % nodes.len()];
            // Having seen a write says more than having overwritten one.
            let seen = |i: usize| query.count != AntiCount::None && graph.labels(nodes[i], next(i)) & WR != 0;
            let reported = |(i, &label): (usize, &Labels)| if label == WW && seen(i) { WR } else { label };
            let labels = walk.labels.iter().enumerate().map(reported).collect();
            let mut walk = Walk { nodes, labels };
            match &mut named.shortest {
                Some(best) if query.length(best) > query.length(&walk) => std::mem::swap(best, &mut walk),
                Some(_) => {}
                None => {
                    named.shortest = Some(walk);
                    continue;
                }
            }
            if self.every {
                named.others.push(walk);
            }
        }
        named
    }
}

/// Begins (even) and commits (odd); see `shapes.rs`.
fn events(graph: &Labelled, seen: Labels) -> Csr {
    Csr::from_edges(2 * graph.len(), || {
        let edges = graph.all_edges().flat_map(move |(a, b, labels)| {
            let follows = (labels & seen != 0).then_some((2 * a + 1, 2 * b));
            let overwrites = (labels & RW != 0).then_some((2 * a, 2 * b + 1));
            follows.into_iter().chain(overwrites)
        });
        edges.chain((0..graph.len() as u32).map(|t| (2 * t, 2 * t + 1)))
    })
}
