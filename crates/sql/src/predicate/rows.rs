//! Queries that look at each row of one table by itself: rows that they left out.
//!
//! Such a query selects a version of every row. A row that it did not return was selected in a version that
//! does not match its condition: not born yet, deleted, or with other values. Let C be the versions that
//! may have been the one: those not known to match. Then
//!
//! - the version after the last of C, if there is one, made the row match after it was read: reader →
//!   writer by `rwp`;
//! - the first of C, if it is known not to match and is not the initial one, made the row stop to match:
//!   writer → reader by `wr`.
//!
//! Both hold whichever of C it was, as `ww` leads on to the next writer. If all of C were made after the
//! query had answered, nothing explains why it left the row out, and nothing is concluded: InnoDB loses
//! sight of a row whose old key the reader itself took (docs/sql.md). The same holds for the conditions of
//! `UPDATE` and `DELETE`; what they left out they did not write.

use super::question::RowCondition;
use super::versions::{Histories, History, Made, State};
use super::{Direction, PredicateLink};
use crate::instrument::Effect;
use crate::record::{Executed, Run, Step, Version};

/// A statement that asks a condition of each row of a table: place of its transaction, and of the step.
pub struct RowQuestion {
    /// Place of the transaction, and of the step in it.
    pub reader: (usize, usize),
    /// What it asks.
    pub condition: RowCondition,
}

/// The dependencies of these questions. `matches` says whether a version matches a condition, if that is
/// known; it is not asked about rows that are absent.
pub fn links(
    run: &Run,
    histories: &Histories<'_>,
    questions: &[RowQuestion],
    matches: &dyn Fn(&RowCondition, &Made<'_>) -> Option<bool>,
) -> Vec<PredicateLink> {
    let mut found = Vec::new();
    for RowQuestion { reader, condition } in questions {
        let Some(table) = histories.tables.get(&condition.table) else { continue };
        let txn = &run.transactions[reader.0];
        let step = &txn.steps[reader.1];
        let matches = |made: &Made<'_>| match made.state {
            State::Absent => Some(false),
            State::Unknown => None,
            State::Values(..) => matches(condition, made),
        };
        let sent = |(txn, step): (usize, usize)| run.transactions[txn].steps[step].interval.0;
        let existed = |made: &Made<'_>| made.writer.is_none_or(|writer| sent(writer) <= step.interval.1);
        // A row that no transaction wrote has no writer to depend on.
        for history in table.rows.iter().filter(|h| h.versions.len() > 1) {
            if !is_reported(txn, step, history) && !has_written(txn, reader.1, history) {
                left_out(*reader, history, matches, existed, &mut found);
            }
        }
    }
    found
}

/// Whether a statement returned a row, or wrote it.
pub(super) fn is_reported(txn: &Executed, step: &Step, history: &History<'_>) -> bool {
    let writes = !matches!(step.effect, Effect::Read | Effect::LockingRead);
    is_named(&step.rows, history.row)
        || is_named(&step.deleted, history.row)
        || (writes && history.written_by(txn.id, |number| number == step.number).is_some())
}

/// Whether a transaction wrote a row before one of its steps, as far as that is known.
pub(super) fn has_written(txn: &Executed, at: usize, history: &History<'_>) -> bool {
    let number = txn.steps[at].number;
    txn.steps[..at].iter().any(|s| touched(s, history.row))
        || history.written_by(txn.id, |written| written < number).is_some()
}

/// Whether one of these versions, which are sorted, is of this row.
fn is_named(versions: &[Version], row: &str) -> bool {
    versions.binary_search_by(|v| (*v.row).cmp(row)).is_ok()
}

/// Whether a statement wrote a row, as far as its result says.
fn touched(step: &Step, row: &str) -> bool {
    if matches!(step.effect, Effect::Read | Effect::LockingRead | Effect::None) {
        return false;
    }
    let named = is_named(&step.rows, row) || is_named(&step.deleted, row);
    // An UPDATE that was taken back, changed rows and returned nothing may have written any row. The lists
    // show what the others wrote.
    let silent = step.undone && step.rows.is_empty() && step.deleted.is_empty() && step.affected > 0;
    named || silent || step.inserted.iter().any(|r| &**r == row)
}

fn left_out(
    reader: (usize, usize),
    history: &History<'_>,
    matches: impl Fn(&Made<'_>) -> Option<bool>,
    existed: impl Fn(&Made<'_>) -> bool,
    found: &mut Vec<PredicateLink>,
) {
    // The reader had not written the row yet, so its own version and all that follow did not exist.
    let end = history.made_by(reader.0).unwrap_or(history.versions.len());
    let matches: Vec<Option<bool>> = history.versions[..end].iter().map(matches).collect();
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
