//! From the text of a statement to what is to be done.
//!
//! Everything that depends only on the text and the definitions happens here, once per text: parsing, types
//! of parameters and results, the query for SQLite. Statements that write become queries for the rows and
//! values to write.

use super::absent::prune;
use super::access::{Access, accesses};
use super::catalogue::{Catalogue, Table};
use super::changes::table_of;
use super::cursor::CursorPlan;
use super::error::{Code, SqlError};
use super::kill::Kill;
use super::names::{Names, ResultColumn, bare};
use super::parameters::parameters;
use super::rewrite::{rewrite, rewrite_expr};
use super::show;
use super::system;
use super::types::Type;
use anomalist_sqltext::ast::{
    Expr, FromTable, ObjectType, Query, SetExpr, Statement, TruncateIdentityOption,
};
use anomalist_sqltext::{Control, Dialect, Edit, Kind, Lexed, Setting, parse};
use std::sync::Arc;

/// A statement that is ready to run.
#[derive(Debug)]
pub struct Prepared {
    /// As the client sent it.
    pub text: Arc<str>,
    /// What to do.
    pub plan: Plan,
    /// The types of its parameters.
    pub parameters: Vec<Type>,
    /// The columns of its result; empty if it has none.
    pub columns: Vec<ResultColumn>,
}

/// What to do.
#[derive(Debug)]
pub enum Plan {
    /// Nothing: no statement.
    Empty,
    /// Steer transactions.
    Control(Control),
    /// Set variables.
    Set(Vec<Setting>, &'static str),
    /// Read.
    Query(QueryPlan),
    /// Add rows.
    Insert(Box<InsertPlan>),
    /// Change rows.
    Update(Box<UpdatePlan>),
    /// Remove rows.
    Delete(Box<DeletePlan>),
    /// Remove all rows of these tables; and count from 1 again.
    Truncate(Vec<Arc<Table>>, bool),
    /// Change definitions.
    Define(Box<Statement>),
    /// Open, read or close a cursor.
    Cursor(CursorPlan),
    /// Tell about the database itself.
    Show(Box<Statement>),
    /// End what another connection does.
    Kill(Kill),
    /// Nothing, successfully.
    Ignore(&'static str),
}

impl Plan {
    /// Whether it is a query.
    #[must_use]
    pub fn reads(&self) -> bool {
        matches!(self, Self::Query(_))
    }

    /// Whether it writes rows.
    #[must_use]
    pub fn writes(&self) -> bool {
        matches!(self, Self::Insert(_) | Self::Update(_) | Self::Delete(_) | Self::Truncate(..))
    }
}

/// A query of SQLite.
#[derive(Debug, Default)]
pub struct QueryPlan {
    /// Its text.
    pub sql: String,
    /// It says FOR UPDATE or FOR SHARE.
    pub locks: bool,
    /// The parts of tables that it looks at.
    pub accesses: Vec<Access>,
    /// It looks at nothing but the catalogue.
    pub constant: bool,
}

/// RETURNING, for the row whose number is the parameter after all others.
#[derive(Debug)]
pub struct Returning {
    /// The query.
    pub sql: String,
}

/// What to do with a row that is there already.
#[derive(Debug)]
pub enum OnDuplicate {
    /// Fail.
    Fail,
    /// Leave it.
    Ignore(Option<Vec<usize>>),
    /// Put the new one in its place.
    Replace,
    /// Change it: the query gives the new values, from the parameters, the row's number, and the values
    /// that were to be inserted.
    Update {
        /// The constraint that it is about.
        target: Option<Vec<usize>>,
        /// The columns to change.
        columns: Vec<usize>,
        /// The query.
        sql: String,
    },
}

/// INSERT.
#[derive(Debug)]
pub struct InsertPlan {
    /// Where.
    pub table: Arc<Table>,
    /// The columns given.
    pub columns: Vec<usize>,
    /// The query for the rows; none: so many rows of defaults.
    pub source: Result<QueryPlan, usize>,
    /// Where a row says DEFAULT.
    pub defaults: Vec<Vec<bool>>,
    /// What to do with duplicates.
    pub duplicate: OnDuplicate,
    /// RETURNING.
    pub returning: Option<Returning>,
}

/// UPDATE.
#[derive(Debug)]
pub struct UpdatePlan {
    /// Where.
    pub table: Arc<Table>,
    /// The columns assigned.
    pub columns: Vec<usize>,
    /// Gives the rows' numbers and the new values.
    pub source: QueryPlan,
    /// RETURNING.
    pub returning: Option<Returning>,
}

/// DELETE.
#[derive(Debug)]
pub struct DeletePlan {
    /// Where.
    pub table: Arc<Table>,
    /// Gives the rows' numbers.
    pub source: QueryPlan,
    /// RETURNING.
    pub returning: Option<Returning>,
}

/// Of a view: its query for SQLite, its columns, its tables.
type ViewParts = (String, Vec<(String, Type)>, Vec<String>);

/// Makes plans.
pub struct Planner<'a> {
    /// The definitions.
    pub catalogue: &'a Catalogue,
    /// Whose SQL it is.
    pub dialect: Dialect,
}

impl Planner<'_> {
    /// The plan of one statement.
    pub fn plan(&self, lexed: &Lexed<'_>) -> Result<Prepared, SqlError> {
        let text = lexed.text();
        let prepared =
            |plan| Prepared { text: text.into(), plan, parameters: Vec::new(), columns: Vec::new() };
        let Some(first) = lexed.tokens().first() else { return Ok(prepared(Plan::Empty)) };
        if let Some(control) = lexed.control() {
            return Ok(prepared(Plan::Control(control)));
        }
        if first.is("SET")
            && let Some(settings) = lexed.settings()
        {
            return Ok(prepared(Plan::Set(settings, "SET")));
        }
        if let Some((settings, tag)) = resets(lexed) {
            return Ok(prepared(Plan::Set(settings, tag)));
        }
        if let Some(kill) = Kill::of(lexed) {
            return Ok(prepared(Plan::Kill(kill?)));
        }
        if let Some(tag) = ignored(lexed) {
            return Ok(prepared(Plan::Ignore(tag)));
        }
        if let Some(prepared) = self.cursor(lexed)? {
            return Ok(prepared);
        }
        if let Some(verb) = foreign(lexed) {
            return Err(SqlError::unsupported(verb));
        }
        let edits = if self.dialect == Dialect::PostgreSql { plain_locks(lexed) } else { numbers(lexed) };
        self.statement(text, lexed.parse_edited(edits)?)
    }

