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
use crate::budget::{Budget, OutOfBudget};
use crate::verdicts::Board;
use crate::weak::Problem;
use anomalist_history::Index;
use anomalist_level::{Anomaly, AnomalyKind, Level, Refutation, Verdict, Why};
use std::num::NonZeroUsize;

/// The levels that this engine decides, strongest first; from causal on only where values repeat.
const LEVELS: [Level; 19] = [
    Level::StrictSerializable,
    Level::StrongSessionSerializable,
    Level::Serializable,
    Level::StrongSnapshotIsolation,
    Level::StrongSessionSnapshotIsolation,
    Level::SnapshotIsolation,
    Level::Prefix,
    Level::ParallelSnapshotIsolation,
    Level::UpdateSerializable,
    Level::Causal,
    Level::ReadAtomic,
    Level::ReadCommitted,
    Level::ReadYourWrites,
    Level::MonotonicReads,
    Level::MonotonicWrites,
    Level::WritesFollowReads,
    Level::AdyaReadCommitted,
    Level::ReadUncommitted,
    Level::CutIsolation,
];

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
    let needed = |level: Level| match level {
        Level::StrictSerializable | Level::StrongSnapshotIsolation => timed && asked.contains(&level),
        // Without predicates, repeatable read is serializability.
        Level::Serializable => asked.contains(&level) || asked.contains(&Level::RepeatableRead),
        Level::StrongSessionSerializable => {
            asked.contains(&level) || !timed && asked.contains(&Level::StrictSerializable)
        }
        Level::StrongSessionSnapshotIsolation => {
            asked.contains(&level) || !timed && asked.contains(&Level::StrongSnapshotIsolation)
        }
        Level::Prefix
        | Level::ParallelSnapshotIsolation
        | Level::SnapshotIsolation
        | Level::UpdateSerializable => asked.contains(&level),
        // Of these the other engines have decided all that have certain sources.
        _ => (repeats || request.search_only) && asked.contains(&level),
    };
    let open =
        |board: &Board<'_>| LEVELS.into_iter().find(|&l| needed(l) && board.get(l).is_none_or(undecided));
    if open(board).is_none() {
        return;
    }
    if budget.is_over() {
        stop(board, &needed);
        return;
    }
    let possible = repeats.then(|| Index::build_with_possible(problem.history, NonZeroUsize::MIN));
    let facts = Facts::new(problem, possible.as_ref().unwrap_or(problem.index), request.search_only);
    let engine = Engine { problem, facts: &facts, request, budget: budget.search(), needed: &needed };
    for level in LEVELS {
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
    for level in LEVELS.into_iter().filter(|&level| needed(level)) {
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

/// Without predicates, what refutes serializability refutes repeatable read, which is less.
fn refute(board: &mut Board<'_>, level: Level, anomaly: Anomaly, refutation: Refutation) {
    board.found(anomaly);
    let level = if level == Level::Serializable { Level::RepeatableRead } else { level };
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
    Some(match level {
        Level::StrictSerializable => Level::StrongSessionSerializable,
        Level::StrongSessionSerializable => Level::Serializable,
        Level::StrongSnapshotIsolation => Level::StrongSessionSnapshotIsolation,
        Level::StrongSessionSnapshotIsolation => Level::SnapshotIsolation,
        _ => return None,
    })
}

impl Engine<'_> {
    /// An order that keeps sessions is easier to find, and proves the level without them too. Notes the proof if there is
    /// one; a failure says nothing about the level.
    fn proves_session_variant(&self, level: Level, board: &mut Board<'_>) -> bool {
        let variant = match level {
            Level::Serializable => Level::StrongSessionSerializable,
            Level::SnapshotIsolation => Level::StrongSessionSnapshotIsolation,
            _ => return false,
        };
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
