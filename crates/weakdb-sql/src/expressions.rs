//! Expressions that SQLite writes in another way, after their parts were rewritten: variables, casts,
//! patterns, lists, and functions that are called with keywords.

use super::error::SqlError;
use super::exact;
use super::infer::names_of;
use super::names::{arguments, bare};
use super::rewrite::{Flow, Rewriter, refuse};
use super::trees::{align, bare_word, call, literal, not, number, subscripted, take, text, unit};
use super::types::Type;
use anomalist_sqltext::Dialect;
use anomalist_sqltext::ast::{BinaryOperator as Op, DataType, Expr, TrimWhereField};

/// Makes a list of its arguments. ANY takes it apart again.
const ARRAY: &str = "weak_array";

impl Rewriter<'_, '_> {
    pub(super) fn expression(&mut self, expr: &mut Expr) -> Flow {
        match expr {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => name(expr),
            Expr::Value(value) if self.names.expr(&Expr::Value(value.clone())).is_decimal() => {
                exact::literal(&value.value).into_iter().for_each(|e| *expr = e);
            }
            Expr::Value(value) => literal(&mut value.value),
            Expr::Cast { expr: inner, data_type, .. } => {
                let cast = self.cast(inner, data_type);
                return replace(expr, cast);
            }
            Expr::Convert { expr: inner, data_type: Some(data_type), .. } => {
                let converted = self.convert(take(inner), data_type);
                return replace(expr, converted);
            }
            Expr::Convert { expr: inner, .. } => *expr = take(inner),
            Expr::TypedString(typed) => {
                let value = typed.value.value.clone().into_string().unwrap_or_default();
                let converted = self.convert(text(value), &typed.data_type);
                return replace(expr, converted);
            }
            Expr::BinaryOp { .. } => return self.binary(expr),
            Expr::Function(_) => return self.function(expr),
            Expr::InList { expr: inner, list, .. } => {
                let kind = self.names.expr(inner);
                list.iter_mut().for_each(|e| align(kind, e, self.dialect));
            }
            Expr::Between { expr: inner, low, high, .. } => {
                let kind = self.names.expr(inner);
                align(kind, low, self.dialect);
                align(kind, high, self.dialect);
            }
            Expr::Like { .. } | Expr::ILike { .. } | Expr::RLike { .. } | Expr::SimilarTo { .. } => {
                pattern(expr);
            }
            Expr::Extract { .. }
            | Expr::Position { .. }
            | Expr::Ceil { .. }
            | Expr::Floor { .. }
            | Expr::Substring { .. }
            | Expr::Trim { .. }
            | Expr::AtTimeZone { .. } => self.keyword_call(expr),
            Expr::Collate { expr: inner, .. } => *expr = take(inner),
            Expr::IsUnknown(inner) => *expr = Expr::IsNull(Box::new(take(inner))),
            Expr::IsNotUnknown(inner) => *expr = Expr::IsNotNull(Box::new(take(inner))),
            Expr::AnyOp { left, compare_op: Op::Eq, right, .. } => *expr = self.any(left, right),
            Expr::AnyOp { .. } | Expr::AllOp { .. } => return refuse("ANY and ALL with this operator"),
            Expr::Array(array) => *expr = call(ARRAY, std::mem::take(&mut array.elem)),
            Expr::CompoundFieldAccess { .. } => match subscripted(expr) {
                Some((list, index)) => *expr = call("weak_at", vec![list, index]),
                None => return refuse("this form of a subscript"),
            },
            Expr::MatchAgainst { .. } => return refuse("MATCH AGAINST"),
            Expr::Prefixed { value, .. } => *expr = take(value),
            Expr::Overlay { .. } => return refuse("OVERLAY"),
            _ => {}
        }
        Flow::Continue(())
    }

    /// CAST: also to a name of the catalogue, by number or by text.
    fn cast(&self, value: &mut Expr, data_type: &DataType) -> Result<Expr, SqlError> {
        let kind = Type::cast(data_type, self.dialect)?;
        let numbered = self.names.expr(value).is_integer();
        let value = take(value);
        Ok(match (names_of(data_type), numbered) {
            (Some(what), true) => call("weak_name", vec![value, text(what)]),
            (Some(what), false) => call("weak_cast", vec![value, text(format!("weak_{what}"))]),
            (None, _) => self.exact_cast(value, data_type, kind),
        })
    }

    /// CONVERT, and a literal with its type before it.
    fn convert(&self, value: Expr, data_type: &DataType) -> Result<Expr, SqlError> {
        let kind = Type::cast(data_type, self.dialect)?;
        Ok(self.exact_cast(value, data_type, kind))
    }

