//! What charges nothing changes nothing: a key whose callers also peek, ask for 0 units, give back nothing and are
//! refused, under its own policies and under others, decides as one whose callers do not. Charges under limits of
//! another name or algorithm leave it alone too, however many there are.

use tollgate_kernel::algorithms::ALGORITHMS;
use tollgate_kernel::{Cost, KeyState, Limit, Micros, Mode, Options, Policy, Request, Timestamp};

use crate::case::{Case, Op};
use crate::walk::Verdict;
use tollgate_random::Rng;

/// A name that the case's first limit gets, and limits of other policies with it.
const NAME: &str = "same";
/// More texts on a key than it keeps places for.
const MANY: u64 = 70;

/// A key that is watched, and the same key with other callers.
struct Keys {
    alone: KeyState,
    shared: KeyState,
    stages: Vec<Policy>,
    others: Vec<Policy>,
    rng: Rng,
}

pub(crate) fn check(case: &Case) -> Verdict {
    let mut rng = Rng::new(case.start ^ case.ops.len() as u64);
    let stages: Vec<Policy> = case.stages.iter().map(|stage| named(stage, &case.stages)).collect();
    let others = (0..6).filter_map(|_| other(&mut rng)).collect();
    let mut keys = Keys { alone: KeyState::default(), shared: KeyState::default(), stages, others, rng };
    let (mut clock, mut stage, mut granted) = (case.start, 0, Vec::new());
    for op in &case.ops {
        let t = Timestamp::saturating(clock);
        let policy = keys.stages[stage].clone();
        keys.noise(t);
        match op {
            Op::Pass(span) => clock += span,
            Op::Expire => clock += keys.alone.expires_after(t).get(),
            Op::Back(_) => {}
            Op::Change(next) => stage = *next,
            Op::Ask(request) => {
                let (alone, shared) =
                    (keys.alone.decide_full(&policy, t, request), keys.shared.decide_full(&policy, t, request));
                if alone != shared {
                    return Err(format!("{policy} decided {alone:?}, and {shared:?} beside others"));
                }
                if alone.0.granted > 0 && !request.peek {
                    granted.push((t, alone.0.granted));
                }
            }
            Op::Refund { which, permille } if !granted.is_empty() => {
                let (at, units) = granted.swap_remove(which % granted.len());
                let units = (units * permille).div_ceil(1_000);
                let (alone, shared) =
                    (keys.alone.refund(&policy, t, units, at), keys.shared.refund(&policy, t, units, at));
                if alone != shared {
                    return Err(format!("{policy} gave back {alone}, and {shared} beside others"));
                }
            }
            Op::Refund { .. } => {}
        }
    }
    Ok(())
}

impl Keys {
    /// What others do with the key.
    fn noise(&mut self, t: Timestamp) {
        for _ in 0..self.rng.below(4) {
            let among = self.others.len() + self.stages.len();
            let place = self.rng.index(among);
            let policy = self.others.iter().chain(&self.stages).nth(place).cloned();
            let Some(policy) = policy else { return };
            let cost = Cost::new(self.rng.pick(&[0, 1, 3, 1 << 50])).unwrap_or(Cost::ONE);
            let request = Request::cost(cost).mode(self.rng.pick(&Mode::ALL));
            match self.rng.below(5) {
                0 => {
                    let _ = self.shared.decide(&policy, t, &request.peek());
                }
                1 => {
                    let _ = self.shared.decide(&policy, t, &Request::cost(Cost::new(0).unwrap_or(Cost::ONE)));
                }
                2 => {
                    self.shared.refund(&policy, t, 0, t);
                }
                3 => {
                    let never = Cost::new((1 << 53) - 1).unwrap_or(Cost::ONE);
                    let _ = self.shared.decide(&policy, t, &Request::cost(never).mode(Mode::Binary));
                }
                _ if self.is_apart(&policy) => {
                    let _ = self.shared.decide(&policy, t, &request);
                }
                _ => {}
            }
        }
        if self.rng.chance(1) {
            for period in 0..MANY {
                let limit = Limit::build("fixed", 1, Micros::new((1 << 40) + period), &Options::default());
                if let Some(policy) = limit.ok().and_then(|limit| Policy::new(vec![limit]).ok()) {
                    let _ = self.shared.decide(&policy, t, &Request::ONE);
                }
            }
        }
    }

    /// Whether a charge under `policy` is none under a limit of the key's own.
    fn is_apart(&self, policy: &Policy) -> bool {
        let mut own = self.stages.iter().flat_map(Policy::limits);
        own.all(|own| policy.limits().iter().all(|limit| !own.finds(limit, &limit.fresh())))
    }
}

/// The same policy, its first limit under a name, which only limits of the same shape have: what has expired under one
/// that forgets sooner may be gone or not.
fn named(policy: &Policy, stages: &[Policy]) -> Policy {
    let shape = |policy: &Policy| Limit::new(policy.limits()[0].rule().clone()).id().clone();
    let same = stages.iter().position(|stage| shape(stage) == shape(policy)).unwrap_or_default();
    let name = if same == 0 { NAME.to_owned() } else { format!("{NAME}-{same}") };
    let mut limits: Vec<Limit> = policy.limits().iter().map(|limit| Limit::clone(limit)).collect();
    if let Ok(named) = limits[0].clone().named(&name) {
        limits[0] = named;
    }
    Policy::new(limits).map_or_else(|_| policy.clone(), |other| other.with_mode(policy.mode()))
}

/// A policy of one limit by any algorithm and of any period, mostly of the name that the key's own has.
fn other(rng: &mut Rng) -> Option<Policy> {
    let listed = rng.pick(&ALGORITHMS.iter().map(|listed| listed.name).collect::<Vec<_>>());
    let takes = ALGORITHMS.iter().find(|other| other.name == listed)?.takes;
    let period = rng.pick(&[1, 2, 50, 1_000, 60_000_000, 86_400_000_000]);
    let options = Options {
        resolution: takes.resolution.then(|| Micros::new(period)),
        factor: takes.factor.then_some(2.0),
        buckets: takes.buckets.then_some(3),
        ..Options::default()
    };
    let limit = Limit::build(listed, rng.within(1, 9), Micros::new(period), &options).ok()?;
    let limit = if rng.chance(80) { limit.named(NAME).ok()? } else { limit };
    Policy::new(vec![limit]).ok()
}
