//! The rows of a run with all their versions, in order and with their values as far as they were seen.
//!
//! A version is what a transaction left behind, so of several by one transaction the last. The order of a
//! row's versions is complete if the row was read at the end, or if its deletion showed its last list; only
//! such rows are here. A row whose inserting statement had no effect never was. Any other row makes its
//! table *incomplete*: nothing is concluded from a state of the whole table then.

use crate::record::{Executed, Outcome, Run, Step, writer_of};
use anomalist_databases::Value;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// A version that a transaction left behind.
pub struct Made<'r> {
    /// Its number among all versions of its table.
    pub number: usize,
    /// Place of the transaction and the step; none for the rows of the start and for rows that are not born.
    pub writer: Option<(usize, usize)>,
    /// The row in this version.
    pub state: State<'r>,
}

/// A row in one of its versions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum State<'r> {
    /// Not born, or deleted.
    Absent,
    /// Its list and its columns.
    Values(&'r str, &'r [Value]),
    /// No statement returned it with all its columns.
    Unknown,
}

/// A row with all its versions.
pub struct History<'r> {
    /// Its name.
    pub row: &'r str,
    /// Its last list.
    pub list: &'r str,
    /// In order.
    pub versions: Vec<Made<'r>>,
    /// The columns that were seen with each of its lists; none if two statements returned different ones.
    values: FxHashMap<&'r str, Option<&'r [Value]>>,
}

impl<'r> History<'r> {
    /// The row as a list describes it.
    pub fn state(&self, list: &'r str) -> State<'r> {
        state(&self.values, list)
    }

    /// The version that a transaction left behind.
    pub fn made_by(&self, place: usize) -> Option<usize> {
        self.versions.iter().position(|made| made.writer.is_some_and(|w| w.0 == place))
    }

    /// The last list up to and with the last element of these statements of a transaction.
    pub fn written_by(&self, txn: u64, is_one: impl Fn(usize) -> bool) -> Option<&'r str> {
        let (mut end, mut found) = (0, None);
        for element in self.list.split_inclusive(',') {
            end += element.len();
            let writer = writer_of(element.trim_end_matches(','));
            if writer.is_some_and(|(t, number)| t == txn && is_one(number)) {
                found = Some(&self.list[..end]);
            }
        }
        found
    }
}

fn state<'r>(values: &FxHashMap<&'r str, Option<&'r [Value]>>, list: &'r str) -> State<'r> {
    match values.get(list) {
        Some(Some(seen)) => State::Values(list, seen),
        _ => State::Unknown,
    }
}

/// The rows of a table.
#[derive(Default)]
pub struct TableRows<'r> {
    /// The names of its columns.
    pub columns: Vec<String>,
    /// Those whose order of versions is complete.
    pub rows: Vec<History<'r>>,
    /// How many versions they have.
    pub versions: usize,
}

/// The rows of a run, by table.
#[derive(Default)]
pub struct Histories<'r> {
    /// By the name of the table in small letters.
    pub tables: BTreeMap<String, TableRows<'r>>,
    /// Tables with rows whose order is not complete.
    pub incomplete: BTreeSet<String>,
    /// There are such rows of which the table is not known.
    pub lost_rows: bool,
    /// Tables in which rows change without a new version.
    pub silent: BTreeSet<String>,
}

/// What was seen of a row.
#[derive(Default)]
struct Seen<'r> {
    table: Option<String>,
    longest: &'r str,
    values: FxHashMap<&'r str, Option<&'r [Value]>>,
    /// The last list and who deleted it.
    deleted: Option<(&'r str, (usize, usize))>,
}

