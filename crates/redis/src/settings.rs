//! What a store was told: fixed once it is open.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::rustls::ClientConfig;

use crate::url::{Node, Place, Secret};

/// How the server is asked, and how what decides gets into it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Packaging {
    /// A function library, called by FCALL. It is replicated and persists with the data. Redis 7 and
    /// Valkey know it.
    Function,
    /// Scripts, called by EVALSHA. Every server knows them.
    Script,
    /// Commands that the server has by itself, `TG.CHECK` and its kin: the Tollgate server's. Nothing is
    /// loaded.
    Commands,
    /// Commands of `tollgate://`; else functions where the server knows them and lets us load ours, else
    /// scripts.
    #[default]
    Auto,
}

/// Turns an address that a cluster or sentinel announces into one that can be reached.
pub(crate) type Mapping = Arc<dyn Fn(&str, u16) -> (String, u16) + Send + Sync>;

pub(crate) struct Settings {
    pub(crate) place: Place,
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(crate) mapping: Option<Mapping>,
    /// Of the sentinels, not of the servers they watch.
    pub(crate) sentinel_password: Option<Secret>,
    /// Of a decision, all of it.
    pub(crate) deadline: Duration,
    /// Of opening a connection.
    pub(crate) connect: Duration,
    /// After which a silent connection is given up.
    pub(crate) response: Duration,
    /// `Auto` is settled already if the URL does.
    pub(crate) packaging: Packaging,
    /// The part of each limit this process may grant by itself.
    pub(crate) share: f64,
    /// Bytes of the store that does so.
    pub(crate) cap: usize,
    pub(crate) charge_then_refund: bool,
}

impl Settings {
    /// The address at which `node` can be reached.
    pub(crate) fn mapped(&self, node: Node) -> Node {
        match (&self.mapping, node) {
            (Some(mapping), Node::Tcp(host, port)) => {
                let (host, port) = mapping(&host, port);
                Node::Tcp(host, port)
            }
            (_, node) => node,
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("place", &self.place)
            .field("deadline", &self.deadline)
            .field("packaging", &self.packaging)
            .field("share", &self.share)
            .finish_non_exhaustive()
    }
}
