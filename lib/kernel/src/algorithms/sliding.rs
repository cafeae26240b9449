//! `sliding`: at most N in every half-open interval of length W, exactly.
//!
//! A charge at `e` counts until `e + W`, and not a microsecond longer. With `grain=g` the charges of one cell of length
//! g share an entry, which leaves when the last microsecond of the cell has left: the promise holds, and a refusal
//! comes at most g early. Refused attempts that count (uniform mode) are kept up to 2N units in total, because each may
//! need an entry.

use super::{Algorithm, room_below};
use crate::log::{LogLook, LogState};
use crate::options::{AlgorithmOptions, LimitError, LimitField, Options, check_numbers};
use crate::ring::{NarrowEntry, Ring};
use crate::units::{Micros, Timestamp, Wait};

/// The most entries a log may need. At 12 bytes each, this is 12 MB per key.
pub const MAX_ENTRIES: u64 = 1_000_000;
/// The longest window: entries hold 48 bits of time, which may lie on either side of the newest.
const MAX_WINDOW: u64 = (1 << 47) - 1;
/// The largest count: entries hold 48 bits of units, and a log holds up to twice its count.
const MAX_UNITS: u64 = 1 << 46;
const GRAIN_EXAMPLE: &str = "5M/h grain=1s";

/// A limit of at most `count` units in every interval of length `period`.
#[derive(Clone, Debug, PartialEq)]
pub struct Sliding {
    count: u64,
    period: Micros,
    /// One microsecond if no grain was given: charges at one instant share an entry in any case.
    grain: Micros,
    /// The number of entries a log needs if only granted requests count.
    entries: u64,
}

impl Sliding {
    /// Builds a limit whose charges are of one unit each, so that its log grows with the requests made and not with the
    /// count. It is for the dialect `sliding_window`, whose counts have no bound.
    pub fn of_single_units(count: u64, period: Micros) -> Result<Self, LimitError> {
        check_numbers(count, period, "100/min")?;
        if period.get() > MAX_WINDOW {
            return Err(LimitError::new(LimitField::Period, "a window of at most 2^47us (1628 days)", "100/min"));
        }
        Ok(Self { count, period, grain: Micros::new(1), entries: count.min(period.get() + 1) })
    }

    /// Records units in the log, whether they fit or not and however many it holds.
    pub(crate) fn record(
        &self,
        state: &mut LogState,
        log: &mut Ring<NarrowEntry>,
        look: &LogLook,
        t: Timestamp,
        units: u64,
    ) {
        state.drop_before(log, look.live);
        let now = state.now(t);
        state.append(log, now, self.stamp(now), units, self.entries);
    }

    /// Returns when an entry of that time leaves the window.
    #[inline]
    fn leaves(&self, at: u64) -> Timestamp {
        Timestamp::default().plus(Micros::new(at)).plus(self.period)
    }

    /// Returns the stamp of a charge: the last microsecond of its cell.
    #[inline]
    fn stamp(&self, now: Timestamp) -> u64 {
        if self.grain == Micros::new(1) {
            return now.get();
        }
        now.floor_to(self.grain).get().saturating_add(self.grain.get() - 1)
    }
}

impl Algorithm for Sliding {
    const NAME: &'static str = "sliding";
    const LUA: &'static str = include_str!("sliding.lua");
    const TAKES: AlgorithmOptions = AlgorithmOptions { in_text: true, grain: true, ..AlgorithmOptions::NONE };
    type State = LogState;
    type Log = Ring<NarrowEntry>;

