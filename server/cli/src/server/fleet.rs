//! The nodes behind a URL: one server, or every primary of a cluster with its slots and its replicas.

use redis::Value;
use tollgate_redis::{RedisDeployment, RedisNode, slot};

use super::value::{field, items, text};
use super::{ServerConnection, ServerError, ServerTarget};

/// The last slot of a cluster.
const LAST_SLOT: u16 = tollgate_redis::SLOTS as u16 - 1;

/// The servers that a command addresses.
pub(crate) struct Fleet {
    /// Whether they report to be a cluster, or the URL says so.
    pub(crate) is_cluster: bool,
    /// One server, or the primaries of a cluster.
    pub(crate) primaries: Vec<FleetNode>,
    /// Whether the URL names a Tollgate server, or the server says that it is one.
    pub(crate) is_tollgate: bool,
    target: ServerTarget,
}

/// A server, with its slots and replicas.
pub(crate) struct FleetNode {
    pub(crate) connection: ServerConnection,
    host: RedisNode,
    /// The first and last slot of each range.
    pub(crate) slots: Vec<(u16, u16)>,
    replicas: Vec<RedisNode>,
}

impl Fleet {
    /// Connects to the server, or to every primary.
    pub(crate) fn open(target: &ServerTarget) -> Result<Self, ServerError> {
        let (fleet, away) = Self::open_some(target)?;
        away.into_iter().next().map_or(Ok(fleet), Err)
    }

    /// Connects to the primaries that can be reached, and returns why the others cannot. A server that reports to
    /// belong to a cluster is treated as one of its nodes, whatever the URL says.
    pub(crate) fn open_some(target: &ServerTarget) -> Result<(Self, Vec<ServerError>), ServerError> {
        let (mut connection, host) = first(target)?;
        // If INFO is not allowed, the form of the URL decides.
        let info = connection.query::<String>(&["INFO", "cluster"]).unwrap_or_default();
        let is_cluster = target.is_cluster() || field(&info, "cluster_enabled") == Some("1");
        let (primaries, mut away) = if is_cluster {
            let ranges = connection.ask(&["CLUSTER", "SLOTS"])?;
            let members = connection.query::<String>(&["CLUSTER", "NODES"]).unwrap_or_default();
            connect_primaries(target, &host, &ranges, &members)
        } else {
            (vec![FleetNode { connection, host, slots: vec![(0, LAST_SLOT)], replicas: Vec::new() }], Vec::new())
        };
        if primaries.is_empty() {
            let none =
                ServerError::Away { place: target.to_string(), why: "no node of the cluster has any slots".to_owned() };
            return Err(away.pop().unwrap_or(none));
        }
        Ok((Self { is_cluster, primaries, is_tollgate: target.url.tollgate, target: target.clone() }, away))
    }

    /// Checks that a server answers and accepts the login, and that it is a cluster if the URL says so.
    pub(crate) fn test_login(target: &ServerTarget) -> Result<(), ServerError> {
        let (mut connection, _) = first(target)?;
        if target.is_cluster() {
            connection.ask(&["CLUSTER", "SLOTS"])?;
        }
        Ok(())
    }

    /// Connects to all replicas as well.
    pub(crate) fn replicas(&self) -> Result<Vec<ServerConnection>, ServerError> {
        let hosts = self.primaries.iter().flat_map(|node| &node.replicas);
        hosts.map(|host| ServerConnection::open(&self.target, host)).collect()
    }

    /// Returns the index of the primary that has a key.
    pub(crate) fn place_of(&self, key: &[u8]) -> usize {
        let slot = slot(key);
        let has = |node: &FleetNode| node.slots.iter().any(|&(first, last)| (first..=last).contains(&slot));
        self.primaries.iter().position(has).unwrap_or_default()
    }
}

impl FleetNode {
    /// Returns its address.
    pub(crate) fn name(&self) -> String {
        self.host.to_string()
    }

    /// Returns the number of its replicas, as the cluster reports it.
    pub(crate) fn replica_count(&self) -> usize {
        self.replicas.len()
    }

    /// Opens another connection to it.
    pub(crate) fn open_connection(&self, fleet: &Fleet) -> Result<ServerConnection, ServerError> {
        ServerConnection::open(&fleet.target, &self.host)
    }
}

