//! Statements that write.

use super::catalog::{Relation, folded, last, own};
use super::fragment::{append, expr, items, query, select};
use super::select::is_grouped;
use super::stars::is_star;
use super::{Capture, Effect, Instrumented, Instrumenter, Mark, Unsupported};
use crate::Flavour;
use crate::schema::{ROW_ID, W_LIST};
use anomalist_sqltext::ast::{
    Assignment, AssignmentTarget, Delete, FromTable, Ident, Insert, ObjectName, OnConflictAction, OnInsert,
    Query, SelectItem, SetExpr, SqliteOnConflict, TableFactor, TableObject, TableWithJoins, Update, Values,
};

impl Instrumenter {
    pub(super) fn update(&self, update: &Update, mark: &Mark) -> Result<Instrumented, Unsupported> {
        if update.or == Some(SqliteOnConflict::Replace) {
            return Err(Unsupported::new("which rows UPDATE OR REPLACE deletes is not seen"));
        }
        let mut made = update.clone();
        let joined = !made.table.joins.is_empty() || made.from.is_some();
        for target in targets(update)? {
            let column = if joined { format!("{target}.{W_LIST}") } else { W_LIST.to_owned() };
            let set = if joined && self.flavour.is_mysql() { column.as_str() } else { W_LIST };
            made.assignments.push(self.appending(set, &column, mark)?);
        }
        let mut capture = Capture::default();
        if self.flavour.update_returns() {
            let (name, relation) = self.target(&update.table.relation)?;
            let prefix =
                if joined { format!("{}.", qualifier(&update.table.relation)?) } else { String::new() };
            capture = self.returning(&mut made.returning, &name, &relation, &prefix)?;
        }
        Ok(Instrumented {
            before: None,
            statement: made.to_string(),
            capture,
            inserted: Vec::new(),
            effect: Effect::Update,
        })
    }

    pub(super) fn delete(&self, delete: &Delete) -> Result<Instrumented, Unsupported> {
        let mut made = delete.clone();
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        let [TableWithJoins { relation, joins }] = &from[..] else {
            return Err(Unsupported::new("a DELETE from several tables"));
        };
        if !joins.is_empty() || !delete.tables.is_empty() {
            return Err(Unsupported::new("a DELETE from several tables"));
        }
        let (name, described) = self.target(relation)?;
        let mut capture = Capture::default();
        let mut before = None;
        if self.flavour.returns() {
            let prefix = match delete.using {
                Some(_) => format!("{}.", qualifier(relation)?),
                None => String::new(),
            };
            capture = self.returning(&mut made.returning, &name, &described, &prefix)?;
        } else {
            if delete.using.is_some() {
                return Err(Unsupported::new("a DELETE with USING and no RETURNING"));
            }
            let mut look = query(self.flavour, &format!("SELECT {ROW_ID}, {W_LIST} FROM t FOR UPDATE"))?;
            if let SetExpr::Select(select) = look.body.as_mut() {
                select.from = from.clone();
                select.selection = delete.selection.clone();
            }
            look.order_by = (!delete.order_by.is_empty()).then(|| anomalist_sqltext::ast::OrderBy {
                kind: anomalist_sqltext::ast::OrderByKind::Expressions(delete.order_by.clone()),
                interpolate: None,
            });
            look.limit_clause =
                delete.limit.clone().map(|limit| anomalist_sqltext::ast::LimitClause::LimitOffset {
                    limit: Some(limit),
                    offset: None,
                    limit_by: Vec::new(),
                });
            before = Some(look.to_string());
        }
        // MariaDB has RETURNING at the end, trees before ORDER BY and LIMIT.
        let last = made.returning.take_if(|_| self.flavour == Flavour::MariaDb);
        let statement = match last {
            Some(items) => format!("{made} RETURNING {}", listed(&items)),
            None => made.to_string(),
        };
        Ok(Instrumented { before, statement, capture, inserted: Vec::new(), effect: Effect::Delete })
    }

