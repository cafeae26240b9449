//! `fixed`: a counter per window; at most N per window, and so up to 2N across an edge.
//!
//! A window is opened by the first request of a key, or by the clock (`align=clock`).

use super::{Algorithm, most_in_windows, room_below};
use crate::options::{AlgorithmOptions, Alignment, LimitError, Options, check_numbers};
use crate::units::{Micros, Timestamp, Wait};
use crate::window::Window;

const WEEK: u64 = 7 * 86_400_000_000;
/// The first Monday after the epoch, 1970-01-05.
const MONDAY: u64 = 4 * 86_400_000_000;

/// A limit of at most `count` units per window of length `period`.
#[derive(Clone, Debug, PartialEq)]
pub struct Fixed {
    count: u64,
    period: Micros,
    align: Alignment,
}

impl Fixed {
    /// Returns how far `t` is into its window, where windows are aligned to the clock.
    fn phase(&self, t: Timestamp) -> u64 {
        let week = self.period.get().is_multiple_of(WEEK);
        let before = if week { self.period.get() - MONDAY % self.period.get() } else { 0 };
        (t.get() + before) % self.period.get()
    }

    /// Returns the start of the window that a request at `t` would open.
    fn window_at(&self, t: Timestamp) -> Timestamp {
        match self.align {
            Alignment::First => t,
            Alignment::Clock => Timestamp::saturating(t.get().saturating_sub(self.phase(t))),
        }
    }

    /// Returns the end of the open window, if one is open.
    fn end(&self, state: &Window, t: Timestamp) -> Option<Timestamp> {
        let into = match self.align {
            Alignment::First => 0,
            Alignment::Clock => self.phase(state.start),
        };
        let end = state.start.plus(Micros::new(self.period.get() - into));
        (state.used > 0 && t < end).then_some(end)
    }
}

impl Algorithm for Fixed {
    const NAME: &'static str = "fixed";
    const LUA: &'static str = include_str!("fixed.lua");
    const PACKS: bool = true;
    const TAKES: AlgorithmOptions = AlgorithmOptions { in_text: true, align: true, ..AlgorithmOptions::NONE };
    type State = Window;
    type Log = ();

    fn build(count: u64, period: Micros, options: &Options) -> Result<Self, LimitError> {
        check_numbers(count, period, "1000/h fixed")?;
        Ok(Self { count, period, align: options.align.unwrap_or_default() })
    }

    fn numbers(&self) -> (u64, Micros, Options) {
        let align = (self.align != Alignment::default()).then_some(self.align);
        (self.count, self.period, Options { align, ..Options::default() })
    }

    fn correct(&self, state: &mut Window, _log: &(), t: Timestamp) {
        if state.used > 0 && state.start > t.plus(self.period) {
            // A window aligned to the clock moves to the next edge: the previous edge may be close, and a clock that
            // was set back must not start a new window sooner.
            state.start = match self.align {
                Alignment::First => t,
                Alignment::Clock => t.plus(Micros::new(self.period.get() - self.phase(t))),
            };
        }
    }

    /// The end of the open window, if one is open.
    type Look = Option<Timestamp>;

    fn look(&self, state: &Window, _log: &(), t: Timestamp) -> Option<Timestamp> {
        self.end(state, t)
    }

    fn room(&self, state: &Window, look: &Option<Timestamp>) -> i64 {
        room_below(self.count, look.map_or(0, |_| state.used))
    }

    fn wait(&self, state: &Window, _log: &(), look: &Option<Timestamp>, t: Timestamp, units: u64) -> Wait {
        if units > self.count {
            return Wait::Never;
        }
        match look {
            Some(end) if state.used + units > self.count => Wait::After(end.since(t)),
            _ => Wait::NONE,
        }
    }

    fn reset_after(&self, _state: &Window, _log: &(), look: &Option<Timestamp>, t: Timestamp) -> Micros {
        look.map_or(Micros::ZERO, |end| end.since(t))
    }

    fn charge(&self, state: &mut Window, _log: &mut (), look: &Option<Timestamp>, t: Timestamp, units: u64) -> u64 {
        if look.is_none() {
            *state = Window::opening(self.window_at(t));
        }
        state.count(units)
    }

    fn refund(&self, state: &mut Window, _log: &mut (), t: Timestamp, units: u64, at: Timestamp) -> u64 {
        if self.end(state, t).is_none() || at < self.window_at(state.start) {
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
        let opens = match self.align {
            Alignment::First => "the first request of a key opens a window".to_owned(),
            Alignment::Clock if self.period.get().is_multiple_of(WEEK) => "weeks begin on Monday 00:00 UTC".to_owned(),
            Alignment::Clock => format!("windows are multiples of {} since 1970, UTC", self.period),
        };
        vec![
            format!("At most {} per window of {}; {opens}.", self.count, self.period),
            format!(
                "At an edge all {} come back at once, so an interval of {} across an edge may see {}.",
                self.count,
                self.period,
                self.count.saturating_mul(2)
            ),
            format!("A burst may take all {} at once.", self.count),
        ]
    }
}
