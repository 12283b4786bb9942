//! Functions that return a set, in a select list: `SELECT oid, unnest(conkey), generate_subscripts(conkey, 1) FROM …`.
//!
//! PostgreSQL makes a row for each element, and lets several such functions of one list go in step: the shorter ones give NULL
//! at their end. So the places of the longest list become one more table of FROM, and the functions what is at that place.

use super::error::SqlError;
use super::names::{arguments, bare};
use super::trees::call;
use isolde_sqltext::ast::{Expr, GroupByExpr, Ident, Select, SelectItem, SetExpr, Statement};
use isolde_sqltext::{Dialect, parse};

/// The table of places.
const PLACES: &str = "weak_places";

/// Rewrites a select whose expressions have been rewritten already.
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
    let sql = format!("SELECT 1 FROM json_each(weak_places({})) AS {PLACES}", lists.join(", "));
    if let Ok(Statement::Query(query)) = parse(Dialect::Sqlite, &sql)
        && let SetExpr::Select(mut places) = *query.body
    {
        select.from.append(&mut places.from);
        return Ok(());
    }
    Err(SqlError::unsupported("this form of a function that returns a set"))
}
