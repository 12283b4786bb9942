//! The order of appends that no read shows, for snapshot isolation: of two transactions that append to one
//! list, one begins after the other has committed.
//!
//! Which one is open. So an order is chosen: that of the graph, as edges that are taken back when a read
//! shows another, or when something that is known contradicts them. An order that the graph accepts
//! proves that the level holds so far; if none is found at once, that is not known. O(1) for an append,
//! and the number of unseen appends of a list when a read extends it.

use crate::violation::Label;
use anomalist_graph::Growing;
use anomalist_history::KeyId;
use rustc_hash::{FxHashMap, FxHashSet};

/// Lists without an order that are tried again at every step, at most.
const RETRIED: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct Unseen {
    /// By list, beginnings and commits of those that append, in the order chosen.
    chosen: FxHashMap<KeyId, Vec<[u32; 2]>>,
    /// Lists whose order is to be chosen anew.
    open: FxHashSet<KeyId>,
}

impl Unseen {
    /// Whether an order was found for every list.
    pub fn is_ordered(&self) -> bool {
        self.open.is_empty()
    }

    /// Notes an append; without one, that a read has placed some.
    pub fn note(&mut self, graph: &mut Growing<Label>, key: KeyId, append: Option<[u32; 2]>) {
        let Some(append) = append else { return self.withdraw(graph, key) };
        if self.open.contains(&key) {
            return;
        }
        let order = self.chosen.entry(key).or_default();
        let is_chosen = |label: &Label| *label == Label::Chosen(key);
        // One that cannot follow another must come before it.
        let mut at = order.len();
        while at > 0 && graph.add(order[at - 1][1], append[0], Label::Chosen(key)).is_err() {
            at -= 1;
        }
        let mut fits = true;
        if let Some(&next) = order.get(at) {
            if at > 0 {
                graph.remove(order[at - 1][1], next[0], is_chosen);
            }
            fits = graph.add(append[1], next[0], Label::Chosen(key)).is_ok();
        }
        order.insert(at, append);
        if !fits {
            self.withdraw(graph, key);
        }
    }

    /// Takes back the order of a list, for another to be chosen.
    pub fn withdraw(&mut self, graph: &mut Growing<Label>, key: KeyId) {
        for pair in self.chosen.remove(&key).unwrap_or_default().windows(2) {
            graph.remove(pair[0][1], pair[1][0], |label| *label == Label::Chosen(key));
        }
        self.open.insert(key);
    }

    /// Chooses the orders that are open.
    pub fn settle(&mut self, graph: &mut Growing<Label>, events: impl Fn(KeyId) -> Vec<[u32; 2]>) {
        let open: Vec<KeyId> = self.open.iter().copied().take(RETRIED).collect();
        for key in open {
            let mut order = events(key);
            // By commits, else by beginnings.
            for event in [1, 0] {
                if self.open.remove(&key) {
                    order.sort_by_key(|append| graph.place(append[event]));
                    order.dedup();
                    order.iter().for_each(|&append| self.note(graph, key, Some(append)));
                }
            }
        }
    }
}
