//! A cluster of six real servers: three primaries with a replica each.
//!
//! Nodes are named by their number, 0 to 5. At first 0, 1 and 2 are primaries; who is one later is asked
//! of the nodes themselves.

use std::time::{Duration, Instant};

use crate::builder::Builder;
use crate::error::{Error, ErrorContext};
use crate::server::{Server, field};
use crate::slots::{SLOTS, tag_for};
use crate::topology::ClusterView;
use crate::wait::until;

const PRIMARIES: u16 = 3;
const NODES: usize = 6;
/// How long nodes may take to know each other and be well.
const HEALTHY: Duration = Duration::from_secs(30);

/// Six servers that are one store.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Server>,
}

impl Cluster {
    /// Starts a cluster and waits until it is healthy.
    pub fn start() -> Result<Self, Error> {
        Self::start_with(&Server::builder())
    }

    /// The same with servers of this kind.
    pub fn start_with(builder: &Builder) -> Result<Self, Error> {
        let node = || builder.clone().cluster_node().start();
        let cluster = Self { nodes: (0..NODES).map(|_| node()).collect::<Result<_, _>>()? };
        cluster.introduce()?;
        cluster.wait_healthy()?;
        Ok(cluster)
    }

    /// The six servers, running or not.
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// One of them.
    pub fn node(&self, number: usize) -> Result<&Server, Error> {
        self.nodes.get(number).ok_or_else(|| no_such_node(number))
    }

    /// The same, to stop it or let it go on.
    pub fn node_mut(&mut self, number: usize) -> Result<&mut Server, Error> {
        self.nodes.get_mut(number).ok_or_else(|| no_such_node(number))
    }

