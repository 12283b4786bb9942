//! Questions about whole tables: does another transaction's write change the answer?
//!
//! A statement saw some *state*: a version of every row of its tables. The rows that it returned or wrote,
//! and those that its transaction had written before, are known; of any other row it may have been every
//! version that existed when the statement answered. Each such state is loaded into tables on the server,
//! the statement runs on it, and the state is *possible* if it gives the very answer that was recorded,
//! with the same rows behind it. In a possible state,
//!
//! - a transaction W that made later versions of rows changes the answer if the statement answers
//!   differently once these versions replace the ones that it saw: reader → W by `rwp`;
//! - a transaction W that made versions which it saw has changed the answer if the statement answers
//!   differently with the versions before them: W → reader by `wr`.
//!
//! A dependency is concluded if it holds in every possible state, or `ww` leads to it (or from it) in those
//! in which it does not. Where there are too many states, versions are left out that had been overwritten
//! by a committed transaction before the reader's began. If the server did return such old ones, the first
//! kind of dependency is right all the same, because the versions of W are later still; the second kind is
//! not concluded then.
//!
//! This is Adya's definition of overwriting a predicate read (1999, 4.2.3) with all rows that W wrote taken
//! together: a change that W itself makes up for elsewhere is none. What a client cannot see changes no
//! answer: a further row under a MAX that stays the same is no dependency.
//!
//! Versions with the same values are one alternative, as no answer tells them apart. What the statement
//! answers must not depend on how rows are stored, so that every answer is asked for twice, the second time
//! with the rows in the opposite order. A question costs two loads and two statements for each state, and
//! for each writer in it; so only writers are looked at that could be in a cycle with the reader.

use super::question::{RowCondition, StateQuestion, Unseen};
use super::rows::{has_written, is_reported};
use super::scratch::{Answer, LoadedTable, Scratch, deleted, inserted, updated, visible};
use super::versions::{Histories, History, Made, State};
use super::{Direction, PredicateLink};
use crate::instrument::{Effect, Mark};
use crate::record::{Executed, Run, Step};
use anomalist_sqltext::ast::Statement;
use std::collections::{BTreeMap, BTreeSet};

/// The most states that are tried for one statement.
const STATES: usize = 32;

/// The most rows that a state may have.
const ROWS: usize = 20_000;

/// A row of a state: the alternatives for its version.
struct Choice<'h> {
    table: &'h str,
    history: &'h History<'h>,
    alternatives: Vec<Alternative<'h>>,
    /// Those that were not out of date when the reader began.
    recent: Vec<Alternative<'h>>,
    /// Later versions count up to here: from its own one on, `ww` says it already.
    end: usize,
    /// Its version is known from the answer, so that its dependencies are known without this module.
    known: bool,
}

/// Versions with the same values.
#[derive(Clone, Copy)]
struct Alternative<'h> {
    state: State<'h>,
    /// Places of the first and the last of them.
    first: usize,
    last: usize,
}

/// The transactions that change the answer in a state.
#[derive(Default)]
struct Effects {
    /// After it was read.
    after: BTreeSet<usize>,
    /// Before it was read.
    before: BTreeSet<usize>,
}

/// A statement that asks about whole tables, ready to be decided.
pub(super) struct Case<'h> {
    reader: (usize, usize),
    question: StateQuestion,
    statement: Statement,
    recorded: Answer,
    choices: Vec<Choice<'h>>,
    /// Old versions were left out.
    cut: bool,
    /// The columns of each table.
    columns: BTreeMap<&'h str, &'h [String]>,
}

