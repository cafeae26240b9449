//! The rules of a policy beside its limits: lists, overrides, a ban, a candidate, and whether it refuses at all.
//!
//! | file | what it is |
//! |---|---|
//! | `lists.rs` | keys and patterns that are always allowed, or always refused |
//! | `overrides.rs` | other limits for some keys |
//! | `bans.rs` | which keys are banned, until when, and how many bans they had in a row |
//! | `candidate.rs` | limits evaluated beside the live ones |
//!
//! The engine applies them in the order allow, deny, ban, override, policy. A policy that only has limits has no rules,
//! and is decided without any of this.

mod bans;
mod candidate;
mod lists;
mod overrides;

use std::sync::Arc;

use tollgate_config::{Ban, PolicyEntry};
use tollgate_kernel::{Policy, StoreError};

pub(crate) use bans::{BanCapacityError, BanRecord, Bans};
pub(crate) use candidate::CandidateLimits;
pub use candidate::Flips;
pub(crate) use overrides::OverrideRule;

use super::EnginePolicy;
use crate::counts::PolicyOwner;
use crate::home::Home;
use crate::ops::Ops;
use lists::MatchList;
use overrides::Overrides;

/// The rules of a policy beside its limits, ready to be used.
#[derive(Debug)]
pub struct PolicyRules {
    pub(crate) allow: MatchList,
    pub(crate) deny: MatchList,
    pub(crate) overrides: Overrides,
    pub(crate) shadow: bool,
    pub(crate) candidate: Option<Arc<CandidateLimits>>,
    pub(crate) ban: Option<BanRule>,
}

/// When a ban begins, and where refusals are counted.
#[derive(Debug)]
pub(crate) struct BanRule {
    pub(crate) ban: Ban,
    pub(crate) refusals: EnginePolicy,
}

impl PolicyRules {
    /// Returns the rules of an entry; `None` if it only has limits. A candidate that is already evaluated keeps its
    /// counts, unless it or the limits it is compared with have changed.
    pub(crate) fn of(
        entry: &PolicyEntry,
        before: Option<&EnginePolicy>,
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
            Some(tried) => match CandidateLimits::continued(entry, before) {
                Some(same) => Some(same),
                None => Some(Arc::new(CandidateLimits::new(beside(policy, tried, CANDIDATE, home)?))),
            },
        };
        let ban = match entry.ban {
            None => None,
            Some(ban) => {
                let text = format!("{}/{}us sliding", ban.refusals, ban.within.get());
                let counting: Policy = text.parse().map_err(|error| RulesError::Ban(format!("{error}")))?;
                Some(BanRule { ban, refusals: beside(policy, &counting, REFUSALS, home)? })
            }
        };
        let rules = Self {
            allow: MatchList::new(&entry.allow),
            deny: MatchList::new(&entry.deny),
            overrides: Overrides::new(entry, home, ops)?,
            shadow: entry.shadow,
            candidate,
            ban,
        };
        Ok(Some(Arc::new(rules)))
    }

    /// Returns the candidate, if there is one.
    pub fn candidate(&self) -> Option<&CandidateLimits> {
        self.candidate.as_deref()
    }
}

/// The infix of names under which state beside a policy's own is filed. Neither callers nor files may use it in a name.
pub(crate) const BESIDE: &str = "--";
const CANDIDATE: &str = "--candidate";
const REFUSALS: &str = "--refusals";

/// Returns limits whose state is filed beside that of a policy, with the same mode and `on_error`.
fn beside(policy: &Policy, limits: &Policy, ending: &str, home: &Home) -> Result<EnginePolicy, RulesError> {
    let named = limits.clone().with_name(&format!("{}{ending}", policy.name()));
    let named = named.map_err(|error| RulesError::Name(error.to_string()))?;
    let policy = named.with_mode(policy.mode()).with_on_error(policy.on_error());
    Ok(EnginePolicy::new(policy, home, PolicyOwner::Servers)?)
}

/// The reason why rules cannot be used.
#[derive(Debug)]
pub enum RulesError {
    /// The refusals that lead to a ban are not a valid limit.
    Ban(String),
    /// The name is too long for what is filed beside it.
    Name(String),
    /// The home does not accept the policy.
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
