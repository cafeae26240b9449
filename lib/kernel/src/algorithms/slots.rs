//! `slots`: the sliding window of time slots of o1.rate-limiter, at most N in every interval of W - resolution.
//!
//! A charge is counted in the slot of its time, and a slot leaves at its start + W. A charge late in its slot therefore
//! counts for up to one resolution less than W. The state is a counter per slot in use, and a running total.

use super::{Algorithm, add_units, room_below};
use crate::log::{LogLook, LogState};
use crate::options::{AlgorithmOptions, LimitError, LimitField, Options, check_numbers};
use crate::ring::{Ring, WideEntry};
use crate::units::{Micros, Timestamp, Wait};

/// The most slots a window may have: each slot in use is an entry of 16 bytes, and a refund may move all of them.
const MAX_SLOTS: u64 = 100_000;
/// The most slots a window may have where nothing is refunded.
pub const MAX_SLOTS_UNREFUNDED: u64 = 10_000_000;
const EXAMPLE: &str = "5/h slots resolution=10min";

/// A limit of at most `count` units in the slots of one `period`.
#[derive(Clone, Debug, PartialEq)]
pub struct Slots {
    count: u64,
    period: Micros,
    resolution: Micros,
}

fn wrong(expected: impl Into<String>) -> LimitError {
    LimitError::new(LimitField::Option("resolution"), expected, EXAMPLE)
}

impl Slots {
    /// Builds a limit of up to [`MAX_SLOTS_UNREFUNDED`] slots, for dialects without refunds.
    pub fn unrefunded(count: u64, period: Micros, resolution: Micros) -> Result<Self, LimitError> {
        Self::of_at_most(MAX_SLOTS_UNREFUNDED, count, period, resolution)
    }

    fn of_at_most(slots: u64, count: u64, period: Micros, resolution: Micros) -> Result<Self, LimitError> {
        check_numbers(count, period, EXAMPLE)?;
        if resolution == Micros::ZERO || resolution > period {
            return Err(wrong("a resolution from 1us up to the period"));
        }
        if period.get() / resolution.get() > slots {
            let least = Micros::new(period.get().div_ceil(slots));
            return Err(wrong(format!("a resolution of at least {least}, which makes {slots} slots")));
        }
        Ok(Self { count, period, resolution })
    }

    /// Returns when a slot that began at that time leaves the window.
    fn leaves(&self, slot: u64) -> Timestamp {
        Timestamp::default().plus(Micros::new(slot)).plus(self.period)
    }

    fn slot(&self, now: Timestamp) -> u64 {
        now.floor_to(self.resolution).get()
    }

    fn slots(&self) -> u64 {
        self.period.get().div_ceil(self.resolution.get()) + 1
    }
}

impl Algorithm for Slots {
    const NAME: &'static str = "slots";
    const LUA: &'static str = include_str!("slots.lua");
    const TAKES: AlgorithmOptions = AlgorithmOptions { in_text: true, resolution: true, ..AlgorithmOptions::NONE };
    type State = LogState;
    type Log = Ring<WideEntry>;

    fn build(count: u64, period: Micros, options: &Options) -> Result<Self, LimitError> {
        let resolution = options.resolution.ok_or_else(|| wrong("resolution=PERIOD, which slots needs"))?;
        Self::of_at_most(MAX_SLOTS, count, period, resolution)
    }

    fn numbers(&self) -> (u64, Micros, Options) {
        (self.count, self.period, Options { resolution: Some(self.resolution), ..Options::default() })
    }

    fn correct(&self, state: &mut LogState, log: &Ring<WideEntry>, t: Timestamp) {
        state.correct(log, t, self.period, self.resolution);
    }

    type Look = LogLook;

    fn look(&self, state: &LogState, log: &Ring<WideEntry>, t: Timestamp) -> LogLook {
        state.look(log, t, |slot| self.leaves(slot))
    }

    fn room(&self, _state: &LogState, look: &LogLook) -> i64 {
        room_below(self.count, look.used)
    }

    fn wait(&self, state: &LogState, log: &Ring<WideEntry>, look: &LogLook, t: Timestamp, units: u64) -> Wait {
        state.wait(log, look, t, self.count, units, |slot| self.leaves(slot))
    }

    fn reset_after(&self, state: &LogState, log: &Ring<WideEntry>, look: &LogLook, t: Timestamp) -> Micros {
        if look.used == 0 {
            return Micros::ZERO;
        }
        // Refunds may have emptied the newest slots.
        let empty = state.first_with_at_most(log, look.live, 0);
        state.until(self.leaves(state.at(log, empty - 1)), t)
    }

    fn charge(&self, state: &mut LogState, log: &mut Ring<WideEntry>, look: &LogLook, t: Timestamp, units: u64) -> u64 {
        let recorded = add_units(look.used, units) - look.used;
        if recorded > 0 {
            // Slots that refunds have emptied need not be kept.
            state.drop_before(log, if look.used == 0 { log.len() } else { look.live });
            let now = state.now(t);
            state.append(log, now, self.slot(now), recorded, self.slots());
        }
        recorded
    }

    fn refund(&self, state: &mut LogState, log: &mut Ring<WideEntry>, t: Timestamp, units: u64, at: Timestamp) -> u64 {
        let slot = self.slot(state.log_time(at));
        if self.leaves(slot) <= state.now(t) {
            return 0;
        }
        state.forget_at(log, slot, units)
    }

    fn held(&self, state: &LogState, log: &Ring<WideEntry>, t: Timestamp) -> f64 {
        self.look(state, log, t).used as f64
    }

    fn most_in(&self, span: Micros) -> u64 {
        let exact = self.period.get() - self.resolution.get();
        if exact == 0 {
            return super::most_in_windows(self.count, self.resolution, span);
        }
        self.count.saturating_mul(span.get().div_ceil(exact))
    }

    fn promise(&self) -> Vec<String> {
        let exact = Micros::new(self.period.get() - self.resolution.get());
        let mut lines = Vec::new();
        if exact == Micros::ZERO {
            lines.push(format!("At most {} in each slot of {}, counted from the epoch.", self.count, self.resolution));
        } else {
            lines.push(format!("At most {} in every interval of {exact}: the period less one resolution.", self.count));
        }
        lines.push(format!(
            "Units used in one slot of {} come back together, {} after the slot began.",
            self.resolution, self.period
        ));
        lines.push(format!("At the edge of a slot up to {} may come back at once.", self.count));
        lines
    }

    fn log_bytes_at_most(&self) -> u64 {
        // Refused attempts that count may use every slot.
        self.slots().saturating_mul(32)
    }
}