    fn build(count: u64, period: Micros, options: &Options) -> Result<Self, LimitError> {
        let mut sliding = Self::of_single_units(count, period)?;
        if count > MAX_UNITS {
            return Err(LimitError::new(LimitField::Count, "a count of at most 2^46 for sliding", GRAIN_EXAMPLE));
        }
        if let Some(grain) = options.grain {
            if grain == Micros::ZERO || grain > period {
                return Err(LimitError::new(
                    LimitField::Option("grain"),
                    "a grain from 1us up to the period",
                    GRAIN_EXAMPLE,
                ));
            }
            let is_coarse = grain > Micros::new(1);
            if is_coarse {
                // A window touches one cell more than it has, and a cell that has just left is still in the log.
                sliding.grain = grain;
                sliding.entries = count.min(period.get() / grain.get() + 2);
            }
            // A grain of 1us is none, and is not printed.
            if sliding.entries > MAX_ENTRIES || (count > MAX_ENTRIES && !is_coarse) {
                let least = Micros::new(period.get().div_ceil(MAX_ENTRIES - 2).max(2));
                let expected = format!("a grain of at least {least}");
                return Err(LimitError::new(LimitField::Option("grain"), expected, GRAIN_EXAMPLE));
            }
        } else if count > MAX_ENTRIES {
            let expected = "at most 1_000_000 for sliding without a grain (add grain=PERIOD, or use gcra)";
            return Err(LimitError::new(LimitField::Count, expected, GRAIN_EXAMPLE));
        }
        Ok(sliding)
    }

    fn numbers(&self) -> (u64, Micros, Options) {
        let grain = (self.grain > Micros::new(1)).then_some(self.grain);
        (self.count, self.period, Options { grain, ..Options::default() })
    }

    fn correct(&self, state: &mut LogState, log: &Ring<NarrowEntry>, t: Timestamp) {
        state.correct(log, t, self.period, Micros::new(1));
    }

    type Look = LogLook;

    #[inline]
    fn look(&self, state: &LogState, log: &Ring<NarrowEntry>, t: Timestamp) -> LogLook {
        state.look(log, t, |at| self.leaves(at))
    }

    #[inline]
    fn room(&self, _state: &LogState, look: &LogLook) -> i64 {
        room_below(self.count, look.used)
    }

    #[inline]
    fn wait(&self, state: &LogState, log: &Ring<NarrowEntry>, look: &LogLook, t: Timestamp, units: u64) -> Wait {
        state.wait(log, look, t, self.count, units, |at| self.leaves(at))
    }

    #[inline]
    fn reset_after(&self, state: &LogState, log: &Ring<NarrowEntry>, _look: &LogLook, t: Timestamp) -> Micros {
        match state.last(log) {
            Some(last) => state.until(self.leaves(last), t),
            None => Micros::ZERO,
        }
    }

    #[inline]
    fn charge(
        &self,
        state: &mut LogState,
        log: &mut Ring<NarrowEntry>,
        look: &LogLook,
        t: Timestamp,
        units: u64,
    ) -> u64 {
        let recorded = units.min((2 * self.count).saturating_sub(look.used));
        if recorded > 0 {
            self.record(state, log, look, t, recorded);
        }
        recorded
    }

    fn refund(
        &self,
        state: &mut LogState,
        log: &mut Ring<NarrowEntry>,
        t: Timestamp,
        units: u64,
        at: Timestamp,
    ) -> u64 {
        if state.log_time(at).plus(self.period) <= state.now(t) {
            return 0;
        }
        let look = self.look(state, log, t);
        let given = units.min(look.used);
        if given > 0 {
            state.forget_oldest(log, look.live, given);
        }
        given
    }

    fn held(&self, state: &LogState, log: &Ring<NarrowEntry>, t: Timestamp) -> f64 {
        self.look(state, log, t).used as f64
    }

    fn most_in(&self, span: Micros) -> u64 {
        self.count.saturating_mul(span.get().div_ceil(self.period.get()))
    }

    fn promise(&self) -> Vec<String> {
        let coarse = self.grain > Micros::new(1);
        let exact = if coarse { "" } else { ": exact" };
        let late = if coarse { format!(", or up to {} later", self.grain) } else { String::new() };
        let burst =
            if self.count == 1 { String::new() } else { format!("A burst may take all {} at once. ", self.count) };
        let mut lines = vec![
            format!("At most {} in every interval of {}, wherever it begins{exact}.", self.count, self.period),
            format!("{burst}Each unit comes back {} after it was used{late}.", self.period),
            "There is no window edge, so nothing happens at one.".to_owned(),
        ];
        if coarse {
            lines.push(format!(
                "Events of one {} share an entry: a refusal may come up to {} early, never late.",
                self.grain, self.grain
            ));
        }
        lines
    }

    fn log_bytes_at_most(&self) -> u64 {
        // 12 bytes per entry, 16 with the space that its blocks leave unused; twice the count in uniform mode.
        self.entries.saturating_mul(32)
    }
}
