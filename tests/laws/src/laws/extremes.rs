//! At the ends of every range nothing panics, wraps or goes negative.

use tollgate_kernel::algorithms::ALGORITHMS;
use tollgate_kernel::{Alignment, Cost, EXACT, KeyState, Limit, Micros, Mode, Options, Policy, Request, Timestamp};

use crate::case::Case;
use crate::walk::{Verdict, span};
use tollgate_random::Rng;

pub(crate) fn check(case: &Case) -> Verdict {
    // The case gives the algorithm; the numbers here are its own.
    let mut rng = Rng::new(case.start ^ case.ops.len() as u64);
    let names = case.stages[0].limits().iter().map(|limit| limit.rule().name());
    let limits: Vec<Limit> = names.filter_map(|name| extreme(&mut rng, name)).collect();
    let Ok(policy) = Policy::new(limits) else { return Ok(()) };
    let mut state = KeyState::default();
    for _ in 0..30 {
        let t = Timestamp::saturating(number(&mut rng));
        let cost = Cost::new(number(&mut rng)).unwrap_or(Cost::ONE);
        let request = Request::cost(cost).mode(rng.pick(&Mode::ALL));
        let decision = state.decide(&policy, t, &request);
        let most = 1i64 << 55;
        let sane = decision.granted <= cost.get()
            && decision.allowed == (decision.granted > 0 || (cost.get() == 0 && decision.limited_by.is_none()))
            && (-most..=most).contains(&decision.remaining)
            && (decision.remaining >= 0 || request.mode == Some(Mode::Uniform))
            && span(decision.retry_after).is_none_or(|wait| wait <= 1 << 56)
            && decision.flat().iter().chain(&decision.flat_rest()).all(|value| *value >= -most);
        if !sane {
            return Err(format!("{policy} at {t:?}: {request:?} {decision:?}"));
        }
        let given = state.refund(&policy, t, cost.get(), Timestamp::saturating(number(&mut rng)));
        if given > cost.get() {
            return Err(format!("{policy}: gave back {given} of {cost:?}"));
        }
        if rng.chance(10) {
            state.reset(&policy, t);
        }
    }
    Ok(())
}

/// A limit at the ends of its ranges, if the numbers drawn are legal.
fn extreme(rng: &mut Rng, name: &str) -> Option<Limit> {
    let takes = ALGORITHMS.iter().find(|listed| listed.name == name)?.takes;
    (0..20).find_map(|_| {
        let options = Options {
            burst: takes.burst.then(|| number(rng)),
            grain: (takes.grain && rng.chance(50)).then(|| Micros::new(number(rng))),
            resolution: takes.resolution.then(|| Micros::new(number(rng))),
            factor: takes.factor.then(|| rng.pick(&[1.000_001, 1.1, 1e9])),
            align: (takes.align && rng.chance(50)).then_some(Alignment::Clock),
            buckets: takes.buckets.then(|| number(rng)),
            level: (takes.factor && rng.chance(50)).then_some(0.5),
        };
        let limit = Limit::build(name, number(rng), Micros::new(number(rng)), &options).ok()?;
        limit.spaced(Micros::new(number(rng))).ok()
    })
}

/// Numbers near the ends and the middle of the ranges.
fn number(rng: &mut Rng) -> u64 {
    let near = rng.pick(&[0, 1, 2, 1_000_000, 1 << 32, 1_000_000_000, 1 << 47, 31_622_400_000_000, 1 << 52, EXACT]);
    let away = rng.below(3);
    if rng.chance(50) { near.saturating_sub(away) } else { near + away }
}
