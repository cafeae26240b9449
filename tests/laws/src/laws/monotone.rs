//! Waiting never lowers what remains, of any limit.

use tollgate_kernel::{Decision, Detail, Request};

use crate::case::Case;
use crate::walk::{Verdict, Watch, World, walk};

pub(crate) fn check(case: &Case) -> Verdict {
    walk(case, &mut Monotone)
}

struct Monotone;

impl Watch for Monotone {
    fn decided(&mut self, world: &World, request: &Request, _decision: &Decision, details: &[Detail]) -> Verdict {
        let mut before: Vec<i64> = details.iter().map(|detail| detail.remaining).collect();
        let horizon = world.state.expires_after(world.t()).get();
        for wait in [1, horizon / 7, horizon / 3, horizon / 2, horizon.saturating_sub(1), horizon, horizon + 1] {
            if wait == 0 {
                continue;
            }
            let mut later = Vec::new();
            for (index, detail) in world.peek_at(world.clock + wait, request).1.iter().enumerate() {
                if detail.remaining < before[index] {
                    let limit = &world.policy.limits()[index];
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
