//! A cycle for a level whose graph has one, where no named kind shows it already; and the cycles of update
//! serializability.

use super::cycles::Cyclic;
use super::depend::{ANTI, RT, RWP, SO, WR, WW};
use super::shapes::{Shape, order_labels};
use crate::Budget;
use anomalist_graph::labelled::{Labelled, Labels, Walk, reachable};
use anomalist_graph::{Components, Csr, Step, components, shortest_path};
use anomalist_history::{OpKind, TxnId};
use anomalist_level::AnomalyKind as A;
use anomalist_level::{AnomalyKind, Bound};

/// Nodes of a component from which a shortest cycle is sought.
const TRIED: usize = 32;

impl Cyclic<'_> {
    /// A short cycle of a level's graph, and its kind; `None` also if no kind is that of the cycle.
    pub fn example(&self, shape: Shape, bound: Bound, budget: &Budget<'_>) -> Option<(AnomalyKind, Walk)> {
        let orders = order_labels(bound);
        let (seen, installed, anti) = match shape {
            Shape::Transactions(labels) => (labels & !ANTI | orders, 0, labels & ANTI),
            Shape::Updates => return None,
            Shape::Events { seen, installed } => (seen | orders, installed, ANTI),
        };
        let split = matches!(shape, Shape::Events { .. });
        let steps = Steps { graph: &self.graph, seen, installed, anti, split };
        let walk = steps.shortest(budget)?;
        let timed = walk.labels.iter().any(|&labels| labels & RT != 0);
        let kind = match shape == Shape::PREFIX {
            // Prefix consistency does not know real time.
            true if timed => return None,
            true => A::PrefixCycle,
            false => name(&walk.labels),
        };
        Some((kind, self.outside(&walk)))
    }

    /// A cycle of transactions that write, joined by at most one that only reads.
    pub fn update_cycle(&self, budget: &Budget<'_>) -> Option<Walk> {
        let data = WW | WR | ANTI;
        let history = self.deps.view.history;
        let writes = |i: u32| {
            let t = TxnId(self.nodes[i as usize]);
            history.ops(t).any(|(_, o)| o.kind != OpKind::Read)
        };
        let updates: Vec<bool> = (0..self.graph.len() as u32).map(writes).collect();
        let among = |with: Option<u32>| {
            let inside = |i: u32| updates[i as usize] || with == Some(i);
            let kept = self.graph.all_edges().filter(|&(a, b, l)| l & data != 0 && inside(a) && inside(b));
            Labelled::from_edges(self.graph.len(), kept.collect())
        };
        let cycle = |graph: &Labelled| {
            let steps = Steps { graph, seen: WW | WR, installed: 0, anti: ANTI, split: false };
            steps.shortest(budget).map(|walk| self.outside(&walk))
        };
        let only_updates = among(None);
        if let Some(walk) = cycle(&only_updates) {
            return Some(walk);
        }
        // A reader closes a cycle if a transaction that overwrote what it read leads to one that it read
        // from.
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        let mut readers: Vec<u32> = Vec::new();
        let mut sources: Vec<Vec<u32>> = vec![Vec::new(); self.graph.len()];
        for (a, b, labels) in self.graph.all_edges() {
            if labels & WR != 0 && !updates[b as usize] {
                sources[b as usize].push(a);
            }
        }
        for reader in (0..self.graph.len() as u32).filter(|&i| !updates[i as usize]) {
            for (next, labels) in self.graph.edges(reader) {
                for &from in sources[reader as usize].iter().filter(|_| labels & ANTI != 0) {
                    pairs.push((next, from));
                    readers.push(reader);
                }
            }
        }
        let closed = reachable(&only_updates.project(data), &pairs);
        let reader = readers.iter().zip(closed).find(|(_, closed)| *closed).map(|(&reader, _)| reader)?;
        cycle(&among(Some(reader)))
    }
}

