//! 100,000 requests in one process, many of which are cancelled or panic: never over the limit, no place lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{ON_PURPOSE, quiet, size};
use tollgate_permits::{Acquisition, Concurrency};
use tollgate_random::Rng;

const MAX: u64 = 7;
const KEYS: usize = 5;
const REQUESTS: u64 = 100_000;
const CALLERS: u64 = 64;

/// Counts independently of the limit: the requests that run under each key, and their maximum.
#[derive(Default)]
struct RunCounts {
    running: [AtomicU64; KEYS],
    most: [AtomicU64; KEYS],
    /// The requests that got a permit and completed, panicked or were cancelled; and those that got none.
    counts: [AtomicU64; 4],
}

/// One running request. It is declared after the permit, so that it counts down before the permit is freed.
struct RunGuard(Arc<RunCounts>, usize);

impl RunGuard {
    fn new(seen: &Arc<RunCounts>, key: usize) -> Self {
        let now = seen.running[key].fetch_add(1, Ordering::SeqCst) + 1;
        seen.most[key].fetch_max(now, Ordering::SeqCst);
        assert!(now <= MAX, "{now} of key {key} run at once");
        Self(seen.clone(), key)
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        self.0.running[self.1].fetch_sub(1, Ordering::SeqCst);
    }
}

async fn request(limit: Concurrency, seen: Arc<RunCounts>, key: usize, steps: u64, end: u64) {
    let _permit = match limit.acquire(&[b'k', key as u8]).await.unwrap() {
        Acquisition::Held(permit) => permit,
        Acquisition::Full(full) => {
            assert_eq!(u64::from(full.most), MAX);
            seen.counts[3].fetch_add(1, Ordering::Relaxed);
            return;
        }
    };
    let _running = RunGuard::new(&seen, key);
    for _ in 0..steps {
        tokio::task::yield_now().await;
    }
    match end {
        0 => {
            seen.counts[1].fetch_add(1, Ordering::Relaxed);
            std::panic::panic_any(ON_PURPOSE);
        }
        // Cancelled: it never ends by itself.
        1 => {
            seen.counts[2].fetch_add(1, Ordering::Relaxed);
            std::future::pending().await
        }
        _ => seen.counts[0].fetch_add(1, Ordering::Relaxed),
    };
}

async fn caller(limit: Concurrency, seen: Arc<RunCounts>, seed: u64, requests: u64) {
    let mut rng = Rng::new(seed);
    for _ in 0..requests {
        let (key, steps, end) = (rng.index(KEYS), rng.below(8), rng.below(4));
        let task = tokio::spawn(request(limit.clone(), seen.clone(), key, steps, end));
        for _ in 0..rng.below(12) {
            tokio::task::yield_now().await;
        }
        if end == 1 {
            task.abort();
        }
        match task.await {
            Ok(()) => {}
            Err(error) if error.is_cancelled() => {}
            Err(error) => {
                let why = error.into_panic();
                assert_eq!(
                    why.downcast_ref::<&str>(),
                    Some(&ON_PURPOSE),
                    "seed {seed}: {:?}",
                    why.downcast_ref::<String>()
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn cancelled_and_panicking_requests_free_their_places() {
    quiet();
    let (limit, seen) = (Concurrency::memory(MAX as u32).unwrap(), Arc::new(RunCounts::default()));
    let requests = size(REQUESTS).div_ceil(CALLERS);
    let callers: Vec<_> =
        (0..CALLERS).map(|seed| tokio::spawn(caller(limit.clone(), seen.clone(), seed, requests))).collect();
    for caller in callers {
        caller.await.unwrap();
    }
    for key in 0..KEYS {
        assert_eq!(seen.most[key].load(Ordering::SeqCst), MAX, "the limit was met");
        assert_eq!(seen.running[key].load(Ordering::SeqCst), 0);
        assert_eq!(limit.held(&[b'k', key as u8]).await.unwrap(), 0);
    }
    assert_eq!(limit.keys(), 0);
    let counts = seen.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
    assert!(counts.iter().all(|count| *count > requests), "each kind of end was tried: {counts:?}");
    eprintln!("{} requests: {counts:?} ended well, panicked, cancelled, refused", requests * CALLERS);
}
