//! Causality where levels are mixed: which reads of causal transactions overlook something that happens
//! before them?
//!
//! Causality is session order and reads of all transactions, those included whose own levels care for
//! neither. So it may contradict the order, and even itself: any transaction that is on a cycle has
//! everything on it in its past. Per strongly connected component, how much of each session reaches it; of
//! every session the writer that comes last in the order is the one that matters. O(m·k), and a search
//! along the past for each constraint.

use super::scan::{Decided, Link};
use super::visible::{NONE, View};
use anomalist_graph::{Components, Csr, Rows, components};
use anomalist_history::{KeyId, TxnId};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Adds the constraints that the order misses.
pub(super) fn missed<D: Decided>(view: &mut View<'_, D>) {
    let causes = Causes::new(view);
    let mut latest = Latest::default();
    for t in view.facts.txns().filter(|&t| view.place[t.index()] != NONE && view.asks(t)).collect::<Vec<_>>()
    {
        for read in view.reads(t).collect::<Vec<_>>() {
            let Some(t2) = causes.overlooked(view, &mut latest, read) else { continue };
            let (between, links) = causes.path(view, t2, t);
            view.constrain(read, t2, &between, &links);
        }
    }
}

/// Per key, and writer of it in the order of the index: the latest, in the order of commits, of its
/// session's writers up to it.
type Latest = FxHashMap<KeyId, Vec<Option<TxnId>>>;

struct Causes {
    found: Components,
    /// Per component and session: the first transaction of the session that does not reach it, as a number.
    reach: Rows,
}

/// Who comes directly before a transaction.
fn causes<D: Decided>(view: &View<'_, D>, t: TxnId) -> Vec<(TxnId, Link)> {
    let history = view.facts.history;
    let counts = |p: &TxnId| view.place[p.index()] != NONE;
    let previous = history.before_in_session(t).rfind(counts).map(|p| (p, Link::Session));
    let read = |i: usize| Some((view.source(i)?, Link::Read(i as u32)));
    previous.into_iter().chain(view.reads(t).filter_map(read)).collect()
}

impl Causes {
    fn new<D: Decided>(view: &View<'_, D>) -> Causes {
        let history = view.facts.history;
        let mut edges: Vec<(u32, u32)> = Vec::new();
        for t in view.facts.txns().filter(|t| view.place[t.index()] != NONE) {
            edges.extend(causes(view, t).into_iter().map(|(p, _)| (p.0, t.0)));
        }
        let graph = Csr::from_edges(history.txn_count(), || edges.iter().copied());
        let found = components(&graph);
        let sessions = history.session_count();
        let mut all = Causes { reach: Rows::new(sessions, found.count()), found };
        let nodes = all.found.topological();
        let parts: Vec<&[u32]> = nodes.chunk_by(|&a, &b| all.found.of(a) == all.found.of(b)).collect();
        for component in parts {
            // All of a component are in the past of all of it, before that is in the past of others.
            for inside in [true, false] {
                for &node in component {
                    all.pass_on(
                        node,
                        history.session_of(TxnId(node)).index(),
                        graph.successors(node),
                        inside,
                    );
                }
            }
        }
        all
    }

    /// A transaction's past, and itself, are in the past of those that follow it.
    fn pass_on(&mut self, node: u32, session: usize, next: &[u32], inside: bool) {
        let mine = self.found.of(node);
        for theirs in next.iter().map(|&n| self.found.of(n)).filter(|&c| (c == mine) == inside) {
            self.reach.join(theirs, mine);
            self.reach.raise(theirs, session, node + 1);
        }
    }

    fn reaches(&self, history: &anomalist_history::History, a: TxnId, b: TxnId) -> bool {
        self.reach.get(self.found.of(b.0), history.session_of(a).index()) > a.0
    }

    /// The writer that comes last in the order among those that happen before a read and after what it
    /// returned.
    fn overlooked<D: Decided>(&self, view: &View<'_, D>, latest: &mut Latest, read: usize) -> Option<TxnId> {
        let (history, found) = (view.facts.history, view.facts.reads[read]);
        let writers = view.facts.index.writers(found.key);
        let counts = |w: TxnId| view.place[w.index()] != NONE;
        let later = |a: Option<TxnId>, b: TxnId| match a {
            Some(a) if view.place[a.index()] > view.place[b.index()] => Some(a),
            _ => Some(b),
        };
        let best = latest.entry(found.key).or_insert_with(|| {
            let mut best: Vec<Option<TxnId>> = Vec::with_capacity(writers.len());
            for (i, &w) in writers.iter().enumerate() {
                let same = i > 0 && history.session_of(writers[i - 1]) == history.session_of(w);
                let before = if same { best[i - 1] } else { None };
                best.push(if counts(w) { later(before, w) } else { before });
            }
            best
        });
        let mut last: Option<TxnId> = None;
        self.reach.for_each(self.found.of(found.reader.0), |session, bound| {
            let end = writers.partition_point(|w| w.0 < bound);
            let here = |&&w: &&TxnId| history.session_of(w).index() == session;
            let Some(_) = end.checked_sub(1).map(|i| &writers[i]).filter(here) else { return };
            let candidate = match best[end - 1] {
                // It is in its own past: the others count.
                Some(w) if w == found.reader => {
                    let others = writers[..end].iter().rev().take_while(here);
                    others.copied().filter(|&w| counts(w) && w != found.reader).fold(None, later)
                }
                other => other,
            };
            last = candidate.map_or(last, |w| later(last, w));
        });
        let from = view.source(read);
        last.filter(|&t2| Some(t2) != from && view.is_later(t2, from))
    }

    /// The transactions between two on a shortest path of causes, and its links.
    fn path<D: Decided>(&self, view: &View<'_, D>, from: TxnId, to: TxnId) -> (Vec<TxnId>, Vec<Link>) {
        let mut came: FxHashMap<TxnId, (TxnId, Link)> = FxHashMap::default();
        let mut queue = VecDeque::from([to]);
        while let Some(t) = queue.pop_front().filter(|_| !came.contains_key(&from)) {
            for (p, link) in causes(view, t) {
                let leads = p == from || self.reaches(view.facts.history, from, p);
                if leads && p != to && !came.contains_key(&p) {
                    came.insert(p, (t, link));
                    queue.push_back(p);
                }
            }
        }
        let (mut between, mut links) = (Vec::new(), Vec::new());
        let mut at = from;
        while let Some(&(next, link)) = came.get(&at) {
            between.push(next);
            links.push(link);
            at = next;
        }
        between.pop();
        (between, links)
    }
}
