//! Which keys of which tables a statement looks at, as far as its text tells.
//!
//! A scan reads the membership of every key it covers, also of keys that no transaction has written yet:
//! those are absent, and their absence has been seen. If the statement fixes a row's whole primary key,
//! that one membership is read by name. Otherwise the transaction *covers* the part of the table that the
//! leading columns of the key fix, at worst all of it: a key that is new to this part later counts as read,
//! and absent, by the transactions that cover it and are still open. So a phantom is a stale read like any
//! other.

use super::catalogue::{Table, encode};
use super::error::SqlError;
use super::names::bare;
use super::scopes::Scopes;
use anomalist_sqltext::Dialect;
use anomalist_sqltext::ast::{
    BinaryOperator, Expr, JoinConstraint, JoinOperator, Query, Select, Statement, TableFactor, UnaryOperator,
    Value as Literal, Visitor,
};
use anomalist_sqltext::walk;
use anomalist_weakdb::Value;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Something whose value is known when the statement begins.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A parameter, by number from 1.
    Parameter(usize),
    /// A literal.
    Literal(Value),
}

impl Operand {
    fn of(expr: &Expr) -> Option<Self> {
        match expr {
            Expr::Nested(inner) => Self::of(inner),
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match Self::of(expr)? {
                Self::Literal(Value::Int(i)) => Some(Self::Literal(Value::Int(-i))),
                _ => None,
            },
            Expr::Value(value) => Some(match &value.value {
                Literal::Placeholder(name) => Self::Parameter(name.get(1..)?.parse().ok()?),
                Literal::Number(text, _) => Self::Literal(match text.parse::<i64>() {
                    Ok(i) => Value::Int(i),
                    Err(_) => text.as_str().into(),
                }),
                Literal::SingleQuotedString(t) | Literal::DoubleQuotedString(t) => {
                    Self::Literal(t.as_str().into())
                }
                Literal::Boolean(b) => Self::Literal((*b).into()),
                _ => return None,
            }),
            _ => None,
        }
    }
}

/// A part of a table.
#[derive(Clone, Debug)]
pub struct Access {
    /// The table.
    pub table: Arc<Table>,
    /// The values of the first columns of its key.
    pub leading: Vec<Operand>,
}

/// What an access means for the transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// One row, by its key.
    Row(String),
    /// All rows whose keys begin so.
    Covers(String),
}

impl Access {
    /// The part of the table, with the parameters' values. A value that is none of the column's type finds
    /// nothing, so the whole table is as good as any part.
    pub fn part(&self, params: &[Value], dialect: Dialect) -> Part {
        let mut values = Vec::new();
        for (operand, &column) in self.leading.iter().zip(&self.table.key) {
            let value = match operand {
                Operand::Literal(value) => Some(value.clone()),
                Operand::Parameter(number) => params.get(number - 1).cloned(),
            };
            match value.map(|v| self.table.fit(column, v, dialect)) {
                Some(Ok(value)) if value != Value::Null => values.push(value),
                _ => break,
            }
        }
        let text = encode(&values);
        if !values.is_empty() && values.len() == self.table.key.len() {
            Part::Row(text)
        } else if values.is_empty() {
            Part::Covers(String::new())
        } else {
            Part::Covers(format!("{text}/"))
        }
    }
}

/// The accesses of a statement. `find` gives a table by name.
pub fn accesses(
    statement: &Statement,
    find: &dyn Fn(&str) -> Option<Arc<Table>>,
) -> Result<Vec<Access>, SqlError> {
    let mut visitor = Accesses { find, found: Vec::new(), scopes: Scopes::default() };
    let _ = walk::read(statement, &mut visitor);
    Ok(visitor.found)
}

struct Accesses<'f> {
    find: &'f dyn Fn(&str) -> Option<Arc<Table>>,
    found: Vec<Access>,
    scopes: Scopes,
}

impl Visitor for Accesses<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.scopes.enter(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.scopes.leave();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let mut tables: Vec<(String, Arc<Table>)> = Vec::new();
        let hidden = self.scopes.hidden();
        let mut conditions: Vec<&Expr> = select.selection.iter().collect();
        let mut waiting: Vec<_> = select.from.iter().collect();
        while let Some(item) = waiting.pop() {
            let mut factors = vec![&item.relation];
            for join in &item.joins {
                factors.push(&join.relation);
                if let JoinOperator::Join(JoinConstraint::On(on))
                | JoinOperator::Inner(JoinConstraint::On(on)) = &join.join_operator
                {
                    conditions.push(on);
                }
            }
            for factor in factors {
                match factor {
                    TableFactor::Table { name, alias, args: None, .. } => {
                        let bare = bare(name);
                        let bare = bare.strip_suffix(super::engine::ROWS).unwrap_or(&bare);
                        let is_table = name.0.len() > 1 || !hidden.contains(&bare.to_lowercase());
                        if let Some(table) = (self.find)(bare).filter(|_| is_table) {
                            let called = alias.as_ref().map_or(bare, |a| a.name.value.as_str());
                            tables.push((called.to_lowercase(), table));
                        }
                    }
                    TableFactor::NestedJoin { table_with_joins, .. } => waiting.push(table_with_joins),
                    _ => {}
                }
            }
        }
        let equalities = equalities(&conditions);
        for (alias, table) in &tables {
            let unique =
                |column: &str| tables.iter().filter(|(_, t)| t.column(column).is_some()).count() == 1;
            let leading = table.key.iter().map_while(|&column| {
                let name = &table.columns[column].name;
                let fits = |(qualifier, column, _): &&(Option<&str>, &str, Operand)| {
                    column.eq_ignore_ascii_case(name)
                        && qualifier.map_or_else(|| unique(column), |q| q.eq_ignore_ascii_case(alias))
                };
                equalities.iter().find(fits).map(|(_, _, operand)| operand.clone())
            });
            let leading = leading.collect();
            self.found.push(Access { table: table.clone(), leading });
        }
        ControlFlow::Continue(())
    }
}

/// `column = operand` among conditions that must all hold.
fn equalities<'e>(conditions: &[&'e Expr]) -> Vec<(Option<&'e str>, &'e str, Operand)> {
    let mut found = Vec::new();
    let mut waiting: Vec<&Expr> = conditions.to_vec();
    while let Some(expr) = waiting.pop() {
        match expr {
            Expr::Nested(inner) => waiting.push(inner),
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => waiting.extend([&**left, &**right]),
            Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
                for (column, other) in [(left, right), (right, left)] {
                    let named = match &**column {
                        Expr::Identifier(name) => Some((None, name.value.as_str())),
                        Expr::CompoundIdentifier(parts) if parts.len() > 1 => Some((
                            Some(parts[parts.len() - 2].value.as_str()),
                            parts[parts.len() - 1].value.as_str(),
                        )),
                        _ => None,
                    };
                    if let (Some((qualifier, name)), Some(operand)) = (named, Operand::of(other)) {
                        found.push((qualifier, name, operand));
                    }
                }
            }
            _ => {}
        }
    }
    found
}
