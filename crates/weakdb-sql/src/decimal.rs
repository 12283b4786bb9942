//! Exact decimal numbers, with the scales that PostgreSQL and MySQL give to results.
//!
//! A decimal is kept as its text, `-12.50`: the digits after the point are part of the value that a client
//! sees, but not of the number, so `1.5 = 1.50`. In SQLite the texts compare by the collation [`COLLATION`].
//! Arithmetic is the crate `bigdecimal`'s, on integers of any length: PostgreSQL allows 131,072 digits
//! before the point, MySQL 65 in all, which is more than decimals of fixed size hold. Here are the rules
//! that the databases add:
//!
//! | operation | scale in PostgreSQL | scale in MySQL |
//! |---|---|---|
//! | `+ - %` | the larger | the larger |
//! | `*` | the sum | the sum, at most 38 |
//! | `/` | 16 significant digits or more, at least both scales | the dividend's and 4 more |
//! | `avg` | that of the sum divided by the count | likewise |
//!
//! PostgreSQL's rule for quotients is `select_div_scale` in its numeric.c. All round half away from zero.
//! NaN and the infinities of PostgreSQL's NUMERIC are refused.

use super::error::{Code, SqlError};
use super::types::plain;
use anomalist_sqltext::Dialect;
use anomalist_weakdb::Value;
use bigdecimal::num_bigint::{BigInt, Sign};
use bigdecimal::{BigDecimal, RoundingMode};
use std::cmp::Ordering;
use std::fmt;

/// The collation by which SQLite compares decimals.
pub const COLLATION: &str = "weak_number";

/// Digits before the point, and after it, that PostgreSQL allows.
const LONGEST: usize = 131_072;
const DEEPEST: i64 = 16_383;
/// All digits, and those after the point, that MariaDB allows.
const MYSQL_LONGEST: u64 = 65;
const MYSQL_DEEPEST: i64 = 38;

/// A decimal number with its scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Decimal(BigDecimal);

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_plain_string())
    }
}

impl From<i64> for Decimal {
    fn from(number: i64) -> Self {
        Self(number.into())
    }
}

impl From<Decimal> for Value {
    fn from(decimal: Decimal) -> Self {
        decimal.to_string().into()
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.0.partial_cmp(&other.0)
    }
}

impl Decimal {
    /// An integer of which so many digits are after the point.
    #[must_use]
    pub fn new(digits: i64, scale: u8) -> Self {
        Self(BigDecimal::new(digits.into(), scale.into()))
    }

    /// A number as it is written: sign, digits, point, exponent. `None` if it is none, or longer than any
    /// database allows.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (mantissa, exponent) = match text.find(['e', 'E']) {
            Some(at) => (&text[..at], text[at + 1..].parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (negative, digits) = match mantissa.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all = [whole, fraction].concat();
        if all.is_empty() || !all.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let scale = fraction.len() as i64 - i64::from(exponent);
        if all.len() as i64 - scale > LONGEST as i64 || scale > DEEPEST {
            return None;
        }
        let sign = if negative { Sign::Minus } else { Sign::Plus };
        let number = BigInt::from_biguint(sign, all.parse().ok()?);
        let exact = BigDecimal::new(number, scale);
        Some(Self(if scale < 0 { exact.with_scale(0) } else { exact }))
    }

