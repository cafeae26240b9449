//! A limit keeps its state through changes of the policy around it and of its own count: it stands
//! as it would alone, and a change neither refills nor forgets.

use tollgate_kernel::{Cost, Decision, Detail, KeyState, Limit, Mode, Policy, Request};

use super::all_or_none::SeparateLimits;
use crate::case::Case;
use crate::walk::{LawObserver, Simulation, Verdict, walk};

pub(crate) fn check(case: &Case) -> Verdict {
    walk(case, &mut IdentityObserver { together: SeparateLimits::default() })
}

/// A limit that stays the same limit: a name may stay while what it names changes.
fn what(limit: &Limit) -> (String, &'static str, u64) {
    (limit.id().as_str().to_owned(), limit.rule().name(), limit.period().get())
}

struct IdentityObserver {
    together: SeparateLimits,
}

impl LawObserver for IdentityObserver {
    fn decided(
        &mut self,
        simulation: &Simulation,
        request: &Request,
        decision: &Decision,
        details: &[Detail],
    ) -> Verdict {
        self.together.decided(simulation, request, decision, details)
    }

    fn changed(&mut self, simulation: &Simulation, before: &Policy) -> Verdict {
        let held = |state: &mut KeyState, policy: &Policy| {
            let cells = state.cells_of(policy, simulation.t()).to_vec();
            let each = policy.limits().iter().zip(cells);
            each.map(|(limit, cell)| (what(limit), limit.rule().held(cell.memory(), simulation.t())))
                .collect::<Vec<_>>()
        };
        let mut state = simulation.state.clone();
        let old = held(&mut state, before);
        let new = held(&mut state, &simulation.policy);
        for (id, units) in &new {
            let Some((_, was)) = old.iter().find(|(other, _)| other == id) else { continue };
            if units != was {
                return Err(format!("{id:?} held {was} units, {units} after the change"));
            }
        }
        // And back again, after looks and refusals: what was consumed is still there.
        let never = Request::cost(Cost::new(1 << 50).unwrap_or(Cost::ONE)).mode(Mode::Binary);
        let _ = state.decide(&simulation.policy, simulation.t(), &never.peek());
        let _ = state.decide(&simulation.policy, simulation.t(), &never);
        let back = held(&mut state, before);
        for ((limit, was), now) in before.limits().iter().zip(&old).zip(&back) {
            // Unless its name came to name something else.
            let renamed =
                simulation.policy.limits().iter().any(|new| new.id() == limit.id() && what(new) != what(limit));
            if was != now && !renamed {
                return Err(format!("held {was:?} before a change and back, {now:?} after"));
            }
        }
        Ok(())
    }
}
