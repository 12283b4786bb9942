//! What functions return, by their names.

use super::arrays::Element;
use super::names::{Names, arguments, bare, common, element_of};
use super::types::Type;
use anomalist_sqltext::Dialect;
use anomalist_sqltext::ast::{BinaryOperator as Op, Expr, Function, FunctionArguments, Value};

impl Names<'_> {
    /// The type of a function's result.
    pub(super) fn function(&self, function: &Function) -> Type {
        if let FunctionArguments::Subquery(query) = &function.args {
            // ARRAY(SELECT …)
            return Type::List(Element::of(self.query(query).first().map_or(Type::Text, |c| c.kind)));
        }
        let args = arguments(function);
        let first = || args.first().map_or(Type::Unknown, |e| self.expr(e));
        let mysql = self.dialect == Dialect::MySql;
        match bare(&function.name).to_lowercase().as_str() {
            // What the rewriter puts in place of operators and casts.
            "weak_cast" | "weak_only" => match args.get(1) {
                Some(Expr::Value(v)) => {
                    v.value.clone().into_string().map_or(Type::Unknown, |code| Type::from_code(&code))
                }
                _ => Type::Unknown,
            },
            "weak_decimal" | "weak_trunc" => first(),
            "weak_divide" | "weak_quotient" => match args.as_slice() {
                [left, right] => self.binary(left, &Op::Divide, right),
                _ => Type::Unknown,
            },
            "weak_shift" => Type::Timestamp,
            "weak_not" | "weak_any" | "weak_matches" => Type::Bool,
            "weak_today" | "weak_day" | "weak_date_plus" => Type::Date,
            "weak_date_minus" => Type::Unknown,
            "count" | "row_number" | "rank" | "dense_rank" | "nextval" | "currval" | "lastval" | "setval" => {
                Type::Int8
            }
            "last_insert_id" | "row_count" | "found_rows" | "connection_id" | "unix_timestamp" => Type::Int8,
            "sum" => match first() {
                Type::Float4 | Type::Float8 => Type::Float8,
                Type::Numeric(scale) => Type::Numeric(scale),
                _ if mysql => Type::Numeric(Some(0)),
                Type::Int8 => Type::Numeric(Some(0)),
                _ => Type::Int8,
            },
            "avg" => match first() {
                Type::Float4 | Type::Float8 => Type::Float8,
                Type::Numeric(Some(scale)) if mysql => Type::Numeric(Some(scale + 4)),
                _ if mysql => Type::Numeric(Some(4)),
                _ => Type::Numeric(None),
            },
            "min" | "max" | "abs" | "lag" | "lead" | "first_value" | "last_value" => first(),
            "coalesce" | "greatest" | "least" | "ifnull" | "nvl" => {
                args.iter().map(|e| self.expr(e)).reduce(common).unwrap_or(Type::Unknown)
            }
            "nullif" => first(),
            "if" | "iif" => args.iter().skip(1).map(|e| self.expr(e)).reduce(common).unwrap_or(Type::Unknown),
            "round" | "trunc" | "truncate" => match (first(), args.get(1)) {
                (Type::Float4 | Type::Float8, _) => Type::Float8,
                (kind, None) if kind.is_integer() => kind,
                (_, None) => Type::Numeric(Some(0)),
                (_, Some(Expr::Value(v))) => match &v.value {
                    Value::Number(n, _) => Type::Numeric(n.parse().ok()),
                    _ => Type::Numeric(None),
                },
                _ => Type::Numeric(None),
            },
            "mod" | "floor" | "ceil" | "ceiling" => match first() {
                Type::Numeric(_) => Type::Numeric(Some(0)),
                kind => kind,
            },
            "power" | "pow" | "sqrt" | "exp" | "ln" | "log" | "rand" | "random" => Type::Float8,
            "length" | "char_length" | "character_length" | "octet_length" | "strpos" | "position"
            | "instr" | "pg_backend_pid" | "sign" | "ascii" => Type::Int4,
            "now" if mysql => Type::Timestamp,
            "now" | "transaction_timestamp" | "clock_timestamp" | "statement_timestamp" => Type::TimestampTz,
            "current_timestamp" => {
                if mysql {
                    Type::Timestamp
                } else {
                    Type::TimestampTz
                }
            }
            "localtimestamp" | "sysdate" | "date_add" | "date_sub" | "utc_timestamp" | "from_unixtime" => {
                Type::Timestamp
            }
            "date_trunc" => args.get(1).map_or(Type::Timestamp, |e| self.expr(e)),
            "current_date" | "curdate" | "date" => Type::Date,
            "current_time" | "curtime" | "localtime" => Type::Time,
            "date_part" => Type::Float8,
            "year" | "month" | "day" | "hour" | "minute" | "second" | "datediff" | "dayofweek" => Type::Int4,
            "bool_and"
            | "bool_or"
            | "every"
            | "pg_table_is_visible"
            | "has_table_privilege"
            | "pg_is_in_recovery"
            | "pg_type_is_visible"
            | "pg_function_is_visible"
            | "pg_relation_is_publishable"
            | "has_database_privilege"
            | "has_column_privilege"
            | "has_sequence_privilege"
            | "has_schema_privilege" => Type::Bool,
            "pg_advisory_unlock" => Type::Bool,
            "ntile" => Type::Int4,
            "percent_rank" | "cume_dist" => Type::Float8,
            "gen_random_uuid" | "uuid_generate_v4" => Type::Uuid,
            "to_regtype" | "to_regclass" => Type::Oid,
            "array_agg" => Type::List(Element::of(first())),
            "unnest" | "weak_at" => element_of(first()),
            "weak_json_path" => match args.get(2) {
                Some(Expr::Value(plain)) if plain.value == Value::Number("0".into(), false) => Type::Json,
                _ => Type::Text,
            },
            "generate_subscripts" | "array_length" | "cardinality" => Type::Int4,
            "json_build_object" | "jsonb_build_object" | "json_agg" | "jsonb_agg" => Type::Json,
            _ => Type::Text,
        }
    }
}
