//! Read committed, read atomic and causal consistency (Biswas & Enea 2019; `crates/check/src/weak/mod.rs`).
//!
//! A level holds iff some commit order contains session order, who read from whom and the orders that
//! lists show, and, whenever `t3` reads `x` from `t1` and could see another writer `t2` of `x`, puts `t2`
//! before `t1`. Could see: read from it before (read committed), read from it or follows it in its
//! session (read atomic), follows it by any path of these two (causal). These constraints are derived when a
//! transaction arrives, and again when more is known about its reads. The level is violated once they
//! close a cycle.
//!
//! Causality has a clock for each transaction with an entry per session. Of each session only the latest
//! writer that was seen makes a constraint: earlier ones follow. A writer that arrives after its readers
//! changes the clocks of those that follow them, as far as they have arrived.
//!
//! Cost of a step: its reads times the keys that their writers write, and for causal its reads times the
//! sessions that write their keys. Memory: a clock per transaction, which shares with others what they have
//! in common (`anomalist_graph::Sparse`).

use crate::fact::{Fact, Node};
use crate::violation::{Because, Label, Why, links};
use crate::world::{Read, World};
use anomalist_graph::{Cycle, Growing, Sparse};
use anomalist_history::KeyId;
use rustc_hash::FxHashMap;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sight {
    ReadCommitted,
    ReadAtomic,
    Causal,
}

/// The commit order of a weak level.
#[derive(Debug)]
pub(crate) struct Weak {
    sight: Sight,
    graph: Growing<Label>,
    causes: Causes,
    /// Transactions whose constraints are to be derived.
    dirty: Vec<Node>,
}

/// A writer that must come before another, because a read returned the other's version of a key; or before
/// the initial state, which is impossible.
struct Constraint {
    first: Node,
    then: Option<Node>,
    key: KeyId,
}

impl Weak {
    pub fn new(sight: Sight) -> Weak {
        Weak { sight, graph: Growing::default(), causes: Causes::default(), dirty: Vec::new() }
    }

    pub fn apply(&mut self, fact: Fact, world: &World) -> Result<(), Why> {
        let causal = self.sight == Sight::Causal;
        match fact {
            Fact::Counts { node, .. } => {
                self.graph.add_node();
                if causal {
                    self.causes.add(node, world);
                }
            }
            Fact::Gap { .. } => {
                self.graph.add_node();
                self.causes.skip();
            }
            Fact::Session { from, to } => self.cause(from, to, Because::Session, world)?,
            Fact::Read { from, to, key } => self.cause(from, to, Because::Read(key), world)?,
            Fact::Version { from, to, key, shown: true } if from != to => {
                self.edge(from, to, Because::Version(key), world)?;
            }
            Fact::Resolved { node } => self.dirty.push(node),
            _ => {}
        }
        Ok(())
    }

    fn cause(&mut self, from: Node, to: Node, because: Because, world: &World) -> Result<(), Why> {
        self.edge(from, to, because, world)?;
        if self.sight == Sight::Causal {
            self.causes.link(from, to, &mut self.dirty);
        }
        Ok(())
    }

    fn edge(&mut self, from: Node, to: Node, because: Because, world: &World) -> Result<(), Why> {
        let added = self.graph.add(from, to, Label::Known(because));
        let explain = |cycle: Cycle<Label>| Why::Cycle(links(&cycle, |node| world.txns[node as usize].step));
        added.map_err(explain)
    }

    /// Derives what a step has left to derive.
    pub fn settle(&mut self, world: &World) -> Result<(), Why> {
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.sort_unstable();
        dirty.dedup();
        let mut constraints = Vec::new();
        for reader in dirty {
            constraints.clear();
            match self.sight {
                Sight::ReadCommitted | Sight::ReadAtomic => {
                    self.direct_constraints(reader, world, &mut constraints)
                }
                Sight::Causal => self.causes.constraints(reader, world, &mut constraints),
            }
            for &Constraint { first, then, key } in &constraints {
                let Some(then) = then else {
                    let step = |node: Node| world.txns[node as usize].step.unwrap_or_default();
                    return Err(Why::Overlooked { reader: step(reader), writer: step(first), key });
                };
                self.edge(first, then, Because::Overlooked(key), world)?;
            }
        }
        Ok(())
    }

