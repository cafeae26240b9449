//! A running server.
//!
//! | file | what it is |
//! |---|---|
//! | `start.rs` | a start, stage by stage |
//! | `threads.rs` | the threads that accept and serve connections |
//! | `mod.rs` | the queries on a running server, and its end |

mod start;
mod threads;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::watch;
use tollgate_engine::Upkeep;
use tollgate_journal::JournalError;
use tollgate_journal::disk::{Disk, RealDisk};
use tollgate_memory::ManualClock;
use tollgate_telemetry::audit::{AuditAction, AuditEvent, AuditOutcome};

use crate::access::AccessToken;
use crate::reload::{PolicyFileWatcher, Reloader};
use crate::settings::ServerSettings;
use crate::shared::ServerState;
use crate::start_error::StartError;
use start::ServerClock;

/// A running server. Dropping it ends it as [`Server::stop`] does.
pub struct Server {
    shared: Arc<ServerState>,
    reload: Reloader,
    /// Notices that the policy file changed.
    watch: Option<PolicyFileWatcher>,
    resp: Vec<SocketAddr>,
    http: Vec<SocketAddr>,
    connections: usize,
    initial_token: Option<AccessToken>,
    stop: watch::Sender<bool>,
    leave: watch::Sender<bool>,
    acceptor: Option<JoinHandle<()>>,
    threads: Vec<JoinHandle<()>>,
    /// Receives one message from each thread that has seen everything that arrived before the end.
    settled: Receiver<()>,
    /// The upkeep of the journal and its snapshots, if data is kept.
    upkeep: Option<Upkeep>,
    /// What the start recovered, in words.
    recovery_report: Vec<String>,
    /// Whether the start was allowed to repair damage.
    repaired: bool,
    stop_timeout: Duration,
}

impl Server {
    /// Starts a server that decides by the process's monotonic clock.
    pub fn start(settings: ServerSettings) -> Result<Self, StartError> {
        Self::start_from(settings, &ServerClock::Monotonic, Arc::new(RealDisk))
    }

    /// Returns the state that a key of the first database holds for dialects. The comparison of homes uses it, because
    /// replies do not show all of that state.
    #[doc(hidden)]
    pub fn states(&self, key: &[u8]) -> Vec<tollgate_kernel::KeyState> {
        let now = self.shared.engine.now();
        self.shared.engine.on_keys(|keys| keys.states(key, now))
    }

    /// Starts a server by a clock that stands still until it is set. For tests: the command line does not offer it.
    pub fn start_with_clock(settings: ServerSettings, clock: &ManualClock) -> Result<Self, StartError> {
        Self::start_from(settings, &ServerClock::Manual(clock.clone()), Arc::new(RealDisk))
    }

    /// Starts a server on a disk that fails on demand, for tests.
    #[doc(hidden)]
    pub fn start_with_disk(
        settings: ServerSettings,
        clock: &ManualClock,
        disk: Arc<dyn Disk>,
    ) -> Result<Self, StartError> {
        Self::start_from(settings, &ServerClock::Manual(clock.clone()), disk)
    }

    /// Requests a snapshot now, for tests. The receiver gets its size in bytes once it is written; `None` if no data is
    /// kept.
    #[doc(hidden)]
    pub fn snapshot(&self) -> Option<Receiver<Result<u64, JournalError>>> {
        self.upkeep.as_ref().map(Upkeep::snapshot)
    }

    /// Returns what the start recovered, in words, one fact a line.
    pub fn recovery_report(&self) -> &[String] {
        &self.recovery_report
    }

    /// Returns the address of the Redis protocol; the first if there are several.
    pub fn resp_addr(&self) -> Option<SocketAddr> {
        self.resp.first().copied()
    }

    /// Returns the address of HTTP; the first if there are several.
    pub fn http_addr(&self) -> Option<SocketAddr> {
        self.http.first().copied()
    }

    /// Returns all addresses of the Redis protocol.
    pub fn resp_addrs(&self) -> &[SocketAddr] {
        &self.resp
    }

    /// Returns all addresses of HTTP.
    pub fn http_addrs(&self) -> &[SocketAddr] {
        &self.http
    }

    /// Returns the number of connections that there is room for: the configured limit, or fewer if the system's open
    /// files or the buffers do not suffice.
    pub fn connections(&self) -> usize {
        self.connections
    }

    /// Returns the token made at the start, which allows everything, if one was made.
    pub fn token(&self) -> Option<&AccessToken> {
        self.initial_token.as_ref()
    }

    /// Returns the generation of the policies in use; each change of the policy file has its own number.
    pub fn generation(&self) -> u64 {
        self.shared.engine.generation().number
    }

    /// Returns the number of policies that callers may name.
    pub fn policies(&self) -> usize {
        self.shared.engine.generation().listed.len()
    }

    /// Reads tokens, certificate, key and policy file again. Errors are logged, and what was in use before stays in
    /// use.
    pub fn reload(&self) {
        self.reload.run();
    }

    /// Returns the handle that does so, to be run on another thread.
    pub fn reloader(&self) -> Reloader {
        self.reload.clone()
    }

    /// Stops the server: no connection is accepted any more, commands that have arrived are answered, idle connections
    /// are closed, and all threads are joined.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let was_open = self.acceptor.is_some();
        if was_open {
            self.shared.log.info("ending", &[]);
        }
        self.watch = None;
        let _ = self.stop.send(true);
        // The acceptor hands over the connections that were waiting, and then closes the channels to the threads.
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        for _ in &self.threads {
            let _ = self.settled.recv_timeout(self.stop_timeout);
        }
        let _ = self.leave.send(true);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        // No thread decides any more.
        if let Some(mut upkeep) = self.upkeep.take() {
            upkeep.end(self.stop_timeout);
        }
        if was_open {
            // Reports what the audit log has left out so far, before its last line.
            self.shared.engine.second();
            self.shared.engine.audit().record(&AuditEvent::of_server(AuditAction::Stop, AuditOutcome::Done));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}
