//! The types of parameters, from where they stand: beside a column, in the place of one, after LIMIT.

use super::arrays::Element;
use super::infer::names_of;
use super::names::{Names, arguments, bare};
use super::types::Type;
use anomalist_sqltext::ast::{
    BinaryOperator as Op, Expr, Insert, LimitClause, ObjectName, Query, SelectItem, SetExpr, Statement,
    TableObject, Value, Visitor,
};
use anomalist_sqltext::walk;
use std::ops::ControlFlow;

/// The types of parameters, by number from 1, from where they stand.
#[must_use]
pub fn parameters(names: &Names<'_>, statement: &Statement) -> Vec<Type> {
    let mut found = Parameters { names, kinds: Vec::new() };
    if let Statement::Insert(insert) = statement {
        found.insert(insert);
    }
    if let Statement::Update(update) = statement {
        for assignment in &update.assignments {
            let target = assignment.target.to_string();
            let column = target.rsplit('.').next().unwrap_or(&target).trim_matches(['"', '`']).to_owned();
            found.note(&assignment.value, names.column(None, &column).unwrap_or(Type::Unknown));
        }
    }
    let _ = walk::read(statement, &mut found);
    found.kinds
}

/// Collects what is known about parameters.
struct Parameters<'n, 'a> {
    names: &'n Names<'a>,
    kinds: Vec<Type>,
}

impl Parameters<'_, '_> {
    fn note(&mut self, expr: &Expr, kind: Type) {
        match expr {
            Expr::Nested(inner) => self.note(inner, kind),
            Expr::Value(value) => {
                if let Value::Placeholder(name) = &value.value
                    && let Ok(number @ 1..=65_535) = name[1..].parse::<usize>()
                {
                    if self.kinds.len() < number {
                        self.kinds.resize(number, Type::Unknown);
                    }
                    if self.kinds[number - 1] == Type::Unknown {
                        self.kinds[number - 1] = kind;
                    }
                }
            }
            // In `balance - $1` the parameter is of the column's type.
            Expr::BinaryOp { left, op: Op::Plus | Op::Minus | Op::Multiply | Op::Divide, right } => {
                let other =
                    |e: &Expr| Some(self.names.expr(e)).filter(|k| *k != Type::Unknown).unwrap_or(kind);
                let (of_left, of_right) = (other(right), other(left));
                self.note(left, of_left);
                self.note(right, of_right);
            }
            _ => {}
        }
    }

    fn insert(&mut self, insert: &Insert) {
        let TableObject::TableName(name) = &insert.table else { return };
        let Some(table) = self.names.table(&bare(name)) else { return };
        let columns: Vec<Type> = if insert.columns.is_empty() {
            table.columns.iter().map(|c| c.kind).collect()
        } else {
            let kind =
                |c: &ObjectName| table.column(&bare(c)).map_or(Type::Unknown, |at| table.columns[at].kind);
            insert.columns.iter().map(kind).collect()
        };
        match insert.source.as_deref().map(|q| &*q.body) {
            Some(SetExpr::Values(values)) => {
                for row in &values.rows {
                    for (expr, &kind) in row.content.iter().zip(&columns) {
                        self.note(expr, kind);
                    }
                }
            }
            Some(SetExpr::Select(select)) => {
                for (item, &kind) in select.projection.iter().zip(&columns) {
                    if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                        self.note(expr, kind);
                    }
                }
            }
            _ => {}
        }
    }
}

impl Visitor for Parameters<'_, '_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        match &query.limit_clause {
            Some(LimitClause::LimitOffset { limit, offset, .. }) => {
                for expr in limit.iter().chain(offset.as_ref().map(|o| &o.value)) {
                    self.note(expr, Type::Int8);
                }
            }
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => {
                self.note(offset, Type::Int8);
                self.note(limit, Type::Int8);
            }
            None => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::BinaryOp { left, op, right } => {
                let text = matches!(op, Op::StringConcat);
                let of = |e: &Expr| if text { Type::Text } else { self.names.expr(e) };
                let (of_left, of_right) = (of(right), of(left));
                if !matches!(op, Op::And | Op::Or) {
                    self.note(left, of_left);
                    self.note(right, of_right);
                }
            }
            Expr::InList { expr, list, .. } => {
                let kind = self.names.expr(expr);
                list.iter().for_each(|e| self.note(e, kind));
            }
            Expr::InSubquery { expr, subquery, .. } => {
                let kind = self.names.query(subquery).first().map_or(Type::Unknown, |c| c.kind);
                self.note(expr, kind);
            }
            Expr::Between { expr, low, high, .. } => {
                let kind = self.names.expr(expr);
                self.note(low, kind);
                self.note(high, kind);
            }
            Expr::Like { pattern, .. } | Expr::ILike { pattern, .. } => self.note(pattern, Type::Text),
            Expr::Cast { expr, data_type, .. } => {
                // What is cast to `regclass` is the name of a relation.
                let named = names_of(data_type).map(|_| Type::Text);
                self.note(expr, named.or(Type::declared(data_type).ok()).unwrap_or(Type::Unknown));
            }
            Expr::AnyOp { left, right, .. } if !matches!(**right, Expr::Subquery(_)) => {
                let kind = self.names.expr(left);
                self.note(right, Type::List(Element::of(kind)));
            }
            Expr::Function(function) => {
                let args = arguments(function);
                let known = args.iter().map(|e| self.names.expr(e)).find(|k| *k != Type::Unknown);
                for arg in args {
                    self.note(arg, known.unwrap_or(Type::Unknown));
                }
            }
            Expr::Value(_) => self.note(expr, Type::Unknown),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
