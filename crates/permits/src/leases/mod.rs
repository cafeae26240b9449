//! Places taken in Redis or Valkey, each as a lease that ends by itself.
//!
//! Laws: at most `most` leases of a key that have not ended, by the server's clock alone; no key without expiry; a
//! holder knows that its lease is lost before the server gives the place away; an acquiring call whose outcome nobody
//! knows is followed by one that frees, and is never sent again.
//!
//! | file | what it is |
//! |---|---|
//! | `lua/`, `scripts.rs` | what the server does |
//! | `lease.rs` | one lease, as its holder knows it |
//! | `leased.rs` | one that is held until it is dropped |
//! | `book.rs` | all that this process holds |
//! | `keeper.rs` | the task that renews them |

mod book;
mod keeper;
mod lease;
mod leased;
mod scripts;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tollgate_core::{Micros, StoreError, is_word};
use tollgate_redis::{Redis, state_key};

use book::{Book, Round};
use lease::{Lease, Watch, micros, surely};
pub(crate) use leased::Leased;
use leased::Unsettled;
use scripts::{ACQUIRE, FREE, HELD, RENEW, run};

use crate::counts::Counts;
use crate::error::SetupError;

/// The shortest lease.
pub(crate) const SHORTEST_LEASE: Duration = Duration::from_millis(100);
/// The longest lease.
pub(crate) const LONGEST_LEASE: Duration = Duration::from_secs(24 * 3600);
/// How often the book is looked at within a lease, at least. What is as old as that is renewed: so all that is held
/// is, within a third of its lease.
const LOOKS: u32 = 6;
/// And how long it is not looked at, at most: something may be owed.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Ids tried, of which none is known to be taken.
const IDS_TRIED: usize = 3;

pub(crate) struct Leases {
    store: Redis,
    /// Behind the key's braces. No policy is named so.
    suffix: String,
    most: u32,
    lease: Duration,
    /// The arguments of calls.
    most_text: String,
    lease_text: String,
    runtime: Handle,
    watch: Watch,
    /// The first id; chosen at random, so that no other process has one of ours.
    first: u128,
    made: AtomicU64,
    book: Mutex<Book>,
    counts: Arc<Counts>,
}

/// What Redis answered to one who wants a place.
#[derive(Debug)]
pub(crate) enum Answer {
    Held(Leased),
    Full(Micros),
}

