//! Conditions on rows, evaluated here: whether a version of a row matches a `WHERE` clause.
//!
//! Three-valued logic as SQL has it, on integers and plain texts. Whatever databases may disagree about
//! (collations, implicit conversions, functions) is not evaluated, and the answer is unknown: a
//! wrong one would be a false alarm.

use anomalist_databases::Value;
use anomalist_sqltext::ast::{BinaryOperator, Expr, UnaryOperator, Value as Constant};

/// A row: the names of its columns and their values.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    /// Names, without quotes.
    pub columns: &'a [String],
    /// As many values.
    pub values: &'a [Value],
}

/// What a condition says of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Truth {
    /// The row matches.
    True,
    /// The row does not match: the condition is false.
    False,
    /// The row does not match: the condition is neither true nor false.
    Null,
    /// Not evaluated.
    Unknown,
}

impl Truth {
    /// Whether the row matches, if that is known.
    pub fn matches(self) -> Option<bool> {
        match self {
            Truth::True => Some(true),
            Truth::False | Truth::Null => Some(false),
            Truth::Unknown => None,
        }
    }

    fn of(truth: bool) -> Truth {
        if truth { Truth::True } else { Truth::False }
    }

    fn not(self) -> Truth {
        match self {
            Truth::True => Truth::False,
            Truth::False => Truth::True,
            other => other,
        }
    }

    fn and(self, other: Truth) -> Truth {
        match (self, other) {
            (Truth::False, _) | (_, Truth::False) => Truth::False,
            (Truth::Unknown, _) | (_, Truth::Unknown) => Truth::Unknown,
            (Truth::Null, _) | (_, Truth::Null) => Truth::Null,
            _ => Truth::True,
        }
    }

    fn or(self, other: Truth) -> Truth {
        self.not().and(other.not()).not()
    }
}

/// Evaluates a condition. Depth is bounded by the parser.
pub fn condition(expr: &Expr, row: Row<'_>) -> Truth {
    match expr {
        Expr::Nested(inner) => condition(inner, row),
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => condition(expr, row).not(),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            condition(left, row).and(condition(right, row))
        }
        Expr::BinaryOp { left, op: BinaryOperator::Or, right } => {
            condition(left, row).or(condition(right, row))
        }
        Expr::BinaryOp { left, op, right } => match (scalar(left, row), scalar(right, row)) {
            (Some(a), Some(b)) => compare(&a, op, &b),
            _ => Truth::Unknown,
        },
        Expr::IsNull(inner) => scalar(inner, row).map_or(Truth::Unknown, |v| Truth::of(v.is_null())),
        Expr::IsNotNull(inner) => scalar(inner, row).map_or(Truth::Unknown, |v| Truth::of(!v.is_null())),
        Expr::Between { expr, negated, low, high } => {
            let (Some(v), Some(low), Some(high)) = (scalar(expr, row), scalar(low, row), scalar(high, row))
            else {
                return Truth::Unknown;
            };
            let within =
                compare(&v, &BinaryOperator::GtEq, &low).and(compare(&v, &BinaryOperator::LtEq, &high));
            if *negated { within.not() } else { within }
        }
        Expr::InList { expr, list, negated } => {
            let Some(v) = scalar(expr, row) else { return Truth::Unknown };
            let found = list.iter().fold(Truth::False, |so_far, item| {
                so_far.or(scalar(item, row).map_or(Truth::Unknown, |i| compare(&v, &BinaryOperator::Eq, &i)))
            });
            if *negated { found.not() } else { found }
        }
        _ => Truth::Unknown,
    }
}

