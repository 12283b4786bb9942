//! Serializability and snapshot isolation of recordings that show the order of versions.
//!
//! Serializability: no cycle of dependencies (Adya 1999, PL-3). Snapshot isolation: a beginning and a
//! commit for every transaction. It begins after the commits that it depends on, and before the commits
//! of those who overwrite what it read; a cycle of these events is a cycle of dependencies without two
//! adjacent anti-dependencies (Cerone & Gotsman 2018), as in `crates/check/src/adya/shapes.rs`. Sessions
//! and real time are further edges. The order of appends that no read shows is open: any order serves
//! serializability (that of the graph's), and for snapshot isolation the graph's is tried, which is
//! cheap; if it does not do, the level is unknown.
//!
//! Cost: a facts' edges, each as `Growing` says.

use crate::fact::{Fact, Node};
use crate::timeline::Timeline;
use crate::violation::{Because, Label, Why, links};
use crate::world::World;
use anomalist_graph::{Cycle, Growing};
use anomalist_history::KeyId;

/// Appends that no read shows and whose order is tried at most.
const UNSEEN: usize = 1000;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Bound {
    Data,
    Session,
    RealTime,
}

/// The graph of a level.
#[derive(Debug)]
pub(crate) struct Dependencies {
    /// Transactions have a beginning and a commit.
    snapshot: bool,
    bound: Bound,
    graph: Growing<Label>,
    /// By node: beginning and commit. Of a gap: before overwriters, and before later versions.
    events: Vec<[u32; 2]>,
    is_gap: Vec<bool>,
    /// By event, the node; none for the ends of real time.
    nodes: Vec<Option<Node>>,
    timeline: Timeline,
    /// A register's writers are in no known order.
    pub open: Option<KeyId>,
}

impl Dependencies {
    pub fn new(snapshot: bool, bound: Bound) -> Dependencies {
        Dependencies {
            snapshot,
            bound,
            graph: Growing::default(),
            events: Vec::new(),
            is_gap: Vec::new(),
            nodes: Vec::new(),
            timeline: Timeline::default(),
            open: None,
        }
    }

    pub fn apply(&mut self, fact: Fact, world: &World) -> Result<(), Why> {
        if let Fact::LostUpdate { nodes, key } = fact {
            let step = |node: Node| world.txns[node as usize].step.unwrap_or_default();
            return Err(Why::LostUpdate { writers: nodes.map(step), key });
        }
        self.extend(fact).map_err(|cycle| {
            let node = |event: u32| self.nodes.get(event as usize).copied().flatten();
            Why::Cycle(links(&cycle, |event| world.txns[node(event)? as usize].step))
        })
    }

    fn extend(&mut self, fact: Fact) -> Result<(), Cycle<Label>> {
        match fact {
            Fact::Counts { node, interval, ends } => {
                let [begin, commit] = self.add_node(node, false);
                if begin != commit {
                    self.graph.add(begin, commit, None)?;
                }
                if self.bound < Bound::RealTime {
                    return Ok(());
                }
                let Some(interval) = interval else { return Ok(()) };
                self.timeline.begin(&mut self.graph, interval.invoked, begin)?;
                if let Some(at) = interval.completed.filter(|_| ends) {
                    let ended = self.timeline.end(&mut self.graph, at, commit);
                    self.nodes.push(None);
                    ended?;
                }
            }
            Fact::Gap { node } => {
                self.add_node(node, true);
            }
            Fact::Session { from, to } if self.bound >= Bound::Session => {
                self.follow(from, to, Because::Session)?;
            }
            Fact::Read { from, to, key } => self.follow(from, to, Because::Read(key))?,
            Fact::Version { from, to, key, .. } => self.follow(from, to, Because::Version(key))?,
            Fact::Overwritten { from, to, key } if from != to => {
                let end = usize::from(!self.is_gap[to as usize]);
                let (from, to) = (self.events[from as usize][0], self.events[to as usize][end]);
                self.graph.add(from, to, Some(Because::Overwritten(key)))?;
            }
            Fact::Open { key } => self.open = self.open.or(Some(key)),
            _ => {}
        }
        Ok(())
    }

    fn add_node(&mut self, node: Node, is_gap: bool) -> [u32; 2] {
        let first = self.graph.add_node();
        self.nodes.push(Some(node));
        let mut events = [first; 2];
        if self.snapshot {
            events[1] = self.graph.add_node();
            self.nodes.push(Some(node));
        }
        self.events.push(events);
        self.is_gap.push(is_gap);
        events
    }

    /// `to` begins after `from` has committed.
    fn follow(&mut self, from: Node, to: Node, because: Because) -> Result<(), Cycle<Label>> {
        if from == to {
            return Ok(());
        }
        let begin = usize::from(self.is_gap[to as usize]);
        let (from, to) = (self.events[from as usize][1], self.events[to as usize][begin]);
        self.graph.add(from, to, Some(because))
    }

    /// True if the level is about real time, and some transaction has none.
    pub fn is_untimed(&self, world: &World) -> bool {
        self.bound == Bound::RealTime && world.untimed
    }

    /// True if the appends that no read shows can be taken in the order of the graph.
    pub fn is_complete(&self, world: &World) -> bool {
        if !self.snapshot {
            return true;
        }
        let keys = || world.crowded.iter().filter_map(|key| world.keys.get(key));
        if keys().map(|key| key.unplaced.len()).sum::<usize>() > UNSEEN {
            return false;
        }
        keys().all(|key| {
            let writers = key.unplaced.iter().filter_map(|&v| world.versions[v as usize].node());
            let mut events: Vec<[u32; 2]> = writers.map(|node| self.events[node as usize]).collect();
            events.sort_by(|a, b| self.graph.place(a[1]).cmp(&self.graph.place(b[1])));
            events.dedup();
            events.windows(2).all(|pair| self.graph.is_before(pair[0][1], pair[1][0]))
        })
    }
}
