//! Instrumentation: statements that also tell which rows they read and wrote (IsoRel, section 3.2.2 and
//! Table 1).
//!
//! Reads return `rowId` and `wList` of every row behind a result; writes append the name of the writing
//! statement to `wList`. All of it happens on syntax trees. Nothing that is added takes a lock, changes
//! which rows are visited, or changes what the statement returns, once the added columns at its end are
//! taken off:
//!
//! | statement | what is added |
//! |---|---|
//! | `SELECT` (joins, subqueries in `FROM`, `FOR UPDATE`, `UNION ALL`) | the two columns of every table |
//! | `DISTINCT`, aggregates, `UNION`, `INTERSECT`, `EXCEPT` | an aggregate of the two columns |
//! | `INSERT` | values for both; a list of its own for a conflict that becomes an update |
//! | `UPDATE` | an assignment that appends to `wList` |
//! | `DELETE` | `RETURNING`; without it, a locking `SELECT` with the same condition before it |
//! | `REPLACE` | as `INSERT`, and a locking `SELECT` by the keys that it may meet before it |
//! | `CREATE TABLE`, `CREATE VIEW` | the columns |
//!
//! An aggregate gives the rows behind each row of the result.
//!
//! IsoRel adds `rowId` to both arms of a `UNION`, which returns rows more than once that differ only in it;
//! here that is a group. Not seen: rows that only a subquery outside of `FROM` visits (in a condition, a
//! list of columns, a `SET`), and the rows that `INSERT … SELECT` copies.

mod catalog;
mod define;
mod fragment;
pub(crate) mod query;
mod select;
mod stars;
mod write;

#[cfg(test)]
mod tests;

pub(crate) use select::is_grouped;

use crate::Flavour;
use anomalist_sqltext::ast::Statement;
use catalog::{Aux, Catalog};
use std::fmt;

/// A statement that cannot be instrumented, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported(String);

impl Unsupported {
    fn new(why: impl Into<String>) -> Unsupported {
        Unsupported(why.into())
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unsupported {}

/// The names that a statement writes into the auxiliary columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// What it appends to `wList`, without the comma; empty for the rows that are there at the start.
    pub element: String,
    /// The rows it inserts are called this and a number.
    pub rows: String,
    /// The number of the first.
    pub first: u64,
}

impl Mark {
    /// The mark of a statement of a transaction: element `txn.statement`.
    pub fn statement(txn: u64, statement: usize) -> Mark {
        Mark { element: format!("{txn}.{statement}"), rows: format!("r{txn}.{statement}."), first: 1 }
    }

    /// The mark of statements that fill the tables: rows `r1`, `r2`, … with empty lists.
    pub fn initial(first: u64) -> Mark {
        Mark { element: String::new(), rows: "r".to_owned(), first }
    }

    /// What is appended: elements end with a comma, so that no element is the beginning of another.
    fn appended(&self) -> String {
        match self.element.is_empty() {
            true => String::new(),
            false => format!("{},", self.element),
        }
    }
}

/// What a statement does to rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It reads, and locks nothing.
    Read,
    /// It reads with `FOR UPDATE` or `FOR SHARE`: what is there now, not what the snapshot has.
    LockingRead,
    /// It inserts rows; those that meet others become updates, if it says so.
    Insert {
        /// Whether it may update instead.
        upsert: bool,
    },
    /// It updates rows.
    Update,
    /// It deletes rows.
    Delete,
    /// It inserts rows and deletes those in the way.
    Replace,
    /// It does nothing to rows.
    None,
}

/// What the columns at the end of a result tell.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Capture {
    /// In order: what each one or two columns tell.
    pub(crate) aux: Vec<AuxColumns>,
    /// After those, the columns of the row itself: of this table, by these names.
    pub(crate) values: Option<(String, Vec<String>)>,
}

/// What an auxiliary column, or a pair of them, tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuxColumns {
    /// `rowId`, `wList`
    Pair,
    /// `row=list;row=list`
    Rows,
}

impl Capture {
    /// How many columns at the end of a result are not the statement's own.
    pub fn added(&self) -> usize {
        let aux = self.aux.iter().map(|t| if *t == AuxColumns::Pair { 2 } else { 1 });
        aux.sum::<usize>() + self.values.as_ref().map_or(0, |(_, names)| names.len())
    }

    fn of(aux: &[Aux]) -> Capture {
        let reported = |a: &Aux| if matches!(a, Aux::Pair(..)) { AuxColumns::Pair } else { AuxColumns::Rows };
        Capture { aux: aux.iter().map(reported).collect(), values: None }
    }
}

/// A statement with its instrumentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instrumented {
    /// Runs before it: shows the rows that it will delete, as `rowId`, `wList`.
    pub before: Option<String>,
    /// The statement itself.
    pub statement: String,
    /// What the last columns of its result tell.
    pub capture: Capture,
    /// Names of the rows that it inserts, where the statement lists them.
    pub inserted: Vec<Box<str>>,
    /// What it does.
    pub effect: Effect,
}

/// Instruments statements, and remembers the tables and views that they create.
///
/// ```
/// use anomalist_sql::instrument::{Instrumenter, Mark};
/// use anomalist_sql::Flavour;
/// use anomalist_sqltext::parse;
///
/// let mut instrumenter = Instrumenter::new(Flavour::PostgreSql);
/// let tree = parse(Flavour::PostgreSql.dialect(), "UPDATE t SET c1 = 1 WHERE c2 > 1")?;
/// let made = instrumenter.instrument(&tree, &Mark::statement(4, 2))?;
/// assert_eq!(
///     made.statement,
///     "UPDATE t SET c1 = 1, wList = wList || '4.2,' WHERE c2 > 1 RETURNING rowId, wList"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Instrumenter {
    flavour: Flavour,
    catalog: Catalog,
    /// Also return every column of the rows, where that is one table's: predicates are evaluated on them.
    whole_rows: bool,
}

impl Instrumenter {
    /// For a database about which nothing is known yet.
    pub fn new(flavour: Flavour) -> Instrumenter {
        Instrumenter { flavour, catalog: Catalog::default(), whole_rows: false }
    }

    /// With every column of the rows that are read or returned, at the end.
    #[must_use]
    pub fn with_whole_rows(mut self) -> Instrumenter {
        self.whole_rows = true;
        self
    }

    /// The instrumented form of a statement.
    ///
    /// # Errors
    /// If the statement's form is not among those that can be instrumented; it would run, but unseen, and
    /// what it writes would not be in the lists.
    pub fn instrument(&mut self, tree: &Statement, mark: &Mark) -> Result<Instrumented, Unsupported> {
        match tree {
            Statement::Query(query) => self.select(query),
            Statement::Insert(insert) => self.insert(insert, mark),
            Statement::Update(update) => self.update(update, mark),
            Statement::Delete(delete) => self.delete(delete),
            Statement::CreateTable(table) => self.create_table(table),
            Statement::CreateView(view) => self.create_view(view),
            Statement::Merge(_)
            | Statement::Truncate(_)
            | Statement::Call(_)
            | Statement::Copy { .. }
            | Statement::LoadData { .. }
            | Statement::Execute { .. }
            | Statement::CreateTrigger(_)
            | Statement::Explain { analyze: true, .. } => {
                let text = tree.to_string();
                let word = text.split([' ', '(']).next().unwrap_or_default();
                Err(Unsupported::new(format!("what {word} does to rows is not seen")))
            }
            other => Ok(Instrumented {
                before: None,
                statement: other.to_string(),
                capture: Capture::default(),
                inserted: Vec::new(),
                effect: Effect::None,
            }),
        }
    }
}
