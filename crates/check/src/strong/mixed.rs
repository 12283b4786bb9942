//! Mixed levels: one order of events for all, each transaction under the rules of its own level.
//!
//! The definition is in `crate::mixed`. A transaction at a snapshot level has two events, any other has
//! one, and what a level asks it asks of its own transactions: that they follow their session, real time
//! and what they read, that their reads are the latest, that no other transaction writes their keys
//! meanwhile, that what is visible to them is not overlooked. So the search is the one for a single level,
//! proofs included; only saturation is left out, because sessions are no chains.

use super::explain;
use super::facts::Facts;
use super::model::Rules;
use super::search::{self, Found, Progress, SearchOptions};
use crate::Budget;
use crate::view::CommittedView;
use crate::view::returned;
use anomalist_history::{FaultKind, Index, OpId, TxnId};
use anomalist_level::{Certificate, Level, Reason, Refutation, Verdict, Why};
use std::num::NonZeroUsize;

/// What was found out.
pub(crate) struct Answer {
    pub verdict: Verdict,
    /// Who contradicts each other.
    pub transactions: Vec<TxnId>,
    pub proof: Option<Certificate>,
}

/// Decides a history whose transactions have these levels, which have rules; `None`: one of them has none.
pub(crate) fn decide(
    view: CommittedView<'_>,
    declared: &[Level],
    no_guess: bool,
    budget: &Budget<'_>,
) -> Option<Answer> {
    let own = |level: &Level| Rules::of(level.decided_as()).filter(|rules| rules.can_be_mixed());
    let declared: Vec<Rules<'static>> = declared.iter().map(own).collect::<Option<_>>()?;
    let rules = Rules::mixed(&declared);
    if let Some(reason) = impossible(view, rules) {
        return Some(violated(view, explain::at_once(reason)));
    }
    let repeats = view.index.ambiguous_reads() > 0;
    let possible = repeats.then(|| Index::build_with_possible(view.history, NonZeroUsize::MIN));
    // Lists that contradict each other have no order of appends to start from.
    let alone = view.index.faults().iter().any(|fault| fault.kind == FaultKind::IncompatibleOrder);
    let facts = Facts::with(view, possible.as_ref().unwrap_or(view.index), alone, true);
    let follows = |read: OpId| rules.own(view.history.txn_of(read)).follows_reads();
    if let Some(&(read, write)) = facts.partial.iter().find(|partial| follows(partial.0)) {
        let reason = Reason::Intermediate(returned(view.history, read, write));
        return Some(violated(view, explain::at_once(reason)));
    }
    let unknown = |why: Why| {
        let verdict = Verdict::Unknown(why);
        Some(Answer { verdict, transactions: Vec::new(), proof: None })
    };
    // Who did not take effect has a place in the order as well, unless the clock leaves none.
    if rules.real_time && facts.txns().any(|t| !facts.certain[t.index()]) {
        return unknown(Why::DeclaredUnknownOutcome);
    }
    let mut progress = Progress::default();
    let options = SearchOptions { no_guess, ..SearchOptions::default() };
    match search::decide(&facts, rules, options, budget, &mut progress) {
        Ok(Found::Holds(_)) if facts.forgiven(rules).is_some() => unknown(Why::ForgivenRead),
        Ok(Found::Holds(execution)) => {
            let proof = Some(Certificate::Holds(execution));
            Some(Answer { verdict: Verdict::Holds, transactions: Vec::new(), proof })
        }
        Ok(found) => {
            let (_, refutation) = explain::explain(view, &facts, rules, found, budget);
            Some(violated(view, refutation))
        }
        Err(_) => unknown(Why::Search(progress)),
    }
}

fn violated(view: CommittedView<'_>, refutation: Refutation) -> Answer {
    let (transactions, _) = refutation.names(view.history);
    let proof = (!refutation.steps.is_empty()).then_some(Certificate::Violated(refutation));
    Answer { verdict: Verdict::Violated, transactions, proof }
}

/// A read that the level of its transaction forbids, whatever the order. Of transactions that certainly
/// took effect.
fn impossible(view: CommittedView<'_>, rules: Rules<'_>) -> Option<Reason> {
    let forbidden = |t: TxnId, kind: FaultKind| {
        kind != FaultKind::IncompatibleOrder && rules.own(t).forbids(kind) && view.index.is_committed(t)
    };
    let mut faults = view.index.faults().iter();
    let fault = faults.find(|fault| forbidden(view.history.txn_of(fault.op), fault.kind))?;
    Some(match (fault.kind, fault.other) {
        (FaultKind::Intermediate, Some(write)) => {
            Reason::Intermediate(returned(view.history, fault.op, write))
        }
        _ => Reason::Impossible { read: fault.op },
    })
}
