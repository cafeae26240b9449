//! Permits held in Redis or Valkey, each as a lease that ends by itself.
//!
//! Laws: a key has at most `most` leases that have not ended, by the server's clock alone; every key has an expiry; a
//! holder knows that its lease is lost before the server gives the place away; an acquiring call with an unknown
//! outcome is followed by one that frees, and is never sent again.
//!
//! | file | what it is |
//! |---|---|
//! | `lua/`, `scripts.rs` | the scripts that the server runs |
//! | `lease.rs` | one lease, as its holder knows it |
//! | `held.rs` | a lease that is held until it is dropped |
//! | `registry.rs` | all leases that this process holds |
//! | `keeper.rs` | the task that renews them |

mod held;
mod keeper;
mod lease;
mod registry;
mod scripts;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tollgate_kernel::{Micros, StoreError, is_word};
use tollgate_redis::{Redis, state_key};

pub(crate) use held::HeldLease;
use held::PendingLease;
use lease::{Lease, LeaseClock, certain_span, micros};
use registry::{KeeperRound, LeaseRegistry};
use scripts::{ACQUIRE, FREE, HELD, RENEW, run};

use crate::counts::PermitCounts;
use crate::error::SetupError;

/// The shortest lease.
pub(crate) const MIN_LEASE: Duration = Duration::from_millis(100);
/// The longest lease.
pub(crate) const MAX_LEASE: Duration = Duration::from_secs(24 * 3600);
/// The minimum number of keeper rounds within a lease. A round renews every lease that is at least one such interval
/// old, so each lease that is held is renewed within a third of its length.
const ROUNDS_PER_LEASE: u32 = 6;
/// The maximum pause between keeper rounds: there may be leases left to be freed.
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// The number of ids tried when an id turns out to be taken.
const MAX_IDS: usize = 3;

pub(crate) struct Leases {
    store: Redis,
    /// The part of a Redis key after the braces. No policy has such a name.
    suffix: String,
    most: u32,
    lease: Duration,
    /// The arguments of calls, as text.
    most_text: String,
    lease_text: String,
    runtime: Handle,
    clock: LeaseClock,
    /// The first id. It is chosen at random, so that no other process has the same ids.
    first: u128,
    made: AtomicU64,
    registry: Mutex<LeaseRegistry>,
    counts: Arc<PermitCounts>,
}

/// The answer of Redis to a request for a place.
#[derive(Debug)]
pub(crate) enum LeaseAnswer {
    Held(HeldLease),
    Full(Micros),
}

impl Leases {
    pub(crate) fn new(store: Redis, name: &str, most: u32, lease: Duration) -> Result<Arc<Self>, SetupError> {
        if !is_word(name) {
            return Err(SetupError::Name(name.into()));
        }
        // The server counts in whole milliseconds; round up.
        let lease_ms = lease.as_nanos().div_ceil(1_000_000);
        if lease < MIN_LEASE || lease > MAX_LEASE {
            return Err(SetupError::Lease(lease));
        }
        if !store.runs_scripts() {
            return Err(SetupError::Server);
        }
        let runtime = Handle::try_current().map_err(|_| SetupError::Runtime)?;
        let mut first = [0; 16];
        getrandom::fill(&mut first).map_err(|error| SetupError::Random(error.to_string()))?;
        Ok(Arc::new(Self {
            store,
            suffix: format!("{name}:permits"),
            most,
            lease,
            most_text: most.to_string(),
            lease_text: lease_ms.to_string(),
            runtime,
            clock: LeaseClock::start(),
            first: u128::from_ne_bytes(first),
            made: AtomicU64::new(0),
            registry: Mutex::default(),
            counts: Arc::new(PermitCounts::new()),
        }))
    }

    /// Returns the places taken in this process, with a lease or without.
    pub(crate) fn counts(&self) -> &Arc<PermitCounts> {
        &self.counts
    }

    /// Returns the number of permits that this process may grant by itself.
    pub(crate) fn share_of(&self, most: u32) -> u32 {
        ((f64::from(most) * self.store.share()) as u32).max(1)
    }

    pub(crate) async fn held(&self, key: &[u8]) -> Result<u32, StoreError> {
        StoreError::check_key(key)?;
        let answer = run(&self.store, &HELD, &state_key(key, &self.suffix), &[""; 0]).await?;
        answer.first().and_then(|held| u32::try_from(*held).ok()).ok_or_else(|| unexpected(&answer))
    }

