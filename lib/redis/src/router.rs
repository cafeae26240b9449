//! Which server a key belongs to: the only one, the current master, or the node of its slot.
//!
//! Clusters are followed here and not by the redis crate's cluster client, because of the law of at most one
//! charge. That client (1.8.1, cluster_handling/async_connection/request.rs, `choose_response`) sends a whole
//! pipeline again if one answer in it is MOVED, ASK or TRYAGAIN, although the other calls ran; it sends a command
//! again after a lost connection (`RetryMethod::Reconnect`), although it may have run; and with `retries(0)` one
//! such answer loses all other answers of its pipeline. It also holds its lock while it queries an unresponsive
//! node for the slots. Here every node has its own link, with its own pipelines and breaker, so that a node that is
//! down affects only the keys that it owns. Speed is not the reason: single commands through that client with
//! `retries(0)` and pipelines through these links measured alike (64 callers, three primaries and the caller on two
//! cores: 58,000 decisions a second each, where the servers are the limit).

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::breaker::Breaker;
use crate::databases::Databases;
use crate::link::{Link, LinkContext, jittered};
use crate::topology::{SlotMap, SlotRange, query_slots};
use crate::url::{RedisDeployment, RedisNode};
use crate::verdict::RedirectAddress;

/// The minimum time between two queries for the slots.
const PACE: Duration = Duration::from_millis(100);
/// The pause after such a query, as a multiple of its duration: a map with many ranges takes long to read.
const PAUSE_FACTOR: u32 = 20;
/// How long the first node has to answer before others are queried: it may be the one that failed.
const HEAD_START: Duration = Duration::from_millis(50);
/// The number of other nodes that are queried at once.
const MAX_QUERIED: usize = 5;

/// The links to all servers.
pub(crate) enum Router {
    /// One server, or the current master behind sentinels.
    One(Box<Databases>),
    Cluster(Arc<Cluster>),
}

pub(crate) struct Cluster {
    context: Arc<LinkContext>,
    map: watch::Sender<Arc<SlotMap>>,
    /// Open if no node of the cluster can be found; closed by the task that refreshes the map.
    breaker: Breaker,
}

impl Router {
    pub(crate) fn new(context: &Arc<LinkContext>) -> Self {
        match context.settings.url.deployment {
            RedisDeployment::Cluster => Self::Cluster(Cluster::new(context)),
            // A parsed URL has at least one node. Sentinels are queried when a connection is opened.
            RedisDeployment::One | RedisDeployment::Sentinel(_) => {
                let node = context.settings.url.nodes.first().cloned();
                let node = node.unwrap_or(RedisNode::Tcp("127.0.0.1".into(), 6379));
                Self::One(Box::new(Databases::new(context, node)))
            }
        }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// Returns the link for a slot or a database; waits until it is known. The caller must limit the wait.
    pub(crate) async fn link(&self, slot: u16, db: u8) -> Option<Link> {
        match self {
            Self::One(databases) => Some(databases.link(db)),
            Self::Cluster(cluster) => cluster.link(slot).await,
        }
    }

    /// Returns the link to the address that the server of `from` redirected to, or `None` if this is not a cluster.
    pub(crate) fn redirected(&self, from: &Link, to: &RedirectAddress, moved: SlotMove) -> Option<Link> {
        match self {
            Self::One(_) => None,
            Self::Cluster(cluster) => Some(cluster.redirected(from, to, moved)),
        }
    }

    /// Returns the breaker that opens if no node of the cluster can be found.
    pub(crate) fn breaker(&self) -> Option<&Breaker> {
        match self {
            Self::One(_) => None,
            Self::Cluster(cluster) => Some(&cluster.breaker),
        }
    }

    pub(crate) fn links(&self) -> Vec<Link> {
        match self {
            Self::One(databases) => databases.opened(),
            Self::Cluster(cluster) => cluster.map.borrow().links.clone(),
        }
    }
}

/// Whether a slot has moved permanently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotMove {
    Temporary,
    Permanent,
}

