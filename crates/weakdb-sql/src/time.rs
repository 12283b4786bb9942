//! Dates and times as texts in ISO order, and their arithmetic.
//!
//! Days are counted by the proleptic Gregorian calendar (Howard Hinnant's formulas), microseconds from 1970.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY: i64 = 86_400_000_000;

/// Days since 1970-01-01.
#[must_use]
pub fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month and day.
#[must_use]
pub fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// Microseconds since 1970, now.
#[must_use]
pub fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| i64::try_from(d.as_micros()).unwrap_or(0))
}

/// `2026-11-16`
#[must_use]
pub fn show_date(days: i64) -> String {
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}")
}

fn show_time(micros: i64) -> String {
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    let text = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if fraction == 0 { text } else { format!("{text}.{}", format!("{fraction:06}").trim_end_matches('0')) }
}

/// `2026-11-16 08:28:00.5`
#[must_use]
pub fn show(micros: i64) -> String {
    format!("{} {}", show_date(micros.div_euclid(DAY)), show_time(micros.rem_euclid(DAY)))
}

/// Days since 1970 of `2026-11-16`.
#[must_use]
pub fn parse_date(text: &str) -> Option<i64> {
    let mut parts = text.trim().split(['-', '/']);
    let mut part = || parts.next()?.parse::<i64>().ok();
    let (year, month, day) = (part()?, part()?, part()?);
    let found = days(year, month, day);
    (parts.next().is_none() && civil(found) == (year, month, day)).then_some(found)
}

/// Microseconds since midnight of `08:28[:00[.5]]`.
#[must_use]
pub fn parse_time(text: &str) -> Option<i64> {
    let mut parts = text.trim().split(':');
    let hour: i64 = parts.next()?.parse().ok()?;
    let minute: i64 = parts.next()?.parse().ok()?;
    let (second, micros) = match parts.next() {
        None => (0, 0),
        Some(text) => {
            let (second, fraction) = text.split_once('.').unwrap_or((text, ""));
            let digits: String = fraction.chars().chain("000000".chars()).take(6).collect();
            (second.parse::<i64>().ok()?, digits.parse::<i64>().ok()?)
        }
    };
    let fits = (0..=24).contains(&hour) && (0..60).contains(&minute) && (0..=60).contains(&second);
    (fits && parts.next().is_none()).then_some(((hour * 60 + minute) * 60 + second) * 1_000_000 + micros)
}

/// Microseconds since 1970 of a date with or without time; an offset from UTC is taken off.
#[must_use]
pub fn parse(text: &str) -> Option<i64> {
    parse_zoned(text).map(|(micros, offset)| micros - offset.unwrap_or(0))
}

fn parse_zoned(text: &str) -> Option<(i64, Option<i64>)> {
    let text = text.trim();
    let Some((date, time)) = text.split_once(['T', ' ']) else {
        return parse_date(text).map(|d| (d * DAY, None));
    };
    let time = time.trim();
    let (clock, zone) = match time.find(['Z', 'z', '+', '-']) {
        Some(at) => (&time[..at], Some(time[at..].trim())),
        None => (time.strip_suffix("UTC").unwrap_or(time), None),
    };
    let offset = match zone {
        None => None,
        Some("Z" | "z") => Some(0),
        Some(zone) => {
            let sign = if zone.starts_with('-') { -1 } else { 1 };
            let digits: String = zone.chars().filter(char::is_ascii_digit).collect();
            let hours: i64 = digits.get(..2)?.parse().ok()?;
            let minutes: i64 = digits.get(2..4).map_or(Some(0), |m| m.parse().ok())?;
            Some(sign * (hours * 60 + minutes) * 60_000_000)
        }
    };
    Some((parse_date(date)? * DAY + parse_time(clock)?, offset))
}

/// The date in a text, normalised. A time after it is dropped.
#[must_use]
pub fn date(text: &str) -> Option<String> {
    Some(show_date(parse_zoned(text)?.0.div_euclid(DAY)))
}

/// The time in a text, normalised.
#[must_use]
pub fn time(text: &str) -> Option<String> {
    parse_time(text).or_else(|| parse(text).map(|m| m.rem_euclid(DAY))).map(show_time)
}

/// The moment in a text, normalised. An offset counts only if the type has a time zone.
#[must_use]
pub fn timestamp(text: &str, zoned: bool) -> Option<String> {
    let (micros, offset) = parse_zoned(text)?;
    Some(show(micros - if zoned { offset.unwrap_or(0) } else { 0 }))
}

