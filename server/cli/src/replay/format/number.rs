//! Numbers of a log, exactly as written, without a conversion to binary fractions, so that the times of a file do not
//! depend on how a parser rounds.

use tollgate_kernel::EXACT;

/// A decimal number of at least zero: its whole part and its first six decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogNumber {
    /// The whole part.
    pub(crate) whole: u64,
    /// The first six decimals, rounded down.
    pub(crate) millionths: u32,
    /// Whether there are nonzero digits behind them.
    pub(crate) more: bool,
}

/// The largest number of decimal places considered: beyond it a number is too large, or zero.
const MAX_PLACES: i64 = 1_000;

impl LogNumber {
    /// Parses a JSON number; returns `None` if it is below zero or its whole part is 2^64 or more.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            // An exponent that does not fit is far beyond all places, on the side of its sign.
            Some((mantissa, exponent)) => (mantissa, exponent.parse().unwrap_or(far(exponent))),
            None => (text, 0i64),
        };
        let (negative, mantissa) = match mantissa.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, mantissa),
        };
        let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits: Vec<u8> = before.bytes().chain(after.bytes()).map(|byte| byte.wrapping_sub(b'0')).collect();
        let Some(first) = digits.iter().position(|&digit| digit != 0) else {
            return Some(Self { whole: 0, millionths: 0, more: false });
        };
        if negative {
            return None;
        }
        // The place of the decimal point among the digits from the first that is not zero.
        let point = (before.len() as i64 - first as i64).saturating_add(exponent).clamp(-MAX_PLACES, MAX_PLACES);
        scaled(&digits[first..], point)
    }

    /// Returns the number, if it is whole and below 2^53.
    pub(crate) fn exact(self) -> Option<u64> {
        (self.millionths == 0 && !self.more && self.whole < EXACT).then_some(self.whole)
    }
}

fn far(exponent: &str) -> i64 {
    if exponent.starts_with('-') { -MAX_PLACES } else { MAX_PLACES }
}

/// Returns the value of `digits`, the first of them not zero, with the decimal point before the digit at `point`.
fn scaled(digits: &[u8], point: i64) -> Option<LogNumber> {
    let digit = |place: i64| usize::try_from(place).ok().and_then(|place| digits.get(place)).copied().unwrap_or(0);
    let mut whole = 0u64;
    for place in 0..point {
        whole = whole.checked_mul(10)?.checked_add(u64::from(digit(place)))?;
    }
    let millionths = (point..point + 6).fold(0, |sum, place| 10 * sum + u32::from(digit(place)));
    let rest = usize::try_from(point + 6).unwrap_or(0);
    let more = digits.iter().skip(rest).any(|&digit| digit != 0);
    Some(LogNumber { whole, millionths, more })
}

/// The unit of times that are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeUnit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
    /// Nanoseconds.
    Nanos,
}

impl TimeUnit {
    /// Returns the unit in which `time` is a present-day time: seconds reach 10^11 in the year 5138, and milliseconds
    /// passed it in 1973. Small numbers are seconds since the log began.
    pub(crate) fn of(time: LogNumber) -> Self {
        match time.whole {
            0..100_000_000_000 => Self::Seconds,
            100_000_000_000..100_000_000_000_000 => Self::Millis,
            100_000_000_000_000..100_000_000_000_000_000 => Self::Micros,
            _ => Self::Nanos,
        }
    }

    /// Returns the short name of `--time-unit`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Millis => "ms",
            Self::Micros => "us",
            Self::Nanos => "ns",
        }
    }

    /// Returns the name in full.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Millis => "milliseconds",
            Self::Micros => "microseconds",
            Self::Nanos => "nanoseconds",
        }
    }

    /// Converts to whole microseconds, rounded down; returns `None` from 2^53 on.
    pub(crate) fn micros(self, time: LogNumber) -> Option<u64> {
        let us = match self {
            Self::Seconds => time.whole.checked_mul(1_000_000)?.checked_add(u64::from(time.millionths))?,
            Self::Millis => time.whole.checked_mul(1_000)?.checked_add(u64::from(time.millionths / 1_000))?,
            Self::Micros => time.whole,
            Self::Nanos => time.whole / 1_000,
        };
        (us < EXACT).then_some(us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(whole: u64, millionths: u32, more: bool) -> Option<LogNumber> {
        Some(LogNumber { whole, millionths, more })
    }

    #[test]
    fn decimals_are_read_exactly() {
        for (text, expected) in [
            ("0", decimal(0, 0, false)),
            ("-0.0", decimal(0, 0, false)),
            ("-0.0e5", decimal(0, 0, false)),
            ("1.5", decimal(1, 500_000, false)),
            ("1700000000.1234567", decimal(1_700_000_000, 123_456, true)),
            ("1.70000000012345e9", decimal(1_700_000_000, 123_450, false)),
            ("17E-1", decimal(1, 700_000, false)),
            ("0.00017e+4", decimal(1, 700_000, false)),
            ("12345e-9", decimal(0, 12, true)),
            ("1e-7", decimal(0, 0, true)),
            ("1e-99999999999999999999", decimal(0, 0, true)),
            ("18446744073709551615", decimal(u64::MAX, 0, false)),
            ("18446744073709551616", None),
            ("1e999999999999999999999", None),
            ("0e999999999999999999999", decimal(0, 0, false)),
            ("-1", None),
            ("-1e-30", None),
        ] {
            assert_eq!(LogNumber::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn only_whole_numbers_below_2_to_the_53_are_costs() {
        for (text, expected) in
            [("5", Some(5)), ("5.0", Some(5)), ("5e3", Some(5_000)), ("0.5", None), ("1e-9", None), ("1e16", None)]
        {
            assert_eq!(LogNumber::parse(text).and_then(LogNumber::exact), expected, "{text}");
        }
    }

    #[test]
    fn units_are_guessed_by_magnitude_and_kept_exact() {
        for (text, unit, us) in [
            ("0", TimeUnit::Seconds, 0),
            ("12.0000019", TimeUnit::Seconds, 12_000_001),
            ("1700000000.123456", TimeUnit::Seconds, 1_700_000_000_123_456),
            ("1700000000123.4567", TimeUnit::Millis, 1_700_000_000_123_456),
            ("1700000000123456", TimeUnit::Micros, 1_700_000_000_123_456),
            ("1700000000123456999", TimeUnit::Nanos, 1_700_000_000_123_456),
        ] {
            let time = LogNumber::parse(text).unwrap();
            assert_eq!((TimeUnit::of(time), TimeUnit::of(time).micros(time)), (unit, Some(us)), "{text}");
        }
        assert_eq!(TimeUnit::Seconds.micros(LogNumber::parse("9007199254.740991").unwrap()), Some((1 << 53) - 1));
        assert_eq!(TimeUnit::Seconds.micros(LogNumber::parse("9007199254.740992").unwrap()), None);
        assert_eq!(TimeUnit::Seconds.micros(LogNumber::parse("18446744073709551615").unwrap()), None);
    }
}
