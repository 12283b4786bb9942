//! Dates and times.

use super::Returns::{By, Dialects, Is};
use super::{Answer, Function, constant, invalid, ours, strict};
use crate::error::SqlError;
use crate::time;
use crate::types::{Type, number, plain};
use anomalist_weakdb::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    constant("now current_timestamp", -1, MOMENT, |shared, _| Ok(time::show(shared.now).into())),
    constant("weak_today current_date curdate", -1, Is(Type::Date), |shared, _| {
        Ok(time::show_date(shared.now.div_euclid(86_400_000_000)).into())
    }),
    ours("weak_time current_time curtime localtime", -1, Is(Type::Time), |shared, _| {
        Ok(time::time(&time::show(shared.now)).unwrap_or_default().into())
    }),
    ours("weak_day date", 1, Is(Type::Date), |_, args| {
        Ok(time::date(&plain(&args[0])).map_or(Value::Null, Value::from))
    }),
    ours("unix_timestamp", -1, Is(Type::Int8), |shared, args| {
        let at = args.first().map_or(Ok(shared.now), |v| moment("unix_timestamp", v))?;
        Ok(Value::Int(at.div_euclid(1_000_000)))
    }),
    ours("from_unixtime", 1, Is(Type::Timestamp), |_, args| {
        Ok(number(&args[0]).map_or(Value::Null, |s| time::show((s * 1e6) as i64).into()))
    }),
    ours("weak_shift", 4, Is(Type::Timestamp), |_, args| {
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
        let day = |v| moment("datediff", v).map(|m| m.div_euclid(86_400_000_000));
        Ok(Value::Int(day(&args[0])? - day(&args[1])?))
    }),
    ours("convert_tz", 3, Is(Type::Timestamp), |_, args| {
        if strict(args) {
            return Ok(Value::Null);
        }
        let zones = time::offset(&plain(&args[1])).zip(time::offset(&plain(&args[2])));
        let moment = time::parse(&plain(&args[0])).zip(zones);
        // NULL for zones by name, as on a server without their tables.
        Ok(moment.map_or(Value::Null, |(at, (from, to))| time::show(at - from + to).into()))
    }),
    ours("date_format", 2, Is(Type::Text), |_, args| {
        if strict(args) {
            return Ok(Value::Null);
        }
        Ok(time::format(moment("date_format", &args[0])?, &plain(&args[1])).into())
    }),
    ours("weak_field", 2, Is(Type::Numeric(None)), |_, args| field(&plain(&args[0]), &args[1])),
    ours("date_part", 2, Is(Type::Float8), |_, args| field(&plain(&args[0]), &args[1])),
    ours(
        "date_trunc",
        2,
        By(|names, args| args.get(1).map_or(Type::Timestamp, |e| names.expr(e))),
        |_, args| {
            if strict(args) {
                return Ok(Value::Null);
            }
            let cut = time::truncate(moment("date_trunc", &args[1])?, &plain(&args[0]).to_lowercase());
            cut.map(|m| time::show(m).into()).ok_or_else(|| invalid("date_trunc", &args[0]))
        },
    ),
    ours("year", 1, Is(Type::Int4), |_, args| field("year", &args[0])),
    ours("month", 1, Is(Type::Int4), |_, args| field("month", &args[0])),
    ours("day", 1, Is(Type::Int4), |_, args| field("day", &args[0])),
    ours("hour", 1, Is(Type::Int4), |_, args| field("hour", &args[0])),
    ours("minute", 1, Is(Type::Int4), |_, args| field("minute", &args[0])),
    ours("second", 1, Is(Type::Int4), |_, args| field("second", &args[0])),
    ours("pg_sleep", 1, Is(Type::Text), |_, args| {
        let seconds = number(&args[0]).unwrap_or(0.0).clamp(0.0, 60.0);
        std::thread::sleep(std::time::Duration::from_secs_f64(seconds));
        Ok(Value::Null)
    }),
    ours("sleep", 1, Is(Type::Int4), |_, args| {
        let seconds = number(&args[0]).unwrap_or(0.0).clamp(0.0, 60.0);
        std::thread::sleep(std::time::Duration::from_secs_f64(seconds));
        Ok(Value::Int(0))
    }),
    ours("dayofweek", 1, Is(Type::Int4), |_, args| match field("dow", &args[0])? {
        Value::Int(day) => Ok(Value::Int(day + 1)),
        other => Ok(other),
    }),
];

const MOMENT: super::Returns = Dialects { postgres: Type::TimestampTz, mysql: Type::Timestamp };

fn moment(function: &str, value: &Value) -> Result<i64, SqlError> {
    time::parse(&plain(value)).ok_or_else(|| invalid(function, value))
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
