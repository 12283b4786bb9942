//! Tables of our own on the server under test, where it decides conditions on recorded versions.
//!
//! Collations, functions, conversions and the logic of NULL are then exactly the server's. Every table of
//! the run is here twice, with the types and collations of its columns:
//!
//! - under its own name, with its primary key and the auxiliary columns: a *state* is loaded into it, and a
//!   statement runs on it as it ran in the session;
//! - as a table of all versions with their numbers, without any key: a condition is asked of all at once.
//!
//! Other constraints, defaults and generated columns are left out, because values are loaded as they were
//! seen. Everything is in a place of its own (a schema, a database, temporary tables of SQLite), on a
//! connection of its own, and is removed in the end.

use super::question::{Relations, RowCondition, folded};
use super::versions::{State, TableRows};
use crate::Flavour;
use crate::instrument::{Instrumenter, Mark};
use crate::namespace::Namespace;
use crate::record::{Step, Version};
use crate::schema::{ROW_ID, W_LIST};
use anomalist_databases::{Connection, Database, Error, Kind, Value};
use anomalist_sqltext::ast::{
    ColumnOption, CreateTable, CreateView, ObjectName, SelectItem, SetExpr, Statement, TableConstraint,
    TableFactor,
};
use anomalist_sqltext::parse;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// How many conditions are asked in one statement, and how many rows one INSERT has.
const TOGETHER: usize = 40;
const ROWS: usize = 200;

/// Loading so many rows takes about as long as a statement.
const ROWS_PER_STATEMENT: usize = 25;

/// A condition that fails on some version is asked of each by itself, if there are not more than this.
const ONE_BY_ONE: usize = 300;

/// The column with the number of a version.
const NUMBER: &str = "anomalist_version";

/// The versions that match a condition, and those of which that is not known.
#[derive(Clone, Default, Debug)]
pub(super) struct Matching {
    pub yes: FxHashSet<usize>,
    pub unknown: FxHashSet<usize>,
}

/// A table as it is loaded: its name, its columns, its rows with name and list.
pub(super) struct LoadedTable<'s> {
    pub name: &'s str,
    pub columns: &'s [String],
    pub rows: Vec<(&'s str, &'s str, &'s [Value])>,
}

/// What a statement answers on a state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Answer {
    /// What a client sees of it, in no order: rows or, of a statement that writes, the rows as it leaves
    /// them.
    pub visible: Vec<String>,
    /// The rows behind it, of a query.
    pub rows: Vec<Version>,
}

pub(super) struct Scratch {
    connection: Box<dyn Connection>,
    flavour: Flavour,
    place: Namespace,
    instrumenter: Instrumenter,
    /// Per table or view, what shows its versions.
    shows_versions: BTreeMap<String, String>,
    /// Per table, its name as SQL writes it.
    written: BTreeMap<String, String>,
    /// How many statements were run.
    pub asked: usize,
}

impl Scratch {
    /// Makes the tables and views of these statements. `settings`: what sessions begin with.
    pub fn open(
        database: &dyn Database,
        namespace: &Namespace,
        settings: &[String],
        statements: &[Statement],
        relations: &Relations,
    ) -> Result<Scratch, Error> {
        let flavour = namespace.flavour();
        let mut scratch = Scratch {
            connection: database.connect()?,
            flavour,
            place: namespace.beside("states"),
            instrumenter: Instrumenter::new(flavour).with_whole_rows(),
            shows_versions: BTreeMap::new(),
            written: BTreeMap::new(),
            asked: 0,
        };
        let lists = "SET SESSION group_concat_max_len = 16777216".to_owned();
        let lists = flavour.is_mysql().then_some(lists);
        let enter = [scratch.place.clear(), scratch.place.enter_before(namespace)].concat();
        for statement in enter.iter().chain(&lists).chain(settings) {
            scratch.run(statement)?;
        }
        for statement in statements {
            match statement {
                Statement::CreateTable(table) if !table.temporary => scratch.table(table)?,
                Statement::CreateView(view) if !view.temporary => scratch.view(view, relations)?,
                _ => {}
            }
        }
        Ok(scratch)
    }

    fn run(&mut self, text: &str) -> Result<Vec<Vec<Value>>, Error> {
        self.asked += 1;
        Ok(self.connection.run(text)?.pop().map(|reply| reply.rows).unwrap_or_default())
    }