    pub(crate) async fn acquire(self: &Arc<Self>, key: &[u8]) -> Result<LeaseAnswer, StoreError> {
        StoreError::check_key(key)?;
        let key: Arc<[u8]> = state_key(key, &self.suffix).into();
        for _ in 0..MAX_IDS {
            // The time is read before the call is sent: the server's lease begins later, and so ends later.
            let lease = Arc::new(Lease::new(key.clone(), self.id(), self.clock, self.until()));
            let pending = PendingLease::new(self, lease);
            let args = [&hex_id(pending.id()), &self.most_text, &self.lease_text];
            let answer = match run(&self.store, &ACQUIRE, &key, &args).await {
                Ok(answer) => answer,
                Err(error) => {
                    // Otherwise the call may have run, and dropping `pending` frees what it took.
                    if !matches!(error, StoreError::Away { untouched: false, .. }) {
                        pending.settle();
                    }
                    return Err(error);
                }
            };
            match answer[..] {
                [1, _] => return pending.hold().map(LeaseAnswer::Held),
                [0, wait] => {
                    pending.settle();
                    return Ok(LeaseAnswer::Full(Micros::new(wait.max(0).unsigned_abs())));
                }
                // The id belongs to another lease, which must not be freed.
                [2, _] => {
                    pending.settle();
                }
                _ => return Err(unexpected(&answer)),
            }
        }
        Err(StoreError::Refused(format!("expected an id that is not in use, found {MAX_IDS} that are in use")))
    }

    /// Renews leases of one key. Returns for each whether it is held.
    async fn renew(&self, group: &[Arc<Lease>]) -> Result<Vec<i64>, StoreError> {
        let Some(first) = group.first() else { return Ok(Vec::new()) };
        let mut args = vec![self.most_text.clone(), self.lease_text.clone()];
        args.extend(group.iter().map(|lease| hex_id(lease.id)));
        run(&self.store, &RENEW, &first.key, &args).await
    }

    /// Frees leases of one key.
    async fn free(&self, group: &[Arc<Lease>]) -> Result<(), StoreError> {
        let Some(first) = group.first() else { return Ok(()) };
        let mut args = vec![self.lease_text.clone()];
        args.extend(group.iter().map(|lease| hex_id(lease.id)));
        run(&self.store, &FREE, &first.key, &args).await.map(|_| ())
    }

    /// Starts to free a lease that is no longer held.
    fn start_to_free(self: &Arc<Self>, lease: Arc<Lease>) -> JoinHandle<Result<(), StoreError>> {
        self.registry().remove(&lease);
        let leases = self.clone();
        self.runtime.spawn(async move {
            let freed = leases.free(std::slice::from_ref(&lease)).await;
            if let Err(StoreError::Away { .. }) = freed {
                let over = leases.over();
                leases.free_later(lease, over);
            }
            freed
        })
    }

    fn hold(self: &Arc<Self>, lease: Arc<Lease>) {
        let mut registry = self.registry();
        registry.hold(lease);
        self.start_keeper(&mut registry);
    }

    fn free_later(self: &Arc<Self>, lease: Arc<Lease>, over: u64) {
        let mut registry = self.registry();
        registry.free_later(lease, over);
        self.start_keeper(&mut registry);
    }

    /// Starts the keeper task unless it is running.
    fn start_keeper(self: &Arc<Self>, registry: &mut LeaseRegistry) {
        if !std::mem::replace(&mut registry.keeper_running, true) {
            self.runtime.spawn(keeper::run(Arc::downgrade(self), self.pause()));
        }
    }

    fn round(&self) -> Option<KeeperRound> {
        let due = certain_span(self.lease).saturating_sub(micros(self.lease / ROUNDS_PER_LEASE));
        self.registry().round(self.clock.now(), due)
    }

    fn no_longer_held(&self, leases: Vec<Arc<Lease>>) -> Vec<Arc<Lease>> {
        self.registry().no_longer_held(leases)
    }

    fn pause(&self) -> Duration {
        (self.lease / ROUNDS_PER_LEASE).min(MAX_PAUSE)
    }

    /// Returns until when a lease is certain to last if the call for it is sent now.
    fn until(&self) -> u64 {
        self.clock.now() + certain_span(self.lease)
    }

    /// Returns the time by which the lease of any call sent before now has ended.
    fn over(&self) -> u64 {
        self.clock.now() + micros(self.lease)
    }

    fn id(&self) -> u128 {
        self.first.wrapping_add(self.made.fetch_add(1, Ordering::Relaxed).into())
    }

    fn registry(&self) -> MutexGuard<'_, LeaseRegistry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Leases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let held = self.registry().len();
        f.debug_struct("Leases").field("most", &self.most).field("lease", &self.lease).field("held", &held).finish()
    }
}

/// Returns an id as it is written in Redis.
fn hex_id(id: u128) -> String {
    format!("{id:032x}")
}

fn unexpected(answer: &[i64]) -> StoreError {
    StoreError::Refused(format!("expected another answer from the script of permits, found {answer:?}"))
}
