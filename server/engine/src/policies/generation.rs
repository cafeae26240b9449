//! A generation: the policies of the server's configuration, valid and ready to be used, under a number.
//!
//! A request takes one policy of one generation and uses nothing else. A policy that is unchanged in a new generation
//! keeps everything: its prepared form, its counters, its candidate.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use tollgate_config::{Config, PolicyEntry};
use tollgate_kernel::{MAX_NAME, Policy, StoreError};

use super::rules::{BESIDE, PolicyRules, RulesError};
use crate::counts::{PolicyCounts, PolicyOwner, label};
use crate::home::{Home, HomePolicy};
use crate::observers::DecisionObservers;
use crate::ops::Ops;
use crate::persist::EmbeddedPolicy;

/// The suffix that separates the names of policies that callers bring in another store: neither a file nor a caller may
/// use it in a name.
const OF_CALLERS: &str = "--text";

/// A policy and what the server stores beside it.
#[derive(Debug)]
pub struct EnginePolicy {
    /// The policy.
    pub policy: Policy,
    /// The same policy as another store files it, if that differs: see [`EnginePolicy::at_home`].
    pub(crate) elsewhere: Option<Policy>,
    /// The policy as the embedded store knows it, if that is the home.
    pub prepared: Option<Arc<EmbeddedPolicy>>,
    /// Its counters, from its first use on.
    pub(crate) counts: OnceLock<Arc<PolicyCounts>>,
    pub(crate) owner: PolicyOwner,
    /// Its rules beside its limits; `None` for most policies.
    pub rules: Option<Arc<PolicyRules>>,
    /// Its entry in the file, if it is from a file.
    pub entry: Option<Arc<PolicyEntry>>,
    /// The further observers of its decisions.
    pub observers: Option<Arc<DecisionObservers>>,
    /// The generation it belongs to; 0 if a caller brought it, which may happen at any time.
    pub generation: u64,
}

impl EnginePolicy {
    /// Returns a policy without rules, of no generation.
    pub(crate) fn new(policy: Policy, home: &Home, owner: PolicyOwner) -> Result<Self, StoreError> {
        let prepared = home.prepare(&policy, owner)?.map(Arc::new);
        let is_apart = owner == PolicyOwner::Callers && !policy.name().is_empty() && prepared.is_none();
        let elsewhere = is_apart.then(|| policy.clone().with_name(&format!("{}{OF_CALLERS}", policy.name())));
        let too_long = |_| {
            let most = MAX_NAME - OF_CALLERS.len();
            StoreError::Refused(format!(
                "NAME: expected at most {most} bytes where another store keeps what is counted"
            ))
        };
        Ok(Self {
            elsewhere: elsewhere.transpose().map_err(too_long)?,
            policy,
            prepared,
            counts: OnceLock::new(),
            owner,
            rules: None,
            entry: None,
            observers: None,
            generation: 0,
        })
    }

    /// Returns the policy as homes know it. A policy that a caller brought under a name is filed separately from the
    /// server's own policy of that name.
    pub(crate) fn at_home(&self) -> HomePolicy<'_> {
        let stored = self.elsewhere.as_ref().unwrap_or(&self.policy);
        HomePolicy { name: self.policy.name(), stored, prepared: self.prepared.as_deref() }
    }

    /// Returns its label in lists: its name, or its text, truncated.
    pub fn label(&self) -> String {
        label(&self.policy)
    }

    /// Returns the same policy in another generation.
    fn in_generation(&self, generation: u64) -> Self {
        Self {
            policy: self.policy.clone(),
            elsewhere: self.elsewhere.clone(),
            prepared: self.prepared.clone(),
            counts: self.counts.clone(),
            owner: self.owner,
            rules: self.rules.clone(),
            entry: self.entry.clone(),
            observers: self.observers.clone(),
            generation,
        }
    }
}

/// The policies of one generation.
#[derive(Debug, Default)]
pub struct PolicyGeneration {
    /// Its number; a later generation has a larger one.
    pub number: u64,
    /// The policies in order: those of the command line, then those of the file.
    pub listed: Vec<Arc<EnginePolicy>>,
    by_name: HashMap<Box<str>, Arc<EnginePolicy>, foldhash::quality::RandomState>,
    /// The contents of the file.
    pub config: Config,
}

/// The reason why policies cannot be used.
#[derive(Debug)]
pub enum GenerationError {
    /// The file has a policy with the name of one of the command line.
    Twice(String),
    /// A name contains two dashes.
    Name(String),
    /// Alerts cannot be posted to this webhook.
    Webhook(String),
    /// A policy, and the reason why it cannot be used.
    Rules(String, RulesError),
}

impl fmt::Display for GenerationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice(name) => {
                write!(f, "policies.{name}: expected a name of its own, found one that --policy has; rename either")
            }
            Self::Webhook(why) => write!(f, "webhook: {why}"),
            Self::Name(name) => write!(f, "policies.{name}: expected a name without {BESIDE}"),
            Self::Rules(name, why) => write!(f, "policies.{name}: {why}"),
        }
    }
}

impl PolicyGeneration {
    /// Returns the policy with a name.
    #[inline]
    pub fn find(&self, name: &str) -> Option<&Arc<EnginePolicy>> {
        self.by_name.get(name)
    }

    /// Builds a generation from the policies of the command line and of a file. It holds no lock that requests need.
    pub(crate) fn new(
        number: u64,
        given: &[Policy],
        config: Config,
        before: &Self,
        home: &Home,
        ops: &Ops,
    ) -> Result<Self, GenerationError> {
        let mut next = Self { number, ..Self::default() };
        for policy in given {
            let same = before.find(policy.name()).filter(|known| known.entry.is_none());
            let known = match same {
                Some(same) => same.in_generation(number),
                None => EnginePolicy { generation: number, ..known(policy, home)? },
            };
            next.add(known)?;
        }
        for entry in &config.policies {
            let old = before.find(entry.policy.name()).filter(|known| known.entry.is_some());
            let known = match old {
                Some(same) if same.entry.as_deref() == Some(&**entry) => same.in_generation(number),
                old => {
                    let failed = |error| GenerationError::Rules(entry.policy.name().to_owned(), error);
                    let rules = PolicyRules::of(entry, old.map(|old| &**old), home, ops).map_err(failed)?;
                    let mut changed = known(&entry.policy, home)?;
                    // Unchanged limits keep their counters.
                    if let Some(old) = old.filter(|old| old.policy.limits() == entry.policy.limits()) {
                        changed.counts = old.counts.clone();
                    }
                    let observers = ops.observers(&entry.policy, &entry.alerts, entry.usage);
                    EnginePolicy { rules, entry: Some(Arc::clone(entry)), observers, generation: number, ..changed }
                }
            };
            next.add(known)?;
        }
        next.config = config;
        Ok(next)
    }

    fn add(&mut self, known: EnginePolicy) -> Result<(), GenerationError> {
        let name = known.policy.name();
        if name.contains(BESIDE) {
            return Err(GenerationError::Name(name.to_owned()));
        }
        let known = Arc::new(known);
        if self.by_name.insert(known.policy.name().into(), Arc::clone(&known)).is_some() {
            return Err(GenerationError::Twice(known.policy.name().to_owned()));
        }
        self.listed.push(known);
        Ok(())
    }
}

fn known(policy: &Policy, home: &Home) -> Result<EnginePolicy, GenerationError> {
    let failed = |error| GenerationError::Rules(policy.name().to_owned(), RulesError::Store(error));
    EnginePolicy::new(policy.clone(), home, PolicyOwner::Servers).map_err(failed)
}
