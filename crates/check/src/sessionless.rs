//! Models of Elle's lattice that are a level of this program but for session order.
//!
//! In a history whose every transaction is a session of its own, session order says nothing, so:
//! - *consistent view* (Adya's PL-2+: neither G1 nor G-single) is parallel snapshot isolation there,
//!   `(wr ∪ ww)+ ; rw?` irreflexive. The search needs a clock entry per pair of transactions, so large
//!   histories are left out;
//! - *forward consistent view* (PL-FCV) is consistent view: it differs by the order of starts, of which a
//!   history without start timestamps says nothing, so that all transactions may have started before any
//!   committed.
//!
//! Only what other engines left open comes here, and no history with reads that nothing explains.

use crate::Budget;
use crate::strong;
use crate::verdicts::JudgementBuilder;
use crate::view::CommittedView;
use crate::view::ExternalReads;
use anomalist_history::Indexed;
use anomalist_level::{Level, Why};
use std::num::NonZeroUsize;

/// Transactions for which pairs fit into memory.
const LARGEST: usize = 4000;

/// Decides what is asked for and still open.
pub(crate) fn judge(
    view: CommittedView<'_>,
    asked: &[Level],
    budget: &Budget<'_>,
    builder: &mut JudgementBuilder<'_>,
) {
    let level = Level::ConsistentView;
    // What is canonical implies it, or has an engine of its own.
    let wanted = asked.iter().any(|a| a.implies(level) && !a.is_canonical());
    let explained = view.index.faults().is_empty() && view.index.ambiguous_reads() == 0;
    if !wanted || builder.is_settled(level) || !explained || !view.assumed.is_empty() {
        return;
    }
    if view.txn_count() > LARGEST {
        builder.unknown(level, Why::TooManyTransactions { limit: LARGEST });
        return;
    }
    let history = view.history.without_sessions();
    let indexed = Indexed::new(&history, NonZeroUsize::MIN);
    let reads = ExternalReads::new(&history, indexed.index());
    let alone = CommittedView { history: &history, index: indexed.index(), reads: &reads, assumed: &[] };
    match strong::parallel_without_sessions(alone, &budget.search()) {
        Some(Ok(())) => {
            builder.hold(level);
            builder.hold(Level::ForwardConsistentView);
        }
        Some(Err((anomaly, refutation))) => {
            builder.found(anomaly);
            builder.refute(level, refutation);
        }
        None => {}
    }
    builder.close();
}
