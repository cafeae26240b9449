//! What was asked of each key, and what the server says it charged.

use std::collections::HashMap;

use tollgate_kernel::{Policy, Request, Source, Store};
use tollgate_kit::Fault;
use tollgate_redis::Redis;

use super::kind::Cut;
use crate::{Failure, Report};

/// Requests for one key.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KeyRequests {
    pub(super) policy: usize,
    pub(super) requests: u64,
    /// Those that the server answered.
    pub(super) answered: u64,
    /// The fault of the last.
    pub(super) fault: Fault,
}

/// What came of the requests of many keys.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    cuts: u64,
    stalls: u64,
    requests: u64,
    answered: u64,
    charged: u64,
    keys: usize,
}

#[derive(Default)]
pub(super) struct Ledger {
    asked: HashMap<Vec<u8>, KeyRequests>,
    counts: Counts,
}

impl Ledger {
    pub(super) fn note(&mut self, key: &[u8], cut: &Cut, requests: u64, answered: u64) {
        self.counts.cuts += 1;
        self.counts.stalls += u64::from(cut.fault == Fault::Stall);
        let asked = self.asked.entry(key.to_vec()).or_default();
        asked.policy = cut.policy;
        asked.requests += requests;
        asked.answered += answered;
        asked.fault = cut.fault;
    }

    /// Asks the server for every key, and compares.
    pub(super) async fn judge(
        self,
        report: &mut Report,
        direct: &Redis,
        policies: &[Policy],
    ) -> Result<Counts, Failure> {
        let mut counts = self.counts;
        for (key, asked) in &self.asked {
            let Some(policy) = policies.get(asked.policy) else { continue };
            let decision = direct.check(policy, key, Request::ONE.peek()).await?;
            if decision.source != Source::Home {
                return Err(Failure(format!("the server did not answer: {:?}", direct.stats())));
            }
            let count = policy.limits().first().map_or(0, |limit| limit.count());
            let charged = count.saturating_add_signed(-decision.remaining);
            let KeyRequests { requests, answered, fault, .. } = asked;
            report.demand(charged <= *requests, || {
                let key = String::from_utf8_lossy(key);
                format!("{key}: {requests} requests, {charged} charges, last fault {fault:?}")
            });
            report.demand(charged >= *answered, || {
                let key = String::from_utf8_lossy(key);
                format!("{key}: {answered} answered by the server, {charged} charges, last fault {fault:?}")
            });
            counts.requests += requests;
            counts.answered += answered;
            counts.charged += charged;
        }
        counts.keys += self.asked.len();
        Ok(counts)
    }
}

impl Counts {
    pub(super) fn absorb(&mut self, other: &Self) {
        self.cuts += other.cuts;
        self.stalls += other.stalls;
        self.requests += other.requests;
        self.answered += other.answered;
        self.charged += other.charged;
        self.keys += other.keys;
    }

    pub(super) fn tell(&self, report: &mut Report) {
        let Self { cuts, stalls, requests, answered, charged, keys } = self;
        let (before, after) = (requests.saturating_sub(*charged), charged.saturating_sub(*answered));
        report.say(format!(
            "{cuts} connections hurt ({stalls} stalled), {requests} requests on {keys} keys: {answered} answered, \
             {before} hurt before the server ran them, {after} after; {charged} charges"
        ));
    }
}
