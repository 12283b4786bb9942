//! The same question asked another way: `check --cross-check`.
//!
//! Every level is decided again by algorithms that take another road, and the answers must not contradict
//! each other; an answer that one way leaves open contradicts nothing.
//!
//! - *Another order of search.* The weak levels are decided once by trying orders and repairing them, once
//!   by collecting every constraint at once; strong levels start from another order, and saturate or not.
//! - *The solver's encoding* of every level, weak ones and PL-1 to PL-3U too, against the engines for weak
//!   levels and for dependencies ([`Request::search_only`]). They share the index of reads, nothing else.
//! - *Declared levels*: the solver against a search that writes every constraint down and tries its sides
//!   in turn.
//! - *Timestamps against values*: a level that holds by timestamps (none of them equal) holds by values.

use crate::view::CommittedView;
use crate::view::ExternalReads;
use crate::{Budget, Inference, Request, check, mixed};
use anomalist_history::{History, Indexed};
use anomalist_level::{AnomalyKind, By, Family, Judgement, Level, LevelVerdict, Verdict};
use std::fmt;

/// Two answers of which at most one is right.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Disagreement {
    /// Verdicts on a level.
    Verdict {
        /// The level.
        level: Level,
        /// The answer given.
        given: Verdict,
        /// The other algorithm's.
        other: Verdict,
        /// What the other algorithm does.
        way: &'static str,
    },
    /// Verdicts on the levels that transactions declare.
    Mixed {
        /// The answer given.
        given: Verdict,
        /// The other algorithm's.
        other: Verdict,
    },
    /// Numbers of instances of an anomaly.
    Count {
        /// The anomaly.
        kind: AnomalyKind,
        /// The number given.
        given: u64,
        /// The other algorithm's.
        other: u64,
        /// What the other algorithm does.
        way: &'static str,
    },
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Disagreement::Verdict { level, given, other, way } => {
                write!(f, "{level} is {} here, but {} when {way}", given.name(), other.name())
            }
            Disagreement::Mixed { given, other } => {
                let (given, other) = (given.name(), other.name());
                write!(
                    f,
                    "the mix of declared levels is {given} here, but {other} when every choice is tried"
                )
            }
            Disagreement::Count { kind, given, other, way } => {
                write!(f, "{kind} is counted {given} times here, but {other} times when {way}")
            }
        }
    }
}

/// Decides everything again, in other ways, and compares.
pub fn cross_check(
    indexed: &Indexed<'_>,
    request: &Request,
    judgement: &Judgement,
    budget: &Budget<'_>,
) -> Vec<Disagreement> {
    let way =
        if request.no_guess { "orders are tried first" } else { "all constraints are collected at once" };
    let other = Request { no_guess: !request.no_guess, certificates: false, ..request.clone() };
    let mut found = compare(judgement, &check(indexed, &other, budget), way);
    found.extend(cross_check_mixed(indexed, judgement, budget));
    if request.anomalies.is_some() || request.inference != Inference::default() {
        // Assumptions are the dependency engine's alone, and a search does not look for single anomalies.
        return found;
    }
    // What a faulty list still says is the dependency engine's business alone.
    let loose = |level: Level| level.family().is_some_and(Family::forgives_reads);
    let comparable = |l: &LevelVerdict| indexed.index().faults().is_empty() || !loose(l.level);
    let levels: Vec<Level> =
        judgement.levels.iter().filter(|l| l.by == By::Values && comparable(l)).map(|l| l.level).collect();
    if levels.is_empty() {
        return found;
    }
    let other = Request { levels, search_only: true, no_saturation: !request.no_saturation, ..other };
    let mut second = check(indexed, &other, budget);
    second.levels.retain(comparable);
    found.extend(opposite(judgement, &second, "everything is left to the solver"));
    found
}

