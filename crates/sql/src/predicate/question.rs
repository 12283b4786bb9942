//! What a statement asks of the tables, as far as predicates are concerned.
//!
//! A question about each row by itself (one table or a simple view of one, a condition without subqueries)
//! is decided per version. Any other one is decided per state of all its tables: joins, groups, set
//! operations, subqueries, limits, and statements that write what they read elsewhere.

use crate::Flavour;
use crate::instrument::is_grouped;
use anomalist_sqltext::ast::{
    Cte, Delete, Expr, FromTable, GroupByExpr, Insert, NonBlock, ObjectName, ObjectNamePart, Query, Select,
    SetExpr, Statement, TableFactor, TableObject, TableWithJoins, Update, Value, ValueWithSpan, Visitor,
};
use anomalist_sqltext::walk;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// Why a statement's dependencies through predicates are not all seen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Unseen {
    /// The server could not be asked.
    NoServer,
    /// The run has no last read of all tables.
    NoEnd,
    /// A table that the run did not make.
    OtherTable,
    /// A function, a variable or a column whose value depends on more than the rows.
    Changing,
    /// `SKIP LOCKED` leaves out rows that match.
    SkipLocked,
    /// Which rows an INSERT met by its keys.
    Conflict,
    /// A row whose versions are not known in order, or not with their values.
    Versions,
    /// Too many states may have been the one that it saw.
    States,
    /// None of the states gives the answer that it got.
    Answer,
    /// The server refused it on the recorded versions, or answered differently each time.
    Refused,
}

impl Unseen {
    /// The name in JSON.
    pub fn code(self) -> &'static str {
        match self {
            Unseen::NoServer => "no-server",
            Unseen::NoEnd => "no-end",
            Unseen::OtherTable => "other-table",
            Unseen::Changing => "changing-value",
            Unseen::SkipLocked => "skip-locked",
            Unseen::Conflict => "insert-conflict",
            Unseen::Versions => "unseen-versions",
            Unseen::States => "too-many-states",
            Unseen::Answer => "other-answer",
            Unseen::Refused => "refused",
        }
    }

    /// The reason as text.
    pub fn text(self) -> &'static str {
        match self {
            Unseen::NoServer => "the server could not be asked",
            Unseen::NoEnd => "the tables were not read at the end",
            Unseen::OtherTable => "uses a table that the run did not make",
            Unseen::Changing => "uses a function or a column that depends on more than the rows",
            Unseen::SkipLocked => "skips locked rows",
            Unseen::Conflict => "an INSERT that may meet other rows by its keys",
            Unseen::Versions => "some versions of rows were not seen",
            Unseen::States => "too many possible states",
            Unseen::Answer => "no possible state gives its answer",
            Unseen::Refused => "the server does not decide it on the recorded rows",
        }
    }
}

/// A condition on each row of a table by itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct RowCondition {
    /// The table, in small letters.
    pub table: String,
    /// The table or view that it names, in small letters.
    pub relation: String,
    /// What columns may be qualified with.
    pub alias: String,
    /// The condition.
    pub condition: String,
}

/// A question about whole tables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct StateQuestion {
    /// The tables, in small letters.
    pub tables: BTreeSet<String>,
    /// The condition on each of its rows, of a query of one table that groups what matches.
    pub matching: Option<RowCondition>,
    /// The table that it writes.
    pub target: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Question {
    /// It reads no table.
    Nothing,
    Rows(RowCondition),
    State(StateQuestion),
}

/// The tables and views of a run.
#[derive(Default)]
pub(super) struct Relations {
    by_name: BTreeMap<String, Relation>,
    /// Functions that the run made.
    functions: BTreeSet<String>,
}

/// A table or a view.
#[derive(Clone)]
struct Relation {
    /// The tables behind it.
    tables: BTreeSet<String>,
    /// Its rows are rows of its one table, each by itself.
    by_row: bool,
}

/// The name of a relation in small letters, if it has no other part.
pub(super) fn folded(name: &ObjectName) -> Option<String> {
    match &name.0[..] {
        [ObjectNamePart::Identifier(ident)] => Some(ident.value.to_ascii_lowercase()),
        _ => None,
    }
}

impl Relations {
    /// Learns what a statement makes.
    pub fn learn(&mut self, flavour: Flavour, statement: &Statement) {
        match statement {
            Statement::CreateTable(table) if !table.temporary => {
                let Some(name) = folded(&table.name) else { return };
                let tables = BTreeSet::from([name.clone()]);
                self.by_name.insert(name, Relation { tables, by_row: true });
            }
            Statement::CreateView(view) if !view.temporary && !view.materialized => {
                let Some(name) = folded(&view.name) else { return };
                let Ok(tables) = self.tables(&*view.query) else { return };
                let by_row = self.rows_of(flavour, &view.query).is_some();
                self.by_name.insert(name, Relation { tables, by_row });
            }
            Statement::CreateFunction(function) => {
                let name = function.name.0.last().map(|part| part.to_string().to_ascii_uppercase());
                self.functions.extend(name);
            }
            _ => {}
        }
    }

