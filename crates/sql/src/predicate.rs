//! Dependencies through predicates (Adya 1999, 4.2.3), which IsoRel cannot see: rows that a query did not
//! return.
//!
//! A query of one table selects a version of every row of it. A row that it did not return was selected in
//! a version that does not match its condition: not born yet, deleted, or with other values. Every version
//! is known here with its place in the row's order, and most of them with all their values, so let C be the
//! versions that may have been the one: those not known to match. Then
//!
//! - the version after the last of C, if there is one, made the row match after it was read: reader →
//!   writer by `rwp`;
//! - the first of C, if it is known not to match and is not the initial one, made the row stop to match:
//!   writer → reader by `wr`.
//!
//! Both hold whichever of C it was, as `ww` leads on to the next writer. Versions are those that
//! transactions left behind, so of several by one transaction the last. A row counts only if its order is
//! complete: it was read at the end, or its deletion showed its last list. If all of C were made after the
//! query had answered, nothing explains why it left the row out, and nothing is concluded: InnoDB loses
//! sight of a row whose old key the reader itself took (docs/sql.md). Queries with a limit, with subqueries
//! or of several tables say nothing here.

use crate::Flavour;
use crate::evaluate::{Row, Truth, condition};
use crate::instrument::Effect;
use crate::record::{Outcome, Run, Step, writer_of};
use anomalist_databases::Value;
use anomalist_sqltext::ast::{Expr, Query, SetExpr, Statement, TableFactor, Visitor};
use anomalist_sqltext::parse;
use anomalist_sqltext::walk;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

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

/// A version that a transaction left behind.
struct Made<'r> {
    /// Place of the transaction and the step; none for the rows of the start and for rows that are not born.
    writer: Option<(usize, usize)>,
    state: State<'r>,
}

enum State<'r> {
    /// Not born, or deleted.
    Absent,
    Values(&'r [Value]),
    Unknown,
}

/// A row with all its versions.
struct History<'r> {
    row: &'r str,
    versions: Vec<Made<'r>>,
}

