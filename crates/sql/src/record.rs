//! What a run observed: every transaction with its statements, and what each of them returned.

use crate::instrument::{AuxColumns, Capture, Effect};
use anomalist_databases::{Error, Reply, Value};

/// A version of a row: its name, and the list of who wrote it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Version {
    /// `rowId`
    pub row: Box<str>,
    /// `wList`: elements, each with a comma after it.
    pub list: Box<str>,
}

impl Version {
    /// The elements of the list.
    pub fn elements(&self) -> impl Iterator<Item = &str> {
        self.list.split(',').filter(|e| !e.is_empty())
    }
}

/// Who wrote an element: transaction and statement.
pub fn writer_of(element: &str) -> Option<(u64, usize)> {
    let (txn, statement) = element.split_once('.')?;
    Some((txn.parse().ok()?, statement.parse().ok()?))
}

/// A row with all its columns, as some statement returned it.
#[derive(Clone, PartialEq, Debug)]
pub struct WholeRow {
    /// Which version.
    pub version: Version,
    /// The columns, in the table's order.
    pub values: Vec<Value>,
}

/// A failed statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failed {
    /// `conflict`, `deadlock`, `constraint`, …
    pub kind: anomalist_databases::Kind,
    /// The database's own words.
    pub message: String,
}

impl From<&Error> for Failed {
    fn from(error: &Error) -> Failed {
        Failed { kind: error.kind(), message: error.to_string() }
    }
}

/// A statement that was run.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    /// Its number in the transaction, from 1: the second half of its element.
    pub number: usize,
    /// As it was generated.
    pub text: String,
    /// What it does.
    pub effect: Effect,
    /// The rows that were read or, for statements that write, the versions they made.
    pub rows: Vec<Version>,
    /// The rows that it deleted, as they were before.
    pub deleted: Vec<Version>,
    /// Names of rows that it inserted if it succeeded.
    pub inserted: Vec<Box<str>>,
    /// The table of `whole`.
    pub table: Option<String>,
    /// Its columns.
    pub columns: Vec<String>,
    /// Rows with all their columns, as far as they were returned.
    pub whole: Vec<WholeRow>,
    /// What the statement returned, without what was added to it.
    pub visible: Vec<Vec<Value>>,
    /// Rows affected.
    pub affected: u64,
    /// Why it failed.
    pub failed: Option<Failed>,
    /// It wrote nothing: it failed, or a savepoint before it was rolled back to.
    pub undone: bool,
    /// Nor do its reads count: the database itself began anew (see [`mapping`](crate::mapping)).
    pub forgotten: bool,
    /// When it was sent and when it answered, in nanoseconds since the run began.
    pub interval: (u64, u64),
}

impl Step {
    /// A statement that has not answered yet.
    pub fn new(number: usize, text: &str, effect: Effect) -> Step {
        Step {
            number,
            text: text.to_owned(),
            effect,
            rows: Vec::new(),
            deleted: Vec::new(),
            inserted: Vec::new(),
            table: None,
            columns: Vec::new(),
            whole: Vec::new(),
            visible: Vec::new(),
            affected: 0,
            failed: None,
            undone: false,
            forgotten: false,
            interval: (0, 0),
        }
    }

