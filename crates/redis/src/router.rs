//! Which server a key belongs to: the only one, the master of the moment, or the node of its slot.
//!
//! Clusters are followed here and not by the redis crate's cluster client, because of the law of at most one
//! charge. That client (1.8.1, cluster_handling/async_connection/request.rs, `choose_response`) sends a whole
//! pipeline again if one answer in it is MOVED, ASK or TRYAGAIN, though the others ran; it sends a command
//! again after a lost connection (`RetryMethod::Reconnect`), though it may have run; and with `retries(0)`
//! one such answer loses all other answers of its pipeline. It also holds its lock while it asks a silent
//! node for the slots. Here every node has a link of its own, with its own pipelines and breaker, so that a
//! node that is down costs only the keys that live there. It is not about speed: single commands through
//! that client with `retries(0)` and pipelines through these links measured alike (64 callers, three
//! primaries and the caller on two cores: 58,000 decisions a second each, where the servers are the limit).

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::breaker::Breaker;
use crate::link::{Link, Shared, jittered};
use crate::topology::{Map, Range, ask_slots};
use crate::url::{Form, Node};
use crate::verdict::Place;

/// The least time between two questions for the slots.
const PACE: Duration = Duration::from_millis(100);
/// The least share of the time that is not spent on such questions: a map in many pieces takes long to read.
const REST: u32 = 20;
/// How long one node is waited for before others are asked: it may be the one that is gone.
const HEAD_START: Duration = Duration::from_millis(50);
/// How many others are asked at once.
const ASKED: usize = 5;

/// The ways to all servers.
pub(crate) enum Router {
    /// One server, or the master of the moment behind sentinels.
    One(Link),
    Cluster(Arc<Cluster>),
}

pub(crate) struct Cluster {
    shared: Arc<Shared>,
    map: watch::Sender<Arc<Map>>,
    /// Of finding the nodes at all; closed by the task that does.
    breaker: Breaker,
}

impl Router {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        match shared.settings.place.form {
            Form::Cluster => Self::Cluster(Cluster::new(shared)),
            // There is at least one node in a place; sentinels are asked when a connection is opened.
            Form::One | Form::Sentinel(_) => {
                let node = shared.settings.place.nodes.first().cloned();
                Self::One(Link::new(shared, node.unwrap_or(Node::Tcp("127.0.0.1".into(), 6379))))
            }
        }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// The link for a slot, waiting until it is known. The caller must not wait for ever.
    pub(crate) async fn link(&self, slot: u16) -> Option<Link> {
        match self {
            Self::One(link) => Some(link.clone()),
            Self::Cluster(cluster) => cluster.link(slot).await,
        }
    }

    /// The link to where the server of `from` sent us; nothing if this is no cluster.
    pub(crate) fn redirected(&self, from: &Link, to: &Place, moved: Moved) -> Option<Link> {
        match self {
            Self::One(_) => None,
            Self::Cluster(cluster) => Some(cluster.redirected(from, to, moved)),
        }
    }

    /// The breaker of finding the nodes.
    pub(crate) fn breaker(&self) -> Option<&Breaker> {
        match self {
            Self::One(_) => None,
            Self::Cluster(cluster) => Some(&cluster.breaker),
        }
    }

    pub(crate) fn links(&self) -> Vec<Link> {
        match self {
            Self::One(link) => vec![link.clone()],
            Self::Cluster(cluster) => cluster.map.borrow().links.clone(),
        }
    }
}

/// Whether a slot has moved for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    Now,
    ForGood,
}

impl Cluster {
    fn new(shared: &Arc<Shared>) -> Arc<Self> {
        let map = watch::Sender::new(Arc::new(Map::default()));
        let cluster = Arc::new(Self { shared: shared.clone(), map, breaker: Breaker::default() });
        shared.trouble.notify_one();
        shared.runtime.spawn(follow(Arc::downgrade(&cluster), shared.clone()));
        cluster
    }

    async fn link(&self, slot: u16) -> Option<Link> {
        if let Some(link) = self.map.borrow().link(slot) {
            return Some(link);
        }
        self.shared.trouble.notify_one();
        let mut changes = self.map.subscribe();
        loop {
            if let Some(link) = changes.borrow_and_update().link(slot) {
                return Some(link);
            }
            changes.changed().await.ok()?;
        }
    }

    fn redirected(&self, from: &Link, to: &Place, moved: Moved) -> Link {
        let host = to.host.clone().or_else(|| match &from.core.node {
            Node::Tcp(host, _) => Some(host.clone()),
            Node::Unix(_) => None,
        });
        let announced = Node::Tcp(host.clone().unwrap_or_default(), to.port);
        // A node that names no host is where we asked: its address was mapped already.
        let node = if to.host.is_some() { self.shared.settings.mapped(announced) } else { announced };
        let known = self.map.borrow().link_to(&node);
        let link = known.unwrap_or_else(|| Link::new(&self.shared, node));
        self.map.send_if_modified(|map| {
            let slot = (moved == Moved::ForGood).then_some(to.slot);
            let changed = map.with(&link, slot);
            changed.map(|changed| *map = Arc::new(changed)).is_some()
        });
        if moved == Moved::ForGood {
            self.shared.trouble.notify_one();
        }
        link
    }

    /// Asks nodes for the slots, at first those that are linked and sound; the first answer is taken.
    async fn refresh(&self) -> bool {
        let map = self.map.borrow().clone();
        let mut sound = map.links.iter().filter(|link| !link.core.breaker.is_open());
        let mut answer = timeout(HEAD_START, first(sound.by_ref().take(1).cloned())).await.ok().flatten();
        if answer.is_none() {
            answer = first(sound.take(ASKED).cloned()).await;
        }
        if answer.is_none() {
            let others = map.replicas.iter().chain(&self.shared.settings.place.nodes);
            // Links only for this question: they end with it.
            answer = first(others.take(ASKED).map(|node| Link::new(&self.shared, node.clone()))).await;
        }
        let Some(ranges) = answer else { return false };
        self.map.send_replace(Arc::new(Map::new(&self.shared, ranges, &map.links)));
        self.breaker.close();
        true
    }
}

/// Wakes the task that keeps the map, so that it sees there is none to keep.
impl Drop for Cluster {
    fn drop(&mut self) {
        self.shared.trouble.notify_one();
    }
}

/// The first that tells the slots.
async fn first(links: impl Iterator<Item = Link>) -> Option<Vec<Range>> {
    let mut questions = JoinSet::new();
    for link in links {
        questions.spawn(async move { ask_slots(&link.core).await });
    }
    while let Some(answer) = questions.join_next().await {
        if let Ok(Ok(ranges)) = answer {
            return Some(ranges);
        }
    }
    None
}

/// Keeps the map right: asks for the slots when somebody was in trouble, until it is told.
async fn follow(cluster: Weak<Cluster>, shared: Arc<Shared>) {
    loop {
        shared.trouble.notified().await;
        loop {
            let Some(cluster) = cluster.upgrade() else { return };
            let asked = Instant::now();
            let refreshed = cluster.refresh().await;
            drop(cluster);
            sleep(jittered(PACE.max(asked.elapsed() * REST))).await;
            if refreshed {
                break;
            }
        }
    }
}
