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
use tollgate_engine::persist::{self, EmbeddedHome, RecoverySummary, RestoreParameters};
use tollgate_engine::{Engine, Home, Ops, StoreHome, Upkeep};
use tollgate_journal::disk::Disk;
use tollgate_kernel::{Clock, Policy};
use tollgate_keyspace::Keyspace;
use tollgate_memory::{ManualClock, Memory, MonotonicClock};
use tollgate_telemetry::audit::{AuditAction, AuditEvent, AuditOutcome, FrontEnd};
use tollgate_telemetry::log::ServerLog;

use super::Server;
use super::threads::{accept, maintain, serve_connections, spawn_thread};
use crate::access::{AccessControl, AccessToken, FreeAccess, Scopes, Tokens};
use crate::buffers::{self, BufferBudget};
use crate::cluster::ClusterNode;
use crate::http::HttpState;
use crate::listeners::{self, Acceptor, ConnectionSlots, Listener, Protocols, ServeContext, Tls};
use crate::metrics::Metrics;
use crate::reload::{self, InitialConfig, PolicyFileWatcher, Reloader};
use crate::resp::clients::Clients;
use crate::resp::commands::ScriptRegistry;
use crate::settings::ServerSettings;
use crate::shared::ServerState;
use crate::start_error::StartError;

/// The clock that a server decides by.
pub(super) enum ServerClock {
    /// The process's monotonic clock.
    Monotonic,
    /// A clock that a test sets.
    Manual(ManualClock),
}

impl ServerClock {
    /// Returns the clock if it is not the process's own.
    fn manual(&self) -> Option<Box<dyn Clock>> {
        match self {
            Self::Monotonic => None,
            Self::Manual(clock) => Some(Box::new(clock.clone())),
        }
    }

    fn clock(&self) -> Box<dyn Clock> {
        self.manual().unwrap_or_else(|| Box::new(MonotonicClock::new()))
    }
}

/// Returns the store in this process and the keys, recovered from the kept data if there is any.
fn embedded(
    settings: &ServerSettings,
    config: &Config,
    time: &ServerClock,
    disk: Arc<dyn Disk>,
) -> Result<(EmbeddedHome, Keyspace, RecoverySummary), StartError> {
    let Some(keeping) = &settings.data else {
        let memory = time
            .manual()
            .map_or_else(|| Memory::new(settings.memory), |clock| Memory::with_clock(settings.memory, clock));
        let home = EmbeddedHome::new(memory, time.clock());
        return Ok((home, Keyspace::new(settings.keys), RecoverySummary::default()));
    };
    let of_file = config.policies.iter().map(|entry| entry.policy.clone());
    let policies: Vec<Policy> = settings.policies.iter().cloned().chain(of_file).collect();
    let caps = RestoreParameters {
        memory: settings.memory,
        keys: settings.keys,
        policies: &policies,
        clock: &|| time.manual(),
        now: time.clock().now(),
    };
    Ok(persist::open(keeping, disk, &caps)?.into_home(time.clock()))
}

/// Returns the tokens of the settings' file, or one token made here.
fn tokens(settings: &ServerSettings) -> Result<(Option<AccessToken>, Tokens), StartError> {
    match &settings.tokens {
        Some(file) => Ok((None, Tokens::read(file).map_err(StartError::Tokens)?)),
        None if settings.insecure_no_auth => Ok((None, Tokens::default())),
        None => {
            let token = AccessToken::make().map_err(StartError::System)?;
            let tokens = Tokens::single(token.hash());
            Ok((Some(token), tokens))
        }
    }
}

fn listen(settings: &ServerSettings) -> Result<Vec<Listener>, StartError> {
    let resp = settings.resp.iter().chain(&settings.more_resp).map(|addr| (*addr, FrontEnd::Resp));
    let http = settings.http.iter().chain(&settings.more_http).map(|addr| (*addr, FrontEnd::Http));
    resp.chain(http).map(|(addr, front_end)| listeners::listen(addr, front_end)).collect()
}

/// The listeners, and the number of connections that there is room for.
struct BoundListeners {
    tls: Option<Arc<Tls>>,
    listeners: Vec<Listener>,
    buffers: Arc<BufferBudget>,
    /// The number of connections that the system's open files allow.
    by_files: usize,
    /// The number of connections that there is room for in all.
    connections: usize,
}

impl BoundListeners {
    fn new(settings: &ServerSettings, tls: Option<Arc<Tls>>) -> Result<Self, StartError> {
        let listeners = listen(settings)?;
        let buffers = Arc::new(BufferBudget::new(settings.buffers));
        let by_files = listeners::room(settings.limits.connections, settings.threads.max(1))?;
        let of_one = listeners.iter().map(|at| buffers::room(at.front_end, tls.is_some())).min();
        let connections = by_files.min(buffers.rooms() / of_one.unwrap_or(1));
        Ok(Self { tls, listeners, buffers, by_files, connections })
    }

