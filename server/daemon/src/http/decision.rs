//! A decision, as JSON.

use serde::Serialize;
use tollgate_kernel::Decision;
use utoipa::ToSchema;

use tollgate_engine::{DecidingRule, EnginePolicy, EngineVerdict};

/// A decision. A refusal is one, too.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Decided)]
pub(super) struct DecisionBody {
    /// Whether it passes.
    allowed: bool,
    /// Units the caller may use.
    granted: u64,
    /// Units left in the limit that has the fewest; negative only in uniform mode.
    remaining: i64,
    /// Microseconds after which the same request passes if no other request comes; 0 if it passed, -1 if never.
    #[schema(minimum = -1)]
    retry_after_us: i64,
    /// Microseconds until every limit is unused.
    reset_after_us: u64,
    /// The first limit that did not fit the request.
    limited_by: Option<String>,
    /// Units recorded.
    charged: u64,
    /// As retry_after_us, for the next request of this cost.
    #[schema(minimum = -1)]
    next_after_us: i64,
    /// When it was decided, in microseconds by the clock that decided: what a refund names.
    at_us: u64,
    /// Who decided: the home, or what stands in for it while it does not answer.
    source: SourceName,
    /// What decided: the policy's limits, or a rule that the policy has beside them.
    rule: RuleName,
    /// Each limit's part, unless many were decided at once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    limits: Vec<LimitBody>,
}

/// One limit's part in a decision.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LimitPart)]
pub(super) struct LimitBody {
    /// Its name, else its text.
    name: String,
    /// Whether the request fits it.
    fits: bool,
    /// Units left in it.
    remaining: i64,
    /// How long it alone would have the same request wait, in microseconds; -1 if never.
    #[schema(minimum = -1)]
    retry_after_us: i64,
    /// Microseconds until it is unused.
    reset_after_us: u64,
    /// Its count.
    count: u64,
}

/// Who decided.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum SourceName {
    /// The home.
    Home,
    /// This server alone, by its share of the limits.
    Local,
    /// No store: the policy lets every request pass.
    Open,
    /// No store: the policy lets no request pass.
    Closed,
}

impl From<tollgate_kernel::Source> for SourceName {
    fn from(source: tollgate_kernel::Source) -> Self {
        match source {
            tollgate_kernel::Source::Home => Self::Home,
            tollgate_kernel::Source::Local => Self::Local,
            tollgate_kernel::Source::Open => Self::Open,
            tollgate_kernel::Source::Closed => Self::Closed,
        }
    }
}

/// What decided.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum RuleName {
    /// The policy's limits.
    Policy,
    /// The key is always allowed.
    Allow,
    /// The key is always refused.
    Deny,
    /// The key is banned.
    Ban,
    /// Other limits that the key has.
    Override,
    /// It would have been refused, and the policy is in shadow mode.
    Shadow,
}

impl From<DecidingRule> for RuleName {
    fn from(rule: DecidingRule) -> Self {
        match rule {
            DecidingRule::Policy => Self::Policy,
            DecidingRule::Allow => Self::Allow,
            DecidingRule::Deny => Self::Deny,
            DecidingRule::Ban => Self::Ban,
            DecidingRule::Override => Self::Override,
            DecidingRule::Shadow => Self::Shadow,
        }
    }
}

impl DecisionBody {
    /// Returns a decision made by the limits of a policy alone.
    pub(super) fn plain(known: &EnginePolicy, decision: &Decision) -> Self {
        Self::new(known, &EngineVerdict::plain(*decision, Vec::new()))
    }

    pub(super) fn new(known: &EnginePolicy, verdict: &EngineVerdict) -> Self {
        let (policy, decision, details) = (&verdict.applied(known).policy, &verdict.decision, &verdict.details);
        let limits = policy.limits().iter().zip(details).map(|(limit, detail)| LimitBody {
            name: limit.name(),
            fits: detail.fits,
            remaining: detail.remaining,
            retry_after_us: detail.retry_after.as_flat(),
            reset_after_us: detail.reset_after.get(),
            count: detail.count,
        });
        Self {
            allowed: decision.allowed,
            granted: decision.granted,
            remaining: decision.remaining,
            retry_after_us: decision.retry_after.as_flat(),
            reset_after_us: decision.reset_after.get(),
            limited_by: decision.limited_by.and_then(|place| policy.limits().get(place)).map(|limit| limit.name()),
            charged: decision.charged,
            next_after_us: decision.next_after.as_flat(),
            at_us: decision.at.get(),
            source: decision.source.into(),
            rule: verdict.rule.into(),
            limits: limits.collect(),
        }
    }
}
