//! Numbers: arithmetic that fails where SQLite would guess, rounding, extremes.

use super::Returns::{By, Common, Is};
use super::{Answer, Function, constant, ours, places, whole};
use crate::engine::Shared;
use crate::error::{Code, SqlError};
use crate::names::Names;
use crate::types::{Type, number, plain, truth};
use anomalist_sqltext::Dialect;
use anomalist_sqltext::ast::{BinaryOperator, Expr};
use anomalist_weakdb::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    constant("weak_divide", 2, By(quotient), |_, args| divide(&args[0], &args[1])),
    constant("weak_quotient", 2, By(quotient), |_, args| {
        Ok(match (number(&args[0]), number(&args[1])) {
            (Some(a), Some(b)) if b != 0.0 => Value::Real(a / b),
            _ => Value::Null,
        })
    }),
    ours("mod", 2, By(remainder), |shared, args| match (&args[0], &args[1]) {
        (Value::Null, _) | (_, Value::Null) => Ok(Value::Null),
        (_, b) if number(b) == Some(0.0) => by_zero(shared),
        (Value::Int(a), Value::Int(b)) => Ok(Value::Int(a.wrapping_rem(*b))),
        (a, b) => Ok(number(a).zip(number(b)).map_or(Value::Null, |(a, b)| Value::Real(a % b))),
    }),
    ours("weak_not", 1, Is(Type::Bool), |_, args| {
        Ok(truth(&args[0]).map_or(Value::Null, |b| Value::Int(i64::from(!b))))
    }),
    ours("weak_trunc truncate trunc", -1, By(places), |_, args| {
        let places = args.get(1).and_then(Value::as_int).unwrap_or(0);
        let factor = 10f64.powi(places.clamp(-18, 18) as i32);
        Ok(match &args[0] {
            Value::Int(i) if places >= 0 => Value::Int(*i),
            v => match number(v) {
                Some(n) if args.len() < 2 && n.abs() < 9e15 => Value::Int(n.trunc() as i64),
                Some(n) => Value::Real((n * factor).trunc() / factor),
                None => Value::Null,
            },
        })
    }),
    ours("ceil ceiling", 1, By(whole), |_, args| Ok(rounded(&args[0], f64::ceil))),
    ours("floor", 1, By(whole), |_, args| Ok(rounded(&args[0], f64::floor))),
    ours("power pow", 2, Is(Type::Float8), |_, args| {
        Ok(number(&args[0]).zip(number(&args[1])).map_or(Value::Null, |(a, b)| a.powf(b).into()))
    }),
    ours("sqrt", 1, Is(Type::Float8), |_, args| Ok(real(&args[0], f64::sqrt))),
    ours("exp", 1, Is(Type::Float8), |_, args| Ok(real(&args[0], f64::exp))),
    ours("ln", 1, Is(Type::Float8), |_, args| Ok(real(&args[0], f64::ln))),
    ours("weak_random random rand", -1, Is(Type::Float8), |shared, _| Ok(shared.random.f64().into())),
    ours("greatest", -1, Common, |_, args| Ok(extreme(args, true))),
    ours("least", -1, Common, |_, args| Ok(extreme(args, false))),
    // Of base 10 in PostgreSQL, the natural one in MySQL; with two arguments the first is the base.
    ours("weak_log log", -1, Is(Type::Float8), |shared, args| {
        let natural = shared.dialect == Dialect::MySql;
        Ok(match args {
            [x] => number(x).map_or(Value::Null, |x| if natural { x.ln() } else { x.log10() }.into()),
            [base, x, ..] => number(base).zip(number(x)).map_or(Value::Null, |(base, x)| x.log(base).into()),
            [] => Value::Null,
        })
    }),
];

fn quotient(names: &Names<'_>, args: &[&Expr]) -> Type {
    match args {
        [left, right] => names.binary(left, &BinaryOperator::Divide, right),
        _ => Type::Unknown,
    }
}

fn remainder(names: &Names<'_>, args: &[&Expr]) -> Type {
    match args {
        [left, right] => names.binary(left, &BinaryOperator::Modulo, right),
        _ => Type::Unknown,
    }
}

fn real(value: &Value, function: fn(f64) -> f64) -> Value {
    number(value).map_or(Value::Null, |x| function(x).into())
}

fn by_zero(shared: &Shared) -> Answer {
    match shared.dialect {
        Dialect::PostgreSql => Err(SqlError::new(Code::DivisionByZero, "division by zero")),
        _ => Ok(Value::Null),
    }
}

fn divide(a: &Value, b: &Value) -> Answer {
    match (a, b) {
        (Value::Null, _) | (_, Value::Null) => Ok(Value::Null),
        (_, b) if number(b) == Some(0.0) => Err(SqlError::new(Code::DivisionByZero, "division by zero")),
        (Value::Int(a), Value::Int(b)) => Ok(Value::Int(a.wrapping_div(*b))),
        (a, b) => Ok(number(a).zip(number(b)).map_or(Value::Null, |(a, b)| Value::Real(a / b))),
    }
}

fn rounded(value: &Value, how: fn(f64) -> f64) -> Value {
    match value {
        Value::Int(i) => Value::Int(*i),
        other => number(other).map_or(Value::Null, |n| {
            let whole = how(n);
            if whole.abs() < 9e15 { Value::Int(whole as i64) } else { Value::Real(whole) }
        }),
    }
}

fn extreme(args: &[Value], greatest: bool) -> Value {
    let mut best = Value::Null;
    for arg in args.iter().filter(|a| **a != Value::Null) {
        let larger = match (number(arg), number(&best)) {
            (Some(a), Some(b)) => a > b,
            _ => plain(arg) > plain(&best),
        };
        if best == Value::Null || larger == greatest {
            best = arg.clone();
        }
    }
    best
}
