//! `estimate`: two counters; the previous one is weighted by how much of its window still overlaps.
//!
//! The algorithm is cheap and smooth, but an estimate: it assumes that the previous window was used evenly, so up to
//! nearly 2N may pass in an interval of length W. At most N per clock window always holds.

use super::{Algorithm, add_units, most_in_windows};
use crate::options::{AlgorithmOptions, LimitError, Options, check_numbers};
use crate::units::{EXACT, Micros, Timestamp, Wait, muldiv};
use crate::words::{Reader, Words, Writer};

/// A limit of about `count` units in the last `period`.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    count: u64,
    period: Micros,
}

/// The start of the current clock window, and the units used in it and in the previous one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    start: Timestamp,
    previous: u64,
    current: u64,
}

/// The state at one point in time, and how much of the previous window still overlaps.
#[derive(Clone, Copy, Debug)]
pub struct EstimateLook {
    now: State,
    overlap: u64,
}

impl Words for State {
    fn write(&self, to: &mut Writer) {
        [self.start.get(), self.previous, self.current].into_iter().for_each(|word| to.put(word));
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(Self { start: from.moment()?, previous: from.at_most(EXACT)?, current: from.at_most(EXACT)? })
    }

    fn latest(&self) -> Timestamp {
        self.start
    }
}

impl Estimate {
    /// Returns the state as of `t`.
    fn at(&self, state: &State, t: Timestamp) -> EstimateLook {
        let window = self.period.get();
        // A state in which nothing is used has no window of its own.
        let used = state.previous > 0 || state.current > 0;
        let was = if used { state.start.floor_to(self.period) } else { Timestamp::default() };
        let now = t.max(was);
        let start = now.floor_to(self.period);
        let (previous, current) = match start.since(was).get() / window {
            0 => (state.previous, state.current),
            1 => (state.current, 0),
            _ => (0, 0),
        };
        EstimateLook { now: State { start, previous, current }, overlap: window - now.since(start).get() }
    }

    /// Returns the previous window's weighted count, rounded up.
    fn weighted(&self, previous: u64, overlap: u64) -> u64 {
        let (whole, rest) = muldiv(previous, overlap, self.period.get());
        whole + u64::from(rest > 0)
    }

    /// Returns the longest overlap at which `previous` weighs at most `units`.
    fn overlap_for(&self, previous: u64, units: u64) -> u64 {
        if previous <= units {
            return self.period.get();
        }
        muldiv(units, self.period.get(), previous).0
    }
}

impl Algorithm for Estimate {
    const NAME: &'static str = "estimate";
    const LUA: &'static str = include_str!("estimate.lua");
    const PACKS: bool = true;
    const TAKES: AlgorithmOptions = AlgorithmOptions { in_text: true, ..AlgorithmOptions::NONE };
    type State = State;
    type Log = ();

    fn build(count: u64, period: Micros, _options: &Options) -> Result<Self, LimitError> {
        check_numbers(count, period, "100/min estimate")?;
        Ok(Self { count, period })
    }

    fn numbers(&self) -> (u64, Micros, Options) {
        (self.count, self.period, Options::default())
    }

    fn correct(&self, state: &mut State, _log: &(), t: Timestamp) {
        let used = state.current > 0 || state.previous > 0;
        if used && state.start > t.plus(self.period) {
            // Moves the state to the next edge, so that it does not fade sooner than it would have.
            state.start = t.floor_to(self.period).plus(self.period);
        }
    }

    type Look = EstimateLook;

    fn look(&self, state: &State, _log: &(), t: Timestamp) -> EstimateLook {
        self.at(state, t)
    }

    fn room(&self, _state: &State, look: &EstimateLook) -> i64 {
        // The weighted part is at most `previous`; both counts are at most 2^53.
        self.count as i64 - look.now.current as i64 - self.weighted(look.now.previous, look.overlap) as i64
    }

    fn wait(&self, _state: &State, _log: &(), look: &EstimateLook, t: Timestamp, units: u64) -> Wait {
        if units > self.count {
            return Wait::Never;
        }
        let EstimateLook { now, overlap } = look;
        let window = self.period.get();
        let end = now.start.plus(self.period);
        if now.current + units <= self.count {
            let fits_at = self.overlap_for(now.previous, self.count - now.current - units);
            if *overlap <= fits_at {
                return Wait::NONE;
            }
            return Wait::After(now.start.plus(Micros::new(window - fits_at)).since(t));
        }
        let fits_at = self.overlap_for(now.current, self.count - units);
        Wait::After(end.plus(Micros::new(window - fits_at)).since(t))
    }

    fn reset_after(&self, _state: &State, _log: &(), look: &EstimateLook, t: Timestamp) -> Micros {
        let end = look.now.start.plus(self.period);
        if look.now.current > 0 {
            end.plus(self.period).since(t)
        } else if look.now.previous > 0 {
            end.since(t)
        } else {
            Micros::ZERO
        }
    }

    fn charge(&self, state: &mut State, _log: &mut (), look: &EstimateLook, _t: Timestamp, units: u64) -> u64 {
        *state = look.now;
        let used = state.current;
        state.current = add_units(used, units);
        state.current - used
    }

    fn refund(&self, state: &mut State, _log: &mut (), t: Timestamp, units: u64, at: Timestamp) -> u64 {
        let EstimateLook { mut now, .. } = self.at(state, t);
        let counter = if at >= now.start {
            &mut now.current
        } else if at.plus(self.period) >= now.start {
            &mut now.previous
        } else {
            return 0;
        };
        let given = units.min(*counter);
        *counter -= given;
        if given > 0 {
            *state = now;
        }
        given
    }

    fn held(&self, state: &State, _log: &(), t: Timestamp) -> f64 {
        let EstimateLook { now, overlap } = self.at(state, t);
        now.current as f64 + now.previous as f64 * overlap as f64 / self.period.get() as f64
    }

    fn most_in(&self, span: Micros) -> u64 {
        most_in_windows(self.count, self.period, span)
    }

    /// Returns `None` for counts beyond 32 bits, which only uniform mode reaches.
    #[inline]
    fn pack(&self, state: &State) -> Option<[u64; 2]> {
        let (previous, current) = (u32::try_from(state.previous).ok()?, u32::try_from(state.current).ok()?);
        Some([state.start.get(), u64::from(previous) << 32 | u64::from(current)])
    }

    #[inline]
    fn unpack(&self, [start, counts]: [u64; 2]) -> State {
        State { start: Timestamp::from_word(start), previous: counts >> 32, current: counts & u64::from(u32::MAX) }
    }

    fn promise(&self) -> Vec<String> {
        vec![
            format!("At most {} per clock window of {}.", self.count, self.period),
            format!(
                "Over an interval of {} it is an estimate, which takes the window before as evenly used: \
                 up to nearly {} may pass.",
                self.period,
                self.count.saturating_mul(2)
            ),
            format!("A burst may take all {} at once; at an edge nothing jumps.", self.count),
        ]
    }
}
