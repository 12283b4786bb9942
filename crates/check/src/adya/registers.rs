//! What is known about the order of a register's versions, and why.
//!
//! A read shows one version and nothing of its history, so little is certain: the initial state is first.
//! More follows only from assumptions, which the caller makes (`assume.rs`). If the facts about a key
//! contradict each other, that is reported (`cyclic-versions`), and nothing more is concluded from this
//! key; the other keys stand. A key whose facts do not contradict each other has an order that agrees with
//! them, so they say all that the assumptions say about single keys.
//!
//! The facts join `CommittedView`, so that every engine respects them: a level that holds does so in an
//! order that agrees with the assumptions. What follows from transactions for versions and back, to a
//! fixpoint and beyond, is the strong engine's business (`strong/saturate.rs`): it depends on the level.

use super::assume::{Fact, Inference, Version, facts};
use crate::view::CommittedView;
use crate::view::VersionEdge;
use crate::weak::witness::witness;
use anomalist_graph::{Csr, Step, components, shortest_path};
use anomalist_history::{KeyId, TxnId};
use anomalist_level::{Anomaly, AnomalyKind, Edge, Evidence, Node, Relation, VersionReason};

/// Facts about versions of registers.
#[derive(Default)]
pub(crate) struct Registers {
    /// Sorted; the later version is never the initial one.
    facts: Vec<Fact>,
    /// The keys whose facts contradict each other.
    pub contradiction: Option<Anomaly>,
}

impl Registers {
    /// The facts under these assumptions, and the contradictions among them.
    pub fn new(view: CommittedView<'_>, assumed: &Inference) -> Registers {
        let mut registers = Registers::default();
        if *assumed == Inference::default() {
            return registers;
        }
        let facts = facts(view, assumed);
        let mut shortest: Option<Vec<Fact>> = None;
        let mut count = 0;
        for of_key in facts.chunk_by(|a, b| a.key == b.key) {
            match contradiction(of_key) {
                // What lists show every engine knows by itself.
                None => registers.facts.extend(of_key.iter().filter(|f| !is_shown(f))),
                Some(cycle) => {
                    count += 1;
                    if shortest.as_ref().is_none_or(|best| best.len() > cycle.len()) {
                        shortest = Some(cycle);
                    }
                }
            }
        }
        registers.contradiction = shortest.map(|cycle| {
            let edges = cycle.iter().map(|fact| edge(view, fact)).collect();
            Anomaly::new(AnomalyKind::CyclicVersions, count, witness(view, edges))
        });
        registers
    }

    /// The facts about a key.
    fn of(&self, key: KeyId) -> &[Fact] {
        let start = self.facts.partition_point(|f| f.key < key);
        let len = self.facts[start..].partition_point(|f| f.key == key);
        &self.facts[start..start + len]
    }

    /// Pairs of transactions that wrote a key in this order.
    pub fn pairs(&self) -> impl Iterator<Item = (KeyId, TxnId, TxnId)> + '_ {
        self.facts.iter().filter_map(|f| Some((f.key, f.from?, f.to?)))
    }

    /// The same, with the writes and the reasons.
    pub fn edges(&self, view: CommittedView<'_>) -> Vec<VersionEdge> {
        let edge = |f: &Fact| {
            let (from, to) = (f.from?, f.to?);
            let (first, second) = (view.write_of(from, f.key)?, view.write_of(to, f.key)?);
            Some(VersionEdge { from, to, first, second, reason: f.reason })
        };
        self.facts.iter().filter_map(edge).collect()
    }

    /// Why one version is before another, if that is known directly.
    pub fn reason(&self, key: KeyId, from: Version, to: TxnId) -> Option<VersionReason> {
        let found = self.facts.binary_search_by_key(&(key, from, Some(to)), |f| (f.key, f.from, f.to));
        let assumed = found.ok().map(|i| self.facts[i].reason);
        assumed.or_else(|| from.is_none().then_some(VersionReason::Initial))
    }

    /// True if the facts put all writers of a key in one order.
    pub fn is_total(&self, view: CommittedView<'_>, key: KeyId) -> bool {
        let (writers, facts) = (view.index.writers(key), self.of(key));
        if facts.len() + 1 < writers.len() {
            return writers.len() < 2;
        }
        let place = |t: TxnId| writers.binary_search(&t).ok().map(|i| i as u32);
        let known = || facts.iter().filter_map(|f| Some((place(f.from?)?, place(f.to?)?)));
        let graph = Csr::from_edges(writers.len(), known);
        let order = components(&graph).topological();
        order.windows(2).all(|w| graph.successors(w[0]).contains(&w[1]))
    }
}

/// The shortest cycle of a key's facts; that the initial version is first is one of them.
fn contradiction(facts: &[Fact]) -> Option<Vec<Fact>> {
    let mut versions: Vec<Version> = facts.iter().flat_map(|f| [f.from, f.to]).chain([None]).collect();
    versions.sort_unstable();
    versions.dedup();
    let place = |v: Version| versions.binary_search(&v).unwrap_or(0) as u32;
    let initial = versions.iter().filter(|v| v.is_some()).map(|&to| Fact {
        key: facts[0].key,
        from: None,
        to,
        reason: VersionReason::Initial,
    });
    let mut all: Vec<Fact> = facts.iter().copied().chain(initial).collect();
    all.sort_by_key(|f| f.from);
    let graph = Csr::from_edges(versions.len(), || all.iter().map(|f| (place(f.from), place(f.to))));
    let found = components(&graph);
    if found.cyclic_count() == 0 {
        return None;
    }
    let starts = (0..versions.len() as u32).filter(|&v| found.is_cyclic(v)).take(64);
    let expand = |node: u32, offer: &mut dyn FnMut(Step<Fact>)| {
        let first = all.partition_point(|f| place(f.from) < node);
        for f in all[first..].iter().take_while(|f| place(f.from) == node) {
            offer(Step { to: place(f.to), label: *f, mergeable: false });
        }
    };
    let cycles = starts.filter_map(|v| shortest_path(v, v, expand, || false));
    cycles.min_by_key(Vec::len).map(|steps| steps.into_iter().map(|(_, step)| step.label).collect())
}

fn is_shown(fact: &Fact) -> bool {
    matches!(fact.reason, VersionReason::Shown { .. })
}

fn edge(view: CommittedView<'_>, fact: &Fact) -> Edge {
    let node = |v: Version| v.map_or(Node::Initial, Node::Txn);
    let write = |v: Version| v.and_then(|t| view.write_of(t, fact.key));
    let evidence = match (write(fact.from), write(fact.to), fact.reason) {
        (Some(first), Some(second), VersionReason::Shown { read }) => Evidence::Given {
            reason: "a list shows this order".into(),
            operations: vec![first, second, read],
        },
        (Some(first), Some(second), reason) => Evidence::Ordered { first, second, reason },
        // A later operation met the initial version.
        (
            Some(write),
            None,
            reason @ (VersionReason::Session { after, .. } | VersionReason::RealTime { after, .. }),
        ) => Evidence::Overwritten { read: after, seen: None, write, reason },
        (first, second, reason) => Evidence::Given {
            reason: match reason {
                VersionReason::Numbered => "the version numbers say so".into(),
                _ => "the initial state comes first".into(),
            },
            operations: first.into_iter().chain(second).collect(),
        },
    };
    Edge { from: node(fact.from), to: node(fact.to), relation: Relation::VersionOrder, evidence }
}