    /// `$3` or `?3`.
    pub(super) fn parameter(&self, number: usize) -> String {
        format!("{}{number}", if self.dialect == Dialect::PostgreSql { '$' } else { '?' })
    }

    pub(super) fn names(&self, statement: &Statement) -> Names<'_> {
        Names::of(statement, self.catalogue, self.dialect, &system::columns)
    }

    fn statement(&self, text: &str, mut statement: Statement) -> Result<Prepared, SqlError> {
        let mut names = self.names(&statement);
        let parameters = parameters(&names, &statement);
        if self.dialect == Dialect::PostgreSql && system::mentions(text) {
            prune(&mut statement, &|name| system::is_empty(name) && self.catalogue.table(name).is_none());
            names = self.names(&statement);
        }
        let count = parameters.len();
        let columns = self.result(&names, &statement)?;
        let plan = match statement {
            Statement::Query(ref query) => match writing(query) {
                Some(construct) => return Err(SqlError::unsupported(construct)),
                None => Plan::Query(self.query_named(statement, &names)?),
            },
            Statement::Insert(insert) => Plan::Insert(Box::new(self.insert(insert, count)?)),
            Statement::Update(update) => Plan::Update(Box::new(self.update(update, count)?)),
            Statement::Delete(delete) => Plan::Delete(Box::new(self.delete(delete, count)?)),
            Statement::Truncate(truncate) => {
                let tables = truncate.table_names.iter().map(|t| self.catalogue.require(&bare(&t.name)));
                let said = matches!(truncate.identity, Some(TruncateIdentityOption::Restart));
                Plan::Truncate(tables.collect::<Result<_, _>>()?, said || self.dialect == Dialect::MySql)
            }
            _ if defines(&statement) => Plan::Define(Box::new(statement)),
            _ if shows(&statement) => Plan::Show(Box::new(statement)),
            _ => match without_effect(&statement) {
                Some(tag) => Plan::Ignore(tag),
                None => {
                    let construct = construct(&statement.to_string());
                    return Err(SqlError::unsupported(format!("the statement {construct}")));
                }
            },
        };
        Ok(Prepared { text: text.into(), plan, parameters, columns })
    }

    /// The columns of a statement's result; none if it has no result.
    fn result(&self, names: &Names<'_>, statement: &Statement) -> Result<Vec<ResultColumn>, SqlError> {
        let (items, from) = match statement {
            Statement::Query(query) => return Ok(names.query(query)),
            Statement::Insert(insert) => match &insert.returning {
                Some(items) => return Ok(names.items(items, &[table_of(&insert.table)?])),
                None => return Ok(Vec::new()),
            },
            Statement::Update(update) => (&update.returning, std::slice::from_ref(&update.table)),
            Statement::Delete(delete) => {
                let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
                (&delete.returning, from.as_slice())
            }
            _ if shows(statement) => return Ok(show::show_columns(statement, self.dialect)),
            _ => return Ok(Vec::new()),
        };
        Ok(items.as_ref().map(|items| names.items(items, from)).unwrap_or_default())
    }

    pub(super) fn query(&self, statement: Statement) -> Result<QueryPlan, SqlError> {
        let names = self.names(&statement);
        self.query_named(statement, &names)
    }

    /// The plan of a query whose names are known.
    fn query_named(&self, statement: Statement, names: &Names<'_>) -> Result<QueryPlan, SqlError> {
        let mut accesses = accesses(&statement, &|name| self.catalogue.table(name))?;
        for source in &names.sources {
            if source.columns.is_empty() && source.table.is_none() {
                let text = format!("relation \"{}\" does not exist", source.name);
                return Err(SqlError::new(Code::UndefinedTable, text));
            }
        }
        // A view hides its tables from the text, and reads all of them.
        let others = || names.sources.iter().filter(|s| s.table.is_none());
        for view in others().filter_map(|source| self.catalogue.view(&source.name)) {
            let tables = view.tables.iter().filter_map(|name| self.catalogue.table(name));
            accesses.extend(tables.map(|table| Access { table, leading: Vec::new() }));
        }
        let constant = accesses.is_empty() && others().next().is_none();
        let rewritten = rewrite(statement, names, self.dialect)?;
        Ok(QueryPlan { sql: rewritten.sql, locks: rewritten.locks, accesses, constant })
    }

    pub(super) fn query_of(&self, text: &str) -> Result<QueryPlan, SqlError> {
        self.query(parse(self.dialect, text)?)
    }

    /// An expression over one table, for DEFAULT and CHECK.
    pub fn expression(&self, expr: &Expr, table: &Table) -> Result<String, SqlError> {
        let statement = parse(self.dialect, "SELECT 1")?;
        let mut names = self.names(&statement);
        names.sources.push(super::names::Source {
            alias: table.name.to_lowercase(),
            name: table.name.clone(),
            columns: table.columns.iter().map(|c| (c.name.clone(), c.kind)).collect(),
            table: None,
        });
        rewrite_expr(expr.clone(), &names, self.dialect)
    }

    /// The query of a view, its columns, and the tables that it reads.
    pub fn view(&self, query: Box<Query>) -> Result<ViewParts, SqlError> {
        let statement = Statement::Query(query);
        let names = self.names(&statement);
        let columns = match &statement {
            Statement::Query(query) => names.query(query).into_iter().map(|c| (c.name, c.kind)).collect(),
            _ => Vec::new(),
        };
        let plan = self.query_named(statement, &names)?;
        let tables = plan.accesses.iter().map(|access| access.table.name.clone()).collect();
        Ok((plan.sql, columns, tables))
    }
}