    /// Whether a view shows rows of one table, each by itself.
    pub fn is_by_row(&self, name: &str) -> bool {
        self.by_name.get(name).is_some_and(|r| r.by_row)
    }

    /// What a statement asks.
    pub fn question(&self, flavour: Flavour, statement: &Statement) -> Result<Question, Unseen> {
        if walk::read(statement, &mut Changing { own: &self.functions }).is_break() {
            return Err(Unseen::Changing);
        }
        match statement {
            Statement::Query(query) => self.of_query(flavour, query),
            Statement::Update(update) => self.of_update(statement, update),
            Statement::Delete(delete) => self.of_delete(statement, delete),
            Statement::Insert(insert) => self.of_insert(insert),
            _ => Ok(Question::Nothing),
        }
    }

    fn of_query(&self, flavour: Flavour, query: &Query) -> Result<Question, Unseen> {
        if query.locks.iter().any(|lock| lock.nonblock == Some(NonBlock::SkipLocked)) {
            return Err(Unseen::SkipLocked);
        }
        let tables = self.tables(query)?;
        if tables.is_empty() {
            return Ok(Question::Nothing);
        }
        if let Some(rows) = self.rows_of(flavour, query) {
            return Ok(Question::Rows(rows));
        }
        let matching = self.matching(query);
        Ok(Question::State(StateQuestion { tables, matching, target: None }))
    }

    fn of_update(&self, statement: &Statement, update: &Update) -> Result<Question, Unseen> {
        let tables = self.tables(statement)?;
        let from = &update.table;
        let simple = update.from.is_none() && update.limit.is_none() && update.order_by.is_empty();
        if simple && let Some(rows) = self.condition(from, update.selection.as_ref(), queries(statement) == 0)
        {
            return Ok(Question::Rows(rows));
        }
        Ok(Question::State(StateQuestion { tables, matching: None, target: Some(self.target(from)?) }))
    }

    fn of_delete(&self, statement: &Statement, delete: &Delete) -> Result<Question, Unseen> {
        let tables = self.tables(statement)?;
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        let [from] = &from[..] else { return Err(Unseen::OtherTable) };
        let simple = delete.using.is_none() && delete.limit.is_none() && delete.order_by.is_empty();
        if simple && let Some(rows) = self.condition(from, delete.selection.as_ref(), queries(statement) == 0)
        {
            return Ok(Question::Rows(rows));
        }
        Ok(Question::State(StateQuestion { tables, matching: None, target: Some(self.target(from)?) }))
    }

    fn of_insert(&self, insert: &Insert) -> Result<Question, Unseen> {
        let meets = insert.replace_into || insert.or.is_some() || insert.ignore || insert.on.is_some();
        let TableObject::TableName(target) = &insert.table else { return Err(Unseen::OtherTable) };
        let tables = match insert.source.as_deref() {
            Some(source) => self.tables(source)?,
            None => BTreeSet::new(),
        };
        match (tables.is_empty(), meets) {
            (_, true) => Err(Unseen::Conflict),
            (true, false) => Ok(Question::Nothing),
            (false, false) => {
                let target = folded(target).ok_or(Unseen::OtherTable)?;
                Ok(Question::State(StateQuestion { tables, matching: None, target: Some(target) }))
            }
        }
    }

    fn target(&self, from: &TableWithJoins) -> Result<String, Unseen> {
        match &from.relation {
            TableFactor::Table { name, .. } => folded(name).ok_or(Unseen::OtherTable),
            _ => Err(Unseen::OtherTable),
        }
    }

    /// The tables behind everything that a statement or query reads or writes.
    fn tables(&self, tree: &(impl walk::Tree + ?Sized)) -> Result<BTreeSet<String>, Unseen> {
        let mut names = Names::default();
        _ = walk::read(tree, &mut names);
        let mut tables = BTreeSet::new();
        for name in names.relations {
            let name = folded(&name).ok_or(Unseen::OtherTable)?;
            match self.by_name.get(&name) {
                Some(relation) => tables.extend(relation.tables.iter().cloned()),
                None if names.ctes.contains(&name) => {}
                None => return Err(Unseen::OtherTable),
            }
        }
        Ok(tables)
    }

    /// The condition of a query whose result has one row for every row that matches it.
    pub fn rows_of(&self, flavour: Flavour, query: &Query) -> Option<RowCondition> {
        let select = single(query)?;
        let simple = select.having.is_none() && !is_grouped(flavour, select);
        if simple { self.matching(query) } else { None }
    }

    /// The condition of a query of one table, if a row that matches it has a share in the answer, and one
    /// that does not match has none.
    fn matching(&self, query: &Query) -> Option<RowCondition> {
        let select = single(query)?;
        let [from] = &select.from[..] else { return None };
        let by = matches!(&select.group_by, GroupByExpr::Expressions(_, modifiers) if modifiers.is_empty());
        if select.having.is_some() || select.qualify.is_some() || !by {
            return None;
        }
        self.condition(from, select.selection.as_ref(), queries(query) == 1)
    }

