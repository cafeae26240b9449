//! A clock set back, by however much, lets nothing pass sooner and leaves no more. And it adds at
//! most one window or refill to a wait: outside uniform mode no wait is longer than twice the time
//! after which a limit used to the full is as new.

use tollgate_core::{Cost, Decision, Detail, Limit, Mode, Policy, Request, Timestamp, Wait};

use crate::case::Case;
use crate::walk::{Verdict, Watch, World, span, walk};

pub(crate) fn check(case: &Case) -> Verdict {
    let longest = case.stages[0].limits().iter().map(|limit| horizon(limit)).max().unwrap_or(0);
    walk(case, &mut Clock { longest })
}

/// The time after which the limit is as new, counted from when it was used to the full.
fn horizon(limit: &Limit) -> u64 {
    let Ok(policy) = Policy::new(vec![limit.clone()]) else { return 0 };
    let mut cells = [limit.fresh()];
    let t = Timestamp::saturating(1_700_000_000_000_000);
    let all = tollgate_core::decide(&policy, &mut cells, t, &Request::ONE.peek()).remaining;
    let full = Request::cost(Cost::new(all.cast_unsigned()).unwrap_or(Cost::ONE)).mode(Mode::Uniform);
    let used = tollgate_core::decide(&policy, &mut cells, t, &full).reset_after.get();
    // Windows, slots and cells of the clock may just have begun.
    used.max(limit.period().get()) + limit.period().get()
}

struct Clock {
    longest: u64,
}

impl Watch for Clock {
    fn decided(&mut self, world: &World, request: &Request, decision: &Decision, _details: &[Detail]) -> Verdict {
        let uniform = request.mode.unwrap_or(world.policy.mode()) == Mode::Uniform;
        if uniform {
            return Ok(());
        }
        if let Some(wait) = span(decision.retry_after)
            && wait > 2 * self.longest
        {
            return Err(format!("wait of {wait}us, where {}us is as new", self.longest));
        }
        // A wait that an earlier step made longer may come out shorter by another.
        // More than a bucket's burst fits only in an open window, and never once that is over.
        if world.clock != world.true_time || decision.next_after == Wait::Never {
            return Ok(());
        }
        let period = world.policy.limits()[0].period().get();
        for back in [1, period / 2, period + 1, 3 * period, self.longest + 1, 3_600_000_000] {
            let (earlier, _) = world.peek_at(world.clock.saturating_sub(back), request);
            let waits = (decision.next_after, earlier.next_after);
            if waits.1 < waits.0 || earlier.remaining > decision.remaining {
                return Err(format!("set back {back}us: {decision:?} became {earlier:?}"));
            }
        }
        Ok(())
    }
}
