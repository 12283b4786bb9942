//! One `SELECT`: where its rows come from, and what to add to its columns.

use super::catalog::{Aux, Catalog, Relation};
use super::fragment::{aggregate, all_of, items, joined};
use super::stars::{Source, compares_all, expand};
use super::{Instrumenter, Unsupported};
use crate::Flavour;
use crate::schema::{ROW_ID, W_LIST};
use anomalist_sqltext::ast::{
    Distinct, Expr, FunctionArguments, GroupByExpr, Select, SelectItem, TableFactor, TableWithJoins, Visitor,
};
use anomalist_sqltext::walk;
use std::ops::ControlFlow;

/// What a `SELECT` is part of, and so what it has to return.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arm {
    /// The statement itself: columns by position, their names are not used.
    Outermost,
    /// A view, a common table expression or a query in `FROM`: columns need different names.
    Derived,
    /// An arm of a set operation, all of which tell one row each.
    Pair,
    /// An arm of a set operation: everything in one column.
    Rows,
}

impl Instrumenter {
    /// Whether a `SELECT` has exactly one row behind each row of its result, wherever it is looked at.
    pub(super) fn tells_pair(&self, select: &Select, catalog: &Catalog) -> bool {
        let mut copy = select.clone();
        let Ok(sources) = self.sources(&mut copy.from, catalog) else { return false };
        let aux: Vec<&Aux> = sources.iter().flat_map(|s| &s.relation.aux).collect();
        matches!(aux[..], [Aux::Pair(..)]) && !is_grouped(self.flavour, select)
    }

    /// Adds what tells the rows to the columns of a `SELECT`.
    pub(super) fn single(
        &self,
        select: &mut Select,
        catalog: &Catalog,
        arm: Arm,
    ) -> Result<super::query::Output, Unsupported> {
        if select.into.is_some() || select.top.is_some() || select.qualify.is_some() {
            return Err(Unsupported::new("INTO, TOP and QUALIFY are not instrumented"));
        }
        let sources = self.sources(&mut select.from, catalog)?;
        expand(self.flavour, select, &sources, arm == Arm::Outermost)?;
        let visible = select.projection.iter().map(output_name).collect::<Option<Vec<String>>>();
        let alone = sources.len() == 1;
        let exprs: Vec<Aux> =
            sources.iter().flat_map(|s| s.relation.aux.iter().map(move |a| qualified(a, s, alone))).collect();
        let grouped = is_grouped(self.flavour, select);
        let texts = || -> Vec<String> {
            let text = |a: &Aux| match a {
                Aux::Pair(row, list) => joined(self.flavour, row, list),
                Aux::Rows(rows) => rows.clone(),
            };
            exprs.iter().map(text).collect()
        };
        if exprs.is_empty() && arm != Arm::Rows {
            return Ok((visible, Vec::new()));
        }
        if grouped || arm == Arm::Rows {
            let mut text = all_of(self.flavour, &texts());
            if grouped {
                group(select)?;
                text = aggregate(self.flavour, &text);
            }
            select.projection.extend(items(self.flavour, &format!("{text} AS wRows"))?);
            return Ok((visible, vec![Aux::Rows("wRows".to_owned())]));
        }
        let mut reported = Vec::new();
        for (i, aux) in exprs.iter().enumerate() {
            let number = if i == 0 { String::new() } else { (i + 1).to_string() };
            let (text, name) = match aux {
                Aux::Pair(row, list) => {
                    let names = (format!("{ROW_ID}{number}"), format!("{W_LIST}{number}"));
                    let text = match arm {
                        Arm::Derived => format!("{}, {}", renamed(row, &names.0), renamed(list, &names.1)),
                        _ => format!("{row}, {list}"),
                    };
                    (text, Aux::Pair(names.0, names.1))
                }
                Aux::Rows(rows) => {
                    let name = format!("wRows{number}");
                    let text = if arm == Arm::Derived { renamed(rows, &name) } else { rows.clone() };
                    (text, Aux::Rows(name))
                }
            };
            select.projection.extend(items(self.flavour, &text)?);
            reported.push(name);
        }
        Ok((visible, reported))
    }