    /// Takes an answer apart: what the statement returned, and what instrumentation added at its end.
    pub fn answered(&mut self, reply: Reply, capture: &Capture) {
        self.affected = reply.affected;
        let is_delete = self.effect == Effect::Delete;
        let writes = !matches!(self.effect, Effect::Read | Effect::LockingRead | Effect::None);
        if writes && self.affected == 0 {
            // MariaDB does not count what RETURNING shows.
            self.affected = reply.rows.len() as u64;
            if self.effect == Effect::Replace {
                self.affected += self.deleted.len() as u64;
            }
        }
        if let Some((table, columns)) = &capture.values {
            self.table = Some(table.clone());
            self.columns.clone_from(columns);
        }
        for mut row in reply.rows {
            let added = row.split_off(row.len().saturating_sub(capture.added()));
            self.visible.push(row);
            let mut rest = added.into_iter();
            let mut versions = Vec::new();
            for reported in &capture.aux {
                match reported {
                    AuxColumns::Pair => {
                        if let (Some(Value::Text(row)), Some(Value::Text(list))) = (rest.next(), rest.next())
                        {
                            versions.push(Version { row: row.into(), list: list.into() });
                        }
                    }
                    AuxColumns::Rows => {
                        if let Some(Value::Text(rows)) = rest.next() {
                            versions.extend(rows.split(';').filter_map(version));
                        }
                    }
                }
            }
            if let (Some(_), [version]) = (&capture.values, &versions[..]) {
                self.whole.push(WholeRow { version: version.clone(), values: rest.collect() });
            }
            if is_delete { &mut self.deleted } else { &mut self.rows }.extend(versions);
        }
        // A statement that returns nothing of its own has no rows to show.
        self.visible.retain(|row| !row.is_empty());
        for versions in [&mut self.rows, &mut self.deleted] {
            versions.sort_unstable();
            versions.dedup();
        }
    }

    /// The answer of the locking query before it: what it is about to delete.
    pub fn about_to_delete(&mut self, reply: Reply) {
        for row in reply.rows {
            if let [Value::Text(row), Value::Text(list)] = &row[..] {
                self.deleted.push(Version { row: row.as_str().into(), list: list.as_str().into() });
            }
        }
    }

    /// Whether the database did not understand it, or something that it names is not there.
    pub fn is_unsupported(&self) -> bool {
        self.failed.as_ref().is_some_and(|f| f.kind == anomalist_databases::Kind::Unsupported)
    }

    /// It wrote nothing.
    pub fn undo(&mut self) {
        self.undone = true;
    }

    /// Whether it reads, and what it read counts: a client that rolled back to a savepoint still knows what
    /// it saw.
    pub fn is_read(&self) -> bool {
        matches!(self.effect, Effect::Read | Effect::LockingRead) && !self.forgotten
    }
}

fn version(text: &str) -> Option<Version> {
    let (row, list) = text.split_once('=')?;
    Some(Version { row: row.into(), list: list.into() })
}

/// What became of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It was committed.
    Committed,
    /// It certainly had no effect.
    Aborted,
    /// Not known.
    Unknown,
}

/// A transaction that was run.
#[derive(Clone, PartialEq, Debug)]
pub struct Executed {
    /// Its number: the first half of its elements.
    pub id: u64,
    /// Its session.
    pub session: usize,
    /// Its statements.
    pub steps: Vec<Step>,
    /// Its fate.
    pub outcome: Outcome,
    /// Why it could not begin, or could not be committed if that was tried.
    pub failed: Option<Failed>,
    /// When it began and ended, in nanoseconds since the run began.
    pub interval: (u64, u64),
}

/// Everything that was observed, session by session in order.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Run {
    /// The transactions; those of one session are in session order.
    pub transactions: Vec<Executed>,
    /// The tables as they were before the first of them: a query of each, outside of any transaction.
    pub start: Vec<Step>,
}

impl Step {
    /// What it returned of rows, as text: the versions it read or made, and those that it deleted.
    pub fn versions(&self) -> (Vec<String>, Vec<String>) {
        let text = |v: &Version| format!("{}=[{}]", v.row, v.list.trim_end_matches(','));
        (self.rows.iter().map(text).collect(), self.deleted.iter().map(text).collect())
    }
}

impl Run {
    /// These transactions; the tables at the start were not read.
    pub fn of(transactions: Vec<Executed>) -> Run {
        Run { transactions, start: Vec::new() }
    }

    /// How many ended like this.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.transactions.iter().filter(|t| t.outcome == outcome).count()
    }
}
