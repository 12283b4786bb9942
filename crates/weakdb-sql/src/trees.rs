//! Pieces of trees that the rewriter puts together.

use super::types::{Type, plain};
use anomalist_sqltext::ast::{
    AccessExpr, DateTimeField, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, Query, SetExpr, Statement, Subscript, TableFactor, Value, Values,
};
use anomalist_sqltext::{Dialect, parse};

/// `name(args…)`
pub(super) fn call(name: &str, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|e| FunctionArg::Unnamed(FunctionArgExpr::Expr(e))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: Vec::new(),
        }),
        within_group: Vec::new(),
        filter: None,
        null_treatment: None,
        over: None,
    })
}

/// A string literal.
pub(super) fn text(value: impl Into<String>) -> Expr {
    Expr::Value(Value::SingleQuotedString(value.into()).into())
}

/// An integer literal.
pub(super) fn number(value: i64) -> Expr {
    Expr::Value(Value::Number(value.to_string(), false).into())
}

/// The one row of a scalar subquery, where SQLite would take the first of several. The code keeps its type.
pub(super) fn only(query: Box<Query>, kind: Type) -> Option<Box<Query>> {
    let code = kind.code();
    let sql = format!(
        "WITH weak_found(x) AS (SELECT 1) SELECT weak_only(min(x), '{code}', count(*)) FROM weak_found"
    );
    let Ok(Statement::Query(mut one)) = parse(Dialect::Sqlite, &sql) else { return None };
    one.with.as_mut()?.cte_tables.first_mut()?.query = query;
    Some(one)
}

/// Takes an expression out, leaving NULL.
pub(super) fn take(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::Value(Value::Null.into()))
}

/// Words that stand for a function in PostgreSQL, but that the parser takes for columns.
pub(super) fn bare_word(name: &Ident) -> Option<Expr> {
    if name.quote_style.is_some() {
        return None;
    }
    match name.value.to_lowercase().as_str() {
        "current_schema" => Some(call("current_schema", Vec::new())),
        "current_catalog" => Some(call("current_database", Vec::new())),
        _ => None,
    }
}

/// Of an expression with one subscript, the list and the subscript.
pub(super) fn subscripted(expr: &Expr) -> Option<(Expr, Expr)> {
    let Expr::CompoundFieldAccess { root, access_chain } = expr else { return None };
    let (last, dots) = access_chain.split_last()?;
    let AccessExpr::Subscript(Subscript::Index { index }) = last else { return None };
    // `t.list[1]` is parsed as t, then `.list`, then `[1]`.
    let mut parts = match &**root {
        Expr::Identifier(name) => vec![name.clone()],
        Expr::CompoundIdentifier(parts) => parts.clone(),
        other => return dots.is_empty().then(|| (other.clone(), index.clone())),
    };
    for dot in dots {
        let AccessExpr::Dot(Expr::Identifier(name)) = dot else { return None };
        parts.push(name.clone());
    }
    let table = parts.len().saturating_sub(2);
    Some((Expr::CompoundIdentifier(parts.split_off(table)), index.clone()))
}

/// NOT, which keeps NULL.
pub(super) fn not(expr: Expr) -> Expr {
    call("weak_not", vec![expr])
}

/// Texts in all their quotes become the one SQLite has.
pub(super) fn literal(value: &mut Value) {
    let plain = match value {
        Value::EscapedStringLiteral(t)
        | Value::NationalStringLiteral(t)
        | Value::DoubleQuotedString(t)
        | Value::UnicodeStringLiteral(t) => std::mem::take(t),
        Value::DollarQuotedString(dollar) => std::mem::take(&mut dollar.value),
        Value::Placeholder(name) if name.starts_with('$') => {
            name.replace_range(..1, "?");
            return;
        }
        _ => return,
    };
    *value = Value::SingleQuotedString(plain);
}

/// A text literal that is compared with something of this type becomes a value of it.
pub(super) fn align(kind: Type, expr: &mut Expr, dialect: Dialect) {
    let wanted = matches!(
        kind,
        Type::Date | Type::Time | Type::Timestamp | Type::TimestampTz | Type::Uuid | Type::Bool
    );
    if !wanted {
        return;
    }
    if let Expr::Value(value) = expr
        && let Value::SingleQuotedString(literal) = &value.value
        && let Ok(aligned) = kind.coerce(anomalist_weakdb::Value::from(literal.as_str()), dialect)
    {
        *expr = match aligned {
            anomalist_weakdb::Value::Bool(b) => number(i64::from(b)),
            other => text(plain(&other)),
        };
    }
}

/// The name of a field of a time.
pub(super) fn unit(field: &DateTimeField) -> String {
    field.to_string().trim_matches(['\'', '"']).to_lowercase()
}

/// `moment ± interval`
pub(super) fn shift(moment: Expr, interval: Expr, sign: i64) -> Expr {
    let Expr::Interval(interval) = interval else { return moment };
    let unit = interval.leading_field.as_ref().map(unit).unwrap_or_default();
    call("weak_shift", vec![moment, *interval.value, text(unit), number(sign)])
}

/// SQLite has no parentheses around the parts of a UNION.
pub(super) fn flatten(body: &mut SetExpr) {
    let mut parts: Vec<&mut SetExpr> = vec![body];
    let mut outermost = true;
    while let Some(part) = parts.pop() {
        if let SetExpr::Query(query) = part {
            let plain = query.order_by.is_none()
                && query.limit_clause.is_none()
                && query.fetch.is_none()
                && query.with.is_none();
            let compound = matches!(*query.body, SetExpr::SetOperation { .. });
            if plain && (outermost || !compound) {
                let inner = std::mem::replace(
                    &mut *query.body,
                    SetExpr::Values(Values { explicit_row: false, value_keyword: false, rows: Vec::new() }),
                );
                *part = inner;
            } else if let Ok(Statement::Query(whole)) =
                parse(Dialect::Sqlite, &format!("SELECT * FROM ({query})"))
            {
                *part = *whole.body;
            }
        }
        outermost = false;
        if let SetExpr::SetOperation { left, right, .. } = part {
            // SQLite takes the parts from left to right; INTERSECT binds before the others.
            if matches!(**right, SetExpr::SetOperation { .. }) {
                enclose(right);
                parts.push(left);
                continue;
            }
            parts.push(left);
            parts.push(right);
        }
    }
}

/// Makes a part of a UNION a SELECT of its own.
fn enclose(part: &mut SetExpr) {
    let Ok(Statement::Query(mut whole)) = parse(Dialect::Sqlite, "SELECT * FROM (SELECT 1)") else { return };
    if let SetExpr::Select(select) = &mut *whole.body
        && let Some(TableFactor::Derived { subquery, .. }) = select.from.first_mut().map(|f| &mut f.relation)
    {
        std::mem::swap(&mut *subquery.body, part);
        *part = *whole.body;
    }
}
