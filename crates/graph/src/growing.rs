//! A topological order kept up while nodes and edges arrive, for graphs that never stop growing.
//!
//! New nodes come last, and edges that ascend in the order cost nothing. For an edge that descends, its
//! two ends are searched from at the same time, edge by edge, within the part of the order between them
//! (the two-way search of Bender, Fineman, Gilbert & Tarjan 2016; Pearce & Kelly 2006 search both sides
//! to the end). The side that is exhausted first is moved past the other end. So an edge costs twice the
//! smaller side, whatever the number of nodes: little, if nodes arrive nearly in order.
//!
//! Why that is right: if all that `to` reaches before `from` is moved to just behind `from`, in its old
//! order, then edges into what was moved ascend more than before, and edges out of it lead either to what
//! was moved or behind `from`. The other side is symmetric. A cycle would be found by either side, before
//! it is exhausted.
//!
//! Places in the order are labels of 64 bits with gaps (Dietz & Sleator 1987): O(log n) amortised for
//! each node that is moved. [`Ordered`](crate::Ordered) has dense places and takes edges back, for
//! searches.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// An acyclic graph that grows.
///
/// ```
/// use anomalist_graph::Growing;
/// let mut graph = Growing::default();
/// let [a, b, c] = [(); 3].map(|()| graph.add_node());
/// assert_eq!(graph.add(c, a, "first"), Ok(()));
/// assert_eq!(graph.add(a, b, "second"), Ok(()));
/// assert!(graph.is_before(c, a) && graph.is_before(a, b));
/// assert_eq!(graph.add(b, c, "third"), Err(vec![(b, "third"), (c, "first"), (a, "second")]));
/// ```
#[derive(Debug)]
pub struct Growing<L> {
    out: Vec<Vec<(u32, L)>>,
    into: Vec<Vec<u32>>,
    order: Places,
    seen_forward: Vec<u32>,
    seen_backward: Vec<u32>,
    round: u32,
    forward: Side,
    backward: Side,
}

/// What a search has reached, and the next edge to look at.
#[derive(Debug, Default)]
struct Side {
    nodes: Vec<u32>,
    node: usize,
    edge: usize,
}

impl Side {
    fn start(&mut self, node: u32) {
        self.nodes.clear();
        self.nodes.push(node);
        (self.node, self.edge) = (0, 0);
    }
}

enum Step {
    Exhausted,
    Cycle,
    More,
}

/// A cycle: nodes, each with the label of the edge to the next.
pub type Cycle<L> = Vec<(u32, L)>;

impl<L> Default for Growing<L> {
    fn default() -> Growing<L> {
        Growing {
            out: Vec::new(),
            into: Vec::new(),
            order: Places::default(),
            seen_forward: Vec::new(),
            seen_backward: Vec::new(),
            round: 0,
            forward: Side::default(),
            backward: Side::default(),
        }
    }
}

impl<L: Copy> Growing<L> {
    /// Adds a node, last in the order.
    pub fn add_node(&mut self) -> u32 {
        self.out.push(Vec::new());
        self.into.push(Vec::new());
        self.seen_forward.push(0);
        self.seen_backward.push(0);
        self.order.push()
    }

    /// Whether one node is placed before another.
    pub fn is_before(&self, a: u32, b: u32) -> bool {
        self.order.of(a) < self.order.of(b)
    }

    /// What sorts nodes in their order, until the next edge is added.
    pub fn place(&self, node: u32) -> u64 {
        self.order.of(node)
    }

    /// Adds an edge and mends the order. An edge that would close a cycle is not added; the cycle is
    /// returned, the new edge first and the others as few as possible.
    pub fn add(&mut self, from: u32, to: u32, label: L) -> Result<(), Cycle<L>> {
        if from == to {
            return Err(vec![(from, label)]);
        }
        if self.is_before(to, from) && !self.mend(from, to) {
            return Err(self.cycle(from, to, label));
        }
        self.out[from as usize].push((to, label));
        self.into[to as usize].push(from);
        Ok(())
    }

    /// Takes an edge out again, if it is there. The order stays: it is one of fewer edges too.
    pub fn remove(&mut self, from: u32, to: u32, is_it: impl Fn(&L) -> bool) {
        let out = &mut self.out[from as usize];
        let Some(at) = out.iter().rposition(|(end, label)| *end == to && is_it(label)) else { return };
        out.swap_remove(at);
        let into = &mut self.into[to as usize];
        if let Some(at) = into.iter().rposition(|&start| start == from) {
            into.swap_remove(at);
        }
    }

