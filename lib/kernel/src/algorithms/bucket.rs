//! `bucket`: the token bucket of PlugLimit, at most N per window.
//!
//! The first request opens a window with `burst` tokens. N - burst more arrive evenly over the window, and at its end
//! the state is back to its initial value. What is reported as remaining is N less the units used in the window.

use super::{Algorithm, most_in_windows, room_below};
use crate::options::{AlgorithmOptions, LimitError, LimitField, Options, check_numbers};
use crate::units::{Micros, Timestamp, Wait, muldiv};
use crate::window::Window;

const EXAMPLE: &str = "15/60s bucket burst=3";

/// A limit of at most `count` units per window of length `period`, `burst` of them at its start.
#[derive(Clone, Debug, PartialEq)]
pub struct Bucket {
    count: u64,
    period: Micros,
    burst: u64,
}

/// The window at one point in time.
#[derive(Clone, Copy, Debug)]
pub struct BucketLook {
    /// The end of the window, if it is open.
    end: Option<Timestamp>,
    used: u64,
    /// The tokens issued so far: the burst, and those that have arrived.
    tokens: u64,
}

impl Bucket {
    fn end(&self, state: &Window, t: Timestamp) -> Option<Timestamp> {
        let end = state.start.plus(self.period);
        (state.used > 0 && t < end).then_some(end)
    }

    /// Returns the tokens that have arrived since the window began.
    fn arrived(&self, state: &Window, t: Timestamp) -> u64 {
        muldiv(self.count - self.burst, t.since(state.start).get(), self.period.get()).0
    }
}

impl Algorithm for Bucket {
    const NAME: &'static str = "bucket";
    const LUA: &'static str = include_str!("bucket.lua");
    const REMAINING_IS_ROOM: bool = false;
    const PACKS: bool = true;
    const TAKES: AlgorithmOptions = AlgorithmOptions { in_text: true, burst: true, ..AlgorithmOptions::NONE };
    /// Near its end a window may have room for more than the burst; the next window begins with only the burst.
    const LOSES_ROOM: bool = true;
    type State = Window;
    type Log = ();

    fn build(count: u64, period: Micros, options: &Options) -> Result<Self, LimitError> {
        check_numbers(count, period, EXAMPLE)?;
        let wrong = |expected| LimitError::new(LimitField::Option("burst"), expected, EXAMPLE);
        let burst = options.burst.ok_or_else(|| wrong("burst=N, which bucket needs"))?;
        if burst == 0 || burst > count {
            return Err(wrong("a burst from 1 up to the count"));
        }
        Ok(Self { count, period, burst })
    }

    fn numbers(&self) -> (u64, Micros, Options) {
        (self.count, self.period, Options { burst: Some(self.burst), ..Options::default() })
    }

    fn correct(&self, state: &mut Window, _log: &(), t: Timestamp) {
        if state.used > 0 && state.start > t.plus(self.period) {
            state.start = t;
        }
    }

    type Look = BucketLook;

    fn look(&self, state: &Window, _log: &(), t: Timestamp) -> BucketLook {
        match self.end(state, t) {
            Some(end) => BucketLook { end: Some(end), used: state.used, tokens: self.burst + self.arrived(state, t) },
            None => BucketLook { end: None, used: 0, tokens: self.burst },
        }
    }

    fn room(&self, _state: &Window, look: &BucketLook) -> i64 {
        room_below(look.tokens, look.used)
    }

    fn remaining(&self, _state: &Window, look: &BucketLook) -> i64 {
        room_below(self.count, look.used)
    }

    fn wait(&self, state: &Window, _log: &(), look: &BucketLook, t: Timestamp, units: u64) -> Wait {
        if look.used + units <= look.tokens {
            return Wait::NONE;
        }
        let Some(end) = look.end else { return Wait::Never };
        if self.count > self.burst {
            let missing = look.used + units - self.burst;
            let (whole, rest) = muldiv(missing, self.period.get(), self.count - self.burst);
            let enough = state.start.plus(Micros::new(whole.saturating_add(u64::from(rest > 0))));
            if enough < end {
                return Wait::After(enough.since(t));
            }
        }
        // A new window has `burst` tokens; more arrive only after a request has opened it.
        if units <= self.burst { Wait::After(end.since(t)) } else { Wait::Never }
    }

    fn reset_after(&self, _state: &Window, _log: &(), look: &BucketLook, t: Timestamp) -> Micros {
        look.end.map_or(Micros::ZERO, |end| end.since(t))
    }

    fn charge(&self, state: &mut Window, _log: &mut (), look: &BucketLook, t: Timestamp, units: u64) -> u64 {
        if look.end.is_none() {
            *state = Window::opening(t);
        }
        state.count(units)
    }

    fn refund(&self, state: &mut Window, _log: &mut (), t: Timestamp, units: u64, at: Timestamp) -> u64 {
        if self.end(state, t).is_none() || at < state.start {
            return 0;
        }
        state.give_back(units)
    }

    fn held(&self, state: &Window, _log: &(), t: Timestamp) -> f64 {
        self.end(state, t).map_or(0.0, |_| state.used as f64)
    }

    fn most_in(&self, span: Micros) -> u64 {
        most_in_windows(self.count, self.period, span)
    }

    #[inline]
    fn pack(&self, state: &Window) -> Option<[u64; 2]> {
        Some(state.pack())
    }

    #[inline]
    fn unpack(&self, words: [u64; 2]) -> Window {
        Window::unpack(words)
    }

    fn promise(&self) -> Vec<String> {
        let (interval, _) = muldiv(1, self.period.get(), (self.count - self.burst).max(1));
        let arrive = if self.count > self.burst && interval == 0 {
            format!("{} more arrive evenly", self.count - self.burst)
        } else if self.count > self.burst {
            format!("one more arrives about every {}", Micros::new(interval))
        } else {
            "no more arrive".to_owned()
        };
        vec![
            format!("At most {} per window of {}; the first request of a key opens a window.", self.count, self.period),
            format!("A window begins with a burst of {}; {arrive} until it ends.", self.burst),
            format!(
                "At its end all is as new, so an interval of {} across an edge may see up to {}.",
                self.period,
                self.count.saturating_mul(2)
            ),
        ]
    }
}
