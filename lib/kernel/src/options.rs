//! The options that a limit may be built from besides count, period and algorithm, and the errors in them.

use crate::units::{EXACT, Micros};

/// Where fixed windows begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Align {
    /// The first request of a key opens a window.
    #[default]
    First,
    /// Windows are multiples of the period since the epoch, UTC; whole weeks begin on Monday.
    Clock,
}

/// The options of an algorithm; `None` means that an option was not given.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// The capacity (gcra), or the units at the start of a window (bucket).
    pub burst: Option<u64>,
    /// Events this close together share an entry (sliding).
    pub grain: Option<Micros>,
    /// The length of a slot (slots).
    pub resolution: Option<Micros>,
    /// The number by which a level is divided at each slot (decay).
    pub factor: Option<f64>,
    /// Where windows begin (fixed).
    pub align: Option<Align>,
    /// The number of cells of the grid (rolling).
    pub buckets: Option<u64>,
    /// A largest level that is not a whole number, used instead of the count (decay, set by its dialect).
    pub level: Option<f64>,
}

/// The options that an algorithm takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Takes {
    /// Whether policy text may name the algorithm.
    pub in_text: bool,
    /// Whether it takes `burst=N`.
    pub burst: bool,
    /// Whether it takes `grain=PERIOD`.
    pub grain: bool,
    /// Whether it takes `resolution=PERIOD`.
    pub resolution: bool,
    /// Whether it takes `factor=NUMBER`.
    pub factor: bool,
    /// Whether it takes `align=clock|first`.
    pub align: bool,
    /// Whether it takes buckets, which its dialect sets.
    pub buckets: bool,
}

impl Takes {
    /// No options, and not available in policy text.
    pub const NONE: Self = Self {
        in_text: false,
        burst: false,
        grain: false,
        resolution: false,
        factor: false,
        align: false,
        buckets: false,
    };
}

/// The part of a limit that is wrong, so that an error can point at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The count before the slash.
    Count,
    /// The period after the slash.
    Period,
    /// The option of this name, whether given or missing.
    Option(&'static str),
}

/// The reason why a limit cannot be built: the wrong part, what was expected of it, and a valid example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The part that is wrong.
    pub part: Part,
    /// What was expected of it.
    pub expected: String,
    /// A valid limit.
    pub example: &'static str,
}

impl Problem {
    pub(crate) fn new(part: Part, expected: impl Into<String>, example: &'static str) -> Self {
        Self { part, expected: expected.into(), example }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let part = match self.part {
            Part::Count => "count",
            Part::Period => "period",
            Part::Option(name) => name,
        };
        write!(f, "{part}: expected {}", self.expected)
    }
}

impl std::error::Error for Problem {}

/// The longest time in which a burst may refill or a level may fade: a little over ten years. Policy text stops at 366
/// days.
pub const MAX_TIME: Micros = Micros::from_secs(3_660 * 86_400);

/// Checks the numbers that all algorithms share. The kernel accepts counts from 0 to 2^53 and periods below 2^53 ticks,
/// more than policy text does, because the dialects need them.
pub(crate) fn check_numbers(count: u64, period: Micros, example: &'static str) -> Result<(), Problem> {
    if count > EXACT {
        return Err(Problem::new(Part::Count, "a count of at most 2^53", example));
    }
    if period == Micros::ZERO || period.get() >= EXACT {
        return Err(Problem::new(Part::Period, "a period of at least 1us and below 2^53us", example));
    }
    Ok(())
}
