//! A state stays within the bytes its limits state, whatever is sent.

use tollgate_kernel::{Cost, Decision, Detail, KeyState, Mode, Request, Timestamp};

use crate::case::Case;
use crate::walk::{LawObserver, Simulation, Verdict, walk};

pub(crate) fn check(case: &Case) -> Verdict {
    walk(case, &mut SizeObserver)?;
    storm(case)
}

struct SizeObserver;

impl LawObserver for SizeObserver {
    fn decided(
        &mut self,
        simulation: &Simulation,
        _request: &Request,
        _decision: &Decision,
        _details: &[Detail],
    ) -> Verdict {
        within(&simulation.policy, &simulation.state)
    }
}

/// Charges and refunds on every tick, as an attacker would send them.
fn storm(case: &Case) -> Verdict {
    let policy = &case.stages[0];
    let mut state = KeyState::default();
    for tick in 0..150u64 {
        let t = Timestamp::saturating(case.start + tick);
        let request = Request::cost(Cost::ONE).mode(if tick % 3 == 0 { Mode::Uniform } else { Mode::Binary });
        let decision = state.decide(policy, t, &request);
        if tick % 2 == 0 {
            state.refund(policy, t, decision.charged, t);
        }
        within(policy, &state)?;
    }
    Ok(())
}

fn within(policy: &tollgate_kernel::Policy, state: &KeyState) -> Verdict {
    let most = policy.limits().iter().map(|limit| limit.bytes_at_most()).sum::<u64>();
    let bytes = state.heap_bytes() as u64;
    if bytes > most { Err(format!("{policy} takes {bytes} bytes, more than {most}")) } else { Ok(()) }
}