    /// Makes `from` come before `to`; false if `to` leads to `from`.
    fn mend(&mut self, from: u32, to: u32) -> bool {
        self.round += 1;
        self.forward.start(to);
        self.backward.start(from);
        self.seen_forward[to as usize] = self.round;
        self.seen_backward[from as usize] = self.round;
        loop {
            match self.step_forward(from) {
                Step::Cycle => return false,
                Step::Exhausted => break self.move_behind(from),
                Step::More => {}
            }
            match self.step_backward(to) {
                Step::Cycle => return false,
                Step::Exhausted => break self.move_before(to),
                Step::More => {}
            }
        }
        true
    }

    fn step_forward(&mut self, goal: u32) -> Step {
        let side = &mut self.forward;
        let Some(&node) = side.nodes.get(side.node) else { return Step::Exhausted };
        let Some(&(to, _)) = self.out[node as usize].get(side.edge) else {
            (side.node, side.edge) = (side.node + 1, 0);
            return Step::More;
        };
        side.edge += 1;
        if self.seen_backward[to as usize] == self.round {
            return Step::Cycle;
        }
        if self.order.of(to) < self.order.of(goal) && self.seen_forward[to as usize] != self.round {
            self.seen_forward[to as usize] = self.round;
            side.nodes.push(to);
        }
        Step::More
    }

    fn step_backward(&mut self, goal: u32) -> Step {
        let side = &mut self.backward;
        let Some(&node) = side.nodes.get(side.node) else { return Step::Exhausted };
        let Some(&from) = self.into[node as usize].get(side.edge) else {
            (side.node, side.edge) = (side.node + 1, 0);
            return Step::More;
        };
        side.edge += 1;
        if self.seen_forward[from as usize] == self.round {
            return Step::Cycle;
        }
        if self.order.of(from) > self.order.of(goal) && self.seen_backward[from as usize] != self.round {
            self.seen_backward[from as usize] = self.round;
            side.nodes.push(from);
        }
        Step::More
    }

    fn move_behind(&mut self, from: u32) {
        let order = &mut self.order;
        self.forward.nodes.sort_unstable_by_key(|&node| order.of(node));
        let mut last = from;
        for &node in &self.forward.nodes {
            order.move_behind(node, last);
            last = node;
        }
    }

    fn move_before(&mut self, to: u32) {
        let order = &mut self.order;
        self.backward.nodes.sort_unstable_by_key(|&node| order.of(node));
        for &node in &self.backward.nodes {
            order.move_before(node, to);
        }
    }

    /// A shortest cycle through an edge that was refused.
    fn cycle(&self, from: u32, to: u32, label: L) -> Cycle<L> {
        let mut came: FxHashMap<u32, (u32, L)> = FxHashMap::default();
        let mut queue = VecDeque::from([to]);
        while let Some(node) = queue.pop_front().filter(|_| !came.contains_key(&from)) {
            for &(next, label) in &self.out[node as usize] {
                let between = self.order.of(next) <= self.order.of(from);
                if between && next != to && !came.contains_key(&next) {
                    came.insert(next, (node, label));
                    queue.push_back(next);
                }
            }
        }
        let mut cycle = Vec::new();
        let mut node = from;
        while let Some(&(before, label)) = came.get(&node) {
            cycle.push((before, label));
            node = before;
        }
        cycle.push((from, label));
        cycle.reverse();
        cycle
    }
}

/// A list of nodes with labels that ascend. Slot 0 is a head before all nodes; node `n` has slot `n + 1`.
#[derive(Debug)]
struct Places {
    label: Vec<u64>,
    next: Vec<u32>,
    previous: Vec<u32>,
    last: u32,
}

const NONE: u32 = u32::MAX;
/// Between the labels of nodes that arrive one after another: room for all nodes that 32 bits number.
const SPACE: u64 = 1 << 28;

impl Default for Places {
    fn default() -> Places {
        Places { label: vec![0], next: vec![NONE], previous: vec![NONE], last: 0 }
    }
}

