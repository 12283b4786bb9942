//! Serializability and snapshot isolation of recordings that show the order of versions.
//!
//! Serializability: no cycle of dependencies (Adya 1999, PL-3). Snapshot isolation: a beginning and a
//! commit for every transaction. It begins after the commits that it depends on, and before the commits
//! of those who overwrite what it read; a cycle of these events is a cycle of dependencies without two
//! adjacent anti-dependencies (Cerone & Gotsman 2018), as in `crates/check/src/adya/shapes.rs`. Sessions
//! and real time are further edges. The order of appends that no read shows is open: any order serves
//! serializability (that of the graph), and for snapshot isolation one is chosen (`unseen.rs`).
//!
//! Cost: an edge or two for each fact, each as `Growing` says.

use crate::fact::{Fact, Node};
use crate::timeline::Timeline;
use crate::unseen::Unseen;
use crate::violation::{Because, Label, Why, links};
use crate::world::World;
use anomalist_graph::{Cycle, Growing};
use anomalist_history::KeyId;
use anomalist_level::Bound;

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
    pub(crate) unseen: Unseen,
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
            unseen: Unseen::default(),
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
                    self.graph.add(begin, commit, Label::Inside)?;
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
                self.add(from, to, Because::Overwritten(key))?;
            }
            Fact::Unseen { key, node } if self.snapshot => {
                let events = node.map(|node| self.events[node as usize]);
                self.unseen.note(&mut self.graph, key, events);
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

    /// Adds what is known; what was chosen gives way.
    fn add(&mut self, from: u32, to: u32, because: Because) -> Result<(), Cycle<Label>> {
        loop {
            let Err(cycle) = self.graph.add(from, to, Label::Known(because)) else { return Ok(()) };
            let chosen = cycle.iter().find_map(|&(_, label)| match label {
                Label::Chosen(key) => Some(key),
                _ => None,
            });
            match chosen {
                Some(key) => self.unseen.withdraw(&mut self.graph, key),
                None => return Err(cycle),
            }
        }
    }

    /// Chooses an order of the appends that no read shows, where a step has left that open.
    pub fn settle(&mut self, world: &World) {
        let events = |key: KeyId| -> Vec<[u32; 2]> {
            let unseen = world.keys.get(&key).map_or(&[][..], |state| &state.unplaced);
            let writers = unseen.iter().filter_map(|&v| world.versions[v as usize].node());
            writers.map(|node| self.events[node as usize]).collect()
        };
        self.unseen.settle(&mut self.graph, events);
    }

    /// `to` begins after `from` has committed.
    fn follow(&mut self, from: Node, to: Node, because: Because) -> Result<(), Cycle<Label>> {
        if from == to {
            return Ok(());
        }
        let begin = usize::from(self.is_gap[to as usize]);
        let (from, to) = (self.events[from as usize][1], self.events[to as usize][begin]);
        self.add(from, to, because)
    }

    /// True if the level is about real time, and some transaction has none.
    pub fn is_untimed(&self, world: &World) -> bool {
        self.bound == Bound::RealTime && world.untimed
    }
}