impl<'h> Case<'h> {
    /// Collects what a statement may have seen. `matches` as for conditions on rows.
    pub fn new(
        run: &Run,
        histories: &'h Histories<'h>,
        reader: (usize, usize),
        (question, statement): (StateQuestion, Statement),
        matches: &dyn Fn(&RowCondition, &Made<'_>) -> Option<bool>,
    ) -> Result<Case<'h>, Unseen> {
        let txn = &run.transactions[reader.0];
        let step = &txn.steps[reader.1];
        let used = || question.tables.iter().chain(&question.target);
        if histories.lost_rows
            || used().any(|table| histories.incomplete.contains(table) || histories.silent.contains(table))
        {
            return Err(Unseen::Versions);
        }
        let mut choices = Vec::new();
        let mut columns = BTreeMap::new();
        for (name, table) in &histories.tables {
            if !used().any(|used| used == name) {
                continue;
            }
            columns.insert(name.as_str(), &table.columns[..]);
            if question.tables.contains(name) {
                for history in &table.rows {
                    let context = (run, reader, question.matching.as_ref());
                    choices.push(choice(context, name, history, matches)?);
                }
            }
        }
        if choices.len() > ROWS {
            return Err(Unseen::States);
        }
        // A table that was never seen with its columns had no rows, and cannot be loaded either.
        if used().any(|used| !columns.contains_key(used.as_str())) {
            return Err(Unseen::Versions);
        }
        let recorded = match &question.target {
            Some(target) => {
                Answer { visible: written(txn, step, &histories.tables[target].rows)?, rows: Vec::new() }
            }
            None => Answer { visible: visible(&step.visible), rows: step.rows.clone() },
        };
        let unknown = |choices: &[Choice<'_>]| {
            choices.iter().flat_map(|c| &c.alternatives).any(|a| a.state == State::Unknown)
        };
        let cut = states(&choices) > STATES || unknown(&choices);
        if cut {
            for choice in &mut choices {
                choice.alternatives = std::mem::take(&mut choice.recent);
            }
        }
        match states(&choices) {
            _ if unknown(&choices) => Err(Unseen::Versions),
            0 => Err(Unseen::Answer),
            1..=STATES => Ok(Case { reader, question, statement, recorded, choices, cut, columns }),
            _ => Err(Unseen::States),
        }
    }

    /// The transactions that may depend on the reader through this statement, or it on them.
    pub fn may_depend(&self) -> (BTreeSet<usize>, BTreeSet<usize>) {
        let (mut after, mut before) = (BTreeSet::new(), BTreeSet::new());
        for choice in self.choices.iter().filter(|c| !c.known) {
            let last = choice.alternatives.iter().map(|a| a.last).min().unwrap_or(usize::MAX);
            let first = choice.alternatives.iter().map(|a| a.first).max().unwrap_or(0);
            for (at, made) in choice.history.versions.iter().enumerate() {
                let Some((writer, _)) = made.writer.filter(|w| w.0 != self.reader.0) else { continue };
                if at > last && at < choice.end {
                    after.insert(writer);
                }
                if at <= first && !self.cut {
                    before.insert(writer);
                }
            }
        }
        (after, before)
    }

    /// The dependencies on these transactions.
    pub fn decide(
        &self,
        run: &Run,
        scratch: &mut Scratch,
        wanted: &dyn Fn(usize) -> bool,
    ) -> Result<Vec<PredicateLink>, Unseen> {
        let (after, before) = self.may_depend();
        let mut found: Vec<Effects> = Vec::new();
        for number in 0..states(&self.choices) {
            let state = self.state(number);
            if self.answer(run, scratch, &state)? != self.recorded {
                continue;
            }
            let mut effects = Effects::default();
            for &writer in after.iter().filter(|w| wanted(**w)) {
                if self.changes(run, scratch, self.with(&state, writer))? {
                    effects.after.insert(writer);
                }
            }
            for &writer in before.iter().filter(|w| wanted(**w)) {
                if self.changes(run, scratch, self.without(&state, writer))? {
                    effects.before.insert(writer);
                }
            }
            found.push(effects);
        }
        if found.is_empty() {
            return Err(Unseen::Answer);
        }
        Ok(self.concluded(&found))
    }

    /// What holds in every possible state.
    fn concluded(&self, found: &[Effects]) -> Vec<PredicateLink> {
        let after: Vec<&BTreeSet<usize>> = found.iter().map(|f| &f.after).collect();
        let before: Vec<&BTreeSet<usize>> = found.iter().map(|f| &f.before).collect();
        let later = in_every(&after, |writer, other| self.is_before(other, writer));
        let earlier = in_every(&before, |writer, other| self.is_before(writer, other));
        let anti = later.into_iter().filter_map(|writer| self.link(writer, Direction::Anti));
        let read = earlier.into_iter().filter_map(|writer| self.link(writer, Direction::Read));
        anti.chain(read).collect()
    }

    /// Whether one transaction wrote a row before another one did.
    fn is_before(&self, one: usize, other: usize) -> bool {
        self.choices.iter().any(|c| match (c.history.made_by(one), c.history.made_by(other)) {
            (Some(a), Some(b)) => a < b,
            _ => false,
        })
    }

    fn link(&self, writer: usize, direction: Direction) -> Option<PredicateLink> {
        let mut open = self.choices.iter().filter(|c| !c.known);
        let (row, writer) = open.find_map(|c| {
            let made = &c.history.versions[c.history.made_by(writer)?];
            Some((c.history.row.to_owned(), made.writer?))
        })?;
        Some(PredicateLink { reader: self.reader, writer, row, direction })
    }