/// The kind of a cycle, by its labels.
fn name(labels: &[Labels]) -> AnomalyKind {
    let anti = |i: usize| labels[i % labels.len()] & ANTI != 0;
    let count = (0..labels.len()).filter(|&i| anti(i)).count();
    let adjacent = (0..labels.len()).any(|i| anti(i) && anti(i + 1));
    let make_up = match count {
        0 if labels.contains(&WR) => 1,
        0 => 0,
        1 => 2,
        _ if adjacent => 4,
        _ => 3,
    };
    let bound = match () {
        () if labels.contains(&RT) => Bound::RealTime,
        () if labels.contains(&SO) => Bound::Session,
        () => Bound::Data,
    };
    if make_up >= 2 && labels.contains(&RWP) {
        return super::cycles::PREDICATE_KINDS[bound as usize][make_up - 2];
    }
    super::cycles::KINDS[bound as usize][make_up]
}

/// Which steps a cycle may take. If `split`, a transaction is two nodes, its begin (even) and its commit
/// (odd): `seen` leads from commit to begin, `installed` from commit to commit, `anti` from begin to
/// commit. Else it is one node.
struct Steps<'a> {
    graph: &'a Labelled,
    seen: Labels,
    installed: Labels,
    anti: Labels,
    split: bool,
}

impl Steps<'_> {
    fn len(&self) -> u32 {
        self.graph.len() as u32 * if self.split { 2 } else { 1 }
    }

    /// Calls `f` with every step from a node and the label it takes; 0 from a begin to its commit.
    fn each(&self, node: u32, mut f: impl FnMut(u32, Labels)) {
        let lowest = |set: Labels| set & set.wrapping_neg();
        if !self.split {
            for (to, labels) in self.graph.edges(node) {
                match (labels & self.seen, labels & self.anti) {
                    (0, 0) => {}
                    (0, anti) => f(to, lowest(anti)),
                    (seen, _) => f(to, lowest(seen)),
                }
            }
            return;
        }
        let at_commit = node % 2 == 1;
        if !at_commit {
            f(node + 1, 0);
        }
        for (to, labels) in self.graph.edges(node / 2) {
            if at_commit && labels & self.seen != 0 {
                f(2 * to, lowest(labels & self.seen));
            }
            if at_commit && labels & self.installed != 0 {
                f(2 * to + 1, lowest(labels & self.installed));
            }
            if !at_commit && labels & self.anti != 0 {
                f(2 * to + 1, lowest(labels & self.anti));
            }
        }
    }

    fn components(&self) -> Components {
        let mut edges: Vec<(u32, u32)> = Vec::new();
        for node in 0..self.len() {
            self.each(node, |to, _| edges.push((node, to)));
        }
        components(&Csr::from_edges(self.len() as usize, || edges.iter().copied()))
    }

    /// A shortest cycle through one of a few nodes of the smallest component.
    fn shortest(&self, budget: &Budget<'_>) -> Option<Walk> {
        let found = self.components();
        let cyclic = (0..self.len()).filter(|&node| found.is_cyclic(node));
        let smallest = cyclic.min_by_key(|&node| found.size(found.of(node)))?;
        let members = (0..self.len()).filter(|&node| found.of(node) == found.of(smallest));
        let cycles = members.take(TRIED).filter_map(|start| {
            let expand = |node: u32, offer: &mut dyn FnMut(Step<Labels>)| {
                self.each(node, |to, label| {
                    if found.of(to) == found.of(start) {
                        offer(Step { to, label, mergeable: label == 0 });
                    }
                });
            };
            let path = shortest_path(start, start, expand, || budget.is_spent())?;
            Some(self.walk(path.iter().map(|(from, step)| (*from, step.label))))
        });
        cycles.min_by_key(|walk| walk.nodes.len())
    }

    fn walk(&self, steps: impl Iterator<Item = (u32, Labels)>) -> Walk {
        let txn = |node: u32| if self.split { node / 2 } else { node };
        let (nodes, labels) = steps.filter(|s| s.1 != 0).map(|(node, label)| (txn(node), label)).unzip();
        Walk { nodes, labels }
    }
}
