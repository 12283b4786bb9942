//! Searches against an enumeration of all simple cycles, labels and all.
#![allow(clippy::unwrap_used)]

use super::*;
use AntiCount::{Adjacent, NonAdjacent, None as NoAnti, One};

const WW: Labels = 1;
const WR: Labels = 2;
const RW: Labels = 4;
const ORDER: Labels = 8;

fn query(plain: Labels, anti: Labels, count: AntiCount, required: &[Labels]) -> CycleQuery {
    CycleQuery { plain, anti, count, required: required.to_vec(), order: 0 }
}

fn search(graph: &Labelled, q: &CycleQuery) -> Found {
    search_component(graph, q, &mut Effort::new(u64::MAX, &|| false))
}

/// Every simple cycle, from its lowest node, with every choice of labels: calls `f` with nodes and labels.
fn each_cycle(graph: &Labelled, f: &mut impl FnMut(&[u32], &[Labels])) {
    fn extend(
        g: &Labelled,
        nodes: &mut Vec<u32>,
        labels: &mut Vec<Labels>,
        f: &mut impl FnMut(&[u32], &[Labels]),
    ) {
        for (next, set) in g.edges(*nodes.last().unwrap()).collect::<Vec<_>>() {
            for label in (0..16).map(|i| 1 << i).filter(|l| set & l != 0) {
                labels.push(label);
                if next == nodes[0] {
                    f(nodes, labels);
                } else if next > nodes[0] && !nodes.contains(&next) {
                    nodes.push(next);
                    extend(g, nodes, labels, f);
                    nodes.pop();
                }
                labels.pop();
            }
        }
    }
    for first in 0..graph.len() as u32 {
        extend(graph, &mut vec![first], &mut Vec::new(), f);
    }
}

fn check(graph: &Labelled, q: &CycleQuery) {
    let mut shortest: Option<usize> = None;
    each_cycle(graph, &mut |_, labels| {
        if q.accepts(labels) {
            shortest = Some(shortest.map_or(labels.len(), |s| s.min(labels.len())));
        }
    });
    match search(graph, q) {
        Found::Cycle(walk) => {
            assert!(walk.is_simple() && q.accepts(&walk.labels), "{walk:?} for {q:?} in {graph:?}");
            for i in 0..walk.nodes.len() {
                let next = walk.nodes[(i + 1) % walk.nodes.len()];
                assert!(graph.labels(walk.nodes[i], next) & walk.labels[i] != 0, "{walk:?} in {graph:?}");
            }
            assert_eq!(Some(walk.nodes.len()), shortest, "{walk:?} for {q:?} in {graph:?}");
        }
        Found::OnlyWalk(walk) => {
            assert_eq!(shortest, None, "{q:?} in {graph:?}");
            assert!(q.accepts(&walk.labels) && !walk.is_simple());
        }
        Found::Nothing => assert_eq!(shortest, None, "{q:?} in {graph:?}"),
        Found::GaveUp => panic!("gave up with unlimited effort"),
    }
}

fn queries() -> Vec<CycleQuery> {
    let mut all = Vec::new();
    for order in [0, ORDER] {
        let with = |sets: &[Labels]| {
            let mut sets = sets.to_vec();
            sets.extend((order != 0).then_some(order));
            sets
        };
        all.push(query(WW | order, 0, NoAnti, &with(&[])));
        all.push(query(WW | WR | order, 0, NoAnti, &with(&[WR])));
        for count in [One, NonAdjacent, Adjacent] {
            all.push(query(WW | WR | order, RW, count, &with(&[])));
            all.push(query(WW | order, RW | WR, count, &with(&[WR])));
        }
    }
    all
}

#[test]
fn shortest_simple_cycles_are_found_in_random_graphs() {
    let seed = fastrand::u64(..);
    for (seed, rounds) in [(11, 4000), (seed, 2000)] {
        let mut rng = fastrand::Rng::with_seed(seed);
        for round in 0..rounds {
            let n = rng.usize(2..6);
            let edges = (0..rng.usize(1..2 * n + 3))
                .map(|_| (rng.u32(0..n as u32), rng.u32(0..n as u32), rng.u16(1..16) & rng.u16(1..16)))
                .collect();
            let graph = Labelled::from_edges(n, edges);
            for q in queries() {
                check(&graph, &q);
            }
            let closed = closed_edges(&graph, WW | WR, RW);
            for (a, b, labels) in graph.all_edges() {
                let back = reachable(&graph.project(WW | WR), &[(b, a)])[0];
                assert_eq!(closed.contains(&(a, b)), labels & RW != 0 && back, "seed {seed} round {round}");
            }
        }
    }
}

#[test]
fn reachability_of_many_pairs_agrees_with_closure() {
    let mut rng = fastrand::Rng::with_seed(5);
    for _ in 0..60 {
        let n = rng.usize(30..60);
        let edges: Vec<(u32, u32)> =
            (0..n * 3 / 2).map(|_| (rng.u32(0..n as u32), rng.u32(0..n as u32))).collect();
        let graph = Csr::from_edges(n, || edges.iter().copied());
        let mut closure = vec![vec![false; n]; n];
        (0..n).for_each(|i| closure[i][i] = true);
        edges.iter().for_each(|&(a, b)| closure[a as usize][b as usize] = true);
        for k in 0..n {
            for i in 0..n {
                for j in 0..n {
                    closure[i][j] |= closure[i][k] && closure[k][j];
                }
            }
        }
        // All pairs: more than one batch of 512 bits.
        let pairs: Vec<(u32, u32)> = (0..n as u32).flat_map(|a| (0..n as u32).map(move |b| (a, b))).collect();
        let found = reachable(&graph, &pairs);
        for (&(a, b), found) in pairs.iter().zip(found) {
            assert_eq!(found, closure[a as usize][b as usize], "{a} to {b} in {edges:?}");
        }
    }
}