    pub(super) fn insert(&self, insert: &Insert, mark: &Mark) -> Result<Instrumented, Unsupported> {
        let TableObject::TableName(name) = &insert.table else {
            return Err(Unsupported::new("INSERT into something that is no table"));
        };
        let relation = self.catalog.get(name);
        if !relation.is_table {
            return Err(Unsupported::new("INSERT into a view"));
        }
        let mut source = insert.source.clone();
        if let Some(source) = &mut source {
            self.starless(source, &self.catalog)?;
        }
        let replaces = insert.replace_into || insert.or == Some(SqliteOnConflict::Replace);
        let mut made = insert.clone();
        let mut before = None;
        if !insert.assignments.is_empty() {
            for (column, value) in [
                (ROW_ID, format!("'{}{}'", mark.rows, mark.first)),
                (W_LIST, format!("'{}'", mark.appended())),
            ] {
                made.assignments.push(assignment(column, expr(self.flavour, &value)?));
            }
        } else {
            if made.columns.is_empty()
                && let Some(columns) = &relation.columns
                && source.is_some()
            {
                let given = source.as_deref().and_then(width).unwrap_or(columns.len());
                // PostgreSQL fills the first columns if there are fewer values; for others that is an
                // error, and stays one.
                let given = if self.flavour == Flavour::PostgreSql { given } else { columns.len() };
                made.columns = columns.iter().take(given).map(|c| object(c)).collect();
            }
            if !made.columns.is_empty() || insert.source.is_none() {
                made.columns.extend([object(ROW_ID), object(W_LIST)]);
            }
            made.source = Some(self.source(source.as_deref(), mark)?);
        }
        if replaces {
            before = self.in_the_way(insert, name, &relation)?;
        }
        let qualifier = insert.table_alias.as_ref().map_or_else(|| name.to_string(), |a| a.alias.to_string());
        let column = format!("{qualifier}.{W_LIST}");
        let mut upsert = false;
        match &mut made.on {
            Some(OnInsert::DuplicateKeyUpdate(assignments)) => {
                upsert = true;
                assignments.push(self.appending(W_LIST, &column, mark)?);
            }
            Some(OnInsert::OnConflict(conflict)) => {
                if let OnConflictAction::DoUpdate(update) = &mut conflict.action {
                    upsert = true;
                    update.assignments.push(self.appending(W_LIST, &column, mark)?);
                }
            }
            _ => {}
        }
        let mut capture = Capture::default();
        if self.flavour.returns() {
            capture = self.returning(&mut made.returning, &last(name), &relation, "")?;
        }
        let inserted = match insert.source.as_ref().map(|s| s.body.as_ref()) {
            Some(SetExpr::Values(values)) => values.rows.len() as u64,
            Some(_) => 0,
            None => 1,
        };
        // With RETURNING it says itself which rows it made: an upsert may have made none.
        let certain = !upsert && insert.or.is_none() && !insert.ignore && insert.on.is_none();
        let counted = upsert && self.flavour == Flavour::MySql;
        let named = if certain || counted { inserted } else { 0 };
        let inserted = (0..named).map(|i| format!("{}{}", mark.rows, mark.first + i).into()).collect();
        let effect = if replaces { Effect::Replace } else { Effect::Insert { upsert } };
        Ok(Instrumented { before, statement: made.to_string(), capture, inserted, effect })
    }

