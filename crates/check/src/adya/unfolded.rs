//! Levels about single operations of a transaction: monotonic view (PL-2L) and monotonic snapshot read
//! (PL-MSR).
//!
//! Adya unfolds a transaction into its reads and writes, in program order (thesis, 4.2.2 and 4.4). A
//! dependency on others enters at the read, or at the write that installs the version; an anti-dependency
//! leaves from the read; whatever depends on the transaction follows its commit. Over the operations of all
//! transactions and their commits that is one graph:
//!
//! - *G-monotonic*: an anti-dependency closed by dependencies that enter the reader at the read or before.
//!   (Folding the others changes nothing: a path that left the reader again would be a cycle of
//!   dependencies, G1c.)
//! - *G-MSR*: any cycle. Every operation has a snapshot of its own; it contains the commits that it depends
//!   on and not those that overwrote what it read, and later operations have later ones. Adya asks this of
//!   the order in which operations began and transactions committed; where it was not recorded, some order
//!   must do, and there is one iff there is no cycle. So here PL-MSR implies PL-2L.
//!
//! Where the order of versions is not known, what is certain refutes; else versions are put in the order of
//! a sort, and if that makes no cycle it proves the level. If it does the level is left open. O(operations
//! + edges), and for PL-2L the reachability of `anomalist_graph::labelled::reachable`.

use super::depend::{Dependencies, Event, RW, WW, readers_of, register_readers};
use anomalist_graph::labelled::reachable;
use anomalist_graph::{Components, Csr, Step, components, shortest_path};
use anomalist_history::{KeyId, OpId, OpKind, TxnId};
use anomalist_level::{Anomaly, AnomalyKind, Edge, Witness};

/// Nodes of a component from which a shortest cycle is sought.
const TRIED: usize = 32;

/// The graph of operations and commits: node `t` is a commit, node `n + i` operation `i`.
pub(crate) struct Unfolded<'a> {
    deps: &'a Dependencies<'a>,
    events: Vec<Event>,
    n: u32,
}

/// What is known about both levels.
pub(crate) struct Answers {
    /// A violation of PL-2L, or whether it holds for sure.
    pub monotonic_view: Result<bool, Anomaly>,
    /// The same of PL-MSR.
    pub snapshots: Result<bool, Anomaly>,
}

