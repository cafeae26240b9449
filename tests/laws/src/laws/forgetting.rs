//! From its expiry on, a state decides as a key never seen does, and goes on doing so. And not a
//! moment earlier is anything said to be as new.

use tollgate_kernel::{Decision, Detail, KeyState, Request, Timestamp};

use crate::case::Case;
use crate::walk::{Verdict, Watch, World, walk};

pub(crate) fn check(case: &Case) -> Verdict {
    walk(case, &mut Forgetting { forgetful: KeyState::default(), forgotten_at: 0, expected: None })
}

/// Runs beside the key one that is forgotten whenever it may be.
struct Forgetting {
    forgetful: KeyState,
    forgotten_at: u64,
    expected: Option<(Decision, Vec<Detail>)>,
}

impl Watch for Forgetting {
    fn before(&mut self, world: &World, request: &Request) -> Verdict {
        if world.clock < self.forgotten_at {
            // Set back to before it was forgotten: now the two may differ, so start over.
            self.forgetful = world.state.clone();
        }
        if self.forgetful.expires_after(world.t()).get() == 0 {
            self.forgetful = KeyState::default();
            self.forgotten_at = world.clock;
        }
        self.expected = Some(self.forgetful.decide_full(&world.policy, world.t(), request));
        Ok(())
    }

    fn decided(&mut self, world: &World, _request: &Request, decision: &Decision, details: &[Detail]) -> Verdict {
        as_new_no_later(world, details)?;
        match &self.expected {
            Some((expected, expected_details)) if expected != decision || expected_details != details => {
                Err(format!("a forgotten key decides {expected:?}, a remembered one {decision:?}"))
            }
            _ => Ok(()),
        }
    }

    fn refunded(&mut self, world: &World, _given: u64) -> Verdict {
        // Refunds are not replayed on the other key: start over from this one.
        self.forgetful = world.state.clone();
        Ok(())
    }
}

/// A microsecond before a limit is told to be as new, something is still held, or still spaced.
fn as_new_no_later(world: &World, details: &[Detail]) -> Verdict {
    let mut state = world.state.clone();
    let cells = state.cells_of(&world.policy, world.t()).to_vec();
    for ((limit, cell), detail) in world.policy.limits().iter().zip(cells).zip(details) {
        let Some(before) = detail.reset_after.get().checked_sub(1) else { continue };
        let then = Timestamp::saturating(world.clock + before);
        if limit.spacing().is_none() && limit.rule().held(cell.memory(), then) == 0.0 {
            return Err(format!("{limit} is told to be as new in {}, but is sooner", detail.reset_after));
        }
    }
    Ok(())
}
