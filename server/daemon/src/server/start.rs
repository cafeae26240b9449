//! The start of a server, stage by stage. Mistakes in the settings are found before any data is touched: addresses,
//! tokens and certificates first, then the policy file, then the kept data.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::mpsc::channel;

use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::watch;
use tollgate_config::Config;
use tollgate_engine::persist::{self, Caps, Embedded, Opened, Recovered};
use tollgate_engine::{Engine, Home, Ops, Upkeep};
use tollgate_journal::disk::Disk;
use tollgate_kernel::{Clock, Policy};
use tollgate_keyspace::Keys;
use tollgate_memory::{Manual, Memory, Monotonic};
use tollgate_telemetry::audit::{Event, FrontEnd, Outcome, What};
use tollgate_telemetry::log::Log;

use super::Server;
use super::threads::{accept, keep, thread, work};
use crate::access::{Access, Free, Token, Tokens};
use crate::buffers::{self, BufferBudget};
use crate::http::Front;
use crate::listeners::{self, Acceptor, ConnectionSlots, Listener, Protocols, Serving, Tls};
use crate::metrics::Metrics;
use crate::reload::{self, First, Reload, Watch};
use crate::resp::clients::Clients;
use crate::resp::commands::Scripts;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::start_error::StartError;

/// The clock that a server decides by.
pub(super) enum Time {
    /// The process's monotonic clock.
    Usual,
    /// A clock that a test sets.
    Given(Manual),
}

impl Time {
    /// Returns the clock if it is not the process's own.
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

/// Returns the store in this process and the keys, recovered from the kept data if there is any.
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
    let Opened { memory, keys, binding, recovered } = persist::open(keeping, disk, &caps)?;
    Ok((Embedded::new(memory, Some(Arc::new(binding)), time.clock()), keys, recovered))
}

/// Returns the tokens of the settings' file, or one token made here.
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
    let resp = settings.resp.iter().chain(&settings.more_resp).map(|addr| (*addr, FrontEnd::Resp));
    let http = settings.http.iter().chain(&settings.more_http).map(|addr| (*addr, FrontEnd::Http));
    resp.chain(http).map(|(addr, speaks)| listeners::listen(addr, speaks)).collect()
}

/// The listeners, and the number of connections that there is room for.
struct Listening {
    tls: Option<Arc<Tls>>,
    listeners: Vec<Listener>,
    buffers: Arc<BufferBudget>,
    /// The number of connections that the system's open files allow.
    by_files: usize,
    /// The number of connections that there is room for in all.
    connections: usize,
}

impl Listening {
    fn new(settings: &Settings, tls: Option<Arc<Tls>>) -> Result<Self, StartError> {
        let listeners = listen(settings)?;
        let buffers = Arc::new(BufferBudget::new(settings.buffers));
        let by_files = listeners::room(settings.limits.connections, settings.threads.max(1))?;
        let of_one = listeners.iter().map(|at| buffers::room(at.speaks, tls.is_some())).min();
        let connections = by_files.min(buffers.rooms() / of_one.unwrap_or(1));
        Ok(Self { tls, listeners, buffers, by_files, connections })
    }

    fn addrs(&self, speaks: FrontEnd) -> Vec<SocketAddr> {
        self.listeners.iter().filter(|at| at.speaks == speaks).map(|at| at.addr).collect()
    }

    /// Returns the ports that other machines reach.
    fn exposed(&self) -> Vec<u16> {
        listeners::exposed(self.listeners.iter().map(|at| at.addr)).map(|addr| addr.port()).collect()
    }
}

