//! Where the cycles of a make-up can begin: components and reachability, before any search.

use super::reach::reachable;
use super::search::{AntiCount, CycleQuery};
use super::{Labelled, Labels};
use crate::{Components, Csr, components};

/// A node where cycles may begin, and where their first step may lead.
pub(super) struct Start {
    pub node: u32,
    pub first: Vec<u32>,
}

/// Where cycles may begin: first steps that lie in one component with all that is required, and that
/// something closes. `None` if nowhere.
pub(super) fn starts(graph: &Labelled, query: &CycleQuery) -> Option<(Components, Vec<Start>)> {
    let parts = graph.components(query.allowed());
    let mut inside: Vec<Labels> = vec![0; parts.count()];
    let mut anti_into = vec![false; graph.len()];
    for (a, b, labels) in graph.all_edges() {
        if parts.of(a) == parts.of(b) {
            inside[parts.of(a) as usize] |= labels & query.allowed();
            anti_into[b as usize] |= labels & query.anti != 0;
        }
    }
    let first = first_labels(query);
    let mut edges: Vec<(u32, u32)> = graph
        .all_edges()
        .filter(|&(a, b, labels)| {
            labels & first != 0
                && parts.of(a) == parts.of(b)
                && query.required.iter().all(|&set| inside[parts.of(a) as usize] & set != 0)
                && (query.count != AntiCount::Adjacent || anti_into[a as usize])
        })
        .map(|(a, b, _)| (a, b))
        .collect();
    match query.count {
        AntiCount::One => {
            let layers = Layers { query };
            let full = layers.count() - 1;
            let after = |a, b| bits(graph.labels(a, b) & query.anti).fold(0, |seen, l| seen | layers.seen(l));
            let back: Vec<(u32, u32)> = edges
                .iter()
                .map(|&(a, b)| (b * layers.count() + after(a, b), a * layers.count() + full))
                .collect();
            let closed = reachable(&layers.graph(graph), &back);
            let mut closed = closed.into_iter();
            edges.retain(|_| closed.next().unwrap_or(false));
        }
        AntiCount::NonAdjacent => {
            let parts = components(&alternating(graph, query.plain, query.anti));
            edges.retain(|&(a, b)| parts.of(2 * b + 1) == parts.of(2 * a));
        }
        AntiCount::None | AntiCount::Adjacent => {}
    }
    let mut starts: Vec<Start> = Vec::new();
    for (a, b) in edges {
        match starts.last_mut() {
            Some(start) if start.node == a => start.first.push(b),
            _ => starts.push(Start { node: a, first: vec![b] }),
        }
    }
    (!starts.is_empty()).then_some((parts, starts))
}

pub(super) fn first_labels(query: &CycleQuery) -> Labels {
    match (query.count, query.required.first()) {
        (AntiCount::None, Some(&set)) => query.plain & set,
        (AntiCount::None, None) => query.plain,
        _ => query.anti,
    }
}

/// The plain steps with a copy of each node per set of required labels seen. Steps that forget what they
/// saw are left out: they reach no more.
struct Layers<'a> {
    query: &'a CycleQuery,
}

impl Layers<'_> {
    fn count(&self) -> u32 {
        1 << self.query.required.len().min(REQUIRED)
    }

    fn seen(&self, label: Labels) -> u32 {
        u32::from(required_bits(self.query, label))
    }

    fn graph(&self, graph: &Labelled) -> Csr {
        let count = self.count();
        Csr::from_edges(graph.len() * count as usize, || {
            graph.all_edges().flat_map(move |(a, b, labels)| {
                bits(labels & self.query.plain).flat_map(move |label| {
                    let more = self.seen(label);
                    (0..count).map(move |seen| (a * count + seen, b * count + (seen | more)))
                })
            })
        })
    }
}

/// The walks that never take two `anti` steps in a row: node `2v` is `v` reached by a plain step, `2v + 1`
/// is `v` reached by an anti-dependency, after which only a plain step may follow. So a cycle of this graph
/// is a closed walk without adjacent anti-dependencies.
pub fn alternating(graph: &Labelled, plain: Labels, anti: Labels) -> Csr {
    Csr::from_edges(2 * graph.len(), || {
        graph.all_edges().flat_map(move |(a, b, labels)| {
            let (by_plain, by_anti) = (labels & plain != 0, labels & anti != 0);
            [(2 * a, 2 * b, by_plain), (2 * a + 1, 2 * b, by_plain), (2 * a, 2 * b + 1, by_anti)]
                .into_iter()
                .filter(|&(.., exists)| exists)
                .map(|(from, to, _)| (from, to))
        })
    })
}

/// What a walk remembers: a bit per required set seen; above them, if it matters, whether the last step was
/// an anti-dependency and whether there were two.
pub(super) type State = u8;

/// The most sets of required labels.
pub(super) const REQUIRED: usize = 4;

#[inline]
pub(super) fn required_bits(query: &CycleQuery, label: Labels) -> State {
    let sets = query.required.iter().take(REQUIRED).enumerate();
    sets.fold(0, |bits, (i, &set)| bits | (State::from(label & set != 0) << i))
}

/// The labels of a set, lowest first.
pub(super) fn bits(mut set: Labels) -> impl Iterator<Item = Labels> {
    std::iter::from_fn(move || {
        let lowest = set & set.wrapping_neg();
        set &= !lowest;
        (lowest != 0).then_some(lowest)
    })
}
