//! The traffic: callers under three policies, each at a steady pace.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tollgate_conformance::intervals::Event;
use tollgate_kernel::{Decision, OnError, Policy, Request, Source, Store};
use tollgate_redis::Redis;

use crate::Failure;
use crate::timing::Timing;

/// What the limits are, and what this process may grant of them by itself.
pub(super) const TEXT: &str = "200/s gcra burst=100";
pub(super) const SHARE: f64 = 0.5;
pub(super) const SHARED: &str = "100/s gcra burst=50";
pub(super) const DEADLINE: Duration = Duration::from_millis(20);
/// Between two calls of a caller.
const PAUSE: Duration = Duration::from_millis(9);
/// A call that takes longer hangs.
const HANGS: Duration = Duration::from_secs(5);
/// After which the breaker must be open.
const OPENED: Duration = Duration::from_millis(500);

/// What callers under one policy saw.
pub(super) struct CallerFigures {
    pub(super) on_error: OnError,
    /// Decisions by the server, and by others that were allowed and refused.
    pub(super) home: u64,
    pub(super) allowed: u64,
    pub(super) refused: u64,
    /// Decisions whose source was not the policy's.
    pub(super) mislabelled: u64,
    pub(super) errors: u64,
    pub(super) hung: u64,
    /// What this process granted by itself.
    pub(super) local: Vec<Event>,
    pub(super) timing: Timing,
    /// The calls after the breaker had time to open.
    pub(super) later: Timing,
}

pub(super) struct Callers {
    stop: Arc<AtomicBool>,
    tasks: JoinSet<CallerFigures>,
}

impl Callers {
    /// Callers of all policies in turn; the outage began at `began`.
    pub(super) fn start(store: &Redis, count: u64, began: Instant) -> Result<Self, Failure> {
        let (stop, mut tasks) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
        for number in 0..count {
            let on_error = OnError::ALL[(number % 3) as usize];
            tasks.spawn(call(store.clone(), policy(on_error)?, stop.clone(), began));
        }
        Ok(Self { stop, tasks })
    }

    /// What they saw, by policy.
    pub(super) async fn end(mut self) -> Result<Vec<CallerFigures>, Failure> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all: Vec<CallerFigures> = OnError::ALL.into_iter().map(CallerFigures::new).collect();
        while let Some(seen) = self.tasks.join_next().await {
            let seen = seen?;
            if let Some(same) = all.iter_mut().find(|all| all.on_error == seen.on_error) {
                same.absorb(seen);
            }
        }
        Ok(all)
    }
}

/// The policy of a kind, with a state of its own.
pub(super) fn policy(on_error: OnError) -> Result<Policy, Failure> {
    Ok(TEXT.parse::<Policy>()?.with_name(on_error.name())?.with_on_error(on_error))
}

async fn call(store: Redis, policy: Policy, stop: Arc<AtomicBool>, began: Instant) -> CallerFigures {
    let mut seen = CallerFigures::new(policy.on_error());
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        match tokio::time::timeout(HANGS, store.check(&policy, b"hot", Request::ONE)).await {
            Ok(Ok(decision)) => seen.note(&decision),
            Ok(Err(_)) => seen.errors += 1,
            Err(_) => seen.hung += 1,
        }
        seen.timing.add(start);
        if start > began + OPENED {
            seen.later.add(start);
        }
        tokio::time::sleep(PAUSE).await;
    }
    seen
}

impl CallerFigures {
    fn new(on_error: OnError) -> Self {
        Self {
            on_error,
            home: 0,
            allowed: 0,
            refused: 0,
            mislabelled: 0,
            errors: 0,
            hung: 0,
            local: Vec::new(),
            timing: Timing::new(DEADLINE),
            later: Timing::new(DEADLINE),
        }
    }

    fn note(&mut self, decision: &Decision) {
        let expected = match self.on_error {
            OnError::Local => Source::Local,
            OnError::Allow => Source::Open,
            OnError::Deny => Source::Closed,
        };
        match decision.source {
            Source::Home => self.home += 1,
            source => {
                self.mislabelled += u64::from(source != expected);
                self.allowed += u64::from(decision.allowed);
                self.refused += u64::from(!decision.allowed);
            }
        }
        if decision.source == Source::Local && decision.granted > 0 {
            self.local.push(Event { at: decision.at, units: decision.granted });
        }
    }

    fn absorb(&mut self, other: Self) {
        self.home += other.home;
        self.allowed += other.allowed;
        self.refused += other.refused;
        self.mislabelled += other.mislabelled;
        self.errors += other.errors;
        self.hung += other.hung;
        self.local.extend(other.local);
        self.timing.absorb(&other.timing);
        self.later.absorb(&other.later);
    }
}
