//! The store as its callers see it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tollgate_kernel::{Cost, Decision, Detail, Policy, Request, StoreError, Timestamp};

use crate::builder::RedisBuilder;
use crate::connect::ConnectionFailure;
use crate::databases::DATABASES;
use crate::dispatcher::CallDispatcher;
use crate::error::RedisOpenError;
use crate::link::LinkContext;
use crate::prepared::{RedisPolicy, RedisPolicyCache, ReplyDetail};
use crate::reply;
use crate::router::Router;
use crate::settings::{Packaging, RedisSettings};
use crate::standin::StandIn;
use crate::stats::{Counters, RedisStats};
use crate::url::RedisDeployment;

/// The key of calls that only check whether the server permits an operation.
const UNUSED_KEY: &[u8] = b"tollgate--unused";

/// A store in Redis, in Valkey or in a Tollgate server, shared by all processes that use that server. Cloning is
/// cheap; clones share everything.
///
/// A Tollgate server that decides without its own store reports this, and the decision keeps that `source`.
///
/// The deadline applies to a whole call, so `check_many` with thousands of keys needs a longer one than `check`.
/// Refund only what the server charged: decisions whose `source` is `Home`.
#[derive(Clone)]
pub struct Redis {
    pub(crate) inner: Arc<RedisInner>,
}

pub(crate) struct RedisInner {
    pub(crate) dispatcher: CallDispatcher,
    pub(crate) policies: RedisPolicyCache,
    pub(crate) standin: StandIn,
}

impl Redis {
    /// Returns a builder for a store at `url`; see [`RedisBuilder`].
    pub fn builder(url: &str) -> RedisBuilder {
        RedisBuilder::new(url)
    }

    /// Returns counts of what happened since the store was opened.
    pub fn stats(&self) -> RedisStats {
        let open = self.inner.dispatcher.router.links().iter().filter(|link| link.core.breaker.is_open()).count();
        let lost = self.inner.dispatcher.router.breaker().is_some_and(|breaker| breaker.is_open());
        self.inner.dispatcher.context.counters.stats(open + usize::from(lost))
    }

    /// Returns whether the server runs scripts: Redis and Valkey do, a Tollgate server does not.
    pub fn runs_scripts(&self) -> bool {
        self.inner.dispatcher.context.settings.packaging != Packaging::Commands
    }

    /// Checks that a database is reached: 0 is the one that the URL names, and 1 to 15 are beside it on one server.
    pub fn check_database(&self, db: u8) -> Result<(), StoreError> {
        let url = &self.inner.dispatcher.context.settings.url;
        let refused = |text: &str| Err(StoreError::Refused(text.to_owned()));
        match url.deployment {
            _ if db == 0 => Ok(()),
            RedisDeployment::Cluster => {
                refused("SELECT is not allowed in cluster mode: use database 0, or a store that is one Redis")
            }
            _ if url.tollgate => refused("expected SELECT 0: behind a Tollgate server there is one database"),
            _ if url.db != 0 => {
                refused("expected SELECT 0: the URL of the store names a database; leave it out to use 0 to 15")
            }
            _ if usize::from(db) >= DATABASES => refused("DB index is out of range: expected 0 to 15"),
            _ => Ok(()),
        }
    }

    /// Returns whether the store is a cluster, on which all keys of one call must be in one slot.
    pub fn is_cluster(&self) -> bool {
        self.inner.dispatcher.router.is_cluster()
    }

    /// Returns the fraction of each limit that this process grants by itself while the server does not answer.
    pub fn share(&self) -> f64 {
        self.inner.dispatcher.context.settings.share
    }

    pub(crate) fn open(settings: RedisSettings) -> Result<Self, RedisOpenError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| RedisOpenError::Runtime)?;
        let standin = StandIn::new(settings.cap, settings.share);
        let policies = RedisPolicyCache::new(settings.packaging);
        let context =
            Arc::new(LinkContext { settings, counters: Counters::default(), runtime, failures: Default::default() });
        let router = Router::new(&context);
        let dispatcher = CallDispatcher { context, router };
        Ok(Self { inner: Arc::new(RedisInner { dispatcher, policies, standin }) })
    }

    /// Waits until all servers answer.
    pub(crate) async fn reach(&self) -> Result<(), RedisOpenError> {
        let dispatcher = &self.inner.dispatcher;
        let within = dispatcher.context.settings.connect + Duration::from_millis(100);
        match tokio::time::timeout(within, dispatcher.router.link(0, 0)).await {
            Ok(Some(_)) => {}
            _ => return Err(RedisOpenError::Away("no node of the cluster reported the slots".into())),
        }
        for link in dispatcher.router.links() {
            link.core.ping().await.map_err(|failure| match failure {
                ConnectionFailure::Away(why) => RedisOpenError::Away(why),
                ConnectionFailure::Refused(why) => RedisOpenError::Refused(why),
            })?;
        }
        Ok(())
    }

    /// Checks that the server permits refunds, by refunding zero units to a key without state. If the server does
    /// not answer, the check passes; later calls handle that case.
    pub(crate) async fn check_refunds(&self) -> Result<(), RedisOpenError> {
        let none = Cost::new(0).unwrap_or(Cost::ONE);
        let policy: Policy = "1/s".parse().map_err(|_| RedisOpenError::Setting("a policy such as 1/s".into()))?;
        match self.inner.refund(&policy, UNUSED_KEY, none, Timestamp::saturating(0)).await {
            Err(StoreError::Refused(why)) => Err(RedisOpenError::Refund(why)),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = &self.inner.dispatcher.context.settings;
        f.debug_struct("Redis").field("settings", settings).field("stats", &self.stats()).finish()
    }
}

