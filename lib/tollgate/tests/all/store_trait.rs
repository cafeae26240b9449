//! The trait `Store`: the same interface whether a home answers at once or later.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tollgate::{
    Cost, Decision, Detail, JointDecision, KeyCheck, ManualClock, Memory, Policy, Reply, Request, Store, StoreError,
    Timestamp,
};

/// A home that answers later than the store that it wraps.
struct RemoteHome(Memory);

/// Is pending once.
async fn wire() {
    let mut sent = false;
    poll_fn(|context| {
        context.waker().wake_by_ref();
        if std::mem::replace(&mut sent, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

impl Store for RemoteHome {
    fn check<'a>(&'a self, policy: &'a Policy, key: &'a [u8], request: Request) -> Reply<'a, Decision> {
        Reply::later(async move {
            wire().await;
            Store::check(&self.0, policy, key, request).await
        })
    }

    fn check_full<'a>(
        &'a self,
        policy: &'a Policy,
        key: &'a [u8],
        request: Request,
    ) -> Reply<'a, (Decision, Vec<Detail>)> {
        Store::check_full(&self.0, policy, key, request)
    }

    fn check_many<'a>(
        &'a self,
        policy: &'a Policy,
        keys: &'a [&'a [u8]],
        request: Request,
    ) -> Reply<'a, Vec<Decision>> {
        Store::check_many(&self.0, policy, keys, request)
    }

    fn check_all<'a>(&'a self, items: &'a [KeyCheck<'a>]) -> Reply<'a, JointDecision> {
        Store::check_all(&self.0, items)
    }

    fn reset<'a>(&'a self, policy: &'a Policy, key: &'a [u8]) -> Reply<'a, ()> {
        Store::reset(&self.0, policy, key)
    }

    fn refund<'a>(&'a self, policy: &'a Policy, key: &'a [u8], units: Cost, at: Timestamp) -> Reply<'a, u64> {
        Store::refund(&self.0, policy, key, units, at)
    }
}

/// Polls to completion; returns the result and the number of polls.
fn wait<T>(future: impl Future<Output = T>) -> (T, u32) {
    let (mut future, mut context) = (pin!(future), Context::from_waker(Waker::noop()));
    for polls in 1..100 {
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return (done, polls);
        }
    }
    unreachable!("a future that never ends")
}

fn memory() -> Memory {
    Memory::with_clock(8 << 20, Box::new(ManualClock::at(Timestamp::new(1_700_000_000_000_000).unwrap())))
}

#[test]
fn all_homes_have_the_same_interface() {
    let policy: Policy = "2/h".parse().unwrap();
    for (store, polls) in [(Box::new(memory()) as Box<dyn Store>, 1), (Box::new(RemoteHome(memory())), 2)] {
        let mut allowed = Vec::new();
        for _ in 0..3 {
            let (decision, polled) = wait(store.check(&policy, b"k", Request::ONE));
            assert_eq!(polled, polls);
            allowed.push(decision.unwrap().allowed);
        }
        assert_eq!(allowed, [true, true, false]);
    }
}

#[test]
fn an_immediate_answer_needs_no_executor() {
    let (memory, policy): (Memory, Policy) = (memory(), "2/h".parse().unwrap());
    let known = Store::check(&memory, &policy, b"k", Request::ONE).ready();
    assert!(known.unwrap().unwrap().allowed);
    let far = RemoteHome(memory);
    assert!(far.check(&policy, b"k", Request::ONE).ready().is_err(), "the answer is pending");
}

#[test]
fn an_invalid_request_gets_an_error_with_a_hint_and_changes_nothing() {
    let (memory, policy): (Memory, Policy) = (memory(), "2/h".parse().unwrap());
    let ask = |key: &[u8]| wait(Store::check(&memory, &policy, key, Request::ONE)).0;
    assert_eq!(ask(b"").unwrap_err().to_string(), "expected a key of 1 to 512 bytes, found 0; hash longer ones");
    assert!(matches!(ask(&[7; 513]), Err(StoreError::Key(513))));
    assert!(ask(&[7; 512]).unwrap().allowed);
    let item = |key: &'static [u8]| KeyCheck { policy: &policy, key, cost: Cost::ONE };
    let twice = [item(b"a"), item(b"b"), item(b"a")];
    let error = wait(Store::check_all(&memory, &twice)).0.unwrap_err();
    assert_eq!(error.to_string(), "expected a key once under a policy, found it as items 1 and 3; add up their costs");
    assert_eq!(memory.stats().keys, 1, "only the good one");
}

#[test]
fn a_store_with_a_rolling_limiter_is_saved_with_it() {
    use tollgate::{Micros, RollingLimit, RollingLimiter, RollingOptions};
    let file = std::env::temp_dir().join(format!("tollgate-rolling-{}", std::process::id()));
    let clock = ManualClock::at(Timestamp::new(1_700_000_000_000_000).unwrap());
    let memory = Memory::with_clock(8 << 20, Box::new(clock.clone()));
    let options = RollingOptions::single(RollingLimit::new(Micros::from_secs(60), 3).min_difference(Micros::new(5)));
    let limiter = RollingLimiter::over(&memory, &options).unwrap();
    assert_eq!(limiter.attempt("alice", 2).unwrap().actions_remaining, 1);
    memory.save(&file).unwrap();
    let memory = Memory::restore(&file, 8 << 20, Some(Box::new(clock)), &[]).unwrap();
    std::fs::remove_file(file).unwrap();
    let limiter = RollingLimiter::over(&memory, &options).unwrap();
    assert_eq!(limiter.attempt("alice", 2).unwrap().acknowledged, 0);
}
