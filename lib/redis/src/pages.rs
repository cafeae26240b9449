//! All keys of a database in bounded steps, of which a caller sees those that it reaches. On a cluster the nodes follow
//! each other; the cursor tells which one is next.

use redis::{Pipeline, Value};
use tollgate_kernel::StoreError;

use crate::connect::ConnectionFailure;
use crate::keys::KeyGuard;
use crate::link::Link;
use crate::store::Redis;

/// The most keys that a step asks for. A step of a cluster is a call for each slot.
const MAX_PAGE: usize = 250;
const MAX_CLUSTER_PAGE: usize = 100;
/// The longest name that a step returns. Callers have no longer ones.
const MAX_NAME: usize = 4_096;

impl Redis {
    /// Returns keys that a caller reaches, with their types, and the cursor to continue from: 0 at the end.
    pub async fn page(
        &self,
        db: u8,
        guard: &KeyGuard,
        cursor: u64,
        count: usize,
    ) -> Result<(u64, Vec<(Vec<u8>, String)>), StoreError> {
        let (next, keys) = self.names(db, cursor, count).await?;
        Ok((next, self.reached(db, guard, keys).await?))
    }

    /// Deletes keys that a caller reaches, from the cursor on, and returns the next cursor: 0 at the end.
    pub async fn delete_page(&self, db: u8, guard: &KeyGuard, cursor: u64) -> Result<u64, StoreError> {
        let (next, keys) = self.names(db, cursor, MAX_PAGE).await?;
        self.delete_reached(db, guard, keys).await?;
        Ok(next)
    }

    /// Returns the number of all keys of a database, whosever they are.
    pub async fn key_count(&self, db: u8) -> Result<u64, StoreError> {
        let mut count = 0;
        for link in self.nodes(db).await? {
            let mut pipeline = Pipeline::with_capacity(1);
            pipeline.cmd("DBSIZE");
            match self.query(&link, pipeline).await? {
                Value::Int(keys) => count += u64::try_from(keys).unwrap_or_default(),
                other => return Err(refused(other)),
            }
        }
        Ok(count)
    }

    async fn names(&self, db: u8, cursor: u64, count: usize) -> Result<(u64, Vec<Vec<u8>>), StoreError> {
        let nodes = self.nodes(db).await?;
        let each = nodes.len() as u64;
        let place = cursor % each.max(1);
        let Some(link) = nodes.get(place as usize) else {
            return Err(StoreError::Away { why: "the cluster has no nodes".into(), untouched: true });
        };
        let most = if self.inner.dispatcher.router.is_cluster() { MAX_CLUSTER_PAGE } else { MAX_PAGE };
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.cmd("SCAN").arg(cursor / each).arg("COUNT").arg(count.clamp(1, most));
        let (own, mut keys) = read_page(self.query(link, pipeline).await?)?;
        keys.retain(|key| key.len() <= MAX_NAME);
        let next = match own {
            0 if place + 1 < each => Some(place + 1),
            0 => Some(0),
            own => own.checked_mul(each).and_then(|next| next.checked_add(place)),
        };
        let next = next.ok_or_else(|| StoreError::Refused("expected a smaller cursor of the node".into()))?;
        Ok((next, keys))
    }

    /// Returns the nodes that hold keys, in an order that stays while the cluster does.
    pub(crate) async fn nodes(&self, db: u8) -> Result<Vec<Link>, StoreError> {
        let dispatcher = &self.inner.dispatcher;
        let deadline = dispatcher.deadline();
        let link = dispatcher.within(deadline, dispatcher.router.link(0, db)).await.ok().flatten();
        let link = link.ok_or_else(|| StoreError::Away {
            why: "no node of the cluster reported the slots in time".into(),
            untouched: true,
        })?;
        if !dispatcher.router.is_cluster() {
            return Ok(vec![link]);
        }
        let mut links = dispatcher.router.links();
        links.sort_by_key(|link| link.core.node.to_string());
        Ok(links)
    }

    /// Sends a command that may be sent any number of times to one node, and waits for its answer until the deadline.
    pub(crate) async fn query(&self, link: &Link, pipeline: Pipeline) -> Result<Value, StoreError> {
        let away = |why: String| StoreError::Away { why, untouched: false };
        if link.core.breaker.is_open() {
            return Err(away(format!("{} does not answer, and is probed", link.core.node)));
        }
        let dispatcher = &self.inner.dispatcher;
        let core = link.core.clone();
        // A connection that this opens lives in the runtime of the store.
        let asked = dispatcher.context.runtime.spawn(async move { core.query(&pipeline).await });
        let answer = dispatcher.within(dispatcher.deadline(), asked).await;
        let failed = |why: String| {
            link.failed();
            away(why)
        };
        let answers = match answer {
            Ok(Ok(Ok(answers))) => answers,
            Ok(Ok(Err(ConnectionFailure::Refused(why)))) => return Err(StoreError::Refused(why)),
            Ok(Ok(Err(ConnectionFailure::Away(why)))) => return Err(failed(why)),
            Ok(Err(_)) => return Err(failed("the runtime of the store has ended".into())),
            Err(_) => return Err(failed(format!("{}: no answer in time", link.core.node))),
        };
        link.core.breaker.success();
        Ok(answers.into_iter().next().unwrap_or(Value::Nil))
    }
}

fn read_page(value: Value) -> Result<(u64, Vec<Vec<u8>>), StoreError> {
    let Value::Array(parts) = &value else { return Err(refused(value)) };
    let [Value::BulkString(cursor), Value::Array(keys)] = parts.as_slice() else { return Err(refused(value)) };
    let cursor = std::str::from_utf8(cursor).ok().and_then(|cursor| cursor.parse().ok());
    let Some(cursor) = cursor else { return Err(refused(value)) };
    let keys = keys.iter().filter_map(|key| if let Value::BulkString(key) = key { Some(key.clone()) } else { None });
    Ok((cursor, keys.collect()))
}

fn refused(value: Value) -> StoreError {
    StoreError::Refused(match value {
        Value::ServerError(error) => crate::verdict::words(&error),
        other => format!("expected keys, found {other:?}"),
    })
}
