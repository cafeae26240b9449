//! The options that a limit may be built from besides count, period and algorithm, and the errors in them.

use crate::units::{EXACT, Micros};

/// Where fixed windows begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Alignment {
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
    pub align: Option<Alignment>,
    /// The number of cells of the grid (rolling).
    pub buckets: Option<u64>,
    /// A largest level that is not a whole number, used instead of the count (decay, set by its dialect).
    pub level: Option<f64>,
}

/// The options that an algorithm takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlgorithmOptions {
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

impl AlgorithmOptions {
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

/// The field of a limit that is wrong, so that an error can point at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitField {
    /// The count before the slash.
    Count,
    /// The period after the slash.
    Period,
    /// The option of this name, whether given or missing.
    Option(&'static str),
}

/// The reason why a limit cannot be built: the wrong field, what was expected of it, and a valid example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitError {
    /// The field that is wrong.
    pub field: LimitField,
    /// What was expected of it.
    pub expected: String,
    /// A valid limit.
    pub example: &'static str,
}

impl LimitError {
    pub(crate) fn new(field: LimitField, expected: impl Into<String>, example: &'static str) -> Self {
        Self { field, expected: expected.into(), example }
    }
}

impl std::fmt::Display for LimitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let field = match self.field {
            LimitField::Count => "count",
            LimitField::Period => "period",
            LimitField::Option(name) => name,
        };
        write!(f, "{field}: expected {}", self.expected)
    }
}

impl std::error::Error for LimitError {}

/// The longest time in which a burst may refill or a level may fade: a little over ten years. Policy text stops at 366
/// days.
pub const MAX_TIME: Micros = Micros::from_secs(3_660 * 86_400);

/// Checks the numbers that all algorithms share. The kernel accepts counts from 0 to 2^53 and periods below 2^53 ticks,
/// more than policy text does, because the dialects need them.
pub(crate) fn check_numbers(count: u64, period: Micros, example: &'static str) -> Result<(), LimitError> {
    if count > EXACT {
        return Err(LimitError::new(LimitField::Count, "a count of at most 2^53", example));
    }
    if period == Micros::ZERO || period.get() >= EXACT {
        return Err(LimitError::new(LimitField::Period, "a period of at least 1us and below 2^53us", example));
    }
    Ok(())
}
