//! The commit-order edges that a level requires, reduced: the same transitive closure with causality as all
//! of them, hence the same strongly connected components (`docs/spec/algorithms.md` 2.4).
//!
//! If `t3` reads `x` from `t1`, and `t2` also writes `x` and is visible to that read, then `t2` commits
//! before `t1`. `t1` the initial state and any such `t2`: impossible at once.

use super::clocks::AllClocks;
use super::simulate::{by_session, leading};
use crate::view::{CommittedView, EpochMap, Read, Writer};
use crate::{Budget, OutOfBudget};
use anomalist_history::{OpId, TxnId};

/// Transactions between two looks at the budget.
const POLL_EVERY: usize = 256;

/// `from` must commit before `to`, because `read` returned `to`'s version although it could see `from`'s.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequiredEdge {
    pub from: TxnId,
    pub to: TxnId,
    pub read: OpId,
}

/// The constraints of a level.
#[derive(Default, Debug)]
pub(crate) struct Required {
    pub edges: Vec<RequiredEdge>,
    /// Some read of the initial state could see a writer of its key.
    pub initial_overwritten: bool,
}

impl Required {
    pub fn constrain(&mut self, t2: TxnId, t1: Writer, read: OpId) {
        match t1 {
            Some(t1) => self.edges.push(RequiredEdge { from: t2, to: t1, read }),
            None => self.initial_overwritten = true,
        }
    }
}

/// A transaction's reads by key, for intersecting them with what another transaction writes. Of several
/// reads of a key from one writer the last is kept.
pub(super) struct ReadsByKey {
    /// The first entry of `chain` for a key.
    head: EpochMap<u32>,
    /// (read, next entry of the same key).
    chain: Vec<(Read, u32)>,
}

const END: u32 = u32::MAX;

impl ReadsByKey {
    pub fn new(keys: usize) -> Self {
        ReadsByKey { head: EpochMap::new(keys), chain: Vec::new() }
    }

    pub fn clear(&mut self) {
        self.head.next_round();
        self.chain.clear();
    }

    pub fn push(&mut self, read: Read) {
        let first = self.head.get(read.key.index()).unwrap_or(END);
        let mut at = first;
        while at != END {
            let (earlier, next) = &mut self.chain[at as usize];
            if earlier.from == read.from {
                *earlier = read;
                return;
            }
            at = *next;
        }
        self.chain.push((read, first));
        self.head.set(read.key.index(), self.chain.len() as u32 - 1);
    }

    /// Calls `f` with the pushed reads of keys that `writer` writes: iterates the smaller side, O(min) up
    /// to a logarithm.
    pub fn of_keys_written_by(&self, view: &CommittedView<'_>, writer: TxnId, mut f: impl FnMut(Read)) {
        if view.history.op_range(writer).len() <= 8 * self.chain.len() {
            let mut previous = None;
            for key in view.written(writer) {
                // Twice in a row is the common repeat; a rarer one only repeats an edge.
                if previous == Some(key) {
                    continue;
                }
                previous = Some(key);
                let mut at = self.head.get(key.index()).unwrap_or(END);
                while at != END {
                    let (read, next) = self.chain[at as usize];
                    f(read);
                    at = next;
                }
            }
        } else {
            for &(read, _) in self.chain.iter().filter(|(r, _)| view.index.writes(writer, r.key)) {
                f(read);
            }
        }
    }
}

/// Read committed, in O(m^{3/2}): every transaction read from, against the keys read later.
///
/// Keeping only the nearest later read of each key is not enough: in `r(x,1) r(x,2) r(x,1) r(x,3)` it never
/// leads past the first two writers. So a key that a transaction reads from several others costs all its
/// pairs; that is a non-repeatable read, which only broken databases show.
pub(crate) fn read_committed(view: &CommittedView<'_>) -> Required {
    let mut required = Required::default();
    let mut reads = ReadsByKey::new(view.history.key_count());
    let mut done = EpochMap::<()>::new(view.txn_count());
    for t in view.committed() {
        reads.clear();
        view.reads(t).for_each(|read| reads.push(read));
        done.next_round();
        for first in view.reads(t) {
            if let Some(t2) = first.from
                && done.get(t2.index()).is_none()
            {
                done.set(t2.index(), ());
                reads.of_keys_written_by(view, t2, |r| {
                    if r.from != Some(t2) && r.op > first.op {
                        required.constrain(t2, r.from, r.op);
                    }
                });
            }
        }
    }
    required
}

/// Read atomic, in O(m^{3/2}): the latest earlier writer of the same session, and every transaction read
/// from.
pub(crate) fn read_atomic(view: &CommittedView<'_>) -> Required {
    let mut required = Required::default();
    let mut reads = ReadsByKey::new(view.history.key_count());
    let mut done = EpochMap::<()>::new(view.txn_count());
    let mut last = EpochMap::<u32>::new(view.history.key_count());
    for session in view.history.sessions() {
        last.next_round();
        for t in view.history.session_txns(session).filter(|&t| view.index.is_committed(t)) {
            reads.clear();
            let branch = view.trunk(t).is_some();
            for read in view.reads(t) {
                reads.push(read);
                let earlier = || view.own_writer(t, read.key).filter(|_| branch);
                if let Some(own) = last.get(read.key.index()).map(TxnId).or_else(earlier)
                    && read.from != Some(own)
                {
                    required.constrain(own, read.from, read.op);
                }
            }
            done.next_round();
            for t2 in view.reads(t).filter_map(|r| r.from) {
                if done.get(t2.index()).is_none() {
                    done.set(t2.index(), ());
                    reads.of_keys_written_by(view, t2, |r| {
                        if r.from != Some(t2) {
                            required.constrain(t2, r.from, r.op);
                        }
                    });
                }
            }
            for key in view.written(t) {
                last.set(key.index(), t.0);
            }
        }
    }
    required
}

/// Causal, in O(m·k): of each session only the latest seen writer, earlier ones follow by session order;
/// and none that causality already puts before `t1`.
pub(crate) fn causal(
    view: &CommittedView<'_>,
    clocks: &AllClocks<'_>,
    budget: &Budget<'_>,
) -> Result<Required, OutOfBudget> {
    let mut required = Required::default();
    for (i, t3) in view.committed().enumerate() {
        if i.is_multiple_of(POLL_EVERY) && budget.is_spent() {
            return Err(OutOfBudget);
        }
        for read in view.reads(t3) {
            by_session(view, read.key, |session, writers| {
                let seen = leading(writers, clocks.unseen(t3, session));
                let latest = writers[..seen].iter().rev().copied().find(|&t2| t2 != t3);
                if let Some(t2) = latest
                    && Some(t2) != read.from
                    && !read.from.is_some_and(|t1| clocks.has_seen(t1, t2))
                {
                    required.constrain(t2, read.from, read.op);
                }
            });
        }
    }
    Ok(required)
}
