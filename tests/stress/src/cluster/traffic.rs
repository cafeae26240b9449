//! The callers: each asks for a key at random, a few times a second hot ones, at a steady pace.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tollgate_kernel::{Request, Source, Store};
use tollgate_redis::Redis;

use super::DEADLINE;
use super::keys::Keys;
use crate::Failure;
use crate::timing::Timing;
use tollgate_random::Rng;

/// Between two calls of a caller.
const PAUSE: Duration = Duration::from_millis(10);
/// A call that takes longer hangs.
const HANGS: Duration = Duration::from_secs(5);
/// How long traffic may take to reach all keys.
const MAX_TIME: Duration = Duration::from_secs(30);
/// One key in so many is hot, and asked for every second time.
const HOT: u64 = 100;

/// What callers saw.
pub(super) struct CallerFigures {
    pub(super) timing: Timing,
    pub(super) home: u64,
    pub(super) elsewhere: u64,
    pub(super) hung: u64,
    pub(super) errors: Vec<String>,
}

pub(super) struct Traffic {
    stop: Arc<AtomicBool>,
    /// Decisions by the server and by others so far.
    pub(super) counts: Arc<(AtomicU64, AtomicU64)>,
    tasks: JoinSet<CallerFigures>,
}

impl Traffic {
    pub(super) fn start(store: &Redis, keys: &Arc<Keys>, callers: u64, seed: u64) -> Self {
        let mut traffic = Self { stop: Arc::default(), counts: Arc::default(), tasks: JoinSet::new() };
        for number in 0..callers {
            let (store, keys, rng) = (store.clone(), keys.clone(), Rng::of_part(seed, number));
            traffic.tasks.spawn(call(store, keys, rng, traffic.stop.clone(), traffic.counts.clone()));
        }
        traffic
    }

    /// Waits until there were so many decisions by the server, so that most keys have a state; not for ever.
    pub(super) async fn wait_for(&self, decisions: u64) {
        let started = Instant::now();
        while self.counts.0.load(Ordering::Relaxed) < decisions && started.elapsed() < MAX_TIME {
            tokio::time::sleep(PAUSE).await;
        }
    }

    pub(super) async fn end(mut self) -> Result<CallerFigures, Failure> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = CallerFigures::new();
        while let Some(seen) = self.tasks.join_next().await {
            all.absorb(seen?);
        }
        Ok(all)
    }
}

async fn call(
    store: Redis,
    keys: Arc<Keys>,
    mut rng: Rng,
    stop: Arc<AtomicBool>,
    counts: Arc<(AtomicU64, AtomicU64)>,
) -> CallerFigures {
    let (mut seen, count) = (CallerFigures::new(), keys.all.len() as u64);
    while !stop.load(Ordering::Relaxed) {
        let place = if rng.below(2) == 0 { rng.below(count) } else { rng.below(count.div_ceil(HOT)) * HOT % count };
        let Some(key) = keys.all.get(place as usize) else { break };
        let Some(policy) = keys.policy(key) else { break };
        let start = Instant::now();
        match tokio::time::timeout(HANGS, store.check(policy, &key.bytes, Request::ONE)).await {
            Ok(Ok(decision)) => {
                key.note(&decision);
                let home = decision.source == Source::Home;
                if home { &counts.0 } else { &counts.1 }.fetch_add(1, Ordering::Relaxed);
                seen.home += u64::from(home);
                seen.elsewhere += u64::from(!home);
            }
            Ok(Err(error)) => seen.errors.push(error.to_string()),
            Err(_) => seen.hung += 1,
        }
        seen.timing.add(start);
        tokio::time::sleep(PAUSE).await;
    }
    seen
}

impl CallerFigures {
    fn new() -> Self {
        Self { timing: Timing::new(DEADLINE), home: 0, elsewhere: 0, hung: 0, errors: Vec::new() }
    }

    fn absorb(&mut self, other: Self) {
        self.timing.absorb(&other.timing);
        self.home += other.home;
        self.elsewhere += other.elsewhere;
        self.hung += other.hung;
        self.errors.extend(other.errors);
    }
}