/// A moment moved by so many of the unit; months keep the day where they can.
#[must_use]
pub fn shift(micros: i64, amount: f64, unit: &str) -> Option<i64> {
    let plain = |size: i64| Some(micros + (amount * size as f64).round() as i64);
    let months = |count: f64| {
        let (year, month, day) = civil(micros.div_euclid(DAY));
        let index = year * 12 + month - 1 + count as i64;
        let (year, month) = (index.div_euclid(12), index.rem_euclid(12) + 1);
        let last = (28..=31).rev().find(|&d| civil(days(year, month, d)) == (year, month, d)).unwrap_or(28);
        Some(days(year, month, day.min(last)) * DAY + micros.rem_euclid(DAY))
    };
    match unit.trim_end_matches('s') {
        "microsecond" => plain(1),
        "millisecond" => plain(1000),
        "second" | "sec" => plain(1_000_000),
        "minute" | "min" => plain(60_000_000),
        "hour" => plain(3_600_000_000),
        "day" => plain(DAY),
        "week" => plain(7 * DAY),
        "month" | "mon" => months(amount),
        "quarter" => months(amount * 3.0),
        "year" => months(amount * 12.0),
        _ => None,
    }
}

/// A moment moved by an interval such as `1 day 02:00:00`.
#[must_use]
pub fn shift_by(micros: i64, interval: &str, sign: f64) -> Option<i64> {
    let interval = interval.to_ascii_lowercase();
    let mut words = interval.split_whitespace();
    let mut moved = micros;
    while let Some(word) = words.next() {
        if word.contains(':') {
            let (negative, clock) = word.strip_prefix('-').map_or((1.0, word), |rest| (-1.0, rest));
            moved += (parse_time(clock)? as f64 * negative * sign) as i64;
        } else {
            let amount: f64 = word.parse().ok()?;
            moved = shift(moved, amount * sign, words.next().unwrap_or("second"))?;
        }
    }
    Some(moved)
}

/// A field of a moment: `year`, `epoch`, `dow` …
#[must_use]
pub fn field(micros: i64, name: &str) -> Option<f64> {
    let (day_number, of_day) = (micros.div_euclid(DAY), micros.rem_euclid(DAY));
    let (year, month, day) = civil(day_number);
    Some(match name {
        "year" => year as f64,
        "quarter" => ((month + 2) / 3) as f64,
        "month" => month as f64,
        "day" => day as f64,
        "hour" => (of_day / 3_600_000_000) as f64,
        "minute" => (of_day / 60_000_000 % 60) as f64,
        "second" => (of_day % 60_000_000) as f64 / 1e6,
        "microsecond" => (of_day % 1_000_000) as f64,
        "epoch" => micros as f64 / 1e6,
        "dow" => (day_number + 4).rem_euclid(7) as f64,
        "isodow" => (day_number + 3).rem_euclid(7) as f64 + 1.0,
        "doy" => (day_number - days(year, 1, 1) + 1) as f64,
        _ => return None,
    })
}

/// A moment cut down to a unit.
#[must_use]
pub fn truncate(micros: i64, unit: &str) -> Option<i64> {
    let (year, month, _) = civil(micros.div_euclid(DAY));
    Some(match unit {
        "year" => days(year, 1, 1) * DAY,
        "month" => days(year, month, 1) * DAY,
        "week" => (micros.div_euclid(DAY) - (micros.div_euclid(DAY) + 3).rem_euclid(7)) * DAY,
        "day" => micros.div_euclid(DAY) * DAY,
        "hour" => micros.div_euclid(3_600_000_000) * 3_600_000_000,
        "minute" => micros.div_euclid(60_000_000) * 60_000_000,
        "second" => micros.div_euclid(1_000_000) * 1_000_000,
        _ => return None,
    })
}

