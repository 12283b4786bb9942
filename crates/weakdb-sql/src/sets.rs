//! Functions that return a set: `SELECT oid, unnest(conkey), generate_subscripts(conkey, 1) FROM …`, and
//! lists in place of a table, `FROM unnest(names, ages) WITH ORDINALITY p(name, age, at)`.
//!
//! PostgreSQL makes a row for each element, and lets several lists go in step: the shorter ones give NULL
//! at their end. In a select list, the places of the longest list become one more table of FROM, and the
//! functions what is at that place. In FROM, the lists become a subquery; but a subquery of SQLite cannot
//! refer to its neighbours, and a function in FROM can. So where a list is a neighbour's column, the table
//! is such a function, each row of it a list, and columns are replaced by their places in it.

use super::error::SqlError;
use super::names::{arguments, bare};
use super::trees::{call, text};
use anomalist_sqltext::ast::{
    Expr, GroupByExpr, Ident, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Statement,
    TableAlias, TableFactor, VisitorMut,
};
use anomalist_sqltext::walk;
use anomalist_sqltext::{Dialect, parse};
use std::ops::ControlFlow;

/// What a table of lists is called if it has no other name, and its columns.
pub(super) const UNNEST: &str = "unnest";
/// The table of places.
const PLACES: &str = "weak_places";

/// A table whose rows are lists.
struct Table {
    name: String,
    columns: Vec<String>,
}

impl Table {
    fn cell(&self, at: usize) -> Expr {
        let row = vec![Ident::with_quote('`', &self.name), Ident::new("value")];
        call("json_extract", vec![Expr::CompoundIdentifier(row), text(format!("$[{at}]"))])
    }

    /// All columns by their names, as they would be written in a select list.
    fn all(&self) -> Vec<String> {
        let column = |(at, name): (usize, &String)| format!("{} AS {}", self.cell(at), quoted(name));
        self.columns.iter().enumerate().map(column).collect()
    }
}

fn quoted(name: &str) -> String {
    Dialect::MySql.quote(name)
}

fn unsupported() -> SqlError {
    SqlError::unsupported("this form of a function that returns a set")
}

/// A select of SQLite.
fn parsed(sql: &str) -> Result<Select, SqlError> {
    if let Ok(Statement::Query(query)) = parse(Dialect::Sqlite, sql)
        && let SetExpr::Select(select) = *query.body
    {
        return Ok(*select);
    }
    Err(unsupported())
}

/// The names of the columns of so many lists.
pub(super) fn list_columns(alias: Option<&TableAlias>, lists: usize, numbered: bool) -> Vec<String> {
    let given = |at: usize| alias.and_then(|a| a.columns.get(at)).map(|column| column.name.value.clone());
    let usual = match alias {
        Some(alias) if lists == 1 => &alias.name.value,
        _ => UNNEST,
    };
    let mut columns: Vec<String> =
        (0..lists).map(|at| given(at).unwrap_or_else(|| usual.to_owned())).collect();
    if numbered {
        columns.push(given(lists).unwrap_or_else(|| "ordinality".to_owned()));
    }
    columns
}

/// The tables of FROM, in their order.
fn tables(select: &mut Select) -> impl Iterator<Item = &mut TableFactor> {
    select.from.iter_mut().flat_map(|from| {
        std::iter::once(&mut from.relation).chain(from.joins.iter_mut().map(|join| &mut join.relation))
    })
}

/// The name that a table goes by.
fn name_of(table: &TableFactor) -> Option<String> {
    match table {
        TableFactor::Table { alias: Some(a), .. }
        | TableFactor::Derived { alias: Some(a), .. }
        | TableFactor::UNNEST { alias: Some(a), .. } => Some(a.name.value.clone()),
        TableFactor::Table { name, .. } => Some(bare(name)),
        TableFactor::UNNEST { .. } => Some(UNNEST.to_owned()),
        _ => None,
    }
}

