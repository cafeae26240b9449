//! What front-ends read of the engine besides its answers: clocks, the state of the home and the journal, spans and the
//! audit log.

use std::sync::Arc;

use tollgate_kernel::{Policy, Request, Source, Store, Timestamp};
use tollgate_keyspace::ClockReadings;
use tollgate_telemetry::audit::Audit;
use tollgate_telemetry::traces::RequestSpan;

use super::Engine;
use crate::counts::{LabelCounts, LimitCount};
use crate::home::Home;
use crate::ops::Ops;
use crate::persist::{JournalStatus, PersistFailure};
use crate::policies::EnginePolicy;

/// The request that checks whether the store answers. No policy of a file may have this name.
const READY_KEY: &[u8] = b"tollgate:ready";
const READY_NAME: &str = "tollgate-ready";
const READY_POLICY: &str = "1000000/s gcra";

/// The statistics of a home.
#[derive(Clone, Copy, Debug)]
pub enum HomeStats {
    /// The embedded store.
    Embedded(tollgate_memory::MemoryStats),
    /// A store in Redis.
    Redis(tollgate_redis::RedisStats),
}

impl HomeStats {
    /// Returns the statistics of the embedded store, `None` for another.
    pub fn embedded(self) -> Option<tollgate_memory::MemoryStats> {
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
    pub fn times(&self) -> ClockReadings {
        ClockReadings::of(&*self.clock)
    }

    /// Returns the statistics of the home.
    pub fn home_stats(&self) -> HomeStats {
        match &self.home {
            Home::Embedded(embedded) => HomeStats::Embedded(embedded.stats()),
            Home::Redis(store) => HomeStats::Redis(store.redis.stats()),
        }
    }

    /// Calls `each` with the counters of every label of policies and of its limits; the shared label comes last.
    pub fn each_count(&self, each: impl FnMut(&LabelCounts, &[Arc<LimitCount>])) {
        self.counts.each(each);
    }

    /// Returns whether the home answers without waiting.
    #[inline]
    pub fn answers_at_once(&self) -> bool {
        self.home.answers_at_once()
    }

    /// Decides a request of its own and returns whether the home itself decided it, not a stand-in.
    pub async fn home_decides(&self) -> bool {
        let Home::Redis(store) = &self.home else { return true };
        let redis = &store.redis;
        let policy = READY_POLICY.parse::<Policy>().ok().and_then(|policy| policy.with_name(READY_NAME).ok());
        let Some(policy) = policy else { return false };
        let decided = redis.check(&policy, READY_KEY, Request::ONE).await;
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
    pub async fn settled(&self) -> Result<(), PersistFailure> {
        self.home.settled().await
    }

    /// Returns whether a policy is what its name or text means now.
    #[inline]
    pub fn is_current(&self, known: &EnginePolicy) -> bool {
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
    pub fn trace<'a>(&self, parent: impl FnOnce() -> Option<&'a [u8]>) -> Option<RequestSpan> {
        self.ops.trace(parent)
    }

    /// Ends a span.
    pub fn end_trace(&self, span: RequestSpan) {
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
