//! What a seed chooses: the algorithm, the policy, the clock.
//!
//! Algorithm, number of limits and clock go round, so that as many seeds in a row as there are
//! combinations meet each. The rest is random.

use tollgate::Policy;
use tollgate_kernel::algorithms::{ALGORITHMS, AlgorithmInfo};
use tollgate_kernel::{Alignment, Limit, Micros, Options};

use tollgate_random::Rng;

/// Microseconds: short enough for limits to refill many times in a run of a few milliseconds.
const PERIODS: (u64, u64) = (100, 5_000);
/// The same for a clock that is advanced, where the shortest may tick by.
const MANUAL_PERIODS: (u64, u64) = (10, 2_000);
const MAX_COUNT: u64 = 2_000;

/// What one seed runs.
///
/// Windows that begin by the machine's clock are among the limits. Where all limits of a policy do, that
/// clock decides, and if it is set back in the few milliseconds of a run, intervals by it are not what they
/// were: then a complaint is none.
pub(super) struct Scene {
    pub(super) seed: u64,
    pub(super) algorithm: &'static str,
    /// Its first limit is by the algorithm.
    pub(super) policy: Policy,
    /// How the clock is advanced; nothing if it is the process's own.
    pub(super) pace: Option<Pace>,
    /// Whether refused attempts sometimes count. Never those on the hot key, which would be refused
    /// for good.
    pub(super) uniform: bool,
    /// Whether the table is crowded, so that keys are moved and forgotten while threads charge them.
    pub(super) crowded: bool,
}

/// How the clock is advanced: by random steps, and now and then by a leap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) start: u64,
    pub(super) longest_step: u64,
    pub(super) longest_leap: u64,
}

impl Scene {
    pub(super) fn of(seed: u64) -> Self {
        let mut rng = Rng::of_part(seed, u64::MAX);
        let among = ALGORITHMS.len() as u64;
        let listed = &ALGORITHMS[(seed % among) as usize];
        let manual = seed / among % 2 == 1;
        let limits = if seed / (2 * among) % 2 == 1 { 3 } else { 1 };
        let policy = policy(&mut rng, listed, limits, if manual { MANUAL_PERIODS } else { PERIODS });
        let pace = manual.then(|| {
            let periods = || policy.limits().iter().map(|limit| limit.period().get());
            let (shortest, longest) = (periods().min().unwrap_or(1), periods().max().unwrap_or(1));
            Pace {
                start: 1_700_000_000_000_000 + rng.below(1 << 40),
                longest_step: rng.pick(&[shortest / 100, shortest / 20, shortest / 4, 2 * shortest]).max(1),
                longest_leap: 3 * longest,
            }
        });
        let (uniform, crowded) = (rng.chance(25), rng.chance(50));
        Self { seed, algorithm: listed.name, policy, pace, uniform, crowded }
    }

    /// Another policy of as many limits, by any algorithm.
    pub(super) fn other_policy(&self, rng: &mut Rng) -> Policy {
        let listed = any_algorithm(rng);
        policy(rng, listed, self.policy.limits().len(), PERIODS)
    }

    /// The clock in words.
    pub(super) fn clock(&self) -> &'static str {
        if self.pace.is_some() { "a clock that is advanced" } else { "the process's clock" }
    }
}

fn any_algorithm(rng: &mut Rng) -> &'static AlgorithmInfo {
    &ALGORITHMS[rng.index(ALGORITHMS.len())]
}

/// A random policy of so many limits, the first by `listed`.
fn policy(rng: &mut Rng, listed: &AlgorithmInfo, limits: usize, (shortest, longest): (u64, u64)) -> Policy {
    loop {
        // Limits of one policy share their grain.
        let grain = rng.chance(25).then(|| Micros::new(rng.within(1, shortest)));
        let mut periods: Vec<u64> = (0..limits).map(|_| rng.spread(shortest, longest)).collect();
        periods.sort_unstable();
        // At most a unit in 2us, of which callers can offer twice as many. Half are near that: threads
        // meet where they charge.
        let most = (periods[0] / 2).clamp(1, MAX_COUNT);
        let mut count = if rng.chance(50) { rng.spread(1, most) } else { rng.within(most.div_ceil(2), most) };
        let mut built = Vec::new();
        for (index, period) in periods.iter().enumerate() {
            if index > 0 {
                // Between the count before and its pace, so that now one limit refuses, now the other.
                count = rng.within(count, (count * period / periods[index - 1]).min(MAX_COUNT).max(count));
            }
            let listed = if index == 0 { listed } else { any_algorithm(rng) };
            built.extend(limit(rng, listed, count, *period, grain));
        }
        // Which limit is the shortest is no matter of its place.
        if rng.chance(50) {
            built.reverse();
        }
        // Two limits of one algorithm and period are no policy: then others are tried.
        if built.len() == limits
            && let Ok(policy) = Policy::new(built)
        {
            return policy;
        }
    }
}

fn limit(rng: &mut Rng, listed: &AlgorithmInfo, count: u64, period: u64, grain: Option<Micros>) -> Option<Limit> {
    let takes = listed.takes;
    let options = Options {
        burst: takes.burst.then(|| rng.within(1, count)),
        grain: grain.filter(|_| takes.grain),
        resolution: takes.resolution.then(|| Micros::new((period / rng.within(1, 20)).max(1))),
        factor: takes.factor.then(|| rng.pick(&[2.0, 1.5, 3.0, 1.1, 10.0])),
        align: (takes.align && rng.chance(50)).then_some(Alignment::Clock),
        buckets: takes.buckets.then(|| rng.within(1, 100)),
        level: None,
    };
    Limit::build(listed.name, count, Micros::new(period), &options).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_algorithm_meets_both_clocks_with_one_limit_and_with_three() {
        let seeds = 4 * ALGORITHMS.len();
        let scenes = (0..seeds as u64).map(Scene::of);
        let met: HashSet<_> =
            scenes.map(|scene| (scene.algorithm, scene.pace.is_some(), scene.policy.limits().len())).collect();
        assert_eq!(met.len(), seeds);
    }

    #[test]
    fn a_seed_always_chooses_the_same() {
        for seed in 0..200 {
            let (scene, again) = (Scene::of(seed), Scene::of(seed));
            assert_eq!((&scene.policy, scene.uniform), (&again.policy, again.uniform));
            assert!(scene.policy.limits().iter().any(|limit| limit.rule().name() == scene.algorithm));
        }
    }
}
