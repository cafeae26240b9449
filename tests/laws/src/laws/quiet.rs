//! A refusal outside uniform mode changes nothing, and a peek never does. A peek first applies
//! the clock correction, the one thing a refusal may write.

use tollgate_kernel::{Decision, Detail, KeyState, Mode, Request};

use crate::case::Case;
use crate::walk::{Verdict, Watch, World, walk};

pub(crate) fn check(case: &Case) -> Verdict {
    walk(case, &mut Quiet { corrected: None, highest: 0 })
}

struct Quiet {
    corrected: Option<KeyState>,
    /// The latest reading of the clock so far.
    highest: u64,
}

impl Watch for Quiet {
    fn before(&mut self, world: &World, request: &Request) -> Verdict {
        let mut looked = world.state.clone();
        looked.cells_of(&world.policy, world.t());
        let before = looked.clone();
        let first = looked.decide(&world.policy, world.t(), &request.peek());
        let may_correct = world.clock < self.highest;
        if !may_correct && looked != before {
            return Err(format!("a peek changed {before:?} into {looked:?}"));
        }
        let once = looked.clone();
        let second = looked.decide(&world.policy, world.t(), &request.peek());
        if looked != once || first != second {
            return Err(format!("a second peek saw something else: {first:?}, {second:?}"));
        }
        self.highest = self.highest.max(world.clock);
        self.corrected = Some(looked);
        Ok(())
    }

    fn decided(&mut self, world: &World, request: &Request, decision: &Decision, _details: &[Detail]) -> Verdict {
        let refused = !decision.allowed && request.mode.unwrap_or(world.policy.mode()) != Mode::Uniform;
        let quiet = refused || request.peek || request.cost.get() == 0;
        if quiet && decision.charged != 0 {
            return Err(format!("a refusal or peek charged {}", decision.charged));
        }
        if quiet && self.corrected.as_ref() != Some(&world.state) {
            return Err(format!("a refusal or peek changed {:?} into {:?}", self.corrected, world.state));
        }
        Ok(())
    }
}
