//! Tests of the checker: what is too much is found, what is not is not.

use tollgate_kernel::algorithms::ALGORITHMS;
use tollgate_kernel::{KeyState, Options, Policy, Request};

use super::*;
use tollgate_random::Rng;

/// A time at no edge of any window.
const START: u64 = 1_700_000_000_000_007;

fn events(pairs: &[(u64, u64)]) -> Vec<Event> {
    pairs.iter().map(|(at, units)| Event { at: Timestamp::saturating(START + at), units: *units }).collect()
}

/// Limits of text with periods in microseconds, which policy text does not take.
fn limits(text: &str) -> Vec<Arc<Limit>> {
    let policy: Policy = text.replace("us", "ms").parse().unwrap();
    let shortened = policy.limits().iter().map(|limit| {
        let (count, period, options) = limit.rule().numbers();
        Limit::build(limit.rule().name(), count, Micros::new(period.get() / 1_000), &options).unwrap()
    });
    shortened.map(Arc::new).collect()
}

/// The span and the units of the excess, if there is one.
fn judged(text: &str, pairs: &[(u64, u64)]) -> Option<(u64, u64)> {
    excess(&limits(text), &events(pairs)).map(|found| (found.span.get(), found.units))
}

/// A random limit of small numbers by each algorithm in turn.
fn random_limit(rng: &mut Rng, index: usize) -> Limit {
    let listed = &ALGORITHMS[index % ALGORITHMS.len()];
    let (count, period) = (rng.within(1, 7), rng.within(1, 40));
    let options = Options {
        burst: listed.takes.burst.then(|| rng.within(1, count)),
        resolution: listed.takes.resolution.then(|| Micros::new(rng.within(1, period))),
        factor: listed.takes.factor.then_some(2.0),
        align: (listed.takes.align && rng.chance(50)).then_some(Alignment::Clock),
        buckets: listed.takes.buckets.then(|| rng.within(1, 7)),
        ..Options::default()
    };
    Limit::build(listed.name, count, Micros::new(period), &options).unwrap()
}

/// All that fits, asked for again and again as time passes in random steps of at most `step`.
fn greedy(rng: &mut Rng, limit: &Limit, steps: u64, step: u64) -> Vec<Event> {
    let policy = Policy::new(vec![limit.clone()]).unwrap();
    let (mut key, mut at) = (KeyState::default(), START + rng.below(100));
    let mut admitted = Vec::new();
    for _ in 0..steps {
        at += rng.within(1, step);
        let t = Timestamp::saturating(at);
        while key.decide(&policy, t, &Request::ONE).allowed {
            admitted.push(Event { at: t, units: 1 });
        }
    }
    admitted
}

#[test]
fn sliding_at_the_bound_passes_and_one_more_is_found() {
    let full = [(0, 3), (5, 2), (9, 5), (10, 3), (15, 2), (19, 5)];
    assert_eq!(judged("10/10us", &full), None);
    for place in 0..full.len() {
        let mut more = full;
        more[place].1 += 1;
        let (span, units) = judged("10/10us", &more).unwrap();
        assert_eq!(units, 10 * span.div_ceil(10) + 1, "one more at {place}");
    }
    assert_eq!(judged("10/10us", &[(0, 3), (9, 8)]), Some((10, 11)));
    assert_eq!(judged("10/10us", &[(0, 3), (10, 8)]), None);
}

#[test]
fn counted_windows_are_checked_over_every_number_of_edges() {
    // 3 windows may touch an interval of 12us: not 4, though each of its halves may see 2.
    assert_eq!(judged("5/10us fixed", &[(9, 5), (10, 5), (20, 5)]), None);
    assert_eq!(judged("5/10us fixed", &[(9, 5), (10, 5), (19, 1)]), Some((11, 11)));
    assert_eq!(judged("5/10us fixed", &[(9, 5), (10, 5), (20, 5), (29, 1)]), Some((21, 16)));
    assert_eq!(judged("5/10us fixed", &[(9, 5), (10, 5), (20, 5), (30, 1)]), None);
    assert_eq!(judged("5/10us fixed", &[(9, 6)]), Some((1, 6)));
    // The last interval of very many.
    let mut many: Vec<_> = (0..10_000).map(|window| (10 * window, 5)).collect();
    assert_eq!(judged("5/10us fixed", &many), None);
    many.push((99_991, 5));
    assert_eq!(judged("5/10us fixed", &many), None, "the first interval may begin at the end of a window");
    many.push((99_992, 1));
    assert!(judged("5/10us fixed", &many).is_some());
}

