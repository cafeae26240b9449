//! The rolling limiter with modes, with its own option names (interval, maxInInterval, minDifference, buckets, mode,
//! namespace and limits) and its own results.

use tollgate_dialects::{RollingOptions, RollingResult};
#[cfg(feature = "redis")]
use tollgate_kernel::Source;
use tollgate_kernel::{Cell, Cost, MAX_KEY, Request, StoreError, decide_with};
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
    /// The lengths of what the original's keys have before an empty id: the shortest and the longest.
    before: (usize, usize),
}

impl RollingLimiter {
    /// Creates a limiter with these options over its own store of at most 64 MiB.
    pub fn memory(options: &RollingOptions) -> Result<Self, Error> {
        Self::over(&Memory::new(DEFAULT_CAP), options)
    }

    /// Creates a limiter with these options over a store that may have other users.
    pub fn over(memory: &Memory, options: &RollingOptions) -> Result<Self, Error> {
        let prepared = memory.prepare(&options.policy()?.with_name("rolling")?)?;
        let lengths = || options.keys(b"").into_iter().map(|key| key.len());
        let before = (lengths().min().unwrap_or_default(), lengths().max().unwrap_or_default());
        Ok(Self { memory: memory.clone(), prepared, namespace: options.given_namespace().to_vec(), before })
    }

    /// Attempts `n` actions of `id`; `n` must be at least 1. The keys that the original makes of namespace, index and id must
    /// be 1 to 512 bytes long, as those of every home.
    pub fn attempt(&self, id: impl AsRef<[u8]>, n: u64) -> Result<RollingResult, StoreError> {
        let cost = Cost::new(n).filter(|cost| cost.get() > 0).ok_or(StoreError::Cost(n))?;
        let (policy, request) = (self.prepared.policy(), Request::cost(cost).wait_for(n));
        let id = id.as_ref();
        self.check_id(id)?;
        let key = [&self.namespace[..], b":", id].concat();
        self.memory.act(&self.prepared, &key, |cells: &mut [Cell], t| {
            let mut details = Vec::with_capacity(cells.len());
            let decision = decide_with(policy, cells, t, &request, |detail| details.push(detail));
            RollingResult::new(n, &decision, &details)
        })
    }

    fn check_id(&self, id: &[u8]) -> Result<(), StoreError> {
        let (shortest, longest) = self.before;
        // A colon is between the parts that are not empty.
        let len = |before: usize| before + id.len() + usize::from(before > 0 && !id.is_empty());
        let wrong = [len(shortest), len(longest)].into_iter().find(|len| !(1..=MAX_KEY).contains(len));
        wrong.map_or(Ok(()), |len| Err(StoreError::Key(len)))
    }

    /// Attempts actions in the place of a store that does not answer.
    #[cfg(feature = "redis")]
    pub(crate) fn stand_in(&self, id: &[u8], n: u64) -> Result<RollingResult, StoreError> {
        self.attempt(id, n).map(|result| RollingResult { source: Source::Local, ..result })
    }
}