    fn addrs(&self, front_end: FrontEnd) -> Vec<SocketAddr> {
        self.listeners.iter().filter(|at| at.front_end == front_end).map(|at| at.addr).collect()
    }

    /// Returns the ports that other machines reach.
    fn exposed(&self) -> Vec<u16> {
        listeners::exposed(self.listeners.iter().map(|at| at.addr)).map(|addr| addr.port()).collect()
    }
}

impl Server {
    pub(super) fn start_from(
        settings: ServerSettings,
        time: &ServerClock,
        disk: Arc<dyn Disk>,
    ) -> Result<Self, StartError> {
        listeners::check_exposure(&settings)?;
        if settings.data.is_some() && settings.store.is_some() {
            return Err(StartError::DataAndStore);
        }
        let log = open_log(&settings)?;
        let cluster = ClusterNode::new(&settings).map_err(StartError::System)?;
        let tls = settings.tls.clone().map(|files| Tls::new(files, Arc::clone(&log)));
        let tls = tls.transpose().map_err(StartError::Tls)?.map(Arc::new);
        let (initial_token, tokens) = tokens(&settings)?;
        let ops = Ops::new(settings.audit.clone(), settings.traces.as_ref(), &log)?;
        let listening = BoundListeners::new(&settings, tls)?;
        // The policy file is read before any data is touched, since a mistake in it ends the start.
        let file = policy_file(&settings, &log)?;
        let (engine, recovered) = engine(&settings, file.as_ref(), ops, time, disk, &log)?;
        let mut server =
            Self::build(&settings, &listening, cluster, engine, file, (initial_token, tokens), recovered, time, &log);
        server.run(&settings, listening)?;
        Ok(server)
    }

    /// Assembles the state that connections share. No thread runs yet.
    #[expect(clippy::too_many_arguments, reason = "what the stages before it made")]
    fn build(
        settings: &ServerSettings,
        listening: &BoundListeners,
        cluster: Option<ClusterNode>,
        engine: Engine,
        file: Option<(PathBuf, InitialConfig)>,
        (initial_token, tokens): (Option<AccessToken>, Tokens),
        recovered: RecoverySummary,
        time: &ServerClock,
        log: &Arc<ServerLog>,
    ) -> Self {
        let (stop, stopping) = watch::channel(false);
        let (leave, leaving) = watch::channel(false);
        let metrics = Arc::new(Metrics::new(Arc::clone(&listening.buffers)));
        if file.is_some() {
            metrics.reloads.first();
        }
        let exposed = listening.exposed();
        let shared = Arc::new(ServerState {
            clients: Clients::new(time.clock().now()),
            engine: Arc::new(engine),
            metrics,
            access: AccessControl::new(
                free(settings),
                exposed,
                tokens,
                settings.tokens.clone(),
                time.clock(),
                Arc::clone(log),
            ),
            http: HttpState::new(settings.hosts.clone(), settings.trusted_proxies.iter().copied().collect()),
            buffers: Arc::clone(&listening.buffers),
            scripts: ScriptRegistry::new(&settings.scripts),
            log: Arc::clone(log),
            cluster,
            next_id: AtomicU64::new(1),
            stopping,
            leaving,
        });
        let policies = file.map(|(path, first)| Arc::new(first.file(path, Arc::clone(&shared))));
        Self {
            reload: Reloader::new(Arc::clone(&shared), listening.tls.clone(), policies),
            shared,
            watch: None,
            resp: listening.addrs(FrontEnd::Resp),
            http: listening.addrs(FrontEnd::Http),
            connections: listening.connections,
            initial_token,
            stop,
            leave,
            acceptor: None,
            threads: Vec::new(),
            settled: channel().1,
            upkeep: None,
            repaired: settings.data.as_ref().is_some_and(|keeping| keeping.repair),
            recovery_report: recovered.report,
            stop_timeout: settings.limits.stop,
        }
    }

