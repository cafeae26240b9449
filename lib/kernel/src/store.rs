//! The interface between callers and the homes that decide: one object-safe trait for homes that know the answer at
//! once and for those that have to wait for it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::decision::{Decision, Detail};
use crate::policy::Policy;
use crate::request::{Cost, Request};
use crate::state::MAX_OTHER_LIMITS;
use crate::together::JointDecision;
use crate::units::{EXACT, Timestamp};

/// The longest key, in bytes.
pub const MAX_KEY: usize = 512;

/// A home that keeps state and decides. Laws: a decision and its charge are one atomic operation; all homes decide
/// alike; the state after a refusal outside uniform mode decides as before.
pub trait Store: Send + Sync {
    /// Decides `request` on `key` and charges what it grants.
    fn check<'a>(&'a self, policy: &'a Policy, key: &'a [u8], request: Request) -> Reply<'a, Decision>;

    /// As [`Store::check`], and returns each limit's part as well.
    fn check_full<'a>(
        &'a self,
        policy: &'a Policy,
        key: &'a [u8],
        request: Request,
    ) -> Reply<'a, (Decision, Vec<Detail>)>;

    /// Decides the same request on each of many keys, in order.
    fn check_many<'a>(&'a self, policy: &'a Policy, keys: &'a [&'a [u8]], request: Request)
    -> Reply<'a, Vec<Decision>>;

    /// Decides several keys under several policies together: all are charged or none is.
    fn check_all<'a>(&'a self, items: &'a [KeyCheck<'a>]) -> Reply<'a, JointDecision>;

    /// Forgets the key under the policy.
    fn reset<'a>(&'a self, policy: &'a Policy, key: &'a [u8]) -> Reply<'a, ()>;

    /// Gives back what is still held of `units` charged at `at`, and returns the units given back.
    fn refund<'a>(&'a self, policy: &'a Policy, key: &'a [u8], units: Cost, at: Timestamp) -> Reply<'a, u64>;
}

/// One of several checks that are decided together.
#[derive(Clone, Copy, Debug)]
pub struct KeyCheck<'a> {
    /// The policy.
    pub policy: &'a Policy,
    /// The key.
    pub key: &'a [u8],
    /// The number of units.
    pub cost: Cost,
}

/// An answer that is either known or pending. Either can be awaited; a known one costs no allocation and needs no
/// executor.
pub enum Reply<'a, T> {
    /// A known answer; `None` once it was taken.
    Now(Option<Result<T, StoreError>>),
    /// A pending answer.
    Later(Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>),
}

impl<'a, T> Reply<'a, T> {
    /// Creates a reply with a known answer.
    pub fn now(answer: Result<T, StoreError>) -> Self {
        Self::Now(Some(answer))
    }

    /// Creates a reply whose answer `future` produces.
    pub fn later(future: impl Future<Output = Result<T, StoreError>> + Send + 'a) -> Self {
        Self::Later(Box::pin(future))
    }

    /// Returns the answer if it is known, else the reply itself, to be awaited.
    pub fn ready(self) -> Result<Result<T, StoreError>, Self> {
        match self {
            Self::Now(Some(answer)) => Ok(answer),
            waiting => Err(waiting),
        }
    }
}

/// Stays pending forever once its answer was taken.
impl<T: Unpin> Future for Reply<'_, T> {
    type Output = Result<T, StoreError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Now(answer) => answer.take().map_or(Poll::Pending, Poll::Ready),
            Self::Later(future) => future.as_mut().poll(context),
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Reply<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now(answer) => f.debug_tuple("Now").field(answer).finish(),
            Self::Later(_) => f.write_str("Later"),
        }
    }
}

/// The reason why a home did not decide. Nothing was changed, unless the variant says otherwise.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// The key is not 1 to 512 bytes long. Holds its length.
    Key(usize),
    /// Two items have the same key and policy name. Holds the positions of both.
    Twice(usize, usize),
    /// There are more policy names than the home keeps apart. Holds the maximum.
    Names(usize),
    /// The key has no place for one more policy. Holds the number of other limits it remembers.
    Crowded(usize),
    /// The home has no memory for the state it would decide on.
    Full,
    /// The cost is 2^53 or more. Holds the cost.
    Cost(u64),
    /// Requests to different homes cannot be decided together.
    OtherHome,
    /// Two items have keys on different nodes of a cluster. Holds the positions of both.
    Slots(usize, usize),
    /// The home reported an error. Holds its message.
    Refused(String),
    /// The home did not answer. It may have carried out the request, unless `untouched`.
    Away {
        /// The reason, for people.
        why: String,
        /// Whether it is known that nothing was changed.
        untouched: bool,
    },
}

impl StoreError {
    /// Checks the length of a key.
    #[inline]
    pub fn check_key(key: &[u8]) -> Result<(), Self> {
        if key.is_empty() || key.len() > MAX_KEY { Err(Self::Key(key.len())) } else { Ok(()) }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(len) => write!(f, "expected a key of 1 to {MAX_KEY} bytes, found {len}; hash longer ones"),
            Self::Twice(first, second) => write!(
                f,
                "expected a key once under a policy, found it as items {} and {}; add up their costs",
                first + 1,
                second + 1
            ),
            Self::Names(most) => {
                write!(f, "expected at most {most} different policy names; callers should not choose them")
            }
            Self::Crowded(found) => write!(
                f,
                "expected at most {MAX_OTHER_LIMITS} other limits remembered for a key, found {found}; use fewer \
                 policies on a key or wait until they expire"
            ),
            Self::Full => {
                f.write_str("expected memory for what the key would remember, found none; raise the memory cap")
            }
            Self::Cost(cost) => write!(f, "expected a cost from 0 to {}, found {cost}", EXACT - 1),
            Self::Slots(first, second) => write!(
                f,
                "expected keys of one hash slot, found items {} and {} on different ones; on a cluster ask for \
                 charge-then-refund",
                first + 1,
                second + 1
            ),
            Self::Refused(why) => f.write_str(why),
            Self::Away { why, untouched: true } => write!(f, "the store cannot be reached: {why}"),
            Self::Away { why, untouched: false } => write!(f, "the store did not answer, and may have charged: {why}"),
            Self::OtherHome => f.write_str("expected questions to one store: make them with gates of one builder"),
        }
    }
}

impl std::error::Error for StoreError {}
