//! Functions that PostgreSQL and MySQL have and SQLite lacks, and those that the rewriter puts in the place of operators.

use super::arrays;
use super::catalogue::Sequence;
use super::describe;
use super::engine::{Shared, fail, lite, lock, value};
use super::error::{Code, SqlError};
use super::introspect;
use super::pattern;
use super::time;
use super::types::{self, Type, number, plain, truth};
use anomalist_sqltext::Dialect;
use anomalist_weakdb::Value;
use rusqlite::Connection;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::Value as Lite;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

pub(super) type Answer = Result<Value, SqlError>;

/// A function: its name, its number of arguments (-1: any), and what it does.
pub(super) type Row = (&'static str, i32, fn(&mut Shared, &[Value]) -> Answer);

/// NULL if any argument is NULL, as most functions do.
fn strict(args: &[Value]) -> bool {
    args.contains(&Value::Null)
}

fn invalid(function: &str, value: &Value) -> SqlError {
    SqlError::new(Code::InvalidValue, format!("invalid argument of {function}: \"{}\"", plain(value)))
}

fn moment(function: &str, value: &Value) -> Result<i64, SqlError> {
    time::parse(&plain(value)).ok_or_else(|| invalid(function, value))
}

const FUNCTIONS: &[Row] = &[
    ("weak_cast", 2, |shared, args| {
        let code = plain(&args[1]);
        if code.starts_with("weak_reg") {
            return introspect::number_of(shared, &code, &args[0]);
        }
        let kind = Type::from_code(&code);
        let source = match (&args[0], kind) {
            // A text is cut to fit when it is cast, and refused only when it is stored.
            (v, Type::Varchar(Some(n)) | Type::Char(n)) if *v != Value::Null => {
                Value::from(plain(v).chars().take(n as usize).collect::<String>())
            }
            (Value::Text(t), kind) if kind.is_integer() && shared.dialect == Dialect::MySql => {
                Value::Int(leading(t) as i64)
            }
            (v, _) => v.clone(),
        };
        kind.coerce(source, shared.dialect)
    }),
    ("weak_only", 3, |_, args| match args[2].as_int() {
        Some(0 | 1) => Ok(args[0].clone()),
        _ => {
            let text = "more than one row returned by a subquery used as an expression";
            Err(SqlError::new(Code::Cardinality, text))
        }
    }),
    ("weak_decimal", 1, |_, args| {
        Ok(match &args[0] {
            Value::Real(r) => Value::Real(types::round(*r, 10)),
            other => other.clone(),
        })
    }),
    ("weak_divide", 2, |_, args| divide(&args[0], &args[1])),
    ("weak_quotient", 2, |_, args| {
        Ok(match (number(&args[0]), number(&args[1])) {
            (Some(a), Some(b)) if b != 0.0 => Value::Real(types::round(a / b, 10)),
            _ => Value::Null,
        })
    }),
    ("mod", 2, |shared, args| match (&args[0], &args[1]) {
        (Value::Null, _) | (_, Value::Null) => Ok(Value::Null),
        (_, b) if number(b) == Some(0.0) => by_zero(shared),
        (Value::Int(a), Value::Int(b)) => Ok(Value::Int(a.wrapping_rem(*b))),
        (a, b) => {
            Ok(number(a).zip(number(b)).map_or(Value::Null, |(a, b)| Value::Real(types::round(a % b, 10))))
        }
    }),
    ("weak_not", 1, |_, args| Ok(truth(&args[0]).map_or(Value::Null, |b| Value::Int(i64::from(!b))))),
    ("weak_trunc", -1, |_, args| {
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
    ("ceil", 1, |_, args| Ok(rounded(&args[0], f64::ceil))),
    ("floor", 1, |_, args| Ok(rounded(&args[0], f64::floor))),
    ("power", 2, |_, args| {
        Ok(number(&args[0]).zip(number(&args[1])).map_or(Value::Null, |(a, b)| a.powf(b).into()))
    }),
    ("sqrt", 1, |_, args| Ok(number(&args[0]).map_or(Value::Null, |a| a.sqrt().into()))),
    ("weak_random", -1, |shared, _| Ok(shared.random.f64().into())),
    ("greatest", -1, |_, args| Ok(extreme(args, true))),
    ("least", -1, |_, args| Ok(extreme(args, false))),
    ("weak_left", 2, |_, args| Ok(if strict(args) { Value::Null } else { part(&args[0], &args[1], true) })),
    ("weak_right", 2, |_, args| Ok(if strict(args) { Value::Null } else { part(&args[0], &args[1], false) })),
    ("lpad", -1, |_, args| Ok(if strict(args) { Value::Null } else { padded(args, true) })),
    ("rpad", -1, |_, args| Ok(if strict(args) { Value::Null } else { padded(args, false) })),
    ("repeat", 2, |_, args| {
        let times = args[1].as_int().unwrap_or(0).clamp(0, 1 << 20) as usize;
        Ok(if strict(args) { Value::Null } else { plain(&args[0]).repeat(times).into() })
    }),
    ("reverse", 1, |_, args| {
        Ok(if strict(args) { Value::Null } else { plain(&args[0]).chars().rev().collect::<String>().into() })
    }),
    ("initcap", 1, |_, args| Ok(if strict(args) { Value::Null } else { initcap(&plain(&args[0])).into() })),
    ("split_part", 3, |_, args| {
        let (text, by, at) = (plain(&args[0]), plain(&args[1]), args[2].as_int().unwrap_or(1));
        Ok(text.split(by.as_str()).nth((at - 1).max(0) as usize).unwrap_or("").into())
    }),
    ("locate", 2, |_, args| {
        let at = plain(&args[1]).find(&plain(&args[0]));
        Ok(if strict(args) { Value::Null } else { Value::Int(at.map_or(0, |i| i as i64 + 1)) })
    }),
    ("weak_matches", 3, |_, args| {
        if strict(args) {
            return Ok(Value::Null);
        }
        let insensitive = args[2].as_int() == Some(1);
        let found = pattern::matches(&plain(&args[0]), &plain(&args[1]), insensitive)
            .ok_or_else(|| SqlError::unsupported(format!("the regular expression {}", plain(&args[1]))))?;
        Ok(Value::Int(i64::from(found)))
    }),
    ("weak_any", 2, |_, args| {
        let wanted = plain(&args[0]);
        if strict(args) {
            return Ok(Value::Null);
        }
        let (items, _) = arrays::items(&plain(&args[1])).unwrap_or_default();
        let found = items.iter().flatten().any(|item| *item == wanted);
        Ok(if !found && items.contains(&None) { Value::Null } else { Value::Int(i64::from(found)) })
    }),
    ("now", -1, |shared, _| Ok(time::show(shared.now).into())),
    ("weak_today", -1, |shared, _| Ok(time::show_date(shared.now.div_euclid(86_400_000_000)).into())),
    ("weak_time", -1, |shared, _| Ok(time::time(&time::show(shared.now)).unwrap_or_default().into())),
    ("weak_day", 1, |_, args| Ok(time::date(&plain(&args[0])).map_or(Value::Null, Value::from))),
    ("unix_timestamp", -1, |shared, args| {
        let at = args.first().map_or(Ok(shared.now), |v| moment("unix_timestamp", v))?;
        Ok(Value::Int(at.div_euclid(1_000_000)))
    }),
    ("from_unixtime", 1, |_, args| {
        Ok(number(&args[0]).map_or(Value::Null, |s| time::show((s * 1e6) as i64).into()))
    }),
    ("weak_shift", 4, |_, args| {
        if strict(args) {
            return Ok(Value::Null);
        }
        let (at, unit) = (moment("interval", &args[0])?, plain(&args[2]));
        let sign = number(&args[3]).unwrap_or(1.0);
        let moved = if unit.is_empty() {
            time::shift_by(at, &plain(&args[1]), sign)
        } else {
            number(&args[1]).and_then(|n| time::shift(at, n * sign, &unit))
        };
        moved.map(|m| time::show(m).into()).ok_or_else(|| invalid("interval", &args[1]))
    }),
    ("weak_date_plus", 2, |_, args| {
        Ok(if strict(args) { Value::Null } else { days(&args[0], &args[1], 1)? })
    }),
    ("weak_date_minus", 2, |_, args| {
        if strict(args) {
            return Ok(Value::Null);
        }
        match (&args[1], time::parse_date(&plain(&args[1]))) {
            (Value::Text(_), Some(other)) => {
                let date = time::parse_date(&plain(&args[0])).ok_or_else(|| invalid("date", &args[0]))?;
                Ok(Value::Int(date - other))
            }
            _ => days(&args[0], &args[1], -1),
        }
    }),
    ("datediff", 2, |_, args| {
        if strict(args) {
            return Ok(Value::Null);
        }
        let day = |v| moment("datediff", v).map(|m| m.div_euclid(86_400_000_000));
        Ok(Value::Int(day(&args[0])? - day(&args[1])?))
    }),
    ("convert_tz", 3, |_, args| {
        if strict(args) {
            return Ok(Value::Null);
        }
        let zones = time::offset(&plain(&args[1])).zip(time::offset(&plain(&args[2])));
        let moment = time::parse(&plain(&args[0])).zip(zones);
        // NULL for zones by name, as on a server without their tables.
        Ok(moment.map_or(Value::Null, |(at, (from, to))| time::show(at - from + to).into()))
    }),
    ("date_format", 2, |_, args| {
        if strict(args) {
            return Ok(Value::Null);
        }
        Ok(time::format(moment("date_format", &args[0])?, &plain(&args[1])).into())
    }),
    ("weak_field", 2, |_, args| field(&plain(&args[0]), &args[1])),
    ("date_part", 2, |_, args| field(&plain(&args[0]), &args[1])),
    ("date_trunc", 2, |_, args| {
        if strict(args) {
            return Ok(Value::Null);
        }
        let cut = time::truncate(moment("date_trunc", &args[1])?, &plain(&args[0]).to_lowercase());
        cut.map(|m| time::show(m).into()).ok_or_else(|| invalid("date_trunc", &args[0]))
    }),
    ("json_unquote", 1, |_, args| {
        let text = plain(&args[0]);
        Ok(match (&args[0], serde_json::from_str(&text)) {
            (Value::Null, _) => Value::Null,
            (_, Ok(serde_json::Value::String(inner))) => inner.into(),
            _ => text.into(),
        })
    }),
    ("year", 1, |_, args| field("year", &args[0])),
    ("month", 1, |_, args| field("month", &args[0])),
    ("day", 1, |_, args| field("day", &args[0])),
    ("hour", 1, |_, args| field("hour", &args[0])),
    ("minute", 1, |_, args| field("minute", &args[0])),
    ("second", 1, |_, args| field("second", &args[0])),
    ("gen_random_uuid", 0, |shared, _| Ok(uuid(&mut shared.random).into())),
    ("uuid", 0, |shared, _| Ok(uuid(&mut shared.random).into())),
    ("nextval", 1, |shared, args| {
        let Sequence { counter, increment, .. } = sequence(shared, &args[0])?;
        shared.last_id = counter.fetch_add(increment, Ordering::SeqCst).wrapping_add(increment);
        Ok(Value::Int(shared.last_id))
    }),
    ("setval", -1, |shared, args| {
        let wanted = args.get(1).and_then(Value::as_int).unwrap_or(1);
        let called = args.get(2).and_then(truth).unwrap_or(true);
        let Sequence { counter, increment, .. } = sequence(shared, &args[0])?;
        counter.store(if called { wanted } else { wanted.wrapping_sub(increment) }, Ordering::SeqCst);
        Ok(Value::Int(wanted))
    }),
    ("currval", 1, |shared, _| Ok(Value::Int(shared.last_id))),
    ("lastval", 0, |shared, _| Ok(Value::Int(shared.last_id))),
    ("last_insert_id", -1, |shared, _| Ok(Value::Int(shared.last_id))),
    (
        "pg_get_serial_sequence",
        2,
        |_, args| Ok(format!("{}_{}_seq", plain(&args[0]), plain(&args[1])).into()),
    ),
    ("row_count", 0, |shared, _| Ok(Value::Int(shared.last_count))),
    ("found_rows", 0, |shared, _| Ok(Value::Int(shared.last_count))),
    ("connection_id", 0, |shared, _| Ok(Value::Int(i64::from(shared.connection)))),
    ("pg_backend_pid", 0, |shared, _| Ok(Value::Int(i64::from(shared.connection)))),
    ("version", 0, |shared, _| Ok(super::settings::version(shared.dialect).into())),
    ("current_schema", -1, |_, _| Ok("public".into())),
    ("current_database", 0, |shared, _| Ok(shared.database.as_str().into())),
    ("database", 0, |shared, _| Ok(shared.database.as_str().into())),
    ("current_user", 0, |shared, _| Ok(shared.user.as_str().into())),
    ("current_setting", -1, |shared, args| {
        Ok(super::settings::show(shared, &plain(&args[0])).map_or(Value::Null, Value::from))
    }),
    ("set_config", 3, |shared, args| {
        shared.variables.insert(plain(&args[0]).to_lowercase(), plain(&args[1]));
        Ok(args[1].clone())
    }),
    ("weak_variable", 1, |shared, args| Ok(super::settings::variable(shared, &plain(&args[0])))),
    ("pg_advisory_unlock", -1, |_, _| Ok(Value::Int(0))),
    ("pg_advisory_unlock_all", 0, |_, _| Ok(Value::Null)),
    ("pg_sleep", 1, |_, args| {
        let seconds = number(&args[0]).unwrap_or(0.0).clamp(0.0, 60.0);
        std::thread::sleep(std::time::Duration::from_secs_f64(seconds));
        Ok(Value::Null)
    }),
    ("sleep", 1, |_, args| {
        let seconds = number(&args[0]).unwrap_or(0.0).clamp(0.0, 60.0);
        std::thread::sleep(std::time::Duration::from_secs_f64(seconds));
        Ok(Value::Int(0))
    }),
];

/// Makes all of them known to SQLite.
pub fn register(db: &Connection, shared: &Arc<Mutex<Shared>>) -> Result<(), SqlError> {
    for &(name, count, function) in FUNCTIONS.iter().chain(introspect::FUNCTIONS) {
        let shared = shared.clone();
        let constant = matches!(
            name,
            "weak_cast" | "weak_decimal" | "weak_divide" | "weak_quotient" | "now" | "weak_today"
        );
        let flags = if constant {
            FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC
        } else {
            FunctionFlags::SQLITE_UTF8
        };
        db.create_scalar_function(name, count, flags, move |context| -> rusqlite::Result<Lite> {
            let args = arguments(context);
            let mut shared = lock(&shared);
            function(&mut shared, &args).map(lite).map_err(|error| fail(&mut shared, error))
        })?;
    }
    Ok(())
}

fn arguments(context: &Context<'_>) -> Vec<Value> {
    (0..context.len()).map(|i| value(context.get_raw(i))).collect()
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

fn part(text: &Value, count: &Value, first: bool) -> Value {
    let chars: Vec<char> = plain(text).chars().collect();
    let count = count.as_int().unwrap_or(0);
    let length = chars.len() as i64;
    let kept = if count < 0 { (length + count).max(0) } else { count.min(length) } as usize;
    let range = if first { &chars[..kept] } else { &chars[chars.len() - kept..] };
    range.iter().collect::<String>().into()
}

fn padded(args: &[Value], left: bool) -> Value {
    let chars: Vec<char> = plain(&args[0]).chars().collect();
    let length = args.get(1).and_then(Value::as_int).unwrap_or(0).clamp(0, 1 << 20) as usize;
    let fill = args.get(2).map_or_else(|| " ".to_owned(), plain);
    if chars.len() >= length || fill.is_empty() {
        return chars[..length.min(chars.len())].iter().collect::<String>().into();
    }
    let missing: String = fill.chars().cycle().take(length - chars.len()).collect();
    let text: String = chars.into_iter().collect();
    if left { missing + &text } else { text + &missing }.into()
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

/// The number that a text begins with, as MySQL reads it.
fn leading(text: &str) -> f64 {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '-' | '+' | '.')).unwrap_or(text.len());
    text[..end].parse().unwrap_or(0.0)
}

fn days(date: &Value, count: &Value, sign: i64) -> Answer {
    let day = time::parse_date(&plain(date)).ok_or_else(|| invalid("date", date))?;
    Ok(time::show_date(day + sign * count.as_int().unwrap_or(0)).into())
}

fn field(name: &str, value: &Value) -> Answer {
    if *value == Value::Null {
        return Ok(Value::Null);
    }
    let found = time::field(moment(name, value)?, &name.to_lowercase());
    let found = found.ok_or_else(|| SqlError::unsupported(format!("the field {name} of a time")))?;
    Ok(if found.fract() == 0.0 { Value::Int(found as i64) } else { Value::Real(found) })
}

fn uuid(random: &mut fastrand::Rng) -> String {
    let bits = random.u128(..);
    let bits = (bits & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
    let digits = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..])
}

fn sequence(shared: &Shared, name: &Value) -> Result<Sequence, SqlError> {
    let name = plain(name);
    let bare = name.rsplit('.').next().unwrap_or(&name).trim_matches('"');
    describe::sequence(&shared.catalogue, bare)
        .ok_or_else(|| SqlError::new(Code::UndefinedTable, format!("relation \"{name}\" does not exist")))
}
