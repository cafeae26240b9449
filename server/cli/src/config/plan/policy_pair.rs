//! The policies that decide differently, before and after.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_config::{Config, Override, PolicyEntry};
use tollgate_kernel::Policy;

use super::policy_side::PolicySide;

/// A policy on both sides of a change; where it does not exist, everything passes.
pub(super) struct PolicyPair {
    pub(super) name: String,
    pub(super) before: Option<PolicySide>,
    pub(super) after: Option<PolicySide>,
}

/// Returns the policies that differ, in the order of the new file; removed ones come last.
pub(super) fn pairs(old: &Config, new: &Config) -> Vec<PolicyPair> {
    let by_name = |config: &Config| -> HashMap<String, Arc<PolicyEntry>> {
        config.policies.iter().map(|entry| (entry.policy.name().to_owned(), Arc::clone(entry))).collect()
    };
    let (before, after) = (by_name(old), by_name(new));
    let mut pairs = Vec::new();
    for entry in &new.policies {
        let was = before.get(entry.policy.name());
        if !was.is_some_and(|was| alike(was, entry)) {
            pairs.push(pair(was, Some(entry)));
        }
    }
    let gone = old.policies.iter().filter(|entry| !after.contains_key(entry.policy.name()));
    pairs.extend(gone.map(|entry| pair(Some(entry), None)));
    pairs
}

fn pair(before: Option<&Arc<PolicyEntry>>, after: Option<&Arc<PolicyEntry>>) -> PolicyPair {
    let name = after.or(before).map(|entry| entry.policy.name().to_owned()).unwrap_or_default();
    let side = |entry: Option<&Arc<PolicyEntry>>| entry.map(|entry| PolicySide::new(Arc::clone(entry)));
    PolicyPair { name, before: side(before), after: side(after) }
}

/// Returns whether both decide every request alike.
fn alike(old: &PolicyEntry, new: &PolicyEntry) -> bool {
    let limits = |one: &Policy, other: &Policy| one.limits() == other.limits() && one.mode() == other.mode();
    let same = |one: &Override, other: &Override| {
        one.key == other.key && one.until == other.until && limits(&one.policy, &other.policy)
    };
    limits(&old.policy, &new.policy)
        && old.shadow == new.shadow
        && old.allow == new.allow
        && old.deny == new.deny
        && old.overrides.len() == new.overrides.len()
        && old.overrides.iter().zip(&new.overrides).all(|(one, other)| same(one, other))
}
