//! From the SQL of PostgreSQL and MySQL to that of SQLite.
//!
//! Most of the language is common. What differs is replaced in the tree: casts and divisions that fail
//! where SQLite would guess, decimals that stay exact, intervals, operators, places of NULL in an order,
//! locking clauses (which become a property of the statement), schema names (there is one schema). What
//! SQLite has no equivalent for is refused by name.

use super::catalogue::Table;
use super::error::SqlError;
use super::names::{Names, bare};
use super::scopes::Scopes;
use super::sets;
use super::trees::{flatten, number, only, take};
use anomalist_sqltext::ast::{
    BinaryOperator as Op, Distinct, Expr, FunctionArg, FunctionArgExpr, Ident, JoinOperator, LimitClause,
    ObjectName, OffsetRows, OrderByExpr, OrderByKind, OrderBySort, Query, Select, SetExpr, Statement,
    TableAlias, TableFactor, Value as Literal, VisitorMut,
};
use anomalist_sqltext::{Dialect, parse, walk};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A statement as SQLite understands it.
pub struct Rewritten {
    /// The text.
    pub sql: String,
    /// It says FOR UPDATE or FOR SHARE.
    pub locks: bool,
}

/// Rewrites a statement.
pub fn rewrite(mut statement: Statement, names: &Names<'_>, dialect: Dialect) -> Result<Rewritten, SqlError> {
    let mut rewriter = Rewriter { names, dialect, locks: false, scopes: Scopes::default() };
    match walk::change(&mut statement, &mut rewriter) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(Rewritten { sql: statement.to_string(), locks: rewriter.locks }),
    }
}

/// Rewrites one expression.
pub fn rewrite_expr(mut expr: Expr, names: &Names<'_>, dialect: Dialect) -> Result<String, SqlError> {
    let mut rewriter = Rewriter { names, dialect, locks: false, scopes: Scopes::default() };
    match walk::change(&mut expr, &mut rewriter) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(expr.to_string()),
    }
}

/// The name of a relation in SQLite: schemas are dropped, except for the information schema, whose tables
/// have names of their own.
#[must_use]
pub fn relation(name: &ObjectName) -> String {
    let parts: Vec<String> =
        name.0.iter().filter_map(|p| p.as_ident()).map(|i| i.value.to_lowercase()).collect();
    match parts.as_slice() {
        [schema, table] if schema == "information_schema" => format!("information_schema_{table}"),
        _ => bare(name),
    }
}

pub(super) struct Rewriter<'n, 'a> {
    pub(super) names: &'n Names<'a>,
    pub(super) dialect: Dialect,
    locks: bool,
    scopes: Scopes,
}

/// Words that SQLite does not take for names and others do.
const KEYWORDS: &str = "ABORT ACTION ADD AFTER ALWAYS ATTACH AUTOINCREMENT BEFORE BEGIN CASCADE COLUMN COMMIT CONFLICT \
    CURRENT DATABASE DEFERRABLE DEFERRED DETACH DO EACH END ESCAPE EXCLUDE EXCLUSIVE EXPLAIN FAIL FILTER FIRST FOLLOWING \
    GENERATED GLOB GROUPS IF IGNORE IMMEDIATE INDEX INDEXED INITIALLY INSTEAD ISNULL KEY LAST MATCH MATERIALIZED NATURAL \
    NO NOTHING NOTNULL NULLS OF OFFSET OTHERS OVER PARTITION PLAN PRAGMA PRECEDING QUERY RAISE RANGE RECURSIVE REGEXP \
    REINDEX RELEASE RENAME REPLACE RESTRICT RETURNING ROLLBACK ROW ROWS SAVEPOINT TEMP TEMPORARY TIES TO TRANSACTION \
    TRIGGER UNBOUNDED VACUUM VIEW VIRTUAL WINDOW WITHOUT";

pub(super) type Flow = ControlFlow<SqlError>;

pub(super) fn refuse(what: &str) -> Flow {
    ControlFlow::Break(SqlError::unsupported(what))
}

impl VisitorMut for Rewriter<'_, '_> {
    type Break = SqlError;

