//! A store that fails while the test has stopped it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tollgate_kernel::{
    Cost, Decision, Detail, JointDecision, KeyCheck, Policy, Reply, Request, Store, StoreError, Timestamp,
};

/// A wrapper of another store. After [`FailingStore::stop`] no call is answered, until [`FailingStore::start`].
/// Clones are stopped and started together.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// use tollgate_kernel::OnError;
/// use tollgate_tower::testing::{FailingStore, TestClock, request};
/// use tollgate_tower::{GateLayer, Limiter};
/// # use tower_layer::Layer;
/// # let service = tower::service_fn(|_: http::Request<String>| async {
/// #     Ok::<_, std::convert::Infallible>(http::Response::new(String::new()))
/// # });
/// let gate = TestClock::new().gate("10/min")?;
/// let store = FailingStore::new(gate.store().clone());
/// let limiter = Limiter::over(store.clone(), gate.current().clone());
/// let app = GateLayer::new(limiter).on_error(OnError::Deny).layer(service);
/// let get = || request("/").from("203.0.113.7").ask(&app);
/// assert_eq!(get().await?.status, 200);
/// store.stop();
/// assert_eq!(get().await?.status, 503);
/// store.start();
/// assert_eq!(get().await?.status, 200);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Clone, Debug)]
pub struct FailingStore<S> {
    store: S,
    stopped: Arc<AtomicBool>,
}

impl<S: Store> FailingStore<S> {
    /// Wraps a store, which is started.
    pub fn new(store: S) -> Self {
        Self { store, stopped: Arc::default() }
    }

    /// Stops the store: from now on it does not answer.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
    }

    /// Starts the store: from now on it answers.
    pub fn start(&self) {
        self.stopped.store(false, Ordering::SeqCst);
    }

    /// Calls the store, or fails if it is stopped.
    fn call<'a, T>(&'a self, ask: impl FnOnce(&'a S) -> Reply<'a, T>) -> Reply<'a, T> {
        if self.stopped.load(Ordering::SeqCst) {
            return Reply::now(Err(StoreError::Away { why: "the test stopped it".to_owned(), untouched: true }));
        }
        ask(&self.store)
    }
}

impl<S: Store> Store for FailingStore<S> {
    fn check<'a>(&'a self, policy: &'a Policy, key: &'a [u8], request: Request) -> Reply<'a, Decision> {
        self.call(|store| store.check(policy, key, request))
    }

    fn check_full<'a>(
        &'a self,
        policy: &'a Policy,
        key: &'a [u8],
        request: Request,
    ) -> Reply<'a, (Decision, Vec<Detail>)> {
        self.call(|store| store.check_full(policy, key, request))
    }

    fn check_many<'a>(
        &'a self,
        policy: &'a Policy,
        keys: &'a [&'a [u8]],
        request: Request,
    ) -> Reply<'a, Vec<Decision>> {
        self.call(|store| store.check_many(policy, keys, request))
    }

    fn check_all<'a>(&'a self, items: &'a [KeyCheck<'a>]) -> Reply<'a, JointDecision> {
        self.call(|store| store.check_all(items))
    }

    fn reset<'a>(&'a self, policy: &'a Policy, key: &'a [u8]) -> Reply<'a, ()> {
        self.call(|store| store.reset(policy, key))
    }

    fn refund<'a>(&'a self, policy: &'a Policy, key: &'a [u8], units: Cost, at: Timestamp) -> Reply<'a, u64> {
        self.call(|store| store.refund(policy, key, units, at))
    }
}
