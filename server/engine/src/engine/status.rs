//! What front-ends read of the engine besides its answers: clocks, the state of the home and the journal, spans and the
//! audit log.

use tollgate_kernel::{Policy, Request, Source, Timestamp};
use tollgate_keyspace::{DialectCall, Keys, Times};
use tollgate_redis::Redis;
use tollgate_telemetry::audit::Audit;
use tollgate_telemetry::traces::Span;

use super::Engine;
use crate::home::Home;
use crate::ops::Ops;
use crate::persist::{JournalStatus, Unkept};
use crate::policies::Known;

/// The request that checks whether the store answers. No policy of a file may have this name.
const READY_KEY: &[u8] = b"tollgate:ready";
const READY_NAME: &str = "tollgate-ready";
const READY_POLICY: &str = "1000000/s gcra";

/// The statistics of a home.
#[derive(Clone, Copy, Debug)]
pub enum HomeStats {
    /// The embedded store.
    Embedded(tollgate_memory::Stats),
    /// A store in Redis.
    Redis(tollgate_redis::Stats),
}

impl HomeStats {
    /// Returns the statistics of the embedded store, `None` for another.
    pub fn embedded(self) -> Option<tollgate_memory::Stats> {
        match self {
            Self::Embedded(stats) => Some(stats),
            Self::Redis(_) => None,
        }
    }
}

impl Engine {
    /// Returns the time by the clock that decides.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the time by the machine's clock.
    pub fn wall(&self) -> Timestamp {
        self.clock.wall()
    }

    /// Returns the time by both clocks.
    pub fn times(&self) -> Times {
        Times::of(&*self.clock)
    }

    /// Returns the statistics of the home.
    pub fn home_stats(&self) -> HomeStats {
        match &self.home {
            Home::Embedded(embedded) => HomeStats::Embedded(embedded.stats()),
            Home::Redis(redis) => HomeStats::Redis(redis.stats()),
        }
    }

    /// Returns the store in Redis, if that is the home.
    pub fn redis(&self) -> Option<&Redis> {
        match &self.home {
            Home::Embedded(_) => None,
            Home::Redis(redis) => Some(redis),
        }
    }

    /// Returns whether the home answers without waiting.
    #[inline]
    pub fn answers_at_once(&self) -> bool {
        self.home.answers_at_once()
    }

    /// Decides a request of its own and returns whether the home itself decided it, not a stand-in.
    pub async fn home_decides(&self) -> bool {
        let Home::Redis(redis) = &self.home else { return true };
        let policy = READY_POLICY.parse::<Policy>().ok().and_then(|policy| policy.with_name(READY_NAME).ok());
        let Some(policy) = policy else { return false };
        let decided = self.home.store().check(&policy, READY_KEY, Request::ONE).await;
        decided.is_ok_and(|decision| decision.source == Source::Home) && redis.stats().open_breakers == 0
    }

    /// Returns the status of the journal, `None` if nothing is persisted.
    pub fn journal(&self) -> Option<JournalStatus> {
        self.home.binding().map(|binding| binding.status())
    }

    /// Returns whether decisions are made although they cannot be persisted.
    #[inline]
    pub fn is_away(&self) -> bool {
        self.home.is_away()
    }

    /// Waits until everything decided so far may be reported to callers.
    #[inline]
    pub async fn settled(&self) -> Result<(), Unkept> {
        self.home.settled().await
    }

    /// Persists what a plain command changed of the keys, which are locked.
    #[inline]
    pub fn keep_changes(&self, keys: &mut Keys) {
        self.home.changed(keys);
    }

    /// Persists a call of a dialect that was just decided on the keys, which are locked.
    #[inline]
    pub fn keep_call(&self, keys: &mut Keys, call: &DialectCall, now: Timestamp) {
        self.home.spoken(keys, call, now);
    }

    /// Returns whether a policy is what its name or text means now.
    #[inline]
    pub fn is_current(&self, known: &Known) -> bool {
        self.policies.is_current(known)
    }

    /// Returns the bytes that bans take.
    pub fn ban_bytes(&self) -> usize {
        self.bans.bytes()
    }

    /// Returns the number of bans that were not begun for lack of room.
    pub fn bans_without_room(&self) -> u64 {
        self.bans.without_room()
    }

    /// Returns the parts for operators, for metrics.
    pub fn ops(&self) -> &Ops {
        &self.ops
    }

    /// Returns the audit log.
    pub fn audit(&self) -> &Audit {
        &self.ops.audit
    }

    /// Begins the span of a request, if it is traced; `parent` is the caller's trace header.
    #[inline]
    pub fn trace<'a>(&self, parent: impl FnOnce() -> Option<&'a [u8]>) -> Option<Span> {
        self.ops.trace(parent)
    }

    /// Ends a span.
    pub fn end_trace(&self, span: Span) {
        self.ops.traced(span);
    }

    /// Returns what logs and traces show in place of a key.
    pub fn key_hash(&self, key: &[u8]) -> String {
        self.ops.hash(key)
    }

    /// Performs the tasks of every second.
    pub fn second(&self) {
        self.ops.second(self.clock.now());
    }
}