    fn post_visit_ident(&mut self, ident: &mut Ident) -> Flow {
        // In double quotes SQLite would take an unknown name for a string; and it has words of its own.
        let keyword = KEYWORDS.split_whitespace().any(|word| ident.value.eq_ignore_ascii_case(word));
        if ident.quote_style == Some('"') || (ident.quote_style.is_none() && keyword) {
            ident.quote_style = Some('`');
        }
        Flow::Continue(())
    }

    fn post_visit_relation(&mut self, name: &mut ObjectName) -> Flow {
        let bare = relation(name);
        let quoted = || Ident::with_quote('`', bare.as_str());
        if self.scopes.given(&bare)
            && (name.0.len() > 1 || !self.scopes.hidden().contains(&bare.to_lowercase()))
        {
            *name = ObjectName::from(vec![Ident::new("main"), quoted()]);
        } else if name.0.len() > 1 {
            *name = ObjectName::from(vec![quoted()]);
        }
        Flow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> Flow {
        if let Some(Distinct::On(_)) = select.distinct {
            return refuse("DISTINCT ON");
        }
        if select.into.is_some() {
            return refuse("SELECT INTO");
        }
        select.optimizer_hints.clear();
        select.select_modifiers = None;
        let dual = |f: &TableFactor| matches!(f, TableFactor::Table { name, .. } if bare(name).eq_ignore_ascii_case("dual"));
        if select.from.len() == 1 && dual(&select.from[0].relation) {
            select.from.clear();
        }
        for join in select.from.iter_mut().flat_map(|f| &mut f.joins) {
            if let JoinOperator::StraightJoin(constraint) = &join.join_operator {
                join.join_operator = JoinOperator::Join(constraint.clone());
            }
        }
        Flow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> Flow {
        match sets::from_lists(select).and_then(|()| sets::to_rows(select)) {
            Err(error) => Flow::Break(error),
            Ok(()) => Flow::Continue(()),
        }
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> Flow {
        self.scopes.enter(query);
        self.locks |= !query.locks.is_empty();
        query.locks.clear();
        if let Some(fetch) = query.fetch.take() {
            if fetch.with_ties || fetch.percent {
                return refuse("FETCH WITH TIES and PERCENT");
            }
            let limit = Some(fetch.quantity.unwrap_or_else(|| number(1)));
            let offset = match query.limit_clause.take() {
                Some(LimitClause::LimitOffset { offset, .. }) => offset,
                _ => None,
            };
            query.limit_clause = Some(LimitClause::LimitOffset { limit, offset, limit_by: Vec::new() });
        }
        if let Some(LimitClause::LimitOffset { limit, offset, .. }) = &mut query.limit_clause {
            // LIMIT NULL is no limit.
            let none = |e: &Expr| matches!(e, Expr::Value(v) if v.value == Literal::Null);
            if limit.as_ref().map_or(offset.is_some(), none) {
                *limit = Some(number(-1));
            }
            if let Some(offset) = offset {
                offset.rows = OffsetRows::None;
            }
        }
        if matches!(
            *query.body,
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_)
        ) {
            return refuse("statements that write inside WITH");
        }
        self.exact_parts(query);
        flatten(&mut query.body);
        if let (Dialect::PostgreSql, Some(order)) = (self.dialect, &mut query.order_by)
            && let OrderByKind::Expressions(list) = &mut order.kind
        {
            list.iter_mut().for_each(|by| self.nulls(by));
        }
        Flow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> Flow {
        self.scopes.leave();
        Flow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> Flow {
        match expr {
            Expr::AnyOp { left, compare_op: Op::Eq, right, .. } => {
                if let Expr::Subquery(query) = &**right {
                    let (left, subquery) = (Box::new(take(left)), query.clone());
                    *expr = Expr::InSubquery { expr: left, subquery, negated: false };
                }
            }
            Expr::Subquery(query) => {
                let kinds = self.names.query(query);
                let constant = matches!(&*query.body, SetExpr::Select(select) if select.from.is_empty());
                if let ([column], false) = (kinds.as_slice(), constant) {
                    return match only(query.clone(), column.kind) {
                        Some(one) => {
                            *expr = Expr::Subquery(one);
                            Flow::Continue(())
                        }
                        None => refuse("this form of a scalar subquery"),
                    };
                }
            }
            _ => {}
        }
        Flow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> Flow {
        match factor {
            TableFactor::Table { args: Some(args), name, alias, with_ordinality, .. }
                if bare(name).eq_ignore_ascii_case(sets::UNNEST) =>
            {
                // With a schema before its name it is not known to the parser.
                let list = |arg: &FunctionArg| match arg {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(list)) => Some(list.clone()),
                    _ => None,
                };
                *factor = TableFactor::UNNEST {
                    alias: alias.take(),
                    array_exprs: args.args.iter().filter_map(list).collect(),
                    with_offset: false,
                    with_offset_alias: None,
                    with_ordinality: *with_ordinality,
                };
            }
            TableFactor::Table { args: Some(args), name, alias, .. } => {
                let function = bare(name).to_lowercase();
                // Series compare by bytes; the collation of decimals ends a build with assertions.
                let plain = |arg: &FunctionArg| format!("({arg}) COLLATE BINARY");
                let args: Vec<String> = args.args.iter().map(plain).collect();
                let rows = match function.as_str() {
                    "generate_series" => format!("generate_series({})", args.join(", ")),
                    _ => return refuse(&format!("the function {name} in FROM")),
                };
                let called = alias.as_ref().map_or(function.as_str(), |a| a.name.value.as_str()).to_owned();
                let column = alias
                    .as_ref()
                    .and_then(|a| a.columns.first())
                    .map_or(called.as_str(), |c| c.name.value.as_str());
                let sql = format!("SELECT value AS {} FROM {rows}", Dialect::MySql.quote(column));
                match parse(Dialect::Sqlite, &sql) {
                    Ok(Statement::Query(subquery)) => {
                        let name = Ident::with_quote('`', called);
                        let alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
                        *factor = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
                    }
                    _ => return refuse(&format!("this form of {function}")),
                }
            }
            TableFactor::Table { index_hints, partitions, with_hints, .. } => {
                index_hints.clear();
                partitions.clear();
                with_hints.clear();
            }
            TableFactor::Derived { lateral: true, .. } => return refuse("LATERAL"),
            TableFactor::Derived { subquery, alias: Some(alias), .. } if !alias.columns.is_empty() => {
                // SQLite names the columns of a common table expression, but not of a subquery.
                let columns: Vec<String> =
                    alias.columns.iter().map(|c| Dialect::MySql.quote(&c.name.value)).collect();
                let sql = format!("WITH named({}) AS ({subquery}) SELECT * FROM named", columns.join(", "));
                match parse(Dialect::Sqlite, &sql) {
                    Ok(Statement::Query(named)) => *subquery = named,
                    _ => return refuse("this form of a subquery with named columns"),
                }
                alias.columns.clear();
            }
            TableFactor::Derived { .. } | TableFactor::NestedJoin { .. } | TableFactor::UNNEST { .. } => {}
            other => return refuse(&format!("{other} in FROM")),
        }
        Flow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> Flow {
        self.exact_expr(expr);
        self.expression(expr)
    }
}

impl Rewriter<'_, '_> {
    /// PostgreSQL sorts NULL after everything else, SQLite before.
    fn nulls(&self, by: &mut OrderByExpr) {
        // SQLite can then take the rows in the order of a key. A join may bring NULL in.
        let not_null = match (&by.expr, self.names.sources.as_slice()) {
            (Expr::Identifier(_) | Expr::CompoundIdentifier(_), [source]) => {
                let name = super::catalogue::column_name(&by.expr).unwrap_or_default();
                let column = |t: &Arc<Table>| t.column(name).map(|at| t.columns[at].not_null);
                source.table.as_ref().and_then(column).unwrap_or(false)
            }
            _ => false,
        };
        if by.options.nulls_first.is_none() && !not_null {
            let descending = matches!(by.options.sort, Some(OrderBySort::Desc));
            by.options.nulls_first = Some(descending);
        }
    }
}
