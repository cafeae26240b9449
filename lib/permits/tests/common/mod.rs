//! Helpers of the tests.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use std::time::{Duration, Instant};

use tollgate_permits::{Acquisition, Concurrency, Permit};

/// Longer than any step of a test takes, on any machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Polls `ask` until it returns a value. Fails after [`LONG`], naming what it waited for.
pub(crate) async fn until<T>(waiting: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    while began.elapsed() < LONG {
        if let Some(answer) = ask().await {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("waited {LONG:?} for {waiting}");
}

pub(crate) async fn take(limit: &Concurrency, key: &[u8]) -> Permit {
    match limit.acquire(key).await.unwrap() {
        Acquisition::Held(permit) => permit,
        Acquisition::Full(full) => panic!("expected a permit, found {full:?}"),
    }
}

/// Hides the messages of panics that the tests cause on purpose.
pub(crate) fn quiet() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if info.payload().downcast_ref::<&str>() != Some(&ON_PURPOSE) {
                usual(info);
            }
        }));
    });
}

pub(crate) const ON_PURPOSE: &str = "on purpose";

/// The size of a storm: `TOLLGATE_PERMITS` if it is set.
pub(crate) fn size(usual: u64) -> u64 {
    std::env::var("TOLLGATE_PERMITS").ok().and_then(|size| size.parse().ok()).unwrap_or(usual)
}
