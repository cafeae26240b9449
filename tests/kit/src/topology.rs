//! What a cluster node knows of its cluster: `CLUSTER NODES`, read.

use crate::error::{Error, ErrorContext};
use crate::server::Server;
use crate::slots::SLOTS;

/// One line: a node as another, or itself, sees it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct NodeView {
    pub(crate) id: String,
    pub(crate) flags: String,
    /// The primary of a replica.
    pub(crate) replica_of: Option<String>,
    pub(crate) epoch: u64,
    connected: bool,
    /// Ranges of slots, both ends included.
    pub(crate) slots: Vec<(u16, u16)>,
}

impl NodeView {
    pub(crate) fn is(&self, flag: &str) -> bool {
        self.flags.split(',').any(|one| one == flag)
    }

    pub(crate) fn owns(&self, slot: u16) -> bool {
        self.is("master") && self.slots.iter().any(|&(first, last)| (first..=last).contains(&slot))
    }

    fn is_well(&self) -> bool {
        let ill = ["fail", "fail?", "handshake", "noaddr"];
        self.connected && !ill.iter().any(|flag| self.is(flag))
    }
}

/// The cluster as one node sees it.
#[derive(Clone, Debug)]
pub(crate) struct ClusterView(pub(crate) Vec<NodeView>);

impl ClusterView {
    /// Asks a node.
    pub(crate) fn of(server: &Server) -> Result<Self, Error> {
        let mut connection = server.attempt()?;
        let text: String = redis::cmd("CLUSTER").arg("NODES").query(&mut connection).doing("asking for nodes")?;
        Ok(Self(text.lines().filter_map(read).collect()))
    }

    /// The node that was asked.
    pub(crate) fn myself(&self) -> Option<&NodeView> {
        self.0.iter().find(|node| node.is("myself"))
    }

    /// Whether so many nodes are well, own all slots, and every owner of slots has a replica.
    pub(crate) fn is_healthy(&self, nodes: usize) -> bool {
        let owners = || self.0.iter().filter(|node| node.is("master") && !node.slots.is_empty());
        let owned: usize =
            owners().flat_map(|node| &node.slots).map(|(first, last)| usize::from(last - first) + 1).sum();
        let has_replica = |id: &str| self.0.iter().any(|node| node.replica_of.as_deref() == Some(id));
        self.0.len() == nodes
            && self.0.iter().all(NodeView::is_well)
            && owned == usize::from(SLOTS)
            && owners().all(|node| has_replica(&node.id))
    }

    /// Whether both tell the same of who follows whom and who owns what.
    pub(crate) fn agrees_with(&self, other: &Self) -> bool {
        let same = |one: &NodeView, two: &NodeView| (&one.replica_of, &one.slots) == (&two.replica_of, &two.slots);
        let told = |one: &NodeView| other.0.iter().any(|two| one.id == two.id && same(one, two));
        self.0.len() == other.0.len() && self.0.iter().all(told)
    }
}

/// `id address flags primary ping pong epoch link slot...`; slots on the move are in brackets.
fn read(line: &str) -> Option<NodeView> {
    let mut words = line.split_whitespace();
    let id = words.next()?.to_owned();
    let flags = words.nth(1)?.to_owned();
    let replica_of = words.next().filter(|&id| id != "-").map(str::to_owned);
    let epoch = words.nth(2)?.parse().ok()?;
    let connected = words.next()? == "connected";
    let slots = words.filter(|word| !word.starts_with('[')).filter_map(range).collect();
    Some(NodeView { id, flags, replica_of, epoch, connected, slots })
}

fn range(word: &str) -> Option<(u16, u16)> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    Some((first.parse().ok()?, last.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_primary_with_a_slot_on_the_move_and_a_replica() {
        let node = read("aa 127.0.0.1:1@2,host myself,master - 0 17 3 connected 0-9 12 [7->-bb]").unwrap();
        assert_eq!((node.id.as_str(), node.epoch, node.is("myself")), ("aa", 3, true));
        assert_eq!(node.slots, [(0, 9), (12, 12)]);
        assert!(node.owns(12) && !node.owns(10) && node.is_well());
        let node = read("bb 127.0.0.1:3@4 slave,fail? aa 0 17 3 connected").unwrap();
        assert_eq!(node.replica_of.as_deref(), Some("aa"));
        assert!(!node.is_well());
        assert_eq!(read("half a line"), None);
    }
}
