//! What SQLite has, sometimes under another name, and what the rewriter replaces.

use super::Returns::{By, Common, First, Is};
use super::{Function, element, first, form, list_of_first, named, places, sqlite};
use crate::infer::common;
use crate::names::Names;
use crate::types::Type;
use anomalist_sqltext::Dialect;
use anomalist_sqltext::ast::Expr;

pub(super) const FUNCTIONS: &[Function] = &[
    sqlite("count row_number rank dense_rank", Is(Type::Int8)),
    sqlite("sum", By(sum)),
    sqlite("avg", By(average)),
    sqlite("min max abs lag lead first_value last_value nullif", First),
    named("bool_and every", Is(Type::Bool), "min"),
    named("bool_or", Is(Type::Bool), "max"),
    sqlite("ntile sign octet_length length instr", Is(Type::Int4)),
    sqlite("percent_rank cume_dist", Is(Type::Float8)),
    sqlite("coalesce ifnull", Common),
    named("nvl", Common, "ifnull"),
    named("if", By(either), "iif"),
    sqlite("iif", By(either)),
    sqlite("round", By(places)),
    named("char_length character_length", Is(Type::Int4), "length"),
    named("strpos", Is(Type::Int4), "instr"),
    named("substring mid", Is(Type::Text), "substr"),
    named("localtimestamp sysdate utc_timestamp", Is(Type::Timestamp), "now"),
    named("transaction_timestamp statement_timestamp clock_timestamp", Is(Type::TimestampTz), "now"),
    named("json_build_object jsonb_build_object", Is(Type::Json), "json_object"),
    named("json_agg jsonb_agg", Is(Type::Json), "json_group_array"),
    named("array_agg", By(list_of_first), "json_group_array"),
    form("unnest", By(element)),
    form("generate_subscripts", Is(Type::Int4)),
    form("date_add adddate date_sub subdate", Is(Type::Timestamp)),
];

pub(super) fn sum(names: &Names<'_>, args: &[&Expr]) -> Type {
    match first(names, args) {
        Type::Float4 | Type::Float8 => Type::Float8,
        Type::Numeric(scale) => Type::Numeric(scale),
        kind if names.dialect == Dialect::MySql && kind.is_text() => Type::Float8,
        _ if names.dialect == Dialect::MySql => Type::Numeric(Some(0)),
        Type::Int8 => Type::Numeric(Some(0)),
        _ => Type::Int8,
    }
}

pub(super) fn average(names: &Names<'_>, args: &[&Expr]) -> Type {
    let mysql = names.dialect == Dialect::MySql;
    match first(names, args) {
        Type::Float4 | Type::Float8 => Type::Float8,
        kind if mysql && kind.is_text() => Type::Float8,
        Type::Numeric(Some(scale)) if mysql => Type::Numeric(Some(scale.saturating_add(4).min(38))),
        _ if mysql => Type::Numeric(Some(4)),
        _ => Type::Numeric(None),
    }
}

/// The common type of all arguments but the condition.
fn either(names: &Names<'_>, args: &[&Expr]) -> Type {
    args.iter().skip(1).map(|e| names.expr(e)).reduce(common).unwrap_or(Type::Unknown)
}
