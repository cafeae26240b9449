//! A clock set back, by however much, lets nothing pass sooner and leaves no more. And it adds at
//! most one window or refill to a wait: outside uniform mode no limit has one wait longer than the
//! time after which it is as new when used to the full, and one window more.

use tollgate_kernel::{Cost, Decision, Detail, Limit, Mode, Policy, Request, Timestamp, Wait};

use crate::case::Case;
use crate::walk::{LawObserver, Simulation, Verdict, span, walk};

pub(crate) fn check(case: &Case) -> Verdict {
    walk(case, &mut ClockObserver { stages: &case.stages })
}

/// The longest a limit may have one wait, used to the full at the start of all windows and slots, and
/// what a clock that is then set back adds: one window or refill.
fn longest(limit: &Limit) -> (u64, u64) {
    let Ok(policy) = Policy::new(vec![limit.clone()]) else { return (0, 0) };
    let mut cells = [limit.fresh()];
    let t = Timestamp::default();
    let all = tollgate_kernel::decide(&policy, &mut cells, t, &Request::ONE.peek()).remaining;
    let full = Request::cost(Cost::new(all.cast_unsigned()).unwrap_or(Cost::ONE)).mode(Mode::Uniform);
    let used = tollgate_kernel::decide(&policy, &mut cells, t, &full).reset_after.get();
    let window = match limit.rule().name() {
        // A refill, and the time in which a full level fades away.
        "gcra" | "decay" => used,
        // An entry outlives its interval by half a step.
        "rolling" => used,
        _ => limit.period().get(),
    };
    (used, window)
}

struct ClockObserver<'a> {
    stages: &'a [Policy],
}

impl ClockObserver<'_> {
    /// The longest any limit of this id may have one wait: what one stage left behind is found by the others.
    fn longest(&self, limit: &Limit) -> u64 {
        let limits = self.stages.iter().flat_map(Policy::limits);
        let same = limits.filter(|other| other.id() == limit.id() && other.rule().name() == limit.rule().name());
        let (used, window) =
            same.map(|limit| longest(limit)).fold((0, 0), |(used, window), own| (used.max(own.0), window.max(own.1)));
        used + window
    }
}

impl LawObserver for ClockObserver<'_> {
    fn decided(
        &mut self,
        simulation: &Simulation,
        request: &Request,
        decision: &Decision,
        details: &[Detail],
    ) -> Verdict {
        let uniform = request.mode.unwrap_or(simulation.policy.mode()) == Mode::Uniform;
        if uniform {
            return Ok(());
        }
        let limits = simulation.policy.limits();
        let longest: Vec<u64> = limits.iter().map(|limit| self.longest(limit)).collect();
        for ((detail, longest), limit) in details.iter().zip(&longest).zip(limits) {
            let spaced = limit.spacing().map_or(0, |spacing| 2 * spacing.get());
            if let Some(wait) = span(detail.retry_after)
                && wait > longest + spaced
            {
                return Err(format!("{limit}: wait of {wait}us, at most {longest}us and {spaced}us"));
            }
        }
        // A wait that an earlier step made longer may come out shorter by another.
        // More than a bucket's burst fits only in an open window, and never once that is over.
        if simulation.clock != simulation.true_time || decision.next_after == Wait::Never {
            return Ok(());
        }
        let period = simulation.policy.limits()[0].period().get();
        for back in [1, period / 2, period + 1, 3 * period, longest[0] + 1, 3_600_000_000] {
            let (earlier, _) = simulation.peek_at(simulation.clock.saturating_sub(back), request);
            let waits = (decision.next_after, earlier.next_after);
            if waits.1 < waits.0 || earlier.remaining > decision.remaining {
                return Err(format!("set back {back}us: {decision:?} became {earlier:?}"));
            }
        }
        Ok(())
    }
}