#[test]
fn a_rate_with_a_burst_is_checked_to_the_fraction() {
    // 3 units every 10us: the seventh comes at 24us, since 3 * 23 / 10 is not 7.
    let steady = [(0, 4), (4, 1), (7, 1), (10, 1), (14, 1), (17, 1), (20, 1), (24, 1)];
    assert_eq!(judged("3/10us gcra burst=4", &steady), None);
    for early in 1..steady.len() {
        let mut soon = steady;
        soon[early].0 -= 1;
        assert_eq!(judged("3/10us gcra burst=4", &soon), Some((soon[early].0 + 1, early as u64 + 4)));
    }
}

#[test]
fn windows_of_the_clock_admit_the_count_each() {
    // 1_700_000_000_000_007 is 7us after an edge.
    for text in ["5/10us fixed align=clock", "5/10us estimate"] {
        assert_eq!(judged(text, &[(2, 5), (3, 5)]), None);
        assert_eq!(judged(text, &[(2, 5), (4, 4), (12, 2)]), Some((10, 6)), "though 2us saw no more than 10");
    }
    assert_eq!(judged("5/10us fixed", &[(2, 5), (4, 4), (12, 1)]), None);
}

#[test]
fn every_limit_of_a_policy_is_checked() {
    let found = excess(&limits("10/10us, 12/20us"), &events(&[(0, 10), (10, 3)])).unwrap();
    assert_eq!(found.to_string(), "12/20us: 13 units in the 11us from 1700000000000007us, at most 12 promised");
}

#[test]
fn no_events_are_not_too_many() {
    assert_eq!(judged("1/9us", &[]), None);
    assert_eq!(judged("1/9us", &[(0, 1)]), None);
}

/// For every algorithm the stairs are the promise, not only where [`Stairs::of`] looked.
#[test]
fn promises_are_stairs() {
    let mut rng = Rng::new(1);
    for index in 0..4_000 {
        let limit = random_limit(&mut rng, index);
        let stairs = Stairs::of(&limit).unwrap_or_else(|| panic!("{limit} is checked pair by pair"));
        for span in (1..400).chain((0..50).map(|_| rng.within(1, 1 << 50))) {
            let most = limit.rule().most_in(Micros::new(span));
            assert_eq!(u128::from(most), stairs.most_in(span), "{limit} in {span}us: {stairs:?}");
        }
    }
}

/// What each algorithm admits passes; with a few units more the sweep finds an interval exactly if
/// looking at every pair does.
#[test]
fn the_sweep_agrees_with_every_pair() {
    let mut rng = Rng::new(2);
    let mut too_full = 0;
    for index in 0..8_000 {
        let limit = random_limit(&mut rng, index);
        let step = rng.within(1, 2 * limit.period().get());
        let mut admitted = greedy(&mut rng, &limit, 30, step);
        assert_eq!(limit_excess(&limit, &merged(&admitted)), None);
        for _ in 0..rng.within(1, 4) {
            let place = rng.index(admitted.len());
            match rng.below(3) {
                0 => admitted[place].units += 1,
                1 => admitted[place].at = Timestamp::saturating(admitted[place].at.get() - rng.below(9)),
                _ => admitted.push(Event { at: admitted[place].at.plus(Micros::new(rng.below(9))), units: 1 }),
            }
        }
        admitted.sort_by_key(|event| event.at);
        let admitted = merged(&admitted);
        let swept = sweep(&limit, &Stairs::of(&limit).unwrap(), &admitted).is_some();
        assert_eq!(swept, pairs(&limit, &admitted).is_some(), "{limit}: {admitted:?}");
        too_full += u64::from(swept);
    }
    assert!((2_000..6_000).contains(&too_full), "both are tried: {too_full} of 8,000 are too full");
}

/// Where the clock ticks by one and all that fits is taken, the kernel admits all that `sliding` and
/// `gcra` promise: their promises are no larger than they need be.
#[test]
fn the_promise_is_reached() {
    for text in ["5/10us", "5/10us gcra", "3/7us gcra burst=11", "1/9us"] {
        let limit = Limit::clone(&limits(text)[0]);
        let admitted = greedy(&mut Rng::new(3), &limit, 1_000, 1);
        let sum: u64 = admitted.iter().map(|event| event.units).sum();
        assert_eq!(sum, limit.rule().most_in(Micros::new(1_000)), "{text}");
    }
}
