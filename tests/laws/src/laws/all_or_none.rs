//! Each limit of a policy is charged exactly as if it were alone with the requests that were
//! granted (all of them in uniform mode), or not at all.

use std::collections::HashMap;

use tollgate_kernel::{Cost, Decision, Detail, KeyState, Limit, Mode, Policy, Request};

use crate::case::Case;
use crate::walk::{LawObserver, Simulation, Verdict, walk};

pub(crate) fn check(case: &Case) -> Verdict {
    walk(case, &mut SeparateLimits::default())
}

/// Every limit on a key of its own, by limit id.
#[derive(Default)]
pub(crate) struct SeparateLimits {
    alone: HashMap<String, (Policy, KeyState)>,
}

impl SeparateLimits {
    fn alone(&mut self, limit: &Limit) -> Result<&mut (Policy, KeyState), String> {
        let policy = Policy::new(vec![limit.clone()]).map_err(|error| error.to_string())?;
        let alone = self.alone.entry(limit.id().as_str().to_owned());
        let alone = alone.or_insert_with(|| (policy.clone(), KeyState::default()));
        // A changed count is a changed policy on the same key.
        if *alone.0.limits()[0] != *limit {
            alone.0 = policy;
        }
        Ok(alone)
    }
}

impl LawObserver for SeparateLimits {
    fn decided(
        &mut self,
        simulation: &Simulation,
        request: &Request,
        decision: &Decision,
        details: &[Detail],
    ) -> Verdict {
        let mode = request.mode.unwrap_or(simulation.policy.mode());
        let charge = if mode == Mode::Uniform && !request.peek { request.cost.get() } else { decision.granted };
        let charge = if request.peek { 0 } else { charge };
        for (limit, detail) in simulation.policy.limits().iter().zip(details) {
            let t = simulation.t();
            let (policy, state) = self.alone(limit)?;
            // Outside uniform mode, so that corrections are those of the policy.
            let forced = if mode == Mode::Uniform { Mode::Uniform } else { Mode::Binary };
            let cost = Cost::new(charge).unwrap_or(Cost::ONE);
            let own = state.decide(policy, t, &Request::cost(cost).mode(forced));
            if charge > 0 && mode != Mode::Uniform && !own.allowed {
                return Err(format!("{limit} alone refuses what the policy granted: {request:?}"));
            }
            let look = Request { wait_for: None, ..*request }.mode(mode).peek();
            let (_, own) = state.decide_full(policy, t, &look);
            let same = (own[0].remaining, own[0].retry_after, own[0].reset_after)
                == (detail.remaining, detail.retry_after, detail.reset_after);
            if !same {
                return Err(format!("{limit} stands at {detail:?} in the policy, alone at {:?}", own[0]));
            }
        }
        Ok(())
    }

    fn refunded(&mut self, simulation: &Simulation, _given: u64) -> Verdict {
        // Start over from the policy's own cells.
        for limit in simulation.policy.limits() {
            let mut state = simulation.state.clone();
            let (policy, alone) = self.alone(limit)?;
            state.cells_of(policy, simulation.t());
            *alone = state;
        }
        Ok(())
    }
}