/// Whether a statement changes definitions, of the kinds that there are here.
fn defines(statement: &Statement) -> bool {
    match statement {
        Statement::CreateTable(_)
        | Statement::AlterTable(_)
        | Statement::CreateIndex(_)
        | Statement::CreateView(_)
        | Statement::CreateSequence { .. }
        | Statement::RenameTable(_)
        | Statement::CreateSchema { .. }
        | Statement::CreateDatabase { .. } => true,
        Statement::Drop { object_type, .. } => matches!(
            object_type,
            ObjectType::Table
                | ObjectType::View
                | ObjectType::Index
                | ObjectType::Sequence
                | ObjectType::Schema
                | ObjectType::Database
        ),
        _ => false,
    }
}

/// Whether a statement asks about the database itself.
fn shows(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::ShowVariable { .. }
            | Statement::ShowVariables { .. }
            | Statement::ShowStatus { .. }
            | Statement::ShowTables { .. }
            | Statement::ShowColumns { .. }
            | Statement::ShowCreate { .. }
            | Statement::ShowDatabases { .. }
            | Statement::ShowSchemas { .. }
            | Statement::ShowCollation { .. }
            | Statement::ShowCharset(_)
            | Statement::ExplainTable { .. }
    )
}

/// The answer to a statement that succeeds and changes nothing here.
fn without_effect(statement: &Statement) -> Option<&'static str> {
    Some(match statement {
        Statement::Use(_) => "USE",
        Statement::Grant(_) => "GRANT",
        Statement::Revoke(_) => "REVOKE",
        Statement::Comment { .. } => "COMMENT",
        Statement::CreateExtension(_) => "CREATE EXTENSION",
        Statement::Analyze(_) => "ANALYZE",
        Statement::Vacuum(_) => "VACUUM",
        Statement::Deallocate { .. } => "DEALLOCATE",
        Statement::LISTEN { .. } => "LISTEN",
        Statement::UNLISTEN { .. } => "UNLISTEN",
        Statement::NOTIFY { .. } => "NOTIFY",
        Statement::UnlockTables => "UNLOCK TABLES",
        _ => return None,
    })
}

