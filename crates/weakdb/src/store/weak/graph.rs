//! The order that every commit order must extend: sessions, reads-from and demands, with clocks.
//!
//! Only writers are in it. Sessions are chains, *lanes* here, so the writers of a lane that come before a
//! writer are its first ones, and one number per lane says who comes before whom: `before(a, b)` costs
//! O(1). Nothing but that is asked of a lane, so where everything that happened before counts (causal), a
//! session may carry on the lane of another one that is over, if its first writer happened after all of it:
//! a client that connects for each transaction and reads what the one before wrote stays in one lane. A
//! demand between two old writers is carried on to every writer that comes after the second and did not
//! come after the first already. Clocks only grow, so that is cheap on average: transactions far apart are
//! mostly ordered anyway.
//!
//! Demands of a transaction that aborts are withdrawn: the clocks of all that come after them are worked
//! out again from the edges. For that every edge is kept, except demands that happened-before implies for
//! good.

use super::Seq;
use super::clock::Clock;
use rustc_hash::FxHashSet;

#[derive(Default)]
struct Node {
    lane: usize,
    /// In its lane, from 1.
    position: u32,
    /// Who happened before it, by session order and reads-from, where the level asks for that (causal).
    past: Clock,
    /// Who comes before it in every commit order.
    preceding: Clock,
    from: Vec<Seq>,
    to: Vec<Seq>,
}

pub(super) struct Graph {
    /// By `Seq`; the first, the initial transaction, comes before all and is in no list.
    nodes: Vec<Node>,
    lanes: Vec<Vec<Seq>>,
    /// Lanes of sessions that are over.
    free: FxHashSet<usize>,
}

impl Graph {
    pub fn new() -> Graph {
        Graph { nodes: vec![Node::default()], lanes: Vec::new(), free: FxHashSet::default() }
    }

    fn node(&self, s: Seq) -> &Node {
        &self.nodes[s.0 as usize]
    }

    /// A lane for a session whose first writer has this past, as far as happened-before is known.
    pub fn open_lane(&mut self, past: &Clock) -> usize {
        let carried = past
            .iter()
            .find(|&(lane, seen)| seen as usize == self.lanes[lane].len() && self.free.contains(&lane));
        match carried {
            Some((lane, _)) => {
                self.free.remove(&lane);
                lane
            }
            None => {
                self.lanes.push(Vec::new());
                self.lanes.len() - 1
            }
        }
    }

    /// The lane's session is over.
    pub fn free_lane(&mut self, lane: usize) {
        self.free.insert(lane);
    }

    #[inline]
    pub fn lane(&self, s: Seq) -> usize {
        self.node(s).lane
    }

    #[inline]
    pub fn position(&self, s: Seq) -> u32 {
        self.node(s).position
    }

    /// The writer at this position, from 1.
    pub fn at(&self, lane: usize, position: u32) -> Seq {
        self.lanes[lane][position as usize - 1]
    }

    pub fn past(&self, s: Seq) -> &Clock {
        &self.node(s).past
    }

    /// Who comes before any of these.
    pub fn preceding_any(&self, writers: &[Seq]) -> Clock {
        let mut all = Clock::default();
        for &w in writers {
            all.join(&self.node(w).preceding);
        }
        all
    }

    #[inline]
    pub fn before(&self, a: Seq, b: Seq) -> bool {
        if a == Seq::INITIAL {
            return b != Seq::INITIAL;
        }
        let node = self.node(a);
        self.node(b).preceding.get(node.lane) >= node.position
    }

    /// The clock of a transaction that has read from `s`.
    pub fn see(&self, clock: &mut Clock, s: Seq) {
        let node = self.node(s);
        clock.join(&node.past);
        clock.raise(node.lane, node.position);
    }

    /// The clock of a transaction that comes after `s`.
    fn precede(&self, clock: &mut Clock, s: Seq) {
        let node = self.node(s);
        clock.join(&node.preceding);
        clock.raise(node.lane, node.position);
    }

    /// Adds a direct dependency; the last of each lane stands for the others.
    pub fn depend(&self, direct: &mut Vec<Seq>, s: Seq) {
        match direct.iter_mut().find(|d| self.lane(**d) == self.lane(s)) {
            Some(d) => *d = (*d).max(s),
            None => direct.push(s),
        }
    }

