//! The types of expressions.

use super::arrays::Element;
use super::names::Names;
use super::trees::subscripted;
use super::types::{Type, literal_type};
use anomalist_sqltext::Dialect;
use anomalist_sqltext::ast::{BinaryOperator as Op, DataType, Expr, UnaryOperator, Value};

impl Names<'_> {
    /// The type of an expression.
    #[must_use]
    pub fn expr(&self, expr: &Expr) -> Type {
        match expr {
            Expr::Identifier(name) => self.column(None, &name.value).unwrap_or(Type::Unknown),
            Expr::CompoundIdentifier(parts) => {
                let qualifier = parts.len().checked_sub(2).map(|at| parts[at].value.as_str());
                let name = parts.last().map_or("", |part| part.value.as_str());
                self.column(qualifier, name).unwrap_or(Type::Unknown)
            }
            Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => self.expr(inner),
            Expr::Value(value) => match &value.value {
                Value::Number(text, _) => self.number(text),
                Value::Boolean(_) => Type::Bool,
                Value::HexStringLiteral(_) => Type::Bytes,
                Value::Null | Value::Placeholder(_) => Type::Unknown,
                _ => Type::Text,
            },
            Expr::Cast { data_type, expr, .. }
                if names_of(data_type).is_some() && self.expr(expr).is_integer() =>
            {
                Type::Text
            }
            Expr::Cast { data_type, .. } => Type::cast(data_type, self.dialect).unwrap_or(Type::Unknown),
            Expr::TypedString(typed) => Type::declared(&typed.data_type).unwrap_or(Type::Unknown),
            Expr::UnaryOp { op: UnaryOperator::Not | UnaryOperator::BangNot, .. } => Type::Bool,
            Expr::UnaryOp { expr, .. } => self.expr(expr),
            Expr::BinaryOp { left, op, right } => self.binary(left, op, right),
            Expr::Function(function) => self.function(function),
            Expr::Case { conditions, else_result, .. } => {
                let results = conditions.iter().map(|c| &c.result).chain(else_result.as_deref());
                results.map(|e| self.expr(e)).reduce(common).unwrap_or(Type::Unknown)
            }
            Expr::CompoundFieldAccess { .. } => match subscripted(expr) {
                Some((list, _)) => element_of(self.expr(&list)),
                None => Type::Unknown,
            },
            Expr::Array(array) => {
                Type::List(Element::of(array.elem.first().map_or(Type::Text, |first| self.expr(first))))
            }
            Expr::Subquery(query) => self.query(query).first().map_or(Type::Unknown, |c| c.kind),
            Expr::Extract { .. } if self.dialect == Dialect::MySql => Type::Int8,
            Expr::Extract { .. } => Type::Numeric(None),
            Expr::Position { .. } => Type::Int4,
            Expr::Ceil { expr, .. } | Expr::Floor { expr, .. } => match self.expr(expr) {
                Type::Numeric(_) => Type::Numeric(Some(0)),
                kind => kind,
            },
            Expr::Substring { .. } | Expr::Trim { .. } | Expr::Overlay { .. } => Type::Text,
            Expr::AtTimeZone { timestamp, .. } => match self.expr(timestamp) {
                Type::Timestamp => Type::TimestampTz,
                _ => Type::Timestamp,
            },
            Expr::SimilarTo { .. } => Type::Bool,
            Expr::Interval(_) => Type::Text,
            Expr::Exists { .. }
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsTrue(_)
            | Expr::IsNotTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsNotFalse(_)
            | Expr::IsDistinctFrom(..)
            | Expr::IsNotDistinctFrom(..)
            | Expr::InList { .. }
            | Expr::InSubquery { .. }
            | Expr::Between { .. }
            | Expr::Like { .. }
            | Expr::ILike { .. }
            | Expr::RLike { .. }
            | Expr::AnyOp { .. }
            | Expr::AllOp { .. } => Type::Bool,
            _ => Type::Unknown,
        }
    }

    /// Whether the difference of two is an interval.
    pub(super) fn are_moments(&self, a: Type, b: Type) -> bool {
        let moment = |kind| matches!(kind, Type::Timestamp | Type::TimestampTz);
        self.dialect == Dialect::PostgreSql
            && ((moment(a) && (moment(b) || b == Type::Date)) || (a == Type::Date && moment(b)))
    }

    fn number(&self, text: &str) -> Type {
        match text {
            _ if text.parse::<i32>().is_ok() => Type::Int4,
            _ if text.parse::<i64>().is_ok() => Type::Int8,
            _ if self.dialect == Dialect::MySql && text.contains(['e', 'E']) => Type::Float8,
            _ => literal_type(text),
        }
    }

    pub(super) fn binary(&self, left: &Expr, op: &Op, right: &Expr) -> Type {
        let (a, b) = (self.expr(left), self.expr(right));
        match op {
            Op::Plus | Op::Minus if matches!(right, Expr::Interval(_)) => match a {
                Type::Date => Type::Timestamp,
                kind => kind,
            },
            Op::Plus | Op::Minus | Op::Multiply | Op::Divide | Op::Modulo
                if self.dialect == Dialect::MySql && (a.is_text() || b.is_text()) =>
            {
                Type::Float8
            }
            Op::Minus if a == Type::Date && b == Type::Date => Type::Int4,
            Op::Minus if self.are_moments(a, b) => Type::Text,
            Op::Plus | Op::Minus if a == Type::Date => Type::Date,
            Op::Divide if self.dialect == Dialect::MySql => match common(a, b) {
                Type::Float4 | Type::Float8 => Type::Float8,
                _ => match a {
                    Type::Numeric(scale) => Type::Numeric(scale.map(|s| s.saturating_add(4).min(38))),
                    _ => Type::Numeric(Some(4)),
                },
            },
            Op::Divide if matches!(common(a, b), Type::Numeric(_)) => Type::Numeric(None),
            Op::Multiply => match (a, b) {
                (Type::Numeric(Some(x)), Type::Numeric(Some(y))) => {
                    Type::Numeric(Some(x.saturating_add(y).min(38)))
                }
                _ => common(a, b),
            },
            Op::Plus | Op::Minus | Op::Divide | Op::Modulo => common(a, b),
            Op::PGExp if matches!(common(a, b), Type::Numeric(_)) => Type::Numeric(None),
            Op::PGExp => Type::Float8,
            Op::MyIntegerDivide | Op::BitwiseAnd | Op::BitwiseOr | Op::BitwiseXor => Type::Int8,
            Op::StringConcat if self.dialect == Dialect::PostgreSql => Type::Text,
            Op::Arrow | Op::HashArrow => Type::Json,
            Op::LongArrow | Op::HashLongArrow => Type::Text,
            _ => Type::Bool,
        }
    }
}

