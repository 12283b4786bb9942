//! Orders that are not in the data: of a session, and of real time.
//!
//! Session order is the chain of a session's committed transactions. For real time, "ended before the other
//! began" is quadratic if written out. Instead the completions form a chain of their own, one node each: a
//! transaction leads to the node of its completion, each node to the next, and the last node before an
//! invocation to that transaction. Three edges per transaction, whatever the concurrency. A transaction
//! whose outcome no client learnt may take effect at any later time: nothing follows it.

use crate::view::CommittedView;
use anomalist_history::{Outcome, TxnId};

/// The chain of completions.
pub(crate) struct Clock {
    /// Transactions by completion: node `i` of the chain is the completion of `ended[i]`.
    ended: Vec<TxnId>,
    /// Transactions with how many completions lie before their invocation, if any do.
    begun: Vec<(TxnId, u32)>,
}

impl Clock {
    /// `None` if the history has no intervals.
    pub fn new(view: CommittedView<'_>) -> Option<Clock> {
        let intervals = view.history.intervals()?;
        let mut completions: Vec<(u64, TxnId)> = view
            .committed()
            .filter(|&t| view.history.outcome(t) == Outcome::Committed)
            .filter_map(|t| Some((intervals[t.index()].completed?, t)))
            .collect();
        completions.sort_unstable();
        let begun = view
            .committed()
            .map(|t| {
                let invoked = intervals[t.index()].invoked;
                (t, completions.partition_point(|&(end, _)| end < invoked) as u32)
            })
            .filter(|&(_, before)| before > 0)
            .collect();
        Some(Clock { ended: completions.into_iter().map(|(_, t)| t).collect(), begun })
    }

    /// Number of nodes of the chain.
    pub fn len(&self) -> usize {
        self.ended.len()
    }

    /// The edges; chain node `i` has the number `first + i`. `enter` and `leave` number a transaction's end
    /// and start.
    pub fn edges(
        &self,
        first: u32,
        enter: impl Fn(TxnId) -> u32,
        leave: impl Fn(TxnId) -> u32,
    ) -> impl Iterator<Item = (u32, u32)> {
        let ends = self.ended.iter().enumerate().map(move |(i, &t)| (enter(t), first + i as u32));
        let chain = (1..self.ended.len() as u32).map(move |i| (first + i - 1, first + i));
        let begins = self.begun.iter().map(move |&(t, before)| (first + before - 1, leave(t)));
        ends.chain(chain).chain(begins)
    }

    /// Pairs whose transitive closure is the order of real time among the transactions that `keep` keeps,
    /// at most one pair per transaction and concurrent other (Elle's reduction): each transaction follows
    /// those that ended before it began, unless one of them began after another had ended.
    pub fn pairs(&self, view: CommittedView<'_>, keep: impl Fn(TxnId) -> bool) -> Vec<(u32, u32)> {
        let Some(intervals) = view.history.intervals() else { return Vec::new() };
        let mut begun: Vec<(u32, u64, TxnId)> = self
            .begun
            .iter()
            .filter(|&&(t, _)| keep(t))
            .map(|&(t, before)| (before, intervals[t.index()].invoked, t))
            .collect();
        begun.sort_unstable();
        let ended: Vec<(u32, TxnId)> =
            (0..).zip(&self.ended).filter(|&(_, &t)| keep(t)).map(|(i, &t)| (i, t)).collect();
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        let mut frontier: Vec<(u64, TxnId)> = Vec::new();
        let mut next = 0;
        for (before, _, t) in begun {
            while let Some(&(i, done)) = ended.get(next)
                && i < before
            {
                let began = intervals[done.index()].invoked;
                frontier.retain(|&(end, _)| end >= began);
                frontier.push((intervals[done.index()].completed.unwrap_or(u64::MAX), done));
                next += 1;
            }
            pairs.extend(frontier.iter().filter(|(_, f)| *f != t).map(|&(_, f)| (f.0, t.0)));
        }
        pairs
    }
}

/// Consecutive committed transactions of each session.
pub(crate) fn session_pairs(view: CommittedView<'_>) -> impl Iterator<Item = (TxnId, TxnId)> {
    view.committed().filter_map(move |t| Some((view.session_predecessor(t)?, t)))
}
