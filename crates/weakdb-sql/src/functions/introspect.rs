//! Functions with which clients look at the database itself, mostly psql and object mappers.

use super::Returns::{First, Is};
use super::{Answer, Function, Run, ours};
use crate::describe;
use crate::engine::Shared;
use crate::error::{Code, SqlError};
use crate::system;
use crate::types::{Type, plain};
use anomalist_weakdb::Value;

const YES: Run = |_, _| Ok(Value::Int(1));
const NOTHING: Run = |_, _| Ok(Value::Null);
const ZERO: Run = |_, _| Ok(Value::Int(0));

pub(super) const FUNCTIONS: &[Function] = &[
    ours("pg_table_is_visible", 1, Is(Type::Bool), YES),
    ours("pg_type_is_visible", 1, Is(Type::Bool), YES),
    ours("pg_function_is_visible", 1, Is(Type::Bool), YES),
    ours("pg_collation_is_visible", 1, Is(Type::Bool), YES),
    ours("pg_relation_is_publishable", 1, Is(Type::Bool), YES),
    ours("has_table_privilege", -1, Is(Type::Bool), YES),
    ours("has_schema_privilege", -1, Is(Type::Bool), YES),
    ours("has_database_privilege", -1, Is(Type::Bool), YES),
    ours("has_column_privilege", -1, Is(Type::Bool), YES),
    ours("has_sequence_privilege", -1, Is(Type::Bool), YES),
    ours("pg_is_in_recovery", 0, Is(Type::Bool), ZERO),
    ours("pg_is_other_temp_schema", 1, Is(Type::Bool), ZERO),
    ours("pg_my_temp_schema", 0, Is(Type::Oid), ZERO),
    ours("pg_table_size", 1, Is(Type::Int8), ZERO),
    ours("pg_relation_size", -1, Is(Type::Int8), ZERO),
    ours("pg_indexes_size", 1, Is(Type::Int8), ZERO),
    ours("pg_total_relation_size", 1, Is(Type::Int8), ZERO),
    ours("pg_database_size", 1, Is(Type::Int8), ZERO),
    ours("obj_description", -1, Is(Type::Text), NOTHING),
    ours("shobj_description", -1, Is(Type::Text), NOTHING),
    ours("col_description", -1, Is(Type::Text), NOTHING),
    ours("pg_get_ruledef", -1, Is(Type::Text), NOTHING),
    ours("pg_get_triggerdef", -1, Is(Type::Text), NOTHING),
    ours("pg_get_functiondef", -1, Is(Type::Text), NOTHING),
    ours("pg_get_partkeydef", -1, Is(Type::Text), NOTHING),
    ours("pg_partition_ancestors", 1, Is(Type::Text), NOTHING),
    ours("pg_tablespace_location", 1, Is(Type::Text), NOTHING),
    ours("to_regtype", 1, Is(Type::Oid), |_, args| {
        Ok(type_number(&plain(&args[0])).map_or(Value::Null, Value::Int))
    }),
    ours("to_regclass", 1, Is(Type::Oid), |shared, args| {
        Ok(regclass(shared, &plain(&args[0])).map_or(Value::Null, Value::Int))
    }),
    ours("pg_get_userbyid", 1, Is(Type::Text), |shared, _| Ok(shared.user.as_str().into())),
    ours("pg_encoding_to_char", 1, Is(Type::Text), |_, _| Ok("UTF8".into())),
    ours("pg_size_pretty", 1, Is(Type::Text), |_, args| {
        Ok(format!("{} bytes", plain(&args[0])).as_str().into())
    }),
    // Expressions are kept as they were written.
    ours("pg_get_expr", -1, First, |_, args| Ok(args[0].clone())),
    ours("pg_get_constraintdef", -1, Is(Type::Text), |shared, args| {
        let found = args[0].as_int().and_then(|n| describe::constraint_definition(&shared.catalogue, n));
        Ok(found.map_or(Value::Null, Value::from))
    }),
    ours("pg_get_indexdef", -1, Is(Type::Text), |shared, args| {
        let column = args.get(1).and_then(Value::as_int).and_then(|c| usize::try_from(c).ok());
        let index = |n| describe::index_definition(&shared.catalogue, n, column.unwrap_or(0));
        Ok(args[0].as_int().and_then(index).map_or(Value::Null, Value::from))
    }),
    ours("pg_get_viewdef", -1, Is(Type::Text), |shared, args| {
        let wanted = args[0].as_int().or_else(|| regclass(shared, &plain(&args[0])));
        let view =
            |number| shared.catalogue.views().into_iter().find(|(_, v)| describe::number(v.id) == number);
        let found = wanted.and_then(view).map(|(_, view)| format!(" {};", view.shown));
        Ok(found.map_or(Value::Null, Value::from))
    }),
    ours("format_type", 2, Is(Type::Text), |_, args| {
        let modifier = args[1].as_int().unwrap_or(-1);
        let text = |oid| match system::type_numbered(oid) {
            Some(kind) => describe::type_text(kind, modifier),
            None => "???".to_owned(),
        };
        Ok(args[0].as_int().map_or(Value::Null, |oid| text(oid).into()))
    }),
    ours("weak_name", 2, Is(Type::Text), |shared, args| {
        let Some(number) = args[0].as_int() else { return Ok(Value::Null) };
        let named = match plain(&args[1]).as_str() {
            "regclass" => describe::relation_name(&shared.catalogue, number),
            "regtype" => system::type_numbered(number).map(|kind| kind.name().to_owned()),
            "regrole" => Some(shared.user.clone()),
            _ => Some(if number == 11 { "pg_catalog" } else { "public" }.to_owned()),
        };
        // What is not known shows its number, or `-` for none, as in PostgreSQL.
        let unknown = || if number == 0 { "-".to_owned() } else { number.to_string() };
        Ok(named.unwrap_or_else(unknown).into())
    }),
];

/// The number of a relation, or of a number that was written as text.
fn regclass(shared: &Shared, name: &str) -> Option<i64> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    let bare = name.rsplit('.').next().unwrap_or(name).trim_matches('"');
    describe::relation_number(&shared.catalogue, bare).or_else(|| system::table_number(bare))
}

fn type_number(name: &str) -> Option<i64> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    let bare = name.rsplit('.').next().unwrap_or(name).trim_matches('"').to_lowercase();
    let kind = match Type::from_code(&bare) {
        Type::Unknown => system::type_named(&bare)?,
        kind => kind,
    };
    Some(i64::from(kind.oid()))
}

/// A name cast to `regclass` or its like: the number of what it names.
pub(super) fn number_of(shared: &Shared, what: &str, name: &Value) -> Answer {
    let text = match name {
        Value::Null | Value::Int(_) => return Ok(name.clone()),
        name => plain(name),
    };
    let (found, code, kind) = match what {
        "weak_regclass" => (regclass(shared, &text), Code::UndefinedTable, "relation"),
        "weak_regtype" => (type_number(&text), Code::UndefinedObject, "type"),
        "weak_regrole" => (Some(10), Code::UndefinedObject, "role"),
        _ => {
            let known = [("pg_catalog", 11), ("public", 2200), ("information_schema", 13_000)];
            let found = known.into_iter().find(|(n, _)| *n == text).map(|(_, number)| number);
            (found, Code::UndefinedObject, "schema")
        }
    };
    found.map(Value::Int).ok_or_else(|| SqlError::new(code, format!("{kind} \"{text}\" does not exist")))
}
