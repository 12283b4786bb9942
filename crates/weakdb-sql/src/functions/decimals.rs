//! Decimals: exact arithmetic, which the rewriter puts in the place of operators and functions whose result
//! is one.
//!
//! Arguments are texts of decimals, or integers. Results are texts; see `decimal.rs` for their scales.

use super::Returns::{By, Common, First, Is};
use super::native::{average, sum};
use super::{Answer, Fold, Function, How, constant, places, strict, whole};
use crate::arrays;
use crate::decimal::Decimal;
use crate::engine::Shared;
use crate::error::{Code, SqlError};
use crate::names::Names;
use crate::types::{Type, literal_type, plain};
use anomalist_sqltext::Dialect;
use anomalist_sqltext::ast::{BinaryOperator as Op, Expr, Value as Literal};
use anomalist_weakdb::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    constant("weak_decimal", 1, By(converted), |shared, args| one(shared, args, |d, _| d.clone())),
    // CAST to a decimal: precision (or 0) and scale (or -1).
    constant("weak_fit", 3, By(fitted), |shared, args| fit(shared, args)),
    // CAST of a decimal to an integer.
    constant("exact_whole", 1, Is(Type::Int8), |shared, args| one(shared, args, |d, _| d.round(0))),
    constant("exact_negate", 1, First, |shared, args| one(shared, args, |d, _| d.negated())),
    constant("exact_plus", 2, By(|n, a| of(n, a, &Op::Plus)), |s, args| {
        two(s, args, |a, b, _| Some(a.plus(b)))
    }),
    constant("exact_minus", 2, By(|n, a| of(n, a, &Op::Minus)), |s, args| {
        two(s, args, |a, b, _| Some(a.minus(b)))
    }),
    constant("exact_times", 2, By(|n, a| of(n, a, &Op::Multiply)), |s, args| {
        two(s, args, |a, b, dialect| Some(a.times(b, dialect)))
    }),
    constant("exact_over", 2, By(|n, a| of(n, a, &Op::Divide)), |s, args| two(s, args, Decimal::over)),
    constant("exact_mod", 2, By(|n, a| of(n, a, &Op::Modulo)), |s, args| two(s, args, |a, b, _| a.modulo(b))),
    constant("exact_div", 2, Is(Type::Int8), |s, args| {
        let whole = two(s, args, |a, b, _| a.whole_quotient(b))?;
        Ok(Decimal::of(&whole).and_then(|d| d.to_int()).map_or(Value::Null, Value::Int))
    }),
    constant("exact_abs", 1, First, |shared, args| one(shared, args, |d, _| d.absolute())),
    constant("exact_ceil", 1, By(whole), |shared, args| one(shared, args, |d, _| d.ceiling())),
    constant("exact_floor", 1, By(whole), |shared, args| one(shared, args, |d, _| d.floor())),
    constant("exact_round", -1, By(places), |shared, args| one(shared, args, Decimal::round)),
    constant("exact_trunc", -1, By(places), |shared, args| one(shared, args, Decimal::truncate)),
    constant("exact_greatest", -1, Common, |shared, args| extreme(shared, args, true)),
    constant("exact_least", -1, Common, |shared, args| extreme(shared, args, false)),
    // `= ANY`
    constant("exact_any", 2, Is(Type::Bool), |shared, args| {
        if strict(args) {
            return Ok(Value::Null);
        }
        let wanted = Decimal::require(&args[0], shared.dialect)?;
        let (items, _) = arrays::items(&plain(&args[1])).unwrap_or_default();
        let found = items.iter().flatten().any(|item| Decimal::parse(item).is_some_and(|d| d == wanted));
        Ok(if !found && items.contains(&None) { Value::Null } else { Value::Int(i64::from(found)) })
    }),
    Function { names: "exact_sum", returns: By(sum), how: How::Aggregate(Fold::Sum) },
    Function { names: "exact_avg", returns: By(average), how: How::Aggregate(Fold::Average) },
];

