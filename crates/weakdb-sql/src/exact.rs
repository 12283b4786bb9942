//! Decimals in the tree: operators and functions of decimals become calls that compute exactly, and
//! comparisons go by the collation of decimals.
//!
//! SQLite has no decimals. They are texts there (`decimal.rs`), and every expression that is one carries
//! the collation: columns by their definition, all others by COLLATE. So ORDER BY, GROUP BY, DISTINCT, min,
//! max, joins and indexes compare numbers, and `1.5` equals `1.50`. In a comparison the other side is made
//! a decimal first.

use super::decimal::COLLATION;
use super::functions::Function;
use super::infer::common;
use super::names::bare;
use super::rewrite::{Flow, Rewriter};
use super::trees::{call, number, take, text};
use super::types::Type;
use anomalist_sqltext::ast::{
    BinaryOperator as Op, DataType, Expr, Function as Call, FunctionArg, FunctionArgExpr, FunctionArguments,
    Ident, ObjectName, Query, SelectItem, SetExpr, UnaryOperator, Value as Literal,
};

/// An expression that compares as a decimal.
pub(super) fn collated(expr: Expr) -> Expr {
    match expr {
        expr @ Expr::Collate { .. } => expr,
        expr => {
            let collation = ObjectName::from(vec![Ident::new(COLLATION)]);
            Expr::Collate { expr: Box::new(expr), collation }
        }
    }
}

/// A literal that is a decimal.
pub(super) fn literal(value: &Literal) -> Option<Expr> {
    match value {
        Literal::Number(digits, _) => Some(collated(call("weak_decimal", vec![text(digits.clone())]))),
        _ => None,
    }
}

impl Rewriter<'_, '_> {
    fn is_decimal(&self, expr: &Expr) -> bool {
        self.names.expr(expr).is_decimal()
    }

