//! What a server is started with.

use std::net::{Ipv4Addr, SocketAddr};

use ipnet::IpNet;
use tollgate_core::Policy;
use tollgate_redis::Redis;

/// The port of the Redis protocol.
pub const RESP_PORT: u16 = 7379;
/// The port of HTTP.
pub const HTTP_PORT: u16 = 7380;

/// What a server is started with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the Redis protocol is spoken; nowhere if none.
    pub resp: Option<SocketAddr>,
    /// Where HTTP is spoken; nowhere if none.
    pub http: Option<SocketAddr>,
    /// Threads that serve connections.
    pub threads: usize,
    /// The most bytes of the embedded store.
    pub memory: usize,
    /// The most bytes of the keys of other conventions.
    pub keys: usize,
    /// The store that decides; the embedded one if none.
    pub store: Option<Redis>,
    /// Policies that callers may ask for by name.
    pub policies: Vec<Policy>,
    /// Names besides localhost and its addresses that HTTP requests may call the server by.
    pub hosts: Vec<String>,
    /// Proxies whose word on a client's address is taken, see [`crate::trusted_proxy`].
    pub trusted_proxies: Vec<IpNet>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            resp: Some((Ipv4Addr::LOCALHOST, RESP_PORT).into()),
            http: Some((Ipv4Addr::LOCALHOST, HTTP_PORT).into()),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            memory: tollgate_memory::DEFAULT_CAP,
            keys: tollgate_memory::DEFAULT_CAP,
            store: None,
            policies: Vec::new(),
            hosts: Vec::new(),
            trusted_proxies: Vec::new(),
        }
    }
}
