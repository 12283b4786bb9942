//! The shortest cycle of a given make-up: breadth-first search over (node, small state).
//!
//! The state is what a walk so far must remember: which required labels it has used, whether it has two
//! anti-dependencies, and whether the last step was one. That is a handful of states per node, so a search
//! from one node is linear and no verdict hangs on how long exponentially many paths take, as with Elle's
//! search over paths. Walks begin with an anti-dependency where the query wants one, else with a required
//! label; starts that cannot succeed are sifted out beforehand by components and reachability.
//!
//! *Simple cycles and closed walks.* A shortest closed walk is a simple cycle whenever cutting a detour out
//! of it leaves the make-up as it was: always if there is one demand in all. With several (two
//! anti-dependencies that are not adjacent, or one and a required label) a walk may satisfy them only by
//! passing a node twice, and to find a simple cycle through two given edges is NP-hard. Such a walk
//! contains a smaller cycle of a worse kind, so it never stands for nothing; it is reported as
//! [`Found::OnlyWalk`] after a bounded search over paths has found no simple cycle.
//!
//! Steps in a row by the label of an order ([`CycleQuery::order`]) count as one, because the order is
//! transitive: breadth-first search with steps that cost nothing (0-1 search), one more bit of state.
//!
//! Shortest of the component; among those of equal length the one whose first node is lowest. O(starts ·
//! edges), cut by the length of the best cycle so far: in broken histories that is 2 or 3, and the searches
//! stay local. Where it is not, fifty million more edges are looked at for a shorter one, and then the best
//! so far is the answer.

use super::starts::{REQUIRED, Start, State, bits, first_labels, required_bits, starts};
use super::{Labelled, Labels};
use crate::Components;

/// How many anti-dependencies a cycle has, and where.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AntiCount {
    /// None.
    None,
    /// Exactly one.
    One,
    /// Two or more, no two of them adjacent, around the end included.
    NonAdjacent,
    /// Two or more, some two of them adjacent.
    Adjacent,
}

/// What a cycle is made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CycleQuery {
    /// Labels that a step may have and that are no anti-dependencies.
    pub plain: Labels,
    /// Labels that are anti-dependencies.
    pub anti: Labels,
    /// How many anti-dependencies.
    pub count: AntiCount,
    /// Of each of these sets at least one label must occur; at most four sets.
    pub required: Vec<Labels>,
    /// A label of a transitive order of which the graph has a reduction (or none): steps by it in a row
    /// count as one.
    pub order: Labels,
}

impl CycleQuery {
    /// The labels a step may have.
    pub fn allowed(&self) -> Labels {
        if self.count == AntiCount::None { self.plain } else { self.plain | self.anti }
    }

    fn is_anti(&self, label: Labels) -> bool {
        label & self.anti & !self.plain != 0
    }

    /// The number of steps, those of the order in a row counted once. No walk begins with one.
    pub fn length(&self, walk: &Walk) -> usize {
        let in_a_row = |pair: &&[Labels]| pair.iter().all(|l| l & self.order != 0);
        walk.labels.len() - walk.labels.windows(2).filter(in_a_row).count()
    }

    /// True if the steps of a cycle, each by one label, are as asked for.
    pub fn accepts(&self, steps: &[Labels]) -> bool {
        let is_anti = |label: &Labels| self.is_anti(*label);
        let count = steps.iter().filter(|l| is_anti(l)).count();
        let adjacent = (0..steps.len()).any(|i| is_anti(&steps[i]) && is_anti(&steps[(i + 1) % steps.len()]));
        steps.iter().all(|l| l & self.allowed() != 0)
            && self.required.iter().all(|&set| steps.iter().any(|l| l & set != 0))
            && match self.count {
                AntiCount::None => count == 0,
                AntiCount::One => count == 1,
                AntiCount::NonAdjacent => count >= 2 && !adjacent,
                AntiCount::Adjacent => count >= 2 && adjacent,
            }
    }
}

/// A closed walk: step `i` goes from `nodes[i]` to `nodes[i + 1]`, the last one back to `nodes[0]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Walk {
    /// The nodes in order, the first not repeated at the end.
    pub nodes: Vec<u32>,
    /// The one label by which each step was taken.
    pub labels: Vec<Labels>,
}

