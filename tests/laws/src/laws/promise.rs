//! Refused with a wait: refused at every moment before it, allowed at it, if nobody else comes.
//! The same for the next request after one that was allowed.

use tollgate_kernel::{Decision, Detail, Request};

use crate::case::Case;
use crate::walk::{LawObserver, Simulation, Verdict, span, walk};

/// Waits up to this long are checked tick by tick, longer ones at their ends and some between.
const EVERY_TICK: u64 = 400;

pub(crate) fn check(case: &Case) -> Verdict {
    walk(case, &mut PromiseObserver)
}

struct PromiseObserver;

impl LawObserver for PromiseObserver {
    fn decided(
        &mut self,
        simulation: &Simulation,
        request: &Request,
        decision: &Decision,
        _details: &[Detail],
    ) -> Verdict {
        let wait = if decision.allowed { decision.next_after } else { decision.retry_after };
        if decision.allowed && span(decision.retry_after) != Some(0) {
            return Err(format!("allowed, but retry after {}", decision.retry_after));
        }
        let allowed_at = |wait: u64| simulation.peek_at(simulation.clock + wait, request).0.allowed;
        let Some(wait) = span(wait) else {
            let horizon = simulation.state.expires_after(simulation.t()).get() + 2;
            let looks = (0..horizon.min(EVERY_TICK)).chain([horizon / 2, horizon, 3 * horizon]);
            return match looks.into_iter().find(|wait| allowed_at(*wait)) {
                Some(wait) => Err(format!("said never, but {request:?} passes after {wait}us")),
                None => Ok(()),
            };
        };
        if !allowed_at(wait) {
            return Err(format!("told to wait {wait}us, refused then: {request:?} {decision:?}"));
        }
        let early = (0..wait).take(EVERY_TICK as usize).chain((wait > EVERY_TICK).then(|| wait - 1));
        match early.into_iter().find(|early| allowed_at(*early)) {
            Some(early) => Err(format!("told to wait {wait}us, passes after {early}us: {request:?} {decision:?}")),
            None => Ok(()),
        }
    }
}
