//! Numbers out of bytes, eight digits at a time.
//!
//! The length of a number is data, so a loop over its digits mispredicts its exit about once per number,
//! which costs more than converting. Instead, eight bytes are loaded as one word, the first non-digit is
//! found with bit tricks, and the digits are combined pairwise with three multiplications (Lemire, "Quickly
//! parsing eight digits", 2018).

use super::fault::Fault;

/// What is wrong at an offset: a [`Fault`] that costs nothing to make, for loops that count every
/// nanosecond.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bad {
    /// Where.
    pub offset: usize,
    /// What should be there.
    pub expected: &'static str,
}

impl Bad {
    /// The same for a diagnostic.
    #[cold]
    pub fn fault(self) -> Fault {
        Fault::new(self.offset, format!("expected {}", self.expected))
    }
}

/// Digits of a number that needs no overflow check.
const SAFE_DIGITS: usize = 18;

/// The natural number at `at`, at most `i64::MAX`, and where it ends.
#[inline(always)]
pub(crate) fn natural(text: &[u8], at: usize, what: &'static str) -> Result<(u64, usize), Bad> {
    if let Some((digits, bits)) = leading_digits(text, at) {
        if bits != 64 && bits != 0 {
            return Ok((combine(digits << (64 - bits)), at + bits as usize / 8));
        }
        if bits == 64
            && let Some((more, bits)) = leading_digits(text, at + 8)
            && bits != 64
        {
            let count = bits as usize / 8;
            let low = if count == 0 { 0 } else { combine(more << (64 - bits)) };
            return Ok((combine(digits) * POWERS_OF_TEN[count] + low, at + 8 + count));
        }
    }
    natural_slowly(text, at, what)
}

const POWERS_OF_TEN: [u64; 8] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// Eight bytes, digits as their values, and eight times the number of digits before the first other
/// byte; `None` near the end of the text.
#[inline(always)]
fn leading_digits(text: &[u8], at: usize) -> Option<(u64, u32)> {
    let word = text.get(at..)?.first_chunk::<8>()?;
    let digits = u64::from_le_bytes(*word) ^ 0x3030_3030_3030_3030;
    // The highest bit of a byte is set if it is above 9. Carries only disturb bytes after the first such
    // one.
    let others = (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080;
    Some((digits, others.trailing_zeros() & !7))
}

/// Eight digits, the first in the lowest byte, as a number.
#[inline(always)]
fn combine(digits: u64) -> u64 {
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let mask = 0x0000_00FF_0000_00FF;
    let high = (pairs & mask).wrapping_mul(0x000F_4240_0000_0064);
    let low = (pairs >> 16 & mask).wrapping_mul(0x0000_2710_0000_0001);
    high.wrapping_add(low) >> 32
}

/// Numbers of sixteen digits and more, and those at the end of the text.
fn natural_slowly(text: &[u8], at: usize, what: &'static str) -> Result<(u64, usize), Bad> {
    let mut end = at;
    let mut value = 0u64;
    while let Some(digit) = text.get(end).map(|b| b.wrapping_sub(b'0')).filter(|&d| d <= 9) {
        let next = if end - at < SAFE_DIGITS {
            Some(value * 10 + u64::from(digit))
        } else {
            value.checked_mul(10).and_then(|v| v.checked_add(u64::from(digit)))
        };
        match next {
            Some(next) if next <= i64::MAX as u64 => value = next,
            _ => return Err(Bad { offset: at, expected: "a number of at most 9223372036854775807" }),
        }
        end += 1;
    }
    if end == at { Err(Bad { offset: at, expected: what }) } else { Ok((value, end)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_length() {
        for length in 1..=18 {
            let text = &"987654321098765432"[..length];
            for end in ["", ",", ")\n", "-1", "aaaaaaaaaaaa", "\u{ff}\u{ff}\u{ff}\u{ff}"] {
                let line = format!("x{text}{end}");
                assert_eq!(
                    natural(line.as_bytes(), 1, "n"),
                    Ok((text.parse().unwrap(), 1 + length)),
                    "{line}"
                );
            }
        }
        assert_eq!(natural(b"9223372036854775807,", 0, "n"), Ok((i64::MAX as u64, 19)));
        assert_eq!(natural(b"00000000000000000000000012,", 0, "n"), Ok((12, 26)));
        for bad in ["9223372036854775808", "99999999999999999999999999"] {
            assert_eq!(natural(bad.as_bytes(), 0, "n").unwrap_err().offset, 0);
        }
        for none in ["", ",12345678", "-1", "/", ":", "a1"] {
            assert_eq!(natural(none.as_bytes(), 0, "n"), Err(Bad { offset: 0, expected: "n" }));
        }
        assert_eq!(natural(b"1", 7, "n"), Err(Bad { offset: 7, expected: "n" }));
    }
}