/// Functions of decimals, and what takes their place.
pub(super) const EXACT: &[(&str, &str)] = &[
    ("sum", "exact_sum"),
    ("avg", "exact_avg"),
    ("abs", "exact_abs"),
    ("ceil", "exact_ceil"),
    ("ceiling", "exact_ceil"),
    ("floor", "exact_floor"),
    ("round", "exact_round"),
    ("trunc", "exact_trunc"),
    ("truncate", "exact_trunc"),
    ("mod", "exact_mod"),
    ("greatest", "exact_greatest"),
    ("least", "exact_least"),
];

/// The type of an operation.
fn of(names: &Names<'_>, args: &[&Expr], op: &Op) -> Type {
    match args {
        [left, right] => names.binary(left, op, right),
        _ => Type::Unknown,
    }
}

/// That of a number that became a decimal.
fn converted(names: &Names<'_>, args: &[&Expr]) -> Type {
    if let Some(Expr::Value(v)) = args.first()
        && let Literal::SingleQuotedString(number) = &v.value
    {
        return literal_type(number);
    }
    match args.first().map(|e| names.expr(e)) {
        Some(decimal @ Type::Numeric(_)) => decimal,
        Some(kind) if kind.is_integer() => Type::Numeric(Some(0)),
        _ => Type::Numeric(None),
    }
}

fn fitted(_: &Names<'_>, args: &[&Expr]) -> Type {
    match args.get(2) {
        Some(Expr::Value(v)) => match &v.value {
            Literal::Number(scale, _) => Type::Numeric(scale.parse().ok()),
            _ => Type::Numeric(None),
        },
        _ => Type::Numeric(None),
    }
}

/// A function of a decimal, and of a number of digits, which is 0 if it is not given.
fn one(shared: &Shared, args: &[Value], run: fn(&Decimal, i64) -> Decimal) -> Answer {
    if strict(args) {
        return Ok(Value::Null);
    }
    let places = args.get(1).and_then(Value::as_int).unwrap_or(0);
    let found = run(&Decimal::require(&args[0], shared.dialect)?, places);
    Ok(found.checked(shared.dialect)?.into())
}

/// An operation that has no result only if it divides by zero.
fn two(shared: &Shared, args: &[Value], run: fn(&Decimal, &Decimal, Dialect) -> Option<Decimal>) -> Answer {
    if strict(args) {
        return Ok(Value::Null);
    }
    let dialect = shared.dialect;
    let (a, b) = (Decimal::require(&args[0], dialect)?, Decimal::require(&args[1], dialect)?);
    match run(&a, &b, dialect) {
        Some(result) => Ok(result.checked(dialect)?.into()),
        None if dialect == Dialect::MySql => Ok(Value::Null),
        None => Err(SqlError::new(Code::DivisionByZero, "division by zero")),
    }
}

fn fit(shared: &Shared, args: &[Value]) -> Answer {
    if args[0] == Value::Null {
        return Ok(Value::Null);
    }
    let decimal = Decimal::require(&args[0], shared.dialect)?;
    let precision = args[1].as_int().and_then(|p| u64::try_from(p).ok()).filter(|p| *p > 0);
    let scale = args[2].as_int().and_then(|s| u8::try_from(s).ok());
    match (decimal.fit(precision, scale, shared.dialect), precision) {
        // MySQL's CAST warns, and gives the largest number of the type.
        (Err(_), Some(precision)) if shared.dialect == Dialect::MySql => {
            Ok(decimal.largest(precision, scale.unwrap_or(0)).into())
        }
        (fitting, _) => Ok(fitting?.into()),
    }
}

/// The largest or smallest. NULL counts in MySQL only.
fn extreme(shared: &Shared, args: &[Value], greatest: bool) -> Answer {
    if shared.dialect == Dialect::MySql && strict(args) {
        return Ok(Value::Null);
    }
    let mut best: Option<Decimal> = None;
    for arg in args.iter().filter(|a| **a != Value::Null) {
        let decimal = Decimal::require(arg, shared.dialect)?;
        if best.as_ref().is_none_or(|b| if greatest { decimal > *b } else { decimal < *b }) {
            best = Some(decimal);
        }
    }
    Ok(best.map_or(Value::Null, Value::from))
}
