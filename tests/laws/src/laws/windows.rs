//! Windows on one log decide as a list of the events that are held does, whichever windows a call has; and the calls of
//! one set of windows never pass more often than any of these windows allows, also where clocks are set back.

use tollgate_kernel::algorithms::Rule;
use tollgate_kernel::algorithms::sliding::Sliding;
use tollgate_kernel::{KeyState, Limit, Micros, Request, SharedWindows, Timestamp};

use crate::case::Case;
use crate::walk::{Verdict, span};
use tollgate_random::Rng;

/// A set of windows that a caller asks under: periods and counts.
struct Caller {
    windows: Vec<(u64, u64)>,
    shared: SharedWindows,
    passed: Vec<u64>,
}

pub(crate) fn check(case: &Case) -> Verdict {
    let mut rng = Rng::new(case.start ^ case.ops.len() as u64);
    let mut callers: Vec<Caller> = (0..rng.within(1, 3)).filter_map(|_| caller(&mut rng)).collect();
    let (mut state, mut events, mut clock) = (KeyState::default(), Events::default(), case.start);
    let (goes_back, mut true_time) = (rng.chance(40), case.start);
    for _ in 0..4 * case.ops.len() {
        let step = rng.pick(&[0, 0, 1, 1, 2, 3, 5, 8, 20, 45]);
        (clock, true_time) = (clock + step, true_time + step);
        if goes_back && rng.chance(8) {
            clock = clock.saturating_sub(rng.pick(&[1, 10, 30, 100, 1_000]));
        }
        let place = rng.index(callers.len());
        let caller = &mut callers[place];
        let expected = events.refused_by(&caller.windows, clock);
        let t = Timestamp::saturating(clock);
        let decision = caller.shared.decide_on(&mut state, t, &Request::ONE);
        if !goes_back && decision.limited_by != expected || decision.allowed != decision.limited_by.is_none() {
            return Err(format!("{:?} at {clock}: expected {expected:?}, found {decision:?}", caller.windows));
        }
        if decision.allowed {
            events.record(&caller.windows, clock);
            caller.passed.push(true_time);
        } else if let Some(wait) = span(decision.retry_after) {
            let passes = |wait: u64| {
                let then = Timestamp::saturating(clock + wait);
                caller.shared.decide_on(&mut state.clone(), then, &Request::ONE).allowed
            };
            if passes(wait - 1) || !passes(wait) {
                return Err(format!("{:?} at {clock}: a wait of {wait}us is not exact", caller.windows));
            }
        }
    }
    callers.iter().try_for_each(promised)
}

fn caller(rng: &mut Rng) -> Option<Caller> {
    let mut windows: Vec<(u64, u64)> = Vec::new();
    for _ in 0..rng.within(1, 3) {
        let period = rng.within(1, 60);
        if windows.iter().all(|(other, _)| *other != period) {
            windows.push((period, rng.within(1, 6)));
        }
    }
    let limit = |(period, count): &(u64, u64)| {
        Sliding::of_single_units(*count, Micros::new(*period)).map(|rule| Limit::new(Rule::Sliding(rule))).ok()
    };
    let limits: Vec<Limit> = windows.iter().filter_map(limit).collect();
    let shared = SharedWindows::new(limits).ok()?;
    Some(Caller { windows, shared, passed: Vec::new() })
}

/// The events that are held, and the longest window for which they are.
#[derive(Default)]
struct Events {
    times: Vec<u64>,
    longest: u64,
}

impl Events {
    fn refused_by(&self, windows: &[(u64, u64)], clock: u64) -> Option<usize> {
        let count = |period: u64| self.times.iter().filter(|at| **at + period > clock).count() as u64;
        windows.iter().position(|(period, most)| count(*period) >= *most)
    }

    fn record(&mut self, windows: &[(u64, u64)], clock: u64) {
        if self.times.iter().all(|at| at + self.longest <= clock) {
            self.longest = 0;
        }
        self.longest = windows.iter().map(|(period, _)| *period).max().unwrap_or_default().max(self.longest);
        self.times.retain(|at| at + self.longest > clock);
        self.times.push(clock);
    }
}

/// In every window of a caller, at most as many of its own calls passed as it allows.
fn promised(caller: &Caller) -> Verdict {
    for (period, most) in &caller.windows {
        for (first, begin) in caller.passed.iter().enumerate() {
            let within = caller.passed[first..].iter().filter(|at| **at - begin < *period).count() as u64;
            if within > *most {
                return Err(format!("{within} passed within {period}us, at most {most} are allowed"));
            }
        }
    }
    Ok(())
}
