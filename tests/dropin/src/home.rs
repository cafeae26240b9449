//! The homes that clients run against, and how each is started.

use std::net::SocketAddr;
use std::process::Command;

use tollgate_kit::{Cluster, Server};

use crate::Failure;
use crate::program::Surroundings;
use crate::serve::TollgateProcess;

/// Whether `serve --store` answers clients of other conventions; until it does, its homes are not run.
const STORE_ANSWERS_CLIENTS: bool = false;
/// Whether `serve --cluster` answers clients in cluster mode; until it does, its home is not run.
const CLUSTER_ANSWERS_CLIENTS: bool = false;

/// A kind of home, as clients see it.
pub(crate) struct HomeKind {
    pub(crate) name: &'static str,
    /// Whether it is a Tollgate server, which knows the published scripts, runs no Lua, and keeps what triggers kept.
    pub(crate) is_tollgate: bool,
    /// Whether the keys are in a cluster, which has one database.
    pub(crate) is_clustered: bool,
    /// Whether clients are to be in cluster mode.
    pub(crate) wants_cluster_clients: bool,
    /// Whether the short form runs it.
    pub(crate) is_quick: bool,
    parts: Parts,
}

/// What a home is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parts {
    Redis,
    RedisCluster,
    /// `tollgate serve` with these words, of which DATA is a folder of its own.
    Tollgate(&'static [&'static str]),
    TollgateOverRedis,
    TollgateOverCluster,
}

const TOLLGATE: HomeKind = HomeKind {
    name: "tollgate serve",
    is_tollgate: true,
    is_clustered: false,
    wants_cluster_clients: false,
    is_quick: true,
    parts: Parts::Tollgate(&[]),
};

/// All homes.
pub(crate) const HOMES: [HomeKind; 7] = [
    HomeKind { name: "redis-server", is_tollgate: false, parts: Parts::Redis, ..TOLLGATE },
    TOLLGATE,
    HomeKind { name: "tollgate serve --data", parts: Parts::Tollgate(&["--data", "DATA"]), ..TOLLGATE },
    HomeKind { name: "tollgate serve --store redis://", parts: Parts::TollgateOverRedis, ..TOLLGATE },
    HomeKind {
        name: "tollgate serve --store redis+cluster://",
        is_clustered: true,
        is_quick: false,
        parts: Parts::TollgateOverCluster,
        ..TOLLGATE
    },
    HomeKind {
        name: "cluster of six redis-servers",
        is_tollgate: false,
        is_clustered: true,
        wants_cluster_clients: true,
        is_quick: false,
        parts: Parts::RedisCluster,
    },
    HomeKind {
        name: "tollgate serve --cluster",
        is_clustered: true,
        wants_cluster_clients: true,
        parts: Parts::Tollgate(&["--cluster"]),
        ..TOLLGATE
    },
];

/// A home that is up, gone when dropped. The fields are dropped in their order: a server before its store.
pub(crate) struct Home {
    pub(crate) addr: SocketAddr,
    _tollgate: Option<TollgateProcess>,
    _redis: Option<Server>,
    _cluster: Option<Cluster>,
}

impl HomeKind {
    /// Returns whether it can be run.
    pub(crate) fn is_ready(&self) -> bool {
        match self.parts {
            Parts::TollgateOverRedis | Parts::TollgateOverCluster => STORE_ANSWERS_CLIENTS,
            Parts::Tollgate(["--cluster"]) => CLUSTER_ANSWERS_CLIENTS,
            Parts::Redis | Parts::RedisCluster | Parts::Tollgate(_) => true,
        }
    }

    /// Starts it with empty databases.
    pub(crate) fn start(&self, surroundings: &Surroundings) -> Result<Home, Failure> {
        let (mut redis, mut cluster) = (None, None);
        let mut words: Vec<String> = Vec::new();
        match self.parts {
            Parts::Redis => {
                let server = start_redis(surroundings)?;
                return Ok(Home { addr: server.addr(), _tollgate: None, _redis: Some(server), _cluster: None });
            }
            Parts::RedisCluster => {
                let nodes = Cluster::start()?;
                return Ok(Home { addr: nodes.node(0)?.addr(), _tollgate: None, _redis: None, _cluster: Some(nodes) });
            }
            Parts::Tollgate(said) => {
                let data = surroundings.folder().join("data").display().to_string();
                words.extend(said.iter().map(|word| if *word == "DATA" { data.clone() } else { (*word).to_owned() }));
            }
            Parts::TollgateOverRedis => {
                let server = Server::start()?;
                words.extend(["--store".to_owned(), server.url(), "--instances".to_owned(), "1".to_owned()]);
                redis = Some(server);
            }
            Parts::TollgateOverCluster => {
                let nodes = Cluster::start()?;
                let places: Vec<String> = nodes.nodes().iter().map(|node| node.addr().to_string()).collect();
                let url = format!("redis+cluster://{}", places.join(","));
                words.extend(["--store".to_owned(), url, "--instances".to_owned(), "1".to_owned()]);
                cluster = Some(nodes);
            }
        }
        let tollgate = TollgateProcess::start(surroundings, &words)?;
        Ok(Home { addr: tollgate.addr, _tollgate: Some(tollgate), _redis: redis, _cluster: cluster })
    }
}

/// Starts a redis-server on which Tollgate's functions are installed.
pub(crate) fn start_redis(surroundings: &Surroundings) -> Result<Server, Failure> {
    let server = Server::start()?;
    install(&surroundings.tollgate, &server)?;
    Ok(server)
}

/// Installs Tollgate's functions on a redis-server.
pub(crate) fn install(tollgate: &str, server: &Server) -> Result<(), Failure> {
    let output = Command::new(tollgate).args(["redis", "install", &server.url()]).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("tollgate redis install: {}", String::from_utf8_lossy(&output.stderr)).into())
}
