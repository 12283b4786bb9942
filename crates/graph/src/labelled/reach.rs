//! Which of many pairs of nodes a path connects.
//!
//! Asked one by one this is a search per pair, and a broken history of 100,000 transactions has as many
//! anti-dependencies. So the components are walked in topological order with the pairs' origins as bits,
//! 512 at a time, and only between the first origin and the last target of each batch: O(pairs/512 · edges
//! in that window). Histories are local in time, so windows are short.

use super::{Labelled, Labels};
use crate::{Components, Csr, Graph, components};

const WORDS: usize = 8;
type Marks = [u64; WORDS];

/// For each pair, whether a path (perhaps of no edge) leads from the first to the second.
///
/// ```
/// use anomalist_graph::{Csr, labelled::reachable};
/// let graph = Csr::from_edges(4, || [(0, 1), (1, 2)]);
/// assert_eq!(reachable(&graph, &[(0, 2), (2, 0), (3, 3)]), [true, false, true]);
/// ```
pub fn reachable(graph: &Csr, pairs: &[(u32, u32)]) -> Vec<bool> {
    let parts = components(graph);
    let mut answer: Vec<bool> = pairs.iter().map(|&(a, b)| parts.of(a) == parts.of(b)).collect();
    // Components are numbered against the edges, so a path only descends.
    let mut open: Vec<usize> =
        (0..pairs.len()).filter(|&i| parts.of(pairs[i].0) > parts.of(pairs[i].1)).collect();
    if open.is_empty() {
        return answer;
    }
    let condensed = condense(graph, &parts);
    open.sort_unstable_by_key(|&i| (parts.of(pairs[i].0), parts.of(pairs[i].1)));
    let mut marks: Vec<Marks> = vec![[0; WORDS]; parts.count()];
    let mut rest = open.as_slice();
    while !rest.is_empty() {
        // One bit per origin: the pairs are sorted by it.
        let (mut bit_of, mut origins, mut last) = (Vec::new(), 0, None);
        for &i in rest {
            let origin = parts.of(pairs[i].0);
            origins += usize::from(last != Some(origin));
            last = Some(origin);
            if origins > 64 * WORDS {
                break;
            }
            bit_of.push(origins - 1);
        }
        let (batch, later) = rest.split_at(bit_of.len());
        rest = later;
        let top = batch.iter().map(|&i| parts.of(pairs[i].0)).max().unwrap_or(0);
        let bottom = batch.iter().map(|&i| parts.of(pairs[i].1)).min().unwrap_or(0);
        for (&i, &bit) in batch.iter().zip(&bit_of) {
            marks[parts.of(pairs[i].0) as usize][bit / 64] |= 1 << (bit % 64);
        }
        for part in (bottom + 1..=top).rev() {
            let here = marks[part as usize];
            if here == [0; WORDS] {
                continue;
            }
            for &next in condensed.successors(part) {
                if next >= bottom {
                    let there = &mut marks[next as usize];
                    (0..WORDS).for_each(|w| there[w] |= here[w]);
                }
            }
        }
        for (&i, &bit) in batch.iter().zip(&bit_of) {
            answer[i] = marks[parts.of(pairs[i].1) as usize][bit / 64] >> (bit % 64) & 1 == 1;
        }
        marks[bottom as usize..=top as usize].fill([0; WORDS]);
    }
    answer
}

/// The acyclic graph of components.
fn condense(graph: &Csr, parts: &Components) -> Csr {
    let crossing = || {
        (0..graph.len() as u32)
            .flat_map(|a| graph.successors(a).iter().map(move |&b| (parts.of(a), parts.of(b))))
            .filter(|(a, b)| a != b)
    };
    Csr::from_edges(parts.count(), crossing)
}

/// The edges with a label of `anti` that a path of `plain` edges closes to a cycle, by origin and target.
///
/// ```
/// use anomalist_graph::labelled::{Labelled, closed_edges};
/// const DEP: u16 = 1;
/// const RW: u16 = 2;
/// let graph = Labelled::from_edges(3, vec![(0, 1, DEP), (1, 2, DEP), (2, 0, RW), (0, 2, RW)]);
/// assert_eq!(closed_edges(&graph, DEP, RW), [(2, 0)]);
/// ```
pub fn closed_edges(graph: &Labelled, plain: Labels, anti: Labels) -> Vec<(u32, u32)> {
    let whole = graph.components(plain | anti);
    let candidates: Vec<(u32, u32)> = graph
        .all_edges()
        .filter(|&(a, b, labels)| labels & anti != 0 && whole.of(a) == whole.of(b))
        .map(|(a, b, _)| (a, b))
        .collect();
    if candidates.is_empty() {
        return candidates;
    }
    let back: Vec<(u32, u32)> = candidates.iter().map(|&(a, b)| (b, a)).collect();
    let closed = reachable(&graph.project(plain), &back);
    candidates.into_iter().zip(closed).filter(|&(_, closed)| closed).map(|(edge, _)| edge).collect()
}
