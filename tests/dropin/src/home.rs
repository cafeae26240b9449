//! The homes that clients run against, and how each is started.

use std::net::SocketAddr;
use std::process::Command;

use tollgate_kit::{Cluster, Server};

use crate::Failure;
use crate::program::Surroundings;
use crate::serve::TollgateProcess;

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
    /// `tollgate serve` with these words, of which DATA is a folder of its own, and TOKENS a file with a token.
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
pub(crate) const HOMES: [HomeKind; 8] = [
    HomeKind { name: "redis-server", is_tollgate: false, parts: Parts::Redis, ..TOLLGATE },
    TOLLGATE,
    HomeKind { name: "tollgate serve --data", parts: Parts::Tollgate(&["--data", "DATA"]), ..TOLLGATE },
    HomeKind {
        name: "tollgate serve --require-token",
        parts: Parts::Tollgate(&["--require-token", "--tokens", "TOKENS"]),
        ..TOLLGATE
    },
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

/// Where clients connect to.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) addr: SocketAddr,
    /// What clients show, if the server wants a token.
    pub(crate) password: Option<String>,
}

/// A home that is up, gone when dropped. The fields are dropped in their order: a server before its store.
pub(crate) struct Home {
    pub(crate) place: Place,
    _tollgate: Option<TollgateProcess>,
    _redis: Option<Server>,
    _cluster: Option<Cluster>,
}

impl HomeKind {
    /// Starts it with empty databases.
    pub(crate) fn start(&self, surroundings: &Surroundings) -> Result<Home, Failure> {
        let (mut redis, mut cluster, mut password) = (None, None, None);
        let store = |url: String| vec!["--store".to_owned(), url, "--instances".to_owned(), "1".to_owned()];
        let words = match self.parts {
            Parts::Redis => {
                let server = Server::start()?;
                install(&surroundings.tollgate, &server)?;
                return Ok(Home::of_others(server.addr(), Some(server), None));
            }
            Parts::RedisCluster => {
                let nodes = Cluster::start()?;
                return Ok(Home::of_others(nodes.node(0)?.addr(), None, Some(nodes)));
            }
            Parts::Tollgate(words) => {
                let place = |name: &str| surroundings.folder().join(name).display().to_string();
                if words.contains(&"TOKENS") {
                    password = Some(make_token(&surroundings.tollgate, &place("TOKENS"))?);
                }
                let word = |word: &&str| if word.starts_with("--") { (*word).to_owned() } else { place(word) };
                words.iter().map(word).collect()
            }
            Parts::TollgateOverRedis => store(redis.insert(Server::start()?).url()),
            Parts::TollgateOverCluster => {
                let nodes = cluster.insert(Cluster::start()?).nodes();
                let places: Vec<String> = nodes.iter().map(|node| node.addr().to_string()).collect();
                store(format!("redis+cluster://{}", places.join(",")))
            }
        };
        let tollgate = TollgateProcess::start(surroundings, &words)?;
        let place = Place { addr: tollgate.addr, password };
        Ok(Home { place, _tollgate: Some(tollgate), _redis: redis, _cluster: cluster })
    }
}

impl Home {
    fn of_others(addr: SocketAddr, redis: Option<Server>, cluster: Option<Cluster>) -> Self {
        Self { place: Place { addr, password: None }, _tollgate: None, _redis: redis, _cluster: cluster }
    }
}

/// Installs Tollgate's functions on a redis-server.
pub(crate) fn install(tollgate: &str, server: &Server) -> Result<(), Failure> {
    run(tollgate, &["redis", "install", &server.url()]).map(|_| ())
}

/// Makes a token for what clients of other limiters do, and puts its line into a file.
fn make_token(tollgate: &str, file: &str) -> Result<String, Failure> {
    let printed = run(tollgate, &["token", "--scopes", "check,read,reset", "--name", "limiter", "--file", file])?;
    Ok(printed.lines().next().unwrap_or_default().trim().to_owned())
}

/// Runs a command of `tollgate`; returns what it prints.
pub(crate) fn run(tollgate: &str, words: &[&str]) -> Result<String, Failure> {
    let output = Command::new(tollgate).args(words).output()?;
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout)?);
    }
    Err(format!("tollgate {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr)).into())
}
