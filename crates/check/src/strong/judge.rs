//! Which strong levels to decide, in which order, and what goes on the builder.
//!
//! The strongest come first: a history that is strictly serializable needs no second search. Without real
//! time, the levels that need it are refuted through their session variants and never proven.

use super::explain;
use super::facts::Facts;
use super::model::{Family, Rules};
use super::open_lists;
use super::search::{self, Found, Progress, SearchOptions};
use crate::Request;
use crate::verdicts::JudgementBuilder;
use crate::view::CommittedView;
use crate::{Budget, OutOfBudget};
use anomalist_history::Index;
use anomalist_level::{self as level, Anomaly, AnomalyKind, Bound, Level, Refutation, Verdict, Why};
use std::cmp::Reverse;
use std::num::NonZeroUsize;
use std::sync::LazyLock;

/// The levels that this engine decides, strongest first; weak ones only where values repeat.
static LEVELS: LazyLock<Vec<Level>> = LazyLock::new(|| {
    let mut levels: Vec<Level> = Level::ALL.iter().copied().filter(|l| l.info().family.is_some()).collect();
    levels.sort_by_key(|level| (level.info().family, Reverse(level.bound())));
    levels
});

/// Decides what is asked for and still open.
pub(crate) fn judge(
    view: CommittedView<'_>,
    asked: &[Level],
    request: &Request,
    budget: &Budget<'_>,
    builder: &mut JudgementBuilder<'_>,
) {
    let timed = view.history.intervals().is_some();
    let repeats = view.index.ambiguous_reads() > 0;
    // Without predicates, some levels are others.
    let asks = |level: Level| asked.iter().any(|a| a.decided_as() == level);
    let needed = |level: Level| {
        let Some(family) = level.info().family else { return false };
        let searched = match family {
            level::Family::Serial
            | level::Family::Snapshot
            | level::Family::Prefix
            | level::Family::Parallel
            | level::Family::Updates => true,
            // Of these the other engines have decided all that have certain sources.
            level::Family::Visible(_) | level::Family::Flow | level::Family::Writes | level::Family::Cut => {
                repeats || request.search_only
            }
        };
        searched
            && match level.bound() {
                Bound::Data => asks(level),
                Bound::Session => {
                    asks(level) || !timed && Level::of(family, Bound::RealTime).is_some_and(asks)
                }
                Bound::RealTime => asks(level) && timed,
            }
    };
    let open = |builder: &JudgementBuilder<'_>| {
        LEVELS.iter().any(|&l| needed(l) && builder.get(l).is_none_or(undecided))
    };
    if !open(builder) {
        return;
    }
    if budget.is_over() {
        stop(builder, &needed);
        return;
    }
    let possible = repeats.then(|| Index::build_with_possible(view.history, NonZeroUsize::MIN));
    let facts = Facts::new(view, possible.as_ref().unwrap_or(view.index), request.search_only);
    let engine = Engine { view, facts: &facts, request, budget: budget.search(), needed: &needed };
    for &level in LEVELS.iter() {
        if needed(level) && builder.get(level).is_none_or(undecided) {
            if budget.is_over() {
                stop(builder, &needed);
                return;
            }
            engine.decide(level, builder);
            builder.close();
            budget.report(|| builder.known(view, asked));
        }
    }
}

/// Notes that there was no time to begin with what is left.
fn stop(builder: &mut JudgementBuilder<'_>, needed: &dyn Fn(Level) -> bool) {
    for level in LEVELS.iter().copied().filter(|&level| needed(level)) {
        if builder.get(level).is_none_or(undecided) {
            builder.decide(level, Verdict::Unknown(Why::Search(Progress::default())));
        }
    }
}

/// Consistent view (PL-2+) of a history whose every transaction is a session: there it is parallel snapshot
/// isolation. `None`: not decided.
pub(crate) fn parallel_without_sessions(
    view: CommittedView<'_>,
    budget: &Budget<'_>,
) -> Option<Result<(), (Anomaly, Refutation)>> {
    let facts = Facts::new(view, view.index, false);
    let rules = Rules::of(Level::ParallelSnapshotIsolation).filter(|_| facts.partial.is_empty())?;
    match search::decide(&facts, rules, SearchOptions::default(), budget, &mut Progress::default()).ok()? {
        Found::Holds(_) => Some(Ok(())),
        found => {
            let (mut anomaly, refutation) = explain::explain(view, &facts, rules, found, budget);
            if !Level::ConsistentView.forbids(anomaly.kind) {
                anomaly = Anomaly { kind: AnomalyKind::Pl2PlusCycleExists, ..anomaly };
            }
            (!refutation.steps.is_empty()).then_some(Err((anomaly, refutation)))
        }
    }
}

