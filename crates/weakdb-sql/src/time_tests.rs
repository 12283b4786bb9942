use super::super::interval::Interval;
use super::*;

fn shifted(from: &str, interval: &str) -> Option<String> {
    show(Interval::parse(interval)?.after(parse(from)?)?)
}

#[test]
fn dates_go_there_and_back() {
    for day in (-700_000..2_900_000).step_by(97) {
        let text = show_date(day).unwrap_or_default();
        assert_eq!(parse_date(&text), Some(day), "{text}");
    }
    assert_eq!(show_date(0).as_deref(), Some("1970-01-01"));
    for wrong in [
        "2026-02-29",
        "2100-02-29",
        "2026-13-01",
        "2026-00-10",
        "2026-01-32",
        "0000-01-01",
        "10000-01-01",
        "x",
    ] {
        assert_eq!(parse_date(wrong), None, "{wrong}");
    }
    assert!(parse_date("2000-02-29").is_some() && parse_date("20240229") == parse_date("2024/2/29"));
    assert_eq!((show(i64::MAX), show_date(i64::MAX)), (None, None));
}

#[test]
fn moments() {
    for (text, shown) in [
        ("2026-11-16T08:28:00.50Z", Some("2026-11-16 08:28:00.5")),
        ("2026-11-16 08:28:00+02:00", Some("2026-11-16 06:28:00")),
        ("2026-11-16 08:28:00+5", Some("2026-11-16 03:28:00")),
        ("2026-11-16 08:28:00 -0730", Some("2026-11-16 15:58:00")),
        ("2026-11-16", Some("2026-11-16 00:00:00")),
        ("2026-11-16 24:00", Some("2026-11-17 00:00:00")),
        ("2026-11-16 10:00:00.1234567", Some("2026-11-16 10:00:00.123457")),
        ("2026-12-31 23:59:60", Some("2027-01-01 00:00:00")),
        ("2026-11-16 25:00", None),
        ("2026-11-16 24:01", None),
        ("2026-11-16 10:60", None),
        ("2026-11-16 10:00+99", None),
        ("2026-11-16 10:00 Nowhere/Land", None),
    ] {
        assert_eq!(timestamp(text, true).as_deref(), shown, "{text}");
    }
    assert_eq!(timestamp("2026-11-16 08:28:00+02:00", false).as_deref(), Some("2026-11-16 08:28:00"));
}

#[test]
fn intervals_add_months_first() {
    for (from, interval, to) in [
        ("2026-01-31 10:00:00", "1 month", "2026-02-28 10:00:00"),
        ("2024-01-31 10:00:00", "1 month", "2024-02-29 10:00:00"),
        ("2026-01-30", "1 day 1 month", "2026-03-01 00:00:00"),
        ("2024-02-29", "1 year", "2025-02-28 00:00:00"),
        ("2024-02-29", "-4 years", "2020-02-29 00:00:00"),
        ("2026-01-31 10:00:00", "-1 day -02:00:00", "2026-01-30 08:00:00"),
        ("2026-01-01", "1.5 months", "2026-02-16 00:00:00"),
        ("2026-01-01", "1.5 days", "2026-01-02 12:00:00"),
        ("2026-01-01", "1.5 years", "2027-07-01 00:00:00"),
        ("2026-01-01", "2 hours 30 mins ago", "2025-12-31 21:30:00"),
        ("2026-01-01", "P1Y2M3DT4H", "2027-03-04 04:00:00"),
        ("2026-01-01", "1 week 2d 3h", "2026-01-10 03:00:00"),
        ("2026-01-01", "90", "2026-01-01 00:01:30"),
    ] {
        assert_eq!(shifted(from, interval).as_deref(), Some(to), "{from} + {interval}");
    }
    assert_eq!((shifted("2026-01-01", "1 fortnight"), shifted("2026-01-01", "9000 years")), (None, None));
}

#[test]
fn fields_and_beginnings() {
    let moment = parse("2026-01-31 10:20:30.5").unwrap_or_default();
    for (name, value) in [
        ("dow", (6, 0)),
        ("isodow", (6, 0)),
        ("doy", (31, 0)),
        ("week", (5, 0)),
        ("quarter", (1, 0)),
        ("second", (30_500_000, 6)),
        ("century", (21, 0)),
    ] {
        assert_eq!(field(moment, name), Some(value), "{name}");
    }
    let new_year = parse("2027-01-01").unwrap_or_default();
    assert_eq!((field(new_year, "week"), field(new_year, "isoyear")), (Some((53, 0)), Some((2026, 0))));
    for (unit, start) in [
        ("month", "2026-01-01 00:00:00"),
        ("week", "2026-01-26 00:00:00"),
        ("quarter", "2026-01-01 00:00:00"),
        ("century", "2001-01-01 00:00:00"),
        ("hour", "2026-01-31 10:00:00"),
        ("second", "2026-01-31 10:20:30"),
    ] {
        assert_eq!(truncate(moment, unit).and_then(show).as_deref(), Some(start), "{unit}");
    }
}

#[test]
fn dates_in_mysql_words() {
    let moment = parse("2024-02-29 15:04:05.000007").unwrap_or_default();
    let all = "%Y %y %m %c %d %e %H %k %h %l %i %s %f %p %T %r %M %b %W %a %w %j %% %Q %D %U %u %V %v %X %x";
    assert_eq!(
        format(moment, all).as_deref(),
        Some(
            "2024 24 02 2 29 29 15 15 03 3 04 05 000007 PM 15:04:05 03:04:05 PM February Feb Thursday Thu 4 060 % Q 29th \
             08 09 08 09 2024 2024"
        )
    );
}