impl RedisInner {
    pub(crate) async fn check(&self, policy: &Policy, key: &[u8], request: Request) -> Result<Decision, StoreError> {
        let prepared = self.prepare(policy, key, &request)?;
        let answer = self.dispatcher.dispatch(prepared.check(key, &request, ReplyDetail::Rest)).await;
        let answer = answer.and_then(|value| reply::decision(&value, self.policies.reply_ending()));
        self.count_or_stand_in(answer, || self.standin.check(&prepared, key, &request))
    }

    pub(crate) async fn check_full(
        &self,
        policy: &Policy,
        key: &[u8],
        request: Request,
    ) -> Result<(Decision, Vec<Detail>), StoreError> {
        let prepared = self.prepare(policy, key, &request)?;
        let answer = self.dispatcher.dispatch(prepared.check(key, &request, ReplyDetail::Full)).await;
        let answer = answer.and_then(|value| reply::full(&value, self.policies.reply_ending(), policy.limits().len()));
        let full = or_stand_in(answer, || self.standin.check_full(&prepared, key, &request))?;
        self.dispatcher.context.counters.count_decision(full.0.source);
        Ok(full)
    }

    pub(crate) async fn check_many(
        &self,
        policy: &Policy,
        keys: &[&[u8]],
        request: Request,
    ) -> Result<Vec<Decision>, StoreError> {
        keys.iter().try_for_each(|key| StoreError::check_key(key))?;
        check_request(&request)?;
        let prepared = self.policies.get(policy)?;
        let calls = keys.iter().map(|key| prepared.check(key, &request, ReplyDetail::Rest)).collect();
        let answers = self.dispatcher.dispatch_many(calls).await.into_iter().zip(keys);
        let decide = |(answer, key): (Result<redis::Value, StoreError>, &&[u8])| {
            let decision = answer.and_then(|value| reply::decision(&value, self.policies.reply_ending()));
            self.count_or_stand_in(decision, || self.standin.check(&prepared, key, &request))
        };
        answers.map(decide).collect()
    }

    pub(crate) async fn reset(&self, policy: &Policy, key: &[u8]) -> Result<(), StoreError> {
        StoreError::check_key(key)?;
        let prepared = self.policies.get(policy)?;
        self.standin.reset(&prepared, key)?;
        self.dispatcher.dispatch(prepared.reset(key)).await.map(|_| ())
    }

    pub(crate) async fn refund(
        &self,
        policy: &Policy,
        key: &[u8],
        units: Cost,
        at: Timestamp,
    ) -> Result<u64, StoreError> {
        StoreError::check_key(key)?;
        let prepared = self.policies.get(policy)?;
        self.dispatcher.dispatch(prepared.refund(key, units, at)).await.and_then(|value| reply::count(&value))
    }

    fn prepare(&self, policy: &Policy, key: &[u8], request: &Request) -> Result<Arc<RedisPolicy>, StoreError> {
        StoreError::check_key(key)?;
        check_request(request)?;
        self.policies.get(policy)
    }

    /// Returns the server's decision, or the stand-in's if the server did not answer, and counts it.
    pub(crate) fn count_or_stand_in(
        &self,
        answer: Result<Decision, StoreError>,
        standin: impl FnOnce() -> Result<Decision, StoreError>,
    ) -> Result<Decision, StoreError> {
        let decision = or_stand_in(answer, standin)?;
        self.dispatcher.context.counters.count_decision(decision.source);
        Ok(decision)
    }
}

/// Returns the answer, or the result of `standin` if the home did not answer.
pub(crate) fn or_stand_in<T>(
    answer: Result<T, StoreError>,
    standin: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    match answer {
        Err(StoreError::Away { .. }) => standin(),
        answer => answer,
    }
}

/// Refuses requests with `wait_for`: only dialects use it, and they run inside the process on embedded stores.
fn check_request(request: &Request) -> Result<(), StoreError> {
    match request.wait_for {
        None => Ok(()),
        Some(_) => {
            Err(StoreError::Refused("expected a request without wait_for, which only embedded stores know".into()))
        }
    }
}