/// Decides the levels that transactions declare again.
fn cross_check_mixed(
    indexed: &Indexed<'_>,
    judgement: &Judgement,
    budget: &Budget<'_>,
) -> Option<Disagreement> {
    let given = &judgement.mixed.as_ref()?.verdict;
    let (history, index) = (indexed.history(), indexed.index());
    let reads = ExternalReads::new(history, index);
    let view = CommittedView { history, index, reads: &reads, assumed: &[] };
    let other = mixed::decide_by_trying(view, &budget.search())?;
    let pair = (given, &other);
    let opposite = matches!(pair, (Verdict::Holds, Verdict::Violated) | (Verdict::Violated, Verdict::Holds));
    opposite.then(|| Disagreement::Mixed { given: given.clone(), other })
}

/// Decides by values what holds by timestamps, unless equal timestamps had to be given the benefit of the
/// doubt.
pub fn cross_check_stamps(
    history: &History,
    judgement: &Judgement,
    budget: &Budget<'_>,
) -> Vec<Disagreement> {
    let holds = |l: &&LevelVerdict| l.by == By::Timestamps && l.verdict == Verdict::Holds;
    let levels: Vec<Level> = judgement.levels.iter().filter(holds).map(|l| l.level).collect();
    if levels.is_empty() || judgement.anomalies.iter().any(|a| a.kind == AnomalyKind::TieStamp) {
        return Vec::new();
    }
    let indexed = Indexed::new(history, std::num::NonZeroUsize::MIN);
    let by_values = check(&indexed, &Request { levels, ..Request::default() }, budget);
    let mut found = Vec::new();
    for given in judgement.levels.iter().filter(holds) {
        if by_values.verdict(given.level) == Some(&Verdict::Violated) {
            let (given, level) = (given.verdict.clone(), given.level);
            let (other, way) = (Verdict::Violated, "values decide");
            found.push(Disagreement::Verdict { level, given, other, way });
        }
    }
    found
}

/// Levels that hold in one judgement and are violated in the other.
fn opposite(given: &Judgement, other: &Judgement, way: &'static str) -> Vec<Disagreement> {
    let mut found = Vec::new();
    for a in &given.levels {
        for b in other.levels.iter().filter(|b| (b.level, b.by) == (a.level, a.by)) {
            let pair = (&a.verdict, &b.verdict);
            if matches!(pair, (Verdict::Holds, Verdict::Violated) | (Verdict::Violated, Verdict::Holds)) {
                let (given, other) = (a.verdict.clone(), b.verdict.clone());
                found.push(Disagreement::Verdict { level: a.level, given, other, way });
            }
        }
    }
    found
}

/// Where two judgements contradict each other. What the second leaves out or open contradicts nothing.
pub fn compare(given: &Judgement, other: &Judgement, way: &'static str) -> Vec<Disagreement> {
    let mut found = opposite(given, other, way);
    // Counts are comparable only if neither ran out of time.
    let open = |j: &Judgement| j.levels.iter().any(|l| matches!(l.verdict, Verdict::Unknown(_)));
    if open(given) != open(other) {
        return found;
    }
    for &kind in AnomalyKind::TAPS {
        let count = |j: &Judgement| j.anomalies.iter().find(|a| a.kind == kind).map_or(0, |a| a.count);
        if count(given) != count(other) {
            found.push(Disagreement::Count { kind, given: count(given), other: count(other), way });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use anomalist_level::Why;

    fn judged(verdict: Verdict) -> Judgement {
        let level = Level::Causal;
        let levels = vec![LevelVerdict { level, by: By::Values, verdict, anomalies: Vec::new() }];
        Judgement { levels, ..Judgement::default() }
    }

    #[test]
    fn only_opposite_verdicts_disagree() {
        let unknown = || Verdict::Unknown(Why::NotDecided);
        for (a, b, disagree) in [
            (Verdict::Holds, Verdict::Holds, false),
            (Verdict::Holds, Verdict::Violated, true),
            (Verdict::Violated, Verdict::Holds, true),
            (Verdict::Holds, unknown(), false),
            (unknown(), Verdict::Violated, false),
        ] {
            let found = compare(&judged(a), &judged(b), "compared");
            assert_eq!(!found.is_empty(), disagree, "{found:?}");
        }
    }
}
