//! Shortest paths where consecutive steps of one kind may merge.
//!
//! Session order is transitive, so ten session steps in a row are one step to a reader. A step is therefore
//! free when it continues a mergeable step: 0-1 breadth-first search over (node, arrived by a mergeable
//! step).

use search::Visited;
use std::collections::VecDeque;

/// One edge as the search sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step<L> {
    /// Where it leads.
    pub to: u32,
    /// What the caller wants to know about it afterwards.
    pub label: L,
    /// Whether it merges with a mergeable step before it.
    pub mergeable: bool,
}

/// The path with the fewest steps from a node to another (at least one step, so a cycle if they are the
/// same).
///
/// `expand` calls its second argument with every step out of a node. Returns the steps taken with their
/// origins, merged runs not yet collapsed; `None` if there is no path, or `give_up` said so.
pub fn shortest_path<L: Copy>(
    from: u32,
    to: u32,
    mut expand: impl FnMut(u32, &mut dyn FnMut(Step<L>)),
    mut give_up: impl FnMut() -> bool,
) -> Option<Vec<(u32, Step<L>)>> {
    let mut visited: Visited<L> = Visited::default();
    let mut queue: VecDeque<(u32, bool, bool)> = VecDeque::from([(from, false, true)]);
    while let Some((node, merging, is_start)) = queue.pop_front() {
        if !is_start {
            if visited.is_done(node, merging) {
                continue;
            }
            visited.finish(node, merging);
            if node == to {
                return Some(visited.path_to(from, node, merging));
            }
        }
        if give_up() {
            return None;
        }
        expand(node, &mut |step| {
            if visited.offer((node, merging, is_start), step) {
                let next = (step.to, step.mergeable, false);
                if merging && step.mergeable { queue.push_front(next) } else { queue.push_back(next) }
            }
        });
    }
    None
}

mod search {
    //! The search's bookkeeping: who was reached how. A map, because a witness touches few nodes of a large
    //! graph.
    use super::Step;
    use rustc_hash::FxHashMap;

    type State = (u32, bool);

    struct Entry<L> {
        came_from: (u32, bool, bool),
        step: Step<L>,
        cost: u32,
        done: bool,
    }

    pub(super) struct Visited<L> {
        entries: FxHashMap<State, Entry<L>>,
    }

    impl<L> Default for Visited<L> {
        fn default() -> Self {
            Visited { entries: FxHashMap::default() }
        }
    }

    impl<L: Copy> Visited<L> {
        pub fn is_done(&self, node: u32, merging: bool) -> bool {
            self.entries.get(&(node, merging)).is_some_and(|e| e.done)
        }

        pub fn finish(&mut self, node: u32, merging: bool) {
            if let Some(entry) = self.entries.get_mut(&(node, merging)) {
                entry.done = true;
            }
        }

        /// Records a way to a state if it is the cheapest so far.
        pub fn offer(&mut self, came_from: (u32, bool, bool), step: Step<L>) -> bool {
            let (node, merging, is_start) = came_from;
            let base = if is_start { 0 } else { self.entries.get(&(node, merging)).map_or(0, |e| e.cost) };
            let cost = base + u32::from(!(merging && step.mergeable));
            let state = (step.to, step.mergeable);
            match self.entries.get(&state) {
                Some(old) if old.done || old.cost <= cost => false,
                _ => {
                    self.entries.insert(state, Entry { came_from, step, cost, done: false });
                    true
                }
            }
        }

        pub fn path_to(&self, start: u32, node: u32, merging: bool) -> Vec<(u32, Step<L>)> {
            let mut path = Vec::new();
            let mut state = (node, merging);
            while let Some(entry) = self.entries.get(&state) {
                let (origin, origin_merging, is_start) = entry.came_from;
                path.push((origin, entry.step));
                if is_start {
                    debug_assert_eq!(origin, start);
                    break;
                }
                state = (origin, origin_merging);
            }
            path.reverse();
            path
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(edges: &[(u32, u32, bool)], from: u32, to: u32) -> Option<Vec<u32>> {
        let path = shortest_path(
            from,
            to,
            |node, f| {
                for &(a, b, mergeable) in edges {
                    if a == node {
                        f(Step { to: b, label: (), mergeable });
                    }
                }
            },
            || false,
        )?;
        Some(path.iter().map(|(_, step)| step.to).collect())
    }

    #[test]
    fn a_run_of_mergeable_steps_counts_once() {
        let edges = [(0, 1, true), (1, 2, true), (2, 3, true), (0, 4, false), (4, 3, false)];
        assert_eq!(find(&edges, 0, 3), Some(vec![1, 2, 3]));
        let edges = [(0, 1, false), (1, 2, true), (2, 3, false), (0, 4, false), (4, 3, false)];
        assert_eq!(find(&edges, 0, 3), Some(vec![4, 3]));
    }

    #[test]
    fn a_cycle_returns_to_its_start() {
        let edges = [(0, 1, false), (1, 2, false), (2, 0, false), (1, 0, true)];
        assert_eq!(find(&edges, 0, 0), Some(vec![1, 0]));
        assert_eq!(find(&edges[..2], 0, 0), None);
    }
}
