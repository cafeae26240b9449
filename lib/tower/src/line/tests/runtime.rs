//! Under the runtime's own timer, with its time paused: it advances by itself when all tasks sleep.

use std::sync::Arc;
use std::time::Duration;

use tollgate::Gate;
use tollgate_kernel::{Clock, Timestamp};

use super::super::{LineOutcome, LineQuestion, WaitLine};
use crate::timer::{Timer, TokioTimer};

/// The runtime's clock for the gate, some years after the epoch.
struct RuntimeClock(TokioTimer);

impl Clock for RuntimeClock {
    fn now(&self) -> Timestamp {
        Timestamp::saturating(1_700_000_000_000_000 + self.0.now().get())
    }
}

#[tokio::test(start_paused = true)]
async fn waiters_pass_by_the_runtimes_timer() {
    let timer = TokioTimer::new();
    let gate = Arc::new(Gate::builder().policy("100/s gcra burst=1").clock(RuntimeClock(timer)).build().unwrap());
    let line = WaitLine::new(Duration::from_secs(3));
    let mut tasks = Vec::new();
    for _ in 0..400 {
        let (gate, line) = (gate.clone(), line.clone());
        tasks.push(tokio::spawn(async move {
            let waited = line.wait(b"alice", async |ask| match ask {
                LineQuestion::Charge => gate.check("alice"),
                LineQuestion::Look => gate.peek("alice"),
            });
            let passed = matches!(waited.await.unwrap(), LineOutcome::Passed(_));
            (passed, timer.now().get())
        }));
    }
    let mut ends = Vec::new();
    for task in tasks {
        ends.push(task.await.unwrap());
    }
    // One every ten milliseconds for three seconds; the 302nd would need 3.01 s.
    let passed: Vec<u64> = ends.iter().filter(|(passed, _)| *passed).map(|(_, at)| *at).collect();
    assert!(passed.iter().copied().eq((0..=300).map(|index| index * 10_000)), "{passed:?}");
    assert!(ends[301..].iter().all(|(passed, at)| !passed && *at == 3_000_000));
    assert_eq!((line.waiting(), line.keys()), (0, 0));
}

/// What services require of the line and of its futures.
#[test]
fn lines_and_their_futures_go_from_thread_to_thread() {
    fn goes<T: Send>(_: &T) {}
    fn shared<T: Sync>(_: &T) {}
    let line = WaitLine::new(Duration::from_secs(1));
    shared(&line);
    goes(&line);
    let gate = Gate::memory("1/s").unwrap();
    goes(&line.wait(b"alice", async |_| gate.check("alice")));
}