    /// `left = ANY (right)`, where the right side is a list and not a subquery.
    fn any(&self, left: &mut Expr, right: &mut Expr) -> Expr {
        match right {
            Expr::Function(array) if bare(&array.name) == ARRAY => {
                let list = arguments(array).into_iter().cloned().collect();
                let mut found = Expr::InList { expr: Box::new(take(left)), list, negated: false };
                self.exact_expr(&mut found);
                found
            }
            array => {
                let decimal = self.names.expr(left).is_decimal();
                call(if decimal { "exact_any" } else { "weak_any" }, vec![take(left), take(array)])
            }
        }
    }

    /// Functions whose arguments stand between keywords.
    fn keyword_call(&self, expr: &mut Expr) {
        match expr {
            Expr::Extract { field, expr: inner, .. } => {
                let found = call("weak_field", vec![text(unit(field)), take(inner)]);
                *expr = if self.dialect == Dialect::PostgreSql { exact::collated(found) } else { found };
            }
            Expr::Position { expr: needle, r#in } => *expr = call("instr", vec![take(r#in), take(needle)]),
            Expr::Ceil { expr: inner, .. } => *expr = self.whole("ceil", take(inner)),
            Expr::Floor { expr: inner, .. } => *expr = self.whole("floor", take(inner)),
            Expr::Substring { expr: inner, substring_from, substring_for, .. } => {
                let mut args =
                    vec![take(inner), substring_from.as_deref_mut().map_or_else(|| number(1), take)];
                args.extend(substring_for.as_deref_mut().map(take));
                *expr = call("substr", args);
            }
            Expr::Trim { trim_where, trim_what, expr: inner, .. } => {
                let name = match trim_where {
                    Some(TrimWhereField::Leading) => "ltrim",
                    Some(TrimWhereField::Trailing) => "rtrim",
                    _ => "trim",
                };
                let mut args = vec![take(inner)];
                args.extend(trim_what.as_deref_mut().map(take));
                *expr = call(name, args);
            }
            Expr::AtTimeZone { timestamp: inner, time_zone } => {
                let name =
                    if self.names.expr(inner) == Type::Timestamp { "weak_global" } else { "weak_local" };
                *expr = call(name, vec![take(inner), take(time_zone)]);
            }
            _ => {}
        }
    }
}

fn replace(expr: &mut Expr, by: Result<Expr, SqlError>) -> Flow {
    match by {
        Ok(by) => {
            *expr = by;
            Flow::Continue(())
        }
        Err(error) => Flow::Break(error),
    }
}

/// Names: variables, words without parentheses that are functions, and columns with a schema before them.
fn name(expr: &mut Expr) {
    match expr {
        Expr::Identifier(name) if name.value.starts_with('@') && name.quote_style.is_none() => {
            *expr = call("weak_variable", vec![text(name.value.clone())]);
        }
        Expr::Identifier(name) => bare_word(name).into_iter().for_each(|e| *expr = e),
        Expr::CompoundIdentifier(parts) if parts[0].value.starts_with('@') => {
            let name = parts.iter().map(|p| p.value.as_str()).collect::<Vec<_>>().join(".");
            *expr = call("weak_variable", vec![text(name)]);
        }
        Expr::CompoundIdentifier(parts) if parts.len() > 2 => {
            parts.drain(..parts.len() - 2);
        }
        _ => {}
    }
}

/// Comparisons with a pattern.
fn pattern(expr: &mut Expr) {
    let negate = |negated: bool, found: Expr| if negated { not(found) } else { found };
    match expr {
        Expr::Like { escape_char: escape @ None, .. } => *escape = Some(Box::new(text("\\"))),
        Expr::ILike { negated, any, expr: inner, pattern, escape_char } => {
            *expr = Expr::Like {
                negated: *negated,
                any: *any,
                expr: Box::new(call("lower", vec![take(inner)])),
                pattern: Box::new(call("lower", vec![take(pattern)])),
                escape_char: Some(escape_char.take().unwrap_or_else(|| Box::new(text("\\")))),
            };
        }
        Expr::RLike { negated, expr: inner, pattern, .. } => {
            let found = call("weak_matches", vec![take(inner), take(pattern), number(1)]);
            *expr = negate(*negated, found);
        }
        Expr::SimilarTo { negated, expr: inner, pattern, escape_char } => {
            let escape = escape_char.take().map_or_else(|| text("\\"), |escape| *escape);
            let found = call("weak_similar", vec![take(inner), take(pattern), escape]);
            *expr = negate(*negated, found);
        }
        _ => {}
    }
}
