//! The implementation of the `Store` trait, by which this store is one home among others.

use tollgate_kernel::{Cost, Decision, Detail, JointDecision, KeyCheck, Policy, Reply, Request, Store, Timestamp};

use crate::store::Redis;

impl Store for Redis {
    fn check<'a>(&'a self, policy: &'a Policy, key: &'a [u8], request: Request) -> Reply<'a, Decision> {
        Reply::later(self.inner.check(policy, key, request))
    }

    fn check_full<'a>(
        &'a self,
        policy: &'a Policy,
        key: &'a [u8],
        request: Request,
    ) -> Reply<'a, (Decision, Vec<Detail>)> {
        Reply::later(self.inner.check_full(policy, key, request))
    }

    fn check_many<'a>(
        &'a self,
        policy: &'a Policy,
        keys: &'a [&'a [u8]],
        request: Request,
    ) -> Reply<'a, Vec<Decision>> {
        Reply::later(self.inner.check_many(policy, keys, request))
    }

    fn check_all<'a>(&'a self, items: &'a [KeyCheck<'a>]) -> Reply<'a, JointDecision> {
        Reply::later(self.inner.check_all(items))
    }

    fn reset<'a>(&'a self, policy: &'a Policy, key: &'a [u8]) -> Reply<'a, ()> {
        Reply::later(self.inner.reset(policy, key))
    }

    fn refund<'a>(&'a self, policy: &'a Policy, key: &'a [u8], units: Cost, at: Timestamp) -> Reply<'a, u64> {
        Reply::later(self.inner.refund(policy, key, units, at))
    }
}
