//! Random answers that take time, and many threads: no wake is lost, and only the head asks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tollgate_kernel::Micros;
use tollgate_random::Rng;

use super::super::{LineAnswer, LineOutcome, LineQuestion, WaitLine};
use super::scene::ModelOutcome;
use super::slow::{Answer, SlowStore};
use crate::testing::TestClock;

const KEYS: [&str; 3] = ["alice", "bob", "carol"];

/// Answers the question at this index by the gate, as of now.
fn answer(store: &mut SlowStore, gate: &tollgate::Gate, keys: &[&'static str], index: usize) {
    let (id, ask) = store.asked.borrow().get(index).map(|(id, ask, _)| (*id, *ask)).unwrap();
    let question = gate.ask(keys[id]);
    let decision = match ask {
        LineQuestion::Charge => question.check().unwrap(),
        LineQuestion::Look => question.peek().unwrap(),
    };
    store.answer(id, Ok(Answer(decision.wait())));
}

/// A request that left while its answer was pending may have been charged in vain, which is the store's concern;
/// none is forgotten.
#[test]
fn with_slow_answers_only_the_head_is_asked_for_and_all_come_to_an_end() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let mut store = SlowStore::new(WaitLine::new(Duration::from_millis(700)).most(2 + rng.index(12)));
        let gate = store.clock.gate("5/s").unwrap();
        let (mut keys, mut newcomers) = (Vec::new(), BTreeSet::new());
        for step in 0..300 {
            let asked = store.asked.borrow().len();
            match rng.below(8) {
                0..3 => {
                    let key = rng.pick(&KEYS);
                    keys.push(key);
                    let id = store.come(key);
                    if store.asked.borrow().iter().any(|(who, ..)| *who == id) {
                        newcomers.insert(id);
                    }
                }
                3..6 if asked > 0 => {
                    let index = rng.index(asked);
                    newcomers.remove(&store.asked.borrow()[index].0);
                    answer(&mut store, &gate, &keys, index);
                }
                6 if !store.crowd.there().is_empty() => {
                    let there = store.crowd.there();
                    store.crowd.cancel(there[rng.index(there.len())]);
                    store.asked.borrow_mut().retain(|(_, _, answer)| !answer.is_closed());
                    store.crowd.run();
                }
                _ => store.advance(rng.below(200_000)),
            }
            for key in KEYS {
                let asked = store.asked.borrow();
                let of_key = asked.iter().filter(|(id, ask, _)| *ask == LineQuestion::Charge && keys[*id] == key);
                let heads = of_key.filter(|(id, ..)| !newcomers.contains(id)).count();
                assert!(heads <= 1, "seed {seed}, step {step}: {heads} of {key} are asked for");
            }
            assert!(store.clock.sleeping() <= KEYS.len(), "seed {seed}, step {step}");
        }
        for _ in 0..10_000 {
            let asked = store.asked.borrow().len();
            match asked {
                0 if store.crowd.there().is_empty() => break,
                0 => {
                    store.advance(store.clock.next_wake().unwrap_or_else(|| panic!("seed {seed}: nobody moves")).get())
                }
                _ => answer(&mut store, &gate, &keys, rng.index(asked)),
            }
        }
        assert_eq!((store.line.waiting(), store.line.keys(), store.clock.sleeping()), (0, 0, 0), "seed {seed}");
        let ends = store.ends.borrow();
        assert!(ends.iter().any(|(_, fate, _)| *fate == Some(ModelOutcome::Passed)), "seed {seed}");
    }
}

/// Requests arrive, pass and are cancelled on four threads while the clock moves: all that are not cancelled pass.
#[test]
fn on_many_threads_no_wake_is_lost() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
    let clock = TestClock::new();
    let gate = Arc::new(clock.gate("10/s").unwrap());
    let line = WaitLine::new(Duration::from_secs(3_600)).timer(clock.clone());
    let passed = Arc::new(AtomicUsize::new(0));
    runtime.block_on(async {
        let mut rng = Rng::new(11);
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
                assert!(matches!(waited.await, Ok(LineOutcome::Passed(_))));
                passed.fetch_add(1, Ordering::Relaxed);
            }));
            if number % 3 == 0 {
                tasks[rng.index(tasks.len())].abort();
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
