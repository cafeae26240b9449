//! The state that all connections share.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::sync::watch;

use crate::access::Access;
use crate::buffers::BufferBudget;
use crate::http::Front;
use crate::metrics::Metrics;
use crate::resp::clients::Clients;
use crate::resp::commands::Scripts;
use tollgate_engine::Engine;
use tollgate_telemetry::log::Log;

/// The state that all connections share.
pub(crate) struct Shared {
    pub(crate) engine: Arc<Engine>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) access: Access,
    pub(crate) http: Front,
    /// The connections of the Redis protocol.
    pub(crate) clients: Clients,
    pub(crate) log: Arc<Log>,
    /// The bound on the buffers of all connections.
    pub(crate) buffers: Arc<BufferBudget>,
    /// The scripts and libraries that are loaded.
    pub(crate) scripts: Scripts,
    /// The number of the next connection.
    pub(crate) next_id: AtomicU64,
    /// Whether the server is stopping: it is not ready any more, and accepts no more connections.
    pub(crate) stopping: watch::Receiver<bool>,
    /// Whether connections should end; everything that arrived before the stop has been seen by then.
    pub(crate) leaving: watch::Receiver<bool>,
}

#[cfg(test)]
impl Shared {
    /// Returns the shared state of a test: the embedded store, a silent log, and no end.
    pub(crate) fn for_test() -> Arc<Self> {
        Self::for_test_by(|| Box::new(tollgate_memory::Monotonic::new()))
    }

    /// Returns the same with the given clock.
    pub(crate) fn for_test_by(clock: impl Fn() -> Box<dyn tollgate_kernel::Clock>) -> Arc<Self> {
        use crate::access::{Free, Tokens};
        use tollgate_engine::{Home, Recovered};
        use tollgate_memory::{MIN_CAP, Memory};

        let log = Arc::new(Log::default());
        let home = Home::embedded(Memory::with_clock(MIN_CAP, clock()), clock());
        let (_, never) = watch::channel(false);
        let keys = tollgate_keyspace::Keys::new(1 << 20);
        let metrics = Arc::<Metrics>::default();
        let engine = Engine::new(home, Vec::new(), clock(), Arc::clone(&log), keys);
        engine.begin(Default::default(), Recovered::default()).unwrap();
        Arc::new(Self {
            engine: Arc::new(engine),
            access: Access::new(Free::Loopback, Vec::new(), Tokens::default(), None, clock(), Arc::clone(&log)),
            http: Front::default(),
            clients: Clients::new(clock().now()),
            buffers: Arc::clone(&metrics.buffers),
            metrics,
            log,
            scripts: Scripts::default(),
            next_id: AtomicU64::new(1),
            stopping: never.clone(),
            leaving: never,
        })
    }
}