    fn instrumented(
        &mut self,
        statement: &Statement,
        mark: &Mark,
    ) -> Result<crate::instrument::Instrumented, Error> {
        let refused = |e: crate::instrument::Unsupported| Error::new(Kind::Unsupported, e.to_string());
        self.instrumenter.instrument(statement, mark).map_err(refused)
    }

    fn table(&mut self, table: &CreateTable) -> Result<(), Error> {
        let Some(name) = folded(&table.name) else { return Ok(()) };
        let mut made = bare(table, true);
        made.temporary = self.flavour == Flavour::Sqlite;
        let state = self.instrumented(&Statement::CreateTable(made), &Mark::initial(1))?;
        self.run(&state.statement)?;
        let mut made = bare(table, false);
        made.temporary = self.flavour == Flavour::Sqlite;
        let versions = format!("anomalist_versions_{}", self.shows_versions.len());
        made.name = ObjectName::from(vec![versions.as_str().into()]);
        let number = parse(self.flavour.dialect(), &format!("CREATE TABLE t ({NUMBER} INTEGER)"));
        if let Ok(Statement::CreateTable(number)) = number {
            made.columns.extend(number.columns);
        }
        self.run(&made.to_string())?;
        self.shows_versions.insert(name.clone(), versions);
        self.written.insert(name, table.name.to_string());
        Ok(())
    }

    /// The name of a table as SQL writes it.
    fn sql_name(&self, table: &str) -> String {
        self.written.get(table).cloned().unwrap_or_else(|| table.to_owned())
    }

    fn view(&mut self, view: &CreateView, relations: &Relations) -> Result<(), Error> {
        let Some(name) = folded(&view.name) else { return Ok(()) };
        let mut made = view.clone();
        made.temporary = self.flavour == Flavour::Sqlite;
        let state = self.instrumented(&Statement::CreateView(made), &Mark::initial(1))?;
        self.run(&state.statement)?;
        if relations.is_by_row(&name)
            && let Some(query) = self.view_of_versions(view)?
        {
            let versions = format!("anomalist_versions_{}", self.shows_versions.len());
            let mut columns: Vec<String> = view.columns.iter().map(|c| c.name.to_string()).collect();
            if !columns.is_empty() {
                columns.push(NUMBER.to_owned());
            }
            let columns =
                if columns.is_empty() { String::new() } else { format!(" ({})", columns.join(", ")) };
            let temporary = if self.flavour == Flavour::Sqlite { "TEMPORARY " } else { "" };
            self.run(&format!("CREATE {temporary}VIEW {versions}{columns} AS {query}"))?;
            self.shows_versions.insert(name, versions);
        }
        Ok(())
    }

    /// The query of a view that shows rows of one table, over its versions and with their numbers.
    fn view_of_versions(&mut self, view: &CreateView) -> Result<Option<String>, Error> {
        let SetExpr::Select(select) = view.query.body.as_ref() else { return Ok(None) };
        let Some(TableFactor::Table { name, alias, .. }) = select.from.first().map(|f| &f.relation) else {
            return Ok(None);
        };
        let Some(versions) = folded(name).and_then(|name| self.shows_versions.get(&name).cloned()) else {
            return Ok(None);
        };
        let shown = self.connection.run(&format!("SELECT * FROM {versions} WHERE 1 = 0"))?.pop();
        let columns = shown.map(|reply| reply.columns).unwrap_or_default();
        let quoted = |column: &&String| !column.eq_ignore_ascii_case(NUMBER);
        let all: Vec<String> =
            columns.iter().filter(quoted).map(|column| self.flavour.dialect().quote(column)).collect();
        let item = |item: &SelectItem| match item {
            SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => all.join(", "),
            other => other.to_string(),
        };
        let items: Vec<String> = select.projection.iter().map(item).collect();
        let alias = alias.as_ref().map_or_else(|| name.to_string(), |a| a.name.to_string());
        let condition = select.selection.as_ref().map_or(String::new(), |s| format!(" WHERE {s}"));
        Ok(Some(format!("SELECT {}, {NUMBER} FROM {versions} AS {alias}{condition}", items.join(", "))))
    }