impl Server {
    pub(super) fn start_by(settings: Settings, time: &Time, disk: Arc<dyn Disk>) -> Result<Self, StartError> {
        listeners::judge(&settings)?;
        if settings.data.is_some() && settings.store.is_some() {
            return Err(StartError::DataAndStore);
        }
        let log = open_log(&settings)?;
        let tls = settings.tls.clone().map(|files| Tls::new(files, Arc::clone(&log)));
        let tls = tls.transpose().map_err(StartError::Tls)?.map(Arc::new);
        let (made, tokens) = tokens(&settings)?;
        let ops = Ops::new(settings.audit.clone(), settings.traces.as_ref(), &log)?;
        let listening = Listening::new(&settings, tls)?;
        // The policy file is read before any data is touched, since a mistake in it ends the start.
        let file = policy_file(&settings, &log)?;
        let (engine, recovered) = engine(&settings, file.as_ref(), ops, time, disk, &log)?;
        let mut server = Self::build(&settings, &listening, engine, file, (made, tokens), recovered, time, &log);
        server.run(&settings, listening)?;
        Ok(server)
    }

    /// Assembles the state that connections share. No thread runs yet.
    #[expect(clippy::too_many_arguments, reason = "what the stages before it made")]
    fn build(
        settings: &Settings,
        listening: &Listening,
        engine: Engine,
        file: Option<(PathBuf, First)>,
        (made, tokens): (Option<Token>, Tokens),
        recovered: Recovered,
        time: &Time,
        log: &Arc<Log>,
    ) -> Self {
        let (stop, stopping) = watch::channel(false);
        let (leave, leaving) = watch::channel(false);
        let metrics = Arc::new(Metrics::new(Arc::clone(&listening.buffers)));
        if file.is_some() {
            metrics.reloads.first();
        }
        let exposed = listening.exposed();
        let shared = Arc::new(Shared {
            clients: Clients::new(time.clock().now()),
            engine: Arc::new(engine),
            metrics,
            access: Access::new(
                free(settings),
                exposed,
                tokens,
                settings.tokens.clone(),
                time.clock(),
                Arc::clone(log),
            ),
            http: Front::new(settings.hosts.clone(), settings.trusted_proxies.iter().copied().collect()),
            buffers: Arc::clone(&listening.buffers),
            scripts: Scripts::default(),
            log: Arc::clone(log),
            next_id: AtomicU64::new(1),
            stopping,
            leaving,
        });
        let policies = file.map(|(path, first)| Arc::new(first.file(path, Arc::clone(&shared))));
        Self {
            reload: Reload::new(Arc::clone(&shared), listening.tls.clone(), policies),
            shared,
            watch: None,
            resp: listening.addrs(FrontEnd::Resp),
            http: listening.addrs(FrontEnd::Http),
            connections: listening.connections,
            made,
            stop,
            leave,
            acceptor: None,
            threads: Vec::new(),
            settled: channel().1,
            upkeep: None,
            repaired: settings.data.as_ref().is_some_and(|keeping| keeping.repair),
            found: recovered.report,
            within: settings.limits.stop,
        }
    }

    /// Starts the threads of snapshots, of the policy file and of connections.
    fn run(&mut self, settings: &Settings, listening: Listening) -> Result<(), StartError> {
        let (shared, limits) = (Arc::clone(&self.shared), settings.limits.clone());
        self.upkeep = Upkeep::start(&shared.engine).map_err(StartError::System)?;
        self.tell(limits.connections, listening.by_files);
        let policies = self.reload.policies().cloned();
        self.watch = policies.map(Watch::start).transpose().map_err(StartError::System)?;
        let Listening { tls, listeners, buffers, connections, .. } = listening;
        let serving = Serving { shared: Arc::clone(&shared), tls: tls.clone(), handshake: limits.handshake };
        let (settles, settled) = channel();
        self.settled = settled;
        let mut senders = Vec::new();
        for number in 0..settings.threads.max(1) {
            let (sender, receiver) = unbounded_channel();
            senders.push(sender);
            let (serving, settles) = (serving.clone(), settles.clone());
            let run = move || work(serving, receiver, settles, limits.stop);
            self.threads.push(thread(&format!("tollgate-{number}"), run)?);
        }
        let protocols = Protocols { both: !self.resp.is_empty() && !self.http.is_empty(), tls: tls.is_some() };
        let trusted = settings.trusted_proxies.iter().copied().collect();
        let places = Arc::new(ConnectionSlots::new(connections, &limits, trusted, buffers, protocols));
        let (metrics, log) = (Arc::clone(&shared.metrics), Arc::clone(&shared.log));
        let acceptor =
            Acceptor { places, threads: senders, turn: AtomicUsize::new(0), is_tls: tls.is_some(), log, metrics };
        let stopping = shared.stopping.clone();
        let keeping = keep(shared, tls, limits, free(settings) == Free::Everything);
        self.acceptor = Some(thread("tollgate-accept", move || accept(acceptor, listeners, stopping, keeping))?);
        Ok(())
    }

