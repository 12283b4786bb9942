//! Strongly connected components (Tarjan 1972, iterative), O(nodes + edges).

use crate::Graph;

/// The strongly connected components of a graph, numbered in reverse topological order: an edge between two
/// components goes from the larger number to the smaller.
#[derive(Clone, Debug)]
pub struct Components {
    of: Vec<u32>,
    size: Vec<u32>,
    self_loop: Vec<bool>,
}

impl Components {
    /// The component of a node.
    #[inline]
    pub fn of(&self, node: u32) -> u32 {
        self.of[node as usize]
    }

    /// Number of components.
    pub fn count(&self) -> usize {
        self.size.len()
    }

    /// True if the node lies on a cycle.
    #[inline]
    pub fn is_cyclic(&self, node: u32) -> bool {
        let c = self.of[node as usize] as usize;
        self.size[c] > 1 || self.self_loop[c]
    }

    /// True if both nodes lie on one cycle.
    #[inline]
    pub fn share_cycle(&self, a: u32, b: u32) -> bool {
        self.of[a as usize] == self.of[b as usize] && self.is_cyclic(a)
    }

    /// Number of components that contain a cycle.
    pub fn cyclic_count(&self) -> usize {
        self.size.iter().zip(&self.self_loop).filter(|&(&size, &l)| size > 1 || l).count()
    }

    /// Number of nodes in a component.
    pub fn size(&self, component: u32) -> u32 {
        self.size[component as usize]
    }

    /// The same when a further node makes one cycle of all these: every node from which it is reached, if it
    /// reaches all nodes. Their components become one. (Numbers are no longer in topological order.)
    pub fn with_cycle_through(&self, members: &[bool]) -> Components {
        let joined = self.count() as u32;
        let of = |(&c, &member): (&u32, &bool)| if member { joined } else { c };
        let mut found = Components {
            of: self.of.iter().zip(members).map(of).collect(),
            size: vec![0; self.count() + 1],
            self_loop: self.self_loop.clone(),
        };
        found.self_loop.push(true);
        for &c in &found.of {
            found.size[c as usize] += 1;
        }
        found
    }

    /// The nodes, component by component, in topological order of components; inside a component ascending.
    pub fn topological(&self) -> Vec<u32> {
        let mut next = vec![0u32; self.size.len()];
        let mut at = 0;
        for c in (0..self.size.len()).rev() {
            next[c] = at;
            at += self.size[c];
        }
        let mut order = vec![0; self.of.len()];
        for (node, &c) in self.of.iter().enumerate() {
            order[next[c as usize] as usize] = node as u32;
            next[c as usize] += 1;
        }
        order
    }
}

const UNSEEN: u32 = u32::MAX;

/// Computes the strongly connected components.
pub fn components<G: Graph>(graph: &G) -> Components {
    let n = graph.len();
    let mut found = Components { of: vec![UNSEEN; n], size: Vec::new(), self_loop: Vec::new() };
    let mut low = vec![UNSEEN; n];
    let mut open: Vec<u32> = Vec::new();
    let mut calls: Vec<(u32, usize, u32)> = Vec::new();
    let mut clock = 0u32;
    for root in 0..n as u32 {
        if low[root as usize] != UNSEEN {
            continue;
        }
        calls.push((root, 0, clock));
        low[root as usize] = clock;
        open.push(root);
        clock += 1;
        // A node's entry: (node, next successor to look at, its own discovery time).
        while let Some(&mut (node, ref mut i, entered)) = calls.last_mut() {
            if let Some(next) = graph.successor(node, *i) {
                *i += 1;
                if low[next as usize] == UNSEEN {
                    calls.push((next, 0, clock));
                    low[next as usize] = clock;
                    open.push(next);
                    clock += 1;
                } else if found.of[next as usize] == UNSEEN {
                    low[node as usize] = low[node as usize].min(low[next as usize]);
                }
                continue;
            }
            calls.pop();
            let reach = low[node as usize];
            if let Some(&(parent, ..)) = calls.last() {
                low[parent as usize] = low[parent as usize].min(reach);
            }
            if reach == entered {
                let c = found.size.len() as u32;
                let mut size = 0;
                while let Some(member) = open.pop() {
                    found.of[member as usize] = c;
                    size += 1;
                    if member == node {
                        break;
                    }
                }
                found.size.push(size);
                found.self_loop.push(size == 1 && has_self_loop(graph, node));
            }
        }
    }
    found
}

fn has_self_loop<G: Graph>(graph: &G, node: u32) -> bool {
    (0..).map_while(|i| graph.successor(node, i)).any(|next| next == node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Csr;

    fn reachable(n: usize, edges: &[(u32, u32)]) -> Vec<Vec<bool>> {
        let mut r = vec![vec![false; n]; n];
        for &(a, b) in edges {
            r[a as usize][b as usize] = true;
        }
        for k in 0..n {
            for i in 0..n {
                for j in 0..n {
                    r[i][j] |= r[i][k] && r[k][j];
                }
            }
        }
        r
    }

    #[test]
    fn a_further_node_joins_what_reaches_it() {
        // 0 ⇄ 1 → 2 → 3, and a node that 2 leads to and that leads everywhere.
        let found = components(&Csr::from_edges(4, || [(0, 1), (1, 0), (1, 2), (2, 3)]));
        let joined = found.with_cycle_through(&[true, true, true, false]);
        assert!(joined.share_cycle(0, 2) && joined.share_cycle(1, 2) && !joined.is_cyclic(3));
        assert_eq!((joined.size(joined.of(2)), joined.cyclic_count()), (3, 1));
        // Alone on a cycle with it.
        let alone = found.with_cycle_through(&[false, false, false, true]);
        assert!(alone.is_cyclic(3) && alone.share_cycle(0, 1) && !alone.share_cycle(0, 3));
    }

    #[test]
    fn agrees_with_mutual_reachability_on_random_graphs() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..3000 {
            let n = rng.usize(1..9);
            let edges: Vec<(u32, u32)> =
                (0..rng.usize(0..16)).map(|_| (rng.u32(0..n as u32), rng.u32(0..n as u32))).collect();
            let r = reachable(n, &edges);
            let found = components(&Csr::from_edges(n, || edges.iter().copied()));
            for (a, from_a) in r.iter().enumerate() {
                assert_eq!(found.is_cyclic(a as u32), from_a[a], "{edges:?}");
                for (b, from_b) in r.iter().enumerate() {
                    let mutual = a == b || from_a[b] && from_b[a];
                    assert_eq!(found.of(a as u32) == found.of(b as u32), mutual, "{edges:?}");
                }
            }
            let mut rank = vec![0; n];
            for (i, &node) in found.topological().iter().enumerate() {
                rank[node as usize] = i;
            }
            for &(a, b) in &edges {
                assert!(found.of(a) == found.of(b) || rank[a as usize] < rank[b as usize], "{edges:?}");
            }
        }
    }

    #[test]
    fn a_long_chain_needs_no_stack() {
        let n = 1_000_000;
        let chain = Csr::from_edges(n, || (0..n as u32 - 1).map(|i| (i, i + 1)));
        assert_eq!(components(&chain).count(), n);
    }
}