    /// The rows to insert, with a name and a list each.
    fn source(&self, source: Option<&Query>, mark: &Mark) -> Result<Box<Query>, Unsupported> {
        let list = format!("'{}'", mark.appended());
        let Some(source) = source else {
            let text = format!("VALUES ('{}{}', {list})", mark.rows, mark.first);
            return Ok(Box::new(query(self.flavour, &text)?));
        };
        let mut made = source.clone();
        match made.body.as_mut() {
            SetExpr::Values(Values { rows, .. }) => {
                for (number, row) in (mark.first..).zip(rows) {
                    row.content.push(expr(self.flavour, &format!("'{}{number}'", mark.rows))?);
                    row.content.push(expr(self.flavour, &list)?);
                }
                return Ok(Box::new(made));
            }
            SetExpr::Select(body) if !is_grouped(self.flavour, body) => {
                body.projection.extend(items(self.flavour, &format!("{}, {list}", self.unique(mark)))?);
                return Ok(Box::new(made));
            }
            _ => {}
        }
        // A name of its own would make rows different that are the same: it is given outside.
        let text = format!("SELECT q.*, {}, {list} FROM (SELECT 1) AS q", self.unique(mark));
        let mut outer = select(self.flavour, &text)?;
        if let Some(TableFactor::Derived { subquery, .. }) = outer.from.first_mut().map(|f| &mut f.relation) {
            **subquery = made;
        }
        let mut whole = query(self.flavour, "SELECT 1")?;
        *whole.body = SetExpr::Select(Box::new(outer));
        Ok(Box::new(whole))
    }

    /// A name for a row that the database makes up, because only it knows how many there will be.
    fn unique(&self, mark: &Mark) -> String {
        match self.flavour {
            // Before PostgreSQL 13, UUIDs are an extension's. Two numbers are as good: the name is the
            // statement's own.
            Flavour::PostgreSql => format!("'{}' || random()::text || random()::text", mark.rows),
            Flavour::Sqlite => format!("'{}' || hex(randomblob(8))", mark.rows),
            Flavour::MariaDb | Flavour::MySql => format!("CONCAT('{}', UUID())", mark.rows),
        }
    }

    /// The rows that a REPLACE will delete: those with one of its keys (cases 9 and 10 of Table 1).
    fn in_the_way(
        &self,
        insert: &Insert,
        name: &ObjectName,
        relation: &Relation,
    ) -> Result<Option<String>, Unsupported> {
        if relation.keys.is_empty() {
            return Ok(None);
        }
        let Some(SetExpr::Values(values)) = insert.source.as_ref().map(|s| s.body.as_ref()) else {
            return Err(Unsupported::new("REPLACE with a query, into a table with keys"));
        };
        let listed: Vec<String> = insert.columns.iter().map(last).collect();
        let columns = if listed.is_empty() { relation.columns.clone().unwrap_or_default() } else { listed };
        let place = |column: &String| columns.iter().position(|c| folded(c) == folded(column));
        let mut conditions = Vec::new();
        for row in &values.rows {
            for key in &relation.keys {
                let Some(places) = key.iter().map(place).collect::<Option<Vec<usize>>>() else { continue };
                // A zero is no value here but asks for the next number, which no row has.
                let zero = |column: &String, at: usize| {
                    relation.numbered.iter().any(|n| folded(n) == folded(column))
                        && row.content.get(at).is_some_and(|v| v.to_string() == "0")
                };
                if self.flavour.is_mysql() && key.iter().zip(&places).any(|(column, &at)| zero(column, at)) {
                    continue;
                }
                let equal =
                    |(column, &at): (&String, &usize)| Some(format!("{column} = {}", row.content.get(at)?));
                let Some(parts) = key.iter().zip(&places).map(equal).collect::<Option<Vec<String>>>() else {
                    continue;
                };
                conditions.push(parts.join(" AND "));
            }
        }
        if conditions.is_empty() {
            return Ok(None);
        }
        let condition = match &conditions[..] {
            [one] => one.clone(),
            several => several.iter().map(|c| format!("({c})")).collect::<Vec<_>>().join(" OR "),
        };
        let lock = if self.flavour.locks_rows() { " FOR UPDATE" } else { "" };
        let text = format!("SELECT {ROW_ID}, {W_LIST} FROM {name} WHERE {condition}{lock}");
        Ok(Some(query(self.flavour, &text)?.to_string()))
    }

