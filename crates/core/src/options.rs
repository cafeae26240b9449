//! What a limit may be built from besides count, period and algorithm, and what can be wrong
//! with it.

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

/// The options of an algorithm; what is `None` was not given.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// Capacity (gcra) or units at the start of a window (bucket).
    pub burst: Option<u64>,
    /// Events this close together share an entry (sliding).
    pub grain: Option<Micros>,
    /// Length of a slot (slots).
    pub resolution: Option<Micros>,
    /// What a level is divided by each slot (decay).
    pub factor: Option<f64>,
    /// Where windows begin (fixed).
    pub align: Option<Align>,
    /// Cells of the grid (rolling).
    pub buckets: Option<u64>,
    /// A largest level that is no whole number, instead of the count (decay, by its dialect).
    pub level: Option<f64>,
}

/// Which options an algorithm takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Takes {
    /// Whether policy text may name the algorithm.
    pub in_text: bool,
    /// `burst=N`.
    pub burst: bool,
    /// `grain=PERIOD`.
    pub grain: bool,
    /// `resolution=PERIOD`.
    pub resolution: bool,
    /// `factor=NUMBER`.
    pub factor: bool,
    /// `align=clock|first`.
    pub align: bool,
    /// Buckets, by its dialect.
    pub buckets: bool,
}

impl Takes {
    /// No option, and not in policy text.
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
    /// The period behind the slash.
    Period,
    /// The option of this name, given or missing.
    Option(&'static str),
}

/// Why a limit cannot be built: which part, what was expected of it, and a limit that is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The part that is wrong.
    pub part: Part,
    /// What was expected of it.
    pub expected: String,
    /// A limit that is right.
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

/// The longest period of the kernel: ten years and a bit. Policy text stops at 366 days.
pub const LONGEST: Micros = Micros::from_secs(3_660 * 86_400);

/// Checks the numbers every algorithm shares. The kernel takes counts from 0 to 2^53 and periods
/// up to 2^53 ticks, more than the text, because the dialects need them.
pub(crate) fn check_numbers(count: u64, period: Micros, example: &'static str) -> Result<(), Problem> {
    if count > EXACT {
        return Err(Problem::new(Part::Count, "a count of at most 2^53", example));
    }
    if period == Micros::ZERO || period.get() >= EXACT {
        return Err(Problem::new(Part::Period, "a period of at least 1us and below 2^53us", example));
    }
    Ok(())
}
