//! Dependencies through predicates (Adya 1999, 4.2.3), which IsoRel cannot see: rows that a statement did
//! not return.
//!
//! Every version of every row is known with its place in the row's order, and most of them with all their
//! values (`versions.rs`). Whether a version matches a condition, and what a statement answers on a state
//! of its tables, is decided by the server under test itself, after the run, in tables of our own
//! (`scratch.rs`). `question.rs` tells what a statement asks: about each row by itself (`rows.rs`) or about
//! whole tables (`states.rs`). What cannot be decided is counted with its reason.

mod question;
pub mod rows;
mod scratch;
mod states;
pub mod versions;

pub use question::{RowCondition, Unseen};

use crate::cascade::changes_silently;
use crate::instrument::Effect;
use crate::judge::dependencies_of;
use crate::namespace::Namespace;
use crate::record::{Outcome, Run, Step};
use anomalist_databases::Database;
use anomalist_graph::{Csr, components};
use anomalist_sqltext::ast::Statement;
use anomalist_sqltext::parse;
use question::{Question, Relations, StateQuestion};
use rows::RowQuestion;
use scratch::{Matching, Scratch};
use states::Case;
use std::collections::{BTreeMap, BTreeSet};
use versions::{Histories, Made, State};

/// The most statements that states of one run may cost.
const EFFORT: usize = 5_000;

/// In a run with more transactions, only of those that were open at the same time it is asked whether one
/// changed the other's answer.
const SMALL: usize = 64;

/// Which way a dependency through a predicate goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Direction {
    /// The transaction changed what matches before it was read.
    Read,
    /// The transaction changed what matches after it was read.
    Anti,
}

/// A dependency through a predicate, by places in the run.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PredicateLink {
    /// The transaction that read, and its step.
    pub reader: (usize, usize),
    /// The transaction that changed what matches, and its step.
    pub writer: (usize, usize),
    /// The row.
    pub row: String,
    /// Which comes first.
    pub direction: Direction,
}

/// What is known of a run's dependencies through predicates.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Decided {
    /// The dependencies.
    pub links: Vec<PredicateLink>,
    /// How many statements were decided.
    pub statements: usize,
    /// How many were not, by reason.
    pub unseen: BTreeMap<Unseen, usize>,
}

impl Decided {
    fn unseen(&mut self, why: Unseen, count: usize) {
        if count > 0 {
            *self.unseen.entry(why).or_default() += count;
        }
    }
}

/// Where conditions are decided.
pub struct Decider<'a> {
    /// The server under test.
    pub database: &'a dyn Database,
    /// Where the tables of the run were.
    pub namespace: &'a Namespace,
    /// What sessions began with.
    pub settings: &'a [String],
    /// Statements that made the tables and views, in order; others are passed over.
    pub definitions: Vec<&'a str>,
}

/// A question about whole tables: by which step, what, and the statement.
type StateAsked = ((usize, usize), StateQuestion, Statement);

/// The questions of a run.
#[derive(Default)]
struct Questions {
    rows: Vec<RowQuestion>,
    states: Vec<StateAsked>,
}

