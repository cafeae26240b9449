//! The rolling limiter with modes over Redis, Valkey, a cluster of them or a Tollgate server.
//!
//! It calls the script `rolling` as clients of the original do, with the same keys and arguments, so it shares its state
//! with them. Times are this process's readings of the machine's clock, as in the original.

use std::fmt;
use std::sync::{Arc, LazyLock};

use tollgate_dialects::{RollingOptions, RollingResult};
use tollgate_kernel::{Clock, Cost, Decision, Micros, OnError, Policy, StoreError, Timestamp};
use tollgate_memory::MonotonicClock;
use tollgate_redis::{CustomScript, Redis, hash_tag, slot};

use crate::error::Error;
use crate::rolling::RollingLimiter;

/// The wait that a refusal by `on_error` deny reports: the store is tried again within that time.
const CLOSED_FOR: Micros = Micros::from_secs(1);

static SCRIPT: LazyLock<CustomScript> = LazyLock::new(|| {
    let script = tollgate_redis::lua::dialect_script("rolling");
    CustomScript::new(script.map(|script| script.text).unwrap_or_default())
});

/// A rolling limiter whose state many processes share, in Redis, Valkey, a cluster or a Tollgate server. Clones share their
/// connections. [`RollingLimiter`] is the limiter in one process.
///
/// On a cluster all keys of a call must be in one slot. If those of several limits are not, their names have the id in
/// braces: `mails:0:{alice}` and `mails:1:{alice}`.
///
/// ```
/// # async fn send() -> Result<(), Box<dyn std::error::Error>> {
/// use tollgate::redis::Redis;
/// use tollgate::{Micros, RollingLimit, RollingOptions, SharedRollingLimiter};
///
/// let store = Redis::builder("tollgate://127.0.0.1:7379").share(0.5).lazy()?;
/// let minute = RollingLimit::new(Micros::from_secs(60), 100);
/// let limiter = SharedRollingLimiter::over(&store, &RollingOptions::single(minute).namespace("mails"))?;
/// let result = limiter.attempt("alice", 20).await?;
/// println!("{} acknowledged by {}, {} remain", result.acknowledged, result.source.name(), result.actions_remaining);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SharedRollingLimiter {
    store: Redis,
    options: RollingOptions,
    policy: Policy,
    on_error: OnError,
    standin: RollingLimiter,
    clock: Arc<dyn Clock>,
}

impl SharedRollingLimiter {
    /// Creates a limiter with these options over a store.
    pub fn over(store: &Redis, options: &RollingOptions) -> Result<Self, Error> {
        Ok(Self {
            store: store.clone(),
            policy: options.policy()?,
            standin: RollingLimiter::memory(&options.scaled(store.share()))?,
            options: options.clone(),
            on_error: OnError::default(),
            clock: Arc::new(MonotonicClock::new()),
        })
    }

    /// Sets what decides while the store does not answer. The default is this process, by its share of each limit.
    #[must_use]
    pub fn on_error(self, on_error: OnError) -> Self {
        Self { on_error, ..self }
    }

    /// Sets the clock, whose [wall](Clock::wall) time is sent with each call. The default is the machine's clock.
    #[must_use]
    pub fn clock(self, clock: impl Clock + 'static) -> Self {
        Self { clock: Arc::new(clock), ..self }
    }

    /// Attempts `n` actions of `id`; `n` must be at least 1.
    pub async fn attempt(&self, id: impl AsRef<[u8]>, n: u64) -> Result<RollingResult, StoreError> {
        let id = id.as_ref();
        let cost = Cost::new(n).filter(|cost| cost.get() > 0).ok_or(StoreError::Cost(n))?;
        let keys = self.keys(id);
        keys.iter().try_for_each(|key| StoreError::check_key(key))?;
        let now = self.clock.wall();
        let args = self.options.args(&n.to_string(), &now.get().to_string());
        match self.store.run_script(&SCRIPT, &keys, &args).await {
            Ok(reply) => RollingResult::read(&reply).ok_or_else(|| {
                StoreError::Refused(format!(
                    "expected remaining, acknowledged and a wait from the script, found {reply:?}"
                ))
            }),
            Err(StoreError::Away { .. }) => self.stand_in(id, cost, now),
            Err(error) => Err(error),
        }
    }

    /// Returns the keys of an id as clients of the original name them; on a cluster with the id in braces, unless they are in
    /// one slot anyway.
    fn keys(&self, id: &[u8]) -> Vec<Vec<u8>> {
        if self.store.is_cluster() { keys_in_one_slot(&self.options, id) } else { self.options.keys(id) }
    }

    fn stand_in(&self, id: &[u8], cost: Cost, now: Timestamp) -> Result<RollingResult, StoreError> {
        let n = cost.get();
        let result = |decision: Decision| RollingResult::new(n, &decision, &decision.details(&self.policy));
        match self.on_error {
            OnError::Local => self.standin.stand_in(id, n),
            // The caller may do all of them, although nothing records it.
            OnError::Allow => Ok(RollingResult { acknowledged: n, ..result(Decision::open(&self.policy, n, now)) }),
            OnError::Deny => Ok(result(Decision::closed(CLOSED_FOR, now))),
        }
    }
}

/// Returns the keys of an id, with the id as their hash tag unless they are in one slot without it. An id in braces gets
/// one in any case, so that no id has the keys of another.
fn keys_in_one_slot(options: &RollingOptions, id: &[u8]) -> Vec<Vec<u8>> {
    let keys = options.keys(id);
    let are_apart = keys.windows(2).any(|two| slot(&two[0]) != slot(&two[1]));
    let is_in_braces = keys.len() > 1 && id.starts_with(b"{") && id.ends_with(b"}");
    if are_apart || is_in_braces { options.keys(&hash_tag(id)) } else { keys }
}

impl fmt::Debug for SharedRollingLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { store, options, on_error, .. } = self;
        f.debug_struct("SharedRollingLimiter")
            .field("store", store)
            .field("options", options)
            .field("on_error", on_error)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::{Micros, RollingLimit};

    #[test]
    fn on_a_cluster_no_two_ids_have_the_same_keys_and_those_of_one_are_in_one_slot() {
        let limit = |seconds| RollingLimit::new(Micros::from_secs(seconds), 5);
        let options = RollingOptions::list([limit(1), limit(60)]).namespace("mails");
        let ids = [
            "",
            "%",
            "alice",
            "{alice}",
            "{alice}:x",
            "x{alice}",
            "{a}{b}",
            "}",
            "{",
            "{}",
            "{%}",
            "}a{",
            "{%7Balice%7D}",
        ];
        let mut all = HashSet::new();
        for id in ids {
            let keys = keys_in_one_slot(&options, id.as_bytes());
            assert_eq!(slot(&keys[0]), slot(&keys[1]), "{id}");
            assert!(all.insert(keys), "{id}");
        }
        assert_eq!(keys_in_one_slot(&options, b"alice")[1], b"mails:1:{alice}");
        assert_eq!(keys_in_one_slot(&options, b"{alice}:x")[1], b"mails:1:{alice}:x");
    }
}
