//! Which strong levels to decide, in which order, and what goes on the board.
//!
//! The strongest come first: a history that is strictly serializable needs no second search. Without real time, the levels
//! that need it are refuted through their session variants and never proven.

use super::facts::Facts;
use super::model::{Family, Rules};
use super::open_lists;
use super::search::{self, Found, Progress, Ways};
use super::story;
use crate::Request;
use crate::verdicts::Board;
use crate::weak::Problem;
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
    problem: Problem<'_>,
    asked: &[Level],
    request: &Request,
    budget: &Budget<'_>,
    board: &mut Board<'_>,
) {
    let timed = problem.history.intervals().is_some();
    let repeats = problem.index.ambiguous_reads() > 0;
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
    let open = |board: &Board<'_>| LEVELS.iter().any(|&l| needed(l) && board.get(l).is_none_or(undecided));
    if !open(board) {
        return;
    }
    if budget.is_over() {
        stop(board, &needed);
        return;
    }
    let possible = repeats.then(|| Index::build_with_possible(problem.history, NonZeroUsize::MIN));
    let facts = Facts::new(problem, possible.as_ref().unwrap_or(problem.index), request.search_only);
    let engine = Engine { problem, facts: &facts, request, budget: budget.search(), needed: &needed };
    for &level in LEVELS.iter() {
        if needed(level) && board.get(level).is_none_or(undecided) {
            if budget.is_over() {
                stop(board, &needed);
                return;
            }
            engine.decide(level, board);
            board.close();
            budget.tell(|| board.known(problem, asked));
        }
    }
}

/// Notes that there was no time to begin with what is left.
fn stop(board: &mut Board<'_>, needed: &dyn Fn(Level) -> bool) {
    for level in LEVELS.iter().copied().filter(|&level| needed(level)) {
        if board.get(level).is_none_or(undecided) {
            board.decide(level, Verdict::Unknown(Why::Search(Progress::default())));
        }
    }
}

/// Consistent view (PL-2+) of a history whose every transaction is a session: there it is parallel snapshot isolation.
/// `None`: not decided.
pub(crate) fn parallel_without_sessions(
    problem: Problem<'_>,
    budget: &Budget<'_>,
) -> Option<Result<(), (Anomaly, Refutation)>> {
    let facts = Facts::new(problem, problem.index, false);
    let rules = Rules::of(Level::ParallelSnapshotIsolation).filter(|_| facts.partial.is_empty())?;
    match search::decide(&facts, rules, Ways::default(), budget, &mut Progress::default()).ok()? {
        Found::Holds(_) => Some(Ok(())),
        found => {
            let (mut anomaly, refutation) = story::tell(problem, &facts, rules, found, budget);
            if !Level::ConsistentView.forbids(anomaly.kind) {
                anomaly = Anomaly { kind: AnomalyKind::Pl2PlusCycleExists, ..anomaly };
            }
            (!refutation.steps.is_empty()).then_some(Err((anomaly, refutation)))
        }
    }
}

/// What refutes serializability refutes repeatable read, which is less: there are no predicates here.
fn refute(board: &mut Board<'_>, level: Level, anomaly: Anomaly, refutation: Refutation) {
    board.found(anomaly);
    let without_predicates = |l: &&Level| l.info().without_predicates == Some(level);
    let level = Level::CANONICAL.iter().find(without_predicates).copied().unwrap_or(level);
    if refutation.steps.is_empty() {
        // It is refuted, but there was no time left to write the proof down.
        board.decide(level, Verdict::Violated);
    } else {
        board.refute(level, refutation);
    }
}

fn undecided(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Unknown(_))
}

struct Engine<'a> {
    problem: Problem<'a>,
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
    /// An order that keeps sessions is easier to find, and proves the level without them too. Notes the proof if there is
    /// one; a failure says nothing about the level.
    fn proves_session_variant(&self, level: Level, board: &mut Board<'_>) -> bool {
        let family = level.info().family.filter(|_| level.bound() == Bound::Data);
        let Some(variant) = family.and_then(|family| Level::of(family, Bound::Session)) else { return false };
        if board.is_settled(variant) || self.request.no_guess {
            return false;
        }
        let Some(rules) = Rules::of(variant) else { return false };
        let ways = Ways { no_saturation: self.request.no_saturation, ..Ways::default() };
        match search::decide(self.facts, rules, ways, &self.budget, &mut Progress::default()) {
            Ok(Found::Holds(execution)) => {
                board.prove(level, execution);
                true
            }
            _ => false,
        }
    }

    fn decide(&self, level: Level, board: &mut Board<'_>) {
        let Some(rules) = Rules::by(level, self.request.definitions) else { return };
        if let Some(&(read, write)) = self.facts.partial.first().filter(|_| rules.follows_reads()) {
            let (anomaly, refutation) = story::part_of_a_transaction(self.problem, rules, read, write);
            refute(board, level, anomaly, refutation);
            return;
        }
        // Levels that forgive faulty reads would have to know what those show of others.
        let forgiving = matches!(rules.family, Family::Flow | Family::Writes | Family::Cut);
        if forgiving && !self.facts.impossible.is_empty() {
            board.decide(level, Verdict::Unknown(Why::UnexplainedRead));
            return;
        }
        if self.proves_session_variant(level, board) {
            return;
        }
        let ways = Ways { no_guess: self.request.no_guess, no_saturation: self.request.no_saturation };
        let mut progress = Progress::default();
        match search::decide(self.facts, rules, ways, &self.budget, &mut progress) {
            Ok(Found::Holds(_)) if self.facts.forgiven(rules).is_some() => {
                board.decide(level, Verdict::Unknown(Why::ForgivenRead));
            }
            Ok(Found::Holds(execution))
                if rules.family == Family::Cut
                    && !open_lists::are_versions(self.facts, &execution.choices) =>
            {
                board.decide(level, Verdict::Unknown(Why::RepeatedElements));
            }
            Ok(Found::Holds(execution)) => board.prove(level, execution),
            Ok(_) if rules.family == Family::Writes && self.problem.may_be_dirty() => {
                board.decide(level, Verdict::Unknown(Why::DirtyRead));
            }
            Ok(found) => {
                // If the looser level is violated, its example is one of this level, and says more.
                let open = |level: &Level| (self.needed)(*level) && board.get(*level).is_none_or(undecided);
                if let Some(looser) = looser(level).filter(open) {
                    self.decide(looser, board);
                    board.close();
                    if board.get(level) == Some(&Verdict::Violated) {
                        return;
                    }
                }
                let (anomaly, refutation) = story::tell(self.problem, self.facts, rules, found, &self.budget);
                refute(board, level, anomaly, refutation);
            }
            Err(OutOfBudget) => board.decide(level, Verdict::Unknown(Why::Search(progress))),
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
