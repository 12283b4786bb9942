//! Queries as a whole: common table expressions, set operations, and what is asked of a result after it was
//! made.

use super::catalog::{Aux, Catalog, Relation};
use super::fragment::{aggregate, items, select};
use super::select::{Arm, output_name};
use super::{Capture, Effect, Instrumented, Instrumenter, Unsupported};
use crate::Flavour;
use anomalist_sqltext::ast::{
    Expr, Ident, LockClause, LockType, Query, Select, SelectItem, SetExpr, SetOperator, SetQuantifier,
    TableFactor,
};

/// The visible columns of a result, if their names are known, and what tells the rows behind it.
pub(super) type Output = (Option<Vec<String>>, Vec<Aux>);

impl Instrumenter {
    pub(super) fn select(&self, query: &Query) -> Result<Instrumented, Unsupported> {
        let mut made = query.clone();
        let (_, aux) = self.query(&mut made, &self.catalog, false)?;
        let mut capture = Capture::of(&aux);
        if self.whole_rows && aux.len() == 1 {
            capture.values = self.whole_row(&mut made)?;
        }
        let effect = if query.locks.is_empty() { Effect::Read } else { Effect::LockingRead };
        Ok(Instrumented {
            before: None,
            statement: self.printed(made),
            capture,
            inserted: Vec::new(),
            effect,
        })
    }

    fn printed(&self, query: Query) -> String {
        printed(self.flavour, query)
    }

    /// Every column of the one table that a plain query reads, as further columns.
    fn whole_row(&self, query: &mut Query) -> Result<Option<(String, Vec<String>)>, Unsupported> {
        let SetExpr::Select(select) = query.body.as_mut() else { return Ok(None) };
        let [from] = &select.from[..] else { return Ok(None) };
        let TableFactor::Table { name, .. } = &from.relation else { return Ok(None) };
        let relation = self.catalog.get(name);
        let plain =
            from.joins.is_empty() && !super::select::is_grouped(self.flavour, select) && relation.is_table;
        let Some(columns) = relation.columns.filter(|_| plain && query.with.is_none()) else {
            return Ok(None);
        };
        let name = super::catalog::last(name);
        select.projection.extend(items(self.flavour, &columns.join(", "))?);
        Ok(Some((name, columns)))
    }

    /// Adds what tells the rows to the columns of a query. `inner`: it is read by another one, which needs
    /// names.
    pub(super) fn query(
        &self,
        query: &mut Query,
        catalog: &Catalog,
        inner: bool,
    ) -> Result<Output, Unsupported> {
        let mut extended;
        let mut catalog = catalog;
        if let Some(with) = &mut query.with {
            if with.recursive {
                return Err(Unsupported::new("a recursive query has no rows of its own"));
            }
            extended = catalog.clone();
            for cte in &mut with.cte_tables {
                let (mut columns, aux) = self.query(&mut cte.query, &extended, true)?;
                if !cte.alias.columns.is_empty() {
                    return Err(Unsupported::new("a common table expression with names for its columns"));
                }
                columns = columns.filter(|c| !c.is_empty());
                extended.add_named(&cte.alias.name.value, Relation::derived(columns, aux));
            }
            catalog = &extended;
        }
        if query.fetch.is_some() || !query.pipe_operators.is_empty() || query.for_clause.is_some() {
            return Err(Unsupported::new("FETCH and the like are not instrumented"));
        }
        match query.body.as_mut() {
            SetExpr::Select(select) => {
                let named = inner.then_some(Arm::Derived);
                self.single(select, catalog, named.unwrap_or(Arm::Outermost))
            }
            SetExpr::Query(within) => self.query(within, catalog, inner),
            SetExpr::SetOperation { .. } => self.set_operation(query, catalog),
            _ => Err(Unsupported::new("only SELECT and set operations are instrumented")),
        }
    }