    /// The constraints of read committed and read atomic.
    fn direct_constraints(&self, reader: Node, world: &World, constraints: &mut Vec<Constraint>) {
        let reads = &world.txns[reader as usize].reads;
        let known = |read: &Read| world.source(read);
        let mut by_key: Vec<(KeyId, usize)> = reads.iter().enumerate().map(|(i, r)| (r.key, i)).collect();
        by_key.sort_unstable();
        let mut done: Vec<Node> = Vec::new();
        let atomic = self.sight == Sight::ReadAtomic;
        for (i, read) in reads.iter().enumerate() {
            if let (Some(own), Some(from)) = (read.own.filter(|_| atomic), known(read))
                && from != Some(own)
            {
                constraints.push(Constraint { first: own, then: from, key: read.key });
            }
            let Some(Some(writer)) = known(read) else { continue };
            if done.contains(&writer) {
                continue;
            }
            done.push(writer);
            for &key in &world.txns[writer as usize].writes {
                let start = by_key.partition_point(|&(k, _)| k < key);
                for &(_, j) in by_key[start..].iter().take_while(|&&(k, _)| k == key) {
                    if let Some(from) = known(&reads[j])
                        && from != Some(writer)
                        && (atomic || j > i)
                    {
                        constraints.push(Constraint { first: writer, then: from, key });
                    }
                }
            }
        }
    }
}

/// The writers of a key in one chain, each with its place.
type ChainWriters = (u32, Vec<(u32, Node)>);

/// Causality: who follows whom by session and reads.
#[derive(Debug, Default)]
struct Causes {
    /// By node: of each chain, how many of its first transactions it follows, itself included.
    clocks: Vec<Sparse>,
    after: Vec<Vec<Node>>,
    /// By node, its chain and place there.
    places: Vec<(u32, u32)>,
    chain_of: FxHashMap<u32, u32>,
    lengths: Vec<u32>,
    /// Per key and chain, ascending, the writers by place.
    writers: FxHashMap<KeyId, Vec<ChainWriters>>,
}

impl Causes {
    /// A gap causes nothing.
    fn skip(&mut self) {
        self.clocks.push(Sparse::default());
        self.after.push(Vec::new());
        self.places.push((u32::MAX, 0));
    }

    fn add(&mut self, node: Node, world: &World) {
        let txn = &world.txns[node as usize];
        let fresh = self.lengths.len() as u32;
        // Nothing follows a transaction of unknown outcome in its session, so it is a chain of its own.
        let chain = txn.session.map_or(fresh, |session| *self.chain_of.entry(session).or_insert(fresh));
        if chain == fresh {
            self.lengths.push(0);
        }
        let place = self.lengths[chain as usize];
        self.lengths[chain as usize] += 1;
        let mut clock = Sparse::default();
        clock.raise(chain, place + 1);
        self.clocks.push(clock);
        self.after.push(Vec::new());
        self.places.push((chain, place));
        for &key in &txn.writes {
            let chains = self.writers.entry(key).or_default();
            let at = chains.binary_search_by_key(&chain, |c| c.0).unwrap_or_else(|at| {
                chains.insert(at, (chain, Vec::new()));
                at
            });
            chains[at].1.push((place, node));
        }
    }

    /// `to` follows `from`. Transactions whose clock changes are noted.
    fn link(&mut self, from: Node, to: Node, changed: &mut Vec<Node>) {
        self.after[from as usize].push(to);
        let mut work = vec![(from, to)];
        while let Some((from, to)) = work.pop() {
            if self.join(from, to) {
                changed.push(to);
                work.extend(self.after[to as usize].iter().map(|&next| (to, next)));
            }
        }
    }

    fn join(&mut self, from: Node, to: Node) -> bool {
        let both = self.clocks.get_disjoint_mut([from as usize, to as usize]);
        both.is_ok_and(|[past, clock]| clock.join(past))
    }

    fn follows(&self, later: Node, earlier: Node) -> bool {
        let (chain, place) = self.places[earlier as usize];
        self.clocks[later as usize].get(chain) > place
    }

    fn constraints(&self, reader: Node, world: &World, constraints: &mut Vec<Constraint>) {
        let clock = &self.clocks[reader as usize];
        for read in &world.txns[reader as usize].reads {
            let Some(from) = world.source(read) else { continue };
            for (chain, writers) in self.writers.get(&read.key).into_iter().flatten() {
                let seen = clock.get(*chain);
                let count = writers.partition_point(|&(place, _)| place < seen);
                let latest = writers[..count].iter().rev().map(|w| w.1).find(|&w| w != reader);
                if let Some(first) = latest
                    && from != Some(first)
                    && !from.is_some_and(|then| self.follows(then, first))
                {
                    constraints.push(Constraint { first, then: from, key: read.key });
                }
            }
        }
    }
}
