//! The settings of a store, fixed once it is open.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::rustls::ClientConfig;

use crate::url::{RedisNode, RedisSecret, StoreUrl};

/// How the store calls the server, and how the deciding code is installed there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Packaging {
    /// A function library, called by FCALL. It is replicated and persists with the data. It requires Redis 7 or
    /// Valkey.
    Function,
    /// Scripts, called by EVALSHA. Every server supports them.
    Script,
    /// The commands of the Tollgate server, such as `TG.CHECK`. Nothing is loaded.
    Commands,
    /// `Commands` for `tollgate://`; otherwise `Function` where the server supports functions and lets us load the
    /// library, and `Script` elsewhere.
    #[default]
    Auto,
}

/// Translates an address that a cluster or sentinel announces into one that can be reached.
pub(crate) type AddressMapping = Arc<dyn Fn(&str, u16) -> (String, u16) + Send + Sync>;

pub(crate) struct RedisSettings {
    pub(crate) url: StoreUrl,
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(crate) mapping: Option<AddressMapping>,
    /// The password of the sentinels, not of the servers that they watch.
    pub(crate) sentinel_password: Option<RedisSecret>,
    /// The time limit of a whole decision.
    pub(crate) deadline: Duration,
    /// The time limit for opening a connection.
    pub(crate) connect: Duration,
    /// The time after which a connection that does not answer is closed.
    pub(crate) response: Duration,
    /// Not `Auto` if the URL determines the packaging.
    pub(crate) packaging: Packaging,
    /// The fraction of each limit that this process may grant by itself.
    pub(crate) share: f64,
    /// The memory limit, in bytes, of the embedded store that grants it.
    pub(crate) cap: usize,
    pub(crate) charge_then_refund: bool,
}

impl RedisSettings {
    /// Returns the address at which `node` can be reached.
    pub(crate) fn mapped(&self, node: RedisNode) -> RedisNode {
        match (&self.mapping, node) {
            (Some(mapping), RedisNode::Tcp(host, port)) => {
                let (host, port) = mapping(&host, port);
                RedisNode::Tcp(host, port)
            }
            (_, node) => node,
        }
    }
}

impl fmt::Debug for RedisSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSettings")
            .field("url", &self.url)
            .field("deadline", &self.deadline)
            .field("packaging", &self.packaging)
            .field("share", &self.share)
            .finish_non_exhaustive()
    }
}
