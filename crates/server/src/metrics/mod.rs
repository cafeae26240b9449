//! What the server counts of itself. Counting is an addition to an atomic; wording is done by whoever looks.

mod policy;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tollgate_core::Policy;

pub(crate) use policy::PolicyCounts;

/// Policies that are counted by themselves; more are counted together.
const MOST_POLICIES: usize = 100;

/// The counters of a server.
#[derive(Default)]
pub(crate) struct Metrics {
    policies: Mutex<HashMap<Box<str>, Arc<PolicyCounts>>>,
    others: Arc<PolicyCounts>,
}

impl Metrics {
    /// The counters of a policy: its own while there are few, else those of all others.
    pub(crate) fn policy(&self, policy: &Policy) -> Arc<PolicyCounts> {
        let label = if policy.name().is_empty() { policy.to_string() } else { policy.name().to_owned() };
        let mut policies = self.policies.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counts) = policies.get(label.as_str()) {
            return Arc::clone(counts);
        }
        if policies.len() >= MOST_POLICIES {
            return Arc::clone(&self.others);
        }
        let counts = Arc::new(PolicyCounts::new(policy));
        policies.insert(label.into(), Arc::clone(&counts));
        counts
    }
}