fn writing(query: &Query) -> Option<&'static str> {
    let writes = |q: &Query| matches!(*q.body, SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_));
    let within = query.with.iter().flat_map(|w| &w.cte_tables).any(|cte| writes(&cte.query));
    (writes(query) || within).then_some("statements that write inside WITH")
}

/// Numbers for MySQL's parameters, so that they keep their numbers wherever the tree moves them.
fn numbers(lexed: &Lexed<'_>) -> Vec<Edit> {
    let places = lexed.tokens().iter().filter(|t| t.kind == Kind::Parameter && t.text == "?");
    places.enumerate().map(|(at, token)| (token.end()..token.end(), (at + 1).to_string())).collect()
}

/// PostgreSQL's weaker row locks, which the parser does not know, as the stronger ones: FOR NO KEY UPDATE
/// as FOR UPDATE, FOR KEY SHARE as FOR SHARE.
fn plain_locks(lexed: &Lexed<'_>) -> Vec<Edit> {
    let words = lexed.tokens();
    let mut edits = Vec::new();
    for (at, _) in words.iter().enumerate().filter(|(_, word)| word.is("FOR")) {
        let said = |expected: &[&str]| {
            words
                .get(at + 1..at + 1 + expected.len())
                .is_some_and(|next| next.iter().zip(expected).all(|(w, e)| w.is(e)))
        };
        let extra = match () {
            () if said(&["NO", "KEY", "UPDATE"]) => 2,
            () if said(&["KEY", "SHARE"]) => 1,
            () => continue,
        };
        let gone = &words[at + 1..=at + extra];
        edits.extend(gone.iter().map(|word| (word.start..word.end(), String::new())));
    }
    edits
}

