//! The event log: the state of `sliding`, `slots` and `rolling`.
//!
//! An entry holds the time of a charge and the units charged *before* it; the header holds the total of units charged.
//! The units from any entry on are then one subtraction: a window is counted by finding its first entry, and a wait by
//! finding the first entry from which on few enough units are left. Both gallop from the oldest entry: constant in
//! steady traffic, logarithmic at worst, never a scan. Charging drops the entries that have left the window, so the
//! oldest entry is where the window began when it was last charged.

use crate::ring::{Entry, Ring};
use crate::units::{Micros, Timestamp, Wait};

/// The header of an event log: everything but the entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogState {
    /// Units charged since the log began, modulo the entries' mask.
    total: u64,
    /// The time of the latest charge, by the log's clock.
    newest: Timestamp,
    /// How far the log's clock is ahead of the home's, after the home's clock was set back too far.
    skew: Micros,
}

/// The window of a log at one point in time.
#[derive(Clone, Copy, Debug)]
pub struct LogLook {
    /// The index of the first entry in the window.
    pub(crate) live: usize,
    /// The units in the window.
    pub(crate) used: u64,
}

impl LogState {
    /// Returns the words of the header.
    pub(crate) fn parts(&self) -> [u64; 3] {
        [self.total, self.newest.get(), self.skew.get()]
    }

    /// Creates the header that these words describe.
    pub(crate) fn from_parts(total: u64, newest: Timestamp, skew: Micros) -> Self {
        Self { total, newest, skew }
    }

    /// Returns the log's time when the home's clock reads `t`. It never goes back.
    #[inline]
    pub(crate) fn now(&self, t: Timestamp) -> Timestamp {
        t.plus(self.skew).max(self.newest)
    }

    /// Returns how long after `t` the log's clock reads `moment`, which must be later than the newest charge.
    pub(crate) fn until(&self, moment: Timestamp, t: Timestamp) -> Micros {
        moment.since(t.plus(self.skew))
    }

    /// Applies the clock rule: a log that is more than `window` ahead continues from its own time. Its clock stays a
    /// multiple of `grid` ahead of the home's, so that an edge of one is an edge of the other. The multiple is rounded
    /// down, so the log's clock stands still for less than one `grid`.
    pub(crate) fn correct<E: Entry>(&mut self, log: &Ring<E>, t: Timestamp, window: Micros, grid: Micros) {
        if !log.is_empty() && self.newest > t.plus(self.skew).plus(window) {
            let ahead = self.newest.since(t).get();
            self.skew = Micros::new(ahead - ahead % grid.get());
        }
    }

    /// Returns the log's time for `at`, a time of the home's clock not later than now.
    pub(crate) fn log_time(&self, at: Timestamp) -> Timestamp {
        at.plus(self.skew)
    }

    /// Returns the time of the entry at `index`.
    #[inline]
    pub(crate) fn at<E: Entry>(&self, log: &Ring<E>, index: usize) -> u64 {
        log.get(index).at(self.newest.get())
    }

    /// Returns the time of the newest entry, if there is one.
    pub(crate) fn last<E: Entry>(&self, log: &Ring<E>) -> Option<u64> {
        let index = log.len().checked_sub(1)?;
        Some(self.at(log, index))
    }

    /// Returns the units of the entry at `index` and all later ones.
    #[inline]
    pub(crate) fn left<E: Entry>(&self, log: &Ring<E>, index: usize) -> u64 {
        if index >= log.len() {
            return 0;
        }
        self.total.wrapping_sub(log.get(index).before()) & E::MASK
    }

    /// Returns the window at `t`. `leaves` returns when an entry of a given time leaves it.
    #[inline]
    pub(crate) fn look<E: Entry>(&self, log: &Ring<E>, t: Timestamp, leaves: impl Fn(u64) -> Timestamp) -> LogLook {
        let now = self.now(t);
        let has_left = |index| leaves(self.at(log, index)) <= now;
        // Usually nothing has left since the last charge.
        let live = if log.is_empty() || !has_left(0) { 0 } else { gallop(1, log.len(), has_left) };
        LogLook { live, used: self.left(log, live) }
    }

