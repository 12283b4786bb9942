use super::*;

const PG: Dialect = Dialect::PostgreSql;
const MY: Dialect = Dialect::MySql;

fn decimal(text: &str) -> Decimal {
    Decimal::parse(text).unwrap_or_else(|| panic!("{text} is a decimal"))
}

#[test]
fn texts_keep_their_scale() {
    for (text, shown) in [
        ("0.30", "0.30"),
        ("0.00", "0.00"),
        ("-0.5", "-0.5"),
        ("+7", "7"),
        (".5", "0.5"),
        ("5.", "5"),
        ("1e3", "1000"),
        ("1.50E-2", "0.0150"),
        (" 12 ", "12"),
        ("99999999999999999999999999999999.99", "99999999999999999999999999999999.99"),
    ] {
        assert_eq!(decimal(text).to_string(), shown, "{text}");
    }
    for text in ["", ".", "-", "1.2.3", "1_0", "0x1", "NaN", "Infinity", "1e", "e5", "1e200000", "1e-20000"] {
        assert_eq!(Decimal::parse(text), None, "{text}");
    }
}

/// Each quotient as PostgreSQL 15 prints it.
#[test]
fn quotients_have_the_scale_of_postgres() {
    for (a, b, quotient) in [
        ("1", "3", "0.33333333333333333333"),
        ("100000", "7", "14285.714285714286"),
        ("7", "2.0", "3.5000000000000000"),
        ("3", "2", "1.5000000000000000"),
        ("0.0001", "3", "0.000033333333333333333333"),
        ("0", "3", "0.00000000000000000000"),
        ("99999999", "0.1", "999999990.00000000"),
    ] {
        assert_eq!(
            decimal(a).over(&decimal(b), PG).map(|q| q.to_string()).as_deref(),
            Some(quotient),
            "{a}/{b}"
        );
    }
    assert_eq!(decimal("1").over(&decimal("0.00"), PG), None);
}

#[test]
fn quotients_have_the_scale_of_mysql() {
    for (a, b, quotient) in
        [("1", "3", "0.3333"), ("1.0", "3", "0.33333"), ("10.00", "4", "2.500000"), ("-7", "2", "-3.5000")]
    {
        assert_eq!(
            decimal(a).over(&decimal(b), MY).map(|q| q.to_string()).as_deref(),
            Some(quotient),
            "{a}/{b}"
        );
    }
    assert_eq!(decimal("-7").whole_quotient(&decimal("2.5")), Some((-2).into()));
}

#[test]
fn half_is_rounded_away_from_zero() {
    for (number, scale, rounded) in [
        ("2.5", 0, "3"),
        ("-2.5", 0, "-3"),
        ("1.005", 2, "1.01"),
        ("0.125", 2, "0.13"),
        ("1250", -2, "1300"),
        ("1.5", 3, "1.500"),
    ] {
        assert_eq!(decimal(number).round(scale).to_string(), rounded, "{number}");
    }
    assert_eq!(decimal("-1.999").truncate(2).to_string(), "-1.99");
    assert_eq!(
        (decimal("-1.5").ceiling().to_string(), decimal("-1.5").floor().to_string()),
        ("-1".into(), "-2".into())
    );
}

#[test]
fn sums_are_exact() {
    assert_eq!(decimal("0.1").plus(&decimal("0.2")).to_string(), "0.3");
    assert_eq!(decimal("1.10").minus(&decimal("0.1")).to_string(), "1.00");
    assert_eq!(decimal("0").plus(&decimal("1.50")).to_string(), "1.50");
    assert_eq!(decimal("1.50").minus(&decimal("1.5")).to_string(), "0.00");
    assert_eq!(decimal("1.50").times(&decimal("2.25"), PG).to_string(), "3.3750");
    assert_eq!(decimal("0").times(&decimal("2.25"), PG).to_string(), "0.00");
    assert_eq!(decimal("5.5").modulo(&decimal("-2")).map(|d| d.to_string()).as_deref(), Some("1.5"));
    assert_eq!(decimal("100.00").normalized().to_string(), "100");
}

#[test]
fn columns_hold_what_fits() {
    let fit = |text: &str| decimal(text).fit(Some(4), Some(2), PG).map(|d| d.to_string()).map_err(|e| e.code);
    assert_eq!(fit("99.994"), Ok("99.99".into()));
    assert_eq!(fit("99.995"), Err(Code::OutOfRange));
    assert_eq!(fit("0"), Ok("0.00".into()));
    assert_eq!(decimal("-123456").largest(4, 2).to_string(), "-99.99");
}

#[test]
fn the_order_is_that_of_numbers() {
    let mut all = ["10", "9.5", "-1", "1.50", "1.5", "x", "0.00", "a"];
    all.sort_by(|a, b| compare(a, b));
    assert_eq!(all, ["-1", "0.00", "1.50", "1.5", "9.5", "10", "a", "x"]);
}
