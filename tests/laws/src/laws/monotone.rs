//! Waiting never lowers what remains, of any limit.

use tollgate_kernel::{Decision, Detail, Request};

use crate::case::Case;
use crate::walk::{LawObserver, Simulation, Verdict, walk};

pub(crate) fn check(case: &Case) -> Verdict {
    walk(case, &mut MonotoneObserver)
}

struct MonotoneObserver;

impl LawObserver for MonotoneObserver {
    fn decided(
        &mut self,
        simulation: &Simulation,
        request: &Request,
        _decision: &Decision,
        details: &[Detail],
    ) -> Verdict {
        let mut before: Vec<i64> = details.iter().map(|detail| detail.remaining).collect();
        let horizon = simulation.state.expires_after(simulation.t()).get();
        for wait in [1, horizon / 7, horizon / 3, horizon / 2, horizon.saturating_sub(1), horizon, horizon + 1] {
            if wait == 0 {
                continue;
            }
            let mut later = Vec::new();
            for (index, detail) in simulation.peek_at(simulation.clock + wait, request).1.iter().enumerate() {
                if detail.remaining < before[index] {
                    let limit = &simulation.policy.limits()[index];
                    return Err(format!("{limit}: {} left, after {wait}us {}", before[index], detail.remaining));
                }
                later.push(detail.remaining);
            }
            if wait > 1 {
                before = later;
            }
        }
        Ok(())
    }
}
