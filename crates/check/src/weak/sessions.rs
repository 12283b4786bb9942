//! The four session guarantees (Terry et al. 1994) as levels of their own.
//!
//! Each is the axiom of the other weak levels with a smaller visibility, so the same search for a commit
//! order decides it.

use super::order::Causality;
use super::order_search::Broken;
use super::simulate::{Visibility, by_session, leading};
use super::taps::Instance;
use crate::view::{CommittedView, Read};
use anomalist_history::{OpId, TxnId};
use anomalist_level::AnomalyKind;

/// A session guarantee, by the visibility it requires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Guarantee {
    /// `so`.
    ReadYourWrites,
    /// `wr ; so`.
    MonotonicReads,
    /// `so ; wr`.
    MonotonicWrites,
    /// `wr ; so ; wr`.
    WritesFollowReads,
}

impl Guarantee {
    pub const ALL: [Guarantee; 4] = [
        Guarantee::ReadYourWrites,
        Guarantee::MonotonicReads,
        Guarantee::MonotonicWrites,
        Guarantee::WritesFollowReads,
    ];

    /// The anomaly that is its violation.
    pub fn violation(self) -> AnomalyKind {
        match self {
            Guarantee::ReadYourWrites => AnomalyKind::NotReadYourWrites,
            Guarantee::MonotonicReads => AnomalyKind::NonMonotonicReads,
            Guarantee::MonotonicWrites => AnomalyKind::NonMonotonicWrites,
            Guarantee::WritesFollowReads => AnomalyKind::WritesDontFollowReads,
        }
    }
}

/// What a guarantee makes visible.
pub(crate) struct SessionSeen<'a, 'b> {
    view: CommittedView<'a>,
    causality: &'b Causality<'a>,
    guarantee: Guarantee,
    current: TxnId,
}

impl<'a, 'b> SessionSeen<'a, 'b> {
    pub fn new(view: CommittedView<'a>, causality: &'b Causality<'a>, guarantee: Guarantee) -> Self {
        SessionSeen { view, causality, guarantee, current: TxnId(0) }
    }

    /// Is `t2` visible to `t3`? (Where in `t3` the read stands does not matter.)
    fn is_visible(&self, t2: TxnId, t3: TxnId) -> bool {
        let before = |a, b| self.view.history.session_before(a, b);
        let mut sources = self.view.reads(t3).filter_map(|r: Read| r.from);
        match self.guarantee {
            Guarantee::ReadYourWrites => before(t2, t3),
            Guarantee::MonotonicReads => read_earlier_in_session(self.view, self.causality, t2, t3),
            Guarantee::MonotonicWrites => sources.any(|w| before(t2, w)),
            Guarantee::WritesFollowReads => {
                sources.any(|w| read_earlier_in_session(self.view, self.causality, t2, w))
            }
        }
    }

    /// The pairs (external read, `t2`) that contradict the guarantee: how many, the smallest, and who reads.
    pub fn contradictions(&self, broken: &Broken) -> (u64, Option<Instance>, Vec<TxnId>) {
        let size = |t: TxnId| self.view.history.op_range(t).len();
        let (mut count, mut smallest, mut readers) = (0, None, Vec::new());
        for t3 in self.view.committed() {
            for read in self.view.reads(t3) {
                let t1 = read.from;
                let suspect = match t1 {
                    None => broken.initial_overwritten,
                    Some(t1) => broken.graph.components.is_cyclic(t1.0),
                };
                if !suspect {
                    continue;
                }
                by_session(&self.view, read.key, |session, writers| {
                    let on_cycle = match t1 {
                        None => writers,
                        Some(_) => {
                            let ids = broken.graph.range(t1, session);
                            let start = leading(writers, ids.start);
                            &writers[start..leading(writers, ids.end).max(start)]
                        }
                    };
                    for &t2 in on_cycle.iter().filter(|&&t2| Some(t2) != t1 && t2 != t3) {
                        if self.is_visible(t2, t3) {
                            count += 1;
                            if readers.last() != Some(&t3) {
                                readers.push(t3);
                            }
                            let weight = size(t2) + size(t3) + t1.map_or(0, size);
                            if smallest.is_none_or(|(w, _)| weight < w) {
                                smallest = Some((weight, Instance { t1, t2: Some(t2), t3, read }));
                            }
                        }
                    }
                });
            }
        }
        (count, smallest.map(|(_, instance)| instance), readers)
    }
}

impl Visibility for SessionSeen<'_, '_> {
    fn enter(&mut self, t: TxnId) {
        self.current = t;
    }

    fn sees(&self, other: TxnId, _: OpId) -> bool {
        self.is_visible(other, self.current)
    }

    // What a guarantee makes visible cannot be listed faster than by walking on.
    fn walk_limit(&self) -> u32 {
        u32::MAX
    }

    fn latest_writers(&self, _: Read, _: &mut dyn FnMut(TxnId)) {}

    fn leave(&mut self, _: TxnId) {}
}

/// A transaction before `t` in its session that read from `writer`.
pub(super) fn reader_before(
    view: CommittedView<'_>,
    causality: &Causality<'_>,
    writer: TxnId,
    t: TxnId,
) -> Option<TxnId> {
    let readers = causality.readers(writer);
    let ids = view.history.part_before(view.history.trunk(t), t);
    let at = readers.partition_point(|&r| r < ids.start);
    readers.get(at).copied().filter(|&r| r < ids.end).map(TxnId)
}

/// Did a transaction before `t` in its session read from `writer`?
fn read_earlier_in_session(
    view: CommittedView<'_>,
    causality: &Causality<'_>,
    writer: TxnId,
    t: TxnId,
) -> bool {
    reader_before(view, causality, writer, t).is_some()
}
