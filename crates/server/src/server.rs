//! A running server: a thread at the door, and threads that serve connections, each with a runtime of its
//! own, so that a connection stays on one core and no task wanders.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};
use tollgate_core::Clock;
use tollgate_memory::{Manual, Memory, Monotonic};

use crate::access::{Access, Free, Token, Tokens};
use crate::desk::{Desk, Home, Policies};
use crate::door::{self, Came, Door, Listener, Places, Serving, Speaks, Tls};
use crate::http::Front;
use crate::keys::Keys;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::resp::clients::Clients;
use crate::resp::commands::Scripts;
use crate::settings::{Limits, Settings};
use crate::shared::Shared;
use crate::start_error::StartError;

/// How long a thread takes at least to see what came before the end: a turn of its runtime.
const SETTLE: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// How often it is said that the server is open to everybody, in seconds.
const REMIND: u64 = 60;

/// A running server. Dropped, it ends as by [`Server::stop`].
pub struct Server {
    shared: Arc<Shared>,
    tls: Option<Arc<Tls>>,
    resp: Vec<SocketAddr>,
    http: Vec<SocketAddr>,
    connections: usize,
    made: Option<Token>,
    stop: watch::Sender<bool>,
    leave: watch::Sender<bool>,
    door: Option<JoinHandle<()>>,
    threads: Vec<JoinHandle<()>>,
    /// Threads that have seen what came before the end.
    settled: Receiver<()>,
    within: Duration,
}

impl Server {
    /// Starts a server; it decides by the process's monotonic clock.
    pub fn start(settings: Settings) -> Result<Self, StartError> {
        let memory = Memory::new(settings.memory);
        Self::start_by(settings, memory, || Box::new(Monotonic::new()))
    }

    /// What a key of the first database remembers for dialects: for the comparison of homes, which looks at
    /// more than replies tell.
    #[doc(hidden)]
    pub fn states(&self, key: &[u8]) -> Vec<tollgate_core::KeyState> {
        let now = self.shared.desk.clock.now();
        self.shared.desk.keys().states(key, now)
    }

    /// The same by a clock that stands until it is set, for tests: the command has no way to it.
    pub fn start_with_clock(settings: Settings, clock: &Manual) -> Result<Self, StartError> {
        let memory = Memory::with_clock(settings.memory, Box::new(clock.clone()));
        Self::start_by(settings, memory, || Box::new(clock.clone()))
    }

    fn start_by(settings: Settings, memory: Memory, clock: impl Fn() -> Box<dyn Clock>) -> Result<Self, StartError> {
        door::judge(&settings)?;
        let threads = settings.threads.max(1);
        let limits = settings.limits.clone();
        let log = Arc::new(Log::new(settings.log).map_err(StartError::System)?);
        let tls = settings.tls.clone().map(|files| Tls::new(files, Arc::clone(&log)));
        let tls = tls.transpose().map_err(StartError::Tls)?.map(Arc::new);
        let (made, tokens) = tokens(&settings)?;
        let listeners = listen(&settings)?;
        let connections = door::room(limits.connections, threads)?;
        let addrs = |speaks| listeners.iter().filter(move |at| at.speaks == speaks).map(|at| at.addr).collect();
        let (stop, stopping) = watch::channel(false);
        let (leave, leaving) = watch::channel(false);
        let (resp, http) = (addrs(Speaks::Resp), addrs(Speaks::Http));
        let free = match (settings.insecure_no_auth, settings.require_token) {
            (true, _) => Free::Everything,
            (false, true) => Free::Nothing,
            (false, false) => Free::Loopback,
        };
        let exposed = door::exposed(listeners.iter().map(|at| at.addr)).map(|addr| addr.port()).collect();
        let home = settings.store.map_or(Home::Embedded(memory), Home::Redis);
        let shared = Arc::new(Shared {
            clients: Clients::new(clock().now()),
            desk: Desk::new(
                home,
                Policies::new(settings.policies),
                Arc::new(Metrics::default()),
                clock(),
                Arc::clone(&log),
                Keys::new(settings.keys),
            ),
            access: Access::new(free, exposed, tokens, settings.tokens, clock(), Arc::clone(&log)),
            http: Front::new(settings.hosts, settings.trusted_proxies.clone()),
            held: Arc::default(),
            scripts: Scripts::default(),
            log: Arc::clone(&log),
            next_id: AtomicU64::new(1),
            stopping,
            leaving,
        });
        let serving = Serving { shared: Arc::clone(&shared), tls: tls.clone(), handshake: limits.handshake };
        let (settles, settled) = channel();
        let mut server = Self {
            shared: Arc::clone(&shared),
            tls: tls.clone(),
            resp,
            http,
            connections,
            made,
            stop,
            leave,
            door: None,
            threads: Vec::new(),
            settled,
            within: limits.stop,
        };
        server.tell(limits.connections);
        let mut senders = Vec::new();
        for number in 0..threads {
            let (sender, receiver) = unbounded_channel();
            senders.push(sender);
            let (serving, settles) = (serving.clone(), settles.clone());
            let run = move || work(serving, receiver, settles, limits.stop);
            server.threads.push(thread(&format!("tollgate-{number}"), run)?);
        }
        let places = Arc::new(Places::new(connections, &limits, settings.trusted_proxies));
        let metrics = Arc::clone(&shared.desk.metrics);
        let door = Door { places, threads: senders, turn: AtomicUsize::new(0), is_tls: tls.is_some(), log, metrics };
        let watching = keep(shared, tls, limits, free == Free::Everything);
        let stopping = server.shared.stopping.clone();
        server.door = Some(thread("tollgate-door", move || open(door, listeners, stopping, watching))?);
        Ok(server)
    }

