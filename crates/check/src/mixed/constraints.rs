//! What the declared levels ask of the order: edges that must be in it, and choices between two.

use super::{Family, family};
use crate::view::CommittedView;
use crate::view::Read;
use anomalist_history::{KeyId, TxnId};
use anomalist_level::{Level, Visible};
use rustc_hash::FxHashSet;

/// Points are numbered: a transaction's commit by its id, its begin (if its level has snapshots) after all
/// commits.
pub(super) type Point = u32;

/// The first comes before the second.
pub(super) type Edge = (Point, Point);

/// Everything asked of the order of points.
pub(super) struct Constraints {
    /// The number of points, used or not.
    pub points: usize,
    /// What must be in the order.
    pub edges: Vec<Edge>,
    /// Of each pair one must be in the order; the first is none if it leads before the initial state.
    pub choices: Vec<(Option<Edge>, Edge)>,
}

impl Constraints {
    /// `None` if something would have to come before the initial state.
    pub fn collect(view: CommittedView<'_>, declared: &[Level]) -> Option<Constraints> {
        let collector = Collector { view, declared };
        let mut constraints =
            Constraints { points: 2 * view.txn_count(), edges: Vec::new(), choices: Vec::new() };
        for edge in view.version_edges() {
            constraints.edges.push((edge.from.0, edge.to.0));
        }
        for t in view.committed() {
            collector.of(t, &mut constraints)?;
        }
        Some(constraints)
    }
}

struct Collector<'a> {
    view: CommittedView<'a>,
    declared: &'a [Level],
}

impl Collector<'_> {
    fn of(&self, t: TxnId, constraints: &mut Constraints) -> Option<()> {
        let level = self.declared[t.index()];
        let family = family(level).unwrap_or(Family::Uncommitted);
        let commit = t.0;
        // Where it reads.
        let reads_at = match family {
            Family::Snapshot { .. } => {
                let begin = t.0 + self.view.txn_count() as u32;
                constraints.edges.push((begin, commit));
                begin
            }
            Family::Uncommitted | Family::Committed | Family::Cut | Family::Weak(_) | Family::Serial => {
                commit
            }
        };
        let info = level.info();
        if info.session_order {
            // All of them: those in between may be at levels without session order.
            let before = self.view.history.before_in_session(t);
            let earlier = before.filter(|&p| self.view.index.is_committed(p));
            constraints.edges.extend(earlier.map(|p| (p.0, reads_at)));
        }
        if info.real_time {
            constraints.edges.extend(self.ended_before(t).map(|p| (p.0, reads_at)));
        }
        if !matches!(family, Family::Uncommitted | Family::Cut) {
            let sources = self.view.reads(t).filter_map(|r| r.from);
            constraints.edges.extend(sources.map(|w| (w.0, reads_at)));
        }
        match family {
            Family::Uncommitted | Family::Committed | Family::Cut => {}
            Family::Weak(visible) => {
                for read in self.view.reads(t) {
                    for t2 in self.visible(visible, t, read) {
                        let other = t2 != t && Some(t2) != read.from;
                        if other && self.view.index.writes(t2, read.key) {
                            constraints.edges.push((t2.0, read.from?.0));
                        }
                    }
                }
            }
            Family::Snapshot { .. } | Family::Serial => {
                for read in self.view.reads(t) {
                    for &o in self.view.index.writers(read.key) {
                        if o != t && Some(o) != read.from {
                            constraints.choices.push((read.from.map(|w| (o.0, w.0)), (reads_at, o.0)));
                        }
                    }
                }
            }
        }
        if family == (Family::Snapshot { conflicts: true }) {
            let keys: FxHashSet<KeyId> = self.view.written(t).collect();
            let mut keys: Vec<KeyId> = keys.into_iter().collect();
            keys.sort_unstable();
            for key in keys {
                for &o in self.view.index.writers(key).iter().filter(|&&o| o != t) {
                    constraints.choices.push((Some((o.0, reads_at)), (commit, o.0)));
                }
            }
        }
        Some(())
    }

    fn ended_before(&self, t: TxnId) -> impl Iterator<Item = TxnId> + '_ {
        let history = self.view.history;
        let intervals = history.intervals().unwrap_or_default();
        self.view.committed().filter(move |&p| {
            let over = history.outcome(p) == anomalist_history::Outcome::Committed;
            let ends = intervals.get(p.index()).and_then(|i| i.completed);
            over && p != t && ends.is_some_and(|end| end < intervals[t.index()].invoked)
        })
    }

    /// Who is visible to a read at a weak level.
    fn visible(&self, visible: Visible, t: TxnId, read: Read) -> Vec<TxnId> {
        let before = |t: TxnId| {
            let before = self.view.history.before_in_session(t);
            before.filter(|&p| self.view.index.is_committed(p))
        };
        let sources = |t: TxnId| self.view.reads(t).filter_map(|r| r.from);
        match visible {
            Visible::ReadCommitted => {
                self.view.reads(t).filter(|r| r.op < read.op).filter_map(|r| r.from).collect()
            }
            Visible::ReadAtomic => sources(t).chain(before(t)).collect(),
            Visible::ReadYourWrites => before(t).collect(),
            Visible::MonotonicReads => before(t).flat_map(sources).collect(),
            Visible::MonotonicWrites => sources(t).flat_map(before).collect(),
            Visible::WritesFollowReads => sources(t).flat_map(before).flat_map(sources).collect(),
            Visible::Causal => {
                // Everything that happens before.
                let mut seen: FxHashSet<TxnId> = FxHashSet::default();
                let mut work: Vec<TxnId> = sources(t).chain(before(t)).collect();
                while let Some(u) = work.pop() {
                    if seen.insert(u) {
                        work.extend(sources(u).chain(before(u)));
                    }
                }
                let mut seen: Vec<TxnId> = seen.into_iter().collect();
                seen.sort_unstable();
                seen
            }
        }
    }
}
