//! Graphs whose edges carry labels, and the search for short cycles of a given make-up.
//!
//! A label is a bit; what it means is the caller's business. Between two nodes there is one edge with the
//! set of all labels that connect them. A cycle walks each edge by one label, and a [`CycleQuery`] says
//! which it may use, which of them count as *anti-dependencies*, how many of those there are, and what must
//! occur at least once. So Adya's and Elle's types of cycle are queries; this module knows none of them.

mod reach;
mod search;
mod starts;
#[cfg(test)]
mod tests;

pub use reach::{closed_edges, reachable};
pub use search::{AntiCount, CycleQuery, Effort, Found, Walk, search_component};
pub use starts::alternating;

use crate::{Components, Csr, Graph, components};

/// A set of labels, or a single one: bit `i` is label `i`.
pub type Labels = u16;

/// A labelled graph over nodes `0..len()`; 6 bytes per edge. Self-edges are left out: no cycle of interest
/// uses them.
#[derive(Clone, Debug, Default)]
pub struct Labelled {
    start: Vec<u32>,
    to: Vec<u32>,
    labels: Vec<Labels>,
}

impl Labelled {
    /// From edges in any order; labels of parallel edges are merged. O(m log m).
    ///
    /// ```
    /// use anomalist_graph::labelled::Labelled;
    /// let graph = Labelled::from_edges(2, vec![(0, 1, 0b01), (1, 0, 0b10), (0, 1, 0b10)]);
    /// assert_eq!(graph.labels(0, 1), 0b11);
    /// assert_eq!(graph.edge_count(), 2);
    /// ```
    pub fn from_edges(nodes: usize, mut edges: Vec<(u32, u32, Labels)>) -> Labelled {
        edges.retain(|&(from, to, labels)| from != to && labels != 0);
        edges.sort_unstable_by_key(|&(from, to, _)| (from, to));
        edges.dedup_by(|next, kept| {
            let parallel = (next.0, next.1) == (kept.0, kept.1);
            if parallel {
                kept.2 |= next.2;
            }
            parallel
        });
        let mut start = vec![0u32; nodes + 1];
        for &(from, ..) in &edges {
            start[from as usize + 1] += 1;
        }
        for i in 0..nodes {
            start[i + 1] += start[i];
        }
        Labelled {
            start,
            to: edges.iter().map(|&(_, to, _)| to).collect(),
            labels: edges.iter().map(|&(.., labels)| labels).collect(),
        }
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.start.len().saturating_sub(1)
    }

    /// True if there is no node.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of edges; parallel ones are one.
    pub fn edge_count(&self) -> usize {
        self.to.len()
    }

    /// The edges out of a node, by ascending target.
    #[inline]
    pub fn edges(&self, node: u32) -> impl Iterator<Item = (u32, Labels)> + '_ {
        let range = self.start[node as usize] as usize..self.start[node as usize + 1] as usize;
        self.to[range.clone()].iter().copied().zip(self.labels[range].iter().copied())
    }

    /// All edges, by ascending origin and target.
    pub fn all_edges(&self) -> impl Iterator<Item = (u32, u32, Labels)> + '_ {
        (0..self.len() as u32).flat_map(|from| self.edges(from).map(move |(to, labels)| (from, to, labels)))
    }

    /// The labels between two nodes; none if there is no edge.
    pub fn labels(&self, from: u32, to: u32) -> Labels {
        let range = self.start[from as usize] as usize..self.start[from as usize + 1] as usize;
        match self.to[range.clone()].binary_search(&to) {
            Ok(i) => self.labels[range.start + i],
            Err(_) => 0,
        }
    }

    /// The graph of the edges that have one of these labels.
    pub fn project(&self, allowed: Labels) -> Csr {
        Csr::from_edges(self.len(), || {
            self.all_edges()
                .filter(move |&(.., labels)| labels & allowed != 0)
                .map(|(from, to, _)| (from, to))
        })
    }

    /// The strongly connected components over the edges that have one of these labels.
    pub fn components(&self, allowed: Labels) -> Components {
        components(&self.project(allowed))
    }

    /// The nodes of every component of at least two nodes over these labels; nodes ascending, components by
    /// their first node.
    pub fn cyclic_components(&self, allowed: Labels) -> Vec<Vec<u32>> {
        members(&self.components(allowed), self.len())
    }

    /// The same edges with other labels; an edge whose labels become none stays, and no search takes it.
    pub fn map_labels(&self, f: impl Fn(Labels) -> Labels) -> Labelled {
        let labels = self.labels.iter().map(|&set| f(set)).collect();
        Labelled { start: self.start.clone(), to: self.to.clone(), labels }
    }

    /// The graph among some nodes, given ascending; node `i` of the result is `nodes[i]`.
    pub fn induced(&self, nodes: &[u32]) -> Labelled {
        let mut part = Labelled { start: vec![0], ..Labelled::default() };
        for &node in nodes {
            for (to, labels) in self.edges(node) {
                if let Ok(i) = nodes.binary_search(&to) {
                    part.to.push(i as u32);
                    part.labels.push(labels);
                }
            }
            part.start.push(part.to.len() as u32);
        }
        part
    }
}

/// The nodes of every component of at least two, by first node.
pub(crate) fn members(found: &Components, nodes: usize) -> Vec<Vec<u32>> {
    let mut place = vec![u32::MAX; found.count()];
    let mut lists: Vec<Vec<u32>> = Vec::new();
    for node in 0..nodes as u32 {
        let c = found.of(node);
        if found.size(c) < 2 {
            continue;
        }
        if place[c as usize] == u32::MAX {
            place[c as usize] = lists.len() as u32;
            lists.push(Vec::with_capacity(found.size(c) as usize));
        }
        lists[place[c as usize] as usize].push(node);
    }
    lists
}

impl Graph for Labelled {
    fn len(&self) -> usize {
        Labelled::len(self)
    }

    #[inline]
    fn successor(&self, node: u32, i: usize) -> Option<u32> {
        let range = self.start[node as usize] as usize..self.start[node as usize + 1] as usize;
        self.to[range].get(i).copied()
    }
}