impl Walk {
    /// True if no node occurs twice.
    pub fn is_simple(&self) -> bool {
        let mut nodes = self.nodes.clone();
        nodes.sort_unstable();
        nodes.windows(2).all(|w| w[0] != w[1])
    }
}

/// What a search found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// A simple cycle.
    Cycle(Walk),
    /// A closed walk that passes a node twice, and no simple cycle.
    OnlyWalk(Walk),
    /// There is none.
    Nothing,
    /// The effort was spent before anything was found.
    GaveUp,
}

impl Found {
    /// The cycle or walk.
    pub fn walk(self) -> Option<Walk> {
        match self {
            Found::Cycle(walk) | Found::OnlyWalk(walk) => Some(walk),
            Found::Nothing | Found::GaveUp => None,
        }
    }
}

/// How much a search may do. Steps are counted, not timed: the same graph gives the same answer on any
/// machine.
pub struct Effort<'a> {
    steps: u64,
    stop: &'a dyn Fn() -> bool,
    stopped: bool,
}

impl<'a> Effort<'a> {
    /// So many looked-at edges, or until `stop` says so.
    pub fn new(steps: u64, stop: &'a dyn Fn() -> bool) -> Effort<'a> {
        Effort { steps, stop, stopped: false }
    }

    /// True if nothing is left.
    pub fn is_spent(&self) -> bool {
        self.steps == 0 || self.stopped
    }

    fn limit(&mut self, steps: u64) {
        self.steps = self.steps.min(steps);
    }

    #[inline]
    fn spend(&mut self, steps: u64) {
        self.steps = self.steps.saturating_sub(steps);
    }

    fn poll(&mut self) -> bool {
        self.stopped |= (self.stop)();
        self.is_spent()
    }
}

/// The shortest cycle of the make-up in a graph, which callers make one component of theirs (see
/// [`Labelled::induced`]).
///
/// ```
/// use anomalist_graph::labelled::*;
/// const DEP: Labels = 1;
/// const RW: Labels = 2;
/// let graph = Labelled::from_edges(3, vec![(0, 1, DEP), (1, 2, DEP), (2, 0, RW)]);
/// let single = CycleQuery { plain: DEP, anti: RW, count: AntiCount::One, required: vec![], order: 0 };
/// let found = search_component(&graph, &single, &mut Effort::new(1000, &|| false));
/// assert_eq!(found, Found::Cycle(Walk { nodes: vec![2, 0, 1], labels: vec![RW, DEP, DEP] }));
/// ```
pub fn search_component(graph: &Labelled, query: &CycleQuery, effort: &mut Effort<'_>) -> Found {
    let Some((parts, starts)) = starts(graph, query) else { return Found::Nothing };
    let mut search = Search::new(graph, query, &parts);
    let (mut best, mut loose): (Option<Walk>, Option<Walk>) = (None, None);
    let mut loose_starts = Vec::new();
    for start in &starts {
        let limit = best.as_ref().map_or(usize::MAX, |walk| query.length(walk));
        let (simple, walk) = search.from(start, limit, effort);
        if simple.is_some() {
            if best.is_none() {
                effort.limit(IMPROVEMENT);
            }
            best = simple;
        } else if let Some(walk) = walk {
            if loose.as_ref().is_none_or(|old| query.length(&walk) < query.length(old)) {
                loose = Some(walk);
            }
            loose_starts.push(start);
        }
        if effort.is_spent() || best.as_ref().is_some_and(|walk| query.length(walk) == 2) {
            break;
        }
    }
    if best.is_none() && loose.is_some() {
        let mut paths = PATHS;
        for start in loose_starts {
            let limit = best.as_ref().map_or(usize::MAX, |walk: &Walk| walk.nodes.len());
            best = search.over_paths(start, limit, &mut paths).or(best);
        }
    }
    match (best, loose) {
        (Some(walk), _) => Found::Cycle(walk),
        (None, Some(walk)) => Found::OnlyWalk(walk),
        (None, None) if effort.is_spent() => Found::GaveUp,
        (None, None) => Found::Nothing,
    }
}

/// Edges looked at for a shorter cycle once there is one. Rings of thousands of nodes would cost the square
/// of that.
const IMPROVEMENT: u64 = 50_000_000;

/// Paths looked at before a simple cycle is given up.
const PATHS: usize = 100_000;

/// A way to a node in a state.
#[derive(Clone, Copy)]
struct Visit {
    node: u32,
    state: State,
    label: Labels,
    parent: u32,
}

const NO_PARENT: u32 = u32::MAX;

struct Search<'a> {
    graph: &'a Labelled,
    query: &'a CycleQuery,
    parts: &'a Components,
    all_required: State,
    last_anti: State,
    two: State,
    /// The last step was one of the order.
    last_order: State,
    /// Number of states.
    states: usize,
    /// Which search last saw a node in a state.
    seen: Vec<u32>,
    round: u32,
    /// All visits of this search; `here` and `next`, those of this distance and of the next, are places in
    /// it.
    queue: Vec<Visit>,
    here: Vec<u32>,
    next: Vec<u32>,
}

