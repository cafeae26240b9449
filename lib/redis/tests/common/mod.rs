//! Helpers of the tests.
#![allow(dead_code)]

use tollgate_kernel::{Policy, Request, Store};
use tollgate_redis::Redis;

pub(crate) fn policy(text: &str) -> Policy {
    text.parse().unwrap()
}

/// Runs one command on a new connection.
pub(crate) fn command(url: &str, args: &[&str]) -> redis::Value {
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    let mut command = redis::Cmd::new();
    args.iter().for_each(|arg| {
        command.arg(*arg);
    });
    command.query(&mut connection).unwrap()
}

/// Measures how late this machine's timers are during a measurement, since other programs may use it too.
pub(crate) struct TimerLag(std::sync::Arc<std::sync::atomic::AtomicU64>, tokio::task::JoinHandle<()>);

impl TimerLag {
    pub(crate) fn start() -> Self {
        use std::time::{Duration, Instant};
        let latest = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
        let seen = latest.clone();
        let beat = Duration::from_millis(5);
        let task = tokio::spawn(async move {
            loop {
                let start = Instant::now();
                tokio::time::sleep(beat).await;
                let late = start.elapsed().saturating_sub(beat).as_micros() as u64;
                seen.fetch_max(late, std::sync::atomic::Ordering::Relaxed);
            }
        });
        Self(latest, task)
    }

    /// Returns the greatest lateness of a timer so far.
    pub(crate) fn latest(&self) -> std::time::Duration {
        std::time::Duration::from_micros(self.0.load(std::sync::atomic::Ordering::Relaxed))
    }
}

impl Drop for TimerLag {
    fn drop(&mut self) {
        self.1.abort();
    }
}

/// Returns the units of a key that are in use in the server.
pub(crate) async fn held(store: &Redis, text: &str, key: &[u8]) -> u64 {
    let policy = policy(text);
    let decision = store.check(&policy, key, Request::ONE.peek()).await.unwrap();
    assert_eq!(decision.source, tollgate_kernel::Source::Home);
    policy.limits()[0].count() - decision.remaining as u64
}

/// Lets `callers` concurrent callers make `times` checks each; returns how many the server allowed.
pub(crate) async fn storm(store: &Redis, text: &str, key: &'static [u8], callers: usize, times: usize) -> u64 {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..callers {
        let (store, policy) = (store.clone(), policy(text));
        tasks.spawn(async move {
            let mut admitted = 0;
            for _ in 0..times {
                let decision = store.check(&policy, key, Request::ONE).await.unwrap();
                assert_eq!(decision.source, tollgate_kernel::Source::Home);
                admitted += u64::from(decision.allowed);
            }
            admitted
        });
    }
    tasks.join_all().await.into_iter().sum()
}