    /// Starts the threads of snapshots, of the policy file and of connections.
    fn run(&mut self, settings: &ServerSettings, listening: BoundListeners) -> Result<(), StartError> {
        let (shared, limits) = (Arc::clone(&self.shared), settings.limits.clone());
        self.upkeep = Upkeep::start(&shared.engine).map_err(StartError::System)?;
        self.log_listeners(limits.connections, listening.by_files);
        let policies = self.reload.policies().cloned();
        self.watch = policies.map(PolicyFileWatcher::start).transpose().map_err(StartError::System)?;
        let BoundListeners { tls, listeners, buffers, connections, .. } = listening;
        let context = ServeContext { shared: Arc::clone(&shared), tls: tls.clone(), handshake: limits.handshake };
        let (settles, settled) = channel();
        self.settled = settled;
        let mut senders = Vec::new();
        for number in 0..settings.threads.max(1) {
            let (sender, receiver) = unbounded_channel();
            senders.push(sender);
            let (context, settles) = (context.clone(), settles.clone());
            let run = move || serve_connections(context, receiver, settles, limits.stop);
            self.threads.push(spawn_thread(&format!("tollgate-{number}"), run)?);
        }
        let protocols = Protocols { both: !self.resp.is_empty() && !self.http.is_empty(), tls: tls.is_some() };
        let trusted = settings.trusted_proxies.iter().copied().collect();
        let slots = Arc::new(ConnectionSlots::new(connections, &limits, trusted, buffers, protocols));
        let (metrics, log) = (Arc::clone(&shared.metrics), Arc::clone(&shared.log));
        let acceptor =
            Acceptor { slots, threads: senders, turn: AtomicUsize::new(0), is_tls: tls.is_some(), log, metrics };
        let stopping = shared.stopping.clone();
        let maintenance = maintain(shared, tls, limits, free(settings) == FreeAccess::Everything);
        self.acceptor =
            Some(spawn_thread("tollgate-accept", move || accept(acceptor, listeners, stopping, maintenance))?);
        Ok(())
    }

    /// Logs the addresses it listens on, and a warning if there is room for fewer connections than configured.
    fn log_listeners(&self, wanted: usize, by_files: usize) {
        let log = &self.shared.log;
        for (protocol, addrs) in [("resp", &self.resp), ("http", &self.http)] {
            addrs.iter().for_each(|addr| log.info("listening", &[("speaks", &protocol), ("addr", addr)]));
        }
        let detail = format!("tollgate {}", env!("CARGO_PKG_VERSION"));
        let audit = self.shared.engine.audit();
        audit.record(&AuditEvent { detail: &detail, ..AuditEvent::of_server(AuditAction::Start, AuditOutcome::Done) });
        for fact in self.recovery_report.iter().filter(|_| self.repaired) {
            audit
                .record(&AuditEvent { detail: fact, ..AuditEvent::of_server(AuditAction::Repair, AuditOutcome::Done) });
        }
        if self.connections < wanted {
            let because = if self.connections < by_files { "few_buffers" } else { "few_files" };
            log.warn(because, &[("connections", &self.connections), ("wanted", &wanted)]);
        }
    }
}

fn open_log(settings: &ServerSettings) -> Result<Arc<ServerLog>, StartError> {
    let log = Arc::new(ServerLog::new(settings.log).map_err(StartError::System)?);
    if settings.instances.is_none() && settings.store.as_ref().is_some_and(|store| store.share() >= 1.0) {
        let text = "while the store is away, each server that uses it admits whole limits: --instances N gives \
                    each of N servers its part";
        log.warn("store_not_shared", &[("text", &text)]);
    }
    Ok(log)
}

/// Returns what callers may do without a token.
fn free(settings: &ServerSettings) -> FreeAccess {
    match (settings.insecure_no_auth, settings.require_token) {
        (true, _) => FreeAccess::Everything,
        (false, true) => FreeAccess::Loopback(Scopes::NONE),
        (false, false) => FreeAccess::Loopback(settings.free),
    }
}

/// Reads the policy file, if there is one.
fn policy_file(
    settings: &ServerSettings,
    log: &Arc<ServerLog>,
) -> Result<Option<(PathBuf, InitialConfig)>, StartError> {
    let file = settings.config.clone().map(|path| reload::read_initial(&path, log).map(|first| (path, first)));
    file.transpose().map_err(StartError::Config)
}

/// Returns the engine with the policies of the command line and of the file, over the kept data.
fn engine(
    settings: &ServerSettings,
    file: Option<&(PathBuf, InitialConfig)>,
    ops: Ops,
    time: &ServerClock,
    disk: Arc<dyn Disk>,
    log: &Arc<ServerLog>,
) -> Result<(Engine, RecoverySummary), StartError> {
    let config = file.map(|(_, first)| first.config.clone()).unwrap_or_default();
    let (embedded, keys, recovered) = embedded(settings, &config, time, disk)?;
    let in_store = |store| Home::Redis(Arc::new(StoreHome::new(store, settings.store_keys.clone())));
    let home = settings.store.clone().map_or(Home::Embedded(embedded), in_store);
    recovered.report.iter().for_each(|fact| log.info("kept", &[("found", fact)]));
    let engine = Engine::new(home, settings.policies.clone(), time.clock(), Arc::clone(log), keys).with_ops(ops);
    let kept = tollgate_engine::RecoveredState { bans: recovered.bans.clone(), generation: recovered.generation };
    engine.begin(config, kept).map_err(|error| StartError::Config(error.to_string()))?;
    Ok((engine, recovered))
}