impl Decider<'_> {
    /// Decides the dependencies through predicates of a run whose last transaction read every table.
    pub fn decide(&self, run: &Run) -> Decided {
        let dialect = self.namespace.flavour().dialect();
        let made: Vec<Statement> = self.definitions.iter().filter_map(|d| parse(dialect, d).ok()).collect();
        let mut relations = Relations::default();
        made.iter().for_each(|statement| relations.learn(self.namespace.flavour(), statement));
        let mut decided = Decided::default();
        let questions = self.questions(run, &relations, &mut decided);
        let count = questions.rows.len() + questions.states.len();
        if count == 0 {
            return decided;
        }
        let Some(mut histories) = Histories::of(run) else {
            decided.unseen(Unseen::NoEnd, count);
            return decided;
        };
        let definitions = self.definitions.iter().copied();
        histories.silent = changes_silently(self.namespace.flavour(), definitions);
        match Scratch::open(self.database, self.namespace, self.settings, &made, &relations) {
            Ok(mut scratch) => answered(run, &histories, questions, &mut scratch, &mut decided),
            Err(_) => decided.unseen(Unseen::NoServer, count),
        }
        decided.links.sort();
        decided.links.dedup();
        decided
    }

    fn questions(&self, run: &Run, relations: &Relations, decided: &mut Decided) -> Questions {
        let flavour = self.namespace.flavour();
        let mut questions = Questions::default();
        for (place, txn) in run.transactions.iter().enumerate() {
            for (at, step) in txn.steps.iter().enumerate() {
                if txn.outcome != Outcome::Committed || !counts(step) {
                    continue;
                }
                let Ok(statement) = parse(flavour.dialect(), &step.text) else { continue };
                match relations.question(flavour, &statement) {
                    Err(why) => decided.unseen(why, 1),
                    Ok(Question::Nothing) => {}
                    Ok(Question::Rows(condition)) => {
                        questions.rows.push(RowQuestion { reader: (place, at), condition });
                    }
                    // What it saw of its own may have been taken back since.
                    Ok(Question::State(_)) if step.undone => decided.unseen(Unseen::Versions, 1),
                    Ok(Question::State(question)) => {
                        questions.states.push(((place, at), question, statement))
                    }
                }
            }
        }
        questions
    }
}

/// Whether what a statement read counts. What failed returned nothing, and that says nothing.
fn counts(step: &Step) -> bool {
    match step.effect {
        Effect::None => false,
        Effect::Read | Effect::LockingRead => !step.forgotten && step.failed.is_none(),
        Effect::Insert { .. } | Effect::Update | Effect::Delete | Effect::Replace => {
            !step.undone && step.failed.is_none()
        }
    }
}

type Truths = BTreeMap<RowCondition, Option<Matching>>;

fn answered(
    run: &Run,
    histories: &Histories<'_>,
    mut questions: Questions,
    scratch: &mut Scratch,
    decided: &mut Decided,
) {
    let truths = truths(histories, &questions, scratch);
    let matches = |condition: &RowCondition, made: &Made<'_>| {
        let known = truths.get(condition)?.as_ref().filter(|m| !m.unknown.contains(&made.number))?;
        Some(known.yes.contains(&made.number))
    };
    questions.rows.retain(|question| {
        let is_known = truths.get(&question.condition).is_some_and(Option::is_some);
        let why = match &question.condition.table {
            table if histories.silent.contains(table) => Some(Unseen::Versions),
            _ if is_known && agrees(run, histories, question, &matches) => None,
            _ => Some(Unseen::Refused),
        };
        why.iter().for_each(|why| decided.unseen(*why, 1));
        why.is_none()
    });
    decided.statements += questions.rows.len();
    decided.links.extend(rows::links(run, histories, &questions.rows, &matches));
    let case = |(reader, question, statement): &StateAsked| {
        Case::new(run, histories, *reader, (question.clone(), statement.clone()), &matches)
    };
    by_states(run, &questions.states, &case, scratch, decided);
}

/// What the server says to every condition.
fn truths(histories: &Histories<'_>, questions: &Questions, scratch: &mut Scratch) -> Truths {
    let rows = questions.rows.iter().map(|q| &q.condition);
    let states = questions.states.iter().filter_map(|(_, q, _)| q.matching.as_ref());
    let conditions: BTreeSet<&RowCondition> = rows.chain(states).collect();
    let mut numbers: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (name, table) in &histories.tables {
        if conditions.iter().any(|c| c.table == *name) && scratch.fill(name, table).is_ok() {
            let written = table.rows.iter().filter(|h| h.versions.len() > 1).flat_map(|h| &h.versions);
            let known = written.filter(|made| matches!(made.state, State::Values(..)));
            numbers.insert(name.clone(), known.map(|made| made.number).collect());
        }
    }
    let mut truths = Truths::new();
    let (mut asked, mut pointless) = (Vec::new(), Vec::new());
    for condition in conditions {
        match numbers.get(&condition.table).map(Vec::is_empty) {
            Some(false) => asked.push(condition),
            Some(true) => pointless.push(condition),
            // A table without rows has no versions; one that could not be filled has no answer.
            None if !histories.tables.contains_key(&condition.table) => pointless.push(condition),
            None => _ = truths.insert(condition.clone(), None),
        }
    }
    truths.extend(pointless.into_iter().map(|c| (c.clone(), Some(Matching::default()))));
    let answers = scratch.matching(&asked, &numbers);
    truths.extend(asked.into_iter().cloned().zip(answers));
    truths
}