    /// `UNION ALL` keeps every row, so its arms return the two columns. The others make sets: the arms are
    /// added up and grouped by what is visible, and for `INTERSECT` and `EXCEPT` a group must come from
    /// both arms, or from the first alone. That is what these operations mean, and a group has the rows
    /// behind it.
    fn set_operation(&self, query: &mut Query, catalog: &Catalog) -> Result<Output, Unsupported> {
        let (operator, quantifier, mut arms) = flatten(&query.body)?;
        let all = matches!(quantifier, SetQuantifier::All);
        let has_all = |a: &Select| self.tells_pair(a, catalog);
        let form = if arms.iter().all(has_all) { Arm::Pair } else { Arm::Rows };
        let width = arms[0].projection.len();
        let mut visible = Vec::new();
        let mut aux = Vec::new();
        for (i, arm) in arms.iter_mut().enumerate() {
            let (columns, reported) = self.single(arm, catalog, form)?;
            if i == 0 {
                (visible, aux) = (columns.unwrap_or_default(), reported);
            }
        }
        if arms.iter().any(|a| a.projection.iter().any(super::stars::is_star)) {
            return Err(Unsupported::new("* in a set operation on a table that is not known"));
        }
        if all && operator == SetOperator::Union {
            *query.body = added_up(arms);
            return Ok((Some(visible), aux));
        }
        let having = match operator {
            SetOperator::Union => "",
            _ if all || arms.len() > 2 => {
                return Err(Unsupported::new("INTERSECT and EXCEPT only of two arms, without ALL"));
            }
            SetOperator::Intersect => " HAVING COUNT(DISTINCT arm) = 2",
            SetOperator::Except => " HAVING MAX(arm) = 1",
            SetOperator::Minus => return Err(Unsupported::new("MINUS is not instrumented")),
        };
        let width = width.max(visible.len());
        let mut outer: Vec<String> = Vec::new();
        for (i, item) in arms[0].projection.iter_mut().take(width).enumerate() {
            let name = output_name(item);
            outer.push(name.map_or_else(|| format!("v{i}"), |name| format!("v{i} AS {name}")));
            if let Some(expr) = plain(item) {
                *item = SelectItem::ExprWithAlias { expr, alias: Ident::new(format!("v{i}")) };
            }
        }
        if !having.is_empty() {
            for (i, arm) in arms.iter_mut().enumerate() {
                arm.projection.extend(items(self.flavour, &format!("{} AS arm", i + 1))?);
            }
        }
        let rows = match &aux[..] {
            [Aux::Pair(row, list)] => {
                aggregate(self.flavour, &super::fragment::joined(self.flavour, row, list))
            }
            [Aux::Rows(rows)] => aggregate(self.flavour, rows),
            _ => return Err(Unsupported::new("a set operation of nothing")),
        };
        let groups: Vec<String> = (0..width).map(|i| format!("v{i}")).collect();
        let text = format!(
            "SELECT {}, {rows} AS wRows FROM (SELECT 1) AS u GROUP BY {}{having}",
            outer.join(", "),
            groups.join(", ")
        );
        let mut whole = select(self.flavour, &text)?;
        if let Some(TableFactor::Derived { subquery, .. }) = whole.from.first_mut().map(|f| &mut f.relation) {
            *subquery.body = added_up(arms);
        }
        *query.body = SetExpr::Select(Box::new(whole));
        Ok((Some(visible), vec![Aux::Rows("wRows".to_owned())]))
    }
}

/// A query as text. All of MySQL's kin know `FOR SHARE` by its old name, which trees do not have, and
/// MariaDB knows no other.
pub(crate) fn printed(flavour: Flavour, mut query: Query) -> String {
    let old = |l: &LockClause| l.lock_type == LockType::Share && l.of.is_none() && l.nonblock.is_none();
    if !flavour.is_mysql() || !query.locks.iter().any(old) {
        return query.to_string();
    }
    query.locks.clear();
    format!("{query} LOCK IN SHARE MODE")
}

fn plain(item: &SelectItem) -> Option<Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr.clone()),
        _ => None,
    }
}

/// The arms of a chain of one and the same operation.
fn flatten(body: &SetExpr) -> Result<(SetOperator, SetQuantifier, Vec<Select>), Unsupported> {
    let SetExpr::SetOperation { op, set_quantifier, .. } = body else {
        return Err(Unsupported::new("this is no set operation"));
    };
    let mut arms = Vec::new();
    let mut rest = body;
    loop {
        match rest {
            SetExpr::SetOperation { left, op: o, set_quantifier: q, right }
                if (o, q) == (op, set_quantifier) =>
            {
                arms.push(arm(right)?);
                rest = left.as_ref();
            }
            other => {
                arms.push(arm(other)?);
                break;
            }
        }
    }
    arms.reverse();
    Ok((*op, *set_quantifier, arms))
}

fn arm(body: &SetExpr) -> Result<Select, Unsupported> {
    match body {
        SetExpr::Select(select) => Ok(select.as_ref().clone()),
        SetExpr::Query(query)
            if query.order_by.is_none() && query.limit_clause.is_none() && query.with.is_none() =>
        {
            match query.body.as_ref() {
                SetExpr::Select(select) => Ok(select.as_ref().clone()),
                _ => Err(Unsupported::new("set operations of several kinds in one query")),
            }
        }
        _ => Err(Unsupported::new("set operations of several kinds in one query")),
    }
}

fn added_up(arms: Vec<Select>) -> SetExpr {
    let mut arms = arms.into_iter().map(|a| SetExpr::Select(Box::new(a)));
    let first = arms.next();
    let rest = arms.fold(first, |left, right| {
        Some(SetExpr::SetOperation {
            left: Box::new(left?),
            op: SetOperator::Union,
            set_quantifier: SetQuantifier::All,
            right: Box::new(right),
        })
    });
    // There are at least two arms, or it would be no set operation.
    rest.unwrap_or_else(|| {
        SetExpr::Values(anomalist_sqltext::ast::Values {
            explicit_row: false,
            value_keyword: false,
            rows: Vec::new(),
        })
    })
}
