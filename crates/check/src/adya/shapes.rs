//! The graph that a level keeps free of cycles, and its topological order, which is the proof that it has
//! none.
//!
//! Two shapes do for all levels (Adya 1999; Cerone & Gotsman 2018; `docs/spec/algorithms.md` 3.2). Over
//! transactions: a level forbids every cycle of some relations. Over *events*, two per transaction, its
//! beginning and its commit: snapshots. There a transaction begins after the commits it depends on, and
//! before the commits of the transactions that overwrite what it read; a cycle of events is a cycle of
//! dependencies without two adjacent anti-dependencies. O(transactions + edges).

use super::depend::{ANTI, Dependencies, RT, RW, SO, WR, WW};
use super::orders::{Clock, session_pairs};
use anomalist_graph::labelled::Labels;
use anomalist_graph::{Components, Csr, components};
use anomalist_history::TxnId;
use anomalist_level::{Bound, Execution, Point};

/// Which relations, and over what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// Transactions, with these relations.
    Transactions(Labels),
    /// Transactions with all relations, but readers that write nothing precede no transaction.
    Updates,
    /// Begins and commits: a commit precedes the begin of any transaction that follows by `seen`, and the
    /// commit of any transaction that follows by `installed`.
    Events { seen: Labels, installed: Labels },
}

impl Shape {
    /// PL-1: no cycle of writes.
    pub const WRITES: Shape = Shape::Transactions(WW);
    /// PL-2: no cycle of writes and reads.
    pub const FLOW: Shape = Shape::Transactions(WW | WR);
    /// PL-3U: the transactions that write are serial, and readers follow what they read.
    pub const UPDATES: Shape = Shape::Updates;
    /// PL-3.
    pub const SERIAL: Shape = Shape::Transactions(WW | WR | ANTI);
    /// PL-2.99: predicates may be overtaken.
    pub const ITEMS: Shape = Shape::Transactions(WW | WR | RW);
    /// Snapshot isolation: of two writers of a key the later begins after the earlier has committed.
    pub const SNAPSHOT: Shape = Shape::Events { seen: WW | WR, installed: 0 };
    /// Prefix consistency: writers of a key may overlap.
    pub const PREFIX: Shape = Shape::Events { seen: WR, installed: WW };
}

/// Builds the graphs of a history.
pub(crate) struct Shapes<'a> {
    pub deps: &'a Dependencies<'a>,
    pub clock: Option<&'a Clock>,
    /// Further pairs of transactions in version order.
    pub chosen: Vec<(u32, u32)>,
}

/// The nodes of an acyclic graph in order, or its components.
pub(crate) type Sorted = Result<Vec<u32>, Components>;

impl Shapes<'_> {
    /// Sorts a graph.
    pub fn sort(&self, shape: Shape, bound: Bound) -> Sorted {
        let graph = self.graph(shape, bound);
        let found = components(&graph);
        drop(graph);
        if found.cyclic_count() == 0 { Ok(found.topological()) } else { Err(found) }
    }

    /// The committed transactions of a sorted graph, in order; of events, by commit.
    pub fn commit_order(&self, shape: Shape, sorted: &[u32]) -> Vec<TxnId> {
        let n = self.deps.graph.len() as u32;
        let txn = |node: u32| match shape {
            Shape::Transactions(_) | Shape::Updates => (node < n).then_some(TxnId(node)),
            Shape::Events { .. } => (node < 2 * n && node % 2 == 1).then_some(TxnId(node / 2)),
        };
        let committed = |t: &TxnId| self.deps.view.index.is_committed(*t);
        sorted.iter().filter_map(|&node| txn(node)).filter(committed).collect()
    }

    /// A sorted graph as the execution that it stands for.
    pub fn execution(&self, shape: Shape, sorted: &[u32]) -> Execution {
        let n = self.deps.graph.len() as u32;
        let counts = |point: &Point| self.deps.view.index.is_committed(point.txn());
        match shape {
            Shape::Transactions(_) | Shape::Updates => Execution::commits(self.commit_order(shape, sorted)),
            Shape::Events { .. } => {
                let events = sorted.iter().filter(|&&node| node < 2 * n).map(|&node| match node % 2 {
                    0 => Point::Begin(TxnId(node / 2)),
                    _ => Point::Commit(TxnId(node / 2)),
                });
                Execution::events(events.filter(counts).collect())
            }
        }
    }

    fn graph(&self, shape: Shape, bound: Bound) -> Csr {
        let n = self.deps.graph.len() as u32;
        let clock = self.clock.filter(|_| bound == Bound::RealTime);
        let time = clock.map_or(0, Clock::len);
        let orders = order_labels(bound);
        match shape {
            Shape::Transactions(labels) => {
                let wanted = labels | orders;
                Csr::from_edges(n as usize + time, || {
                    let data = self.deps.graph.all_edges().filter(move |e| e.2 & wanted != 0);
                    let chosen = self.chosen.iter().copied();
                    data.map(|(a, b, _)| (a, b))
                        .chain(chosen)
                        .chain(self.sessions(bound).map(|(a, b)| (a.0, b.0)))
                        .chain(clock.into_iter().flat_map(move |c| c.edges(n, |t| t.0, |t| t.0)))
                })
            }
            Shape::Updates => {
                let history = self.deps.view.history;
                let writes = |t: u32| history.op_range(TxnId(t)).any(|i| !history.heads()[i].is_read());
                let updates: Vec<bool> = (0..n).map(writes).collect();
                Csr::from_edges(n as usize, || {
                    let binds = |a: u32, labels: Labels| updates[a as usize] || labels & (WW | WR) != 0;
                    let edges = self.deps.graph.all_edges().filter(move |e| binds(e.0, e.2));
                    edges.map(|(a, b, _)| (a, b))
                })
            }
            Shape::Events { seen, installed } => {
                let seen = seen | orders;
                let chosen_is_seen = seen & WW != 0;
                Csr::from_edges(2 * n as usize + time, || {
                    let data = self.deps.graph.all_edges().flat_map(move |(a, b, labels)| {
                        let follows = (labels & seen != 0).then_some((commit(a), begin(b)));
                        let installs = (labels & installed != 0).then_some((commit(a), commit(b)));
                        let overwrites = (labels & ANTI != 0).then_some((begin(a), commit(b)));
                        follows.into_iter().chain(installs).chain(overwrites)
                    });
                    let chosen = self
                        .chosen
                        .iter()
                        .map(move |&(a, b)| (commit(a), if chosen_is_seen { begin(b) } else { commit(b) }));
                    data.chain(chosen)
                        .chain((0..n).map(|t| (begin(t), commit(t))))
                        .chain(self.sessions(bound).map(|(a, b)| (commit(a.0), begin(b.0))))
                        .chain(
                            clock
                                .into_iter()
                                .flat_map(move |c| c.edges(2 * n, |t| commit(t.0), |t| begin(t.0))),
                        )
                })
            }
        }
    }

    fn sessions(&self, bound: Bound) -> impl Iterator<Item = (TxnId, TxnId)> {
        let view = self.deps.view;
        (bound >= Bound::Session).then(|| session_pairs(view)).into_iter().flatten()
    }
}

fn begin(t: u32) -> u32 {
    2 * t
}

fn commit(t: u32) -> u32 {
    2 * t + 1
}

/// The labels of the orders that bind.
pub(crate) fn order_labels(bound: Bound) -> Labels {
    match bound {
        Bound::Data => 0,
        Bound::Session => SO,
        Bound::RealTime => SO | RT,
    }
}
