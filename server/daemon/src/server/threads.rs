//! The threads of a server: one that accepts connections, and some that serve them, each with a runtime of its own, so
//! that tasks never migrate between threads.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};
use tollgate_telemetry::audit::AuditAction;

use crate::listeners::{self, Acceptor, Listener, NewConnection, ServeContext, Tls};
use crate::reload;
use crate::settings::ConnectionLimits;
use crate::shared::ServerState;
use crate::start_error::StartError;

/// The time after which a thread has seen everything that arrived before the end: one turn of its runtime.
const SETTLE: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// The interval, in seconds, of the warning that the server is open to every caller.
const REMIND: u64 = 60;

/// Starts a thread that runs a future on a runtime of its own.
pub(super) fn spawn_thread<F: Future<Output = ()>>(
    name: &str,
    run: impl FnOnce() -> F + Send + 'static,
) -> Result<JoinHandle<()>, StartError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(StartError::System)?;
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(move || runtime.block_on(run())).map_err(StartError::System)
}

/// Serves connections until no more are handed over and all of them have ended.
pub(super) async fn serve_connections(
    context: ServeContext,
    mut accepted: UnboundedReceiver<NewConnection>,
    settled: Sender<()>,
    within: Duration,
) {
    let mut tasks = JoinSet::new();
    while let Some(connection) = accepted.recv().await {
        while tasks.try_join_next().is_some() {}
        listeners::serve(&context, connection, &mut tasks);
    }
    let end = Instant::now() + within;
    // A timer fires after the runtime has polled the system for events, so everything that arrived before the end is
    // known to its connection now.
    sleep(SETTLE).await;
    let _ = settled.send(());
    let _ = timeout_at(end, async { while tasks.join_next().await.is_some() {} }).await;
}

/// Accepts connections until the server ends.
pub(super) async fn accept(
    acceptor: Acceptor,
    listeners: Vec<Listener>,
    stopping: watch::Receiver<bool>,
    maintenance: impl Future<Output = ()> + Send + 'static,
) {
    let acceptor = Arc::new(acceptor);
    let maintenance = tokio::spawn(maintenance);
    let mut accepting = JoinSet::new();
    for listener in listeners {
        accepting.spawn(listeners::accept(Arc::clone(&acceptor), listener, stopping.clone()));
    }
    while accepting.join_next().await.is_some() {}
    maintenance.abort();
}

/// Does what is due every second, and reads changed certificates again.
pub(super) async fn maintain(shared: Arc<ServerState>, tls: Option<Arc<Tls>>, limits: ConnectionLimits, is_open: bool) {
    let seconds = async {
        for second in 0u64.. {
            if is_open && second.is_multiple_of(REMIND) {
                let text = "everybody may do everything here, resets and administration too: --insecure-no-auth";
                shared.log.warn("insecure", &[("text", &text)]);
            }
            sleep(SECOND).await;
            shared.log.begin_second();
            shared.engine.second();
        }
    };
    let certificates = async {
        let Some(tls) = tls else { return };
        loop {
            sleep(limits.tls_watch).await;
            if let Some(read) = tls.reload_if_changed() {
                reload::audit_reload(&shared, AuditAction::Certificate, &read, "");
            }
        }
    };
    tokio::join!(seconds, certificates);
}
