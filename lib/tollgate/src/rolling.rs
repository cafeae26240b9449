//! The rolling limiter with modes, with its own option names (interval, maxInInterval, minDifference, buckets, mode,
//! namespace and limits) and its own results.

use tollgate_dialects::{RollingOptions, RollingResult};
#[cfg(feature = "redis")]
use tollgate_kernel::Source;
use tollgate_kernel::{Cell, Cost, Request, StoreError, decide_with};
use tollgate_memory::{DEFAULT_CAP, Memory, MemoryPolicy};

use crate::error::Error;

/// A rolling limiter over an embedded store. Clones share their state. With the feature `redis`, `SharedRollingLimiter` is
/// the same over Redis and a Tollgate server.
///
/// ```
/// use tollgate::{Micros, Mode, RollingLimit, RollingLimiter, RollingOptions};
/// let minute = RollingLimit::new(Micros::from_secs(60), 100).min_difference(Micros::new(0)).buckets(10_000);
/// let hour = RollingLimit::new(Micros::from_secs(3_600), 1_000);
/// let limiter = RollingLimiter::memory(&RollingOptions::list([hour, minute]).namespace("mails").mode(Mode::Nary))?;
/// let result = limiter.attempt("alice", 120)?;
/// assert_eq!((result.acknowledged, result.actions_remaining), (100, 0));
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RollingLimiter {
    memory: Memory,
    prepared: MemoryPolicy,
    namespace: Vec<u8>,
}

impl RollingLimiter {
    /// Creates a limiter with these options over its own store of at most 64 MiB.
    pub fn memory(options: &RollingOptions) -> Result<Self, Error> {
        Self::over(&Memory::new(DEFAULT_CAP), options)
    }

    /// Creates a limiter with these options over a store that may have other users.
    pub fn over(memory: &Memory, options: &RollingOptions) -> Result<Self, Error> {
        let prepared = memory.prepare(&options.policy()?.with_name("rolling")?)?;
        Ok(Self { memory: memory.clone(), prepared, namespace: options.given_namespace().to_vec() })
    }

    /// Attempts `n` actions of `id`; `n` must be at least 1.
    pub fn attempt(&self, id: impl AsRef<[u8]>, n: u64) -> Result<RollingResult, StoreError> {
        let cost = Cost::new(n).filter(|cost| cost.get() > 0).ok_or(StoreError::Cost(n))?;
        let (policy, request) = (self.prepared.policy(), Request::cost(cost).wait_for(n));
        let key = [&self.namespace[..], b":", id.as_ref()].concat();
        self.memory.act(&self.prepared, &key, |cells: &mut [Cell], t| {
            let mut details = Vec::with_capacity(cells.len());
            let decision = decide_with(policy, cells, t, &request, |detail| details.push(detail));
            RollingResult::new(n, &decision, &details)
        })
    }

    /// Attempts actions in the place of a store that does not answer.
    #[cfg(feature = "redis")]
    pub(crate) fn stand_in(&self, id: &[u8], n: u64) -> Result<RollingResult, StoreError> {
        self.attempt(id, n).map(|result| RollingResult { source: Source::Local, ..result })
    }
}