impl Leases {
    pub(crate) fn new(store: Redis, name: &str, most: u32, lease: Duration) -> Result<Arc<Self>, SetupError> {
        if !is_word(name) {
            return Err(SetupError::Name(name.into()));
        }
        // Whole milliseconds, upward: what the server counts in.
        let lease_ms = lease.as_nanos().div_ceil(1_000_000);
        if lease < SHORTEST_LEASE || lease > LONGEST_LEASE {
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
            watch: Watch::start(),
            first: u128::from_ne_bytes(first),
            made: AtomicU64::new(0),
            book: Mutex::default(),
            counts: Arc::new(Counts::new()),
        }))
    }

    /// Places taken in this process, by whatever right.
    pub(crate) fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }

    /// What this process may take by itself.
    pub(crate) fn share_of(&self, most: u32) -> u32 {
        ((f64::from(most) * self.store.share()) as u32).max(1)
    }

    pub(crate) async fn held(&self, key: &[u8]) -> Result<u32, StoreError> {
        StoreError::check_key(key)?;
        let answer = run(&self.store, &HELD, &state_key(key, &self.suffix), &[""; 0]).await?;
        answer.first().and_then(|held| u32::try_from(*held).ok()).ok_or_else(|| unexpected(&answer))
    }

    pub(crate) async fn acquire(self: &Arc<Self>, key: &[u8]) -> Result<Answer, StoreError> {
        StoreError::check_key(key)?;
        let key: Arc<[u8]> = state_key(key, &self.suffix).into();
        for _ in 0..IDS_TRIED {
            // The time is taken before the call is sent: the server's lease begins later, and so ends later.
            let lease = Arc::new(Lease::new(key.clone(), self.id(), self.watch, self.until()));
            let unsettled = Unsettled::new(self, lease);
            let args = [&written(unsettled.id()), &self.most_text, &self.lease_text];
            let answer = match run(&self.store, &ACQUIRE, &key, &args).await {
                Ok(answer) => answer,
                Err(error) => {
                    // Otherwise it may have run, and `unsettled` frees what it took.
                    if !matches!(error, StoreError::Away { untouched: false, .. }) {
                        unsettled.settle();
                    }
                    return Err(error);
                }
            };
            match answer[..] {
                [1, _] => return unsettled.hold().map(Answer::Held),
                [0, wait] => {
                    unsettled.settle();
                    return Ok(Answer::Full(Micros::new(wait.max(0).unsigned_abs())));
                }
                // The id is another's, who must not be freed.
                [2, _] => {
                    unsettled.settle();
                }
                _ => return Err(unexpected(&answer)),
            }
        }
        Err(StoreError::Refused(format!("expected an id that nobody has, found {IDS_TRIED} that somebody has")))
    }

    /// Lets leases of one key begin anew; answers for each whether it is held.
    async fn renew(&self, group: &[Arc<Lease>]) -> Result<Vec<i64>, StoreError> {
        let Some(first) = group.first() else { return Ok(Vec::new()) };
        let mut args = vec![self.most_text.clone(), self.lease_text.clone()];
        args.extend(group.iter().map(|lease| written(lease.id)));
        run(&self.store, &RENEW, &first.key, &args).await
    }

    /// Gives back leases of one key.
    async fn free(&self, group: &[Arc<Lease>]) -> Result<(), StoreError> {
        let Some(first) = group.first() else { return Ok(()) };
        let mut args = vec![self.lease_text.clone()];
        args.extend(group.iter().map(|lease| written(lease.id)));
        run(&self.store, &FREE, &first.key, &args).await.map(|_| ())
    }

    /// Begins to free a lease that nobody holds any more.
    fn start_to_free(self: &Arc<Self>, lease: Arc<Lease>) -> JoinHandle<Result<(), StoreError>> {
        self.book().let_go(&lease);
        let leases = self.clone();
        self.runtime.spawn(async move {
            let freed = leases.free(std::slice::from_ref(&lease)).await;
            if let Err(StoreError::Away { .. }) = freed {
                let over = leases.over();
                leases.owe(lease, over);
            }
            freed
        })
    }

    fn hold(self: &Arc<Self>, lease: Arc<Lease>) {
        let mut book = self.book();
        book.hold(lease);
        self.keep(&mut book);
    }

    fn owe(self: &Arc<Self>, lease: Arc<Lease>, over: u64) {
        let mut book = self.book();
        book.owe(lease, over);
        self.keep(&mut book);
    }

    /// Sees to it that somebody keeps the book.
    fn keep(self: &Arc<Self>, book: &mut Book) {
        if !std::mem::replace(&mut book.kept, true) {
            self.runtime.spawn(keeper::keep(Arc::downgrade(self), self.pause()));
        }
    }

    fn round(&self) -> Option<Round> {
        let due = surely(self.lease).saturating_sub(micros(self.lease / LOOKS));
        self.book().round(self.watch.now(), due)
    }

    fn gone(&self, leases: Vec<Arc<Lease>>) -> Vec<Arc<Lease>> {
        self.book().gone(leases)
    }

    fn pause(&self) -> Duration {
        (self.lease / LOOKS).min(LONGEST_PAUSE)
    }

    /// Until when a lease surely lasts that a call sent now gets.
    fn until(&self) -> u64 {
        self.watch.now() + surely(self.lease)
    }

    /// When the lease of a call that was sent before now is over in any case.
    fn over(&self) -> u64 {
        self.watch.now() + micros(self.lease)
    }

    fn id(&self) -> u128 {
        self.first.wrapping_add(self.made.fetch_add(1, Ordering::Relaxed).into())
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Leases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let held = self.book().len();
        f.debug_struct("Leases").field("most", &self.most).field("lease", &self.lease).field("held", &held).finish()
    }
}

/// An id as the server knows it.
fn written(id: u128) -> String {
    format!("{id:032x}")
}

fn unexpected(answer: &[i64]) -> StoreError {
    StoreError::Refused(format!("expected another answer from the script of permits, found {answer:?}"))
}
