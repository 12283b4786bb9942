//! Plans of statements that write: a query that gives the rows to change and the values to write.

use super::catalogue::Table;
use super::engine::ROWS;
use super::error::{Code, SqlError};
use super::names::bare;
use super::plan::{DeletePlan, InsertPlan, OnDuplicate, Planner, Returning, UpdatePlan};
use super::rewrite::rewrite;
use anomalist_sqltext::ast::{
    Assignment, AssignmentTarget, ConflictTarget, Delete, Expr, FromTable, Insert, OnConflictAction,
    OnInsert, SelectItem, SetExpr, SqliteOnConflict, Statement, TableFactor, TableObject, TableWithJoins,
    Update, UpdateTableFromKind, Value,
};
use anomalist_sqltext::{Dialect, parse};
use std::sync::Arc;

impl Planner<'_> {
    pub(super) fn insert(&self, insert: Insert, count: usize) -> Result<InsertPlan, SqlError> {
        let TableObject::TableName(name) = &insert.table else {
            return Err(SqlError::unsupported("INSERT into something that is no table"));
        };
        let table = self.catalogue.require(&bare(name))?;
        let alias = insert.table_alias.as_ref().map_or_else(|| table.name.clone(), |a| a.alias.value.clone());
        let mut columns: Vec<usize> =
            insert.columns.iter().map(|c| table.require(&bare(c))).collect::<Result<_, _>>()?;
        let mut defaults = Vec::new();
        let source = if !insert.assignments.is_empty() {
            columns = insert.assignments.iter().map(|a| target(&table, a)).collect::<Result<_, _>>()?;
            let values: Vec<String> = insert.assignments.iter().map(|a| a.value.to_string()).collect();
            Ok(self.query_of(&format!("VALUES ({})", values.join(", ")))?)
        } else if let Some(mut query) = insert.source.clone() {
            if insert.columns.is_empty() {
                columns = (0..table.columns.len()).collect();
            }
            if let SetExpr::Values(values) = &mut *query.body {
                defaults = take_defaults(
                    values.rows.iter_mut().map(|row| &mut row.content),
                    columns.len(),
                    &insert.columns,
                )?;
                if insert.columns.is_empty() {
                    let width = values.rows.first().map_or(0, |row| row.content.len());
                    columns.truncate(width);
                }
                values.explicit_row = false;
                values.value_keyword = false;
            }
            match &*query.body {
                SetExpr::Values(values) if values.rows.iter().all(|row| row.content.is_empty()) => {
                    Err(values.rows.len())
                }
                _ => Ok(self.query(Statement::Query(query))?),
            }
        } else {
            columns.clear();
            Err(1)
        };
        let duplicate = self.duplicate(&insert, &table, &alias, count)?;
        let returning = self.returning(insert.returning.as_deref(), &table, &alias, count)?;
        Ok(InsertPlan { table, columns, source, defaults, duplicate, returning })
    }

    fn duplicate(
        &self,
        insert: &Insert,
        table: &Table,
        alias: &str,
        count: usize,
    ) -> Result<OnDuplicate, SqlError> {
        if insert.replace_into || insert.or == Some(SqliteOnConflict::Replace) {
            return Ok(OnDuplicate::Replace);
        }
        if insert.ignore || insert.or == Some(SqliteOnConflict::Ignore) {
            return Ok(OnDuplicate::Ignore(None));
        }
        let (target_columns, assignments, selection) = match &insert.on {
            None => return Ok(OnDuplicate::Fail),
            Some(OnInsert::DuplicateKeyUpdate(assignments)) => (None, assignments, None),
            Some(OnInsert::OnConflict(conflict)) => {
                let on = match &conflict.conflict_target {
                    None => None,
                    Some(ConflictTarget::Columns(names)) => {
                        Some(names.iter().map(|n| table.require(&n.value)).collect::<Result<Vec<_>, _>>()?)
                    }
                    Some(ConflictTarget::OnConstraint(name)) => Some(constraint(table, &bare(name))?),
                };
                match &conflict.action {
                    OnConflictAction::DoNothing => return Ok(OnDuplicate::Ignore(on)),
                    OnConflictAction::DoUpdate(update) => {
                        (on, &update.assignments, update.selection.as_ref())
                    }
                }
            }
            Some(other) => return Err(SqlError::unsupported(format!("INSERT … {other}"))),
        };
        let columns: Vec<usize> = assignments.iter().map(|a| target(table, a)).collect::<Result<_, _>>()?;
        let values: Vec<String> = assignments.iter().map(|a| a.value.to_string()).collect();
        let quote = |name: &str| self.dialect.quote(name);
        let given: Vec<String> = table
            .columns
            .iter()
            .enumerate()
            .map(|(at, c)| format!("{} AS {}", self.parameter(count + 2 + at), quote(&c.name)))
            .collect();
        // MySQL may give the new row another name.
        let excluded =
            insert.insert_alias.as_ref().map_or_else(|| "excluded".to_owned(), |a| bare(&a.row_alias));
        let sql = format!(
            "SELECT {} FROM {} AS {} CROSS JOIN (SELECT {}) AS {} WHERE {}._row = {}{}",
            values.join(", "),
            quote(&format!("{}{ROWS}", table.name)),
            quote(alias),
            given.join(", "),
            quote(&excluded),
            quote(alias),
            self.parameter(count + 1),
            selection.map_or_else(String::new, |s| format!(" AND ({s})")),
        );
        // Names without table mean the row that is there, but both tables have them.
        let mut statement = parse(self.dialect, &sql)?;
        qualify(&mut statement, table, alias);
        let names = self.names(&statement);
        let sql = rewrite(statement, &names, self.dialect)?.sql;
        Ok(OnDuplicate::Update { target: target_columns, columns, sql })
    }

    fn returning(
        &self,
        items: Option<&[SelectItem]>,
        table: &Table,
        alias: &str,
        count: usize,
    ) -> Result<Option<Returning>, SqlError> {
        let Some(items) = items else { return Ok(None) };
        let quote = |name: &str| self.dialect.quote(name);
        let all = || {
            table
                .columns
                .iter()
                .map(|c| format!("{}.{}", quote(alias), quote(&c.name)))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let items: Vec<String> = items
            .iter()
            .map(|item| match item {
                SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => all(),
                item => item.to_string(),
            })
            .collect();
        let sql = format!(
            "SELECT {} FROM {} AS {} WHERE {}._row = {}",
            items.join(", "),
            quote(&format!("{}{ROWS}", table.name)),
            quote(alias),
            quote(alias),
            self.parameter(count + 1),
        );
        Ok(Some(Returning { sql: self.query_of(&sql)?.sql }))
    }

    pub(super) fn update(&self, update: Update, count: usize) -> Result<UpdatePlan, SqlError> {
        let mut from = vec![update.table.clone()];
        if let Some(UpdateTableFromKind::BeforeSet(more) | UpdateTableFromKind::AfterSet(more)) = &update.from
        {
            from.extend(more.iter().cloned());
        }
        // With joins, the table to change is the one that the assignments name.
        let named = update.assignments.first().and_then(|a| match &a.target {
            AssignmentTarget::ColumnName(name) if name.0.len() > 1 => {
                name.0[name.0.len() - 2].as_ident().map(|i| i.value.clone())
            }
            _ => None,
        });
        let (table, alias) = self.mark_target(&mut from, named.as_deref(), |table| {
            update.assignments.iter().all(|a| target(table, a).is_ok())
        })?;
        let columns: Vec<usize> =
            update.assignments.iter().map(|a| target(&table, a)).collect::<Result<_, _>>()?;
        let values: Vec<String> = update
            .assignments
            .iter()
            .map(|a| {
                // DEFAULT stands for the column's own default.
                if matches!(&a.value, Expr::Identifier(name) if name.value.eq_ignore_ascii_case("default")) {
                    let column = target(&table, a).ok().map(|at| &table.columns[at]);
                    return column.and_then(|c| c.default.clone()).unwrap_or_else(|| "NULL".to_owned());
                }
                a.value.to_string()
            })
            .collect();
        let values = values.iter().map(|v| format!(", {v}")).collect::<String>();
        let tail = tail(update.selection.as_ref(), &update.order_by, update.limit.as_ref());
        let sql = format!("SELECT {}._row{values} FROM {}{tail}", self.dialect.quote(&alias), list(&from));
        let returning = self.returning(update.returning.as_deref(), &table, &alias, count)?;
        Ok(UpdatePlan { table, columns, source: self.query_of(&sql)?, returning })
    }

    pub(super) fn delete(&self, delete: Delete, count: usize) -> Result<DeletePlan, SqlError> {
        let mut from = match delete.from {
            FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from) => from,
        };
        let named = delete.tables.first().map(bare);
        if delete.tables.len() > 1 {
            return Err(SqlError::unsupported("DELETE from several tables"));
        }
        if let Some(using) = delete.using {
            from.extend(using);
        }
        let (table, alias) = self.mark_target(&mut from, named.as_deref(), |_| true)?;
        let tail = tail(delete.selection.as_ref(), &delete.order_by, delete.limit.as_ref());
        let sql = format!("SELECT {}._row FROM {}{tail}", self.dialect.quote(&alias), list(&from));
        let returning = self.returning(delete.returning.as_deref(), &table, &alias, count)?;
        Ok(DeletePlan { table, source: self.query_of(&sql)?, returning })
    }

    /// Finds the table to change, and lets it show the numbers of its rows.
    fn mark_target(
        &self,
        from: &mut [TableWithJoins],
        named: Option<&str>,
        fits: impl Fn(&Table) -> bool,
    ) -> Result<(Arc<Table>, String), SqlError> {
        let mut undefined = None;
        for factor in from
            .iter_mut()
            .flat_map(|f| std::iter::once(&mut f.relation).chain(f.joins.iter_mut().map(|j| &mut j.relation)))
        {
            let TableFactor::Table { name, alias, .. } = factor else { continue };
            let called = alias.as_ref().map_or_else(|| bare(name), |a| a.name.value.clone());
            if named.is_some_and(|n| !n.eq_ignore_ascii_case(&called)) {
                continue;
            }
            let table = match self.catalogue.require(&bare(name)) {
                Ok(table) => table,
                Err(error) => {
                    undefined.get_or_insert(error);
                    continue;
                }
            };
            if !fits(&table) && named.is_none() && undefined.is_none() {
                undefined = Some(SqlError::new(
                    Code::UndefinedColumn,
                    format!("an assigned column of \"{called}\" does not exist"),
                ));
                continue;
            }
            let marked = format!(
                "SELECT * FROM {} AS {}",
                self.dialect.quote(&format!("{}{ROWS}", table.name)),
                self.dialect.quote(&called)
            );
            if let Statement::Query(query) = parse(self.dialect, &marked)?
                && let SetExpr::Select(mut select) = *query.body
                && let Some(item) = select.from.pop()
            {
                *factor = item.relation;
            }
            return Ok((table, called));
        }
        Err(undefined.unwrap_or_else(|| SqlError::unsupported("a statement that changes no table")))
    }
}

