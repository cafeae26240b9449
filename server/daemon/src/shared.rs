//! The state that all connections share.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::sync::watch;

use crate::access::AccessControl;
use crate::buffers::BufferBudget;
use crate::cluster::ClusterNode;
use crate::http::HttpState;
use crate::metrics::Metrics;
use crate::resp::clients::Clients;
use crate::resp::commands::ScriptRegistry;
use tollgate_engine::Engine;
use tollgate_telemetry::log::ServerLog;

/// The state that all connections share.
pub(crate) struct ServerState {
    pub(crate) engine: Arc<Engine>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) access: AccessControl,
    pub(crate) http: HttpState,
    /// The connections of the Redis protocol.
    pub(crate) clients: Clients,
    pub(crate) log: Arc<ServerLog>,
    /// This server as a node of a cluster, if it is in cluster mode.
    pub(crate) cluster: Option<ClusterNode>,
    /// The bound on the buffers of all connections.
    pub(crate) buffers: Arc<BufferBudget>,
    /// The scripts and libraries that are loaded.
    pub(crate) scripts: ScriptRegistry,
    /// The number of the next connection.
    pub(crate) next_id: AtomicU64,
    /// Whether the server is stopping: it is not ready any more, and accepts no more connections.
    pub(crate) stopping: watch::Receiver<bool>,
    /// Whether connections should end; everything that arrived before the stop has been seen by then.
    pub(crate) leaving: watch::Receiver<bool>,
}

impl ServerState {
    /// Returns the mode of the server in the words of Redis.
    pub(crate) fn mode(&self) -> &'static str {
        if self.cluster.is_some() { "cluster" } else { "standalone" }
    }
}

#[cfg(test)]
impl ServerState {
    /// Returns the shared state of a test: the embedded store, a silent log, and no end.
    pub(crate) fn for_test() -> Arc<Self> {
        Self::for_test_by(|| Box::new(tollgate_memory::MonotonicClock::new()))
    }

    /// Returns the same with the given clock.
    pub(crate) fn for_test_by(clock: impl Fn() -> Box<dyn tollgate_kernel::Clock>) -> Arc<Self> {
        let memory = tollgate_memory::Memory::with_clock(tollgate_memory::MIN_CAP, clock());
        Self::for_test_of(tollgate_engine::Home::embedded(memory, clock()), clock)
    }

    /// Returns the same with another home.
    pub(crate) fn for_test_on(home: tollgate_engine::Home) -> Arc<Self> {
        Self::for_test_of(home, || Box::new(tollgate_memory::MonotonicClock::new()))
    }

    fn for_test_of(home: tollgate_engine::Home, clock: impl Fn() -> Box<dyn tollgate_kernel::Clock>) -> Arc<Self> {
        use crate::access::{FreeAccess, Scopes, Tokens};
        use tollgate_engine::RecoveredState;

        let log = Arc::new(ServerLog::default());
        let (_, never) = watch::channel(false);
        let keys = tollgate_keyspace::Keyspace::new(1 << 20);
        let metrics = Arc::<Metrics>::default();
        let engine = Engine::new(home, Vec::new(), clock(), Arc::clone(&log), keys);
        engine.begin(Default::default(), RecoveredState::default()).unwrap();
        Arc::new(Self {
            engine: Arc::new(engine),
            access: AccessControl::new(
                FreeAccess::Loopback(Scopes::FREE),
                Vec::new(),
                Tokens::default(),
                None,
                clock(),
                Arc::clone(&log),
            ),
            http: HttpState::default(),
            clients: Clients::new(clock().now()),
            cluster: None,
            buffers: Arc::clone(&metrics.buffers),
            metrics,
            log,
            scripts: ScriptRegistry::default(),
            next_id: AtomicU64::new(1),
            stopping: never.clone(),
            leaving: never,
        })
    }
}
