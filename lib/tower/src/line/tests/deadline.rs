//! No request waits in vain: one that cannot pass in time is refused immediately, to the microsecond.

use std::time::Duration;

use tollgate_kernel::{Micros, Timestamp, Wait};

use super::super::queue::LineQueue;
use super::super::{LineQuestion, WaitLine};
use super::scene::{ModelOutcome, Scene};

fn scene(policy: &str, longest: u64) -> Scene {
    Scene::new(policy, WaitLine::new(Duration::from_micros(longest)))
}

#[test]
fn a_request_that_fits_at_its_deadline_passes_and_one_microsecond_later_is_refused_at_once() {
    let mut exact = scene("1/s", 1_000_000);
    exact.crowd_in("alice", 2);
    exact.finish(1);
    assert_eq!(exact.fates(), [(0, ModelOutcome::Passed, 0), (1, ModelOutcome::Passed, 1_000_000)]);

    let mut short = scene("1/s", 999_999);
    short.crowd_in("alice", 2);
    assert_eq!(short.fates(), [(0, ModelOutcome::Passed, 0), (1, ModelOutcome::Refused, 0)]);
    let told = short.end(1).unwrap().decision.retry_after;
    assert_eq!(told, Wait::After(Micros::from_secs(1)));
    assert_eq!((short.line.waiting(), short.clock.sleeping()), (0, 0));
}

/// The third of three arrives after 0.4 s, and fits after 2 s: it needs 1.6 s.
#[test]
fn the_deadline_of_one_behind_counts_from_when_it_came() {
    for (longest, fate, at) in
        [(1_600_000, ModelOutcome::Passed, 2_000_000), (1_599_999, ModelOutcome::Refused, 1_000_000)]
    {
        let mut scene = scene("1/s", longest);
        scene.crowd_in("alice", 2);
        scene.advance(Micros::new(400_000));
        scene.crowd_in("alice", 1);
        assert_eq!(scene.line.waiting(), 2);
        scene.finish(2);
        assert_eq!(scene.fates(), [(0, ModelOutcome::Passed, 0), (1, ModelOutcome::Passed, 1_000_000), (2, fate, at)]);
    }
}

/// The head needs more time than it has; the next, which arrived later, has just enough.
#[test]
fn when_the_head_gives_up_the_next_is_asked_with_a_later_deadline() {
    let mut scene = scene("1/s", 1_500_000);
    scene.crowd_in("alice", 3);
    scene.advance(Micros::new(500_000));
    scene.crowd_in("alice", 1);
    scene.advance(Micros::new(499_999));
    assert_eq!(scene.line.waiting(), 3);
    scene.finish(2);
    let fates = [
        (0, ModelOutcome::Passed, 0),
        (1, ModelOutcome::Passed, 1_000_000),
        (2, ModelOutcome::Refused, 1_000_000),
        (3, ModelOutcome::Passed, 2_000_000),
    ];
    assert_eq!(scene.fates(), fates);
    assert_eq!(scene.end(2).unwrap().decision.retry_after, Wait::After(Micros::from_secs(1)));
}

#[test]
fn who_never_fits_is_refused_at_once_and_the_next_goes_on() {
    let mut scene = scene("2/s", 5_000_000);
    scene.come("alice", 3);
    scene.crowd.run();
    assert_eq!(scene.fates(), [(0, ModelOutcome::Refused, 0)]);
    assert_eq!(scene.end(0).unwrap().decision.retry_after, Wait::Never);
    scene.crowd_in("alice", 3);
    scene.come("alice", 3);
    scene.come("alice", 1);
    scene.crowd.run();
    scene.finish(2);
    assert_eq!(
        scene.fates()[3..],
        [
            (3, ModelOutcome::Passed, 1_000_000),
            (4, ModelOutcome::Refused, 1_000_000),
            (5, ModelOutcome::Passed, 1_000_000)
        ]
    );
}

/// A head of greater cost is not overtaken by a request behind it that would fit.
#[test]
fn a_dear_request_at_the_head_is_not_overtaken_by_a_cheap_one() {
    let mut scene = scene("10/s", 5_000_000);
    scene.come("alice", 6);
    scene.crowd.run();
    scene.come("alice", 6);
    scene.crowd.run();
    scene.come("alice", 1);
    scene.crowd.run();
    assert_eq!(scene.fates(), [(0, ModelOutcome::Passed, 0)]);
    scene.finish(2);
    assert_eq!(scene.fates()[1..], [(1, ModelOutcome::Passed, 1_000_000), (2, ModelOutcome::Passed, 1_000_000)]);
}

/// The machine was suspended, or a timer is late: requests that fit when they are woken pass, and the others are
/// refused then; none stays.
#[test]
fn a_clock_that_jumps_far_beyond_all_deadlines_leaves_nobody() {
    let mut scene = scene("100/s", 10_000_000);
    scene.crowd_in("alice", 1_000);
    scene.advance(Micros::from_secs(3_600));
    scene.finish(0);
    let fates = scene.fates();
    assert!(fates[100..200].iter().all(|(_, fate, _)| *fate == ModelOutcome::Passed));
    assert!(fates[200..].iter().all(|(_, fate, _)| *fate == ModelOutcome::Refused));
    assert!(fates.iter().map(|(id, ..)| *id).eq(0..1_000));
}

#[test]
fn with_no_time_to_wait_the_line_refuses_as_a_gate_does() {
    let mut scene = scene("1/s", 0);
    scene.crowd_in("alice", 3);
    assert_eq!(
        scene.fates(),
        [(0, ModelOutcome::Passed, 0), (1, ModelOutcome::Refused, 0), (2, ModelOutcome::Refused, 0)]
    );
    assert_eq!(*scene.asks.borrow(), [(0, LineQuestion::Charge), (1, LineQuestion::Charge), (2, LineQuestion::Charge)]);
}

/// The order of a line is that of its deadlines, even if a timer goes back.
#[test]
fn a_clock_that_goes_back_does_not_change_the_order_of_deadlines() {
    let at = Timestamp::saturating;
    let mut queue = LineQueue::default();
    let (first, _) = queue.join(b"alice", at(30), 10, 10).unwrap();
    let (second, _) = queue.join(b"alice", at(20), 10, 10).unwrap();
    let (third, _) = queue.join(b"alice", at(40), 10, 10).unwrap();
    assert_eq!([first.until, second.until, third.until], [at(30), at(30), at(40)]);
    assert_eq!(queue.next_deadline(&first), Some(at(30)));
    queue.expire(&first, at(29));
    assert_eq!(queue.waiting(), 3);
    queue.expire(&first, at(30));
    assert_eq!((queue.waiting(), queue.next_deadline(&first)), (2, Some(at(40))));
}