    /// Puts the versions of those rows that transactions wrote into the table of versions.
    pub fn fill(&mut self, name: &str, table: &TableRows<'_>) -> Result<(), Error> {
        let Some(versions) = self.shows_versions.get(name).cloned() else { return Ok(()) };
        let mut rows = Vec::new();
        for made in table.rows.iter().filter(|h| h.versions.len() > 1).flat_map(|h| &h.versions) {
            if let State::Values(_, values) = made.state {
                let mut row: Vec<String> = values.iter().map(|v| literal(self.flavour, v)).collect();
                row.push(made.number.to_string());
                rows.push(format!("({})", row.join(", ")));
            }
        }
        let columns = table.columns.join(", ");
        for rows in rows.chunks(ROWS) {
            self.run(&format!("INSERT INTO {versions} ({columns}, {NUMBER}) VALUES {}", rows.join(", ")))?;
        }
        Ok(())
    }

    /// The versions that match each of these conditions; none where the server does not say.
    pub fn matching(
        &mut self,
        conditions: &[&RowCondition],
        numbers: &BTreeMap<String, Vec<usize>>,
    ) -> Vec<Option<Matching>> {
        let mut found = Vec::new();
        for together in conditions.chunks(TOGETHER) {
            match self.ask(together) {
                Ok(all) => found.extend(all.into_iter().map(Some)),
                Err(_) => {
                    for one in together {
                        let answer = self.ask(&[one]).ok().and_then(|mut all| all.pop());
                        found.push(answer.or_else(|| self.one_by_one(one, numbers.get(&one.table)?)));
                    }
                }
            }
        }
        found
    }

    fn ask(&mut self, conditions: &[&RowCondition]) -> Result<Vec<Matching>, Error> {
        let mut arms = Vec::new();
        for (place, one) in conditions.iter().enumerate() {
            let versions = self.version_relation(one)?;
            arms.push(format!(
                "SELECT {place}, {NUMBER} FROM {versions} AS {} WHERE {}",
                one.alias, one.condition
            ));
        }
        let mut found = vec![Matching::default(); conditions.len()];
        for row in self.run(&arms.join(" UNION ALL "))? {
            if let [Value::Int(place), Value::Int(number)] = row[..]
                && let Some(matching) = usize::try_from(place).ok().and_then(|at| found.get_mut(at))
            {
                matching.yes.extend(usize::try_from(number));
            }
        }
        Ok(found)
    }

    /// A condition that fails on some versions, of each version alone: LIMIT keeps the others away from it.
    fn one_by_one(&mut self, one: &RowCondition, numbers: &[usize]) -> Option<Matching> {
        let versions = self.version_relation(one).ok().filter(|_| numbers.len() <= ONE_BY_ONE)?;
        let mut found = Matching::default();
        for &number in numbers {
            let alone = format!("(SELECT * FROM {versions} WHERE {NUMBER} = {number} LIMIT 1)");
            let text = format!("SELECT {NUMBER} FROM {alone} AS {} WHERE {}", one.alias, one.condition);
            match self.run(&text) {
                Ok(rows) if rows.is_empty() => {}
                Ok(_) => _ = found.yes.insert(number),
                Err(_) => _ = found.unknown.insert(number),
            }
        }
        (found.unknown.len() < numbers.len()).then_some(found)
    }

    fn version_relation(&self, one: &RowCondition) -> Result<String, Error> {
        let unknown = || Error::new(Kind::Unsupported, format!("no versions of {}", one.relation));
        self.shows_versions.get(&one.relation).cloned().ok_or_else(unknown)
    }