impl<'a> Unfolded<'a> {
    pub fn new(deps: &'a Dependencies<'a>) -> Unfolded<'a> {
        // Of several writes of a key the last one installs the version.
        let installing = |e: &Event| {
            let key = deps.view.history.op(e.op).key;
            let op = if e.label == WW { deps.view.write_of(e.to, key).unwrap_or(e.op) } else { e.op };
            Event { op, ..*e }
        };
        let events = deps.events.iter().map(installing).collect();
        Unfolded { deps, events, n: deps.view.txn_count() as u32 }
    }

    /// Decides both levels. `complete`: nothing but the order of versions is open.
    pub fn decide(mut self, complete: bool) -> Answers {
        let flow = components(&self.graph(false));
        if flow.cyclic_count() > 0 {
            // Already PL-2 does not hold, and the cycle has a name.
            return Answers { monotonic_view: Ok(false), snapshots: Ok(false) };
        }
        let found = components(&self.graph(true));
        let sorted = if found.cyclic_count() == 0 { found.topological() } else { flow.topological() };
        let broken = (found.cyclic_count() > 0).then(|| self.snapshots_go_back(&found)).flatten();
        let closed = self.closed(&found);
        let unseen = self.unseen(&closed);
        if !complete || (broken.is_some() && unseen.is_some()) {
            return Answers {
                monotonic_view: unseen.map_or(Ok(false), Err),
                snapshots: broken.map_or(Ok(false), Err),
            };
        }
        let Some(chosen) = self.in_order(&sorted) else {
            return Answers {
                monotonic_view: unseen.map_or(Ok(false), Err),
                snapshots: broken.map_or(Ok(false), Err),
            };
        };
        self.events.extend(chosen);
        let found = components(&self.graph(true));
        let snapshots = found.cyclic_count() == 0;
        let monotonic = snapshots
            || (components(&self.graph(false)).cyclic_count() == 0 && self.closed(&found).is_empty());
        Answers {
            monotonic_view: unseen.map_or(Ok(monotonic), Err),
            snapshots: broken.map_or(Ok(snapshots), Err),
        }
    }

    fn node(&self, op: OpId) -> u32 {
        self.n + op.0
    }

    fn is_anti(event: &Event) -> bool {
        event.label == RW
    }

    fn graph(&self, with_anti: bool) -> Csr {
        let history = self.deps.view.history;
        Csr::from_edges(self.n as usize + history.op_count(), || {
            let program = self.deps.view.committed().flat_map(move |t| {
                let range = history.op_range(t);
                let last = range.end;
                range
                    .map(move |i| (self.n + i as u32, if i + 1 < last { self.n + i as u32 + 1 } else { t.0 }))
            });
            let events = self.events.iter().filter(move |e| with_anti || !Self::is_anti(e));
            program.chain(events.map(move |e| match Self::is_anti(e) {
                true => (self.node(e.op), e.to.0),
                false => (e.from.0, self.node(e.op)),
            }))
        })
    }

    /// Anti-dependencies that dependencies close, given the components of the graph with all edges.
    fn closed(&self, all: &Components) -> Vec<Event> {
        let inside = |e: &&Event| Self::is_anti(e) && all.of(e.to.0) == all.of(self.node(e.op));
        let anti: Vec<Event> = self.events.iter().filter(inside).copied().collect();
        let pairs: Vec<(u32, u32)> = anti.iter().map(|e| (e.to.0, self.node(e.op))).collect();
        let closed = reachable(&self.graph(false), &pairs);
        anti.into_iter().zip(closed).filter(|(_, closed)| *closed).map(|(e, _)| e).collect()
    }

    /// G-monotonic with its shortest example.
    fn unseen(&self, closed: &[Event]) -> Option<Anomaly> {
        let paths = closed.iter().take(TRIED).filter_map(|&anti| {
            let mut cycle = self.path(anti.to.0, self.node(anti.op), &|_| true, false)?;
            cycle.push(anti);
            Some(cycle)
        });
        let shortest = paths.min_by_key(Vec::len)?;
        let witness = self.witness(&shortest)?;
        let places = closed.iter().map(|e| e.from).collect();
        Some(Anomaly::new(AnomalyKind::GMonotonic, closed.len() as u64, witness).seen_in(places))
    }

    /// G-MSR with an example from the smallest component.
    fn snapshots_go_back(&self, found: &Components) -> Option<Anomaly> {
        let nodes = || (0..self.n).filter(|&node| found.is_cyclic(node));
        let smallest = nodes().min_by_key(|&node| found.size(found.of(node)))?;
        let inside = |node: u32| found.of(node) == found.of(smallest);
        let starts = nodes().filter(|&node| inside(node)).take(TRIED);
        let cycles = starts.filter_map(|start| self.path(start, start, &inside, true));
        let shortest = cycles.min_by_key(Vec::len)?;
        let witness = self.witness(&shortest)?;
        Some(Anomaly::new(AnomalyKind::GMsr, found.cyclic_count() as u64, witness))
    }

    /// The dependencies on a shortest path.
    fn path(&self, from: u32, to: u32, inside: &dyn Fn(u32) -> bool, anti: bool) -> Option<Vec<Event>> {
        let history = self.deps.view.history;
        let mut by_origin: Vec<(u32, u32, Event)> = self
            .events
            .iter()
            .filter(|e| anti || !Self::is_anti(e))
            .map(|e| match Self::is_anti(e) {
                true => (self.node(e.op), e.to.0, *e),
                false => (e.from.0, self.node(e.op), *e),
            })
            .filter(|&(a, b, _)| inside(a) && inside(b))
            .collect();
        by_origin.sort_unstable_by_key(|&(a, b, _)| (a, b));
        let expand = |node: u32, offer: &mut dyn FnMut(Step<Option<Event>>)| {
            if let Some(i) = node.checked_sub(self.n) {
                let txn = history.txn_of(OpId(i));
                let next = if i as usize + 1 < history.op_range(txn).end { node + 1 } else { txn.0 };
                offer(Step { to: next, label: None, mergeable: true });
            }
            let first = by_origin.partition_point(|e| e.0 < node);
            for &(_, to, event) in by_origin[first..].iter().take_while(|e| e.0 == node) {
                offer(Step { to, label: Some(event), mergeable: false });
            }
        };
        let steps = shortest_path(from, to, expand, || false)?;
        Some(steps.into_iter().filter_map(|(_, step)| step.label).collect())
    }

    fn witness(&self, cycle: &[Event]) -> Option<Witness> {
        let edge = |e: &Event| self.deps.edge_at(e.from, e.to, e.label, Some(e.op));
        let edges: Option<Vec<Edge>> = cycle.iter().map(edge).collect();
        Some(crate::weak::witness::witness(self.deps.view, edges?))
    }

    /// What follows if versions whose order is open are in the order of a sort of the commits. `None` for
    /// keys that hold lists and other values.
    fn in_order(&self, sorted: &[u32]) -> Option<Vec<Event>> {
        let Dependencies { view, lists, .. } = self.deps;
        let mut place = vec![0u32; self.n as usize];
        for (i, &node) in (0..).zip(sorted).filter(|(_, node)| **node < self.n) {
            place[node as usize] = i;
        }
        let readers = register_readers(*view);
        let mut chosen = Vec::new();
        for key in view.history.keys() {
            let is_list = !lists.range(key).is_empty() || !lists.later(key).is_empty();
            let mut open: Vec<TxnId> = match is_list {
                true => lists.later(key).iter().map(|a| a.txn).collect(),
                false => view.index.writers(key).to_vec(),
            };
            if is_list && self.is_written(key) {
                return None;
            }
            open.sort_by_key(|t| place[t.index()]);
            open.dedup();
            for pair in open.windows(2) {
                let write = view.write_of(pair[1], key)?;
                chosen.push(Event { from: pair[0], to: pair[1], label: WW, op: write });
                if !is_list {
                    let missed = readers_of(&readers, key, pair[0]).iter().filter(|r| r.2 != pair[1]);
                    chosen.extend(missed.map(|r| Event { from: r.2, to: pair[1], label: RW, op: r.3 }));
                }
            }
        }
        Some(chosen)
    }

    /// True if a transaction wrote the key as a register.
    fn is_written(&self, key: KeyId) -> bool {
        let history = self.deps.view.history;
        let writes = |&t: &TxnId| history.ops(t).any(|(_, o)| o.key == key && o.kind == OpKind::Write);
        self.deps.view.index.writers(key).iter().any(writes)
    }
}
