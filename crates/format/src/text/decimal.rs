//! One text per number, so that numbers which are equal are one value however they are written.
//!
//! JSON has one type of numbers: `1e2`, `100` and `100.0` are the same, compared exactly, digit by digit.
//! EDN follows Clojure's `=`, which compares within a category only (`clojure.lang.Numbers/equal`):
//! integers (`31`, `0x1F`, `31N`), ratios (`2/4` is `1/2`, `4/2` the integer 2), doubles (`1.0`, `1e0`) and
//! decimals (`1.0M`, `1.00M`: numerically equal since Clojure 1.6, CLJ-1118). `100`, `1e2` and `100M` are
//! three values. O(digits), but for huge numbers of another base than ten.

use std::borrow::Cow;

/// A number.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Number<'a> {
    /// An integer of 64 bits.
    Int(i64),
    /// Any other number in its one text.
    Other(Cow<'a, str>),
}

/// The number that a JSON text means, which the caller has found to be one.
pub(crate) fn json(text: &str) -> Number<'_> {
    match Decimal::parse(text).map(|decimal| decimal.text()) {
        None => Number::Other(text.into()),
        Some(plain) => plain.parse().map_or(Number::Other(plain.into()), Number::Int),
    }
}

/// The number that an EDN word means; none if it is no number.
pub(crate) fn edn(word: &str) -> Option<Number<'_>> {
    let (negative, rest) = match word.as_bytes().first()? {
        b'-' => (true, &word[1..]),
        b'+' => (false, &word[1..]),
        _ => (false, word),
    };
    if let Some((above, below)) = rest.split_once('/') {
        return ratio(negative, above, below);
    }
    if let Some(digits) = integer_digits(rest.strip_suffix('N').unwrap_or(rest)) {
        return Some(integer(negative, digits?));
    }
    let decimal = rest.strip_suffix('M');
    let parsed = Decimal::parse(decimal.unwrap_or(rest)).filter(|_| is_float(decimal.unwrap_or(rest)))?;
    if decimal.is_some() {
        let sign = if negative && !parsed.digits.is_empty() { "-" } else { "" };
        return Some(Number::Other(format!("{sign}{}M", parsed.text()).into()));
    }
    let value: f64 = rest.parse().ok()?;
    Some(Number::Other(match (value, negative) {
        // Clojure's = does not tell the two zeros apart.
        (0.0, _) => "0.0".into(),
        (value, false) if value.is_infinite() => "##Inf".into(),
        (value, true) if value.is_infinite() => "##-Inf".into(),
        (value, negative) => format!("{}{value:?}", if negative { "-" } else { "" }).into(),
    }))
}

/// The decimal digits of an integer without its sign. `None`: not written as an integer; `Some(None)`: a
/// wrong one, as `08`.
#[allow(clippy::option_option)]
fn integer_digits(text: &str) -> Option<Option<Cow<'_, str>>> {
    let all = |text: &str, radix: u32| !text.is_empty() && text.chars().all(|c| c.is_digit(radix));
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return Some(all(hex, 16).then(|| in_base_ten(hex, 16).into()));
    }
    if let Some((radix, digits)) = text.split_once(['r', 'R'])
        && let Some(radix) = radix.parse().ok().filter(|_| all(radix, 10))
    {
        let fits = (2..=36).contains(&radix) && all(digits, radix);
        return Some(fits.then(|| in_base_ten(digits, radix).into()));
    }
    if !all(text, 10) {
        return None;
    }
    match text.strip_prefix('0') {
        Some(octal) if !octal.is_empty() => Some(all(octal, 8).then(|| in_base_ten(octal, 8).into())),
        _ => Some(Some(text.into())),
    }
}

fn integer(negative: bool, digits: Cow<'_, str>) -> Number<'_> {
    if negative {
        let signed = format!("-{digits}");
        return signed.parse().map_or(Number::Other(signed.into()), Number::Int);
    }
    digits.parse().map_or(Number::Other(digits), Number::Int)
}

/// Digits of any base in base ten, without leading zeros. Quadratic beyond 128 bits.
fn in_base_ten(digits: &str, radix: u32) -> String {
    if let Ok(small) = u128::from_str_radix(digits, radix) {
        return small.to_string();
    }
    let mut ten: Vec<u32> = vec![0]; // nine digits each, the lowest first
    for digit in digits.chars().filter_map(|c| c.to_digit(radix)) {
        let mut carry = u64::from(digit);
        for group in &mut ten {
            let value = u64::from(*group) * u64::from(radix) + carry;
            *group = (value % 1_000_000_000) as u32;
            carry = value / 1_000_000_000;
        }
        if carry > 0 {
            ten.push(carry as u32);
        }
    }
    let text: String = ten.iter().rev().map(|group| format!("{group:09}")).collect();
    text.trim_start_matches('0').to_owned()
}

/// A ratio in lowest terms. Beyond 128 bits it stays as it is written.
fn ratio<'a>(negative: bool, above: &str, below: &str) -> Option<Number<'a>> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(above) || !digits(below) || below.bytes().all(|b| b == b'0') {
        return None;
    }
    let sign = if negative { "-" } else { "" };
    let (Ok(a), Ok(b)) = (above.parse::<u128>(), below.parse::<u128>()) else {
        return Some(Number::Other(format!("{sign}{above}/{below}").into()));
    };
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    let (a, b) = (a / x, b / x);
    Some(match b {
        1 => integer(negative && a > 0, a.to_string().into()),
        _ => Number::Other(format!("{sign}{a}/{b}").into()),
    })
}

