//! A generation: the policies that the server was told of, valid and ready to be used, under a number.
//!
//! A request takes one policy of one generation and looks at nothing else. Of a policy that a new generation
//! has too, unchanged, everything stays: what is prepared, what is counted, what is tried.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use tollgate_config::{Config, Entry};
use tollgate_core::{LONGEST_NAME, Policy, StoreError};

use super::Home;
use super::rules::{BESIDE, Rules, RulesError};
use crate::data::Filed;
use crate::metrics::{PolicyCounts, Whose, label};
use crate::ops::Ops;
use crate::watched::Watched;

/// What the names of policies that callers bring are told apart by where another store keeps them: neither a file nor a
/// caller may use it in a name.
const OF_CALLERS: &str = "--text";

/// A policy and what the server keeps beside it.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) policy: Policy,
    /// The same as a store elsewhere files it, if that is another: see [`Known::stored`].
    pub(super) elsewhere: Option<Policy>,
    /// As the embedded store knows it, if that is the home.
    pub(crate) prepared: Option<Arc<Filed>>,
    /// Where it is counted, from its first use on.
    pub(super) counts: OnceLock<Arc<PolicyCounts>>,
    pub(super) whose: Whose,
    /// What it has beside its limits; nothing for most.
    pub(crate) rules: Option<Arc<Rules>>,
    /// What the file says of it, if it is of a file.
    pub(crate) entry: Option<Arc<Entry>>,
    /// What else is looked at in its decisions.
    pub(crate) watched: Option<Arc<Watched>>,
    /// The generation it is of; 0 if a caller brought it, who may bring it at any time.
    pub(crate) generation: u64,
}

impl Known {
    /// A policy with nothing beside it, of no generation.
    pub(super) fn new(policy: Policy, home: &Home, whose: Whose) -> Result<Self, StoreError> {
        let prepared = home.prepare(&policy, whose)?.map(Arc::new);
        let is_apart = whose == Whose::Callers && !policy.name().is_empty() && prepared.is_none();
        let elsewhere = is_apart.then(|| policy.clone().with_name(&format!("{}{OF_CALLERS}", policy.name())));
        let too_long = |_| {
            let most = LONGEST_NAME - OF_CALLERS.len();
            StoreError::Refused(format!(
                "NAME: expected at most {most} bytes where another store keeps what is counted"
            ))
        };
        Ok(Self {
            elsewhere: elsewhere.transpose().map_err(too_long)?,
            policy,
            prepared,
            counts: OnceLock::new(),
            whose,
            rules: None,
            entry: None,
            watched: None,
            generation: 0,
        })
    }

    /// The policy as a store elsewhere files it: one that a caller brought under a name is filed apart from the server's
    /// own of that name.
    pub(crate) fn stored(&self) -> &Policy {
        self.elsewhere.as_ref().unwrap_or(&self.policy)
    }

    /// What it is called where many are told of: its name, or as much of its text as is short.
    pub(crate) fn label(&self) -> String {
        label(&self.policy)
    }

    /// The same in another generation.
    fn again(&self, generation: u64) -> Self {
        Self {
            policy: self.policy.clone(),
            elsewhere: self.elsewhere.clone(),
            prepared: self.prepared.clone(),
            counts: self.counts.clone(),
            whose: self.whose,
            rules: self.rules.clone(),
            entry: self.entry.clone(),
            watched: self.watched.clone(),
            generation,
        }
    }
}

/// The policies of one generation.
#[derive(Debug, Default)]
pub(crate) struct Generation {
    pub(crate) number: u64,
    /// In order: those of the command line, then those of the file.
    pub(crate) listed: Vec<Arc<Known>>,
    by_name: HashMap<Box<str>, Arc<Known>, foldhash::quality::RandomState>,
    /// What the file said.
    pub(crate) config: Config,
}

/// Why policies cannot be used.
#[derive(Debug)]
pub(crate) enum GenerationError {
    /// The file has a policy of the command line.
    Twice(String),
    /// A name with two dashes.
    Name(String),
    /// Where alerts cannot be posted to.
    Webhook(String),
    /// A policy and why it cannot be used.
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

impl Generation {
    /// The policy of a name.
    #[inline]
    pub(crate) fn find(&self, name: &str) -> Option<&Arc<Known>> {
        self.by_name.get(name)
    }

    /// Makes a generation of the policies of the command line and of a file. Nothing that requests need is
    /// held meanwhile.
    pub(super) fn new(
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
                Some(same) => same.again(number),
                None => Known { generation: number, ..known(policy, home)? },
            };
            next.add(known)?;
        }
        for entry in &config.policies {
            let old = before.find(entry.policy.name()).filter(|known| known.entry.is_some());
            let known = match old {
                Some(same) if same.entry.as_deref() == Some(&**entry) => same.again(number),
                old => {
                    let failed = |error| GenerationError::Rules(entry.policy.name().to_owned(), error);
                    let rules = Rules::of(entry, old.map(|old| &**old), home, ops).map_err(failed)?;
                    let mut changed = known(&entry.policy, home)?;
                    // Limits that stay are counted where they were.
                    if let Some(old) = old.filter(|old| old.policy.limits() == entry.policy.limits()) {
                        changed.counts = old.counts.clone();
                    }
                    let watched = ops.watch(&entry.policy, &entry.alerts, entry.usage);
                    Known { rules, entry: Some(Arc::clone(entry)), watched, generation: number, ..changed }
                }
            };
            next.add(known)?;
        }
        next.config = config;
        Ok(next)
    }

    fn add(&mut self, known: Known) -> Result<(), GenerationError> {
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

fn known(policy: &Policy, home: &Home) -> Result<Known, GenerationError> {
    let failed = |error| GenerationError::Rules(policy.name().to_owned(), RulesError::Store(error));
    Known::new(policy.clone(), home, Whose::Servers).map_err(failed)
}
