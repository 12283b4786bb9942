//! Catalogue tables that are always empty here, such as those of triggers and publications.
//!
//! Clients ask for such things together with everything else about a table, in queries that use far more of
//! the language than applications do. What selects from an empty table has no rows, so none of that
//! language is needed: such a SELECT is replaced by one of as many columns and no rows.

use super::names::bare;
use super::trees::number;
use anomalist_sqltext::ast::{
    BinaryOperator, Expr, GroupByExpr, Ident, JoinOperator, ObjectName, Query, Select, SelectItem, SetExpr,
    Statement, TableFactor, TableWithJoins, Value, Visitor, VisitorMut,
};
use anomalist_sqltext::walk;
use std::ops::ControlFlow;

/// Replaces what has no rows because it selects from one of these.
pub fn prune(statement: &mut Statement, empty: &dyn Fn(&str) -> bool) {
    let _ = walk::change(statement, &mut Pruner { empty });
}

struct Pruner<'e> {
    empty: &'e dyn Fn(&str) -> bool,
}

impl VisitorMut for Pruner<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let SetExpr::Select(select) = &mut *query.body
            && self.replace(select)
        {
            // It may be by what was selected from.
            query.order_by = None;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.replace(select);
        ControlFlow::Continue(())
    }
}

impl Pruner<'_> {
    fn replace(&self, select: &mut Select) -> bool {
        let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
        if grouped || select.having.is_some() || !select.from.iter().any(|f| self.is_empty(f)) {
            return false;
        }
        let null = || Expr::Value(Value::Null.into());
        let mut columns = Vec::with_capacity(select.projection.len());
        for item in &select.projection {
            columns.push(match item {
                // One row, however many there are to count.
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }
                    if aggregates(expr) =>
                {
                    return false;
                }
                SelectItem::ExprWithAlias { alias, .. } => {
                    SelectItem::ExprWithAlias { expr: null(), alias: alias.clone() }
                }
                SelectItem::UnnamedExpr(expr) => match super::catalogue::column_name(expr) {
                    Some(name) => {
                        SelectItem::ExprWithAlias { expr: null(), alias: Ident::with_quote('"', name) }
                    }
                    None => SelectItem::UnnamedExpr(null()),
                },
                _ => return false,
            });
        }
        select.projection = columns;
        select.from.clear();
        select.distinct = None;
        let (one, zero) = (Box::new(number(1)), Box::new(number(0)));
        select.selection = Some(Expr::BinaryOp { left: one, op: BinaryOperator::Eq, right: zero });
        true
    }

    fn is_empty(&self, from: &TableWithJoins) -> bool {
        let outer = from.joins.iter().any(|j| {
            !matches!(
                j.join_operator,
                JoinOperator::Join(_)
                    | JoinOperator::Inner(_)
                    | JoinOperator::CrossJoin(_)
                    | JoinOperator::Left(_)
                    | JoinOperator::LeftOuter(_)
            )
        });
        let inner = from
            .joins
            .iter()
            .filter(|j| !matches!(j.join_operator, JoinOperator::Left(_) | JoinOperator::LeftOuter(_)));
        !outer && std::iter::once(&from.relation).chain(inner.map(|j| &j.relation)).any(|f| self.named(f))
    }

    fn named(&self, factor: &TableFactor) -> bool {
        let in_catalogue =
            |name: &ObjectName| name.0.len() == 1 || name.to_string().starts_with("pg_catalog.");
        matches!(factor, TableFactor::Table { name, args: None, .. } if in_catalogue(name) && (self.empty)(&bare(name)))
    }
}

/// Functions of many rows.
const AGGREGATES: &str =
    "count sum avg min max string_agg array_agg group_concat bool_and bool_or every json_agg jsonb_agg";

/// Whether an expression is over many rows, apart from its subqueries.
fn aggregates(expr: &Expr) -> bool {
    struct Finder {
        depth: usize,
    }
    impl Visitor for Finder {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.depth += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Function(f) if self.depth == 0 => {
                    let name = bare(&f.name).to_lowercase();
                    if AGGREGATES.split_whitespace().any(|a| a == name) {
                        return ControlFlow::Break(());
                    }
                }
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    walk::read(expr, &mut Finder { depth: 0 }).is_break()
}