    /// Logs the addresses it listens on, and a warning if there is room for fewer connections than configured.
    fn tell(&self, wanted: usize, by_files: usize) {
        let log = &self.shared.log;
        for (speaks, addrs) in [("resp", &self.resp), ("http", &self.http)] {
            addrs.iter().for_each(|addr| log.info("listening", &[("speaks", &speaks), ("addr", addr)]));
        }
        let detail = format!("tollgate {}", env!("CARGO_PKG_VERSION"));
        let audit = self.shared.engine.audit();
        audit.tell(&Event { detail: &detail, ..Event::of_server(What::Start, Outcome::Done) });
        for fact in self.found.iter().filter(|_| self.repaired) {
            audit.tell(&Event { detail: fact, ..Event::of_server(What::Repair, Outcome::Done) });
        }
        if self.connections < wanted {
            let because = if self.connections < by_files { "few_buffers" } else { "few_files" };
            log.warn(because, &[("connections", &self.connections), ("wanted", &wanted)]);
        }
    }
}

fn open_log(settings: &Settings) -> Result<Arc<Log>, StartError> {
    let log = Arc::new(Log::new(settings.log).map_err(StartError::System)?);
    if settings.instances.is_none() && settings.store.as_ref().is_some_and(|store| store.share() >= 1.0) {
        let text = "while the store is away, each server that uses it admits whole limits: --instances N gives \
                    each of N servers its part";
        log.warn("store_not_shared", &[("text", &text)]);
    }
    Ok(log)
}

/// Returns what callers may do without a token.
fn free(settings: &Settings) -> Free {
    match (settings.insecure_no_auth, settings.require_token) {
        (true, _) => Free::Everything,
        (false, true) => Free::Nothing,
        (false, false) => Free::Loopback,
    }
}

/// Reads the policy file, if there is one.
fn policy_file(settings: &Settings, log: &Arc<Log>) -> Result<Option<(PathBuf, First)>, StartError> {
    let file = settings.config.clone().map(|path| reload::first(&path, log).map(|first| (path, first)));
    file.transpose().map_err(StartError::Config)
}

/// Returns the engine with the policies of the command line and of the file, over the kept data.
fn engine(
    settings: &Settings,
    file: Option<&(PathBuf, First)>,
    ops: Ops,
    time: &Time,
    disk: Arc<dyn Disk>,
    log: &Arc<Log>,
) -> Result<(Engine, Recovered), StartError> {
    let config = file.map(|(_, first)| first.config.clone()).unwrap_or_default();
    let (embedded, keys, recovered) = embedded(settings, &config, time, disk)?;
    let home = settings.store.clone().map_or(Home::Embedded(embedded), Home::Redis);
    recovered.report.iter().for_each(|fact| log.info("kept", &[("found", fact)]));
    let engine = Engine::new(home, settings.policies.clone(), time.clock(), Arc::clone(log), keys).with_ops(ops);
    let kept = tollgate_engine::Recovered { bans: recovered.bans.clone(), generation: recovered.generation };
    engine.begin(config, kept).map_err(|error| StartError::Config(error.to_string()))?;
    Ok((engine, recovered))
}
