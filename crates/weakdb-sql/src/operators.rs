//! Operators that SQLite does not have, or that mean something else there.

use super::rewrite::{Flow, Rewriter, refuse};
use super::trees::{align, call, not, number, shift, take, text};
use super::types::Type;
use anomalist_sqltext::Dialect;
use anomalist_sqltext::ast::{BinaryOperator as Op, Expr};

impl Rewriter<'_, '_> {
    pub(super) fn binary(&self, expr: &mut Expr) -> Flow {
        let postgres = self.dialect == Dialect::PostgreSql;
        if self.exact_binary(expr) {
            return Flow::Continue(());
        }
        let Expr::BinaryOp { left, op, right } = expr else { return Flow::Continue(()) };
        let (of_left, of_right) = (self.names.expr(left), self.names.expr(right));
        match op {
            Op::Plus | Op::Minus if matches!(**right, Expr::Interval(_)) => {
                let sign = if *op == Op::Plus { 1 } else { -1 };
                let shifted = shift(take(left), take(right), sign);
                *expr = shifted;
            }
            Op::Minus if self.names.are_moments(of_left, of_right) => {
                *expr = call("weak_between", vec![take(right), take(left)]);
            }
            Op::Plus | Op::Minus
                if of_left == Type::Date && (of_right.is_integer() || of_right == Type::Date) =>
            {
                let name = if *op == Op::Plus { "weak_date_plus" } else { "weak_date_minus" };
                *expr = call(name, vec![take(left), take(right)]);
            }
            Op::Divide => {
                let name = if postgres { "weak_divide" } else { "weak_quotient" };
                *expr = call(name, vec![take(left), take(right)]);
            }
            Op::MyIntegerDivide => {
                let quotient = call("weak_quotient", vec![take(left), take(right)]);
                *expr = call("weak_trunc", vec![quotient]);
            }
            Op::Modulo => *expr = call("mod", vec![take(left), take(right)]),
            Op::StringConcat if self.dialect == Dialect::MySql => *op = Op::Or,
            Op::Spaceship => {
                *expr = Expr::IsNotDistinctFrom(Box::new(take(left)), Box::new(take(right)));
            }
            Op::Xor => {
                let (left, right) = (Box::new(not(take(left))), Box::new(not(take(right))));
                *expr = Expr::Nested(Box::new(Expr::BinaryOp { left, op: Op::NotEq, right }));
            }
            Op::HashArrow | Op::HashLongArrow => {
                let plain = i64::from(*op == Op::HashLongArrow);
                *expr = call("weak_json_path", vec![take(left), take(right), number(plain)]);
            }
            Op::PGExp => *expr = call("power", vec![take(left), take(right)]),
            Op::PGRegexMatch
            | Op::PGRegexIMatch
            | Op::PGRegexNotMatch
            | Op::PGRegexNotIMatch
            | Op::PGCustomBinaryOperator(_) => return by_symbol(expr),
            Op::PGLikeMatch | Op::PGNotLikeMatch => {
                let negated = *op == Op::PGNotLikeMatch;
                let (inner, pattern) = (Box::new(take(left)), Box::new(take(right)));
                *expr = Expr::Like {
                    negated,
                    any: false,
                    expr: inner,
                    pattern,
                    escape_char: Some(Box::new(text("\\"))),
                };
            }
            Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq => {
                align(of_left, right, self.dialect);
                align(of_right, left, self.dialect);
            }
            Op::And
            | Op::Or
            | Op::Plus
            | Op::Minus
            | Op::Multiply
            | Op::StringConcat
            | Op::BitwiseAnd
            | Op::BitwiseOr
            | Op::PGBitwiseShiftLeft
            | Op::PGBitwiseShiftRight
            | Op::Arrow
            | Op::LongArrow => {}
            other => return refuse(&format!("the operator {other}")),
        }
        Flow::Continue(())
    }
}

/// Operators of PostgreSQL for patterns, also in the form OPERATOR(pg_catalog.~).
fn by_symbol(expr: &mut Expr) -> Flow {
    let Expr::BinaryOp { left, op, right } = expr else { return Flow::Continue(()) };
    let symbol = match &*op {
        Op::PGCustomBinaryOperator(parts) => parts.last().cloned().unwrap_or_default(),
        other => other.to_string(),
    };
    match symbol.as_str() {
        "~" | "!~" | "~*" | "!~*" => {
            let (negated, insensitive) = (symbol.starts_with('!'), symbol.ends_with('*'));
            let found = call("weak_matches", vec![take(left), take(right), number(i64::from(insensitive))]);
            *expr = if negated { not(found) } else { found };
        }
        "=" => *op = Op::Eq,
        _ => return refuse(&format!("the operator {op}")),
    }
    Flow::Continue(())
}