fn scalar(expr: &Expr, row: Row<'_>) -> Option<Value> {
    match expr {
        Expr::Nested(inner) => scalar(inner, row),
        Expr::Identifier(name) => column(&name.value, row),
        Expr::CompoundIdentifier(names) => column(&names.last()?.value, row),
        Expr::Value(value) => match &value.value {
            Constant::Number(digits, _) => digits.parse().ok().map(Value::Int),
            Constant::SingleQuotedString(text) => Some(Value::Text(text.clone())),
            Constant::Null => Some(Value::Null),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match scalar(expr, row)? {
            Value::Int(i) => i.checked_neg().map(Value::Int),
            Value::Null => Some(Value::Null),
            _ => None,
        },
        Expr::BinaryOp { left, op, right } => match (scalar(left, row)?, scalar(right, row)?) {
            (Value::Int(a), Value::Int(b)) => match op {
                BinaryOperator::Plus => a.checked_add(b).map(Value::Int),
                BinaryOperator::Minus => a.checked_sub(b).map(Value::Int),
                BinaryOperator::Multiply => a.checked_mul(b).map(Value::Int),
                BinaryOperator::Modulo if a >= 0 && b > 0 => Some(Value::Int(a % b)),
                _ => None,
            },
            (Value::Null, Value::Int(_) | Value::Null) | (Value::Int(_), Value::Null) => Some(Value::Null),
            _ => None,
        },
        _ => None,
    }
}

fn column(name: &str, row: Row<'_>) -> Option<Value> {
    let at = row.columns.iter().position(|c| c.eq_ignore_ascii_case(name))?;
    row.values.get(at).cloned()
}

fn compare(a: &Value, op: &BinaryOperator, b: &Value) -> Truth {
    use std::cmp::Ordering;
    let order = match (a, b) {
        (Value::Null, _) | (_, Value::Null) => return Truth::Null,
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        // Lower-case words: no collation that is in use disagrees about these.
        (Value::Text(a), Value::Text(b)) if plain(a) && plain(b) => a.cmp(b),
        _ => return Truth::Unknown,
    };
    Truth::of(match op {
        BinaryOperator::Eq => order == Ordering::Equal,
        BinaryOperator::NotEq => order != Ordering::Equal,
        BinaryOperator::Lt => order == Ordering::Less,
        BinaryOperator::LtEq => order != Ordering::Greater,
        BinaryOperator::Gt => order == Ordering::Greater,
        BinaryOperator::GtEq => order != Ordering::Less,
        _ => return Truth::Unknown,
    })
}

fn plain(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use anomalist_sqltext::ast::{SetExpr, Statement};
    use anomalist_sqltext::{Dialect, parse};

    fn truth(text: &str, a: Value, b: Value) -> Truth {
        let Statement::Query(query) =
            parse(Dialect::PostgreSql, &format!("SELECT 1 FROM t WHERE {text}")).unwrap()
        else {
            panic!("no query");
        };
        let SetExpr::Select(select) = *query.body else { panic!("no select") };
        let columns = ["a".to_owned(), "b".to_owned()];
        condition(&select.selection.unwrap(), Row { columns: &columns, values: &[a, b] })
    }

    #[test]
    fn as_sql_has_it() {
        let (int, null) = (Value::Int, Value::Null);
        for (text, expected) in [
            ("a = 3 AND b < 5", Truth::True),
            ("a <> 3 OR b IS NULL", Truth::False),
            ("NOT (a BETWEEN 1 AND 2)", Truth::True),
            ("a IN (1, 2, NULL)", Truth::Null),
            ("a NOT IN (1, 2)", Truth::True),
            ("a + b * 2 = 11", Truth::True),
            ("a = 'x'", Truth::Unknown),
            ("abs(a) = 3", Truth::Unknown),
            ("abs(a) = 3 OR a = 3", Truth::True),
            ("abs(a) = 3 AND a = 4", Truth::False),
        ] {
            assert_eq!(truth(text, int(3), int(4)), expected, "{text}");
        }
        assert_eq!(truth("a < 3", null.clone(), int(1)), Truth::Null);
        assert_eq!(truth("NOT (a < 3)", null.clone(), int(1)), Truth::Null);
        assert_eq!(truth("a < 3 OR b = 1", null, int(1)), Truth::True);
        assert_eq!(truth("a < 'b'", Value::from("a"), int(1)), Truth::True);
        assert_eq!(truth("a = 'B'", Value::from("b"), int(1)), Truth::Unknown);
    }
}