/// The first words of a statement.
fn construct(text: &str) -> String {
    text.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

/// Statements that are SQL but not here, whether or not the parser knows them.
fn foreign(lexed: &Lexed<'_>) -> Option<String> {
    const VERBS: &str = "LOCK PREPARE EXECUTE COPY EXPLAIN CALL DECLARE FETCH MOVE CLOSE LOAD HANDLER DO MERGE INSTALL IMPORT";
    const OBJECTS: &str = "TRIGGER FUNCTION PROCEDURE EVENT RULE TYPE DOMAIN AGGREGATE OPERATOR POLICY PUBLICATION SUBSCRIPTION \
        MATERIALIZED ROLE SERVER TABLESPACE LANGUAGE CAST";
    let words = lexed.words(4);
    let first = words.first()?;
    if VERBS.split_whitespace().any(|v| v == first) {
        return Some(first.clone());
    }
    let defines = matches!(first.as_str(), "CREATE" | "DROP" | "ALTER");
    let object = words.iter().skip(1).find(|w| !matches!(w.as_str(), "OR" | "REPLACE"))?;
    (defines && OBJECTS.split_whitespace().any(|o| o == object)).then(|| format!("{first} {object}"))
}

/// RESET and DISCARD ALL of PostgreSQL, as settings with their defaults.
fn resets(lexed: &Lexed<'_>) -> Option<(Vec<Setting>, &'static str)> {
    let (first, rest) = lexed.tokens().split_first()?;
    let verb = first.text.to_lowercase();
    if lexed.dialect() != Dialect::PostgreSql || !matches!(verb.as_str(), "reset" | "discard") {
        return None;
    }
    let name: String = rest.iter().map(|token| token.text.to_lowercase()).collect();
    let (names, tag) = match (verb.as_str(), name.as_str()) {
        ("reset", "all") => (vec!["anomalist.latest", "anomalist.constraints"], "RESET"),
        ("discard", "all") => (vec!["anomalist.latest", "anomalist.constraints"], "DISCARD ALL"),
        ("reset", name) => (vec![name], "RESET"),
        _ => return None,
    };
    let setting = |name: &str| Setting { scope: None, name: name.to_owned(), value: "default".to_owned() };
    Some((names.into_iter().map(setting).collect(), tag))
}

/// Statements that do nothing here, and that the parser need not know.
fn ignored(lexed: &Lexed<'_>) -> Option<&'static str> {
    let (dialect, words) = (lexed.dialect(), lexed.words(3));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Some(match (dialect, words.as_slice()) {
        (_, ["ANALYZE", ..]) => "ANALYZE",
        (Dialect::PostgreSql, ["VACUUM", ..]) => "VACUUM",
        (Dialect::PostgreSql, ["DISCARD", ..]) => "DISCARD",
        (Dialect::PostgreSql, ["DEALLOCATE", ..]) => "DEALLOCATE",
        (Dialect::PostgreSql, ["CHECKPOINT", ..]) => "CHECKPOINT",
        (Dialect::PostgreSql, ["SET", "CONSTRAINTS", ..]) => "SET CONSTRAINTS",
        (Dialect::PostgreSql, ["CREATE", "EXTENSION", ..]) => "CREATE EXTENSION",
        (Dialect::PostgreSql, ["ALTER", "SEQUENCE" | "DATABASE" | "ROLE" | "USER" | "SYSTEM", ..]) => "ALTER",
        (Dialect::MySql, ["USE", ..]) => "USE",
        (Dialect::MySql, ["FLUSH" | "OPTIMIZE", ..]) => "FLUSH",
        (Dialect::MySql, ["UNLOCK", "TABLES" | "TABLE", ..]) => "UNLOCK TABLES",
        (Dialect::MySql, ["CREATE" | "DROP" | "ALTER", "DATABASE" | "SCHEMA" | "USER", ..]) => {
            "CREATE DATABASE"
        }
        _ => return None,
    })
}