/// True for Clojure's doubles and decimals without sign: `1.`, `1.5`, `1e5`.
fn is_float(text: &str) -> bool {
    let (mantissa, exponent) = text.split_once(['e', 'E']).map_or((text, None), |(m, e)| (m, Some(e)));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let exponent = exponent.map(|e| e.strip_prefix(['-', '+']).unwrap_or(e));
    !whole.is_empty()
        && digits(whole)
        && digits(fraction)
        && exponent.is_none_or(|e| !e.is_empty() && digits(e))
}

/// A decimal number: digits times a power of ten. No digits: zero.
struct Decimal {
    negative: bool,
    /// Without zeros at either end.
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// Of a well-formed text; none if its exponent is beyond all reason.
    fn parse(text: &str) -> Option<Decimal> {
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let negative = mantissa.starts_with('-');
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits: String = [whole.trim_start_matches(['-', '+']), fraction].concat();
        let mut exponent: i64 = exponent.parse().ok().filter(|e: &i64| e.abs() < 1 << 60)?;
        exponent -= fraction.len() as i64;
        let significant = digits.trim_end_matches('0').len();
        exponent += (digits.len() - significant) as i64;
        digits.truncate(significant);
        let digits = digits.trim_start_matches('0').to_owned();
        Some(Decimal { negative: negative && !digits.is_empty(), digits, exponent })
    }

    /// Its one text: plain where that is short, else scientific.
    fn text(&self) -> String {
        /// Zeros that are written out.
        const ZEROS: i64 = 24;
        let (digits, count) = (&self.digits, self.digits.len() as i64);
        let sign = if self.negative { "-" } else { "" };
        // Where the point stands, counted from the first digit.
        let point = count + self.exponent;
        match self.exponent {
            _ if digits.is_empty() => "0".to_owned(),
            zeros @ 0..=ZEROS => format!("{sign}{digits}{}", "0".repeat(zeros as usize)),
            ..0 if point > 0 => {
                let (whole, fraction) = digits.split_at(point as usize);
                format!("{sign}{whole}.{fraction}")
            }
            ..0 if point >= -ZEROS => format!("{sign}0.{}{digits}", "0".repeat(-point as usize)),
            _ => {
                let (first, rest) = digits.split_at(1);
                let dot = if rest.is_empty() { "" } else { "." };
                format!("{sign}{first}{dot}{rest}e{}", point - 1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(number: Number<'_>) -> String {
        match number {
            Number::Int(i) => format!("int {i}"),
            Number::Other(text) => text.into_owned(),
        }
    }

    #[test]
    fn json_numbers_are_equal_as_numbers() {
        let classes: [&[&str]; 8] = [
            &["1e2", "100", "100.0", "1E+2", "1000e-1", "100.000"],
            &["1.5", "1.50", "15e-1", "0.15e1"],
            &["0", "-0", "0.0", "0e7", "-0.0e-3"],
            &["-2.5e-30", "-0.25e-29", "-25E-31"],
            &["9223372036854775808", "9223372036854775808.0", "922337203685477580.8e1"],
            &["1e400", "10e399", "0.1e401"],
            &["0.1000000000000000055"],
            &["0.1", "0.10"],
        ];
        let texts: Vec<Vec<String>> =
            classes.iter().map(|class| class.iter().map(|text| shown(json(text))).collect()).collect();
        for (i, class) in texts.iter().enumerate() {
            assert!(class.iter().all(|text| *text == class[0]), "{class:?}");
            assert!(texts[..i].iter().all(|other| other[0] != class[0]), "{class:?}");
            // The text of a class is a number of that class.
            let again = class[0].trim_start_matches("int ");
            assert_eq!(shown(json(again)), class[0]);
        }
        assert_eq!(texts[0][0], "int 100");
        assert_eq!(shown(json("1e999999999999999999999")), "1e999999999999999999999");
    }

    #[test]
    fn edn_numbers_are_equal_as_in_clojure() {
        let classes: [&[&str]; 12] = [
            &["31", "0x1F", "+31", "31N", "037", "2r11111", "36rV", "0X1fN", "62/2"],
            &["100", "0144", "300/3"],
            &["1e2", "100.0", "100.", "1E+2"],
            &["100M", "100.0M", "1e2M", "100.00M"],
            &["1/2", "2/4", "+3/6"],
            &["-1/2", "-2/4"],
            &["1.0", "1.00", "1e0"],
            &["0.0", "-0.0", "0e5"],
            &["0", "00", "-0", "0/7", "0x0"],
            &["340282366920938463463374607431768211456", "0x100000000000000000000000000000000"],
            &["0.1", "0.1000000000000000055"],
            &["0.1M", "0.10M"],
        ];
        let text = |word: &&str| edn(word).map(shown);
        let texts: Vec<Vec<_>> = classes.iter().map(|class| class.iter().map(text).collect()).collect();
        for (i, class) in texts.iter().enumerate() {
            let first = class[0].as_ref().unwrap();
            assert!(class.iter().flatten().all(|text| text == first), "{class:?}");
            assert!(texts[..i].iter().all(|other| other[0] != class[0]), "{class:?}");
            assert_eq!(edn(first.trim_start_matches("int ")).map(shown).as_ref(), Some(first));
        }
        for wrong in ["08", "0x", "1/0", "37r1", "2r2", "12a", "1e", "1.5N", "1/2M", "1.2.3", "-", "1/-2"] {
            assert_eq!(edn(wrong), None, "{wrong}");
        }
        assert_eq!(edn("-0x8000000000000000"), Some(Number::Int(i64::MIN)));
        assert_eq!(edn("1e999").map(shown).as_deref(), Some("##Inf"));
    }
}