    /// Appends a writer to its lane.
    pub fn commit(&mut self, s: Seq, lane: usize, past: &Clock, direct: &[Seq]) {
        let from: Vec<Seq> = self.lanes[lane].last().into_iter().chain(direct).copied().collect();
        let mut preceding = past.clone();
        for &f in &from {
            self.precede(&mut preceding, f);
            self.nodes[f.0 as usize].to.push(s);
        }
        self.lanes[lane].push(s);
        let position = self.lanes[lane].len() as u32;
        self.nodes.push(Node { lane, position, past: past.clone(), preceding, from, to: Vec::new() });
        debug_assert_eq!(self.nodes.len(), s.0 as usize + 1, "writers are appended in the order of commits");
    }

    /// True if these demands can be added without closing a cycle.
    ///
    /// A shortest cycle alternates between new demands and old paths, so it is one among the demands, where
    /// one leads to the next if its head is, or comes before, the next one's tail.
    pub fn stays_acyclic(&self, demands: &[(Seq, Seq)]) -> bool {
        let news: Vec<(Seq, Seq)> = demands.iter().copied().filter(|&(a, b)| !self.before(a, b)).collect();
        if news.iter().any(|&(a, b)| a == b || self.before(b, a)) {
            return false;
        }
        // Peel off demands to which no other leads, until none is left or all that are left are led to.
        let leads =
            |i: usize, j: usize| i != j && (news[i].1 == news[j].0 || self.before(news[i].1, news[j].0));
        let mut led: Vec<usize> =
            (0..news.len()).map(|j| (0..news.len()).filter(|&i| leads(i, j)).count()).collect();
        let mut free: Vec<usize> = (0..news.len()).filter(|&j| led[j] == 0).collect();
        let mut peeled = 0;
        while let Some(i) = free.pop() {
            peeled += 1;
            for j in (0..news.len()).filter(|&j| leads(i, j)) {
                led[j] -= 1;
                if led[j] == 0 {
                    free.push(j);
                }
            }
        }
        peeled == news.len()
    }

    /// Adds a demand that closes no cycle; whose clock changed is appended. False if it says nothing new
    /// for good.
    pub fn demand(&mut self, a: Seq, b: Seq, changed: &mut Vec<Seq>) -> bool {
        let (lane, position) = (self.lane(a), self.position(a));
        if a == Seq::INITIAL || self.lane(b) == lane || self.past(b).get(lane) >= position {
            return false;
        }
        self.nodes[a.0 as usize].to.push(b);
        self.nodes[b.0 as usize].from.push(a);
        if !self.before(a, b) {
            self.carry(vec![a], changed);
        }
        true
    }

    /// Carries the clocks of these writers on to all writers that come after them.
    fn carry(&mut self, mut work: Vec<Seq>, changed: &mut Vec<Seq>) {
        while let Some(a) = work.pop() {
            let mut node = std::mem::take(&mut self.nodes[a.0 as usize]);
            for &b in &node.to {
                let clock = &mut self.nodes[b.0 as usize].preceding;
                let grows = clock.join(&node.preceding);
                if clock.raise(node.lane, node.position) || grows {
                    work.push(b);
                    changed.push(b);
                }
            }
            std::mem::swap(&mut self.nodes[a.0 as usize], &mut node);
        }
    }

    /// Takes demands back.
    pub fn withdraw(&mut self, demands: &[(Seq, Seq)]) {
        fn remove(list: &mut Vec<Seq>, s: Seq) {
            if let Some(at) = list.iter().rposition(|&x| x == s) {
                list.swap_remove(at);
            }
        }
        let mut work = Vec::new();
        for &(a, b) in demands {
            remove(&mut self.nodes[a.0 as usize].to, b);
            remove(&mut self.nodes[b.0 as usize].from, a);
            work.push(b);
        }
        let mut after = FxHashSet::default();
        while let Some(b) = work.pop() {
            if after.insert(b) {
                work.extend(&self.node(b).to);
            }
        }
        // Their clocks start from what happened before them, and take in what comes from outside and from
        // each other.
        let mut sources: Vec<Seq> = after.iter().copied().collect();
        for &b in &after {
            let node = &mut self.nodes[b.0 as usize];
            node.preceding = node.past.clone();
            sources.extend(node.from.iter().copied().filter(|f| !after.contains(f)));
        }
        sources.sort_unstable_by(|a, b| b.cmp(a));
        sources.dedup();
        self.carry(sources, &mut Vec::new());
    }
}