impl Places {
    fn of(&self, node: u32) -> u64 {
        self.label[node as usize + 1]
    }

    fn push(&mut self) -> u32 {
        let slot = self.label.len() as u32;
        self.label.push(0);
        self.next.push(NONE);
        self.previous.push(NONE);
        self.insert(slot, self.last);
        slot - 1
    }

    fn move_behind(&mut self, node: u32, other: u32) {
        self.remove(node + 1);
        self.insert(node + 1, other + 1);
    }

    fn move_before(&mut self, node: u32, other: u32) {
        self.remove(node + 1);
        self.insert(node + 1, self.previous[other as usize + 1]);
    }

    fn remove(&mut self, slot: u32) {
        let (before, after) = (self.previous[slot as usize], self.next[slot as usize]);
        self.next[before as usize] = after;
        match after {
            NONE => self.last = before,
            after => self.previous[after as usize] = before,
        }
    }

    fn insert(&mut self, slot: u32, before: u32) {
        let after = self.next[before as usize];
        let low = self.label[before as usize];
        self.label[slot as usize] = match after {
            NONE => low + SPACE,
            after => {
                if self.label[after as usize] - low < 2 {
                    self.spread(before);
                }
                low + (self.label[after as usize] - low) / 2
            }
        };
        self.next[before as usize] = slot;
        self.previous[slot as usize] = before;
        self.next[slot as usize] = after;
        match after {
            NONE => self.last = slot,
            after => self.previous[after as usize] = slot,
        }
    }

    /// Makes room behind a slot: the following ones are spread evenly, as many as it takes until `j` of
    /// them have room of more than `j²`.
    fn spread(&mut self, slot: u32) {
        let low = self.label[slot as usize];
        let mut count = 1;
        let mut end = self.next[slot as usize];
        let high = loop {
            if end == NONE {
                break low + (count + 1) * SPACE;
            }
            let high = self.label[end as usize];
            if high - low > count * count + count {
                break high;
            }
            count += 1;
            end = self.next[end as usize];
        };
        let mut at = self.next[slot as usize];
        let mut place = 1;
        while at != end {
            self.label[at as usize] = low + ((high - low) as u128 * place / u128::from(count)) as u64;
            place += 1;
            at = self.next[at as usize];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Random graphs against reachability by search.
    #[test]
    fn accepts_exactly_what_closes_no_cycle() {
        for seed in 0..300u64 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut random = |below: u32| rng.u32(..below);
            let mut graph = Growing::default();
            graph.add_node();
            let mut edges: Vec<(u32, u32)> = Vec::new();
            let mut n = 1;
            for _ in 0..120 {
                if random(6) == 0 {
                    assert_eq!(graph.add_node(), n);
                    n += 1;
                }
                let (a, b) = (random(n), random(n));
                let mut reached = vec![false; n as usize];
                reached[b as usize] = true;
                for _ in 0..n {
                    for &(x, y) in &edges {
                        reached[y as usize] |= reached[x as usize];
                    }
                }
                match graph.add(a, b, (a, b)) {
                    Ok(()) => {
                        assert!(!reached[a as usize], "seed {seed}");
                        edges.push((a, b));
                    }
                    Err(cycle) => {
                        assert!(reached[a as usize], "seed {seed}");
                        assert_eq!(cycle[0], (a, (a, b)));
                        for (i, &(node, label)) in cycle.iter().enumerate() {
                            assert_eq!(label, (node, cycle[(i + 1) % cycle.len()].0));
                            assert!(i == 0 || edges.contains(&label));
                        }
                    }
                }
                assert!(edges.iter().all(|&(x, y)| graph.is_before(x, y)), "seed {seed}");
            }
        }
    }

    /// The worst place to insert at, again and again: the labels stay in order.
    #[test]
    fn room_is_made_where_there_is_none() {
        let mut graph = Growing::default();
        let (first, second) = (graph.add_node(), graph.add_node());
        assert_eq!(graph.add(first, second, ()), Ok(()));
        let mut last = second;
        for _ in 0..20_000 {
            let node = graph.add_node();
            assert_eq!(graph.add(first, node, ()), Ok(()));
            assert_eq!(graph.add(node, last, ()), Ok(()));
            assert!(graph.is_before(first, node) && graph.is_before(node, last));
            last = node;
        }
    }
}