/// Whether the versions that a query returned match its condition here, too. Otherwise it depends on
/// something that is not known here, such as a setting of its session.
fn agrees(
    run: &Run,
    histories: &Histories<'_>,
    question: &RowQuestion,
    matches: &dyn Fn(&RowCondition, &Made<'_>) -> Option<bool>,
) -> bool {
    let step = &run.transactions[question.reader.0].steps[question.reader.1];
    let Some(table) = histories.tables.get(&question.condition.table) else { return true };
    if !matches!(step.effect, Effect::Read | Effect::LockingRead) {
        return true;
    }
    let returned =
        |list: &str, row: &str| step.rows.binary_search_by(|v| (&*v.row, &*v.list).cmp(&(row, list))).is_ok();
    table.rows.iter().filter(|h| h.versions.len() > 1).all(|history| {
        history.versions.iter().all(|made| match made.state {
            State::Values(list, _) if returned(list, history.row) => {
                matches(&question.condition, made) == Some(true)
            }
            _ => true,
        })
    })
}

/// Decides the questions about whole tables, as far as they could be part of a cycle. A case has all rows of
/// its tables, so it is made twice rather than kept.
fn by_states<'h>(
    run: &Run,
    asked: &[StateAsked],
    case: &dyn Fn(&StateAsked) -> Result<Case<'h>, Unseen>,
    scratch: &mut Scratch,
    decided: &mut Decided,
) {
    let near = |a: usize, b: usize| {
        let ((from, to), (f, t)) = (run.transactions[a].interval, run.transactions[b].interval);
        run.transactions.len() <= SMALL || (from <= t && f <= to)
    };
    let mut possible: Vec<(&StateAsked, BTreeSet<usize>, BTreeSet<usize>)> = Vec::new();
    for one in asked {
        match case(one) {
            Ok(case) => {
                let (mut after, mut before) = case.may_depend();
                after.retain(|&writer| near(one.0.0, writer));
                before.retain(|&writer| near(one.0.0, writer));
                possible.push((one, after, before));
            }
            Err(why) => decided.unseen(why, 1),
        }
    }
    if possible.is_empty() {
        return;
    }
    let Ok(items) = dependencies_of(run) else {
        decided.unseen(Unseen::States, possible.len());
        return;
    };
    let mut edges: Vec<(u32, u32)> = items.iter().map(|l| (l.from as u32, l.to as u32)).collect();
    for link in &decided.links {
        edges.push(match link.direction {
            Direction::Anti => (link.reader.0 as u32, link.writer.0 as u32),
            Direction::Read => (link.writer.0 as u32, link.reader.0 as u32),
        });
    }
    for (one, after, before) in &possible {
        let reader = one.0.0 as u32;
        edges.extend(after.iter().map(|&writer| (reader, writer as u32)));
        edges.extend(before.iter().map(|&writer| (writer as u32, reader)));
    }
    let graph = Csr::from_edges(run.transactions.len(), || edges.iter().copied());
    let cycles = components(&graph);
    for (one, after, before) in possible {
        let reader = one.0.0;
        let wanted = |writer: usize| near(reader, writer) && cycles.share_cycle(reader as u32, writer as u32);
        if !after.iter().chain(&before).any(|&writer| wanted(writer)) {
            decided.statements += 1;
            continue;
        }
        let result = match scratch.asked < EFFORT {
            true => case(one).and_then(|case| case.decide(run, scratch, &wanted)),
            false => Err(Unseen::States),
        };
        match result {
            Ok(links) => {
                decided.statements += 1;
                decided.links.extend(links);
            }
            Err(why) => decided.unseen(why, 1),
        }
    }
}
