//! Random answers that take time, and many threads: no wake is lost, and only the head asks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tollgate_kernel::Micros;

use super::super::{Ask, Asked, Line, Waited};
use super::Random;
use super::scene::Fate;
use super::slow::{Answer, Desk};
use crate::testing::TestClock;

const KEYS: [&str; 3] = ["alice", "bob", "carol"];

/// Answers the question at this index by the gate, as of now.
fn answer(desk: &mut Desk, gate: &tollgate::Gate, keys: &[&'static str], index: usize) {
    let (id, ask) = desk.asked.borrow().get(index).map(|(id, ask, _)| (*id, *ask)).unwrap();
    let question = gate.ask(keys[id]);
    let decision = match ask {
        Ask::Charge => question.check().unwrap(),
        Ask::Look => question.peek().unwrap(),
    };
    desk.answer(id, Ok(Answer(decision.wait())));
}

/// A request that left while its answer was pending may have been charged in vain, which is the store's concern;
/// none is forgotten.
#[test]
fn with_slow_answers_only_the_head_is_asked_for_and_all_come_to_an_end() {
    for seed in 0..300 {
        let mut random = Random(seed);
        let mut desk = Desk::new(Line::new(Duration::from_millis(700)).most(2 + random.below(12)));
        let gate = desk.clock.gate("5/s").unwrap();
        let (mut keys, mut newcomers) = (Vec::new(), BTreeSet::new());
        for step in 0..300 {
            let asked = desk.asked.borrow().len();
            match random.below(8) {
                0..3 => {
                    let key = KEYS[random.below(3)];
                    keys.push(key);
                    let id = desk.come(key);
                    if desk.asked.borrow().iter().any(|(who, ..)| *who == id) {
                        newcomers.insert(id);
                    }
                }
                3..6 if asked > 0 => {
                    let index = random.below(asked);
                    newcomers.remove(&desk.asked.borrow()[index].0);
                    answer(&mut desk, &gate, &keys, index);
                }
                6 if !desk.crowd.there().is_empty() => {
                    let there = desk.crowd.there();
                    desk.crowd.cancel(there[random.below(there.len())]);
                    desk.asked.borrow_mut().retain(|(_, _, answer)| !answer.is_closed());
                    desk.crowd.run();
                }
                _ => desk.advance(random.next() % 200_000),
            }
            for key in KEYS {
                let asked = desk.asked.borrow();
                let of_key = asked.iter().filter(|(id, ask, _)| *ask == Ask::Charge && keys[*id] == key);
                let heads = of_key.filter(|(id, ..)| !newcomers.contains(id)).count();
                assert!(heads <= 1, "seed {seed}, step {step}: {heads} of {key} are asked for");
            }
            assert!(desk.clock.sleeping() <= KEYS.len(), "seed {seed}, step {step}");
        }
        for _ in 0..10_000 {
            let asked = desk.asked.borrow().len();
            match asked {
                0 if desk.crowd.there().is_empty() => break,
                0 => desk.advance(desk.clock.next_wake().unwrap_or_else(|| panic!("seed {seed}: nobody moves")).get()),
                _ => answer(&mut desk, &gate, &keys, random.below(asked)),
            }
        }
        assert_eq!((desk.line.waiting(), desk.line.keys(), desk.clock.sleeping()), (0, 0, 0), "seed {seed}");
        let ends = desk.ends.borrow();
        assert!(ends.iter().any(|(_, fate, _)| *fate == Some(Fate::Passed)), "seed {seed}");
    }
}

/// Requests arrive, pass and are cancelled on four threads while the clock moves: all that are not cancelled pass.
#[test]
fn on_many_threads_no_wake_is_lost() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
    let clock = TestClock::new();
    let gate = Arc::new(clock.gate("10/s").unwrap());
    let line = Line::new(Duration::from_secs(3_600)).timer(clock.clone());
    let passed = Arc::new(AtomicUsize::new(0));
    runtime.block_on(async {
        let mut random = Random(11);
        let mut tasks = Vec::new();
        for number in 0..4_000 {
            let (gate, line, passed) = (gate.clone(), line.clone(), passed.clone());
            let key = format!("client-{}", number % 8);
            tasks.push(tokio::spawn(async move {
                let waited = line.wait(key.as_bytes(), |_| {
                    let decision = gate.check(&key);
                    async {
                        tokio::task::yield_now().await;
                        decision
                    }
                });
                assert!(matches!(waited.await, Ok(Waited::Passed(_))));
                passed.fetch_add(1, Ordering::Relaxed);
            }));
            if number % 3 == 0 {
                tasks[random.below(tasks.len())].abort();
            }
        }
        // The clock moves only to where a head wakes, and not to the far deadlines that heads watch while they ask.
        let mut looks = 0_u64;
        while tasks.iter().any(|task| !task.is_finished()) {
            if let Some(span) = clock.next_wake().filter(|span| *span <= Micros::from_secs(1)) {
                clock.advance(span);
            }
            tokio::task::yield_now().await;
            looks += 1;
            assert!(looks < 20_000_000, "{} wait and are not woken", line.waiting());
        }
        let mut kept = 0;
        for task in tasks {
            match task.await {
                Ok(()) => kept += 1,
                Err(error) => assert!(error.is_cancelled(), "{error}"),
            }
        }
        assert_eq!(passed.load(Ordering::Relaxed), kept);
    });
    assert_eq!((line.waiting(), line.keys(), clock.sleeping()), (0, 0, 0));
}