    /// Makes an expression a decimal.
    fn exact(&self, expr: &mut Expr) {
        let column =
            matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) && self.is_decimal(expr);
        *expr = match take(expr) {
            expr if column => collated(expr),
            expr @ Expr::Collate { .. } => expr,
            expr => collated(call("weak_decimal", vec![expr])),
        };
    }

    /// Makes all of them decimals if one is, and the others can be compared with it.
    pub(super) fn comparable(&self, all: &mut [&mut Expr]) {
        let kind = all.iter().map(|e| self.names.expr(e)).reduce(common);
        let some = all.iter().any(|e| self.is_decimal(e));
        if some && kind.is_some_and(Type::is_decimal) {
            all.iter_mut().for_each(|e| self.exact(e));
        }
    }

    /// An operator; false if it is not about decimals.
    pub(super) fn exact_binary(&self, expr: &mut Expr) -> bool {
        let decimal = self.is_decimal(expr);
        let Expr::BinaryOp { left, op, right } = expr else { return false };
        let float = |e: &Expr| matches!(self.names.expr(e), Type::Float4 | Type::Float8);
        let name = match op {
            Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq | Op::Spaceship => {
                self.comparable(&mut [left, right]);
                return false;
            }
            Op::MyIntegerDivide if !float(left) && !float(right) => {
                *expr = call("exact_div", vec![take(left), take(right)]);
                return true;
            }
            Op::Plus => "exact_plus",
            Op::Minus => "exact_minus",
            Op::Multiply => "exact_times",
            Op::Divide => "exact_over",
            Op::Modulo => "exact_mod",
            _ => return false,
        };
        if decimal {
            *expr = collated(call(name, vec![take(left), take(right)]));
        }
        decimal
    }

    /// Other expressions than operators and functions.
    pub(super) fn exact_expr(&self, expr: &mut Expr) {
        match expr {
            Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } if self.is_decimal(inner) => {
                *expr = collated(call("exact_negate", vec![take(inner)]));
            }
            Expr::UnaryOp { op: UnaryOperator::Plus, expr: inner } if self.is_decimal(inner) => {
                *expr = take(inner)
            }
            Expr::Case { operand, conditions, .. } => {
                if let Some(operand) = operand {
                    let cases = conditions.iter_mut().map(|c| &mut c.condition);
                    self.comparable(&mut std::iter::once(&mut **operand).chain(cases).collect::<Vec<_>>());
                }
                if self.is_decimal(expr) {
                    self.exact(expr);
                }
            }
            Expr::Subquery(_) if self.is_decimal(expr) => *expr = collated(take(expr)),
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
                self.comparable(&mut [left, right]);
            }
            Expr::InList { expr: inner, list, .. } => {
                self.comparable(&mut std::iter::once(&mut **inner).chain(list).collect::<Vec<_>>());
            }
            Expr::InSubquery { expr: inner, subquery, .. } => {
                let found = self.names.query(subquery).first().map_or(Type::Unknown, |c| c.kind);
                if common(self.names.expr(inner), found).is_decimal() {
                    self.exact(inner);
                }
            }
            Expr::Between { expr: inner, low, high, .. } => self.comparable(&mut [inner, low, high]),
            _ => {}
        }
    }

    /// Where the parts of a UNION, or the rows of VALUES, have decimals and integers in one column, all
    /// become decimals.
    pub(super) fn exact_parts(&self, query: &mut Query) {
        if !matches!(*query.body, SetExpr::SetOperation { .. } | SetExpr::Values(_)) {
            return;
        }
        let decimals: Vec<bool> = self.names.query(query).iter().map(|c| c.kind.is_decimal()).collect();
        if !decimals.contains(&true) {
            return;
        }
        let convert = |(expr, &decimal): (&mut Expr, &bool)| {
            if decimal && self.names.expr(expr).is_integer() {
                *expr = call("weak_decimal", vec![take(expr)]);
            }
        };
        let mut parts = vec![&mut *query.body];
        while let Some(part) = parts.pop() {
            match part {
                SetExpr::SetOperation { left, right, .. } => parts.extend([&mut **left, &mut **right]),
                SetExpr::Values(values) => {
                    values
                        .rows
                        .iter_mut()
                        .for_each(|row| row.content.iter_mut().zip(&decimals).for_each(convert));
                }
                // Where a star stands for columns, their places are not known here.
                SetExpr::Select(select) if select.projection.len() == decimals.len() => {
                    for (item, decimal) in select.projection.iter_mut().zip(&decimals) {
                        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                            convert((expr, decimal));
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// CAST.
    pub(super) fn exact_cast(&self, inner: Expr, declared: &DataType, kind: Type) -> Expr {
        let code = |inner| call("weak_cast", vec![inner, text(kind.code())]);
        match kind {
            Type::Numeric(scale) => {
                let (precision, scale) = Type::digits(declared, scale, self.dialect);
                let scale = scale.map_or(-1, i64::from);
                let precision = precision.and_then(|p| i64::try_from(p).ok()).unwrap_or(0);
                collated(call("weak_fit", vec![inner, number(precision), number(scale)]))
            }
            kind if kind.is_integer() && self.is_decimal(&inner) => code(call("exact_whole", vec![inner])),
            _ => code(inner),
        }
    }

    /// A call whose result is a decimal, or that gives one to JSON.
    pub(super) fn exact_function(&self, expr: &mut Expr, name: &str, kind: Type) -> Flow {
        let Expr::Function(function) = expr else { return Flow::Continue(()) };
        if matches!(bare(&function.name).as_str(), "json_object" | "json_array" | "json_group_array")
            && name != "array_agg"
        {
            self.numbers_of_json(function);
        }
        if name == "nullif" && kind.is_decimal() {
            let args = arguments_mut(function);
            self.comparable(&mut args.into_iter().collect::<Vec<_>>());
        }
        if !kind.is_decimal() {
            return Flow::Continue(());
        }
        if let Some(exact) = Function::exact(name) {
            function.name = ObjectName::from(vec![Ident::new(exact)]);
        }
        let ours = bare(&function.name);
        *expr = match take(expr) {
            call if ours.starts_with("exact_") || ours.starts_with("weak_") => collated(call),
            native => collated(call("weak_decimal", vec![native])),
        };
        Flow::Continue(())
    }

    /// Decimals are numbers in JSON, with all their digits.
    fn numbers_of_json(&self, function: &mut Call) {
        for arg in arguments_mut(function) {
            if self.is_decimal(arg) {
                *arg = call("json", vec![take(arg)]);
            }
        }
    }

    /// CEIL and FLOOR.
    pub(super) fn whole(&self, name: &str, inner: Expr) -> Expr {
        match Function::exact(name).filter(|_| self.is_decimal(&inner)) {
            Some(exact) => collated(call(exact, vec![inner])),
            None => call(name, vec![inner]),
        }
    }
}

fn arguments_mut(function: &mut Call) -> Vec<&mut Expr> {
    let FunctionArguments::List(list) = &mut function.args else { return Vec::new() };
    let expr = |arg| match arg {
        &mut FunctionArg::Unnamed(FunctionArgExpr::Expr(ref mut e))
        | &mut FunctionArg::Named { arg: FunctionArgExpr::Expr(ref mut e), .. } => Some(e),
        _ => None,
    };
    list.args.iter_mut().filter_map(expr).collect()
}
