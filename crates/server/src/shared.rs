//! What all connections share.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::sync::watch;

use crate::access::Access;
use crate::desk::Desk;
use crate::held::Held;
use crate::http::Front;
use crate::log::Log;
use crate::resp::clients::Clients;
use crate::resp::commands::Scripts;

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) desk: Desk,
    pub(crate) access: Access,
    pub(crate) http: Front,
    /// The connections that speak the Redis protocol.
    pub(crate) clients: Clients,
    pub(crate) log: Arc<Log>,
    /// The bound on the buffers of all connections.
    pub(crate) held: Arc<Held>,
    /// Which scripts and libraries are loaded.
    pub(crate) scripts: Scripts,
    /// The number of the next connection.
    pub(crate) next_id: AtomicU64,
    /// Whether the server is about to end: it is not ready any more, and takes no more connections.
    pub(crate) stopping: watch::Receiver<bool>,
    /// Whether connections should end: what came before the server began to end has been seen by then.
    pub(crate) leaving: watch::Receiver<bool>,
}

#[cfg(test)]
impl Shared {
    /// What connections share in a test: the embedded store, nothing to tell, and no end.
    pub(crate) fn for_test() -> Arc<Self> {
        Self::for_test_by(|| Box::new(tollgate_memory::Monotonic::new()))
    }

    /// The same by a clock.
    pub(crate) fn for_test_by(clock: impl Fn() -> Box<dyn tollgate_core::Clock>) -> Arc<Self> {
        use crate::access::{Free, Tokens};
        use crate::desk::{Home, Recovered};
        use tollgate_memory::{LEAST_CAP, Memory};

        let log = Arc::new(Log::default());
        let home = Home::embedded(Memory::with_clock(LEAST_CAP, clock()), clock());
        let (_, never) = watch::channel(false);
        let keys = crate::keys::Keys::new(1 << 20);
        let metrics = Arc::<crate::metrics::Metrics>::default();
        let desk = Desk::new(home, Vec::new(), Arc::clone(&metrics), clock(), Arc::clone(&log), keys);
        desk.begin(Default::default(), Recovered::default()).unwrap();
        Arc::new(Self {
            desk,
            access: Access::new(Free::Loopback, Vec::new(), Tokens::default(), None, clock(), Arc::clone(&log)),
            http: Front::default(),
            clients: Clients::new(clock().now()),
            held: Arc::clone(&metrics.buffers),
            log,
            scripts: Scripts::default(),
            next_id: AtomicU64::new(1),
            stopping: never.clone(),
            leaving: never,
        })
    }
}
