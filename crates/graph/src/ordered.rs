//! A topological order kept up while edges come and go (Pearce & Kelly 2006).
//!
//! Edges that ascend in the order cost nothing; for one that descends, only nodes placed between its ends
//! are looked at and moved. Edges are taken back in reverse order of their arrival; the order stays as it
//! is then, for an order of more edges is one of fewer. An edge that would close a cycle is refused, with
//! the labels of the added edges on it: as few as possible among all cycles it would close.

use crate::{Csr, Graph};
use std::collections::VecDeque;

/// An acyclic graph with an order of its nodes: fixed edges, and labelled ones that can be added and taken
/// back.
///
/// ```
/// use anomalist_graph::{Csr, Ordered};
/// let mut graph = Ordered::new(Csr::from_edges(3, || [(0, 1)]), vec![0, 1, 2]);
/// assert_eq!(graph.add(2, 0, 7), Ok(()));
/// assert!(graph.position(2) < graph.position(0));
/// assert_eq!(graph.add(1, 2, 8), Err(vec![7])); // 2 → 0 → 1 → 2
/// graph.take_back(2, 0);
/// assert_eq!(graph.add(1, 2, 8), Ok(()));
/// ```
pub struct Ordered {
    fixed: Csr,
    fixed_in: Csr,
    out: Vec<Vec<(u32, u32)>>,
    into: Vec<Vec<(u32, u32)>>,
    position: Vec<u32>,
    at: Vec<u32>,
    mark: Vec<u32>,
    round: u32,
    forward: Vec<u32>,
    backward: Vec<u32>,
    /// How a node was reached in the search for a cycle: predecessor and label, or `NO_LABEL`.
    came: Vec<(u32, u32)>,
    cost: Vec<u32>,
}

const NO_LABEL: u32 = u32::MAX;

impl Ordered {
    /// `order` must be a topological order of the fixed edges. Labels are any numbers but the largest.
    pub fn new(fixed: Csr, order: Vec<u32>) -> Ordered {
        let n = fixed.len();
        let mut position = vec![0; n];
        for (i, &node) in order.iter().enumerate() {
            position[node as usize] = i as u32;
        }
        let fixed_in = Csr::from_edges(n, || {
            (0..n as u32).flat_map(|from| fixed.successors(from).iter().map(move |&to| (to, from)))
        });
        Ordered {
            fixed,
            fixed_in,
            out: vec![Vec::new(); n],
            into: vec![Vec::new(); n],
            position,
            at: order,
            mark: vec![0; n],
            round: 0,
            forward: Vec::new(),
            backward: Vec::new(),
            came: Vec::new(),
            cost: Vec::new(),
        }
    }

    /// The place of a node.
    #[inline]
    pub fn position(&self, node: u32) -> u32 {
        self.position[node as usize]
    }

    /// All nodes in order.
    pub fn order(&self) -> &[u32] {
        &self.at
    }

    /// The fixed edges.
    pub fn fixed(&self) -> &Csr {
        &self.fixed
    }

    /// Adds an edge and mends the order; or tells the labels on a cycle that it would close.
    pub fn add(&mut self, from: u32, to: u32, label: u32) -> Result<(), Vec<u32>> {
        if from == to {
            return Err(Vec::new());
        }
        let (low, high) = (self.position(to), self.position(from));
        if low < high {
            if !self.reach_forward(to, from, high) {
                return Err(self.cycle(to, from));
            }
            self.reach_backward(from, low);
            self.repack();
        }
        self.out[from as usize].push((to, label));
        self.into[to as usize].push((from, label));
        Ok(())
    }

    /// Takes back the edge between these nodes that was added last; it must be the last of all still there.
    pub fn take_back(&mut self, from: u32, to: u32) {
        self.out[from as usize].pop();
        self.into[to as usize].pop();
    }

    /// Collects what `start` reaches up to the position `high`; false if that is `goal`.
    fn reach_forward(&mut self, start: u32, goal: u32, high: u32) -> bool {
        self.round += 1;
        self.forward.clear();
        self.forward.push(start);
        self.mark[start as usize] = self.round;
        let mut next = 0;
        while let Some(&node) = self.forward.get(next) {
            next += 1;
            let added = self.out[node as usize].iter().map(|e| e.0);
            for to in self.fixed.successors(node).iter().copied().chain(added) {
                if to == goal {
                    return false;
                }
                if self.position[to as usize] < high && self.mark[to as usize] != self.round {
                    self.mark[to as usize] = self.round;
                    self.forward.push(to);
                }
            }
        }
        true
    }

