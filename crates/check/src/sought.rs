//! Anomalies that were asked for by name: which engines they need, and when it is decided that there is
//! none.
//!
//! Reads that no write explains, non-repeatable reads and the patterns of the weak engine are counted
//! completely (Plume, Theorems 2 to 5), so what was not found is not there; unless values repeat and
//! sources are open. Of cycles in the graph of dependencies a bounded number is looked at. That there is
//! none of a kind follows from a level that forbids the kind and holds, so that level is decided, as if it
//! had been asked for. Costs what the engines cost that are needed.

use crate::Budget;
use crate::Request;
use crate::adya::{Analyser, Registers};
use crate::verdicts::{self, JudgementBuilder};
use crate::view::CommittedView;
use crate::weak::Guarantee;
use anomalist_level::{AnomalyKind, Level, Sought, Verdict, Why};

/// The levels about which the engine for dependencies has to be asked. Nothing, if patterns answer
/// everything.
pub(crate) fn needed(request: &Request, asked: &[Level]) -> Vec<Level> {
    match &request.anomalies {
        Some(kinds) if request.levels.is_empty() => {
            kinds.iter().filter(|kind| !is_pattern(**kind)).flat_map(|kind| kind.rules_out()).collect()
        }
        _ => asked.to_vec(),
    }
}

/// Whether instances are counted completely, without the graph of dependencies.
fn is_pattern(kind: AnomalyKind) -> bool {
    let lists = [AnomalyKind::DuplicateElements, AnomalyKind::IncompatibleOrder];
    AnomalyKind::TAPS.contains(&kind)
        || lists.contains(&kind)
        || Guarantee::ALL.into_iter().any(|guarantee| guarantee.violation() == kind)
}

/// The answer for each kind that was asked for, but those of timestamps.
pub(crate) fn answers(
    view: CommittedView<'_>,
    registers: &Registers,
    (request, kinds): (&Request, &[AnomalyKind]),
    analysers: &[&dyn Analyser],
    budget: &Budget<'_>,
    builder: &JudgementBuilder<'_>,
) -> Vec<(AnomalyKind, Sought)> {
    let counted = view.index.ambiguous_reads() == 0;
    let answer = |kind: AnomalyKind| {
        if builder.shows(view, kind) {
            return Sought::Found;
        }
        if builder.interrupted || budget.is_spent() {
            return Sought::Unknown(Why::Stopped);
        }
        if counted && is_pattern(kind) {
            return Sought::Absent;
        }
        let levels = kind.rules_out();
        if levels.is_empty() {
            return Sought::Unknown(Why::NoLevelForbids);
        }
        let whole =
            Request { levels: levels.clone(), anomalies: None, certificates: false, ..request.clone() };
        let judgement = verdicts::judge(view, registers, &whole, analysers, &budget.aside());
        match levels.iter().any(|&level| judgement.verdict(level) == Some(&Verdict::Holds)) {
            true => Sought::Absent,
            false => Sought::Unknown(Why::CyclesLeft),
        }
    };
    kinds.iter().filter(|kind| !kind.is_stamp()).map(|&kind| (kind, answer(kind))).collect()
}
