//! The events of `--at`: a time, and optionally a cost.

use tollgate_kernel::{Cost, Timestamp};

use crate::error::CliError;
use crate::moment;

/// The origin of offsets: 2024-01-01T00:00:00Z, a Monday, so that clock windows begin there.
pub(crate) const ORIGIN: u64 = 1_704_067_200_000_000;

/// One request to decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExplainEvent {
    /// The text as given, without blanks around it.
    pub(crate) text: String,
    /// Its time.
    pub(crate) at: Timestamp,
    /// Whether the time was given as an offset.
    pub(crate) offset: bool,
    /// The number of units it asks for.
    pub(crate) cost: Cost,
}

impl ExplainEvent {
    /// Parses `TIME[xCOST]`.
    pub(crate) fn parse(text: &str) -> Result<Self, CliError> {
        let text = text.trim();
        let wrong = |expected| CliError::Event { text: text.to_owned(), expected };
        let (time, cost) = match text.rsplit_once('x') {
            Some((time, units)) => {
                let digits = !units.is_empty() && units.bytes().all(|byte| byte.is_ascii_digit());
                let units = if digits { units.parse().ok() } else { None };
                let cost = units.and_then(Cost::new);
                (time.trim_end(), cost.ok_or_else(|| wrong("a cost from 0 to 2^53 - 1 behind the x"))?)
            }
            None => (text, Cost::ONE),
        };
        let (us, offset) = match offset(time) {
            Some(us) => (ORIGIN.checked_add(us), true),
            None => (moment::parse(time), false),
        };
        let at = us.and_then(Timestamp::new).ok_or_else(|| wrong("a time such as 1.5s, 2min or RFC 3339"))?;
        Ok(Self { text: text.to_owned(), at, offset, cost })
    }

    /// Returns the time in microseconds: since the origin if it was an offset, else since 1970.
    pub(crate) fn shown_us(&self) -> u64 {
        if self.offset { self.at.get() - ORIGIN } else { self.at.get() }
    }
}

/// Refuses events that mix offsets and dates.
pub(crate) fn refuse_mixture(events: &[ExplainEvent]) -> Result<(), CliError> {
    let Some(first) = events.first() else { return Ok(()) };
    match events.iter().find(|event| event.offset != first.offset) {
        Some(other) => {
            let expected = if first.offset { "an offset like the first event" } else { "a date like the first event" };
            Err(CliError::Event { text: other.text.clone(), expected })
        }
        None => Ok(()),
    }
}

/// Parses `1500ms`, `4.5s` and similar to microseconds; decimals finer than a microsecond are refused.
fn offset(text: &str) -> Option<u64> {
    let split = text.find(|char: char| !char.is_ascii_digit() && char != '.')?;
    let (number, unit) = text.split_at(split);
    let size = tollgate_kernel::unit(unit.trim_start())?.get();
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let scale = 10u64.checked_pow(u32::try_from(decimals.len()).ok()?)?;
    let part: u64 = decimals.parse().ok()?;
    let part = part.checked_mul(size)?;
    let whole: u64 = whole.parse().ok()?;
    if !part.is_multiple_of(scale) {
        return None;
    }
    whole.checked_mul(size)?.checked_add(part / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_times_and_costs() {
        for (text, us, cost) in [
            ("0s", 0, 1),
            ("1500ms", 1_500_000, 1),
            ("4.5s", 4_500_000, 1),
            (" 2minx5 ", 120_000_000, 5),
            ("2min x5", 120_000_000, 5),
            ("0.000001sx0", 1, 0),
            ("1.25h", 4_500_000_000, 1),
            ("7us", 7, 1),
            ("1w", 604_800_000_000, 1),
        ] {
            let event = ExplainEvent::parse(text).unwrap();
            assert_eq!((event.shown_us(), event.cost.get(), event.offset), (us, cost, true), "{text}");
        }
        let event = ExplainEvent::parse("2026-01-05T09:00:00Zx3").unwrap();
        assert_eq!((event.shown_us(), event.cost.get(), event.offset), (1_767_603_600_000_000, 3, false));
    }

    #[test]
    fn wrong_events_are_refused() {
        for text in [
            "",
            "s",
            "5",
            "x5",
            "5sx",
            "5sx-1",
            "5sx+1",
            "5s5",
            "-5s",
            "1e3s",
            "5parsec",
            "0.0000001s",
            ".5s",
            "5.s",
            "1.2.3s",
            "9999999999999d",
            "300y",
            "5sx9007199254740992",
            "2026-01-05T09:00:00",
            "99999w",
        ] {
            assert!(matches!(ExplainEvent::parse(text), Err(CliError::Event { .. })), "{text}");
        }
        let events: Vec<_> =
            ["0s", "2026-01-05T09:00:00Z"].iter().map(|text| ExplainEvent::parse(text).unwrap()).collect();
        assert!(refuse_mixture(&events).is_err());
        assert!(refuse_mixture(&events[1..]).is_ok());
    }
}
