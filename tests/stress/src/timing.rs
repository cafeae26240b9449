//! How long calls took: a histogram of fixed size, and the calls that took too long, to be judged by the
//! machine's lateness once the run is over.

use std::time::{Duration, Instant};

use crate::lateness::LatenessMonitor;
use crate::report::Report;

/// Tenths of a millisecond up to here are counted each.
const TENTHS: usize = 20_000;
/// Slow calls kept; more than these are only counted.
const MAX_KEPT: usize = 10_000;

/// The calls of one caller, or of many.
#[derive(Clone, Debug)]
pub(crate) struct Timing {
    /// What a call may take.
    most: Duration,
    counts: Vec<u32>,
    longest: Duration,
    slow: Vec<(Instant, Duration)>,
    not_kept: u64,
}

impl Timing {
    /// Calls may take `deadline` and five milliseconds.
    pub(crate) fn new(deadline: Duration) -> Self {
        let most = deadline + Duration::from_millis(5);
        Self { most, counts: Vec::new(), longest: Duration::ZERO, slow: Vec::new(), not_kept: 0 }
    }

    pub(crate) fn add(&mut self, start: Instant) {
        let took = start.elapsed();
        let place = (took.as_micros() / 100).min(TENTHS as u128) as usize;
        if self.counts.len() <= place {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] += 1;
        self.longest = self.longest.max(took);
        if took > self.most {
            if self.slow.len() < MAX_KEPT {
                self.slow.push((start, took));
            } else {
                self.not_kept += 1;
            }
        }
    }

    pub(crate) fn absorb(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(ours, theirs)| *ours += theirs);
        self.longest = self.longest.max(other.longest);
        self.slow.extend_from_slice(&other.slow);
        self.not_kept += other.not_kept;
    }

    pub(crate) fn calls(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }

    pub(crate) fn longest(&self) -> Duration {
        self.longest
    }

    /// The time within which so many in ten thousand calls returned.
    pub(crate) fn within(&self, of_ten_thousand: u64) -> Duration {
        let wanted = (self.calls() * of_ten_thousand).div_ceil(10_000);
        let mut seen = 0;
        let place = self.counts.iter().position(|count| {
            seen += u64::from(*count);
            seen >= wanted
        });
        Duration::from_micros(place.map_or(0, |place| place as u64 + 1) * 100)
    }

    /// Calls that took too long even if the machine's lateness is forgiven, and the worst of them.
    fn late(&self, lateness: &LatenessMonitor) -> (u64, Duration) {
        let excess = |(start, took): &(Instant, Duration)| {
            let forgiven = lateness.within(*start, *start + *took);
            took.saturating_sub(forgiven).saturating_sub(self.most)
        };
        let late: Vec<Duration> = self.slow.iter().map(excess).filter(|excess| !excess.is_zero()).collect();
        (late.len() as u64 + self.not_kept, late.into_iter().max().unwrap_or_default())
    }

    /// Calls that took too long by the clock on the wall.
    pub(crate) fn slow(&self) -> u64 {
        self.slow.len() as u64 + self.not_kept
    }

    /// Complains of calls that were too late. What the machine delays is forgiven, but not to more than one
    /// call in a hundred: a store that keeps its runtime busy is late by itself, and the monitor, which runs
    /// there too, cannot tell.
    pub(crate) fn judge(&self, report: &mut Report, name: &str, lateness: &LatenessMonitor) {
        if !is_judged() {
            return;
        }
        let ((late, worst), calls, slow) = (self.late(lateness), self.calls(), self.slow());
        report.demand(late == 0, || {
            format!("{name}: {late} of {calls} calls too late, by up to {worst:?}; the longest took {:?}", self.longest)
        });
        report.demand(slow * 100 <= calls, || {
            format!("{name}: {slow} of {calls} calls took longer than {:?}, the longest {:?}", self.most, self.longest)
        });
    }
}

/// Whether times are judged and not only told. Tests do not: whoever else uses the machine decides them too.
pub(crate) fn is_judged() -> bool {
    std::env::var_os("TOLLGATE_UNTIMED").is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_are_told_apart_from_the_rest() {
        let (mut timing, now) = (Timing::new(Duration::from_millis(20)), Instant::now());
        (0..999).for_each(|_| timing.add(Instant::now()));
        timing.add(now - Duration::from_millis(40));
        assert_eq!((timing.calls(), timing.slow()), (1000, 1));
        assert!(timing.within(9_900) < Duration::from_millis(40));
        assert!(timing.within(10_000) >= Duration::from_millis(40));
    }
}
