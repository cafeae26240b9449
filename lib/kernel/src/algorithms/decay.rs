//! `decay`: the AR(1) moving average of o1.rate-limiter; the decayed count is at most N.
//!
//! The level is divided by the factor at the edge of each slot; a level below 2^-53 is treated as zero. The level is a
//! double, and the sequence of double operations is fixed (powers by squaring), so that every home computes the same
//! bits.

use super::Algorithm;
use crate::options::{AlgorithmOptions, LimitError, LimitField, MAX_TIME, Options, check_numbers};
use crate::units::{EXACT, Micros, Timestamp, Wait};
use crate::words::{Reader, Words, Writer};

const EXAMPLE: &str = "100/10s decay factor=2";
/// The highest level that refused attempts can reach: twice the largest limit.
const HIGHEST: f64 = 2.0 * EXACT as f64;
/// A level below this is treated as zero.
const NOTHING: f64 = 1.0 / EXACT as f64;

/// A limit by level: at most `most`, divided by `factor` every `period`.
#[derive(Clone, Debug, PartialEq)]
pub struct Decay {
    count: u64,
    /// The largest level: the count, or a fractional value set by the dialect.
    most: f64,
    period: Micros,
    factor: f64,
    /// The time in which a full level decays to zero.
    fades: Micros,
}

/// The start of a slot, and the level in it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct State {
    start: Timestamp,
    level: f64,
}

impl Words for State {
    fn write(&self, to: &mut Writer) {
        to.put(self.start.get());
        to.put(self.level.to_bits());
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let (start, level) = (from.moment()?, f64::from_bits(from.take()?));
        (0.0..=HIGHEST).contains(&level).then_some(Self { start, level })
    }

    fn latest(&self) -> Timestamp {
        self.start
    }
}

impl Decay {
    fn slot(&self, t: Timestamp) -> u64 {
        t.get() / self.period.get()
    }

    fn slot_start(&self, slot: u64) -> Timestamp {
        Timestamp::default().plus(Micros::new(slot.saturating_mul(self.period.get())))
    }

    /// Returns the level `slots` slots after the state's own slot.
    fn level_after(&self, state: &State, slots: u64) -> f64 {
        let level = state.level / power(self.factor, slots);
        if level < NOTHING { 0.0 } else { level }
    }

    /// Returns the number of slots from the state's own slot to the slot of `t`.
    fn slots_since(&self, state: &State, t: Timestamp) -> u64 {
        self.slot(t.max(state.start)) - self.slot(state.start)
    }

    fn level(&self, state: &State, t: Timestamp) -> f64 {
        self.level_after(state, self.slots_since(state, t))
    }

    fn has_room(&self, level: f64, units: u64) -> bool {
        level + units as f64 <= self.most
    }

    /// Returns the time from `t` until the first slot in which `good` holds for the level, not considering the slot of
    /// `t`.
    fn until(&self, state: &State, t: Timestamp, good: impl Fn(f64) -> bool) -> Micros {
        let since = self.slots_since(state, t);
        let Some(slots) = first_slot(since, |slots| good(self.level_after(state, slots))) else {
            return Micros::new(EXACT);
        };
        self.slot_start(self.slot(state.start) + slots).since(t)
    }
}

/// Returns `base` to the power of `exponent`, computed by squaring; infinity if the result is too large.
fn power(base: f64, exponent: u64) -> f64 {
    let (mut result, mut square, mut rest) = (1.0, base, exponent);
    while rest > 0 {
        if rest % 2 == 1 {
            result *= square;
        }
        square *= square;
        rest /= 2;
    }
    result
}

/// Returns the least number above `since` for which `good` holds, or `None` if it holds for none below 2^53.
fn first_slot(since: u64, good: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut low, mut step) = (since, 1);
    let mut high = loop {
        let probe = since + step;
        if good(probe) {
            break probe;
        }
        if probe >= EXACT {
            return None;
        }
        low = probe;
        step *= 2;
    };
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if good(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}

impl Algorithm for Decay {
    const NAME: &'static str = "decay";
    const LUA: &'static str = include_str!("decay.lua");
    const PACKS: bool = true;
    const TAKES: AlgorithmOptions = AlgorithmOptions { in_text: true, factor: true, ..AlgorithmOptions::NONE };
    type State = State;
    type Log = ();

