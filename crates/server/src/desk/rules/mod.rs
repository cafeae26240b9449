//! What a policy has beside its limits: lists, overrides, a ban, a candidate, and whether it refuses at all.
//!
//! | file | what it is |
//! |---|---|
//! | `lists.rs` | keys and patterns that are always allowed, or always refused |
//! | `overrides.rs` | other limits for some keys |
//! | `bans.rs` | who is banned, until when, and for the how manieth time |
//! | `candidate.rs` | limits tried beside the live ones |
//! | `decide.rs` | one key under all of that |
//! | `together.rs` | several keys, all or none |
//! | `facts.rs` | why a key is decided as it is |
//!
//! The order: allow, deny, ban, override, policy. A policy that only has limits has no rules, and is decided
//! without any of this.

mod bans;
mod candidate;
mod decide;
mod facts;
mod lists;
mod overrides;
#[cfg(test)]
mod tests;
mod together;

use std::sync::Arc;

use tollgate_config::{Ban, Entry};
use tollgate_core::{Policy, StoreError};

pub(crate) use bans::{Banned, Bans, NoRoom};
pub(crate) use candidate::{Candidate, Flips};
pub(crate) use decide::Verdict;
pub(crate) use facts::{Facts, moment};
pub(crate) use overrides::Overriding;

use super::{Home, Known};
use crate::metrics::Whose;
use crate::ops::Ops;
use lists::List;
use overrides::Overrides;

/// What decided, or changed what was decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The policy's limits.
    #[default]
    Policy,
    /// The key is in the allow list.
    Allow,
    /// The key is in the deny list.
    Deny,
    /// The key is banned.
    Ban,
    /// Other limits that the key has.
    Override,
    /// It would have been refused, and the policy refuses nobody.
    Shadow,
}

impl Rule {
    /// The word for it in every language.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Ban => "ban",
            Self::Override => "override",
            Self::Shadow => "shadow",
        }
    }
}

/// What a policy has beside its limits, ready to be used.
#[derive(Debug)]
pub(crate) struct Rules {
    allow: List,
    deny: List,
    overrides: Overrides,
    shadow: bool,
    candidate: Option<Arc<Candidate>>,
    ban: Option<Banning>,
}

/// When a ban comes, and where refusals are counted.
#[derive(Debug)]
pub(crate) struct Banning {
    pub(super) ban: Ban,
    pub(super) refusals: Known,
}

impl Rules {
    /// The rules of an entry; nothing if it only has limits. A candidate that is tried already counts on,
    /// unless it or what it is compared with is another now.
    pub(super) fn of(
        entry: &Entry,
        before: Option<&Known>,
        home: &Home,
        ops: &Ops,
    ) -> Result<Option<Arc<Self>>, RulesError> {
        let has_lists = !entry.allow.is_empty() || !entry.deny.is_empty() || !entry.overrides.is_empty();
        if !has_lists && !entry.shadow && entry.candidate.is_none() && entry.ban.is_none() {
            return Ok(None);
        }
        let policy = &entry.policy;
        let candidate = match &entry.candidate {
            None => None,
            Some(tried) => match Candidate::going_on(entry, before) {
                Some(same) => Some(same),
                None => Some(Arc::new(Candidate::new(beside(policy, tried, CANDIDATE, home)?))),
            },
        };
        let ban = match entry.ban {
            None => None,
            Some(ban) => {
                let text = format!("{}/{}us sliding", ban.refusals, ban.within.get());
                let counting: Policy = text.parse().map_err(|error| RulesError::Ban(format!("{error}")))?;
                Some(Banning { ban, refusals: beside(policy, &counting, REFUSALS, home)? })
            }
        };
        let rules = Self {
            allow: List::new(&entry.allow),
            deny: List::new(&entry.deny),
            overrides: Overrides::new(entry, home, ops)?,
            shadow: entry.shadow,
            candidate,
            ban,
        };
        Ok(Some(Arc::new(rules)))
    }

    /// The limits that are tried, if any are.
    pub(crate) fn candidate(&self) -> Option<&Candidate> {
        self.candidate.as_deref()
    }
}

/// What the state beside a policy's own is filed under. No caller and no file may name a policy so.
pub(crate) const BESIDE: &str = "--";
const CANDIDATE: &str = "--candidate";
const REFUSALS: &str = "--refusals";

/// Limits whose state is filed beside that of a policy. They are decided as its requests are.
fn beside(policy: &Policy, limits: &Policy, ending: &str, home: &Home) -> Result<Known, RulesError> {
    let named = limits.clone().with_name(&format!("{}{ending}", policy.name()));
    let named = named.map_err(|error| RulesError::Name(error.to_string()))?;
    let policy = named.with_mode(policy.mode()).with_on_error(policy.on_error());
    Ok(Known::new(policy, home, Whose::Servers)?)
}

/// Why rules cannot be used.
#[derive(Debug)]
pub(crate) enum RulesError {
    /// The refusals that bring a ban are no limit.
    Ban(String),
    /// The name is too long for what is filed beside it.
    Name(String),
    /// The home does not take the policy.
    Store(StoreError),
}

impl From<StoreError> for RulesError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl std::fmt::Display for RulesError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ban(why) => write!(f, "ban: refusals: {why}"),
            Self::Name(why) => f.write_str(why),
            Self::Store(error) => error.fmt(f),
        }
    }
}