/// All dependencies through predicates of a run whose last transaction read every table.
pub fn links(flavour: Flavour, run: &Run) -> Vec<PredicateLink> {
    let Some(tables) = tables(run) else { return Vec::new() };
    let mut found = Vec::new();
    for (place, txn) in run.transactions.iter().enumerate().filter(|(_, t)| t.outcome == Outcome::Committed) {
        for (at, step) in txn.steps.iter().enumerate() {
            // What failed returned nothing, and that says nothing.
            if step.effect != Effect::Read || step.forgotten || step.failed.is_some() {
                continue;
            }
            let Some((table, selection)) = predicate(flavour, &step.text) else { continue };
            let Some((columns, rows)) = tables.get(table.as_str()) else { continue };
            let written = |row: &str| txn.steps[..at].iter().any(|s| touched(s, row));
            for history in rows {
                let returned = step.rows.binary_search_by(|v| (*v.row).cmp(history.row)).is_ok();
                if !returned && !written(history.row) {
                    let truth = |made: &Made<'_>| match made.state {
                        State::Absent => Truth::False,
                        State::Unknown => Truth::Unknown,
                        State::Values(values) => match &selection {
                            None => Truth::True,
                            Some(expr) => condition(expr, Row { columns, values }),
                        },
                    };
                    let sent = |(txn, step): (usize, usize)| run.transactions[txn].steps[step].interval.0;
                    let existed =
                        |made: &Made<'_>| made.writer.is_none_or(|writer| sent(writer) <= step.interval.1);
                    left_out((place, at), history, truth, existed, &mut found);
                }
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

fn left_out(
    reader: (usize, usize),
    history: &History<'_>,
    truth: impl Fn(&Made<'_>) -> Truth,
    existed: impl Fn(&Made<'_>) -> bool,
    found: &mut Vec<PredicateLink>,
) {
    let own = |made: &Made<'_>| made.writer.is_some_and(|w| w.0 == reader.0);
    // The reader had not written the row yet, so its own version and all that follow did not exist.
    let end = history.versions.iter().position(own).unwrap_or(history.versions.len());
    let matches: Vec<Option<bool>> =
        history.versions[..end].iter().map(|made| truth(made).matches()).collect();
    let mut candidates = (0..end).filter(|&i| matches[i] != Some(true));
    let Some(first) = candidates.next().filter(|&first| existed(&history.versions[first])) else { return };
    let last = candidates.next_back().unwrap_or(first);
    let mut add = |at: usize, direction: Direction| {
        if let Some(writer) = history.versions[at].writer {
            found.push(PredicateLink { reader, writer, row: history.row.to_owned(), direction });
        }
    };
    // If the next version is the reader's own, it changed what matches itself.
    if last + 1 < end {
        add(last + 1, Direction::Anti);
    }
    if first > 0 && matches[first] == Some(false) {
        add(first, Direction::Read);
    }
}

/// Whether a statement wrote a row, as far as its result says.
fn touched(step: &Step, row: &str) -> bool {
    let writes = !matches!(step.effect, Effect::Read | Effect::LockingRead | Effect::None);
    let named = step.rows.iter().chain(&step.deleted).any(|v| &*v.row == row);
    // An UPDATE that changed rows and returned nothing may have written any row.
    let silent = step.rows.is_empty() && step.deleted.is_empty() && step.affected > 0;
    writes && (named || silent || step.inserted.iter().any(|r| &**r == row))
}

/// The table and the condition of a query of one table.
fn predicate(flavour: Flavour, text: &str) -> Option<(String, Option<Expr>)> {
    let Ok(Statement::Query(query)) = parse(flavour.dialect(), text) else { return None };
    if query.limit_clause.is_some() || query.with.is_some() || query.fetch.is_some() {
        return None;
    }
    let SetExpr::Select(select) = *query.body else { return None };
    let [from] = &select.from[..] else { return None };
    let TableFactor::Table { name, .. } = &from.relation else { return None };
    if !from.joins.is_empty() || select.having.is_some() {
        return None;
    }
    if select.selection.as_ref().is_some_and(|s| walk::read(s, &mut Subqueries).is_break()) {
        return None;
    }
    Some((name.to_string(), select.selection))
}

struct Subqueries;

impl Visitor for Subqueries {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}

type Tables<'r> = BTreeMap<&'r str, (Vec<String>, Vec<History<'r>>)>;

/// The rows of every table with their versions; only those whose order is complete.
fn tables(run: &Run) -> Option<Tables<'_>> {
    let end = run.transactions.last().filter(|t| t.outcome == Outcome::Committed)?;
    let places: FxHashMap<u64, usize> = run.transactions.iter().enumerate().map(|(i, t)| (t.id, i)).collect();
    // Per row: its table, its longest list, and the values of each of its lists.
    struct Seen<'r> {
        table: Option<&'r str>,
        longest: &'r str,
        values: FxHashMap<&'r str, &'r [Value]>,
        /// The last list and who deleted it.
        deleted: Option<(&'r str, (usize, usize))>,
    }
    let mut rows: BTreeMap<&str, Seen<'_>> = BTreeMap::new();
    let mut columns: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (place, txn) in run.transactions.iter().enumerate() {
        for (at, step) in txn.steps.iter().enumerate() {
            for version in step.rows.iter().chain(&step.deleted) {
                let seen = rows.entry(&version.row).or_insert_with(|| Seen {
                    table: None,
                    longest: "",
                    values: FxHashMap::default(),
                    deleted: None,
                });
                if version.list.len() > seen.longest.len() && txn.outcome == Outcome::Committed {
                    seen.longest = &version.list;
                }
            }
            if let Some(table) = &step.table {
                for whole in &step.whole {
                    if let Some(seen) = rows.get_mut(&*whole.version.row) {
                        seen.table = Some(table);
                        seen.values.insert(&whole.version.list, &whole.values);
                    }
                }
                columns.entry(table).or_insert_with(|| step.columns.clone());
            }
            if txn.outcome == Outcome::Committed && !step.undone {
                for version in &step.deleted {
                    if let Some(seen) = rows.get_mut(&*version.row) {
                        seen.deleted = Some((&version.list, (place, at)));
                    }
                }
            }
        }
    }
    let last: BTreeMap<&str, &str> =
        end.steps.iter().flat_map(|s| &s.rows).map(|v| (&*v.row, &*v.list)).collect();
    let mut tables: Tables<'_> = BTreeMap::new();
    for (row, seen) in rows {
        let closed = match seen.deleted {
            Some((list, _)) => list == seen.longest && !last.contains_key(row),
            None => last.get(row) == Some(&seen.longest),
        };
        let Some(table) = seen.table.filter(|_| closed) else { continue };
        let Some(versions) =
            versions(row, seen.longest, &seen.values, seen.deleted.map(|d| d.1), run, &places)
        else {
            continue;
        };
        let Some(names) = columns.get(table) else { continue };
        tables.entry(table).or_insert_with(|| (names.clone(), Vec::new())).1.push(History { row, versions });
    }
    Some(tables)
}

fn versions<'r>(
    row: &str,
    list: &'r str,
    values: &FxHashMap<&'r str, &'r [Value]>,
    deleted: Option<(usize, usize)>,
    run: &Run,
    places: &FxHashMap<u64, usize>,
) -> Option<Vec<Made<'r>>> {
    let state = |list: &str| values.get(list).map_or(State::Unknown, |v| State::Values(v));
    // Rows of the start are called r1, r2, …; those of transactions have dots in their names.
    let mut made =
        vec![Made { writer: None, state: if row.contains('.') { State::Absent } else { state("") } }];
    let mut end = 0;
    for element in list.split_inclusive(',') {
        end += element.len();
        let (txn, number) = writer_of(element.trim_end_matches(','))?;
        let place = *places.get(&txn)?;
        let txn = &run.transactions[place];
        // The writer of an element that no statement of the run can have written is not of this run.
        let step = number.checked_sub(1).filter(|step| *step < txn.steps.len())?;
        if txn.outcome != Outcome::Committed {
            return None;
        }
        let new = Made { writer: Some((place, step)), state: state(&list[..end]) };
        match made.last_mut() {
            // Only what a transaction left behind is a version.
            Some(last) if last.writer.is_some_and(|w| w.0 == place) => *last = new,
            _ => made.push(new),
        }
    }
    if let Some(writer) = deleted {
        let new = Made { writer: Some(writer), state: State::Absent };
        match made.last_mut() {
            Some(last) if last.writer.is_some_and(|w| w.0 == writer.0) => *last = new,
            _ => made.push(new),
        }
    }
    Some(made)
}
