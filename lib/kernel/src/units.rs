//! The units of the kernel: every number has a unit, and every unit is a type.
//!
//! Raw integers besides these types are plain counts, or words of a state. All of them are at most [`EXACT`], because
//! the Lua twins of the algorithms compute in doubles.

use std::fmt;
use std::time::Duration;

/// The largest number up to which a double represents every integer exactly: 2^53.
pub const EXACT: u64 = 1 << 53;

/// A length of time in whole microseconds.
///
/// Dialects whose callers supply their own clock in their own unit count in that unit instead. The kernel never mixes
/// the two, since a state belongs to one dialect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Micros(u64);

impl Micros {
    /// A length of zero.
    pub const ZERO: Self = Self(0);

    /// Creates a length of `us` microseconds.
    pub const fn new(us: u64) -> Self {
        Self(us)
    }

    /// Creates a length of `s` seconds, saturating.
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000))
    }

    /// Creates a length of `ms` milliseconds, saturating.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000))
    }

    /// Returns the number of microseconds.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns whole seconds, rounded up. This is the only place where a wait becomes seconds, and it is never early.
    pub const fn secs_up(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }

    /// Returns the sum, saturating.
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl From<Micros> for Duration {
    fn from(span: Micros) -> Self {
        Self::from_micros(span.0)
    }
}

/// Rounds up to whole microseconds, saturating.
impl From<Duration> for Micros {
    fn from(span: Duration) -> Self {
        Self(u64::try_from(span.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX))
    }
}

/// Formats the length for people: `1.5s`, `250us`, `2h 30min`.
impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.0;
        if us < 1_000 {
            return write!(f, "{us}us");
        }
        if us < 1_000_000 {
            return decimal(f, us, 1_000, "ms");
        }
        if us < 60_000_000 {
            return decimal(f, us, 1_000_000, "s");
        }
        let mut rest = us;
        let mut parts = 0;
        for (size, unit) in [(86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "min")] {
            if rest >= size {
                let space = if parts > 0 { " " } else { "" };
                write!(f, "{space}{}{unit}", rest / size)?;
                rest %= size;
                parts += 1;
            }
        }
        if rest > 0 {
            write!(f, " ")?;
            decimal(f, rest, 1_000_000, "s")?;
        }
        Ok(())
    }
}

fn decimal(f: &mut fmt::Formatter<'_>, us: u64, size: u64, unit: &str) -> fmt::Result {
    let (whole, rest) = (us / size, us % size);
    if rest == 0 {
        return write!(f, "{whole}{unit}");
    }
    let digits = size.ilog10() as usize;
    let fraction = format!("{rest:0digits$}");
    write!(f, "{whole}.{}{unit}", fraction.trim_end_matches('0'))
}

/// A point in time: microseconds since the Unix epoch, by the clock of the home that decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The latest time that the kernel supports, in the year 2255.
    pub const MAX: Self = Self(EXACT - 1);

    /// Returns the time `us` microseconds after the epoch; `None` from the year 2255 on.
    pub const fn new(us: u64) -> Option<Self> {
        if us < EXACT { Some(Self(us)) } else { None }
    }

    /// Returns the time `us` microseconds after the epoch, or [`Timestamp::MAX`] if that is later.
    pub const fn saturating(us: u64) -> Self {
        if us < EXACT { Self(us) } else { Self::MAX }
    }

    /// Returns the timestamp of a word that was written from one.
    #[inline]
    pub(crate) const fn from_word(us: u64) -> Self {
        Self(us)
    }

    /// Returns the microseconds since the epoch.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the time from `earlier` to this timestamp; zero if `earlier` is in fact later.
    pub const fn since(self, earlier: Self) -> Micros {
        Micros(self.0.saturating_sub(earlier.0))
    }

    /// Returns the time `span` later. It may lie beyond [`Timestamp::MAX`], as an instant that is never reached.
    pub const fn plus(self, span: Micros) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// Returns the start of the cell of length `size` in which this time lies, counted from the epoch.
    pub(crate) const fn floor_to(self, size: Micros) -> Self {
        Self(self.0 - self.0 % size.0)
    }
}

/// How long until a request passes, or that no amount of waiting helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wait {
    /// The request passes after exactly this long, and not a microsecond earlier.
    After(Micros),
    /// The request asks for more than can ever fit.
    Never,
}

impl Wait {
    /// No wait: the request passes now.
    pub const NONE: Self = Self::After(Micros::ZERO);

    pub(crate) const fn us(us: u64) -> Self {
        Self::After(Micros(us))
    }

    /// Returns the wait as counted from `span` earlier.
    pub(crate) const fn plus(self, span: Micros) -> Self {
        match self {
            Self::After(wait) => Self::After(wait.plus(span)),
            Self::Never => Self::Never,
        }
    }

    /// Returns the wait in microseconds, -1 for never: the form of the flat reply.
    pub const fn as_flat(self) -> i64 {
        match self {
            // A wait is below 2^54: the kernel's periods and clock are below 2^53.
            Self::After(span) => span.0 as i64,
            Self::Never => -1,
        }
    }

    /// Returns the wait, or `None` if no wait helps.
    pub const fn span(self) -> Option<Micros> {
        match self {
            Self::After(span) => Some(span),
            Self::Never => None,
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(span) => span.fmt(f),
            Self::Never => f.write_str("never"),
        }
    }
}

/// Returns `floor(a * b / c)` and the remainder, exact for all values: the only product of the kernel that may exceed
/// 2^53. The Lua twin computes it as an exact two-part product. A quotient that does not fit saturates; no valid policy
/// reaches that.
#[inline]
pub const fn muldiv(a: u64, b: u64, c: u64) -> (u64, u64) {
    muldiv_add(a, b, 0, c)
}

/// Returns `floor((a * b + d) / c)` and the remainder: see [`muldiv`].
#[inline]
pub(crate) const fn muldiv_add(a: u64, b: u64, d: u64, c: u64) -> (u64, u64) {
    if let Some(product) = a.checked_mul(b)
        && let Some(sum) = product.checked_add(d)
    {
        return (sum / c, sum % c);
    }
    let sum = a as u128 * b as u128 + d as u128;
    let quotient = sum / c as u128;
    if quotient > u64::MAX as u128 {
        return (u64::MAX, 0);
    }
    (quotient as u64, (sum % c as u128) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_like_speech() {
        for (us, text) in [
            (0, "0us"),
            (250, "250us"),
            (1_500, "1.5ms"),
            (12_000_001, "12.000001s"),
            (60_000_000, "1min"),
            (9_000_000_000, "2h 30min"),
            (90_061_500_000, "1d 1h 1min 1.5s"),
        ] {
            assert_eq!(Micros::new(us).to_string(), text);
        }
    }

    #[test]
    fn muldiv_is_exact_beyond_64_bits() {
        assert_eq!(muldiv(7, 10, 3), (23, 1));
        let (q, r) = muldiv(EXACT - 1, 86_400_000_000, 1_000_000_007);
        let back = q as u128 * 1_000_000_007 + r as u128;
        assert_eq!(back, (EXACT - 1) as u128 * 86_400_000_000);
        assert_eq!(muldiv(u64::MAX, u64::MAX, 1), (u64::MAX, 0));
    }
}