    /// The relations of a `FROM` clause; queries in it are instrumented on the way.
    fn sources(&self, from: &mut [TableWithJoins], catalog: &Catalog) -> Result<Vec<Source>, Unsupported> {
        let mut found = Vec::new();
        for item in from {
            self.factor(&mut item.relation, catalog, &mut found)?;
            for join in &mut item.joins {
                if compares_all(&join.join_operator) {
                    return Err(Unsupported::new("NATURAL JOIN would compare the auxiliary columns"));
                }
                self.factor(&mut join.relation, catalog, &mut found)?;
            }
        }
        Ok(found)
    }

    fn factor(
        &self,
        factor: &mut TableFactor,
        catalog: &Catalog,
        found: &mut Vec<Source>,
    ) -> Result<(), Unsupported> {
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let relation = catalog.get(name);
                let qualifier = alias.as_ref().map_or_else(|| name.to_string(), |a| a.name.to_string());
                if alias.as_ref().is_some_and(|a| !a.columns.is_empty()) {
                    return Err(Unsupported::new("an alias with names for the columns"));
                }
                found.push(Source { name: qualifier, relation });
            }
            TableFactor::Derived { subquery, alias: Some(alias), .. } if alias.columns.is_empty() => {
                let (columns, aux) = self.query(subquery, catalog, true)?;
                let relation = Relation::derived(columns, aux);
                found.push(Source { name: alias.name.to_string(), relation });
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                found.extend(self.sources(std::slice::from_mut(table_with_joins.as_mut()), catalog)?);
            }
            _ => {
                return Err(Unsupported::new(
                    "only tables, views and named queries in FROM are instrumented",
                ));
            }
        }
        Ok(())
    }
}

fn qualified(aux: &Aux, source: &Source, alone: bool) -> Aux {
    let named = |column: &str| if alone { column.to_owned() } else { format!("{}.{column}", source.name) };
    match aux {
        Aux::Pair(row, list) => Aux::Pair(named(row), named(list)),
        Aux::Rows(rows) => Aux::Rows(named(rows)),
    }
}

/// `expr AS name`, unless it has that name already.
fn renamed(expr: &str, name: &str) -> String {
    if expr == name { expr.to_owned() } else { format!("{expr} AS {name}") }
}

/// Whether a row of the result stands for several rows.
pub(crate) fn is_grouped(flavour: Flavour, select: &Select) -> bool {
    let by = matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
    let distinct = !matches!(select.distinct, None | Some(Distinct::All));
    // HAVING alone makes one group of everything; but for MySQL's kin it is another WHERE.
    let having = |having: &Expr| !flavour.is_mysql() || is_aggregate(having);
    distinct || !by || select.having.as_ref().is_some_and(having) || has_aggregate(&select.projection)
}

/// `DISTINCT` as a `GROUP BY` of everything visible: the same groups, and they can be aggregated.
fn group(select: &mut Select) -> Result<(), Unsupported> {
    match &select.group_by {
        GroupByExpr::Expressions(by, modifiers) if modifiers.is_empty() => {
            let plain = by.is_empty() && select.having.is_none() && !has_aggregate(&select.projection);
            match select.distinct {
                None | Some(Distinct::All) => return Ok(()),
                Some(Distinct::Distinct) if plain => {}
                _ => return Err(Unsupported::new("DISTINCT ON, and DISTINCT of groups")),
            }
        }
        _ => return Err(Unsupported::new("GROUP BY ALL, ROLLUP and the like")),
    }
    let exprs: Option<Vec<Expr>> = select
        .projection
        .iter()
        .map(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr.clone()),
            _ => None,
        })
        .collect();
    let Some(mut exprs) = exprs else {
        return Err(Unsupported::new("DISTINCT * of a table that is not known"));
    };
    // A number in GROUP BY is a position.
    exprs.retain(|e| !matches!(e, Expr::Value(_)));
    if exprs.is_empty() {
        return Err(Unsupported::new("DISTINCT of constants"));
    }
    select.distinct = None;
    select.group_by = GroupByExpr::Expressions(exprs, Vec::new());
    Ok(())
}

