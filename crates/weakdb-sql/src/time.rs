//! Dates and times as texts in ISO order, and their arithmetic.
//!
//! A moment is a number of microseconds since 1970. The calendar, time zones and names of days come from
//! the crate `jiff`: years 1 to 9999 of the proleptic Gregorian calendar, and the time zones that the
//! system has files for.

use jiff::civil::{Date, DateTime, Weekday};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

pub(super) const DAY: i64 = 86_400_000_000;

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// The moment by the calendar; `None` outside of it.
#[must_use]
pub fn at(micros: i64) -> Option<DateTime> {
    EPOCH.checked_add(SignedDuration::from_micros(micros)).ok()
}

/// Microseconds since 1970.
#[must_use]
pub fn micros(moment: DateTime) -> i64 {
    i64::try_from(moment.duration_since(EPOCH).as_micros()).unwrap_or(0)
}

/// Days since 1970.
fn days(date: Date) -> i64 {
    micros(date.into()) / DAY
}

/// Microseconds since 1970, now.
#[must_use]
pub fn now() -> i64 {
    Timestamp::now().as_microsecond()
}

/// `2026-11-16`
#[must_use]
pub fn show_date(days: i64) -> Option<String> {
    Some(at(days.checked_mul(DAY)?)?.date().to_string())
}

/// `08:28:00.5`; the end of a day is `24:00:00`.
fn show_time(micros: i64) -> Option<String> {
    if micros == DAY { Some("24:00:00".to_owned()) } else { Some(at(micros)?.time().to_string()) }
}

/// `2026-11-16 08:28:00.5`
#[must_use]
pub fn show(micros: i64) -> Option<String> {
    at(micros).map(|moment| format!("{} {}", moment.date(), moment.time()))
}

/// Days since 1970 of `2026-11-16`.
#[must_use]
pub fn parse_date(text: &str) -> Option<i64> {
    let text = text.trim();
    if text.len() == 8 && text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse::<Date>().ok().map(days);
    }
    let mut parts = text.split(['-', '/']);
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let date = Date::new(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?).ok()?;
    (parts.next().is_none() && date.year() > 0).then(|| days(date))
}

/// Microseconds since midnight of `08:28[:00[.5]]`, to the nearest.
#[must_use]
pub fn parse_time(text: &str) -> Option<i64> {
    let mut parts = text.trim().split(':');
    let whole = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<i64>().ok())?;
    let (hour, minute) = (whole(parts.next()?)?, whole(parts.next()?)?);
    let (second, micros) = match parts.next() {
        None => (0, 0),
        Some(text) => {
            let (second, fraction) = text.split_once('.').unwrap_or((text, ""));
            let digits: String = fraction.chars().chain("0000000".chars()).take(7).collect();
            (whole(second)?, (whole(&digits)? + 5) / 10)
        }
    };
    let fits = (0..=24).contains(&hour) && (0..60).contains(&minute) && (0..=60).contains(&second);
    let found = ((hour * 60 + minute) * 60 + second) * 1_000_000 + micros;
    (fits && found <= DAY && parts.next().is_none()).then_some(found)
}

/// A time zone: `Z`, an offset such as `+05:30`, east of Greenwich, or a name.
#[must_use]
pub fn zone(text: &str) -> Option<TimeZone> {
    let text = text.trim();
    if ["z", "utc", "gmt", "zulu"].iter().any(|utc| text.eq_ignore_ascii_case(utc)) {
        return Some(TimeZone::UTC);
    }
    let Some(sign) = text.chars().next().filter(|c| matches!(c, '+' | '-')) else {
        return TimeZone::get(text).ok();
    };
    let clock = &text[1..];
    let parts: Vec<&str> = match clock.split(':').collect::<Vec<_>>() {
        plain if plain.len() == 1 && clock.len() == 4 && clock.is_ascii() => vec![&clock[..2], &clock[2..]],
        parts => parts,
    };
    let number = |at: usize| parts.get(at).map_or(Some(0), |part| part.parse::<u8>().ok().map(i32::from));
    let (hours, minutes, seconds) = (number(0)?, number(1)?, number(2)?);
    let size = (hours * 60 + minutes) * 60 + seconds;
    let fits = parts.len() <= 3 && hours < 16 && minutes < 60 && seconds < 60;
    let offset = Offset::from_seconds(if sign == '-' { -size } else { size }).ok().filter(|_| fits);
    offset.map(TimeZone::fixed)
}