    fn build(count: u64, period: Micros, options: &Options) -> Result<Self, LimitError> {
        check_numbers(count, period, EXAMPLE)?;
        let wrong = |expected: String| LimitError::new(LimitField::Option("factor"), expected, EXAMPLE);
        let factor = options.factor.ok_or_else(|| wrong("factor=NUMBER, which decay needs".to_owned()))?;
        if !(factor > 1.0 && factor <= 1e9) {
            return Err(wrong("a factor above 1 and at most 1e9".to_owned()));
        }
        let most = options.level.unwrap_or(count as f64);
        if !(0.0..=EXACT as f64).contains(&most) {
            return Err(LimitError::new(LimitField::Count, "a largest level from 0 to 2^53", EXAMPLE));
        }
        let full = State { start: Timestamp::default(), level: most.max(1.0) };
        let mut decay = Self { count, most, period, factor, fades: Micros::ZERO };
        decay.fades = decay.until(&full, Timestamp::default(), |level| level == 0.0);
        if decay.fades > MAX_TIME {
            return Err(wrong("a factor by which a full level fades away within 3660 days".to_owned()));
        }
        Ok(decay)
    }

    fn numbers(&self) -> (u64, Micros, Options) {
        let level = (self.most != self.count as f64).then_some(self.most);
        (self.count, self.period, Options { factor: Some(self.factor), level, ..Options::default() })
    }

    fn correct(&self, state: &mut State, _log: &(), t: Timestamp) {
        if state.level > 0.0 && state.start > t.plus(self.fades) {
            // Moves the state to the next edge, so that it does not decay sooner than it would have.
            state.start = self.slot_start(self.slot(t) + 1);
        }
    }

    /// The level at the time of the look.
    type Look = f64;

    fn look(&self, state: &State, _log: &(), t: Timestamp) -> f64 {
        self.level(state, t)
    }

    fn room(&self, _state: &State, level: &f64) -> i64 {
        let room = (self.most - level).floor();
        // The difference is rounded, but what matters is whether the sum fits, so the result is adjusted by one if
        // needed.
        let room = room as i64;
        if room >= 0 && !self.has_room(*level, room.cast_unsigned()) {
            return room - 1;
        }
        if room >= -1 && self.has_room(*level, (room + 1).cast_unsigned()) {
            return room + 1;
        }
        room
    }

    fn fits(&self, _state: &State, level: &f64, units: u64) -> bool {
        self.has_room(*level, units)
    }

    fn wait(&self, state: &State, _log: &(), level: &f64, t: Timestamp, units: u64) -> Wait {
        if units as f64 > self.most {
            return Wait::Never;
        }
        if self.has_room(*level, units) {
            return Wait::NONE;
        }
        Wait::After(self.until(state, t, |level| self.has_room(level, units)))
    }

    fn reset_after(&self, state: &State, _log: &(), level: &f64, t: Timestamp) -> Micros {
        if *level == 0.0 {
            return Micros::ZERO;
        }
        self.until(state, t, |level| level == 0.0)
    }

    fn charge(&self, state: &mut State, _log: &mut (), level: &f64, t: Timestamp, units: u64) -> u64 {
        // A state that has decayed to zero starts again at the home's clock.
        let now = if *level > 0.0 { t.max(state.start) } else { t };
        *state = State { start: self.slot_start(self.slot(now)), level: (level + units as f64).min(HIGHEST) };
        units
    }

    fn refund(&self, state: &mut State, _log: &mut (), t: Timestamp, units: u64, at: Timestamp) -> u64 {
        if self.slots_since(state, t) > 0 || self.slot(at) != self.slot(state.start) {
            return 0;
        }
        // A level is never below zero.
        let given = units.min(state.level.floor() as u64);
        state.level -= given as f64;
        given
    }

    fn held(&self, state: &State, _log: &(), t: Timestamp) -> f64 {
        self.level(state, t)
    }

    fn most_in(&self, span: Micros) -> u64 {
        super::most_in_windows(self.most.floor() as u64, self.period, span)
    }

    #[inline]
    fn pack(&self, state: &State) -> Option<[u64; 2]> {
        Some([state.start.get(), state.level.to_bits()])
    }

    #[inline]
    fn unpack(&self, [start, level]: [u64; 2]) -> State {
        State { start: Timestamp::from_word(start), level: f64::from_bits(level) }
    }

    fn promise(&self) -> Vec<String> {
        let rate = self.most * (1.0 - 1.0 / self.factor);
        let across = (self.most + rate).floor();
        vec![
            format!(
                "A level of at most {}; each unit adds one, and every {} the level is divided by {}.",
                self.most, self.period, self.factor
            ),
            format!("At most {across} in every interval of {}: a full level, and what one edge frees.", self.period),
            format!(
                "A burst may take {} at once; the long-run rate is {rate:.3} per {}.",
                self.most.floor(),
                self.period
            ),
            format!(
                "The level falls at the edges of slots of {}; a full one fades away in {}.",
                self.period, self.fades
            ),
        ]
    }
}