    /// Returns the least time from `t`, the time of the look, after which the window with `units` more has at most
    /// `count`.
    #[inline]
    pub(crate) fn wait<E: Entry>(
        &self,
        log: &Ring<E>,
        look: &LogLook,
        t: Timestamp,
        count: u64,
        units: u64,
        leaves: impl Fn(u64) -> Timestamp,
    ) -> Wait {
        if units > count {
            return Wait::Never;
        }
        if look.used + units <= count {
            return Wait::NONE;
        }
        let first = self.first_with_at_most(log, look.live, count - units);
        Wait::After(self.until(leaves(self.at(log, first - 1)), t))
    }

    /// Returns the first entry from `start` on with at most `units` left: once all entries before it have left, no more
    /// than that remains.
    pub(crate) fn first_with_at_most<E: Entry>(&self, log: &Ring<E>, start: usize, units: u64) -> usize {
        gallop(start, log.len(), |index| self.left(log, index) > units)
    }

    /// Drops the entries before `live`. An empty log starts again at the home's clock.
    #[inline]
    pub(crate) fn drop_before<E: Entry>(&mut self, log: &mut Ring<E>, live: usize) {
        if live > 0 {
            log.drop_front(live);
        }
        if log.is_empty() {
            *self = Self::default();
        }
    }

    /// Records `units` at the log's time `now` under the stamp `at`. They join the newest entry if their stamp is not
    /// later. The log keeps at most `need` entries.
    pub(crate) fn append<E: Entry>(&mut self, log: &mut Ring<E>, now: Timestamp, at: u64, units: u64, need: u64) {
        self.newest = now;
        if self.last(log).is_none_or(|last| last < at) {
            let need = usize::try_from(need).unwrap_or(usize::MAX);
            log.push(E::pack(at, self.total), need);
        }
        self.total = self.total.wrapping_add(units) & E::MASK;
    }

    /// Takes back the oldest `units` of those from the entry `live` on. Taking back the newest would let later ones
    /// count for less than a window.
    pub(crate) fn forget_oldest<E: Entry>(&mut self, log: &mut Ring<E>, live: usize, units: u64) {
        let kept = self.left(log, live).saturating_sub(units);
        if kept == 0 {
            self.drop_before(log, log.len());
            return;
        }
        let after = self.first_with_at_most(log, live, kept);
        let split = if self.left(log, after) == kept { after } else { after - 1 };
        let at = self.at(log, split);
        log.drop_front(split);
        log.set(0, E::pack(at, self.total.wrapping_sub(kept) & E::MASK));
    }

    /// Takes back up to `units` of the entry stamped `at`, and returns how many. It rewrites all later entries, so it
    /// is for logs of few entries.
    pub(crate) fn forget_at<E: Entry>(&mut self, log: &mut Ring<E>, at: u64, units: u64) -> u64 {
        let index = gallop(0, log.len(), |index| self.at(log, index) < at);
        if index >= log.len() || self.at(log, index) != at {
            return 0;
        }
        let given = units.min(self.left(log, index) - self.left(log, index + 1));
        for later in index + 1..log.len() {
            let entry = log.get(later);
            let time = entry.at(self.newest.get());
            log.set(later, E::pack(time, entry.before().wrapping_sub(given) & E::MASK));
        }
        self.total = self.total.wrapping_sub(given) & E::MASK;
        // Empty entries at the end need not be kept.
        while !log.is_empty() && self.left(log, log.len() - 1) == 0 {
            log.drop_back();
        }
        self.drop_before(log, 0);
        given
    }
}

/// Returns the first index in `start..end` for which `passed` is false, or `end` if there is none. Doubles its step
/// from `start`, then halves it.
fn gallop(start: usize, end: usize, passed: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut step) = (start, 1);
    let mut high = loop {
        if low >= end {
            return end;
        }
        let probe = low.saturating_add(step - 1).min(end - 1);
        if !passed(probe) {
            break probe;
        }
        low = probe + 1;
        step *= 2;
    };
    while low < high {
        let middle = low + (high - low) / 2;
        if passed(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn gallop_finds_every_edge_in_logarithmic_steps() {
        for end in 0..200usize {
            for start in 0..=end {
                for edge in start..=end {
                    assert_eq!(gallop(start, end, |index| index < edge), edge);
                }
            }
        }
        let looked = Cell::new(0);
        let edge = 500_000;
        let found = gallop(0, 1_000_000, |index| {
            looked.set(looked.get() + 1);
            index < edge
        });
        assert_eq!(found, edge);
        assert!(looked.get() <= 42, "{} looks", looked.get());
    }
}
