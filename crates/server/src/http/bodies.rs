//! What is asked and answered, as JSON. The document at `/openapi.json` is made of these types.

use serde::{Deserialize, Serialize};
use tollgate_core::{Cost, Decision, Detail, Mode, Policy};
use utoipa::ToSchema;

use super::problem::Problem;
use super::values::{Object, Whole, given};

/// A request to decide.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Check {
    /// Who asks, as text: 1 to 512 bytes. Either this or key_base64.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = String, required = false, min_length = 1, max_length = 512, format = "tollgate-key", example = "user:42")]
    pub(super) key: Option<String>,
    /// The same as any bytes, in base64.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = String, required = false, min_length = 2, max_length = 684, format = "byte")]
    pub(super) key_base64: Option<String>,
    /// The limits, such as 100/min, or the name of a policy of this server.
    #[schema(min_length = 1, max_length = 4096, format = "tollgate-policy", example = "100/min")]
    pub(super) policy: String,
    /// The policy name that the state is filed under; policies of one name share what they counted.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = String, required = false, pattern = "^[A-Za-z0-9_-]{1,64}$", format = "tollgate-name")]
    pub(super) name: Option<String>,
    /// How many units; 1 if it is not said.
    #[serde(default, deserialize_with = "given")]
    #[schema(schema_with = whole, required = false)]
    pub(super) cost: Option<Whole>,
    /// What becomes of a request that does not fit as a whole.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = ModeName, required = false)]
    pub(super) mode: Option<ModeName>,
}

/// A key to forget.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Reset {
    /// Who, as text: 1 to 512 bytes. Either this or key_base64.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = String, required = false, min_length = 1, max_length = 512, format = "tollgate-key", example = "user:42")]
    pub(super) key: Option<String>,
    /// The same as any bytes, in base64.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = String, required = false, min_length = 2, max_length = 684, format = "byte")]
    pub(super) key_base64: Option<String>,
    /// The limits, or a policy's name.
    #[schema(min_length = 1, max_length = 4096, format = "tollgate-policy", example = "100/min")]
    pub(super) policy: String,
    /// The policy name that the state is filed under.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = String, required = false, pattern = "^[A-Za-z0-9_-]{1,64}$", format = "tollgate-name")]
    pub(super) name: Option<String>,
}

/// Units to give back.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Refund {
    /// Who, as text: 1 to 512 bytes. Either this or key_base64.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = String, required = false, min_length = 1, max_length = 512, format = "tollgate-key", example = "user:42")]
    pub(super) key: Option<String>,
    /// The same as any bytes, in base64.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = String, required = false, min_length = 2, max_length = 684, format = "byte")]
    pub(super) key_base64: Option<String>,
    /// The limits, or a policy's name.
    #[schema(min_length = 1, max_length = 4096, format = "tollgate-policy", example = "100/min")]
    pub(super) policy: String,
    /// The policy name that the state is filed under.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = String, required = false, pattern = "^[A-Za-z0-9_-]{1,64}$", format = "tollgate-name")]
    pub(super) name: Option<String>,
    /// How many units were charged and are not needed.
    #[schema(schema_with = whole)]
    pub(super) units: Whole,
    /// When: at_us of the decision that charged them.
    #[schema(schema_with = whole)]
    pub(super) at_us: Whole,
}

/// A policy to explain, and perhaps how a key stands.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Explain {
    /// Whose standing is told too, as text.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = String, required = false, min_length = 1, max_length = 512, format = "tollgate-key", example = "user:42")]
    pub(super) key: Option<String>,
    /// The same as any bytes, in base64; at most one of the two.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = String, required = false, min_length = 2, max_length = 684, format = "byte")]
    pub(super) key_base64: Option<String>,
    /// The limits, or a policy's name.
    #[schema(min_length = 1, max_length = 4096, format = "tollgate-policy", example = "100/min")]
    pub(super) policy: String,
    /// The policy name that the state is filed under.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = String, required = false, pattern = "^[A-Za-z0-9_-]{1,64}$", format = "tollgate-name")]
    pub(super) name: Option<String>,
    /// How many units; 1 if it is not said.
    #[serde(default, deserialize_with = "given")]
    #[schema(schema_with = whole, required = false)]
    pub(super) cost: Option<Whole>,
    /// What becomes of a request that does not fit as a whole.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = ModeName, required = false)]
    pub(super) mode: Option<ModeName>,
}

