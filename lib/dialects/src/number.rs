//! Decimal numbers, exactly as written. Clients print `0.1` or `1e-7`, which a double cannot represent exactly.

/// A number with a finite number of decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExactDecimal {
    negative: bool,
    /// The digits without the point. They do not end in zero, unless the number is zero.
    digits: u128,
    /// The number of digits after the point; negative for a number that ends in zeros.
    places: i32,
}

impl ExactDecimal {
    /// Parses `-12`, `0.5`, `1e-7`: an optional minus, digits, an optional point and an optional exponent. There may be
    /// up to 38 digits.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let (negative, text) = match text.split_first() {
            Some((b'-', rest)) => (true, rest),
            _ => (false, text),
        };
        let end = text.iter().position(|byte| matches!(byte, b'e' | b'E')).unwrap_or(text.len());
        let exponent = match text.get(end + 1..) {
            Some(exponent) => std::str::from_utf8(exponent).ok()?.parse::<i16>().ok()?,
            None if end == text.len() => 0,
            None => return None,
        };
        let (mut digits, mut places, mut seen, mut point) = (0u128, -i32::from(exponent), false, false);
        for byte in &text[..end] {
            match byte {
                b'0'..=b'9' => {
                    digits = digits.checked_mul(10)?.checked_add(u128::from(byte - b'0'))?;
                    places += i32::from(point);
                    seen = true;
                }
                b'.' if !point => point = true,
                _ => return None,
            }
        }
        if !seen {
            return None;
        }
        if digits == 0 {
            return Some(Self { negative: false, digits, places: 0 });
        }
        while digits.is_multiple_of(10) {
            digits /= 10;
            places -= 1;
        }
        Some(Self { negative, digits, places })
    }

    /// Returns whether the number is negative.
    pub(crate) fn is_negative(self) -> bool {
        self.negative
    }

    /// Returns the number of decimals.
    pub(crate) fn places(self) -> u32 {
        self.places.max(0).cast_unsigned()
    }

    /// Returns the number, if it is whole and not negative.
    pub(crate) fn whole(self) -> Option<u64> {
        (self.places <= 0).then(|| self.floor_shifted(0)).flatten()
    }

    /// Returns floor(number * 10^shift), if the number is not negative and the result fits.
    pub(crate) fn floor_shifted(self, shift: u32) -> Option<u64> {
        if self.negative {
            return None;
        }
        let shift = i64::from(shift) - i64::from(self.places);
        let power = u32::try_from(shift.unsigned_abs()).ok().and_then(|power| 10u128.checked_pow(power));
        let shifted = match (shift >= 0, power) {
            (true, Some(power)) => self.digits.checked_mul(power)?,
            (true, None) => (self.digits == 0).then_some(0)?,
            (false, Some(power)) => self.digits / power,
            (false, None) => 0,
        };
        u64::try_from(shifted).ok()
    }

    /// Returns the least whole number not below it, if it is not negative and the result fits.
    pub(crate) fn ceil(self) -> Option<u64> {
        self.floor_shifted(0)?.checked_add(u64::from(self.places > 0))
    }

    /// Returns the product with `factor`, which must be whole except for what a double lost: a client divided a whole
    /// number by `factor` and printed the quotient.
    pub(crate) fn times_back_to_whole(self, factor: u64) -> Option<u64> {
        let product = self.digits.checked_mul(u128::from(factor))?;
        if self.negative || self.places <= 0 {
            return self.whole()?.checked_mul(factor);
        }
        let unit = 10u128.checked_pow(self.places())?;
        let whole = product.checked_add(unit / 2)? / unit;
        let error = product.abs_diff(whole.checked_mul(unit)?);
        (error.checked_mul(1_000_000_000_000)? <= product).then(|| u64::try_from(whole).ok()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> ExactDecimal {
        ExactDecimal::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn numbers_are_read_as_written() {
        for (text, whole) in [("0", 0), ("-0", 0), ("007", 7), ("5.0", 5), ("1e3", 1_000), ("2.5e+1", 25), ("50e-1", 5)]
        {
            assert_eq!(decimal(text).whole(), Some(whole), "{text}");
        }
        for text in ["0.1", "1e-7", ".5", "12.50", "1e-400"] {
            assert_eq!(decimal(text).whole(), None, "{text}");
        }
        assert_eq!(decimal("12.50").places(), 1);
        assert_eq!(decimal("1e-7").places(), 7);
        assert!(decimal("-3").is_negative());
        assert_eq!(decimal("-3").whole(), None);
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["", "-", ".", "1.2.3", "1e", "e5", "0x10", " 1", "1 ", "+1", "inf", "nan", "1e99999", "--1"] {
            assert_eq!(ExactDecimal::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(ExactDecimal::parse(&[0xff, b'1']), None);
        assert_eq!(ExactDecimal::parse("9".repeat(60).as_bytes()), None);
    }

    #[test]
    fn shifting_floors_exactly_and_never_overflows() {
        assert_eq!(decimal("0.0019").floor_shifted(3), Some(1));
        assert_eq!(decimal("1000.15").floor_shifted(1), Some(10_001));
        assert_eq!(decimal("1e-400").floor_shifted(3), Some(0));
        assert_eq!(decimal("1e400").floor_shifted(0), None);
        assert_eq!(decimal("0e400").floor_shifted(0), Some(0));
        assert_eq!(decimal("18446744073709551616").whole(), None);
        assert_eq!(decimal("2.000001").ceil(), Some(3));
        assert_eq!(decimal("2").ceil(), Some(2));
    }

    #[test]
    fn a_quotient_of_doubles_leads_back_to_the_whole() {
        for (whole, factor) in [(1_000u64, 3u64), (1_000, 10_000), (86_400_000_000, 7), (1, 9_999_999), (7, 1)] {
            let quotient = (whole as f64 / factor as f64).to_string();
            assert_eq!(decimal(&quotient).times_back_to_whole(factor), Some(whole), "{quotient}");
        }
        assert_eq!(decimal("0.25").times_back_to_whole(10), None);
        assert_eq!(decimal("-5").times_back_to_whole(10), None);
        assert_eq!(decimal("1e30").times_back_to_whole(10), None);
    }
}