/// The name of a column of a result, if it has a plain one.
pub(super) fn output_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name.to_string()),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => names.last().map(ToString::to_string),
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.to_string()),
        _ => None,
    }
}

/// Every aggregate of the three dialects; a user's own are not known.
const AGGREGATES: [&str; 63] = [
    "ANY_VALUE",
    "ARRAY_AGG",
    "AVG",
    "BIT_AND",
    "BIT_OR",
    "BIT_XOR",
    "BOOL_AND",
    "BOOL_OR",
    "CORR",
    "COUNT",
    "COVAR_POP",
    "COVAR_SAMP",
    "EVERY",
    "GROUPING",
    "GROUP_CONCAT",
    "JSONB_AGG",
    "JSONB_AGG_STRICT",
    "JSONB_GROUP_ARRAY",
    "JSONB_GROUP_OBJECT",
    "JSONB_OBJECT_AGG",
    "JSONB_OBJECT_AGG_STRICT",
    "JSONB_OBJECT_AGG_UNIQUE",
    "JSONB_OBJECT_AGG_UNIQUE_STRICT",
    "JSON_AGG",
    "JSON_AGG_STRICT",
    "JSON_ARRAYAGG",
    "JSON_GROUP_ARRAY",
    "JSON_GROUP_OBJECT",
    "JSON_OBJECTAGG",
    "JSON_OBJECT_AGG",
    "JSON_OBJECT_AGG_STRICT",
    "JSON_OBJECT_AGG_UNIQUE",
    "JSON_OBJECT_AGG_UNIQUE_STRICT",
    "MAX",
    "MEDIAN",
    "MIN",
    "MODE",
    "PERCENTILE",
    "PERCENTILE_CONT",
    "PERCENTILE_DISC",
    "RANGE_AGG",
    "RANGE_INTERSECT_AGG",
    "REGR_AVGX",
    "REGR_AVGY",
    "REGR_COUNT",
    "REGR_INTERCEPT",
    "REGR_R2",
    "REGR_SLOPE",
    "REGR_SXX",
    "REGR_SXY",
    "REGR_SYY",
    "STD",
    "STDDEV",
    "STDDEV_POP",
    "STDDEV_SAMP",
    "STRING_AGG",
    "ST_COLLECT",
    "SUM",
    "TOTAL",
    "VARIANCE",
    "VAR_POP",
    "VAR_SAMP",
    "XMLAGG",
];

/// Looks for aggregates outside of subqueries.
struct Aggregates {
    depth: usize,
}

impl Visitor for Aggregates {
    type Break = ();

    fn pre_visit_query(&mut self, _: &anomalist_sqltext::ast::Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &anomalist_sqltext::ast::Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(f)
                if self.depth == 0
                    && f.over.is_none()
                    && !matches!(f.args, FunctionArguments::Subquery(_)) =>
            {
                let name = f.name.to_string().to_ascii_uppercase();
                // MAX(a, b) of SQLite compares two values of one row.
                let several = matches!(&f.args, FunctionArguments::List(list) if list.args.len() > 1);
                let scalar = several && matches!(name.as_str(), "MIN" | "MAX");
                let known = AGGREGATES.contains(&name.as_str()) || !f.within_group.is_empty();
                match known && !scalar {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

fn has_aggregate(items: &[SelectItem]) -> bool {
    items.iter().any(|item| walk::read(item, &mut Aggregates { depth: 0 }).is_break())
}

fn is_aggregate(expr: &Expr) -> bool {
    walk::read(expr, &mut Aggregates { depth: 0 }).is_break()
}