impl<'a> Search<'a> {
    fn new(graph: &'a Labelled, query: &'a CycleQuery, parts: &'a Components) -> Search<'a> {
        let demands = query.required.len().min(REQUIRED);
        let anti = if query.count == AntiCount::NonAdjacent { 2 } else { 0 };
        let ordered = usize::from(query.order != 0);
        Search {
            graph,
            query,
            parts,
            all_required: (1 << demands) - 1,
            last_anti: 1 << demands,
            two: 2 << demands,
            last_order: (1 << (demands + anti)) * ordered as State,
            states: 1 << (demands + anti + ordered),
            seen: vec![0; graph.len() << (demands + anti + ordered)],
            round: 0,
            queue: Vec::new(),
            here: Vec::new(),
            next: Vec::new(),
        }
    }

    /// The state after a step by one label; `None` if the step is not allowed.
    #[inline]
    fn step(&self, state: State, label: Labels) -> Option<State> {
        let mut next = state & !(self.last_anti | self.last_order);
        if label & self.query.order != 0 {
            next |= self.last_order;
        }
        if self.query.is_anti(label) {
            match self.query.count {
                AntiCount::None | AntiCount::One => return None,
                AntiCount::NonAdjacent if state & self.last_anti != 0 => return None,
                AntiCount::NonAdjacent => next |= self.last_anti | self.two,
                AntiCount::Adjacent => {}
            }
        }
        Some(next | required_bits(self.query, label))
    }

    /// The state after the first step.
    fn first(&self, label: Labels) -> State {
        let after_anti = if self.query.count == AntiCount::NonAdjacent { self.last_anti } else { 0 };
        required_bits(self.query, label) | after_anti
    }

    /// True if a step by one label may end the walk at its start.
    fn closes(&self, state: State, label: Labels) -> bool {
        let seen = (state | required_bits(self.query, label)) & self.all_required;
        let anti = self.query.is_anti(label);
        seen == self.all_required
            && match self.query.count {
                AntiCount::None | AntiCount::One => !anti,
                AntiCount::NonAdjacent => !anti && state & self.two != 0,
                AntiCount::Adjacent => anti,
            }
    }

    /// The shortest simple cycle from a start that is shorter than the limit; else the shortest closed walk.
    fn from(&mut self, start: &Start, limit: usize, effort: &mut Effort<'_>) -> (Option<Walk>, Option<Walk>) {
        self.round += 1;
        self.queue.clear();
        self.begin(start);
        let (mut simple, mut loose): (Option<Walk>, Option<Walk>) = (None, None);
        let mut depth = 1;
        std::mem::swap(&mut self.here, &mut self.next);
        while !self.here.is_empty() && depth + usize::from(self.query.order == 0) < limit {
            let mut at = 0;
            while let Some(&head) = self.here.get(at) {
                at += 1;
                if (at % 1024 == 1 && effort.poll()) || effort.is_spent() {
                    return (simple, loose);
                }
                let Visit { node, state, .. } = self.queue[head as usize];
                if !self.mark(node, state) {
                    continue;
                }
                let closed = self.leave(start, head, effort);
                let Some(walk) = closed.filter(|walk| self.query.length(walk) < limit) else { continue };
                let best = if walk.is_simple() { &mut simple } else { &mut loose };
                let shorter = |old: &Walk| self.query.length(&walk) < self.query.length(old);
                if best.as_ref().is_none_or(shorter) {
                    *best = Some(walk);
                }
                // Nothing from here on is shorter, unless the last step costs nothing.
                let last = depth + usize::from(self.query.order == 0);
                if simple.as_ref().is_some_and(|walk| self.query.length(walk) <= last) {
                    return (simple, loose);
                }
            }
            if simple.is_some() {
                break;
            }
            depth += 1;
            self.here.clear();
            std::mem::swap(&mut self.here, &mut self.next);
        }
        (simple, loose)
    }

    /// Takes the steps from a visit; the walk that one of them closes, if one does.
    fn leave(&mut self, start: &Start, head: u32, effort: &mut Effort<'_>) -> Option<Walk> {
        let Visit { node, state, .. } = self.queue[head as usize];
        let (graph, allowed) = (self.graph, self.query.allowed());
        let free = |label: Labels| state & self.last_order != 0 && label & self.query.order != 0;
        let (mut looked, mut closed) = (0, None);
        let mut reached: Vec<(bool, Visit)> = Vec::new();
        for (next, labels) in graph.edges(node) {
            looked += 1;
            if next == start.node {
                let closing = bits(labels & allowed).filter(|&label| self.closes(state, label));
                // A step that costs nothing first.
                closed = closing.max_by_key(|&label| free(label)).or(closed);
                continue;
            }
            if self.parts.of(next) != self.parts.of(start.node) {
                continue;
            }
            for label in bits(labels & allowed) {
                if let Some(state) = self.step(state, label)
                    && !self.is_marked(next, state)
                {
                    reached.push((free(label), Visit { node: next, state, label, parent: head }));
                }
            }
        }
        effort.spend(looked);
        for (free, visit) in reached {
            let places = if free { &mut self.here } else { &mut self.next };
            places.push(self.queue.len() as u32);
            self.queue.push(visit);
        }
        closed.map(|label| self.walk(start.node, head, label))
    }

    /// Queues the first steps.
    fn begin(&mut self, start: &Start) {
        self.here.clear();
        self.next.clear();
        for &next in &start.first {
            for label in bits(self.graph.labels(start.node, next) & first_labels(self.query)) {
                let state = self.first(label);
                self.next.push(self.queue.len() as u32);
                self.queue.push(Visit { node: next, state, label, parent: NO_PARENT });
            }
        }
    }

    fn is_marked(&self, node: u32, state: State) -> bool {
        self.seen[node as usize * self.states + state as usize] == self.round
    }

    /// Marks a node in a state; false if it was.
    fn mark(&mut self, node: u32, state: State) -> bool {
        let slot = &mut self.seen[node as usize * self.states + state as usize];
        let new = *slot != self.round;
        *slot = self.round;
        new
    }

    /// The walk that ends with a step by `label` from the queue's entry to the start.
    fn walk(&self, start: u32, entry: u32, label: Labels) -> Walk {
        let (mut nodes, mut labels) = (Vec::new(), vec![label]);
        let mut at = entry;
        while at != NO_PARENT {
            let visit = self.queue[at as usize];
            nodes.push(visit.node);
            labels.push(visit.label);
            at = visit.parent;
        }
        nodes.push(start);
        nodes.reverse();
        labels.reverse();
        Walk { nodes, labels }
    }

    /// The shortest simple cycle by search over paths, as far as their number allows.
    fn over_paths(&mut self, start: &Start, limit: usize, paths: &mut usize) -> Option<Walk> {
        self.queue.clear();
        self.begin(start);
        let mut head = 0;
        while (head as usize) < self.queue.len() && *paths > 0 {
            let here = self.queue[head as usize];
            let path = self.walk(start.node, head, 0).nodes;
            if path.len() >= limit {
                return None;
            }
            for (next, labels) in self.graph.edges(here.node) {
                for label in bits(labels & self.query.allowed()) {
                    if next == start.node {
                        if self.closes(here.state, label) {
                            return Some(self.walk(start.node, head, label));
                        }
                    } else if self.parts.of(next) == self.parts.of(start.node)
                        && !path.contains(&next)
                        && let Some(state) = self.step(here.state, label)
                    {
                        self.queue.push(Visit { node: next, state, label, parent: head });
                        *paths = paths.saturating_sub(1);
                    }
                }
            }
            head += 1;
        }
        None
    }
}
