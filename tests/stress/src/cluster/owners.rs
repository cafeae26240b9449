//! Who has which slot, asked once of a cluster that is well.

use redis::Value;
use tollgate_kit::{Cluster, SLOTS};

use crate::Failure;

/// The number of each slot's primary.
pub(super) fn owners(cluster: &Cluster) -> Result<Vec<usize>, Failure> {
    let mut owners = vec![usize::MAX; SLOTS.into()];
    let told: Vec<Value> = redis::cmd("CLUSTER").arg("SLOTS").query(&mut cluster.node(0)?.connection()?)?;
    for range in &told {
        let (first, last, port) =
            read(range).ok_or_else(|| Failure(format!("expected a range of slots, found {range:?}")))?;
        let number = cluster.nodes().iter().position(|node| i64::from(node.port()) == port);
        let number = number.ok_or_else(|| Failure(format!("no node of ours has port {port}")))?;
        owners.iter_mut().take(last + 1).skip(first).for_each(|owner| *owner = number);
    }
    if owners.contains(&usize::MAX) {
        return Err(Failure("a slot that nobody owns".to_owned()));
    }
    Ok(owners)
}

/// First, last, and the port of the primary.
fn read(range: &Value) -> Option<(usize, usize, i64)> {
    let Value::Array(parts) = range else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = parts.as_slice() else { return None };
    let [_, Value::Int(port), ..] = primary.as_slice() else { return None };
    Some((usize::try_from(*first).ok()?, usize::try_from(*last).ok()?, *port))
}