/// Connects to the first host that answers; behind sentinels, to the master they name.
fn first(target: &ServerTarget) -> Result<(ServerConnection, RedisNode), ServerError> {
    let mut last = ServerError::Url("a host");
    for host in &target.url.nodes {
        let opened = match &target.url.deployment {
            RedisDeployment::Sentinel(master) => master_of(target, host, master),
            RedisDeployment::One | RedisDeployment::Cluster => Ok(host.clone()),
        };
        match opened.and_then(|host| Ok((ServerConnection::open(target, &host)?, host))) {
            Ok(found) => return Ok(found),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn master_of(target: &ServerTarget, sentinel: &RedisNode, master: &str) -> Result<RedisNode, ServerError> {
    let mut connection = ServerConnection::connect(target, sentinel)?;
    let answer = connection.ask(&["SENTINEL", "get-master-addr-by-name", master])?;
    let address: Option<Vec<String>> = items(&answer).iter().map(text).collect();
    let unknown = || ServerError::Unknown(master.to_owned());
    match address.as_deref() {
        Some([host, port]) => Ok(RedisNode::Tcp(host.clone(), port.parse().map_err(|_| unknown())?)),
        _ => Err(unknown()),
    }
}

/// Connects to the primaries that CLUSTER SLOTS lists. It omits replicas that have not reported yet, so those are taken
/// from CLUSTER NODES.
fn connect_primaries(
    target: &ServerTarget,
    asked: &RedisNode,
    ranges: &Value,
    members: &str,
) -> (Vec<FleetNode>, Vec<ServerError>) {
    let (mut nodes, mut away): (Vec<FleetNode>, Vec<ServerError>) = (Vec::new(), Vec::new());
    for range in items(ranges) {
        let Some((slots, primary, id)) = parse(asked, range) else { continue };
        if let Some(node) = nodes.iter_mut().find(|node| node.host == primary) {
            node.slots.push(slots);
            continue;
        }
        match ServerConnection::open(target, &primary) {
            Ok(connection) => {
                let replicas = replicas_of(members, &id, target.tls.is_some());
                nodes.push(FleetNode { connection, host: primary, slots: vec![slots], replicas });
            }
            Err(error) => away.push(error),
        }
    }
    (nodes, away)
}

/// Parses the first and last slot, the primary and its id.
fn parse(asked: &RedisNode, range: &Value) -> Option<((u16, u16), RedisNode, String)> {
    let [Value::Int(first), Value::Int(last), primary, ..] = items(range) else { return None };
    let slots = (u16::try_from(*first).ok()?, u16::try_from(*last).ok()?);
    Some((slots, host_of(asked, primary)?, items(primary).get(2).and_then(text)?))
}

/// Returns the replicas that follow a primary and are not known to have failed. A line of CLUSTER NODES is `id
/// host:port@bus[,name] flags primary …`.
fn replicas_of(members: &str, primary: &str, by_name: bool) -> Vec<RedisNode> {
    let replica = |line: &str| {
        let mut words = line.split(' ');
        let (_, address, flags, follows) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let well = flags.split(',').all(|flag| !["fail", "handshake", "noaddr"].contains(&flag));
        let (host, port) = address.split('@').next()?.rsplit_once(':')?;
        let name = address.split(',').nth(1).filter(|name| by_name && !name.is_empty());
        (well && follows == primary).then_some(RedisNode::Tcp(name.unwrap_or(host).to_owned(), port.parse().ok()?))
    };
    members.lines().filter_map(replica).collect()
}

/// Parses a node as reported: host, port, id. Without a host it is the one that was asked.
fn host_of(asked: &RedisNode, reported: &Value) -> Option<RedisNode> {
    let [host, Value::Int(port), ..] = items(reported) else { return None };
    let port = u16::try_from(*port).ok()?;
    match (text(host).filter(|host| !host.is_empty() && host != "?"), asked) {
        (Some(host), _) => Some(RedisNode::Tcp(host, port)),
        (None, RedisNode::Tcp(asked, _)) => Some(RedisNode::Tcp(asked.clone(), port)),
        (None, RedisNode::Unix(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_those_that_follow_and_have_not_failed() {
        let members = "\
a 10.0.0.1:6379@16379,one myself,master - 0 0 1 connected 0-16383
b 10.0.0.2:6379@16379,two slave a 0 0 1 connected
c 10.0.0.3:6379@16379 slave,fail a 0 0 1 disconnected
d 10.0.0.4:6379@16379 slave,fail? a 0 0 1 connected
e 10.0.0.5:6379@16379 slave z 0 0 1 connected
";
        let tcp = |host: &str| RedisNode::Tcp(host.to_owned(), 6379);
        assert_eq!(replicas_of(members, "a", false), [tcp("10.0.0.2"), tcp("10.0.0.4")]);
        assert_eq!(replicas_of(members, "a", true), [tcp("two"), tcp("10.0.0.4")]);
    }
}
