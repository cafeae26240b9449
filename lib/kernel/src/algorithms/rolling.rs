//! `rolling`: a sliding window on a grid, with half a bucket of slack, as the rolling limiter with modes has it. It is
//! available only through its dialect.
//!
//! The interval is split into buckets; the first charge of an empty list anchors a grid of that step. A charge joins
//! the newest entry while that entry's time + step is not past; otherwise it opens an entry on the grid. An entry
//! leaves an interval and half a step after its time. The step need not be a whole number of microseconds, so entries
//! store the numbers of grid cells.

use super::{Algorithm, add_units, room_below};
use crate::log::{LogLook, LogState};
use crate::options::{AlgorithmOptions, LimitError, LimitField, Options, check_numbers};
use crate::ring::{Ring, WideEntry};
use crate::units::{Micros, Timestamp, Wait, muldiv};
use crate::words::{Reader, Words, Writer};

/// The most buckets an interval may have: each bucket in use is an entry of 16 bytes.
pub const MAX_BUCKETS: u64 = 10_000_000;
const DEFAULT_BUCKETS: u64 = 10_000;
const EXAMPLE: &str = "interval 1000, maxInInterval 10, buckets 10000";

/// A limit of at most `count` units in an interval of `period`, sampled on a grid of `buckets` cells.
#[derive(Clone, Debug, PartialEq)]
pub struct Rolling {
    count: u64,
    period: Micros,
    buckets: u64,
    /// How long an entry counts after its time: the interval and half a step.
    life: Micros,
}

/// The header of the log, and the time at which its grid begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    head: LogState,
    anchor: Timestamp,
}

impl Words for State {
    fn write(&self, to: &mut Writer) {
        self.head.write(to);
        to.put(self.anchor.get());
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(Self { head: Words::read(from)?, anchor: Timestamp::from_word(from.take()?) })
    }

    fn latest(&self) -> Timestamp {
        self.head.latest()
    }

    fn newest(&self) -> u64 {
        self.head.newest()
    }

    fn total(&self) -> u64 {
        self.head.total()
    }
}

impl Rolling {
    /// Returns the first time not before the cell's time, which is anchor + cell * period / buckets.
    fn cell_time_up(&self, state: &State, cell: u64) -> Timestamp {
        let (whole, rest) = muldiv(cell, self.period.get(), self.buckets);
        state.anchor.plus(Micros::new(whole.saturating_add(u64::from(rest > 0))))
    }

    fn leaves(&self, state: &State, cell: u64) -> Timestamp {
        self.cell_time_up(state, cell).plus(self.life)
    }

    /// Returns the cell that a charge at `now` belongs to, given the newest cell in use.
    fn cell(&self, state: &State, newest: Option<u64>, now: Timestamp) -> u64 {
        let since = now.since(state.anchor).get();
        match newest {
            // The time of the newest cell + one step >= now.
            Some(cell) if now <= self.cell_time_down(state, cell.saturating_add(1)) => cell,
            _ => muldiv(since, self.buckets, self.period.get()).0,
        }
    }

    fn cell_time_down(&self, state: &State, cell: u64) -> Timestamp {
        state.anchor.plus(Micros::new(muldiv(cell, self.period.get(), self.buckets).0))
    }
}

impl Algorithm for Rolling {
    const NAME: &'static str = "rolling";
    const LUA: &'static str = include_str!("rolling.lua");
    const TAKES: AlgorithmOptions = AlgorithmOptions { buckets: true, ..AlgorithmOptions::NONE };
    type State = State;
    type Log = Ring<WideEntry>;

    fn build(count: u64, period: Micros, options: &Options) -> Result<Self, LimitError> {
        check_numbers(count, period, EXAMPLE)?;
        let buckets = options.buckets.unwrap_or(DEFAULT_BUCKETS);
        if buckets == 0 || buckets > MAX_BUCKETS {
            return Err(LimitError::new(LimitField::Option("buckets"), format!("1 to {MAX_BUCKETS} buckets"), EXAMPLE));
        }
        let half = period.get() / buckets.saturating_mul(2);
        Ok(Self { count, period, buckets, life: period.plus(Micros::new(half)) })
    }

    fn numbers(&self) -> (u64, Micros, Options) {
        let buckets = (self.buckets != DEFAULT_BUCKETS).then_some(self.buckets);
        (self.count, self.period, Options { buckets, ..Options::default() })
    }

    fn correct(&self, state: &mut State, log: &Ring<WideEntry>, t: Timestamp) {
        state.head.correct(log, t, self.life, Micros::new(1));
    }

    type Look = LogLook;

    fn look(&self, state: &State, log: &Ring<WideEntry>, t: Timestamp) -> LogLook {
        state.head.look(log, t, |cell| self.leaves(state, cell))
    }

    fn room(&self, _state: &State, look: &LogLook) -> i64 {
        room_below(self.count, look.used)
    }

    fn wait(&self, state: &State, log: &Ring<WideEntry>, look: &LogLook, t: Timestamp, units: u64) -> Wait {
        state.head.wait(log, look, t, self.count, units, |cell| self.leaves(state, cell))
    }

    fn reset_after(&self, state: &State, log: &Ring<WideEntry>, _look: &LogLook, t: Timestamp) -> Micros {
        match state.head.last(log) {
            Some(cell) => state.head.until(self.leaves(state, cell), t),
            None => Micros::ZERO,
        }
    }

    fn charge(&self, state: &mut State, log: &mut Ring<WideEntry>, look: &LogLook, t: Timestamp, units: u64) -> u64 {
        let recorded = add_units(look.used, units) - look.used;
        if recorded > 0 {
            state.head.drop_before(log, look.live);
            let now = state.head.now(t);
            if log.is_empty() {
                state.anchor = now;
            }
            let cell = self.cell(state, state.head.last(log), now);
            state.head.append(log, now, cell, recorded, self.buckets + 2);
        }
        recorded
    }

    fn refund(&self, state: &mut State, log: &mut Ring<WideEntry>, t: Timestamp, units: u64, at: Timestamp) -> u64 {
        let LogLook { live, used } = self.look(state, log, t);
        // A charge joins an entry that is not later, so it is still held only if such an entry is.
        if live < log.len() && self.cell_time_up(state, state.head.at(log, live)) > state.head.log_time(at) {
            return 0;
        }
        let given = units.min(used);
        if given > 0 {
            state.head.forget_oldest(log, live, given);
        }
        given
    }

    fn held(&self, state: &State, log: &Ring<WideEntry>, t: Timestamp) -> f64 {
        self.look(state, log, t).used as f64
    }

    fn most_in(&self, span: Micros) -> u64 {
        // The stamp of a charge may be up to one step before its time.
        let step = self.period.get().div_ceil(self.buckets);
        let exact = self.life.get() - step;
        if exact == 0 {
            return super::most_in_windows(self.count, Micros::new(1), span);
        }
        self.count.saturating_mul(span.get().div_ceil(exact))
    }

    fn promise(&self) -> Vec<String> {
        let step = Micros::new(self.period.get() / self.buckets);
        vec![
            format!("At most {} in every interval of {}, sampled on a grid of {step}.", self.count, self.period),
            "A unit comes back between half a step before and half a step after the interval.".to_owned(),
        ]
    }

    fn log_bytes_at_most(&self) -> u64 {
        (self.buckets + 2).saturating_mul(32)
    }
}