/// What a clock in this time zone shows at a moment.
#[must_use]
pub fn local(utc: i64, zone: &TimeZone) -> Option<i64> {
    Some(micros(zone.to_datetime(Timestamp::from_microsecond(utc).ok()?)))
}

/// The moment at which a clock in this time zone shows this.
#[must_use]
pub fn global(shown: i64, zone: &TimeZone) -> Option<i64> {
    Some(zone.to_timestamp(at(shown)?).ok()?.as_microsecond())
}

/// Microseconds since 1970 of a date with or without time; a time zone is taken into account.
#[must_use]
pub fn parse(text: &str) -> Option<i64> {
    match parse_zoned(text)? {
        (shown, Some(zone)) => global(shown, &zone),
        (shown, None) => Some(shown),
    }
}

fn parse_zoned(text: &str) -> Option<(i64, Option<TimeZone>)> {
    let text = text.trim();
    let Some((date, time)) = text.split_once(['T', ' ']) else {
        return Some((parse_date(text)?.checked_mul(DAY)?, None));
    };
    let time = time.trim();
    let end = time.find(|c: char| !matches!(c, '0'..='9' | ':' | '.')).unwrap_or(time.len());
    let (clock, named) = time.split_at(end);
    let zone = match named.trim() {
        "" => None,
        named => Some(zone(named)?),
    };
    Some((parse_date(date)?.checked_mul(DAY)? + parse_time(clock)?, zone))
}

/// The date in a text, normalised. A time after it is dropped.
#[must_use]
pub fn date(text: &str) -> Option<String> {
    show_date(parse_zoned(text)?.0.div_euclid(DAY))
}

/// The time in a text, normalised.
#[must_use]
pub fn time(text: &str) -> Option<String> {
    parse_time(text).or_else(|| parse(text).map(|m| m.rem_euclid(DAY))).and_then(show_time)
}

/// The moment in a text, normalised. A time zone counts only if the type has one.
#[must_use]
pub fn timestamp(text: &str, zoned: bool) -> Option<String> {
    match parse_zoned(text)? {
        (shown, Some(zone)) if zoned => show(global(shown, &zone)?),
        (shown, _) => show(shown),
    }
}

/// A field of a moment, as an integer and how many of its digits are after the point: `year`, `epoch`,
/// `dow` …
#[must_use]
pub fn field(moment: i64, name: &str) -> Option<(i64, u8)> {
    let (civil, of_day) = (at(moment)?, moment.rem_euclid(DAY));
    let date = civil.date();
    let year = i64::from(civil.year());
    let whole = match name {
        "second" => return Some((of_day % 60_000_000, 6)),
        "milliseconds" | "millisecond" => return Some((of_day % 60_000_000, 3)),
        "epoch" => return Some((moment, 6)),
        "year" => year,
        "decade" => year.div_euclid(10),
        "century" => (year + 99) / 100,
        "millennium" => (year + 999) / 1000,
        "quarter" => (i64::from(civil.month()) + 2) / 3,
        "month" => civil.month().into(),
        "week" => date.iso_week_date().week().into(),
        "isoyear" => date.iso_week_date().year().into(),
        "day" => civil.day().into(),
        "hour" => civil.hour().into(),
        "minute" => civil.minute().into(),
        "microseconds" => of_day % 60_000_000,
        // MySQL's.
        "microsecond" => of_day % 1_000_000,
        "dow" => date.weekday().to_sunday_zero_offset().into(),
        "isodow" => date.weekday().to_monday_one_offset().into(),
        "doy" => date.day_of_year().into(),
        "timezone" | "timezone_hour" | "timezone_minute" => 0,
        _ => return None,
    };
    Some((whole, 0))
}

/// A moment cut down to a unit.
#[must_use]
pub fn truncate(moment: i64, unit: &str) -> Option<i64> {
    let date = at(moment)?.date();
    let (year, size) = (date.year(), |size: i64| moment.div_euclid(size) * size);
    let first_of = |year: i16| Date::new(year, 1, 1).ok();
    let start = match unit.strip_suffix('s').unwrap_or(unit) {
        "microsecond" => return Some(moment),
        "millisecond" => return Some(size(1_000)),
        "second" => return Some(size(1_000_000)),
        "minute" => return Some(size(60_000_000)),
        "hour" => return Some(size(3_600_000_000)),
        "day" => date,
        "week" => date
            .checked_sub(SignedDuration::from_hours(24 * i64::from(date.weekday().since(Weekday::Monday))))
            .ok()?,
        "month" => date.first_of_month(),
        "quarter" => Date::new(year, (date.month() - 1) / 3 * 3 + 1, 1).ok()?,
        "year" => date.first_of_year(),
        "decade" => first_of(year / 10 * 10)?,
        "century" | "centurie" => first_of((year - 1) / 100 * 100 + 1)?,
        "millennium" => first_of((year - 1) / 1000 * 1000 + 1)?,
        _ => return None,
    };
    Some(days(start) * DAY)
}