    /// Where they listen, for clients.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Server::url).collect()
    }

    /// The number of the node that says it owns the slot. Of several, which can be while a dead primary
    /// comes back, the one that took it last.
    pub fn primary_of(&self, slot: u16) -> Result<usize, Error> {
        let claims = self.selves().filter(|(_, view)| view.myself().is_some_and(|node| node.owns(slot)));
        let latest = claims.max_by_key(|(_, view)| view.myself().map(|node| node.epoch));
        latest.map(|(number, _)| number).ok_or_else(|| Error::Unexpected(format!("no node owns slot {slot}")))
    }

    /// The numbers of the nodes that own slots.
    pub fn primaries(&self) -> Vec<usize> {
        let owns = |view: &ClusterView| view.myself().is_some_and(|node| node.is("master") && !node.slots.is_empty());
        self.selves().filter(|(_, view)| owns(view)).map(|(number, _)| number).collect()
    }

    /// Kills the primary of a slot as a crash would, and returns its number.
    pub fn kill_primary_of(&mut self, slot: u16) -> Result<usize, Error> {
        let number = self.primary_of(slot)?;
        self.node_mut(number)?.kill_hard()?;
        Ok(number)
    }

    /// Starts a node again. A primary that was replaced comes back as a replica.
    pub fn restart(&mut self, number: usize) -> Result<(), Error> {
        self.node_mut(number)?.restart()
    }

    /// Waits until some node takes a write to the slot, and returns how long that took.
    pub fn wait_until_writable(&self, slot: u16, timeout: Duration) -> Result<Duration, Error> {
        let started = Instant::now();
        let key = format!("tollgate-probe:{{{}}}", tag_for(slot));
        until(timeout, &format!("slot {slot} to be writable"), || Ok(self.write(slot, &key).ok()))?;
        Ok(started.elapsed())
    }

    /// Waits until all nodes agree on who owns what, all are well, and every primary has a replica that
    /// follows it.
    pub fn wait_healthy(&self) -> Result<(), Error> {
        until(HEALTHY, "the cluster to be healthy", || Ok(self.is_healthy().then_some(())))
    }

    /// Shows every key and the milliseconds it has left (-1: for ever), node by node, and returns how many
    /// there are. For a cluster at rest: keys of a slot on the move may be shown twice or not at all.
    pub fn scan_all(&self, mut see: impl FnMut(&[u8], i64)) -> Result<usize, Error> {
        let mut seen = 0;
        for number in self.primaries() {
            seen += self.node(number)?.scan_all(&mut see)?;
        }
        Ok(seen)
    }

    /// Every node that answers, and its view.
    fn selves(&self) -> impl Iterator<Item = (usize, ClusterView)> {
        self.nodes.iter().enumerate().filter_map(|(number, node)| Some((number, ClusterView::of(node).ok()?)))
    }

    /// Gives out the slots, lets the nodes meet, and makes the later three replicas.
    fn introduce(&self) -> Result<(), Error> {
        for (place, node) in (1_u16..).zip(&self.nodes) {
            let mut connection = node.connection()?;
            let mut epoch = redis::cmd("CLUSTER");
            epoch.arg("SET-CONFIG-EPOCH").arg(place).exec(&mut connection).doing("setting an epoch")?;
            if place <= PRIMARIES {
                let share = |nodes: u16| u32::from(SLOTS) * u32::from(nodes) / u32::from(PRIMARIES);
                let slots: Vec<u32> = (share(place - 1)..share(place)).collect();
                redis::cmd("CLUSTER").arg("ADDSLOTS").arg(slots).exec(&mut connection).doing("giving out slots")?;
            }
        }
        let mut first = self.node(0)?.connection()?;
        for node in self.nodes.iter().skip(1) {
            let mut meet = redis::cmd("CLUSTER");
            meet.arg("MEET").arg("127.0.0.1").arg(node.port()).exec(&mut first).doing("introducing a node")?;
        }
        until(HEALTHY, "the nodes to know each other", || Ok(self.all_have_met().then_some(())))?;
        let (primaries, replicas) = self.nodes.split_at(usize::from(PRIMARIES));
        for (primary, replica) in primaries.iter().zip(replicas) {
            let mut follow = redis::cmd("CLUSTER");
            follow.arg("REPLICATE").arg(id(primary)?).exec(&mut replica.connection()?).doing("making a replica")?;
        }
        Ok(())
    }

    fn all_have_met(&self) -> bool {
        let views: Vec<ClusterView> = self.selves().map(|(_, view)| view).collect();
        let met = |view: &ClusterView| view.0.len() == NODES && !view.0.iter().any(|node| node.is("handshake"));
        views.len() == NODES && views.iter().all(met)
    }

    fn is_healthy(&self) -> bool {
        let views: Vec<ClusterView> = self.selves().map(|(_, view)| view).collect();
        let Some(first) = views.first() else { return false };
        views.len() == NODES
            && views.iter().all(|view| view.is_healthy(NODES) && view.agrees_with(first))
            && self.nodes.iter().all(|node| is_well(node).unwrap_or(false))
    }

    fn write(&self, slot: u16, key: &str) -> Result<(), Error> {
        let mut connection = self.node(self.primary_of(slot)?)?.attempt()?;
        let mut set = redis::cmd("SET");
        set.arg(key).arg("").arg("PX").arg(1_000).exec(&mut connection).doing("writing a probe")?;
        redis::cmd("DEL").arg(key).exec(&mut connection).doing("removing a probe")
    }
}

/// The name a node has in its cluster.
pub(crate) fn id(node: &Server) -> Result<String, Error> {
    redis::cmd("CLUSTER").arg("MYID").query(&mut node.connection()?).doing("asking a node for its id")
}

/// Whether a node takes commands, and has the data if it is a replica.
fn is_well(node: &Server) -> Result<bool, Error> {
    let mut connection = node.attempt()?;
    let state: String = redis::cmd("CLUSTER").arg("INFO").query(&mut connection).doing("asking for the state")?;
    let role: String = redis::cmd("INFO").arg("replication").query(&mut connection).doing("asking for the role")?;
    let follows = field(&role, "role") == Some("master") || field(&role, "master_link_status") == Some("up");
    Ok(field(&state, "cluster_state") == Some("ok") && follows)
}

fn no_such_node(number: usize) -> Error {
    Error::Unexpected(format!("a cluster has nodes 0 to {}, not {number}", NODES - 1))
}