/// The type of what is in a list.
pub(super) fn element_of(list: Type) -> Type {
    match list {
        Type::List(element) => element.kind(),
        _ => Type::Text,
    }
}

/// Of `regclass` and its like, the last part: what a number names when it is cast to it.
#[must_use]
pub fn names_of(declared: &DataType) -> Option<&'static str> {
    let text = declared.to_string().to_lowercase();
    let bare = text.rsplit('.').next().unwrap_or(&text);
    ["regclass", "regtype", "regnamespace", "regrole"].into_iter().find(|kind| *kind == bare)
}

/// The type of a value that is one or the other.
pub(super) fn common(a: Type, b: Type) -> Type {
    let rank = |kind: Type| match kind {
        Type::Bool => 0,
        Type::Int1 | Type::Int2 => 1,
        Type::Int4 => 2,
        Type::Int8 | Type::Oid => 3,
        Type::Numeric(_) => 4,
        Type::Float4 => 5,
        _ => 6,
    };
    match (a, b) {
        (Type::Unknown, other) | (other, Type::Unknown) => other,
        (Type::Numeric(Some(x)), Type::Numeric(Some(y))) => Type::Numeric(Some(x.max(y))),
        (Type::Numeric(None), Type::Numeric(_)) | (Type::Numeric(_), Type::Numeric(None)) => {
            Type::Numeric(None)
        }
        (a, b) if a.is_number() && b.is_number() => {
            if rank(a) >= rank(b) {
                a
            } else {
                b
            }
        }
        (a, b) if a.is_number() && matches!(b, Type::Text | Type::Varchar(_)) => a,
        (a, b) if b.is_number() && matches!(a, Type::Text | Type::Varchar(_)) => b,
        (a, _) => a,
    }
}

pub(super) fn short_name(kind: Type) -> String {
    match kind {
        Type::Int2 | Type::Int1 => "int2",
        Type::Int4 => "int4",
        Type::Int8 => "int8",
        Type::Float4 => "float4",
        Type::Float8 => "float8",
        Type::Bool => "bool",
        Type::Varchar(_) => "varchar",
        Type::Char(_) => "bpchar",
        Type::Timestamp => "timestamp",
        Type::TimestampTz => "timestamptz",
        Type::Time => "time",
        other => other.name(),
    }
    .to_owned()
}
