//! Directed graphs over dense node numbers: strongly connected components, topological orders, shortest
//! paths, and rows of numbers for vector clocks.
//!
//! Knows no database and no isolation level. Nothing here recurses: a session of a million transactions is
//! a path of a million nodes.
//!
//! ```
//! use anomalist_graph::{Csr, components};
//! let graph = Csr::from_edges(3, || [(0, 1), (1, 0), (1, 2)]);
//! let found = components(&graph);
//! assert_eq!(found.of(0), found.of(1));
//! assert!(found.is_cyclic(0) && !found.is_cyclic(2));
//! ```

mod components;
mod growing;
pub mod labelled;
mod ordered;
mod paths;
mod rows;
mod sparse;

pub use components::{Components, components};
pub use growing::{Cycle, Growing};
pub use ordered::Ordered;
pub use paths::{Step, shortest_path};
pub use rows::Rows;
pub use sparse::Sparse;

/// A directed graph whose nodes are `0..len()`.
pub trait Graph {
    /// Number of nodes.
    fn len(&self) -> usize;

    /// True if there is no node.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The `i`-th successor of a node; `None` past the last. Successors may repeat.
    fn successor(&self, node: u32, i: usize) -> Option<u32>;

    /// Calls `f` with every successor of a node. Faster than asking for them one by one where a graph is
    /// made of parts.
    fn for_each_successor(&self, node: u32, mut f: impl FnMut(u32)) {
        (0..).map_while(|i| self.successor(node, i)).for_each(&mut f);
    }
}

/// A graph as one array of targets with an offset per node: 4 bytes per edge.
#[derive(Clone, Debug, Default)]
pub struct Csr {
    start: Vec<u32>,
    to: Vec<u32>,
}

impl Csr {
    /// From edges in any order; successors keep the order of the edges. Asks for the edges twice: to count,
    /// then to fill.
    pub fn from_edges<I: IntoIterator<Item = (u32, u32)>>(nodes: usize, edges: impl Fn() -> I) -> Csr {
        let mut start = vec![0u32; nodes + 1];
        for (from, _) in edges() {
            start[from as usize + 1] += 1;
        }
        for i in 0..nodes {
            start[i + 1] += start[i];
        }
        let mut next = start.clone();
        let mut to = vec![0; start[nodes] as usize];
        for (from, target) in edges() {
            to[next[from as usize] as usize] = target;
            next[from as usize] += 1;
        }
        Csr { start, to }
    }

    /// The successors of a node.
    #[inline]
    pub fn successors(&self, node: u32) -> &[u32] {
        &self.to[self.start[node as usize] as usize..self.start[node as usize + 1] as usize]
    }

    /// The position of a node's first edge among all edges, as they were given grouped by node.
    pub fn first_edge(&self, node: u32) -> usize {
        self.start[node as usize] as usize
    }

    /// Number of edges.
    pub fn edge_count(&self) -> usize {
        self.to.len()
    }
}

impl Graph for Csr {
    fn len(&self) -> usize {
        self.start.len().saturating_sub(1)
    }

    #[inline]
    fn successor(&self, node: u32, i: usize) -> Option<u32> {
        self.successors(node).get(i).copied()
    }

    fn for_each_successor(&self, node: u32, f: impl FnMut(u32)) {
        self.successors(node).iter().copied().for_each(f);
    }
}