impl Cluster {
    fn new(context: &Arc<LinkContext>) -> Arc<Self> {
        let map = watch::Sender::new(Arc::new(SlotMap::default()));
        let cluster = Arc::new(Self { context: context.clone(), map, breaker: Breaker::default() });
        context.failures.notify_one();
        context.runtime.spawn(follow(Arc::downgrade(&cluster), context.clone()));
        cluster
    }

    async fn link(&self, slot: u16) -> Option<Link> {
        if let Some(link) = self.map.borrow().link(slot) {
            return Some(link);
        }
        self.context.failures.notify_one();
        let mut changes = self.map.subscribe();
        loop {
            if let Some(link) = changes.borrow_and_update().link(slot) {
                return Some(link);
            }
            changes.changed().await.ok()?;
        }
    }

    fn redirected(&self, from: &Link, to: &RedirectAddress, moved: SlotMove) -> Link {
        let host = to.host.clone().or_else(|| match &from.core.node {
            RedisNode::Tcp(host, _) => Some(host.clone()),
            RedisNode::Unix(_) => None,
        });
        let announced = RedisNode::Tcp(host.clone().unwrap_or_default(), to.port);
        // An address without a host has the host of the link, which was translated already.
        let node = if to.host.is_some() { self.context.settings.mapped(announced) } else { announced };
        let known = self.map.borrow().link_to(&node);
        let link = known.unwrap_or_else(|| Link::new(&self.context, node));
        self.map.send_if_modified(|map| {
            let slot = (moved == SlotMove::Permanent).then_some(to.slot);
            let changed = map.with(&link, slot);
            changed.map(|changed| *map = Arc::new(changed)).is_some()
        });
        if moved == SlotMove::Permanent {
            self.context.failures.notify_one();
        }
        link
    }

    /// Queries nodes for the slots, first those that are linked and whose breaker is closed. The first answer
    /// counts.
    async fn refresh(&self) -> bool {
        let map = self.map.borrow().clone();
        let mut sound = map.links.iter().filter(|link| !link.core.breaker.is_open());
        let mut answer = timeout(HEAD_START, first(sound.by_ref().take(1).cloned())).await.ok().flatten();
        if answer.is_none() {
            answer = first(sound.take(MAX_QUERIED).cloned()).await;
        }
        if answer.is_none() {
            let others = map.replicas.iter().chain(&self.context.settings.url.nodes);
            // These links serve only this query and end with it.
            answer = first(others.take(MAX_QUERIED).map(|node| Link::new(&self.context, node.clone()))).await;
        }
        let Some(ranges) = answer else { return false };
        self.map.send_replace(Arc::new(SlotMap::new(&self.context, ranges, &map.links)));
        self.breaker.close();
        true
    }
}

/// Wakes the task that refreshes the map, so that it ends.
impl Drop for Cluster {
    fn drop(&mut self) {
        self.context.failures.notify_one();
    }
}

/// Returns the slots from the first link that answers.
async fn first(links: impl Iterator<Item = Link>) -> Option<Vec<SlotRange>> {
    let mut questions = JoinSet::new();
    for link in links {
        questions.spawn(async move { query_slots(&link.core).await });
    }
    while let Some(answer) = questions.join_next().await {
        if let Ok(Ok(ranges)) = answer {
            return Some(ranges);
        }
    }
    None
}

/// Keeps the map current: queries the slots after each notification of trouble, until a query succeeds.
async fn follow(cluster: Weak<Cluster>, context: Arc<LinkContext>) {
    loop {
        context.failures.notified().await;
        loop {
            let Some(cluster) = cluster.upgrade() else { return };
            let started = Instant::now();
            let refreshed = cluster.refresh().await;
            drop(cluster);
            sleep(jittered(PACE.max(started.elapsed() * PAUSE_FACTOR))).await;
            if refreshed {
                break;
            }
        }
    }
}
