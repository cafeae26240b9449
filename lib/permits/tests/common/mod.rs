//! What the tests share.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use std::time::{Duration, Instant};

use tollgate_permits::{Acquired, Concurrency, Permit};

/// Longer than anything here takes, on any machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Random numbers from a seed: SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Asks until there is an answer; fails with what was waited for if there is none in a long time.
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
        Acquired::Held(permit) => permit,
        Acquired::Full(full) => panic!("expected a permit, found {full:?}"),
    }
}

/// Panics that the tests make are not shown.
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
