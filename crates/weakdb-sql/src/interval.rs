//! Intervals, and moments moved by them.
//!
//! An interval has months, days and microseconds, which are added in this order: a month after January 31
//! is the last day of February, and `1 month 1 day` is the day after it. A fraction of a month is one of 30
//! days, a fraction of a day one of 24 hours.

use super::time::{DAY, at, micros, parse_time};
use jiff::{SignedDuration, Span};

/// An interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    months: i64,
    days: i64,
    micros: i64,
}

impl Interval {
    /// So many of a unit.
    #[must_use]
    pub fn of(amount: f64, unit: &str) -> Option<Self> {
        let mut interval = Self::default();
        interval.add(amount, unit)?;
        Some(interval)
    }

    /// `1 day 02:00:00`, `2 years 3 mons ago`, `P1Y2MT3H`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        if text.starts_with('p') {
            return Self::iso(text.parse().ok()?);
        }
        let mut interval = Self::default();
        let mut words = text.split_whitespace().peekable();
        while let Some(word) = words.next() {
            if word == "ago" {
                return words.next().is_none().then(|| interval.times(-1));
            } else if word.contains(':') {
                let (negative, clock) = match word.strip_prefix('-') {
                    Some(clock) => (true, clock),
                    None => (false, word.trim_start_matches('+')),
                };
                let size = parse_time(clock)?;
                interval.micros += if negative { -size } else { size };
            } else if word != "@" {
                // `1day` is `1 day`, and a number alone is one of seconds.
                let end = word.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(word.len());
                let unit = match &word[end..] {
                    "" => words.next_if(|next| {
                        *next != "ago" && next.starts_with(|c: char| c.is_ascii_alphabetic())
                    }),
                    unit => Some(unit),
                };
                interval.add(word[..end].parse().ok()?, unit.unwrap_or("second"))?;
            }
        }
        Some(interval)
    }

    fn iso(span: Span) -> Option<Self> {
        let months = i64::from(span.get_years()) * 12 + i64::from(span.get_months());
        let days = i64::from(span.get_weeks()) * 7 + i64::from(span.get_days());
        let minutes = i64::from(span.get_hours()) * 60 + span.get_minutes();
        let seconds = minutes.checked_mul(60)?.checked_add(span.get_seconds())?;
        let below =
            span.get_milliseconds() * 1_000 + span.get_microseconds() + span.get_nanoseconds() / 1_000;
        Some(Self { months, days, micros: seconds.checked_mul(1_000_000)?.checked_add(below)? })
    }

    fn add(&mut self, amount: f64, unit: &str) -> Option<()> {
        let unit = if unit.len() > 1 { unit.trim_end_matches('s') } else { unit };
        let (months, days, micros) = match unit {
            "microsecond" | "usec" | "u" => (0, 0, 1.0),
            "millisecond" | "msec" => (0, 0, 1_000.0),
            "second" | "sec" | "s" => (0, 0, 1_000_000.0),
            "minute" | "min" | "m" => (0, 0, 60_000_000.0),
            "hour" | "hr" | "h" => (0, 0, 3_600_000_000.0),
            "day" | "d" => (0, 1, 0.0),
            "week" | "w" => (0, 7, 0.0),
            "month" | "mon" => (1, 0, 0.0),
            "quarter" => (3, 0, 0.0),
            "year" | "yr" | "y" => (12, 0, 0.0),
            "decade" | "dec" => (120, 0, 0.0),
            "century" | "centurie" | "cent" => (1_200, 0, 0.0),
            "millennium" | "mil" => (12_000, 0, 0.0),
            _ => return None,
        };
        let (months, days): (i32, i32) = (months, days);
        let limited = |n: f64| (n.abs() < 9e15).then_some(n);
        let of_months = limited(amount * f64::from(months))?;
        let whole = of_months.trunc();
        // What is left of a year is rounded to months, of a month to days and parts of days.
        let whole = if months > 1 { of_months.round() } else { whole };
        let left = if months > 1 { 0.0 } else { of_months - whole };
        let of_days = limited(amount * f64::from(days) + left * 30.0)?;
        let part = limited(amount * micros + (of_days - of_days.trunc()) * DAY as f64)?;
        self.months += whole as i64;
        self.days += of_days.trunc() as i64;
        self.micros += part.round() as i64;
        Some(())
    }

    /// So many times as long.
    #[must_use]
    pub fn times(self, count: i64) -> Self {
        Self { months: self.months * count, days: self.days * count, micros: self.micros * count }
    }

    /// The moment after it; `None` outside of the calendar.
    #[must_use]
    pub fn after(self, moment: i64) -> Option<i64> {
        let span = Span::new().try_months(self.months).ok()?.try_days(self.days).ok()?;
        let moved = at(moment)?.checked_add(span).ok()?;
        Some(micros(moved.checked_add(SignedDuration::from_micros(self.micros)).ok()?))
    }
}
