//! Long logs: thousands of events, bursts, long pauses and refunds, against a plain queue.

use std::collections::VecDeque;

use tollgate_kernel::{Cost, KeyState, Limit, Micros, Options, Policy, Request, Timestamp};

use crate::case::Case;
use crate::walk::Verdict;
use tollgate_random::Rng;

/// A long log takes as long as hundreds of short cases.
const ONE_IN: u64 = 200;

pub(crate) fn check(case: &Case) -> Verdict {
    if case.start < ONE_IN || !case.start.is_multiple_of(ONE_IN) {
        return Ok(());
    }
    let mut rng = Rng::new(case.start);
    let count = rng.within(2_000, 30_000);
    let window = count * rng.within(1, 5);
    let limit = Limit::build("sliding", count, Micros::new(window), &Options::default());
    let policy = Policy::new(vec![limit.map_err(|problem| problem.to_string())?]).map_err(|error| error.to_string())?;
    let mut state = KeyState::default();
    let mut queue: VecDeque<(u64, u64)> = VecDeque::new();
    let mut used = 0;
    let mut clock = case.start;
    for _ in 0..4 * count {
        // A few pauses a run, so that logs grow long before half of them or all has left.
        clock += match rng.below(2 * count) {
            0 => window / 2,
            1 => window,
            2 => window - 1,
            3 => 3 * window,
            _ => rng.below(3),
        };
        let t = Timestamp::saturating(clock);
        while let Some((at, units)) = queue.front()
            && at + window <= clock
        {
            used -= units;
            queue.pop_front();
        }
        let cost = if rng.below(1_500) == 0 { rng.within(1, count / 3) } else { 1 };
        let decision = state.decide(&policy, t, &Request::cost(Cost::new(cost).unwrap_or(Cost::ONE)));
        if decision.allowed != (used + cost <= count) {
            return Err(format!("{policy}: {used} used, {cost} more: {decision:?}"));
        }
        if decision.allowed {
            queue.push_back((clock, cost));
            used += cost;
        }
        if decision.remaining != count as i64 - used as i64 {
            return Err(format!("{policy}: {used} used, {} left", decision.remaining));
        }
        if decision.allowed && rng.chance(1) {
            let given = state.refund(&policy, t, cost, t);
            forget_oldest(&mut queue, given);
            used -= given;
        }
    }
    Ok(())
}

fn forget_oldest(queue: &mut VecDeque<(u64, u64)>, mut units: u64) {
    while units > 0 {
        let Some((_, oldest)) = queue.front_mut() else { break };
        let gone = units.min(*oldest);
        *oldest -= gone;
        units -= gone;
        if *oldest == 0 {
            queue.pop_front();
        }
    }
}