    /// `RETURNING` with the auxiliary columns at the end, and the whole row if asked for.
    fn returning(
        &self,
        returning: &mut Option<Vec<SelectItem>>,
        name: &str,
        relation: &Relation,
        prefix: &str,
    ) -> Result<Capture, Unsupported> {
        let mut columns = vec![format!("{prefix}{ROW_ID}"), format!("{prefix}{W_LIST}")];
        let mut capture = Capture::of(&[own()]);
        if let Some(all) = relation.columns.as_ref().filter(|_| self.whole_rows) {
            columns.extend(all.iter().map(|c| format!("{prefix}{c}")));
            capture.values = Some((name.to_owned(), all.clone()));
        }
        let said = returning.take().unwrap_or_default();
        let mut all = Vec::new();
        for item in said {
            if !is_star(&item) {
                all.push(item);
                continue;
            }
            // `*` would return the auxiliary columns as well; with other tables in the statement, theirs
            // too.
            let Some(known) = relation.columns.as_ref().filter(|_| prefix.is_empty()) else {
                return Err(Unsupported::new("RETURNING * of several tables, or of one that is not known"));
            };
            all.extend(items(self.flavour, &known.join(", "))?);
        }
        all.extend(items(self.flavour, &columns.join(", "))?);
        *returning = Some(all);
        Ok(capture)
    }

    fn appending(&self, target: &str, column: &str, mark: &Mark) -> Result<Assignment, Unsupported> {
        let mut made =
            assignment(W_LIST, expr(self.flavour, &append(self.flavour, column, &mark.appended()))?);
        if let Some((table, column)) = target.split_once('.') {
            made.target = AssignmentTarget::ColumnName(vec![Ident::new(table), Ident::new(column)].into());
        }
        Ok(made)
    }

    /// The table that a statement writes.
    fn target(&self, factor: &TableFactor) -> Result<(String, Relation), Unsupported> {
        match factor {
            TableFactor::Table { name, args: None, .. } => {
                let relation = self.catalog.get(name);
                match relation.is_table {
                    true => Ok((last(name), relation)),
                    false => Err(Unsupported::new("writing through a view")),
                }
            }
            _ => Err(Unsupported::new("writing to something that is not a table")),
        }
    }
}

/// What the columns of a table in `FROM` are qualified with.
fn qualifier(factor: &TableFactor) -> Result<String, Unsupported> {
    match factor {
        TableFactor::Table { name, alias, .. } => {
            Ok(alias.as_ref().map_or_else(|| name.to_string(), |a| a.name.to_string()))
        }
        _ => Err(Unsupported::new("writing to something that is not a table")),
    }
}

/// The tables that an UPDATE writes: the one it names or, in MySQL's form with joins, those whose columns
/// it sets.
fn targets(update: &Update) -> Result<Vec<String>, Unsupported> {
    let first = qualifier(&update.table.relation)?;
    if update.table.joins.is_empty() {
        return Ok(vec![first]);
    }
    let mut found: Vec<String> = Vec::new();
    for assignment in &update.assignments {
        let AssignmentTarget::ColumnName(name) = &assignment.target else {
            return Err(Unsupported::new("an UPDATE of several tables that sets tuples"));
        };
        let [table, _] = &name.0[..] else {
            return Err(Unsupported::new(
                "an UPDATE of several tables with a column that has no table before it",
            ));
        };
        let table = table.to_string();
        if !found.contains(&table) {
            found.push(table);
        }
    }
    Ok(found)
}

/// How many values a row of a query has, if that can be known without knowing its tables.
fn width(source: &Query) -> Option<usize> {
    match source.body.as_ref() {
        SetExpr::Values(values) => values.rows.first().map(|row| row.content.len()),
        SetExpr::Select(select) => {
            (!select.projection.iter().any(is_star)).then_some(select.projection.len())
        }
        _ => None,
    }
}

fn listed(items: &[SelectItem]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn assignment(column: &str, value: anomalist_sqltext::ast::Expr) -> Assignment {
    Assignment { target: AssignmentTarget::ColumnName(object(column)), value }
}

fn object(name: &str) -> ObjectName {
    Ident::new(name).into()
}