    /// Says where it listens, and that there is less room than there should be.
    fn tell(&self, wanted: usize) {
        let log = &self.shared.log;
        for (speaks, addrs) in [("resp", &self.resp), ("http", &self.http)] {
            addrs.iter().for_each(|addr| log.info("listening", &[("speaks", &speaks), ("addr", addr)]));
        }
        if self.connections < wanted {
            log.warn("few_files", &[("connections", &self.connections), ("wanted", &wanted)]);
        }
    }

    /// Where the Redis protocol is spoken; the first address if there are several.
    pub fn resp_addr(&self) -> Option<SocketAddr> {
        self.resp.first().copied()
    }

    /// Where HTTP is spoken; the first address if there are several.
    pub fn http_addr(&self) -> Option<SocketAddr> {
        self.http.first().copied()
    }

    /// Everywhere the Redis protocol is spoken.
    pub fn resp_addrs(&self) -> &[SocketAddr] {
        &self.resp
    }

    /// Everywhere HTTP is spoken.
    pub fn http_addrs(&self) -> &[SocketAddr] {
        &self.http
    }

    /// Connections there is room for: as the limits say, or as many as the system allows open files for.
    pub fn connections(&self) -> usize {
        self.connections
    }

    /// The token made at the start, which may do everything, if one was made.
    pub fn token(&self) -> Option<&Token> {
        self.made.as_ref()
    }

    /// Reads tokens, certificate and key again. What is wrong is logged, and what was in use stays.
    pub fn reload(&self) {
        self.shared.access.reload();
        if let Some(tls) = &self.tls {
            tls.reload();
        }
    }

    /// Ends: no connection is taken any more, commands that came are answered, idle connections are closed,
    /// and all threads are waited for.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if self.door.is_some() {
            self.shared.log.info("ending", &[]);
        }
        let _ = self.stop.send(true);
        // The door hands on whoever was waiting, and lets go of the threads.
        if let Some(door) = self.door.take() {
            let _ = door.join();
        }
        for _ in &self.threads {
            let _ = self.settled.recv_timeout(self.within);
        }
        let _ = self.leave.send(true);
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

/// The tokens of the settings' file, or one made here.
fn tokens(settings: &Settings) -> Result<(Option<Token>, Tokens), StartError> {
    match &settings.tokens {
        Some(file) => Ok((None, Tokens::read(file).map_err(StartError::Tokens)?)),
        None if settings.insecure_no_auth => Ok((None, Tokens::default())),
        None => {
            let made = Token::make().map_err(StartError::System)?;
            let tokens = Tokens::one(made.hash());
            Ok((Some(made), tokens))
        }
    }
}

fn listen(settings: &Settings) -> Result<Vec<Listener>, StartError> {
    let resp = settings.resp.iter().chain(&settings.more_resp).map(|addr| (*addr, Speaks::Resp));
    let http = settings.http.iter().chain(&settings.more_http).map(|addr| (*addr, Speaks::Http));
    resp.chain(http).map(|(addr, speaks)| door::listen(addr, speaks)).collect()
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

/// Serves connections until the door lets go and they have ended.
async fn work(serving: Serving, mut came: UnboundedReceiver<Came>, settled: Sender<()>, within: Duration) {
    let mut tasks = JoinSet::new();
    while let Some(came) = came.recv().await {
        while tasks.try_join_next().is_some() {}
        door::serve(&serving, came, &mut tasks);
    }
    let end = Instant::now() + within;
    // A timer fires after the runtime has asked the system what came: whatever came before the end is known
    // to its connection now.
    sleep(SETTLE).await;
    let _ = settled.send(());
    let _ = timeout_at(end, async { while tasks.join_next().await.is_some() {} }).await;
}

/// Takes connections until the server ends.
async fn open(
    door: Door,
    listeners: Vec<Listener>,
    stopping: watch::Receiver<bool>,
    watching: impl Future<Output = ()> + Send + 'static,
) {
    let door = Arc::new(door);
    let watching = tokio::spawn(watching);
    let mut accepting = JoinSet::new();
    for listener in listeners {
        accepting.spawn(door::accept(Arc::clone(&door), listener, stopping.clone()));
    }
    while accepting.join_next().await.is_some() {}
    watching.abort();
}

/// What is done every now and then.
async fn keep(shared: Arc<Shared>, tls: Option<Arc<Tls>>, limits: Limits, is_open: bool) {
    let seconds = async {
        for second in 0u64.. {
            if is_open && second.is_multiple_of(REMIND) {
                let text = "everybody may do everything here, resets and administration too: --insecure-no-auth";
                shared.log.warn("insecure", &[("text", &text)]);
            }
            sleep(SECOND).await;
            shared.log.second();
        }
    };
    let certificates = async {
        let Some(tls) = tls else { return };
        loop {
            sleep(limits.tls_watch).await;
            tls.look();
        }
    };
    tokio::join!(seconds, certificates);
}