/// The table of an INSERT as a FROM clause has it.
pub(super) fn table_of(table: &TableObject) -> Result<TableWithJoins, SqlError> {
    let TableObject::TableName(name) = table else {
        return Err(SqlError::unsupported("INSERT into a query"));
    };
    let query = parse(Dialect::MySql, &format!("SELECT * FROM {}", Dialect::MySql.quote(&bare(name))))?;
    match query {
        Statement::Query(query) => match *query.body {
            SetExpr::Select(mut select) => select.from.pop().ok_or_else(|| SqlError::unsupported("INSERT")),
            _ => Err(SqlError::unsupported("INSERT")),
        },
        _ => Err(SqlError::unsupported("INSERT")),
    }
}

fn list(from: &[TableWithJoins]) -> String {
    from.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn tail(
    selection: Option<&Expr>,
    order: &[anomalist_sqltext::ast::OrderByExpr],
    limit: Option<&Expr>,
) -> String {
    let mut tail = selection.map_or_else(String::new, |s| format!(" WHERE {s}"));
    if !order.is_empty() {
        let order: Vec<String> = order.iter().map(ToString::to_string).collect();
        tail += &format!(" ORDER BY {}", order.join(", "));
    }
    tail + &limit.map_or_else(String::new, |l| format!(" LIMIT {l}"))
}

/// The column that an assignment is for.
fn target(table: &Table, assignment: &Assignment) -> Result<usize, SqlError> {
    match &assignment.target {
        AssignmentTarget::ColumnName(name) => table.require(&bare(name)),
        AssignmentTarget::Tuple(_) => Err(SqlError::unsupported("assignment to several columns at once")),
    }
}

fn constraint(table: &Table, name: &str) -> Result<Vec<usize>, SqlError> {
    if table.key_name.eq_ignore_ascii_case(name) {
        return Ok(table.key.clone());
    }
    let found = table.unique.iter().find(|u| u.name.eq_ignore_ascii_case(name)).map(|u| u.columns.clone());
    found.ok_or_else(|| SqlError::new(Code::UndefinedObject, format!("constraint \"{name}\" does not exist")))
}

/// Replaces DEFAULT by NULL in rows of VALUES; where it stood.
fn take_defaults<'r>(
    rows: impl Iterator<Item = &'r mut Vec<Expr>>,
    columns: usize,
    named: &[anomalist_sqltext::ast::ObjectName],
) -> Result<Vec<Vec<bool>>, SqlError> {
    let mut all = Vec::new();
    for row in rows {
        if row.len() > columns || (!named.is_empty() && row.len() != columns && !row.is_empty()) {
            let text = format!("INSERT has {} expressions for {columns} columns", row.len());
            return Err(SqlError::new(Code::WrongCount, text));
        }
        let mut mask = vec![false; row.len()];
        for (at, expr) in row.iter_mut().enumerate() {
            let default = matches!(expr, Expr::Identifier(name) if name.value.eq_ignore_ascii_case("default") && name.quote_style.is_none());
            if default {
                *expr = Expr::Value(Value::Null.into());
                mask[at] = true;
            }
        }
        all.push(mask);
    }
    if all.iter().all(|mask| !mask.contains(&true)) {
        all.clear();
    }
    Ok(all)
}

/// Gives columns without a table the table's name.
fn qualify(statement: &mut Statement, table: &Table, alias: &str) {
    use anomalist_sqltext::{ast::Ident, walk};
    walk::each_expr(statement, &mut |expr| {
        if let Expr::Identifier(name) = expr
            && table.column(&name.value).is_some()
        {
            *expr = Expr::CompoundIdentifier(vec![Ident::new(alias), name.clone()]);
        }
        // VALUES(column) of MySQL names a column too, but is no expression over the row.
    });
}
