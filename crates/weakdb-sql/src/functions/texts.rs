//! Texts.

use super::Returns::Is;
use super::{Answer, Function, ours, strict};
use crate::describe::quoted;
use crate::engine::Shared;
use crate::error::{Code, SqlError};
use crate::types::{Type, plain};
use anomalist_sqltext::Dialect;
use anomalist_weakdb::Value;

pub(super) const FUNCTIONS: &[Function] =
    &[
        ours("weak_left left", 2, Is(Type::Text), |_, args| {
            Ok(if strict(args) { Value::Null } else { part(&args[0], &args[1], true) })
        }),
        ours("weak_right right", 2, Is(Type::Text), |_, args| {
            Ok(if strict(args) { Value::Null } else { part(&args[0], &args[1], false) })
        }),
        ours("lpad", -1, Is(Type::Text), |shared, args| {
            if strict(args) { Ok(Value::Null) } else { padded(shared, args, true) }
        }),
        ours("rpad", -1, Is(Type::Text), |shared, args| {
            if strict(args) { Ok(Value::Null) } else { padded(shared, args, false) }
        }),
        ours("repeat", 2, Is(Type::Text), |shared, args| {
            if strict(args) {
                return Ok(Value::Null);
            }
            let (text, times) = (plain(&args[0]), count(&args[1]));
            let length = allowed(shared, text.len().saturating_mul(times))?;
            Ok(if length == 0 { "".into() } else { text.repeat(times).into() })
        }),
        ours("reverse", 1, Is(Type::Text), |_, args| {
            Ok(if strict(args) {
                Value::Null
            } else {
                plain(&args[0]).chars().rev().collect::<String>().into()
            })
        }),
        ours("initcap", 1, Is(Type::Text), |_, args| {
            Ok(if strict(args) { Value::Null } else { initcap(&plain(&args[0])).into() })
        }),
        ours("split_part", 3, Is(Type::Text), |_, args| {
            let (text, by, at) = (plain(&args[0]), plain(&args[1]), args[2].as_int().unwrap_or(1));
            Ok(text.split(by.as_str()).nth((at - 1).max(0) as usize).unwrap_or("").into())
        }),
        ours("locate", 2, Is(Type::Int8), |_, args| {
            let at = plain(&args[1]).find(&plain(&args[0]));
            Ok(if strict(args) { Value::Null } else { Value::Int(at.map_or(0, |i| i as i64 + 1)) })
        }),
        ours("weak_matches", 3, Is(Type::Bool), |shared, args| {
            if strict(args) {
                return Ok(Value::Null);
            }
            let insensitive = args[2].as_int() == Some(1);
            let found = shared.patterns.matches(&plain(&args[0]), &plain(&args[1]), insensitive).ok_or_else(
                || SqlError::unsupported(format!("the regular expression {}", plain(&args[1]))),
            )?;
            Ok(Value::Int(i64::from(found)))
        }),
        // SIMILAR TO: text, pattern, and the character that escapes, if any.
        ours("weak_similar", 3, Is(Type::Bool), |shared, args| {
            if strict(args) {
                return Ok(Value::Null);
            }
            let found = shared
                .patterns
                .similar(&plain(&args[0]), &plain(&args[1]), plain(&args[2]).chars().next())
                .ok_or_else(|| SqlError::unsupported(format!("the pattern {}", plain(&args[1]))))?;
            Ok(Value::Int(i64::from(found)))
        }),
        ours("gen_random_uuid uuid_generate_v4", 0, Is(Type::Uuid), |shared, _| {
            Ok(uuid(&mut shared.random).into())
        }),
        ours("uuid", 0, Is(Type::Text), |shared, _| Ok(uuid(&mut shared.random).into())),
        ours("quote_ident", 1, Is(Type::Text), |_, args| Ok(quoted(&plain(&args[0])).into())),
        ours("quote_literal", 1, Is(Type::Text), |_, args| {
            Ok(Dialect::PostgreSql.literal(&plain(&args[0])).into())
        }),
        ours("ascii", 1, Is(Type::Int4), |_, args| {
            let first = |text: String| Value::Int(text.chars().next().map_or(0, |c| i64::from(u32::from(c))));
            Ok(if strict(args) { Value::Null } else { first(plain(&args[0])) })
        }),
    ];

fn part(text: &Value, count: &Value, first: bool) -> Value {
    let chars: Vec<char> = plain(text).chars().collect();
    let count = count.as_int().unwrap_or(0);
    let length = chars.len() as i64;
    let kept = if count < 0 { (length + count).max(0) } else { count.min(length) } as usize;
    let range = if first { &chars[..kept] } else { &chars[chars.len() - kept..] };
    range.iter().collect::<String>().into()
}

/// A number of characters or repetitions; a negative one is none.
fn count(value: &Value) -> usize {
    usize::try_from(value.as_int().unwrap_or(0)).unwrap_or(0)
}

/// A length that a value may have, before it is made.
fn allowed(shared: &Shared, length: usize) -> Result<usize, SqlError> {
    match length <= shared.limits.result {
        true => Ok(length),
        false => Err(SqlError::new(Code::TooMuch, "requested length too large")),
    }
}

fn padded(shared: &Shared, args: &[Value], left: bool) -> Answer {
    let chars: Vec<char> = plain(&args[0]).chars().collect();
    let length = allowed(shared, args.get(1).map_or(0, count))?;
    let fill = args.get(2).map_or_else(|| " ".to_owned(), plain);
    if chars.len() >= length || fill.is_empty() {
        return Ok(chars[..length.min(chars.len())].iter().collect::<String>().into());
    }
    let missing: String = fill.chars().cycle().take(length - chars.len()).collect();
    let text: String = chars.into_iter().collect();
    Ok(if left { missing + &text } else { text + &missing }.into())
}

fn initcap(text: &str) -> String {
    let mut start = true;
    text.chars()
        .map(|c| {
            let shown = if start { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
            start = !c.is_alphanumeric();
            shown
        })
        .collect()
}

fn uuid(random: &mut fastrand::Rng) -> String {
    let bits = random.u128(..);
    let bits = (bits & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
    let digits = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..])
}