/// The offset of a time zone of MySQL, in microseconds: `+02:00`, UTC or SYSTEM, which is UTC here. `None` for names.
#[must_use]
pub fn offset(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("utc") || zone.eq_ignore_ascii_case("system") {
        return Some(0);
    }
    let (sign, clock) = match zone.split_at_checked(1)? {
        ("+", clock) => (1, clock),
        ("-", clock) => (-1, clock),
        _ => return None,
    };
    let (hours, minutes) = clock.split_once(':')?;
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    ((0..=14).contains(&hours) && (0..60).contains(&minutes))
        .then_some(sign * (hours * 60 + minutes) * 60_000_000)
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A moment as MySQL's `DATE_FORMAT` writes it. Specifiers of weeks are not known, and stay as they are.
#[must_use]
pub fn format(micros: i64, pattern: &str) -> String {
    let day = micros.div_euclid(86_400_000_000);
    let ((year, month, date), clock) = (civil(day), micros.rem_euclid(86_400_000_000));
    let (hour, minute) = (clock / 3_600_000_000, clock / 60_000_000 % 60);
    let (second, fraction) = (clock / 1_000_000 % 60, clock % 1_000_000);
    let twelve = (hour + 11) % 12 + 1;
    let half = if hour < 12 { "AM" } else { "PM" };
    // 1970-01-01 was a Thursday.
    let weekday = (day + 4).rem_euclid(7);
    let name = |names: &[&str], at: i64| usize::try_from(at).map_or("", |at| names[at]).to_owned();
    let mut text = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        let Some(specifier) = chars.next() else { break };
        text += &match specifier {
            'Y' => format!("{year:04}"),
            'y' => format!("{:02}", year.rem_euclid(100)),
            'm' => format!("{month:02}"),
            'c' => month.to_string(),
            'd' => format!("{date:02}"),
            'e' => date.to_string(),
            'H' => format!("{hour:02}"),
            'k' => hour.to_string(),
            'h' | 'I' => format!("{twelve:02}"),
            'l' => twelve.to_string(),
            'i' => format!("{minute:02}"),
            'S' | 's' => format!("{second:02}"),
            'f' => format!("{fraction:06}"),
            'p' => half.to_owned(),
            'T' => format!("{hour:02}:{minute:02}:{second:02}"),
            'r' => format!("{twelve:02}:{minute:02}:{second:02} {half}"),
            'M' => name(&MONTHS, month - 1),
            'b' => name(&MONTHS, month - 1).chars().take(3).collect(),
            'W' => name(&WEEKDAYS, weekday),
            'a' => name(&WEEKDAYS, weekday).chars().take(3).collect(),
            'w' => weekday.to_string(),
            'j' => format!("{:03}", day - days(year, 1, 1) + 1),
            'U' | 'u' | 'V' | 'v' | 'X' | 'x' => format!("%{specifier}"),
            other => other.to_string(),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn dates_go_there_and_back() {
        for day in (-800_000..800_000).step_by(97) {
            let (y, m, d) = civil(day);
            assert_eq!(days(y, m, d), day);
        }
        assert_eq!(show_date(0), "1970-01-01");
        assert_eq!(parse_date("2026-02-29"), None);
    }

    #[test]
    fn moments() {
        assert_eq!(timestamp("2026-11-16T08:28:00.50Z", true).unwrap(), "2026-11-16 08:28:00.5");
        assert_eq!(timestamp("2026-11-16 08:28:00+02:00", true).unwrap(), "2026-11-16 06:28:00");
        assert_eq!(timestamp("2026-11-16", false).unwrap(), "2026-11-16 00:00:00");
        let at = parse("2026-01-31 10:00:00").unwrap();
        assert_eq!(show(shift(at, 1.0, "month").unwrap()), "2026-02-28 10:00:00");
        assert_eq!(show(shift_by(at, "1 day 02:00:00", -1.0).unwrap()), "2026-01-30 08:00:00");
        assert_eq!(field(at, "dow"), Some(6.0));
        assert_eq!(show(truncate(at, "month").unwrap()), "2026-01-01 00:00:00");
    }

    #[test]
    fn dates_in_mysql_words() {
        let at = parse("2024-02-29 15:04:05.000007").unwrap();
        let all = "%Y %y %m %c %d %e %H %k %h %l %i %s %f %p %T %r %M %b %W %a %w %j %% %Q";
        assert_eq!(
            format(at, all),
            "2024 24 02 2 29 29 15 15 03 3 04 05 000007 PM 15:04:05 03:04:05 PM February Feb Thursday Thu 4 060 % Q"
        );
        assert_eq!(
            (offset("+02:30"), offset("-01:00"), offset("UTC")),
            (Some(9_000_000_000), Some(-3_600_000_000), Some(0))
        );
        assert_eq!((offset("Europe/Rome"), offset("+25:00"), offset("")), (None, None, None));
    }
}
