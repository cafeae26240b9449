//! 10,000 waiters of one key: all pass, in order, and as evenly as the policy permits.

use std::time::Duration;

use tollgate_kernel::Micros;
use tollgate_random::Rng;

use super::super::{LineQuestion, WaitLine};
use super::scene::{ModelOutcome, Scene};

const WAITERS: usize = 10_000;
const HOUR: Duration = Duration::from_secs(3600);

fn scene(policy: &str) -> Scene {
    Scene::new(policy, WaitLine::new(HOUR))
}

/// Asserts that these requests passed, in the order of their arrival, at these times.
fn assert_passed(scene: &Scene, ids: impl Iterator<Item = usize>, at: impl Fn(usize) -> u64) {
    let expected: Vec<_> = ids.enumerate().map(|(index, id)| (id, ModelOutcome::Passed, at(index))).collect();
    let fates = scene.fates();
    let wrong = fates.iter().zip(&expected).position(|(is, should)| is != should);
    assert_eq!(wrong.map(|index| (fates[index], expected[index])), None);
    assert_eq!(fates.len(), expected.len());
}

/// Asserts that in no second, wherever it begins, more than 100 pass.
fn assert_never_over(scene: &Scene) {
    let times: Vec<u64> = scene.fates().iter().map(|(_, _, at)| *at).collect();
    for (index, pair) in times.windows(101).enumerate() {
        assert!(pair[100] - pair[0] >= 1_000_000, "101 from the {index}th on, at {} us", pair[0]);
    }
}

#[test]
fn under_a_spaced_limit_one_passes_every_ten_milliseconds() {
    let mut scene = scene("100/s gcra burst=1");
    scene.crowd_in("alice", WAITERS);
    assert_eq!((scene.line.waiting(), scene.line.keys(), scene.clock.sleeping()), (WAITERS - 1, 1, 1));
    scene.finish(WAITERS);
    assert_passed(&scene, 0..WAITERS, |index| index as u64 * 10_000);
}

#[test]
fn under_a_sliding_limit_a_hundred_pass_each_second() {
    let mut scene = scene("100/s");
    scene.crowd_in("alice", WAITERS);
    assert_eq!((scene.line.waiting(), scene.line.keys(), scene.clock.sleeping()), (WAITERS - 100, 1, 1));
    scene.finish(WAITERS);
    assert_passed(&scene, 0..WAITERS, |index| (index / 100) as u64 * 1_000_000);
    assert_never_over(&scene);
}

/// Requests arrive at random times within fifty seconds, twice as many as fit: each passes at the first moment at
/// which it fits behind those before it, and not a microsecond later.
#[test]
fn requests_that_come_one_by_one_pass_at_the_first_moment_they_fit() {
    let mut scene = scene("100/s");
    let mut rng = Rng::new(7);
    let mut came: Vec<u64> = (0..WAITERS).map(|_| rng.below(50_000_000)).collect();
    came.sort_unstable();
    let mut now = 0;
    for at in &came {
        while let Some(span) = scene.clock.next_wake().filter(|span| now + span.get() <= *at) {
            scene.advance(span);
            now += span.get();
        }
        scene.advance(Micros::new(at - now));
        now = *at;
        scene.crowd_in("alice", 1);
    }
    scene.finish(WAITERS);
    let mut ideal: Vec<u64> = Vec::new();
    for (index, at) in came.into_iter().enumerate() {
        let room = if index < 100 { 0 } else { ideal[index - 100] + 1_000_000 };
        ideal.push(at.max(room).max(ideal.last().copied().unwrap_or(0)));
    }
    assert_passed(&scene, 0..WAITERS, |index| ideal[index]);
    assert_never_over(&scene);
}

/// Half of the waiting requests leave in the middle, the head among them: the others pass as if those had never
/// arrived.
#[test]
fn who_leaves_is_neither_charged_nor_waited_for() {
    for (policy, steps) in [("100/s gcra burst=1", 3_000), ("100/s", 30)] {
        let mut scene = scene(policy);
        scene.crowd_in("alice", WAITERS);
        (0..steps).for_each(|_| assert!(scene.step()));
        let passed = scene.fates().len();
        let mut waiting = scene.crowd.there();
        let (mut rng, mut left) = (Rng::new(3), waiting.len() / 2);
        let asked_before = scene.asks.borrow().len();
        let mut index = 0;
        while left > 0 {
            assert!(scene.crowd.cancel(waiting.remove(index)));
            scene.crowd.run();
            left -= 1;
            index = rng.index(waiting.len());
        }
        assert_eq!(scene.line.waiting(), waiting.len());
        // No request behind the head was asked about. When a head left, the next asked and got the same wait.
        let heads = scene.asks.borrow().len() - asked_before;
        assert!((1..20).contains(&heads), "{heads}");
        scene.finish(WAITERS);
        let pace = |index: usize| if steps == 30 { (index / 100) as u64 * 1_000_000 } else { index as u64 * 10_000 };
        assert_passed(&scene, (0..passed).chain(waiting.iter().copied()), pace);
        assert!(scene.asks.borrow().iter().all(|(_, ask)| *ask == LineQuestion::Charge));
    }
}
