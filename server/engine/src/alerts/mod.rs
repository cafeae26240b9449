//! Near-limit alerts: the keys of a policy come close to their limits, or no longer do. An alert is reported once
//! instead of with every request; it falls when no key has been near for a minute.
//!
//! | file | what it is |
//! |---|---|
//! | `level.rs` | a percentage of a policy: raised or not |
//! | `near.rs` | how near a decision shows a key to be; on the path of every request |
//! | `reporter.rs` | where alerts are reported: log, counters, webhook |
//! | `queue.rs` | waiting posts: bounded, and one a second for each policy |
//! | `webhook.rs`, `client.rs` | the thread that posts; one POST |
//! | `mod.rs` | the alerts of a server, by policy, across generations |

mod client;
mod level;
mod near;
mod queue;
mod reporter;
mod webhook;

#[cfg(test)]
mod receiver;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_config::Webhook;
use tollgate_kernel::Timestamp;

use level::AlertLevel;
pub(crate) use near::NearLimitMeter;
use reporter::AlertReporter;
use tollgate_telemetry::log::ServerLog;

/// The most levels that metrics list separately; the others are combined.
const MAX_LISTED: usize = 100;

/// The alerts of a server.
#[derive(Debug, Default)]
pub struct Alerts {
    by_policy: Mutex<BTreeMap<Box<str>, Arc<PolicyAlerts>>>,
    reporter: Arc<AlertReporter>,
}

/// The alerts of one policy. They outlive generations: a change of the policy does not raise them again.
#[derive(Debug)]
pub struct PolicyAlerts {
    policy: Arc<str>,
    levels: Box<[Arc<AlertLevel>]>,
    reporter: Arc<AlertReporter>,
}

/// The metrics of a level: policy, percentage, whether it is raised, how often it was.
pub(crate) type AlertLevelCounts = (String, String, u64, u64);

impl Alerts {
    pub fn new(log: Arc<ServerLog>) -> Self {
        Self { by_policy: Mutex::default(), reporter: Arc::new(AlertReporter::new(log)) }
    }

    /// Returns the alerts of a policy at these percentages, `None` if there are none. Existing levels keep their state;
    /// a level that is no longer wanted falls.
    pub fn of(&self, policy: &str, percents: &[u8]) -> Option<Arc<PolicyAlerts>> {
        let mut by_policy = self.by_policy();
        let before = by_policy.get(policy).cloned();
        let same = |alert: &PolicyAlerts| alert.levels.iter().map(|level| level.percent).eq(percents.iter().copied());
        if let Some(before) = before.as_ref().filter(|before| same(before)) {
            return Some(Arc::clone(before)).filter(|alert| !alert.levels.is_empty());
        }
        let old = before.as_ref().map_or(&[][..], |before| &before.levels);
        let level = |percent: &u8| {
            let kept = old.iter().find(|level| level.percent == *percent);
            kept.cloned().unwrap_or_else(|| Arc::new(AlertLevel::new(*percent)))
        };
        let levels = percents.iter().map(level).collect();
        let alert = Arc::new(PolicyAlerts { policy: policy.into(), levels, reporter: Arc::clone(&self.reporter) });
        let gone = old.iter().filter(|level| !percents.contains(&level.percent));
        gone.filter(|level| level.lower()).for_each(|level| self.reporter.fell(&alert.policy, level.percent));
        if percents.is_empty() {
            by_policy.remove(policy);
            return None;
        }
        by_policy.insert(policy.into(), Arc::clone(&alert));
        Some(alert)
    }

    /// Adopts the percentages of another generation for the policies that have alerts; policies that no longer exist
    /// have none.
    pub fn adopt<'a>(&self, percents: impl Fn(&str) -> &'a [u8]) {
        let policies: Vec<Box<str>> = self.by_policy().keys().cloned().collect();
        policies.iter().for_each(|policy| drop(self.of(policy, percents(policy))));
    }

    /// Sets the receiver of alerts; `None` disables posts. An unusable URL is an error, and then nothing is changed.
    pub fn set_webhook(&self, webhook: Option<&Webhook>) -> Result<(), String> {
        self.reporter.set_webhook(webhook)
    }

    /// Ends a second: alerts fall for which no key has been near for long enough.
    pub fn second(&self, now: Timestamp) {
        let alerts: Vec<Arc<PolicyAlerts>> = self.by_policy().values().cloned().collect();
        for alert in alerts {
            let fell = alert.levels.iter().filter(|level| level.second(now));
            fell.for_each(|level| self.reporter.fell(&alert.policy, level.percent));
        }
    }

    /// Returns the levels in the order of their policies' names. Levels beyond a fixed number are combined: how many of
    /// them are raised, and how often they were in total.
    pub fn levels(&self) -> Vec<AlertLevelCounts> {
        let by_policy = self.by_policy();
        let levels = by_policy.values().flat_map(|alert| alert.levels.iter().map(|level| (&*alert.policy, level)));
        let mut listed = Vec::new();
        let mut others = ("other".to_owned(), "any".to_owned(), 0, 0);
        for (place, (policy, level)) in levels.enumerate() {
            let (raised, total) = level.counts();
            if place < MAX_LISTED {
                listed.push((policy.to_owned(), level.percent.to_string(), raised, total));
            } else {
                (others.2, others.3) = (others.2 + raised, others.3 + total);
            }
        }
        if listed.len() == MAX_LISTED {
            listed.push(others);
        }
        listed
    }

    /// Returns the numbers of posts that were accepted by their receiver, failed, and were dropped.
    pub fn posts(&self) -> [u64; 3] {
        self.reporter.posts()
    }

    fn by_policy(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Arc<PolicyAlerts>>> {
        self.by_policy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
