//! What a server is started with.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use tollgate_core::Policy;
use tollgate_redis::Redis;

use crate::audit::AuditFile;
use crate::data::Keeping;
use crate::log::LogForm;

/// The port of the Redis protocol.
pub const RESP_PORT: u16 = 7379;
/// The port of HTTP.
pub const HTTP_PORT: u16 = 7380;

/// The least memory of the embedded store, in bytes.
pub const LEAST_MEMORY: usize = tollgate_memory::LEAST_CAP;
/// The most memory of the embedded store, in bytes.
pub const MOST_MEMORY: usize = tollgate_memory::MOST_CAP;

/// What a server is started with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the Redis protocol is spoken; nowhere if none.
    pub resp: Option<SocketAddr>,
    /// Where HTTP is spoken; nowhere if none.
    pub http: Option<SocketAddr>,
    /// Where else the Redis protocol is spoken.
    pub more_resp: Vec<SocketAddr>,
    /// Where else HTTP is spoken.
    pub more_http: Vec<SocketAddr>,
    /// Threads that serve connections.
    pub threads: usize,
    /// The most bytes of the embedded store.
    pub memory: usize,
    /// The most bytes of the keys of other conventions.
    pub keys: usize,
    /// The most bytes of the buffers of connections, at least [`crate::MIN_BUFFERS`].
    pub buffers: usize,
    /// The store that decides; the embedded one if none.
    pub store: Option<Redis>,
    /// How many servers use the store, if that is known; the store's own share goes by it. If it is not known and the
    /// store's share is 1, the start warns: each server then admits whole limits while the store is away.
    pub instances: Option<u16>,
    /// What is kept over a restart; nothing if none.
    pub data: Option<Keeping>,
    /// Policies that callers may ask for by name, beside those of the file.
    pub policies: Vec<Policy>,
    /// The policy file, which is read again when it changes.
    pub config: Option<PathBuf>,
    /// The file of tokens; without it the server makes one at its start, if it is on loopback alone.
    pub tokens: Option<PathBuf>,
    /// Nothing is free, on loopback neither.
    pub require_token: bool,
    /// Everybody may do everything, wherever he comes from.
    pub insecure_no_auth: bool,
    /// Certificate and key, for all listeners.
    pub tls: Option<TlsFiles>,
    /// Listeners off loopback may do without TLS.
    pub plaintext: bool,
    /// Proxies whose word for the address of a client is taken.
    pub trusted_proxies: Vec<IpNet>,
    /// Names that the server goes by, beside its addresses and `localhost`.
    pub hosts: Vec<String>,
    /// How the log is written.
    pub log: LogForm,
    /// Where it is written who reset, banned and reloaded; in the log alone if nowhere.
    pub audit: Option<AuditFile>,
    /// The collector that gets traces; none if nowhere.
    pub traces: Option<Collector>,
    /// How much is served at once, and how long things may take.
    pub limits: Limits,
}

/// A collector of traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    /// Where it is, such as `http://127.0.0.1:4318`.
    pub endpoint: String,
    /// Of so many requests that their callers do not trace, one is traced; none if 0.
    pub one_of: u64,
}

/// Where certificate and key are, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and those between it and the authority.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// How much is served at once, and how long things may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections in all. Fewer if the system allows fewer open files, or the buffers have room for fewer.
    pub connections: usize,
    /// Of these, kept for callers that have no limit by address: 127.0.0.1, ::1 and trusted proxies.
    pub reserved: usize,
    /// Connections of one IPv4 address or IPv6 network of 64 bits.
    pub connections_per_prefix: usize,
    /// How long a TLS handshake may take.
    pub handshake: Duration,
    /// How often certificate and key are looked at for changes.
    pub tls_watch: Duration,
    /// How long answers are waited for when the server ends.
    pub stop: Duration,
}

impl Default for Limits {
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

impl Default for Settings {
    fn default() -> Self {
        Self {
            resp: Some((Ipv4Addr::LOCALHOST, RESP_PORT).into()),
            http: Some((Ipv4Addr::LOCALHOST, HTTP_PORT).into()),
            more_resp: Vec::new(),
            more_http: Vec::new(),
            // What asks, and what else the machine does, needs the other half: measured by `bench server`.
            threads: std::thread::available_parallelism().map_or(1, |cores| usize::from(cores).div_ceil(2)),
            memory: tollgate_memory::DEFAULT_CAP,
            keys: tollgate_memory::DEFAULT_CAP,
            buffers: crate::held::DEFAULT_BUFFERS,
            store: None,
            instances: None,
            data: None,
            policies: Vec::new(),
            config: None,
            tokens: None,
            require_token: false,
            insecure_no_auth: false,
            tls: None,
            plaintext: false,
            trusted_proxies: Vec::new(),
            hosts: Vec::new(),
            log: LogForm::Off,
            audit: None,
            traces: None,
            limits: Limits::default(),
        }
    }
}
