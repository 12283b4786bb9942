//! Chains of transactions each of which begins after the one before it has committed, in every order that
//! the known edges allow.
//!
//! Sessions are chains where the level keeps them. Elsewhere transactions are put on chains one after
//! another, in a topological order, each behind one of its direct predecessors that is still last on its
//! chain: readers follow what they read. There are many more of those than sessions, so they serve small
//! histories only.

use super::guess;
use super::model::{Family, Model};
use anomalist_history::TxnId;

/// Clocks may have so many entries; beyond that the search has to do without.
const LARGEST: usize = 1 << 27;
/// The same where chains are no sessions: rounds cost more there, too.
const LARGEST_COVER: usize = 1 << 26;
const MOST: usize = 30_000;

const NONE: u32 = u32::MAX;

pub(crate) struct Chains {
    pub count: usize,
    /// The chain of each transaction, and its place in it; `None`: chains are sessions, and the numbers of
    /// events tell.
    place: Option<Vec<(u32, u32)>>,
}

impl Chains {
    /// The chains of a level that can be saturated; `None` if it cannot.
    pub fn new(model: &Model<'_>) -> Option<Chains> {
        let (facts, rules) = (model.facts, model.rules);
        let closes = rules.reads_latest() || rules.family == Family::Parallel;
        // Who may not have taken effect overwrites nothing for sure; versions of lists are more than a
        // choice of source.
        let certain = facts.txns().all(|t| facts.certain[t.index()]);
        let closed = !facts.has_open_reads();
        let narrows = rules.reads_latest() && facts.open_lists.is_empty() && certain;
        if !closes || !(closed || narrows) {
            return None;
        }
        let (chains, limit) = match rules.sessions {
            true => (Chains::sessions(model), LARGEST),
            // There would be too many.
            false if facts.history.txn_count() > MOST => return None,
            false => (Chains::cover(model), LARGEST_COVER),
        };
        (model.nodes as usize * chains.count <= limit).then_some(chains)
    }

    fn sessions(model: &Model<'_>) -> Chains {
        Chains { count: model.facts.history.session_count(), place: None }
    }

    fn cover(model: &Model<'_>) -> Chains {
        let rules = model.rules;
        let graph = model.graph();
        let order = guess::kahn(model, &graph, &guess::even_pace(model));
        let mut rank = vec![NONE; model.facts.history.txn_count()];
        for (i, t) in order.iter().enumerate().filter_map(|(i, &node)| Some((i, model.committed(node)?))) {
            rank[t.index()] = i as u32;
        }
        // Direct predecessors, the latest of each transaction first.
        let follows = |from: u32, to: u32| {
            let events = from < model.events && to < model.events;
            let (a, b) = (rules.txn(from), rules.txn(to));
            (events && a != b && from == rules.commit(a) && to == rules.begin(b)).then_some((b, a))
        };
        let mut before: Vec<(TxnId, TxnId)> =
            model.edges.iter().filter_map(|e| follows(e.from, e.to)).collect();
        before.sort_unstable_by_key(|&(t, p)| (t, std::cmp::Reverse(rank[p.index()])));
        let mut place = vec![(0, 0); rank.len()];
        let mut last: Vec<TxnId> = Vec::new();
        for t in order.iter().filter_map(|&node| model.committed(node)) {
            let mine = &before[before.partition_point(|b| b.0 < t)..before.partition_point(|b| b.0 <= t)];
            let end = mine.iter().map(|&(_, p)| p).find(|p| last[place[p.index()].0 as usize] == *p);
            place[t.index()] = match end {
                Some(p) => (place[p.index()].0, place[p.index()].1 + 1),
                None => {
                    last.push(t);
                    (last.len() as u32 - 1, 0)
                }
            };
            last[place[t.index()].0 as usize] = t;
        }
        // A cycle: an event has no place. The users of the order find it.
        Chains { count: last.len().max(1), place: Some(place) }
    }

    /// Something to sort transactions by: chain, and place in it.
    pub fn place(&self, model: &Model<'_>, t: TxnId) -> (u32, u32) {
        match &self.place {
            None => (model.facts.history.session_of(t).0, t.0),
            Some(place) => place[t.index()],
        }
    }

    /// The place of an event in its chain. Moments of real time have none.
    #[inline]
    pub fn at(&self, model: &Model<'_>, event: u32) -> u32 {
        match &self.place {
            None => event,
            Some(place) => {
                let (_, at) = place[model.rules.txn(event).index()];
                if model.rules.is_split() { 2 * at + event % 2 } else { at }
            }
        }
    }

    /// Chain and place of an event; `None` for moments of real time.
    #[inline]
    pub fn event(&self, model: &Model<'_>, node: u32) -> Option<(usize, u32)> {
        (node < model.events).then(|| {
            let (chain, _) = self.place(model, model.rules.txn(node));
            (chain as usize, self.at(model, node))
        })
    }
}