    /// Loads a state; `backwards`: with the rows in the opposite order.
    pub fn load(&mut self, tables: &[LoadedTable<'_>], backwards: bool) -> Result<(), Error> {
        let mut text = Vec::new();
        for table in tables {
            let name = self.sql_name(table.name);
            text.push(format!("DELETE FROM {name}"));
            let row = |&(row, list, values): &(&str, &str, &[Value])| {
                let values = values.iter().map(|v| literal(self.flavour, v));
                let own = [row, list].map(|t| self.flavour.dialect().literal(t));
                format!("({})", values.chain(own).collect::<Vec<String>>().join(", "))
            };
            let mut rows: Vec<String> = table.rows.iter().map(row).collect();
            if backwards {
                rows.reverse();
            }
            let columns = table.columns.join(", ");
            text.extend(rows.chunks(ROWS).map(|rows| {
                format!("INSERT INTO {name} ({columns}, {ROW_ID}, {W_LIST}) VALUES {}", rows.join(", "))
            }));
        }
        // A large state costs as much as many statements.
        self.asked += tables.iter().map(|table| table.rows.len()).sum::<usize>() / ROWS_PER_STATEMENT;
        self.run(&text.join("; ")).map(|_| ())
    }

    /// What a query answers on the loaded state.
    pub fn query(&mut self, statement: &Statement) -> Result<Answer, Error> {
        let made = self.instrumented(statement, &Mark::initial(1))?;
        self.asked += 1;
        let reply = self.connection.run(&made.statement)?.pop().unwrap_or_default();
        let mut step = Step::new(1, "", made.effect);
        step.answered(reply, &made.capture);
        Ok(Answer { visible: visible(&step.visible), rows: step.rows })
    }

    /// What a statement leaves behind in its table, on the loaded state; then it is taken back.
    pub fn write(
        &mut self,
        statement: &Statement,
        mark: &Mark,
        target: &LoadedTable<'_>,
    ) -> Result<Answer, Error> {
        let made = self.instrumented(statement, mark)?;
        self.run("BEGIN")?;
        let (name, columns) = (self.sql_name(target.name), target.columns.join(", "));
        let look = format!("SELECT {columns}, {ROW_ID}, {W_LIST} FROM {name}");
        let result = self.run(&made.statement).and_then(|_| self.run(&look));
        self.run("ROLLBACK")?;
        let mut before: FxHashMap<&str, &str> =
            target.rows.iter().map(|&(row, list, _)| (row, list)).collect();
        let mut written = Vec::new();
        for mut row in result? {
            let (Some(Value::Text(list)), Some(Value::Text(name))) = (row.pop(), row.pop()) else { continue };
            match before.remove(name.as_str()) {
                None => written.push(inserted(&row)),
                Some(old) if old != list => written.push(updated(&name, &row)),
                Some(_) => {}
            }
        }
        written.extend(before.into_keys().map(deleted));
        written.sort_unstable();
        Ok(Answer { visible: written, rows: Vec::new() })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for statement in self.place.remove() {
            _ = self.connection.run(&statement);
        }
    }
}

/// Rows as a client sees them, in no order.
pub(super) fn visible(rows: &[Vec<Value>]) -> Vec<String> {
    let mut shown: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
    shown.sort_unstable();
    shown
}

/// A row that a statement inserted; its name is not always the same.
pub(super) fn inserted(values: &[Value]) -> String {
    format!("+{values:?}")
}

/// A row that a statement updated.
pub(super) fn updated(row: &str, values: &[Value]) -> String {
    format!("{row} {values:?}")
}

/// A row that a statement deleted.
pub(super) fn deleted(row: &str) -> String {
    format!("-{row}")
}

/// A table with nothing but its columns, their types and collations, and its primary key if that is wanted.
fn bare(table: &CreateTable, keyed: bool) -> CreateTable {
    let mut made = table.clone();
    made.partition_by = None;
    made.constraints.retain(|c| keyed && matches!(c, TableConstraint::PrimaryKey(_)));
    for column in &mut made.columns {
        column.options.retain(|o| match &o.option {
            ColumnOption::PrimaryKey(_) => keyed,
            ColumnOption::Collation(_)
            | ColumnOption::CharacterSet(_)
            | ColumnOption::Null
            | ColumnOption::NotNull => true,
            _ => false,
        });
    }
    made
}

/// A value that was seen, as it goes into a column of the type that it came from.
fn literal(flavour: Flavour, value: &Value) -> String {
    let text = |text: &str| flavour.dialect().literal(text);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match (value, flavour) {
        (Value::Null, _) => "NULL".to_owned(),
        (Value::Bytes(bytes), Flavour::PostgreSql) => format!("'\\x{}'", hex(bytes)),
        (Value::Bytes(bytes), _) => format!("X'{}'", hex(bytes)),
        // PostgreSQL takes a text without a type for a value of the column's, a boolean too.
        (Value::Float(float), Flavour::PostgreSql) => match float.is_infinite() {
            true => text(if *float > 0.0 { "Infinity" } else { "-Infinity" }),
            false => text(&format!("{float:?}")),
        },
        (Value::Int(int), Flavour::PostgreSql) => text(&int.to_string()),
        (Value::Int(int), _) => int.to_string(),
        (Value::Float(float), _) => match float.is_infinite() {
            true => if *float > 0.0 { "9e999" } else { "-9e999" }.to_owned(),
            false => format!("{float:?}"),
        },
        (Value::Text(shown), _) => text(shown),
    }
}