    /// A value as a decimal.
    #[must_use]
    pub fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Int(i) => Some((*i).into()),
            Value::Bool(b) => Some(i64::from(*b).into()),
            // The shortest text that means this number.
            Value::Real(r) if r.is_finite() => Self::parse(&r.to_string()),
            Value::Text(t) => Self::parse(t),
            _ => None,
        }
    }

    /// As MySQL reads a text: the number that it begins with, or 0.
    #[must_use]
    pub fn leading(text: &str) -> Self {
        let text = text.trim_start();
        let ends = (0..=text.len()).rev().filter(|end| text.is_char_boundary(*end));
        ends.take(100).find_map(|end| Self::parse(&text[..end])).unwrap_or_else(|| 0.into())
    }

    /// Digits after the point.
    #[must_use]
    pub fn scale(&self) -> i64 {
        self.0.fractional_digit_count()
    }

    fn is_zero(&self) -> bool {
        self.0.sign() == Sign::NoSign
    }

    /// With so many digits after the point; half is rounded away from zero. Of a negative number of digits
    /// as many before the point become zeros.
    #[must_use]
    pub fn round(&self, scale: i64) -> Self {
        self.to_scale(scale, RoundingMode::HalfUp)
    }

    /// Without the digits after this one.
    #[must_use]
    pub fn truncate(&self, scale: i64) -> Self {
        self.to_scale(scale, RoundingMode::Down)
    }

    /// The next integer above.
    #[must_use]
    pub fn ceiling(&self) -> Self {
        self.to_scale(0, RoundingMode::Ceiling)
    }

    /// The next integer below.
    #[must_use]
    pub fn floor(&self) -> Self {
        self.to_scale(0, RoundingMode::Floor)
    }

    fn to_scale(&self, scale: i64, mode: RoundingMode) -> Self {
        let scale = scale.clamp(-(LONGEST as i64), DEEPEST);
        let rounded = self.0.with_scale_round(scale, mode);
        Self(if scale < 0 { rounded.with_scale(0) } else { rounded })
    }

    /// With at least so many digits after the point.
    #[must_use]
    pub fn padded(self, scale: u8) -> Self {
        if self.scale() < i64::from(scale) { self.round(scale.into()) } else { self }
    }

    /// Without zeros after the last digit that counts: one text per number.
    #[must_use]
    pub fn normalized(&self) -> Self {
        let short = self.0.normalized();
        Self(if short.fractional_digit_count() < 0 { short.with_scale(0) } else { short })
    }

    /// As a column of this precision and scale holds it.
    ///
    /// # Errors
    /// If it has more digits before the point than fit.
    pub fn fit(&self, precision: Option<u64>, scale: Option<u8>, dialect: Dialect) -> Result<Self, SqlError> {
        let fitting = scale.map_or_else(|| self.clone(), |scale| self.round(scale.into()));
        let Some(precision) = precision else { return Ok(fitting) };
        let digits = if fitting.is_zero() { 0 } else { fitting.0.digits() };
        if digits <= precision {
            return Ok(fitting);
        }
        Err(SqlError::new(
            Code::OutOfRange,
            match dialect {
                Dialect::MySql => "Out of range value for a DECIMAL column",
                _ => "numeric field overflow",
            },
        ))
    }

    /// The largest of this precision and scale, with this number's sign.
    #[must_use]
    pub fn largest(&self, precision: u64, scale: u8) -> Self {
        let nines = "9".repeat(precision.min(1_000) as usize).parse().unwrap_or_default();
        let sign = if self.0.sign() == Sign::Minus { Sign::Minus } else { Sign::Plus };
        Self(BigDecimal::new(BigInt::from_biguint(sign, nines), scale.into()))
    }

    /// The same number with the other sign.
    #[must_use]
    pub fn negated(&self) -> Self {
        Self(-&self.0)
    }

    /// Without sign.
    #[must_use]
    pub fn absolute(&self) -> Self {
        Self(self.0.abs())
    }

    /// -1, 0 or 1.
    #[must_use]
    pub fn sign(&self) -> i64 {
        match self.0.sign() {
            Sign::Minus => -1,
            Sign::NoSign => 0,
            Sign::Plus => 1,
        }
    }

    /// As an integer, rounded.
    #[must_use]
    pub fn to_int(&self) -> Option<i64> {
        self.round(0).to_string().parse().ok()
    }

    /// The sum.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self(&self.0 + &other.0).at_least(self, other)
    }

    /// The difference.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        Self(&self.0 - &other.0).at_least(self, other)
    }

    fn at_least(self, a: &Self, b: &Self) -> Self {
        self.to_scale(a.scale().max(b.scale()), RoundingMode::Down)
    }

    /// The product.
    #[must_use]
    pub fn times(&self, other: &Self, dialect: Dialect) -> Self {
        let deepest = if dialect == Dialect::MySql { MYSQL_DEEPEST } else { DEEPEST };
        Self(&self.0 * &other.0).round((self.scale() + other.scale()).min(deepest))
    }

    /// The quotient; `None` if the divisor is zero.
    #[must_use]
    pub fn over(&self, other: &Self, dialect: Dialect) -> Option<Self> {
        let scale = match dialect {
            Dialect::MySql => (self.scale() + 4).min(MYSQL_DEEPEST),
            _ => self.quotient_scale(other),
        };
        self.quotient(other, scale, true)
    }

    /// The quotient without what is after the point; `None` if the divisor is zero.
    #[must_use]
    pub fn whole_quotient(&self, other: &Self) -> Option<Self> {
        self.quotient(other, 0, false)
    }

    /// The quotient by long division of integers: one digit more than wanted decides about rounding.
    fn quotient(&self, other: &Self, scale: i64, rounded: bool) -> Option<Self> {
        if other.is_zero() {
            return None;
        }
        let ((a, of_a), (b, of_b)) = (self.0.as_bigint_and_scale(), other.0.as_bigint_and_scale());
        // a/10^i : b/10^j = a·10^(s+1-i+j)/b · 10^-(s+1)
        let shift = scale + 1 - of_a + of_b;
        let power = |n: i64| BigInt::from(10u8).pow(u32::try_from(n).unwrap_or(0));
        let digits = match shift {
            0.. => &*a * power(shift) / &*b,
            _ => &*a / (&*b * power(-shift)),
        };
        let exact = Self(BigDecimal::new(digits, scale + 1));
        Some(if rounded { exact.round(scale) } else { exact.truncate(scale) })
    }

    /// PostgreSQL's scale of a quotient. It counts in digits to the base 10,000.
    fn quotient_scale(&self, other: &Self) -> i64 {
        let ((weight_a, first_a), (weight_b, first_b)) = (self.leading_group(), other.leading_group());
        let weight = weight_a - weight_b - i64::from(first_a <= first_b);
        (16 - weight * 4).max(self.scale()).max(other.scale()).clamp(0, 1_000)
    }

    /// The place of the first group of four digits that is not zero, counted from the point, and the group.
    fn leading_group(&self) -> (i64, u32) {
        let text = self.absolute().to_string();
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        let whole = format!("{}{whole}", "0".repeat((4 - whole.len() % 4) % 4));
        let fraction = format!("{fraction}{}", "0".repeat((4 - fraction.len() % 4) % 4));
        let digits = [whole.as_str(), &fraction].concat();
        let highest = whole.len() as i64 / 4 - 1;
        let groups =
            digits.as_bytes().chunks(4).map(|g| g.iter().fold(0, |n, b| n * 10 + u32::from(b - b'0')));
        let found = groups.enumerate().find(|(_, group)| *group != 0);
        found.map_or((0, 0), |(at, group)| (highest - at as i64, group))
    }

    /// What remains after division, with the dividend's sign; `None` if the divisor is zero.
    #[must_use]
    pub fn modulo(&self, other: &Self) -> Option<Self> {
        (!other.is_zero()).then(|| Self(&self.0 % &other.0).at_least(self, other))
    }

    /// Itself, unless it is longer than the database computes with.
    ///
    /// # Errors
    /// If it is.
    pub fn checked(self, dialect: Dialect) -> Result<Self, SqlError> {
        let digits = self.0.digits();
        let text = match dialect {
            Dialect::MySql if digits > MYSQL_LONGEST => "DECIMAL value is out of range",
            Dialect::PostgreSql if digits as i64 - self.scale() > LONGEST as i64 => {
                "value overflows numeric format"
            }
            _ => return Ok(self),
        };
        Err(SqlError::new(Code::OutOfRange, text))
    }

    /// A value as a decimal, or the error that it is none.
    ///
    /// # Errors
    /// If it is no number, or too long for one.
    pub fn require(value: &Value, dialect: Dialect) -> Result<Self, SqlError> {
        let found = match value {
            Value::Text(t) if dialect == Dialect::MySql => Some(Self::leading(t)),
            other => Self::of(other),
        };
        found.ok_or_else(|| invalid(value))
    }
}

/// That a value is no number.
#[must_use]
pub fn invalid(value: &Value) -> SqlError {
    let shown = plain(value);
    let number = shown.trim().trim_start_matches(['-', '+']);
    // Digits and an exponent that is too large.
    if number.starts_with(|c: char| c.is_ascii_digit()) && number.parse::<f64>().is_ok() {
        return SqlError::new(Code::OutOfRange, "value overflows numeric format");
    }
    SqlError::new(Code::InvalidValue, format!("invalid input syntax for type numeric: \"{shown}\""))
}

/// The order of two texts that are decimals; other texts come after all of them, in their own order.
#[must_use]
pub fn compare(a: &str, b: &str) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    match (Decimal::parse(a), Decimal::parse(b)) {
        (Some(a), Some(b)) => a.0.cmp(&b.0),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

#[cfg(test)]
#[path = "decimal_tests.rs"]
mod tests;
