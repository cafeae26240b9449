//! The settings of a server.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use tollgate_kernel::Policy;
use tollgate_redis::Redis;

use crate::{ClusterAddress, Scopes, ScriptAlias};
use tollgate_engine::persist::PersistSettings;
use tollgate_engine::{Collector, StoreKeySettings};
use tollgate_telemetry::audit::AuditFile;
use tollgate_telemetry::log::LogFormat;

/// The default port of the Redis protocol.
pub const RESP_PORT: u16 = 7379;
/// The default port of HTTP.
pub const HTTP_PORT: u16 = 7380;

/// The smallest memory cap of the embedded store, in bytes.
pub const MIN_MEMORY: usize = tollgate_memory::MIN_CAP;
/// The largest memory cap of the embedded store, in bytes.
pub const MAX_MEMORY: usize = tollgate_memory::MAX_CAP;

/// The settings of a server.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// The address of the Redis protocol; `None` for no listener.
    pub resp: Option<SocketAddr>,
    /// The address of HTTP; `None` for no listener.
    pub http: Option<SocketAddr>,
    /// Further addresses of the Redis protocol.
    pub more_resp: Vec<SocketAddr>,
    /// Further addresses of HTTP.
    pub more_http: Vec<SocketAddr>,
    /// Answers clients in cluster mode, as a cluster of one node; `None` as a server without a cluster.
    pub cluster: Option<ClusterSettings>,
    /// The number of threads that serve connections.
    pub threads: usize,
    /// The memory cap of the embedded store, in bytes.
    pub memory: usize,
    /// The memory cap of the keys of other conventions, in bytes.
    pub keys: usize,
    /// The cap of the buffers of all connections in bytes, at least [`crate::MIN_BUFFERS`].
    pub buffers: usize,
    /// The store that decides; `None` for the embedded one.
    pub store: Option<Redis>,
    /// How callers use the keys of that store.
    pub store_keys: StoreKeySettings,
    /// The number of servers that use the store, if known; the store's own share is set by it. If it is not known and
    /// the store's share is 1, the start logs a warning: each server then admits whole limits while the store is away.
    pub instances: Option<u16>,
    /// The data kept over a restart; `None` keeps nothing.
    pub data: Option<PersistSettings>,
    /// Policies that callers may name, in addition to those of the file.
    pub policies: Vec<Policy>,
    /// The policy file, which is read again when it changes.
    pub config: Option<PathBuf>,
    /// Scripts that speak a dialect, beyond the published ones.
    pub scripts: Vec<ScriptAlias>,
    /// The tokens file; without it the server makes one token at its start, provided that it listens on loopback alone.
    pub tokens: Option<PathBuf>,
    /// The scopes that need no token on loopback; over HTTP only `check` and `read` of them.
    pub free: Scopes,
    /// Requires a token for everything, on loopback too.
    pub require_token: bool,
    /// Allows every caller everything, from any address.
    pub insecure_no_auth: bool,
    /// Certificate and key, for all listeners.
    pub tls: Option<TlsFiles>,
    /// Allows listeners off loopback without TLS.
    pub plaintext: bool,
    /// Proxies that are trusted to state the address of a client.
    pub trusted_proxies: Vec<IpNet>,
    /// Host names of the server, in addition to its addresses and `localhost`.
    pub hosts: Vec<String>,
    /// The format of the log.
    pub log: LogFormat,
    /// The file that resets, bans and reloads are audited in; `None` for the log alone.
    pub audit: Option<AuditFile>,
    /// The collector that receives traces; `None` sends no traces.
    pub traces: Option<Collector>,
    /// Bounds on connections and durations.
    pub limits: ConnectionLimits,
}

/// The settings of a server that is a cluster of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterSettings {
    /// The address that clients are told to connect to; `None` for the one that they connected to.
    pub announced: Option<ClusterAddress>,
}

/// The files of certificate and key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by the intermediate certificates up to the authority.
    pub cert: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
}

/// Bounds on connections and durations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// The number of connections in all. It is lower if the system allows fewer open files or the buffers have room for
    /// fewer.
    pub connections: usize,
    /// How many of these are reserved for callers without a limit by address: 127.0.0.1, ::1 and trusted proxies.
    pub reserved: usize,
    /// The number of connections from one IPv4 address or one IPv6 network of 64 bits.
    pub connections_per_prefix: usize,
    /// The longest time that a TLS handshake may take.
    pub handshake: Duration,
    /// The interval at which certificate and key are checked for changes.
    pub tls_watch: Duration,
    /// The longest time that a stopping server waits for pending answers.
    pub stop: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            connections: 4_096,
            reserved: 512,
            connections_per_prefix: 256,
            handshake: Duration::from_secs(10),
            tls_watch: Duration::from_secs(10),
            stop: Duration::from_secs(10),
        }
    }
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            resp: Some((Ipv4Addr::LOCALHOST, RESP_PORT).into()),
            http: Some((Ipv4Addr::LOCALHOST, HTTP_PORT).into()),
            more_resp: Vec::new(),
            more_http: Vec::new(),
            cluster: None,
            // Clients and the rest of the machine need the other half: measured by `bench server`.
            threads: std::thread::available_parallelism().map_or(1, |cores| usize::from(cores).div_ceil(2)),
            memory: tollgate_memory::DEFAULT_CAP,
            keys: tollgate_memory::DEFAULT_CAP,
            buffers: crate::buffers::DEFAULT_BUFFERS,
            store: None,
            store_keys: StoreKeySettings::default(),
            instances: None,
            data: None,
            policies: Vec::new(),
            config: None,
            scripts: Vec::new(),
            tokens: None,
            free: Scopes::FREE,
            require_token: false,
            insecure_no_auth: false,
            tls: None,
            plaintext: false,
            trusted_proxies: Vec::new(),
            hosts: Vec::new(),
            log: LogFormat::Off,
            audit: None,
            traces: None,
            limits: ConnectionLimits::default(),
        }
    }
}
