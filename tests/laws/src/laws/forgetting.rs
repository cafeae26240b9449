//! From its expiry on, a state decides as a key never seen does, and goes on doing so. And not a
//! moment earlier is anything said to be as new.

use tollgate_kernel::{Decision, Detail, KeyState, Request, Timestamp};

use crate::case::Case;
use crate::walk::{LawObserver, Simulation, Verdict, walk};

pub(crate) fn check(case: &Case) -> Verdict {
    walk(case, &mut ForgettingObserver { forgetful: KeyState::default(), forgotten_at: 0, expected: None })
}

/// Runs beside the key one that is forgotten whenever it may be.
struct ForgettingObserver {
    forgetful: KeyState,
    forgotten_at: u64,
    expected: Option<(Decision, Vec<Detail>)>,
}

impl LawObserver for ForgettingObserver {
    fn before(&mut self, simulation: &Simulation, request: &Request) -> Verdict {
        if simulation.clock < self.forgotten_at {
            // Set back to before it was forgotten: now the two may differ, so start over.
            self.forgetful = simulation.state.clone();
        }
        if self.forgetful.expires_after(simulation.t()).get() == 0 {
            self.forgetful = KeyState::default();
            self.forgotten_at = simulation.clock;
        }
        self.expected = Some(self.forgetful.decide_full(&simulation.policy, simulation.t(), request));
        Ok(())
    }

    fn decided(
        &mut self,
        simulation: &Simulation,
        _request: &Request,
        decision: &Decision,
        details: &[Detail],
    ) -> Verdict {
        as_new_no_later(simulation, details)?;
        match &self.expected {
            Some((expected, expected_details)) if expected != decision || expected_details != details => {
                Err(format!("a forgotten key decides {expected:?}, a remembered one {decision:?}"))
            }
            _ => Ok(()),
        }
    }

    fn refunded(&mut self, simulation: &Simulation, _given: u64) -> Verdict {
        // Refunds are not replayed on the other key: start over from this one.
        self.forgetful = simulation.state.clone();
        Ok(())
    }
}

/// A microsecond before a limit is told to be as new, something is still held, or still spaced.
fn as_new_no_later(simulation: &Simulation, details: &[Detail]) -> Verdict {
    let mut state = simulation.state.clone();
    let cells = state.cells_of(&simulation.policy, simulation.t()).to_vec();
    for ((limit, cell), detail) in simulation.policy.limits().iter().zip(cells).zip(details) {
        let Some(before) = detail.reset_after.get().checked_sub(1) else { continue };
        let then = Timestamp::saturating(simulation.clock + before);
        if limit.spacing().is_none() && limit.rule().held(cell.memory(), then) == 0.0 {
            return Err(format!("{limit} is told to be as new in {}, but is sooner", detail.reset_after));
        }
    }
    Ok(())
}