/// The time between two moments, as PostgreSQL writes an interval.
#[must_use]
pub fn between(from: i64, to: i64) -> String {
    let passed = to - from;
    let (days, rest) = (passed / DAY, passed % DAY);
    let sign = if rest < 0 { "-" } else { "" };
    let clock = || show_time(rest.abs()).unwrap_or_default();
    match (days, rest) {
        (0, _) => format!("{sign}{}", clock()),
        (1, 0) => "1 day".to_owned(),
        (days, 0) => format!("{days} days"),
        (1, _) => format!("1 day {}", clock()),
        (days, _) => format!("{days} days {sign}{}", clock()),
    }
}

/// The week of a year that begins on Sunday, or on Monday and has most of its days in the year, as MySQL
/// counts from 0.
fn week(date: Date, monday: bool) -> i64 {
    let iso = date.iso_week_date();
    match (monday, iso.year().cmp(&date.year())) {
        (false, _) => {
            (i64::from(date.day_of_year()) + 6 - i64::from(date.weekday().to_sunday_zero_offset())) / 7
        }
        (true, std::cmp::Ordering::Less) => 0,
        (true, std::cmp::Ordering::Equal) => iso.week().into(),
        (true, std::cmp::Ordering::Greater) => 53,
    }
}

/// The same week of Sundays, and its year; days before the first Sunday belong to the last week of the year
/// before.
fn sunday_week(date: Date) -> (i16, i64) {
    let last = Date::new(date.year() - 1, 12, 31);
    match (week(date, false), last) {
        (0, Ok(last)) => (last.year(), week(last, false)),
        (number, _) => (date.year(), number),
    }
}

fn ordinal(day: i8) -> String {
    let ending = match (day % 10, day / 10) {
        (1, 0 | 2 | 3) => "st",
        (2, 0 | 2) => "nd",
        (3, 0 | 2) => "rd",
        _ => "th",
    };
    format!("{day}{ending}")
}

/// Specifiers of MySQL's `DATE_FORMAT`, and the same in `strftime`.
const SPECIFIERS: &[(char, &str)] = &[
    ('Y', "%Y"),
    ('y', "%y"),
    ('m', "%m"),
    ('c', "%-m"),
    ('d', "%d"),
    ('e', "%-d"),
    ('H', "%H"),
    ('k', "%-H"),
    ('h', "%I"),
    ('I', "%I"),
    ('l', "%-I"),
    ('i', "%M"),
    ('S', "%S"),
    ('s', "%S"),
    ('p', "%p"),
    ('T', "%H:%M:%S"),
    ('r', "%I:%M:%S %p"),
    ('M', "%B"),
    ('b', "%b"),
    ('W', "%A"),
    ('a', "%a"),
    ('w', "%w"),
    ('j', "%j"),
    ('v', "%V"),
    ('x', "%G"),
];

/// A moment as MySQL's `DATE_FORMAT` writes it.
#[must_use]
pub fn format(moment: i64, pattern: &str) -> Option<String> {
    let moment = at(moment)?;
    let date = moment.date();
    let mut text = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        let Some(specifier) = chars.next() else { break };
        text += &match specifier {
            'f' => format!("{:06}", moment.subsec_nanosecond() / 1_000),
            'D' => ordinal(moment.day()),
            'U' => format!("{:02}", week(date, false)),
            'u' => format!("{:02}", week(date, true)),
            'V' => format!("{:02}", sunday_week(date).1),
            'X' => format!("{:04}", sunday_week(date).0),
            other => match SPECIFIERS.iter().find(|(ours, _)| *ours == other) {
                Some((_, theirs)) => moment.strftime(theirs).to_string(),
                None => other.to_string(),
            },
        };
    }
    Some(text)
}

#[cfg(test)]
#[path = "time_tests.rs"]
mod tests;