#[test]
fn figure_eights_are_walks_and_not_cycles() {
    // Two anti-dependencies that are apart only because the walk passes node 1 twice.
    let graph = Labelled::from_edges(4, vec![(0, 1, RW), (1, 2, WW), (2, 1, WW), (1, 3, RW), (3, 0, WW)]);
    let found = search(&graph, &query(WW, RW, NonAdjacent, &[]));
    assert!(matches!(&found, Found::OnlyWalk(walk) if walk.nodes.len() == 5), "{found:?}");
    assert!(matches!(search(&graph, &query(WW, RW, Adjacent, &[])), Found::Cycle(_)));
    // Two single anti-dependencies that meet are no cycle with adjacent ones.
    let graph = Labelled::from_edges(3, vec![(0, 1, RW), (1, 0, WW), (1, 2, RW), (2, 1, WW)]);
    assert_eq!(search(&graph, &query(WW, RW, Adjacent, &[])), Found::Nothing);
}

#[test]
fn large_components_are_searched_quickly() {
    // A ring of dependencies closed by one anti-dependency, among many that close nothing: one search each
    // would be quadratic.
    let n = 60_000;
    let mut edges: Vec<(u32, u32, Labels)> = (0..n - 1).map(|i| (i, i + 1, WW)).collect();
    edges.push((n - 1, 0, RW));
    edges.extend((0..n - 10).map(|i| (i, i + 7, RW)));
    let graph = Labelled::from_edges(n as usize, edges);
    assert_eq!(closed_edges(&graph, WW, RW), [(n - 1, 0)]);
    let Found::Cycle(walk) = search(&graph, &query(WW, RW, One, &[])) else { panic!("nothing found") };
    assert_eq!(walk.nodes.len(), n as usize);
    let few = search_component(&graph, &query(WW, RW, One, &[]), &mut Effort::new(100, &|| false));
    assert_eq!(few, Found::GaveUp);
}

#[test]
fn a_required_label_that_no_path_has_is_known_before_searching() {
    // Many single anti-dependencies, none closed by a path with the order that the other end of the graph
    // has.
    let n = 60_000;
    let mut edges: Vec<(u32, u32, Labels)> = (0..n - 1).map(|i| (i, i + 1, WW)).collect();
    edges.extend((0..n - 10).map(|i| (i + 7, i, RW)));
    edges.push((n - 1, n - 3, ORDER));
    let graph = Labelled::from_edges(n as usize, edges);
    let with_order = query(WW | WR | ORDER, RW, One, &[ORDER]);
    assert_eq!(search_component(&graph, &with_order, &mut Effort::new(1, &|| false)), Found::Nothing);
}

#[test]
fn a_long_ring_is_not_searched_from_every_node() {
    let n = 100_000;
    let graph = Labelled::from_edges(n as usize, (0..n).map(|i| (i, (i + 1) % n, WR)).collect());
    let Found::Cycle(walk) = search(&graph, &query(WW | WR, 0, NoAnti, &[WR])) else {
        panic!("nothing found")
    };
    assert_eq!((walk.nodes.len(), walk.nodes[0]), (n as usize, 0));
}

#[test]
fn anomaly_dense_components_are_searched_locally() {
    let mut rng = fastrand::Rng::with_seed(3);
    let n = 100_000u32;
    let near = |rng: &mut fastrand::Rng| {
        let a = rng.u32(0..n);
        (a, (a + rng.u32(0..40)).saturating_sub(20).min(n - 1), 1 << rng.u16(0..4))
    };
    let edges = (0..800_000).map(|_| near(&mut rng)).collect();
    let graph = Labelled::from_edges(n as usize, edges);
    for q in queries() {
        assert!(matches!(search(&graph, &q), Found::Cycle(_)), "{q:?}");
    }
    assert!(closed_edges(&graph, WW | WR, RW).len() > 100_000);
}

#[test]
fn steps_of_an_order_in_a_row_count_as_one() {
    const DEP: Labels = 1;
    const RW: Labels = 2;
    const ORDER: Labels = 4;
    // Two ways back from 1 to 0: five steps of the order, or three steps of dependencies.
    let order = [(1, 2), (2, 3), (3, 4), (4, 5), (5, 0)].map(|(a, b)| (a, b, ORDER));
    let dependencies = [(1, 6, DEP), (6, 7, ORDER), (7, 0, DEP), (0, 1, RW)];
    let graph = Labelled::from_edges(8, order.into_iter().chain(dependencies).collect());
    let query = CycleQuery {
        plain: DEP | ORDER,
        anti: RW,
        count: AntiCount::One,
        required: vec![ORDER],
        order: ORDER,
    };
    let Found::Cycle(walk) = search_component(&graph, &query, &mut Effort::new(1000, &|| false)) else {
        panic!("there is a cycle");
    };
    assert_eq!((walk.nodes.clone(), query.length(&walk)), (vec![0, 1, 2, 3, 4, 5], 2));
    let by_hops = CycleQuery { order: 0, ..query };
    let found = search_component(&graph, &by_hops, &mut Effort::new(1000, &|| false));
    assert_eq!(found.walk().map(|walk| walk.nodes), Some(vec![0, 1, 6, 7]));
}
