//! The reasons for a decision, as JSON.

use serde::Serialize;
use tollgate_config::Override;
use utoipa::ToSchema;

use super::decision::RuleName;
use tollgate_engine::{DecisionFacts, Flips, moment};

/// Why a key is decided as it is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Because)]
pub(super) struct ReasonBody {
    /// What decides.
    rule: RuleName,
    /// The limits that the key has instead of the policy's.
    #[serde(rename = "override", skip_serializing_if = "Option::is_none")]
    overriding: Option<OverrideBody>,
    /// The key's last ban, if it had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    ban: Option<KeyBan>,
    /// Whether the policy is in shadow mode: it refuses no request.
    shadow: bool,
    /// Limits that are tried beside the live ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    candidate: Option<CandidateBody>,
}

/// Other limits for some keys.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Overridden)]
pub(super) struct OverrideBody {
    /// Whose: a key, or a pattern.
    key: String,
    /// The limits.
    policy: String,
    /// From when on it no longer counts, in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    /// Why it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl OverrideBody {
    pub(super) fn new(said: &Override) -> Self {
        Self {
            key: said.key.to_string(),
            policy: said.policy.to_string(),
            until: said.until.map(moment),
            note: said.note.clone(),
        }
    }
}

/// A ban of a key.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct KeyBan {
    /// Microseconds that are left of it; 0 if it has ended.
    left_us: u64,
    /// When it ends or ended, in UTC.
    until: String,
    /// Its number among bans in a row, from 1.
    level: u32,
}

/// Limits that are tried beside the live ones, and what they would have decided.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Candidate)]
pub(super) struct CandidateBody {
    /// The limits.
    policy: String,
    /// Decisions that were compared, since either limits were last changed.
    decided: u64,
    /// Of them, allowed ones that it would have refused.
    would_refuse: u64,
    /// Of them, refused ones that it would have allowed.
    would_allow: u64,
}

impl CandidateBody {
    pub(super) fn new(policy: String, Flips { decided, would_refuse, would_allow }: Flips) -> Self {
        Self { policy, decided, would_refuse, would_allow }
    }
}

impl From<DecisionFacts> for ReasonBody {
    fn from(facts: DecisionFacts) -> Self {
        let left_us = facts.banned_for.get();
        Self {
            rule: facts.rule.into(),
            overriding: facts.overriding.as_ref().map(OverrideBody::new),
            ban: facts.ban.map(|ban| KeyBan { left_us, until: moment(ban.until), level: ban.level }),
            shadow: facts.shadow,
            candidate: facts.candidate.map(|(policy, flips)| CandidateBody::new(policy, flips)),
        }
    }
}
