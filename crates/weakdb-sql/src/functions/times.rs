//! Dates and times.

use super::Returns::{By, Dialects, Is};
use super::{Answer, Function, Returns, constant, invalid, ours, strict};
use crate::decimal::Decimal;
use crate::engine::Shared;
use crate::error::{Code, SqlError};
use crate::interval::Interval;
use crate::time;
use crate::types::{Type, number, plain};
use anomalist_sqltext::Dialect;
use anomalist_weakdb::Value;
use jiff::tz::TimeZone;
use std::time::Duration;

/// Waits for so many seconds, at most a minute.
fn pause(shared: &Shared, seconds: &Value, done: Value) -> Result<Value, SqlError> {
    let seconds = number(seconds).unwrap_or(0.0).clamp(0.0, 60.0);
    shared.stop.sleep(Duration::from_secs_f64(seconds), shared.dialect)?;
    Ok(done)
}

pub(super) const FUNCTIONS: &[Function] = &[
    constant("now current_timestamp", -1, MOMENT, |shared, _| Ok(shown(shared.now))),
    constant("weak_today current_date curdate", -1, Is(Type::Date), |shared, _| {
        Ok(time::show_date(shared.now.div_euclid(time::DAY)).map_or(Value::Null, Value::from))
    }),
    ours("weak_time current_time curtime localtime", -1, Is(Type::Time), |shared, _| {
        Ok(time::show(shared.now).and_then(|now| time::time(&now)).map_or(Value::Null, Value::from))
    }),
    ours("weak_day date", 1, Is(Type::Date), |_, args| {
        Ok(time::date(&plain(&args[0])).map_or(Value::Null, Value::from))
    }),
    ours("unix_timestamp", -1, Is(Type::Int8), |shared, args| {
        let at = args.first().map_or(Ok(shared.now), |v| moment("unix_timestamp", v))?;
        Ok(Value::Int(at.div_euclid(1_000_000)))
    }),
    ours("from_unixtime", 1, Is(Type::Timestamp), |_, args| {
        Ok(number(&args[0]).map_or(Value::Null, |s| shown((s * 1e6).round() as i64)))
    }),
    ours("weak_shift", 4, Is(Type::Timestamp), |shared, args| {
        if strict(args) {
            return Ok(Value::Null);
        }
        let (at, unit) = (moment("interval", &args[0])?, plain(&args[2]));
        let interval = match (unit.as_str(), number(&args[1])) {
            ("", _) => Interval::parse(&plain(&args[1])),
            // MySQL has no parts of units but of seconds.
            (unit, Some(n)) if shared.dialect == Dialect::MySql && unit != "second" => {
                Interval::of(n.round(), unit)
            }
            (unit, Some(n)) => Interval::of(n, unit),
            (_, None) => None,
        };
        let moved = interval.and_then(|i| i.times(args[3].as_int().unwrap_or(1)).after(at));
        let text = match plain(&args[0]) {
            // In MySQL a day that is moved by days is a day.
            day if shared.dialect == Dialect::MySql && !day.contains(':') && is_days(&unit) => {
                moved.and_then(|m| time::show_date(m.div_euclid(time::DAY)))
            }
            _ => moved.and_then(time::show),
        };
        text.map(Value::from).ok_or_else(|| invalid("interval", &args[1]))
    }),
    ours("weak_date_plus", 2, Is(Type::Date), |_, args| {
        Ok(if strict(args) { Value::Null } else { days(&args[0], &args[1], 1)? })
    }),
    ours("weak_date_minus", 2, Is(Type::Unknown), |_, args| {
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
    ours("datediff", 2, Is(Type::Int4), |_, args| {
        if strict(args) {
            return Ok(Value::Null);
        }
        let day = |v| moment("datediff", v).map(|m| m.div_euclid(time::DAY));
        Ok(Value::Int(day(&args[0])? - day(&args[1])?))
    }),
    ours("convert_tz", 3, Is(Type::Timestamp), |_, args| {
        if strict(args) {
            return Ok(Value::Null);
        }
        let converted = || {
            let (from, to) = (mysql_zone(&args[1])?, mysql_zone(&args[2])?);
            time::show(time::local(time::global(time::parse(&plain(&args[0]))?, &from)?, &to)?)
        };
        Ok(converted().map_or(Value::Null, Value::from))
    }),
    ours("date_format", 2, Is(Type::Text), |_, args| {
        if strict(args) {
            return Ok(Value::Null);
        }
        let written = time::format(moment("date_format", &args[0])?, &plain(&args[1]));
        Ok(written.map_or(Value::Null, Value::from))
    }),
    // EXTRACT, which is exact in PostgreSQL and has no fractions in MySQL.
    ours(
        "weak_field",
        2,
        Returns::Dialects { postgres: Type::Numeric(None), mysql: Type::Int8 },
        |shared, args| match (part(&plain(&args[0]), &args[1])?, shared.dialect) {
            (None, _) => Ok(Value::Null),
            (Some((digits, scale)), Dialect::MySql) => Ok(Value::Int(digits / 10i64.pow(scale.into()))),
            (Some((digits, scale)), _) => Ok(Decimal::new(digits, scale).into()),
        },
    ),
    ours("date_part", 2, Is(Type::Float8), |_, args| {
        Ok(part(&plain(&args[0]), &args[1])?
            .map_or(Value::Null, |(digits, scale)| Value::Real(digits as f64 / 10f64.powi(scale.into()))))
    }),
    // AT TIME ZONE, of a moment and of what a clock shows.
    ours("weak_local", 2, Is(Type::Timestamp), |_, args| zoned(args, time::local)),
    ours("weak_global", 2, Is(Type::TimestampTz), |_, args| zoned(args, time::global)),
    ours("weak_between", 2, Is(Type::Text), |_, args| {
        if strict(args) {
            return Ok(Value::Null);
        }
        Ok(time::between(moment("interval", &args[0])?, moment("interval", &args[1])?).into())
    }),
    ours(
        "date_trunc",
        2,
        By(|names, args| match args.get(1).map(|e| names.expr(e)) {
            Some(Type::Timestamp) => Type::Timestamp,
            _ => Type::TimestampTz,
        }),
        |_, args| {
            if strict(args) {
                return Ok(Value::Null);
            }
            let cut = time::truncate(moment("date_trunc", &args[1])?, &plain(&args[0]).to_lowercase());
            cut.and_then(time::show).map(Value::from).ok_or_else(|| invalid("date_trunc", &args[0]))
        },
    ),
    ours("year", 1, Is(Type::Int4), |_, args| field("year", &args[0])),
    ours("month", 1, Is(Type::Int4), |_, args| field("month", &args[0])),
    ours("day", 1, Is(Type::Int4), |_, args| field("day", &args[0])),
    ours("hour", 1, Is(Type::Int4), |_, args| field("hour", &args[0])),
    ours("minute", 1, Is(Type::Int4), |_, args| field("minute", &args[0])),
    ours("second", 1, Is(Type::Int4), |_, args| field("second", &args[0])),
    ours("pg_sleep", 1, Is(Type::Text), |shared, args| pause(shared, &args[0], Value::Null)),
    ours("sleep", 1, Is(Type::Int4), |shared, args| pause(shared, &args[0], Value::Int(0))),
    ours("dayofweek", 1, Is(Type::Int4), |_, args| match field("dow", &args[0])? {
        Value::Int(day) => Ok(Value::Int(day + 1)),
        other => Ok(other),
    }),
];

const MOMENT: super::Returns = Dialects { postgres: Type::TimestampTz, mysql: Type::Timestamp };

fn moment(function: &str, value: &Value) -> Result<i64, SqlError> {
    let text = plain(value);
    time::parse(&text).or_else(|| time::parse_time(&text)).ok_or_else(|| invalid(function, value))
}

fn days(date: &Value, count: &Value, sign: i64) -> Answer {
    let day = time::parse_date(&plain(date)).ok_or_else(|| invalid("date", date))?;
    let moved = time::show_date(day.saturating_add(sign * count.as_int().unwrap_or(0)));
    moved.map(Value::from).ok_or_else(|| invalid("date", count))
}

/// Whether a unit has no parts of days.
fn is_days(unit: &str) -> bool {
    matches!(unit, "day" | "week" | "month" | "quarter" | "year")
}

fn shown(moment: i64) -> Value {
    time::show(moment).map_or(Value::Null, Value::from)
}

/// A zone as `convert_tz` takes it: an offset of at most 14 hours, or UTC. NULL for zones by name, as on a
/// server without their tables.
fn mysql_zone(name: &Value) -> Option<TimeZone> {
    let name = plain(name);
    if name.eq_ignore_ascii_case("system") || name.eq_ignore_ascii_case("utc") {
        return Some(TimeZone::UTC);
    }
    let clock = name.strip_prefix(['+', '-'])?;
    let within = time::parse_time(clock)? <= 14 * 3_600_000_000;
    time::zone(&name).filter(|_| within && clock.contains(':'))
}

fn zoned(args: &[Value], convert: fn(i64, &TimeZone) -> Option<i64>) -> Answer {
    if strict(args) {
        return Ok(Value::Null);
    }
    let name = plain(&args[1]);
    // Offsets without a name count west of Greenwich here (POSIX), not east.
    let named = match name
        .strip_prefix('-')
        .map(|rest| ('+', rest))
        .or(name.strip_prefix('+').map(|rest| ('-', rest)))
    {
        Some((sign, rest)) => format!("{sign}{rest}"),
        None => name.clone(),
    };
    let zone = time::zone(&named).ok_or_else(|| {
        SqlError::new(Code::InvalidParameter, format!("time zone \"{name}\" not recognized"))
    })?;
    let converted = convert(moment("AT TIME ZONE", &args[0])?, &zone);
    converted.and_then(time::show).map(Value::from).ok_or_else(|| invalid("AT TIME ZONE", &args[0]))
}

/// A field of a moment; `None` if it is NULL.
fn part(name: &str, value: &Value) -> Result<Option<(i64, u8)>, SqlError> {
    if *value == Value::Null {
        return Ok(None);
    }
    let found = time::field(moment(name, value)?, &name.to_lowercase());
    found.map(Some).ok_or_else(|| SqlError::unsupported(format!("the field {name} of a time")))
}

/// A field without its fraction.
fn field(name: &str, value: &Value) -> Answer {
    Ok(part(name, value)?.map_or(Value::Null, |(digits, scale)| Value::Int(digits / 10i64.pow(scale.into()))))
}
