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
use tollgate_config::Config;
use tollgate_core::{Clock, Policy};
use tollgate_journal::Failed;
use tollgate_journal::disk::{Disk, Real};
use tollgate_memory::{Manual, Memory, Monotonic};

use crate::access::{Access, Free, Token, Tokens};
use crate::audit::{Event, Outcome, What};
use crate::data::{self, Caps, Embedded, Opened, Recovered, Upkeep};
use crate::desk::{self, Desk, Home};
use crate::door::{self, Came, Door, Listener, Places, Serving, Speaks, Spoken, Tls};
use crate::held::{self, Held};
use crate::http::Front;
use crate::keys::Keys;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::ops::Ops;
use crate::reload::{self, Reload, Watch};
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
    reload: Reload,
    /// Sees that the policy file changed.
    watch: Option<Watch>,
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
    /// What sees to what is kept, if anything is.
    upkeep: Option<Upkeep>,
    /// What was kept, in words.
    found: Vec<String>,
    /// Whether damage was to be repaired.
    repaired: bool,
    within: Duration,
}

/// What time is told by.
enum Time {
    /// The process's monotonic clock.
    Usual,
    /// A clock of a test.
    Given(Manual),
}

impl Time {
    /// The clock, if it is not the usual one.
    fn given(&self) -> Option<Box<dyn Clock>> {
        match self {
            Self::Usual => None,
            Self::Given(clock) => Some(Box::new(clock.clone())),
        }
    }

    fn clock(&self) -> Box<dyn Clock> {
        self.given().unwrap_or_else(|| Box::new(Monotonic::new()))
    }
}

impl Server {
    /// Starts a server; it decides by the process's monotonic clock.
    pub fn start(settings: Settings) -> Result<Self, StartError> {
        Self::start_by(settings, &Time::Usual, Arc::new(Real))
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
        Self::start_by(settings, &Time::Given(clock.clone()), Arc::new(Real))
    }

    /// The same on a disk that fails when it is told to, for tests.
    #[doc(hidden)]
    pub fn start_with_disk(settings: Settings, clock: &Manual, disk: Arc<dyn Disk>) -> Result<Self, StartError> {
        Self::start_by(settings, &Time::Given(clock.clone()), disk)
    }

    /// Has a snapshot written now, for tests; its bytes are told when it is there. None if nothing is kept.
    #[doc(hidden)]
    pub fn snapshot(&self) -> Option<Receiver<Result<u64, Failed>>> {
        self.upkeep.as_ref().map(Upkeep::snapshot)
    }

    /// What a start found of what was kept, in words, a line a fact.
    pub fn found(&self) -> &[String] {
        &self.found
    }

    fn start_by(settings: Settings, time: &Time, disk: Arc<dyn Disk>) -> Result<Self, StartError> {
        door::judge(&settings)?;
        if settings.data.is_some() && settings.store.is_some() {
            return Err(StartError::DataAndStore);
        }
        let threads = settings.threads.max(1);
        let limits = settings.limits.clone();
        let log = Arc::new(Log::new(settings.log).map_err(StartError::System)?);
        if settings.instances.is_none() && settings.store.as_ref().is_some_and(|store| store.share() >= 1.0) {
            let text = "while the store is away, each server that uses it admits whole limits: --instances N gives \
                        each of N servers its part";
            log.warn("store_not_shared", &[("text", &text)]);
        }
        let tls = settings.tls.clone().map(|files| Tls::new(files, Arc::clone(&log)));
        let tls = tls.transpose().map_err(StartError::Tls)?.map(Arc::new);
        let (made, tokens) = tokens(&settings)?;
        let ops = Ops::new(&settings, &log)?;
        let listeners = listen(&settings)?;
        let held = Arc::new(Held::new(settings.buffers));
        let by_files = door::room(limits.connections, threads)?;
        let by_buffers =
            held.rooms() / listeners.iter().map(|at| held::room(at.speaks, tls.is_some())).min().unwrap_or(1);
        let connections = by_files.min(by_buffers);
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
        let clock = || time.clock();
        // Before anything of the data is touched, since a wrong file ends the start.
        let file = settings.config.clone().map(|path| reload::first(&path, &log).map(|first| (path, first)));
        let file = file.transpose().map_err(StartError::Config)?;
        let config = file.as_ref().map(|(_, first)| first.config.clone()).unwrap_or_default();
        let (embedded, keys, recovered) = embedded(&settings, &config, time, disk)?;
        let home = settings.store.map_or(Home::Embedded(embedded), Home::Redis);
        recovered.report.iter().for_each(|fact| log.info("kept", &[("found", fact)]));
        let metrics = Arc::new(Metrics::new(Arc::clone(&held)));
        let desk = Desk::new(home, settings.policies, metrics, clock(), Arc::clone(&log), keys).with_ops(ops);
        let kept = desk::Recovered { bans: recovered.bans.clone(), generation: recovered.generation };
        desk.begin(config, kept).map_err(|error| StartError::Config(error.to_string()))?;
        if file.is_some() {
            desk.metrics.reloads.first();
        }
        let shared = Arc::new(Shared {
            clients: Clients::new(clock().now()),
            desk,
            access: Access::new(free, exposed, tokens, settings.tokens, clock(), Arc::clone(&log)),
            http: Front::new(settings.hosts, settings.trusted_proxies.iter().copied().collect()),
            held: Arc::clone(&held),
            scripts: Scripts::default(),
            log: Arc::clone(&log),
            next_id: AtomicU64::new(1),
            stopping,
            leaving,
        });
        let policies = file.map(|(path, first)| Arc::new(first.file(path, Arc::clone(&shared))));
        let serving = Serving { shared: Arc::clone(&shared), tls: tls.clone(), handshake: limits.handshake };
        let (settles, settled) = channel();
        let mut server = Self {
            shared: Arc::clone(&shared),
            reload: Reload::new(Arc::clone(&shared), tls.clone(), policies),
            watch: None,
            resp,
            http,
            connections,
            made,
            stop,
            leave,
            door: None,
            threads: Vec::new(),
            settled,
            upkeep: None,
            repaired: settings.data.as_ref().is_some_and(|keeping| keeping.repair),
            found: recovered.report,
            within: limits.stop,
        };
        server.upkeep = Upkeep::start(&shared).map_err(StartError::System)?;
        server.tell(limits.connections, by_files);
        let policies = server.reload.policies().cloned();
        server.watch = policies.map(Watch::start).transpose().map_err(StartError::System)?;
        let mut senders = Vec::new();
        for number in 0..threads {
            let (sender, receiver) = unbounded_channel();
            senders.push(sender);
            let (serving, settles) = (serving.clone(), settles.clone());
            let run = move || work(serving, receiver, settles, limits.stop);
            server.threads.push(thread(&format!("tollgate-{number}"), run)?);
        }
        let spoken = Spoken { both: !server.resp.is_empty() && !server.http.is_empty(), tls: tls.is_some() };
        let trusted = settings.trusted_proxies.into_iter().collect();
        let places = Arc::new(Places::new(connections, &limits, trusted, held, spoken));
        let metrics = Arc::clone(&shared.desk.metrics);
        let door = Door { places, threads: senders, turn: AtomicUsize::new(0), is_tls: tls.is_some(), log, metrics };
        let watching = keep(shared, tls, limits, free == Free::Everything);
        let stopping = server.shared.stopping.clone();
        server.door = Some(thread("tollgate-door", move || open(door, listeners, stopping, watching))?);
        Ok(server)
    }

