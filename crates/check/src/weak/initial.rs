//! The initial transaction as one of the others, as Plume has it (Section 2.2: "a special transaction that
//! writes the initial values of all keys" and precedes all others).
//!
//! A read of the initial state that could see a writer `t2` of its key requires `t2` before the initial
//! transaction, which comes before everything: a cycle through the initial transaction, all transactions
//! that lead to `t2`, and so a contradiction between any two of those. The component of the initial
//! transaction is what leads to such a `t2`: one search backwards, O(transactions + reads + constraints).
//! Of each session it holds the first transactions, so it meets a session in a range, as the counting of
//! `taps.rs` needs.

use super::required::RequiredEdge;
use super::simulate::Visibility;
use crate::view::CommittedView;
use anomalist_graph::Csr;
use anomalist_history::{OpId, TxnId};

/// A read returned the initial state, although it could see `from`'s version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InitialConstraint {
    pub from: TxnId,
    pub read: OpId,
}

/// The cycles through the initial transaction.
#[derive(Default, Debug)]
pub(crate) struct InitialCycles {
    /// The constraints on it: of each session at least the latest.
    pub constraints: Vec<InitialConstraint>,
    /// By transaction, whether it leads to the initial one. Empty: none does.
    pub members: Vec<bool>,
}

impl InitialCycles {
    /// From the visibility of a level, and the edges beyond causality that its order has to respect.
    pub fn new(
        view: &CommittedView<'_>,
        visibility: &mut impl Visibility,
        required: &[RequiredEdge],
        versions: &[(u32, u32)],
    ) -> InitialCycles {
        let constraints = constraints(view, visibility);
        let reversed = || {
            let required = required.iter().map(|e| (e.to.0, e.from.0));
            required.chain(versions.iter().map(|&(from, to)| (to, from)))
        };
        let before = Csr::from_edges(view.txn_count(), reversed);
        let mut members = vec![false; view.txn_count()];
        let mut work: Vec<TxnId> = constraints.iter().map(|d| d.from).collect();
        while let Some(t) = work.pop() {
            if !std::mem::replace(&mut members[t.index()], true) {
                work.extend(view.session_predecessor(t));
                work.extend(view.reads(t).filter_map(|r| r.from));
                work.extend(before.successors(t.0).iter().map(|&p| TxnId(p)));
            }
        }
        InitialCycles { constraints, members }
    }

    /// Does a transaction lead to the initial one?
    pub fn contain(&self, t: TxnId) -> bool {
        self.members.get(t.index()) == Some(&true)
    }
}

fn constraints(view: &CommittedView<'_>, visibility: &mut impl Visibility) -> Vec<InitialConstraint> {
    let mut constraints = Vec::new();
    for t3 in view.committed().filter(|&t| view.reads(t).any(|r| r.from.is_none())) {
        visibility.enter(t3);
        for read in view.reads(t3).filter(|r| r.from.is_none()) {
            visibility.latest_writers(read, &mut |t2| {
                if t2 != t3 {
                    constraints.push(InitialConstraint { from: t2, read: read.op });
                }
            });
        }
        visibility.leave(t3);
    }
    constraints
}