/// Several requests to decide.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Batch {
    /// The requests, decided in order: 1 to 100, or 1 to 32 if all or none.
    #[schema(min_items = 1, max_items = 100, value_type = Vec<Check>)]
    pub(super) items: Vec<Object<Check>>,
    /// Whether all are charged or none is. Items then have no mode, and no two the same key and policy.
    #[serde(default)]
    pub(super) all_or_none: bool,
}

/// What becomes of a request that does not fit as a whole.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ModeName {
    /// It is refused and costs nothing.
    Binary,
    /// It is granted in part.
    Nary,
    /// It is refused and counts all the same.
    Uniform,
}

impl From<ModeName> for Mode {
    fn from(name: ModeName) -> Self {
        match name {
            ModeName::Binary => Self::Binary,
            ModeName::Nary => Self::Nary,
            ModeName::Uniform => Self::Uniform,
        }
    }
}

/// An optional whole number: what the type says of itself.
fn whole() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
    <Whole as utoipa::PartialSchema>::schema()
}

/// A decision. A refusal is one, too.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Decided {
    /// Whether it passes.
    allowed: bool,
    /// Units the caller may use.
    granted: u64,
    /// Units left, the least over the limits; negative only in uniform mode.
    remaining: i64,
    /// Microseconds after which the same request passes if nobody else comes; 0 if it passed, -1 if never.
    #[schema(minimum = -1)]
    retry_after_us: i64,
    /// Microseconds until all is as new.
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
    /// Each limit's part, unless many were decided at once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    limits: Vec<LimitPart>,
}

/// One limit's part in a decision.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LimitPart {
    /// Its name, else its text.
    name: String,
    /// Whether the request fits it.
    fits: bool,
    /// Units left in it.
    remaining: i64,
    /// How long it alone would have the same request wait, in microseconds; -1 if never.
    #[schema(minimum = -1)]
    retry_after_us: i64,
    /// Microseconds until it is as new.
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
    /// Nobody: the policy lets everything pass.
    Open,
    /// Nobody: the policy lets nothing pass.
    Closed,
}

impl From<tollgate_core::Source> for SourceName {
    fn from(source: tollgate_core::Source) -> Self {
        match source {
            tollgate_core::Source::Home => Self::Home,
            tollgate_core::Source::Local => Self::Local,
            tollgate_core::Source::Open => Self::Open,
            tollgate_core::Source::Closed => Self::Closed,
        }
    }
}

impl Decided {
    pub(super) fn new(policy: &Policy, decision: &Decision, details: &[Detail]) -> Self {
        let limits = policy.limits().iter().zip(details).map(|(limit, detail)| LimitPart {
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
            limits: limits.collect(),
        }
    }
}

/// It is forgotten.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ResetDone {
    /// Always true.
    pub(super) reset: bool,
}

/// Units given back.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Refunded {
    /// How many of them were still held.
    pub(super) refunded: u64,
}

/// A policy in words.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Explained {
    /// The policy as it is written in full.
    pub(super) policy: String,
    /// What it promises, a line a fact.
    pub(super) promises: Vec<String>,
    /// What would be decided now, if a key was given; nothing is charged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) now: Option<Decided>,
}

/// Decisions in the order of the items.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BatchDecided {
    /// Whether all passed; told only if it was all or none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) allowed: Option<bool>,
    /// The wait of the whole; told only if it was all or none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = -1)]
    pub(super) retry_after_us: Option<i64>,
    /// A decision each, or why there is none.
    pub(super) decisions: Vec<ItemDecided>,
}

/// A decision, or why there is none.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum ItemDecided {
    /// The decision.
    Decided(Decided),
    /// The item was wrong, or nobody decided it.
    Failed {
        /// Why.
        error: Problem,
    },
}

/// The policies that have names.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Listed {
    /// In the order the server was given them.
    pub(super) policies: Vec<NamedPolicy>,
}

/// A policy that callers may ask for by name.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct NamedPolicy {
    /// Its name.
    pub(super) name: String,
    /// Its text.
    pub(super) policy: String,
}

/// The cost that was asked, or one unit.
pub(super) fn cost(cost: Option<Whole>) -> Cost {
    cost.map_or(Cost::ONE, Whole::cost)
}
