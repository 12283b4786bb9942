//! Arrays of PostgreSQL, kept as texts, and JSON.

use super::Returns::{By, First, Is};
use super::{Function, element, list_of_first, ours, strict};
use crate::arrays;
use crate::names::Names;
use crate::types::{Type, plain};
use anomalist_sqltext::ast::{Expr, Value as Literal};
use anomalist_weakdb::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    ours("weak_any", 2, Is(Type::Bool), |_, args| {
        let wanted = plain(&args[0]);
        if strict(args) {
            return Ok(Value::Null);
        }
        let (items, _) = arrays::items(&plain(&args[1])).unwrap_or_default();
        let found = items.iter().flatten().any(|item| *item == wanted);
        Ok(if !found && items.contains(&None) { Value::Null } else { Value::Int(i64::from(found)) })
    }),
    ours("json_unquote", 1, Is(Type::Text), |_, args| {
        let text = plain(&args[0]);
        Ok(match (&args[0], serde_json::from_str(&text)) {
            (Value::Null, _) => Value::Null,
            (_, Ok(serde_json::Value::String(inner))) => inner.into(),
            _ => text.into(),
        })
    }),
    ours("array_to_string", -1, Is(Type::Text), |_, args| {
        let Some(items) = arrays::elements(&plain(&args[0])) else { return Ok(args[0].clone()) };
        let missing = args.get(2).filter(|v| **v != Value::Null).map(plain);
        let shown: Vec<String> =
            items.into_iter().filter_map(|item| item.or_else(|| missing.clone())).collect();
        Ok(shown.join(&plain(&args[1])).into())
    }),
    ours("array_remove", 2, First, |_, args| {
        let Some(mut items) = arrays::elements(&plain(&args[0])) else { return Ok(args[0].clone()) };
        let gone = (args[1] != Value::Null).then(|| plain(&args[1]));
        items.retain(|item| *item != gone);
        Ok(arrays::list(&items).into())
    }),
    ours("array_length", 2, Is(Type::Int4), |_, args| {
        let length =
            arrays::elements(&plain(&args[0])).filter(|items| !items.is_empty()).map(|items| items.len());
        Ok(length.map_or(Value::Null, |n| Value::Int(n as i64)))
    }),
    ours("cardinality", 1, Is(Type::Int4), |_, args| {
        Ok(arrays::items(&plain(&args[0])).map_or(Value::Null, |(items, _)| Value::Int(items.len() as i64)))
    }),
    ours("weak_array", -1, By(list_of_first), |_, args| {
        let items: Vec<Option<String>> = args.iter().map(|v| (*v != Value::Null).then(|| plain(v))).collect();
        Ok(arrays::list(&items).into())
    }),
    // For functions that return a set (`sets.rs`): the places 0, 1, … of the longest list; the element
    // there; its subscript.
    ours("weak_places", -1, Is(Type::Text), |_, args| {
        Ok(serde_json::json!((0..longest(args)).collect::<Vec<_>>()).to_string().into())
    }),
    ours("weak_element", 2, By(element), |_, args| {
        let place = args[1].as_int().and_then(|place| usize::try_from(place).ok());
        Ok(place.and_then(|place| at_place(&args[0], place)).map_or(Value::Null, |(item, _)| item))
    }),
    ours("weak_subscript", 2, Is(Type::Int4), |_, args| {
        let place = args[1].as_int().and_then(|place| usize::try_from(place).ok());
        Ok(place.and_then(|place| at_place(&args[0], place)).map_or(Value::Null, |(_, at)| Value::Int(at)))
    }),
    // Lists side by side, each row with its number, from 1, at the end.
    ours("weak_rows", -1, Is(Type::Text), |_, args| {
        let rows = (0..longest(args)).map(|place| {
            let cell = |list: &Value| at_place(list, place).map_or(Value::Null, |(item, _)| item);
            let cells = args.iter().map(cell).chain([Value::Int(place as i64 + 1)]);
            cells.map(json).collect::<serde_json::Value>()
        });
        Ok(rows.collect::<serde_json::Value>().to_string().into())
    }),
    ours("weak_at", 2, By(element), |_, args| {
        let Some((_, first)) = arrays::items(&plain(&args[0])) else { return Ok(Value::Null) };
        let place = args[1].as_int().and_then(|at| usize::try_from(at - first).ok());
        Ok(place.and_then(|place| at_place(&args[0], place)).map_or(Value::Null, |(item, _)| item))
    }),
    // `#>` and `#>>`
    ours("weak_json_path", 3, By(json_path), |_, args| {
        let found = json_at(&plain(&args[0]), &plain(&args[1]));
        Ok(match found {
            None => Value::Null,
            Some(serde_json::Value::Null) if args[2] == Value::Int(1) => Value::Null,
            Some(serde_json::Value::String(text)) if args[2] == Value::Int(1) => text.into(),
            Some(found) => found.to_string().into(),
        })
    }),
    ours("weak_list", 1, Is(Type::Text), |_, args| {
        Ok(arrays::from_json(&plain(&args[0])).map_or(Value::Null, Value::from))
    }),
];

/// The last argument says whether text is wanted.
fn json_path(_: &Names<'_>, args: &[&Expr]) -> Type {
    match args.get(2) {
        Some(Expr::Value(plain)) if plain.value == Literal::Number("0".into(), false) => Type::Json,
        _ => Type::Text,
    }
}

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
