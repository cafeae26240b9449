//! The observation of the decisions of a policy, besides counting them: how near its keys are to their limits, and
//! their usage.

use std::sync::Arc;

use tollgate_kernel::{Decision, Detail, Request};

use crate::alerts::NearLimitMeter;
use crate::home::{Home, HomePolicy};
use crate::usage::UsageTracker;

/// The observers of the decisions of a policy. A policy without them has no cost.
#[derive(Debug, Default)]
pub struct DecisionObservers {
    pub near: Option<NearLimitMeter>,
    /// Whether the usage of keys is recorded.
    pub usage: bool,
}

impl DecisionObservers {
    /// Returns the observers, if there are any.
    pub fn new(near: Option<NearLimitMeter>, usage: bool) -> Option<Arc<Self>> {
        (near.is_some() || usage).then(|| Arc::new(Self { near, usage }))
    }

    /// Observes decisions, each with its key. `parts` are the details of the limits, if there is one decision and they
    /// are known.
    #[inline]
    pub fn observe<'a>(
        &self,
        usage: &UsageTracker,
        home: &Home,
        policy: HomePolicy<'_>,
        keys: impl IntoIterator<Item = &'a [u8]> + Clone,
        decisions: &[Decision],
        parts: &[Detail],
    ) {
        if self.usage {
            usage.count(policy.name, keys.clone(), decisions);
        }
        if let Some(near) = &self.near {
            for (key, decision) in keys.into_iter().zip(decisions) {
                near.observe(key, decision, parts, || peek(home, policy, key));
            }
        }
    }
}

/// Returns the details of each limit, if the home answers at once.
#[cold]
fn peek(home: &Home, policy: HomePolicy<'_>, key: &[u8]) -> Option<Vec<Detail>> {
    let (Home::Embedded(embedded), Some(prepared)) = (home, policy.prepared) else { return None };
    let look = Request { peek: true, ..Request::ONE };
    embedded.check_full(prepared, key, &look).ok().map(|(_, parts)| parts)
}