/// What refutes serializability refutes repeatable read, which is less: there are no predicates here.
fn refute(builder: &mut JudgementBuilder<'_>, level: Level, anomaly: Anomaly, refutation: Refutation) {
    builder.found(anomaly);
    let without_predicates = |l: &&Level| l.info().without_predicates == Some(level);
    let level = Level::CANONICAL.iter().find(without_predicates).copied().unwrap_or(level);
    if refutation.steps.is_empty() {
        // It is refuted, but there was no time left to write the proof down.
        builder.decide(level, Verdict::Violated);
    } else {
        builder.refute(level, refutation);
    }
}

fn undecided(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Unknown(_))
}

struct Engine<'a> {
    view: CommittedView<'a>,
    facts: &'a Facts<'a>,
    request: &'a Request,
    budget: Budget<'a>,
    /// The levels to decide.
    needed: &'a dyn Fn(Level) -> bool,
}

/// The level that asks for less order between transactions, and else for the same.
fn looser(level: Level) -> Option<Level> {
    let family = level.info().family?;
    let looser = Bound::ALL.into_iter().rev().filter(|bound| *bound < level.bound());
    looser.into_iter().find_map(|bound| Level::of(family, bound))
}

impl Engine<'_> {
    /// An order that keeps sessions is easier to find, and proves the level without them too. Notes the
    /// proof if there is one; a failure says nothing about the level.
    fn proves_session_variant(&self, level: Level, builder: &mut JudgementBuilder<'_>) -> bool {
        let family = level.info().family.filter(|_| level.bound() == Bound::Data);
        let Some(variant) = family.and_then(|family| Level::of(family, Bound::Session)) else { return false };
        if builder.is_settled(variant) || self.request.no_guess {
            return false;
        }
        let Some(rules) = Rules::of(variant) else { return false };
        let options = SearchOptions { no_saturation: self.request.no_saturation, ..SearchOptions::default() };
        let found = search::decide(self.facts, rules, options, &self.budget, &mut Progress::default());
        if let Ok(found) = &found {
            builder.beside(variant, matches!(found, Found::Holds(_)));
        }
        let Ok(Found::Holds(execution)) = found else { return false };
        builder.prove(level, execution);
        true
    }

    fn decide(&self, level: Level, builder: &mut JudgementBuilder<'_>) {
        let Some(rules) = Rules::by(level, self.request.definitions) else { return };
        if let Some(&(read, write)) = self.facts.partial.first().filter(|_| rules.follows_reads()) {
            let (anomaly, refutation) = explain::part_of_a_transaction(self.view, rules, read, write);
            refute(builder, level, anomaly, refutation);
            return;
        }
        // Levels that forgive faulty reads would have to know what those show of others.
        let forgiving = matches!(rules.family, Family::Flow | Family::Writes | Family::Cut);
        if forgiving && !self.facts.impossible.is_empty() {
            builder.decide(level, Verdict::Unknown(Why::UnexplainedRead));
            return;
        }
        if self.proves_session_variant(level, builder) {
            return;
        }
        let options =
            SearchOptions { no_guess: self.request.no_guess, no_saturation: self.request.no_saturation };
        let mut progress = Progress::default();
        match search::decide(self.facts, rules, options, &self.budget, &mut progress) {
            Ok(Found::Holds(_)) if self.facts.forgiven(rules).is_some() => {
                builder.decide(level, Verdict::Unknown(Why::ForgivenRead));
            }
            Ok(Found::Holds(execution))
                if rules.family == Family::Cut
                    && !open_lists::are_versions(self.facts, &execution.choices) =>
            {
                builder.decide(level, Verdict::Unknown(Why::RepeatedElements));
            }
            Ok(Found::Holds(execution)) => builder.prove(level, execution),
            Ok(_) if rules.family == Family::Writes && self.view.may_be_dirty() => {
                builder.decide(level, Verdict::Unknown(Why::DirtyRead));
            }
            Ok(found) => {
                // If the looser level is violated, its example is one of this level, and says more.
                let open = |level: &Level| (self.needed)(*level) && builder.get(*level).is_none_or(undecided);
                if let Some(looser) = looser(level).filter(open) {
                    self.decide(looser, builder);
                    builder.close();
                    if builder.get(level) == Some(&Verdict::Violated) {
                        return;
                    }
                }
                let (anomaly, refutation) =
                    explain::explain(self.view, self.facts, rules, found, &self.budget);
                refute(builder, level, anomaly, refutation);
            }
            Err(OutOfBudget) => builder.decide(level, Verdict::Unknown(Why::Search(progress))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strongest_levels_are_decided_first() {
        let names: Vec<&str> = LEVELS.iter().map(|level| level.name()).collect();
        assert!(names.starts_with(&["strict-serializable", "strong-session-serializable", "serializable"]));
        for (i, weaker) in LEVELS.iter().enumerate() {
            assert!(!LEVELS[..i].iter().any(|level| weaker.implies(*level)), "{weaker} comes too late");
        }
    }
}
