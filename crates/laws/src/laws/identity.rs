//! A limit keeps its state through changes of the policy around it and of its own count: it stands
//! as it would alone, and a change neither refills nor forgets.

use tollgate_core::{Decision, Detail, Limit, Policy, Request};

use super::together::Together;
use crate::case::Case;
use crate::walk::{Verdict, Watch, World, walk};

pub(crate) fn check(case: &Case) -> Verdict {
    walk(case, &mut Identity { together: Together::default() })
}

/// A limit that stays the same limit: a name may stay while what it names changes.
fn what(limit: &Limit) -> (String, &'static str, u64) {
    (limit.id().as_str().to_owned(), limit.rule().name(), limit.period().get())
}

struct Identity {
    together: Together,
}

impl Watch for Identity {
    fn decided(&mut self, world: &World, request: &Request, decision: &Decision, details: &[Detail]) -> Verdict {
        self.together.decided(world, request, decision, details)
    }

    fn changed(&mut self, world: &World, before: &Policy) -> Verdict {
        let held = |policy: &Policy| {
            let mut state = world.state.clone();
            let cells = state.cells_of(policy, world.t()).to_vec();
            let each = policy.limits().iter().zip(cells);
            each.map(|(limit, cell)| (what(limit), limit.rule().held(cell.memory(), world.t()))).collect::<Vec<_>>()
        };
        let (old, new) = (held(before), held(&world.policy));
        for (id, units) in &new {
            if let Some((_, was)) = old.iter().find(|(other, _)| other == id)
                && units != was
            {
                return Err(format!("{id:?} held {was} units, {units} after the change"));
            }
        }
        Ok(())
    }
}
