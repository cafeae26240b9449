//! The nodes of a cluster and their slots, as CLUSTER SLOTS reports them.

use std::sync::Arc;

use redis::{Pipeline, Value};

use crate::link::{Link, LinkContext, LinkCore};
use crate::slot::SLOTS;
use crate::url::RedisNode;

const NO_NODE: u16 = u16::MAX;

/// Which node owns which slot.
#[derive(Clone, Default)]
pub(crate) struct SlotMap {
    /// The index in `links` of each slot's node; empty until the slots are known.
    slots: Vec<u16>,
    pub(crate) links: Vec<Link>,
    /// Nodes without a link that can be queried for the slots.
    pub(crate) replicas: Vec<RedisNode>,
}

/// A range of slots: first, last, primary, replicas.
pub(crate) type SlotRange = (u16, u16, RedisNode, Vec<RedisNode>);

impl SlotMap {
    /// Creates a map from the ranges that a node reported; links to the same nodes are kept.
    pub(crate) fn new(context: &Arc<LinkContext>, ranges: Vec<SlotRange>, links: &[Link]) -> Self {
        let mut map = Self { slots: vec![NO_NODE; SLOTS], ..Self::default() };
        for (first, last, primary, replicas) in ranges {
            let known = map.links.iter().position(|link| link.core.node == primary);
            let place = known.unwrap_or_else(|| {
                let kept = links.iter().find(|link| link.core.node == primary).cloned();
                map.links.push(kept.unwrap_or_else(|| Link::new(context, primary)));
                map.links.len() - 1
            });
            for slot in map.slots.iter_mut().take(usize::from(last) + 1).skip(first.into()) {
                *slot = place as u16;
            }
            for replica in replicas {
                if !map.replicas.contains(&replica) {
                    map.replicas.push(replica);
                }
            }
        }
        map
    }

    pub(crate) fn link(&self, slot: u16) -> Option<Link> {
        let place = *self.slots.get(usize::from(slot))?;
        self.links.get(usize::from(place)).cloned()
    }

    pub(crate) fn link_to(&self, node: &RedisNode) -> Option<Link> {
        self.links.iter().find(|link| link.core.node == *node).cloned()
    }

    /// Returns the map with this link added and `slot` moved to it, or `None` if that changes nothing.
    pub(crate) fn with(&self, link: &Link, slot: Option<u16>) -> Option<Self> {
        let place = self.links.iter().position(|known| known.core.node == link.core.node);
        let held = slot.and_then(|slot| self.slots.get(usize::from(slot)));
        if let Some(place) = place
            && (slot.is_none() || held == Some(&(place as u16)))
        {
            return None;
        }
        let mut map = self.clone();
        if place.is_none() {
            map.links.push(link.clone());
        }
        let place = place.unwrap_or(map.links.len() - 1) as u16;
        if let Some(held) = slot.and_then(|slot| map.slots.get_mut(usize::from(slot))) {
            *held = place;
        }
        Some(map)
    }
}

/// Queries a node for the slots.
pub(crate) async fn query_slots(core: &LinkCore) -> Result<Vec<SlotRange>, String> {
    let mut pipeline = Pipeline::with_capacity(1);
    pipeline.cmd("CLUSTER").arg("SLOTS");
    match core.query(&pipeline).await.map_err(|failure| failure.to_string())?.first() {
        Some(Value::Array(ranges)) if !ranges.is_empty() => {
            let parsed: Option<Vec<SlotRange>> = ranges.iter().map(|range| parse(core, range)).collect();
            parsed.ok_or_else(|| "expected ranges of slots from CLUSTER SLOTS".into())
        }
        other => Err(format!("expected ranges of slots from CLUSTER SLOTS, found {other:?}")),
    }
}

fn parse(core: &LinkCore, range: &Value) -> Option<SlotRange> {
    let Value::Array(parts) = range else { return None };
    let [Value::Int(first), Value::Int(last), primary, replicas @ ..] = parts.as_slice() else { return None };
    let in_range = |slot: i64| u16::try_from(slot).ok().filter(|slot| usize::from(*slot) < SLOTS);
    let replicas = replicas.iter().filter_map(|replica| node(core, replica)).collect();
    Some((in_range(*first)?, in_range(*last)?, node(core, primary)?, replicas))
}

/// Parses a node as CLUSTER SLOTS reports it: host, port, id. A missing host is that of the node that was queried.
fn node(core: &LinkCore, node: &Value) -> Option<RedisNode> {
    let Value::Array(parts) = node else { return None };
    let [host, Value::Int(port), ..] = parts.as_slice() else { return None };
    let port = u16::try_from(*port).ok()?;
    let reported = match host {
        Value::BulkString(host) => std::str::from_utf8(host).ok().filter(|host| !host.is_empty() && *host != "?"),
        _ => None,
    };
    match (reported, &core.node) {
        (Some(host), _) => Some(core.context.settings.mapped(RedisNode::Tcp(host.into(), port))),
        (None, RedisNode::Tcp(queried, _)) => Some(RedisNode::Tcp(queried.clone(), port)),
        (None, RedisNode::Unix(_)) => None,
    }
}
