//! The same question asked another way: `check --cross-check`.
//!
//! Every level is decided again by an algorithm that takes another road, and the two answers must not contradict each other.
//! The weak levels are decided once by trying orders and mending them, once by collecting every demand at once; they share
//! the index and the classification of anomalies, but not the search. An answer that one way leaves open contradicts
//! nothing.

use crate::{Budget, Request, check};
use isolde_history::{History, Index};
use isolde_level::{AnomalyKind, Judgement, Level, Verdict};
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
            Disagreement::Count { kind, given, other, way } => {
                write!(f, "{kind} is counted {given} times here, but {other} times when {way}")
            }
        }
    }
}

/// Decides everything again, another way, and compares.
pub fn cross_check(
    history: &History,
    index: &Index,
    request: &Request,
    judgement: &Judgement,
    budget: &Budget<'_>,
) -> Vec<Disagreement> {
    let way = if request.no_guess { "orders are tried first" } else { "all demands are collected at once" };
    let other = Request { no_guess: !request.no_guess, certificates: false, ..request.clone() };
    compare(judgement, &check(history, index, &other, budget), way)
}

/// Where two judgements contradict each other. What the second leaves out or open contradicts nothing.
pub fn compare(given: &Judgement, other: &Judgement, way: &'static str) -> Vec<Disagreement> {
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
    // Counts are comparable only if neither ran out of time.
    let open = |j: &Judgement| j.levels.iter().any(|l| matches!(l.verdict, Verdict::Unknown { .. }));
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
    use isolde_level::{By, LevelVerdict};

    fn judged(verdict: Verdict) -> Judgement {
        let level = Level::Causal;
        let levels = vec![LevelVerdict { level, by: By::Values, verdict, anomalies: Vec::new() }];
        Judgement { levels, ..Judgement::default() }
    }

    #[test]
    fn only_opposite_verdicts_disagree() {
        let unknown = || Verdict::Unknown { reason: String::new() };
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