impl<'r> Histories<'r> {
    /// The rows of a run whose last transaction read every table; none if it did not.
    pub fn of(run: &'r Run) -> Option<Histories<'r>> {
        let end = run.transactions.last().filter(|t| t.outcome == Outcome::Committed)?;
        let places: FxHashMap<u64, usize> =
            run.transactions.iter().enumerate().map(|(i, t)| (t.id, i)).collect();
        let mut histories = Histories::default();
        let rows = histories.seen(run);
        let last: BTreeMap<&str, &str> =
            end.steps.iter().flat_map(|s| &s.rows).map(|v| (&*v.row, &*v.list)).collect();
        for (row, seen) in rows {
            if never_was(run, &places, row) {
                continue;
            }
            let closed = match seen.deleted {
                Some((list, _)) => list == seen.longest && !last.contains_key(row),
                None => last.get(row) == Some(&seen.longest),
            };
            let made = closed.then(|| versions(row, &seen, run, &places)).flatten();
            match (seen.table, made) {
                (Some(table), Some(mut versions)) => {
                    let table = histories.tables.entry(table).or_default();
                    for made in &mut versions {
                        made.number = table.versions;
                        table.versions += 1;
                    }
                    table.rows.push(History { row, list: seen.longest, versions, values: seen.values });
                }
                (Some(table), None) => _ = histories.incomplete.insert(table),
                (None, _) => histories.lost_rows = true,
            }
        }
        Some(histories)
    }

    /// What was seen of every row; notes the columns of tables.
    fn seen(&mut self, run: &'r Run) -> BTreeMap<&'r str, Seen<'r>> {
        let mut rows: BTreeMap<&str, Seen<'_>> = BTreeMap::new();
        for step in &run.start {
            self.values(step, &mut rows);
        }
        for (place, txn) in run.transactions.iter().enumerate() {
            for (at, step) in txn.steps.iter().enumerate() {
                for version in step.rows.iter().chain(&step.deleted) {
                    let seen = rows.entry(&version.row).or_default();
                    if version.list.len() > seen.longest.len() && txn.outcome == Outcome::Committed {
                        seen.longest = &version.list;
                    }
                }
                self.values(step, &mut rows);
                if txn.outcome == Outcome::Committed && !step.undone {
                    for version in &step.deleted {
                        if let Some(seen) = rows.get_mut(&*version.row) {
                            seen.deleted = Some((&version.list, (place, at)));
                        }
                    }
                }
            }
        }
        rows
    }
}

impl<'r> Histories<'r> {
    /// Notes the rows that a statement returned with all their columns.
    fn values(&mut self, step: &'r Step, rows: &mut BTreeMap<&'r str, Seen<'r>>) {
        let Some(table) = step.table.as_ref().map(|t| t.to_ascii_lowercase()) else { return };
        for whole in &step.whole {
            let seen = rows.entry(&whole.version.row).or_default();
            seen.table.get_or_insert_with(|| table.clone());
            let values = seen.values.entry(&whole.version.list).or_insert(Some(&whole.values));
            // A cascade of a foreign key changes a row and not its list.
            if values.is_some_and(|v| v != &whole.values[..]) {
                *values = None;
            }
        }
        let known = self.tables.entry(table).or_default();
        if known.columns.is_empty() {
            known.columns.clone_from(&step.columns);
        }
    }
}

/// Whether the statement that a row is named after had no effect.
fn never_was(run: &Run, places: &FxHashMap<u64, usize>, row: &str) -> bool {
    let Some((txn, number)) = inserter(row.trim_start_matches('r')) else { return false };
    let Some(txn) = places.get(&txn).map(|&place| &run.transactions[place]) else { return false };
    let undone = |txn: &Executed| txn.steps.iter().any(|s| s.number == number && s.undone);
    txn.outcome == Outcome::Aborted || undone(txn)
}

/// The statement in the name of a row; what follows its number is not always one.
fn inserter(name: &str) -> Option<(u64, usize)> {
    let mut parts = name.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn versions<'r>(
    row: &str,
    seen: &Seen<'r>,
    run: &Run,
    places: &FxHashMap<u64, usize>,
) -> Option<Vec<Made<'r>>> {
    let made = |writer: Option<(usize, usize)>, state: State<'r>| Made { number: 0, writer, state };
    // Rows of the start are called r1, r2, …; those of transactions have dots in their names.
    let first = if row.contains('.') { State::Absent } else { state(&seen.values, "") };
    let mut all = vec![made(None, first)];
    let mut add = |new: Made<'r>, place: usize| match all.last_mut() {
        // Only what a transaction left behind is a version.
        Some(last) if last.writer.is_some_and(|w| w.0 == place) => *last = new,
        _ => all.push(new),
    };
    let mut end = 0;
    for element in seen.longest.split_inclusive(',') {
        end += element.len();
        let (txn, number) = writer_of(element.trim_end_matches(','))?;
        let place = *places.get(&txn)?;
        let txn = &run.transactions[place];
        // The writer of an element that no statement of the run can have written is not of this run.
        let step = number.checked_sub(1).filter(|step| *step < txn.steps.len())?;
        if txn.outcome != Outcome::Committed {
            return None;
        }
        add(made(Some((place, step)), state(&seen.values, &seen.longest[..end])), place);
    }
    if let Some((_, writer)) = seen.deleted {
        add(made(Some(writer), State::Absent), writer.0);
    }
    Some(all)
}
