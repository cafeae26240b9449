//! A running server: threads that serve connections, each with a runtime of its own, so that a connection
//! stays on one core and no task wanders.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tollgate_core::Clock;
use tollgate_memory::{Manual, Memory, Monotonic};

use crate::access::Access;
use crate::desk::{Desk, Home, Policies};
use crate::keys::Keys;
use crate::metrics::Metrics;
use crate::resp;
use crate::resp::session::Session;
use crate::settings::Settings;
use crate::shared::Shared;

/// Connections that wait for a thread.
const WAITING: usize = 1_024;

/// A running server. Dropped, it ends as by [`Server::stop`].
pub struct Server {
    resp: Option<SocketAddr>,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
}

/// Why a server does not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// An address cannot be listened on.
    Listen(SocketAddr, io::Error),
    /// The system gave no thread or runtime.
    System(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen(addr, error) => write!(f, "cannot listen on {addr}: {error}"),
            Self::System(error) => write!(f, "cannot start threads: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl Server {
    /// Starts a server; it decides by the process's monotonic clock.
    pub fn start(settings: Settings) -> Result<Self, StartError> {
        let memory = Memory::new(settings.memory);
        Self::start_by(settings, memory, Box::new(Monotonic::new()))
    }

    /// The same by a clock that stands until it is set, for tests: the command has no way to it.
    pub fn start_with_clock(settings: Settings, clock: &Manual) -> Result<Self, StartError> {
        let memory = Memory::with_clock(settings.memory, Box::new(clock.clone()));
        Self::start_by(settings, memory, Box::new(clock.clone()))
    }

    fn start_by(settings: Settings, memory: Memory, clock: Box<dyn Clock>) -> Result<Self, StartError> {
        let listen = |addr: SocketAddr| {
            let listener = TcpListener::bind(addr).and_then(|listener| {
                listener.set_nonblocking(true)?;
                Ok((listener.local_addr()?, listener))
            });
            listener.map_err(|error| StartError::Listen(addr, error))
        };
        let resp = settings.resp.map(listen).transpose()?;
        let home = settings.store.map_or(Home::Embedded(memory), Home::Redis);
        let (stop, stopping) = watch::channel(false);
        let shared = Arc::new(Shared {
            desk: Desk::new(
                home,
                Policies::new(settings.policies),
                Arc::new(Metrics::default()),
                clock,
                Keys::new(settings.keys),
            ),
            access: Access::default(),
            scripts: resp::commands::Scripts::default(),
            next_id: AtomicU64::new(1),
            stopping,
        });
        let (mut threads, mut workers) = (Vec::new(), Vec::new());
        for number in 0..settings.threads.max(1) {
            let (sender, receiver) = mpsc::channel(WAITING);
            workers.push(sender);
            let shared = Arc::clone(&shared);
            threads.push(thread(&format!("tollgate-{number}"), move || work(shared, receiver))?);
        }
        let addr = resp.as_ref().map(|(addr, _)| *addr);
        if let Some((_, listener)) = resp {
            let shared = Arc::clone(&shared);
            threads.push(thread("tollgate-door", move || accept(shared, listener, workers))?);
        }
        Ok(Self { resp: addr, stop, threads })
    }

    /// Where the Redis protocol is spoken.
    pub fn resp_addr(&self) -> Option<SocketAddr> {
        self.resp
    }

    /// Ends: no connection is taken any more, commands that came are answered, and all threads are waited
    /// for.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.stop.send(true);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// A thread that runs a future on a runtime of its own.
fn thread<F: Future<Output = ()>>(
    name: &str,
    run: impl FnOnce() -> F + Send + 'static,
) -> Result<JoinHandle<()>, StartError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(StartError::System)?;
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(move || runtime.block_on(run())).map_err(StartError::System)
}

/// Serves connections until the server ends and they did.
async fn work(shared: Arc<Shared>, mut connections: mpsc::Receiver<(TcpStream, SocketAddr)>) {
    let mut stopping = shared.stopping.clone();
    let mut tasks = tokio::task::JoinSet::new();
    loop {
        let came = tokio::select! {
            came = connections.recv() => came,
            _ = stopping.wait_for(|stop| *stop) => None,
        };
        let Some((stream, peer)) = came else { break };
        while tasks.try_join_next().is_some() {}
        if let Ok(stream) = tokio::net::TcpStream::from_std(stream)
            && let Ok(local) = stream.local_addr()
        {
            let scopes = shared.access.free(local, peer);
            let session = Session::new(shared.next_id.fetch_add(1, Ordering::Relaxed), peer, local, scopes);
            tasks.spawn(resp::serve(Arc::clone(&shared), stream, session));
        }
    }
    let _ = tokio::time::timeout(Duration::from_secs(10), async { while tasks.join_next().await.is_some() {} }).await;
}

/// Takes connections and hands them to the threads in turn.
async fn accept(shared: Arc<Shared>, listener: TcpListener, workers: Vec<mpsc::Sender<(TcpStream, SocketAddr)>>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let mut stopping = shared.stopping.clone();
    for turn in 0.. {
        let came = tokio::select! {
            came = listener.accept() => came,
            _ = stopping.wait_for(|stop| *stop) => return,
        };
        match came {
            Ok((stream, peer)) => {
                let _ = stream.set_nodelay(true);
                if let (Ok(stream), Some(worker)) = (stream.into_std(), workers.get(turn % workers.len())) {
                    let _ = worker.try_send((stream, peer));
                }
            }
            // No file is left, or the client has gone again.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}