    /// Says where it listens, and that there is less room than there should be.
    fn tell(&self, wanted: usize, by_files: usize) {
        let log = &self.shared.log;
        for (speaks, addrs) in [("resp", &self.resp), ("http", &self.http)] {
            addrs.iter().for_each(|addr| log.info("listening", &[("speaks", &speaks), ("addr", addr)]));
        }
        let detail = format!("tollgate {}", env!("CARGO_PKG_VERSION"));
        let audit = &self.shared.desk.ops.audit;
        audit.tell(&Event { detail: &detail, ..Event::of_server(What::Start, Outcome::Done) });
        for fact in self.found.iter().filter(|_| self.repaired) {
            audit.tell(&Event { detail: fact, ..Event::of_server(What::Repair, Outcome::Done) });
        }
        if self.connections < wanted {
            let because = if self.connections < by_files { "few_buffers" } else { "few_files" };
            log.warn(because, &[("connections", &self.connections), ("wanted", &wanted)]);
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

    /// Connections there is room for: as the limits say, or as many as the system allows open files for and the
    /// buffers have room for.
    pub fn connections(&self) -> usize {
        self.connections
    }

    /// The token made at the start, which may do everything, if one was made.
    pub fn token(&self) -> Option<&Token> {
        self.made.as_ref()
    }

    /// The number of the policies in use: each change of the policy file has its own.
    pub fn generation(&self) -> u64 {
        self.shared.desk.generation().number
    }

    /// How many policies callers may ask for by name.
    pub fn policies(&self) -> usize {
        self.shared.desk.generation().listed.len()
    }

    /// Reads tokens, certificate, key and policy file again. What is wrong is logged, and what was in use stays.
    pub fn reload(&self) {
        self.reload.run();
    }

    /// What does that, to be run elsewhere.
    pub fn reloading(&self) -> Reload {
        self.reload.clone()
    }

    /// Ends: no connection is taken any more, commands that came are answered, idle connections are closed,
    /// and all threads are waited for.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let was_open = self.door.is_some();
        if was_open {
            self.shared.log.info("ending", &[]);
        }
        self.watch = None;
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
        // Nobody decides any more.
        if let Some(mut upkeep) = self.upkeep.take() {
            upkeep.end(self.within);
        }
        if was_open {
            // What was left out so far is told before the last line.
            self.shared.desk.ops.second(self.shared.desk.clock.now());
            self.shared.desk.ops.audit.tell(&Event::of_server(What::Stop, Outcome::Done));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// The store in this process and the keys, as they were kept if anything was.
fn embedded(
    settings: &Settings,
    config: &Config,
    time: &Time,
    disk: Arc<dyn Disk>,
) -> Result<(Embedded, Keys, Recovered), StartError> {
    let Some(keeping) = &settings.data else {
        let memory = time
            .given()
            .map_or_else(|| Memory::new(settings.memory), |clock| Memory::with_clock(settings.memory, clock));
        return Ok((Embedded::new(memory, None, time.clock()), Keys::new(settings.keys), Recovered::default()));
    };
    let of_file = config.policies.iter().map(|entry| entry.policy.clone());
    let policies: Vec<Policy> = settings.policies.iter().cloned().chain(of_file).collect();
    let caps = Caps {
        memory: settings.memory,
        keys: settings.keys,
        policies: &policies,
        clock: &|| time.given(),
        now: time.clock().now(),
    };
    let Opened { memory, keys, binding, recovered } = data::open(keeping, disk, &caps)?;
    Ok((Embedded::new(memory, Some(Arc::new(binding)), time.clock()), keys, recovered))
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
            shared.desk.ops.second(shared.desk.clock.now());
        }
    };
    let certificates = async {
        let Some(tls) = tls else { return };
        loop {
            sleep(limits.tls_watch).await;
            if let Some(read) = tls.look() {
                reload::told(&shared, What::Certificate, &read, "");
            }
        }
    };
    tokio::join!(seconds, certificates);
}
