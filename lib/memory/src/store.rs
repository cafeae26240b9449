//! The implementation of the trait `Store` for the embedded store.

use tollgate_kernel::{
    Cost, Decision, Detail, JointDecision, KeyCheck, Policy, Reply, Request, Store, StoreError, Timestamp,
};

use crate::memory::Memory;

impl Store for Memory {
    fn check<'a>(&'a self, policy: &'a Policy, key: &'a [u8], request: Request) -> Reply<'a, Decision> {
        Reply::now(self.prepare(policy).and_then(|policy| Memory::check(self, &policy, key, &request)))
    }

    fn check_full<'a>(
        &'a self,
        policy: &'a Policy,
        key: &'a [u8],
        request: Request,
    ) -> Reply<'a, (Decision, Vec<Detail>)> {
        Reply::now(self.prepare(policy).and_then(|policy| Memory::check_full(self, &policy, key, &request)))
    }

    fn check_many<'a>(
        &'a self,
        policy: &'a Policy,
        keys: &'a [&'a [u8]],
        request: Request,
    ) -> Reply<'a, Vec<Decision>> {
        let mut decisions = Vec::new();
        let done =
            self.prepare(policy).and_then(|policy| Memory::check_many(self, &policy, keys, &request, &mut decisions));
        Reply::now(done.map(|()| decisions))
    }

    fn check_all<'a>(&'a self, items: &'a [KeyCheck<'a>]) -> Reply<'a, JointDecision> {
        let prepared: Result<Vec<_>, StoreError> = items.iter().map(|item| self.prepare(item.policy)).collect();
        Reply::now(prepared.and_then(|prepared| {
            let items: Vec<_> =
                prepared.iter().zip(items).map(|(policy, item)| (policy, item.key, item.cost)).collect();
            Memory::check_all(self, &items)
        }))
    }

    fn reset<'a>(&'a self, policy: &'a Policy, key: &'a [u8]) -> Reply<'a, ()> {
        Reply::now(self.prepare(policy).and_then(|policy| Memory::reset(self, &policy, key)))
    }

    fn refund<'a>(&'a self, policy: &'a Policy, key: &'a [u8], units: Cost, at: Timestamp) -> Reply<'a, u64> {
        Reply::now(self.prepare(policy).and_then(|policy| Memory::refund(self, &policy, key, units, at)))
    }
}
