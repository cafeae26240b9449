//! Many keys: none waits for another, and a flood of one key does not take all places.

use std::time::Duration;

use tollgate_kernel::Micros;

use super::super::{LineQuestion, WaitLine};
use super::scene::{ModelOutcome, Scene};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn every_key_has_its_own_pace() {
    let mut scene = Scene::new("10/s", WaitLine::new(HOUR));
    // Key after key, so that a request that waited for other keys would be late.
    let keys: Vec<String> = (0..100).map(|key| format!("client-{key}")).collect();
    for (index, key) in keys.iter().enumerate() {
        scene.advance(Micros::new(index as u64 % 7));
        scene.crowd_in(key, 100);
    }
    assert_eq!((scene.line.waiting(), scene.line.keys(), scene.clock.sleeping()), (9_000, 100, 100));
    scene.finish(10_000);
    for key in 0..100 {
        let times: Vec<u64> = (key * 100..(key + 1) * 100).map(|id| scene.end(id).unwrap().at).collect();
        let pace: Vec<u64> = (0..100).map(|index| times[0] + (index / 10) * 1_000_000).collect();
        assert_eq!(times, pace, "client-{key}");
    }
}

#[test]
fn a_flood_of_one_key_does_not_keep_another_out() {
    let mut scene = Scene::new("1/s", WaitLine::new(HOUR).most(100));
    scene.crowd_in("flood", 301);
    assert_eq!((scene.line.waiting(), scene.line.keys()), (100, 1));
    let full: Vec<usize> =
        scene.ends.borrow().iter().filter(|end| end.fate == ModelOutcome::Full).map(|end| end.id).collect();
    assert!(full.iter().copied().eq(101..301), "the flood's own later requests find no place");
    assert_eq!(scene.asks.borrow().iter().filter(|(_, ask)| *ask == LineQuestion::Look).count(), 200);

    scene.crowd_in("bob", 3);
    assert_eq!((scene.line.waiting(), scene.line.keys()), (100, 2));
    assert_eq!(scene.end(301).unwrap().fate, ModelOutcome::Passed);
    // Two of bob's requests wait, in the places of the flood's last two.
    assert_eq!([scene.end(100).unwrap().fate, scene.end(99).unwrap().fate], [ModelOutcome::Full, ModelOutcome::Full]);
    assert!(scene.end(98).is_none());
    scene.finish(200);
    assert_eq!(scene.end(302).unwrap().at, 1_000_000);
    assert_eq!(scene.end(303).unwrap().at, 2_000_000);
    assert_eq!(scene.end(98).unwrap().at, 98_000_000);
}

/// Two floods share the places, and do not displace each other for ever.
#[test]
fn two_floods_end_up_with_half_each() {
    let mut scene = Scene::new("1/s", WaitLine::new(HOUR).most(10));
    scene.crowd_in("flood", 50);
    scene.crowd_in("other", 50);
    let lengths = |scene: &Scene| {
        let there = scene.crowd.there();
        (there.iter().filter(|id| **id < 50).count(), there.iter().filter(|id| **id >= 50).count())
    };
    assert_eq!(lengths(&scene), (5, 5));
    let before = scene.ends.borrow().len();
    scene.crowd_in("flood", 5);
    scene.crowd_in("other", 5);
    let ends = scene.ends.borrow()[before..].to_vec();
    assert!(ends.iter().all(|end| end.fate == ModelOutcome::Full && end.id >= 100), "{ends:?}");
    // Ten keys have one place each; an eleventh finds none.
    for key in ["c", "d", "e", "f", "g", "h", "i", "j"] {
        scene.crowd_in(key, 2);
    }
    assert_eq!((scene.line.waiting(), scene.line.keys()), (10, 10));
    scene.crowd_in("k", 2);
    assert_eq!((scene.line.waiting(), scene.line.keys()), (10, 10));
    let last = scene.ends.borrow().last().copied().unwrap();
    assert_eq!((last.fate, last.decision.allowed), (ModelOutcome::Full, false));
    scene.finish(20);
}

#[test]
fn a_key_has_no_more_waiters_than_it_may() {
    let mut scene = Scene::new("1/s", WaitLine::new(HOUR).most_a_key(3).most(100));
    scene.crowd_in("alice", 10);
    scene.crowd_in("bob", 2);
    assert_eq!((scene.line.waiting(), scene.line.keys()), (4, 2));
    let full = scene.ends.borrow().iter().filter(|end| end.fate == ModelOutcome::Full).count();
    assert_eq!(full, 6);
    scene.finish(10);
}

/// A line without places refuses like a gate, with the answer that the gate gave.
#[test]
fn a_line_without_places_has_nobody_wait() {
    for line in [WaitLine::new(HOUR).most(0), WaitLine::new(HOUR).most_a_key(0)] {
        let mut scene = Scene::new("1/s", line);
        scene.crowd_in("alice", 2);
        assert_eq!(scene.fates(), [(0, ModelOutcome::Passed, 0), (1, ModelOutcome::Full, 0)]);
        assert_eq!(*scene.asks.borrow(), [(0, LineQuestion::Charge), (1, LineQuestion::Charge)]);
    }
}

/// Dropped after it was displaced but before it ran: its place belongs to another request by then.
#[test]
fn a_place_that_was_taken_is_not_given_up_twice() {
    let mut scene = Scene::new("1/s", WaitLine::new(HOUR).most(3));
    scene.crowd_in("flood", 4);
    scene.crowd_in("bob", 1);
    scene.come("bob", 1);
    assert!(scene.crowd.run_one() && scene.crowd.cancel(3));
    scene.crowd.run();
    assert_eq!((scene.line.waiting(), scene.line.keys()), (3, 2));
    scene.finish(10);
    assert!([1, 2, 5].iter().all(|id| scene.end(*id).unwrap().fate == ModelOutcome::Passed));
}