    fn reach_backward(&mut self, start: u32, low: u32) {
        self.round += 1;
        self.backward.clear();
        self.backward.push(start);
        self.mark[start as usize] = self.round;
        let mut next = 0;
        while let Some(&node) = self.backward.get(next) {
            next += 1;
            let added = self.into[node as usize].iter().map(|e| e.0);
            for from in self.fixed_in.successors(node).iter().copied().chain(added) {
                if self.position[from as usize] > low && self.mark[from as usize] != self.round {
                    self.mark[from as usize] = self.round;
                    self.backward.push(from);
                }
            }
        }
    }

    /// Puts what was reached backward before what was reached forward, in the places of both.
    fn repack(&mut self) {
        let position = &mut self.position;
        self.backward.sort_unstable_by_key(|&node| position[node as usize]);
        self.forward.sort_unstable_by_key(|&node| position[node as usize]);
        let nodes: Vec<u32> = self.backward.iter().chain(&self.forward).copied().collect();
        let mut places: Vec<u32> = nodes.iter().map(|&node| position[node as usize]).collect();
        places.sort_unstable();
        for (node, place) in nodes.into_iter().zip(places) {
            position[node as usize] = place;
            self.at[place as usize] = node;
        }
    }

    /// The labels on a path between two nodes, the first of which is placed before the other: a path with
    /// the fewest.
    fn cycle(&mut self, start: u32, goal: u32) -> Vec<u32> {
        let n = self.position.len();
        self.came.resize(n, (0, NO_LABEL));
        self.cost.resize(n, 0);
        // Twice the round is unseen, plus one is final: marks below the round are from before.
        self.round += 2;
        let (open, done) = (self.round - 1, self.round);
        let high = self.position(goal);
        let mut queue = VecDeque::from([start]);
        self.mark[start as usize] = open;
        self.cost[start as usize] = 0;
        while let Some(node) = queue.pop_front() {
            if self.mark[node as usize] == done {
                continue;
            }
            self.mark[node as usize] = done;
            if node == goal {
                break;
            }
            let cost = self.cost[node as usize];
            let fixed = self.fixed.successors(node).iter().map(|&to| (to, NO_LABEL));
            for (to, label) in fixed.chain(self.out[node as usize].iter().copied()) {
                let price = cost + u32::from(label != NO_LABEL);
                let i = to as usize;
                if self.position[i] > high || self.mark[i] == done {
                    continue;
                }
                if self.mark[i] != open || price < self.cost[i] {
                    self.mark[i] = open;
                    self.cost[i] = price;
                    self.came[i] = (node, label);
                    if price == cost { queue.push_front(to) } else { queue.push_back(to) }
                }
            }
        }
        let mut labels = Vec::new();
        let mut node = goal;
        while node != start {
            let (from, label) = self.came[node as usize];
            if label != NO_LABEL {
                labels.push(label);
            }
            node = from;
        }
        labels.reverse();
        labels
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Small random graphs against reachability by search; edges come and go like a stack.
    #[test]
    fn accepts_exactly_what_closes_no_cycle() {
        for seed in 0..400u64 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut random = |below: u32| rng.u32(..below);
            let n = 3 + random(8);
            let fixed: Vec<(u32, u32)> =
                (0..random(n)).map(|_| (random(n), random(n))).filter(|(a, b)| a < b).collect();
            let mut graph = Ordered::new(Csr::from_edges(n as usize, || fixed.clone()), (0..n).collect());
            let mut added: Vec<(u32, u32)> = Vec::new();
            for label in 0..60 {
                if random(4) == 0 && !added.is_empty() {
                    let (a, b) = added.pop().unwrap();
                    graph.take_back(a, b);
                    continue;
                }
                let (a, b) = (random(n), random(n));
                let edges = || fixed.iter().chain(&added).copied();
                let mut reached = vec![false; n as usize];
                reached[b as usize] = true;
                for _ in 0..n {
                    for (x, y) in edges() {
                        reached[y as usize] |= reached[x as usize];
                    }
                }
                let answer = graph.add(a, b, label);
                assert_eq!(answer.is_err(), reached[a as usize], "seed {seed}");
                if answer.is_ok() {
                    added.push((a, b));
                }
                for (x, y) in fixed.iter().chain(&added) {
                    assert!(graph.position(*x) < graph.position(*y), "seed {seed}");
                }
                for (i, &node) in graph.order().iter().enumerate() {
                    assert_eq!(graph.position(node), i as u32);
                }
            }
        }
    }
}