    /// A condition on each row of the one relation in `from`.
    fn condition(
        &self,
        from: &TableWithJoins,
        selection: Option<&Expr>,
        alone: bool,
    ) -> Option<RowCondition> {
        let TableFactor::Table { name, alias, args: None, sample: None, .. } = &from.relation else {
            return None;
        };
        let relation = folded(name)?;
        let known = self.by_name.get(&relation).filter(|r| r.by_row)?;
        if !from.joins.is_empty() || !alone || alias.as_ref().is_some_and(|a| !a.columns.is_empty()) {
            return None;
        }
        Some(RowCondition {
            table: known.tables.first()?.clone(),
            alias: alias.as_ref().map_or_else(|| name.to_string(), |a| a.name.to_string()),
            condition: selection.map_or_else(|| "1 = 1".to_owned(), ToString::to_string),
            relation,
        })
    }
}

/// The one `SELECT` of a query without limits and common table expressions.
fn single(query: &Query) -> Option<&Select> {
    let plain = query.limit_clause.is_none() && query.with.is_none() && query.fetch.is_none();
    match query.body.as_ref() {
        SetExpr::Select(select) if plain && select.top.is_none() => Some(select),
        _ => None,
    }
}

/// How many queries there are in a tree, itself included.
fn queries(tree: &(impl walk::Tree + ?Sized)) -> usize {
    let mut count = Queries(0);
    _ = walk::read(tree, &mut count);
    count.0
}

struct Queries(usize);

impl Visitor for Queries {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.0 += 1;
        ControlFlow::Continue(())
    }
}

/// The relations that a tree names, and its common table expressions.
#[derive(Default)]
struct Names {
    relations: Vec<ObjectName>,
    ctes: BTreeSet<String>,
}

impl Visitor for Names {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let name = |cte: &Cte| cte.alias.name.value.to_ascii_lowercase();
        self.ctes.extend(query.with.iter().flat_map(|with| &with.cte_tables).map(name));
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        self.relations.push(relation.clone());
        ControlFlow::Continue(())
    }
}

/// Looks for values that depend on more than the rows: on time, chance, the session, or where a row is
/// stored.
struct Changing<'a> {
    own: &'a BTreeSet<String>,
}

const FUNCTIONS: &str = " AGE BENCHMARK CHANGES CLOCK_TIMESTAMP CONNECTION_ID CURDATE CURRENT_DATE \
    CURRENT_TIME CURRENT_TIMESTAMP CURRVAL CURTIME FOUND_ROWS GEN_RANDOM_UUID GET_LOCK IS_FREE_LOCK \
    IS_USED_LOCK LASTVAL LAST_INSERT_ID LAST_INSERT_ROWID LOCALTIME LOCALTIMESTAMP NEXTVAL NOW RAND RANDOM \
    RANDOMBLOB RANDOM_BYTES RANDOM_NORMAL RELEASE_LOCK ROW_COUNT SETSEED SETVAL SET_CONFIG SLEEP \
    STATEMENT_TIMESTAMP SYSDATE SYS_GUID TIMEOFDAY TOTAL_CHANGES TRANSACTION_TIMESTAMP TXID_CURRENT \
    TXID_CURRENT_IF_ASSIGNED TXID_CURRENT_SNAPSHOT UNIX_TIMESTAMP UTC_DATE UTC_TIME UTC_TIMESTAMP UUID \
    UUID_GENERATE_V1 UUID_GENERATE_V4 UUID_SHORT ";

const COLUMNS: &str = " CMAX CMIN CTID OID ROWID TABLEOID XMAX XMIN _ROWID_ ";

const MOMENTS: &str = " NOW TODAY TOMORROW YESTERDAY ";

fn is_among(list: &str, word: &str) -> bool {
    !word.contains(' ') && list.contains(&format!(" {} ", word.to_ascii_uppercase()))
}

impl Visitor for Changing<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let changes = match expr {
            Expr::Function(function) => {
                let name = function.name.0.last().map(ToString::to_string).unwrap_or_default();
                let server = name.to_ascii_uppercase().starts_with("PG_");
                server || is_among(FUNCTIONS, &name) || self.own.contains(&name.to_ascii_uppercase())
            }
            Expr::Identifier(ident) => ident.value.starts_with('@') || is_among(COLUMNS, &ident.value),
            Expr::CompoundIdentifier(parts) => {
                let at = parts.first().is_some_and(|first| first.value.starts_with('@'));
                at || parts.last().is_some_and(|last| is_among(COLUMNS, &last.value))
            }
            _ => false,
        };
        if changes { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn pre_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<()> {
        let text = match &value.value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => text.trim(),
            _ => "",
        };
        match !text.is_empty() && is_among(MOMENTS, text) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}