/// Replaces lists in FROM. Expressions have been rewritten already.
pub(super) fn from_lists(select: &mut Select) -> Result<(), SqlError> {
    let names: Vec<Option<String>> = tables(select).map(|table| name_of(table)).collect();
    let mut replaced: Vec<Table> = Vec::new();
    for (at, table) in tables(select).enumerate() {
        let TableFactor::UNNEST { alias, array_exprs, with_ordinality, .. } = &*table else { continue };
        let columns = list_columns(alias.as_ref(), array_exprs.len(), *with_ordinality);
        let others =
            || names.iter().enumerate().filter(|(i, _)| *i != at).filter_map(|(_, name)| name.as_deref());
        let refers = |list: &Expr| {
            walk::any_expr(list, &mut |expr| match expr {
                Expr::Identifier(_) => others().next().is_some(),
                Expr::CompoundIdentifier(parts) => {
                    others().any(|name| parts[0].value.eq_ignore_ascii_case(name))
                }
                _ => false,
            })
        };
        let lists: Vec<String> = array_exprs.iter().map(ToString::to_string).collect();
        let rows = format!("json_each(weak_rows({}))", lists.join(", "));
        let new = Table { name: names[at].clone().unwrap_or_default(), columns };
        let name = quoted(&new.name);
        let lateral = array_exprs.iter().any(refers);
        let sql = if lateral {
            format!("SELECT 1 FROM {rows} AS {name}")
        } else {
            let all = new.all().join(", ");
            format!("SELECT 1 FROM (SELECT {all} FROM {rows} AS {name}) AS {name}")
        };
        *table = parsed(&sql)?.from.pop().ok_or_else(unsupported)?.relation;
        if lateral {
            replaced.push(new);
        }
    }
    if replaced.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = names.into_iter().flatten().collect();
    let mut items = Vec::new();
    for item in std::mem::take(&mut select.projection) {
        items.append(&mut written_out(item, &names, &replaced)?);
    }
    select.projection = items;
    let _ = walk::change(select, &mut Renamer(&replaced));
    Ok(())
}

/// An item of a select list with all that a `*` in it stands for: the columns of these tables, some of
/// which are lists.
fn written_out(item: SelectItem, tables: &[String], lists: &[Table]) -> Result<Vec<SelectItem>, SqlError> {
    let of = match &item {
        SelectItem::Wildcard(_) => tables,
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => &[bare(name)],
        _ => return Ok(vec![item]),
    };
    let all = of.iter().flat_map(|name| match lists.iter().find(|t| t.name.eq_ignore_ascii_case(name)) {
        Some(list) => list.all(),
        None => vec![format!("{}.*", quoted(name))],
    });
    Ok(parsed(&format!("SELECT {}", all.collect::<Vec<_>>().join(", ")))?.projection)
}

/// Puts cells in place of the columns of tables whose rows are lists.
struct Renamer<'a>(&'a [Table]);

impl VisitorMut for Renamer<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let (table, column) = match &*expr {
            Expr::Identifier(column) => (None, column),
            Expr::CompoundIdentifier(parts) if parts.len() == 2 => (Some(&parts[0].value), &parts[1]),
            _ => return ControlFlow::Continue(()),
        };
        let fits = |t: &&Table| table.is_none_or(|name| t.name.eq_ignore_ascii_case(name));
        let place = |t: &Table| t.columns.iter().position(|c| c.eq_ignore_ascii_case(&column.value));
        if let Some(cell) = self.0.iter().filter(fits).find_map(|t| place(t).map(|at| t.cell(at))) {
            *expr = cell;
        }
        ControlFlow::Continue(())
    }
}

/// Replaces functions that return a set in a select list. Expressions have been rewritten already.
pub(super) fn to_rows(select: &mut Select) -> Result<(), SqlError> {
    let mut lists: Vec<String> = Vec::new();
    for item in &mut select.projection {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { continue };
        let Expr::Function(function) = &*expr else { continue };
        let at_place = match bare(&function.name).to_lowercase().as_str() {
            "unnest" => "weak_element",
            "generate_subscripts" => "weak_subscript",
            _ => continue,
        };
        let Some(&list) = arguments(function).first() else { continue };
        let place = vec![Ident::new(PLACES), Ident::new("value")];
        lists.push(list.to_string());
        *expr = call(at_place, vec![list.clone(), Expr::CompoundIdentifier(place)]);
    }
    if lists.is_empty() {
        return Ok(());
    }
    // A set is made of each group there; here it would be made before there are groups.
    if !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty()) {
        return Err(SqlError::unsupported("functions that return a set beside GROUP BY"));
    }
    let mut places =
        parsed(&format!("SELECT 1 FROM json_each(weak_places({})) AS {PLACES}", lists.join(", ")))?;
    select.from.append(&mut places.from);
    Ok(())
}
