//! Functions with which clients look at the database itself, mostly psql and object mappers.

use super::arrays;
use super::describe::{self, quoted};
use super::engine::Shared;
use super::error::{Code, SqlError};
use super::functions::{Answer, Row};
use super::system;
use super::types::{Type, plain};
use anomalist_weakdb::Value;

const YES: fn(&mut Shared, &[Value]) -> Answer = |_, _| Ok(Value::Int(1));
const NOTHING: fn(&mut Shared, &[Value]) -> Answer = |_, _| Ok(Value::Null);
const ZERO: fn(&mut Shared, &[Value]) -> Answer = |_, _| Ok(Value::Int(0));

pub(super) const FUNCTIONS: &[Row] = &[
    ("pg_table_is_visible", 1, YES),
    ("pg_type_is_visible", 1, YES),
    ("pg_function_is_visible", 1, YES),
    ("pg_collation_is_visible", 1, YES),
    ("pg_relation_is_publishable", 1, YES),
    ("has_table_privilege", -1, YES),
    ("has_schema_privilege", -1, YES),
    ("has_database_privilege", -1, YES),
    ("has_column_privilege", -1, YES),
    ("has_sequence_privilege", -1, YES),
    ("pg_is_in_recovery", 0, ZERO),
    ("pg_is_other_temp_schema", 1, ZERO),
    ("pg_my_temp_schema", 0, ZERO),
    ("pg_table_size", 1, ZERO),
    ("pg_relation_size", -1, ZERO),
    ("pg_indexes_size", 1, ZERO),
    ("pg_total_relation_size", 1, ZERO),
    ("pg_database_size", 1, ZERO),
    ("obj_description", -1, NOTHING),
    ("shobj_description", -1, NOTHING),
    ("col_description", -1, NOTHING),
    ("pg_get_ruledef", -1, NOTHING),
    ("pg_get_triggerdef", -1, NOTHING),
    ("pg_get_functiondef", -1, NOTHING),
    ("pg_get_partkeydef", -1, NOTHING),
    ("pg_partition_ancestors", 1, NOTHING),
    ("pg_tablespace_location", 1, NOTHING),
    ("to_regtype", 1, |_, args| Ok(type_number(&plain(&args[0])).map_or(Value::Null, Value::Int))),
    ("to_regclass", 1, |shared, args| Ok(regclass(shared, &plain(&args[0])).map_or(Value::Null, Value::Int))),
    ("pg_get_userbyid", 1, |shared, _| Ok(shared.user.as_str().into())),
    ("pg_encoding_to_char", 1, |_, _| Ok("UTF8".into())),
    ("pg_size_pretty", 1, |_, args| Ok(format!("{} bytes", plain(&args[0])).as_str().into())),
    ("quote_ident", 1, |_, args| Ok(quoted(&plain(&args[0])).into())),
    ("quote_literal", 1, |_, args| {
        Ok(anomalist_sqltext::Dialect::PostgreSql.literal(&plain(&args[0])).into())
    }),
    // Expressions are kept as they were written.
    ("pg_get_expr", -1, |_, args| Ok(args[0].clone())),
    ("pg_get_constraintdef", -1, |shared, args| {
        let found = args[0].as_int().and_then(|n| describe::constraint_definition(&shared.catalogue, n));
        Ok(found.map_or(Value::Null, Value::from))
    }),
    ("pg_get_indexdef", -1, |shared, args| {
        let column = args.get(1).and_then(Value::as_int).and_then(|c| usize::try_from(c).ok());
        let index = |n| describe::index_definition(&shared.catalogue, n, column.unwrap_or(0));
        Ok(args[0].as_int().and_then(index).map_or(Value::Null, Value::from))
    }),
    ("pg_get_viewdef", -1, |shared, args| {
        let wanted = args[0].as_int().or_else(|| regclass(shared, &plain(&args[0])));
        let view =
            |number| shared.catalogue.views().into_iter().find(|(_, v)| describe::number(v.id) == number);
        let found = wanted.and_then(view).map(|(_, view)| format!(" {};", view.shown));
        Ok(found.map_or(Value::Null, Value::from))
    }),
    ("format_type", 2, |_, args| {
        let modifier = args[1].as_int().unwrap_or(-1);
        let text = |oid| match system::type_numbered(oid) {
            Some(kind) => describe::type_text(kind, modifier),
            None => "???".to_owned(),
        };
        Ok(args[0].as_int().map_or(Value::Null, |oid| text(oid).into()))
    }),
    ("weak_name", 2, |shared, args| {
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
    ("array_to_string", -1, |_, args| {
        let Some(items) = arrays::elements(&plain(&args[0])) else { return Ok(args[0].clone()) };
        let missing = args.get(2).filter(|v| **v != Value::Null).map(plain);
        let shown: Vec<String> =
            items.into_iter().filter_map(|item| item.or_else(|| missing.clone())).collect();
        Ok(shown.join(&plain(&args[1])).into())
    }),
    ("array_remove", 2, |_, args| {
        let Some(mut items) = arrays::elements(&plain(&args[0])) else { return Ok(args[0].clone()) };
        let gone = (args[1] != Value::Null).then(|| plain(&args[1]));
        items.retain(|item| *item != gone);
        Ok(arrays::list(&items).into())
    }),
    ("array_length", 2, |_, args| {
        let length =
            arrays::elements(&plain(&args[0])).filter(|items| !items.is_empty()).map(|items| items.len());
        Ok(length.map_or(Value::Null, |n| Value::Int(n as i64)))
    }),
    ("cardinality", 1, |_, args| {
        Ok(arrays::items(&plain(&args[0])).map_or(Value::Null, |(items, _)| Value::Int(items.len() as i64)))
    }),
    ("weak_array", -1, |_, args| {
        let items: Vec<Option<String>> = args.iter().map(|v| (*v != Value::Null).then(|| plain(v))).collect();
        Ok(arrays::list(&items).into())
    }),
    // For functions that return a set (`sets.rs`): the places 0, 1, … of the longest list; the element there; its subscript.
    ("weak_places", -1, |_, args| {
        Ok(serde_json::json!((0..longest(args)).collect::<Vec<_>>()).to_string().into())
    }),
    ("weak_element", 2, |_, args| {
        let place = args[1].as_int().and_then(|place| usize::try_from(place).ok());
        Ok(place.and_then(|place| at_place(&args[0], place)).map_or(Value::Null, |(item, _)| item))
    }),
    ("weak_subscript", 2, |_, args| {
        let place = args[1].as_int().and_then(|place| usize::try_from(place).ok());
        Ok(place.and_then(|place| at_place(&args[0], place)).map_or(Value::Null, |(_, at)| Value::Int(at)))
    }),
    // Lists side by side, each row with its number, from 1, at the end.
    ("weak_rows", -1, |_, args| {
        let rows = (0..longest(args)).map(|place| {
            let cell = |list: &Value| at_place(list, place).map_or(Value::Null, |(item, _)| item);
            let cells = args.iter().map(cell).chain([Value::Int(place as i64 + 1)]);
            cells.map(json).collect::<serde_json::Value>()
        });
        Ok(rows.collect::<serde_json::Value>().to_string().into())
    }),
    ("weak_at", 2, |_, args| {
        let Some((_, first)) = arrays::items(&plain(&args[0])) else { return Ok(Value::Null) };
        let place = args[1].as_int().and_then(|at| usize::try_from(at - first).ok());
        Ok(place.and_then(|place| at_place(&args[0], place)).map_or(Value::Null, |(item, _)| item))
    }),
    // `#>` and `#>>`
    ("weak_json_path", 3, |_, args| {
        let found = json_at(&plain(&args[0]), &plain(&args[1]));
        Ok(match found {
            None => Value::Null,
            Some(serde_json::Value::Null) if args[2] == Value::Int(1) => Value::Null,
            Some(serde_json::Value::String(text)) if args[2] == Value::Int(1) => text.into(),
            Some(found) => found.to_string().into(),
        })
    }),
    ("weak_list", 1, |_, args| Ok(arrays::from_json(&plain(&args[0])).map_or(Value::Null, Value::from))),
];

/// The length of the longest of these lists.
fn longest(lists: &[Value]) -> usize {
    let length = |list: &Value| arrays::items(&plain(list)).map_or(0, |(items, _)| items.len());
    lists.iter().filter(|list| **list != Value::Null).map(length).max().unwrap_or(0)
}

fn json(value: Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Int(int) => int.into(),
        other => plain(&other).into(),
    }
}

/// What is in a document at the end of a path.
fn json_at(document: &str, path: &str) -> Option<serde_json::Value> {
    let mut found: serde_json::Value = serde_json::from_str(document).ok()?;
    for step in arrays::elements(path)? {
        let step = step?;
        found = match &mut found {
            serde_json::Value::Object(fields) => fields.remove(&step)?,
            serde_json::Value::Array(items) => {
                let at: i64 = step.parse().ok()?;
                let at = if at < 0 { at + items.len() as i64 } else { at };
                items.get_mut(usize::try_from(at).ok()?)?.take()
            }
            _ => return None,
        };
    }
    Some(found)
}

/// What is at a place of a list, from 0, and its subscript; `None` behind the end.
fn at_place(list: &Value, place: usize) -> Option<(Value, i64)> {
    let (items, first) = arrays::items(&plain(list)).filter(|_| *list != Value::Null)?;
    let item = match items.into_iter().nth(place)? {
        None => Value::Null,
        // Vectors are of numbers.
        Some(item) if first == 0 => item.parse().map_or_else(|_| Value::from(item), Value::Int),
        Some(item) => Value::from(item),
    };
    Some((item, first + place as i64))
}

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