    /// The state of this number: an alternative of each row.
    fn state(&self, mut number: usize) -> Vec<Alternative<'h>> {
        let mut state = Vec::with_capacity(self.choices.len());
        for choice in &self.choices {
            let count = choice.alternatives.len();
            state.push(choice.alternatives[number % count]);
            number /= count;
        }
        state
    }

    /// A state with the versions of a transaction that it did not have yet; none if there are none.
    fn with(&self, state: &[Alternative<'h>], writer: usize) -> Result<Option<Vec<State<'h>>>, Unseen> {
        let later = |seen: &Alternative<'_>, at: usize| at > seen.last;
        self.replaced(state, writer, later, 0)
    }

    /// A state with the versions before those of a transaction; none if it has none of them.
    fn without(&self, state: &[Alternative<'h>], writer: usize) -> Result<Option<Vec<State<'h>>>, Unseen> {
        let seen = |seen: &Alternative<'_>, at: usize| seen.first == at && seen.last == at;
        self.replaced(state, writer, seen, 1)
    }

    /// The version `back` before each one of a writer that is wanted.
    fn replaced(
        &self,
        state: &[Alternative<'h>],
        writer: usize,
        is_wanted: impl Fn(&Alternative<'_>, usize) -> bool,
        back: usize,
    ) -> Result<Option<Vec<State<'h>>>, Unseen> {
        let mut open = false;
        let mut made: Vec<State<'h>> = Vec::with_capacity(state.len());
        for (choice, seen) in self.choices.iter().zip(state) {
            match choice.history.made_by(writer).filter(|at| *at < choice.end && is_wanted(seen, *at)) {
                Some(at) => {
                    open |= !choice.known;
                    made.push(choice.history.versions[at - back].state);
                }
                None => made.push(seen.state),
            }
        }
        if open && made.contains(&State::Unknown) {
            return Err(Unseen::Versions);
        }
        Ok(open.then_some(made))
    }

    /// Whether the statement answers differently on another state.
    fn changes(
        &self,
        run: &Run,
        scratch: &mut Scratch,
        other: Result<Option<Vec<State<'h>>>, Unseen>,
    ) -> Result<bool, Unseen> {
        match other? {
            Some(states) => Ok(self.answered(run, scratch, &states)?.visible != self.recorded.visible),
            None => Ok(false),
        }
    }

    fn answer(&self, run: &Run, scratch: &mut Scratch, state: &[Alternative<'h>]) -> Result<Answer, Unseen> {
        let states: Vec<State<'h>> = state.iter().map(|a| a.state).collect();
        self.answered(run, scratch, &states)
    }

    /// The statement's answer on a state, which must not depend on the order of rows.
    fn answered(&self, run: &Run, scratch: &mut Scratch, states: &[State<'h>]) -> Result<Answer, Unseen> {
        let tables: Vec<LoadedTable<'_>> = self
            .columns
            .iter()
            .map(|(&name, &columns)| {
                let rows = self.choices.iter().zip(states).filter(|(c, _)| c.table == name);
                let rows = rows.filter_map(|(choice, state)| match *state {
                    State::Values(list, values) => Some((choice.history.row, list, values)),
                    _ => None,
                });
                LoadedTable { name, columns, rows: rows.collect() }
            })
            .collect();
        let mut ask = |backwards: bool| -> Result<Answer, Unseen> {
            scratch.load(&tables, backwards).map_err(|_| Unseen::Refused)?;
            let answer = match &self.question.target {
                None => scratch.query(&self.statement),
                Some(target) => {
                    let txn = &run.transactions[self.reader.0];
                    let mark = Mark::statement(txn.id, txn.steps[self.reader.1].number);
                    let target = tables.iter().find(|t| t.name == target).ok_or(Unseen::Versions)?;
                    scratch.write(&self.statement, &mark, target)
                }
            };
            answer.map_err(|_| Unseen::Refused)
        };
        let answer = ask(false)?;
        let several = tables.iter().any(|t| t.rows.len() > 1);
        if several && ask(true)? != answer {
            return Err(Unseen::Refused);
        }
        Ok(answer)
    }
}

/// The writers of some state that are in every one, or that `ww` connects with one that is.
fn in_every(states: &[&BTreeSet<usize>], connected: impl Fn(usize, usize) -> bool) -> BTreeSet<usize> {
    let all: BTreeSet<usize> = states.iter().flat_map(|s| s.iter().copied()).collect();
    let holds = |writer: usize, state: &BTreeSet<usize>| {
        state.contains(&writer) || state.iter().any(|&other| connected(writer, other))
    };
    all.into_iter().filter(|&writer| states.iter().all(|state| holds(writer, state))).collect()
}

/// How many states there are.
fn states(choices: &[Choice<'_>]) -> usize {
    choices.iter().fold(1, |count: usize, choice| count.saturating_mul(choice.alternatives.len()))
}

/// The versions of a row that a statement may have seen.
fn choice<'h>(
    (run, reader, matching): (&Run, (usize, usize), Option<&RowCondition>),
    table: &'h str,
    history: &'h History<'h>,
    matches: &dyn Fn(&RowCondition, &Made<'_>) -> Option<bool>,
) -> Result<Choice<'h>, Unseen> {
    let txn = &run.transactions[reader.0];
    let step = &txn.steps[reader.1];
    let end = history.made_by(reader.0).unwrap_or(history.versions.len());
    let made = |alternatives: Vec<Alternative<'h>>, recent: Vec<Alternative<'h>>, known: bool| {
        Ok(Choice { table, history, alternatives, recent, end, known })
    };
    let one = |state: State<'h>, at: usize| vec![Alternative { state, first: at, last: at }];
    if has_written(txn, reader.1, history) {
        let deletes = |m: &Made<'_>| m.state == State::Absent && m.writer.is_some_and(|w| w.1 < reader.1);
        let gone = history.versions.get(end).is_some_and(deletes);
        let list = history.written_by(txn.id, |number| number < step.number);
        let state = if gone { State::Absent } else { list.map_or(State::Unknown, |l| history.state(l)) };
        return made(one(state, end), one(state, end), true);
    }
    let is_read = matches!(step.effect, Effect::Read | Effect::LockingRead);
    if is_reported(txn, step, history) {
        let mut seen = step.rows.iter().filter(|v| *v.row == *history.row);
        let place = match (is_read, seen.next(), seen.next()) {
            (true, Some(version), None) => {
                let is_it =
                    |m: &Made<'_>| matches!(m.state, State::Values(list, _) if *list == *version.list);
                history.versions.iter().position(is_it)
            }
            (true, ..) => None,
            // What a statement wrote follows the version that it saw.
            (false, ..) => end.checked_sub(1),
        };
        let at = place.ok_or(Unseen::Versions)?;
        let state = history.versions[at].state;
        return made(one(state, at), one(state, at), true);
    }
    let sent = |(txn, step): (usize, usize)| run.transactions[txn].steps[step].interval.0;
    let existed = |made: &Made<'_>| made.writer.is_none_or(|writer| sent(writer) <= step.interval.1);
    let ended = |made: &Made<'_>| {
        made.writer.is_none_or(|(writer, _)| run.transactions[writer].interval.1 < txn.interval.0)
    };
    let newest = history.versions[..end].iter().rposition(ended).unwrap_or(0);
    let mut candidates: Vec<(usize, State<'h>)> = Vec::new();
    for (at, version) in history.versions[..end].iter().enumerate().filter(|(_, made)| existed(made)) {
        let state = match (matching, version.state) {
            (Some(condition), State::Values(..)) => match matches(condition, version) {
                Some(true) => continue,
                Some(false) => State::Absent,
                None => return Err(Unseen::Versions),
            },
            (_, state) => state,
        };
        candidates.push((at, state));
    }
    let recent = candidates.iter().copied().filter(|(at, _)| *at >= newest);
    made(alternatives(candidates.iter().copied()), alternatives(recent), false)
}

/// Versions, those with the same values together.
fn alternatives<'h>(versions: impl Iterator<Item = (usize, State<'h>)>) -> Vec<Alternative<'h>> {
    let mut found: Vec<Alternative<'h>> = Vec::new();
    for (at, state) in versions {
        let same = |a: &&mut Alternative<'h>| match (a.state, state) {
            (State::Values(_, x), State::Values(_, y)) => x == y,
            (x, y) => x == y,
        };
        match found.iter_mut().find(same) {
            Some(known) => known.last = at,
            None => found.push(Alternative { state, first: at, last: at }),
        }
    }
    found
}

/// What a statement left behind in its table, as it was recorded.
fn written(txn: &Executed, step: &Step, rows: &[History<'_>]) -> Result<Vec<String>, Unseen> {
    let own = format!("r{}.{}.", txn.id, step.number);
    // What a cascade deleted is not of this table.
    let of_table = |row: &str| rows.iter().any(|h| h.row == row);
    let gone = step.deleted.iter().filter(|v| of_table(&v.row));
    let mut found: Vec<String> = gone.map(|v| deleted(&v.row)).collect();
    for history in rows {
        let Some(list) = history.written_by(txn.id, |number| number == step.number) else { continue };
        let State::Values(_, values) = history.state(list) else { return Err(Unseen::Versions) };
        found.push(match history.row.starts_with(&own) {
            true => inserted(values),
            false => updated(history.row, values),
        });
    }
    found.sort_unstable();
    Ok(found)
}
