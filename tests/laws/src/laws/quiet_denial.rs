//! A refusal outside uniform mode changes nothing, and a peek never does. A peek first applies
//! the clock correction, the one thing a refusal may write.

use tollgate_kernel::{Decision, Detail, KeyState, Mode, Request};

use crate::case::Case;
use crate::walk::{LawObserver, Simulation, Verdict, walk};

pub(crate) fn check(case: &Case) -> Verdict {
    walk(case, &mut QuietObserver { corrected: None, highest: 0 })
}

struct QuietObserver {
    corrected: Option<KeyState>,
    /// The latest reading of the clock so far.
    highest: u64,
}

impl LawObserver for QuietObserver {
    fn before(&mut self, simulation: &Simulation, request: &Request) -> Verdict {
        let mut looked = simulation.state.clone();
        looked.cells_of(&simulation.policy, simulation.t());
        let before = looked.clone();
        let first = looked.decide(&simulation.policy, simulation.t(), &request.peek());
        let may_correct = simulation.clock < self.highest;
        if !may_correct && looked != before {
            return Err(format!("a peek changed {before:?} into {looked:?}"));
        }
        let once = looked.clone();
        let second = looked.decide(&simulation.policy, simulation.t(), &request.peek());
        if looked != once || first != second {
            return Err(format!("a second peek saw something else: {first:?}, {second:?}"));
        }
        self.highest = self.highest.max(simulation.clock);
        self.corrected = Some(looked);
        Ok(())
    }

    fn decided(
        &mut self,
        simulation: &Simulation,
        request: &Request,
        decision: &Decision,
        _details: &[Detail],
    ) -> Verdict {
        let refused = !decision.allowed && request.mode.unwrap_or(simulation.policy.mode()) != Mode::Uniform;
        let quiet = refused || request.peek || request.cost.get() == 0;
        if quiet && decision.charged != 0 {
            return Err(format!("a refusal or peek charged {}", decision.charged));
        }
        if quiet && self.corrected.as_ref() != Some(&simulation.state) {
            return Err(format!("a refusal or peek changed {:?} into {:?}", self.corrected, simulation.state));
        }
        Ok(())
    }
}
