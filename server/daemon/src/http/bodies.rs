//! The bodies of requests and answers, as JSON. The document at `/openapi.json` is generated from these types, and from
//! those of `decision.rs` and `reason.rs`.

use serde::{Deserialize, Serialize};
use tollgate_kernel::{Cost, Mode};
use utoipa::ToSchema;

use super::decision::DecisionBody;
use super::parts::KeyParts;
use super::problem::HttpProblem;
use super::reason::ReasonBody;
use super::values::{JsonObject, WholeNumber, non_null};
use tollgate_engine::usage::UsageRecord;

/// Declares the bodies of requests about a key under a policy: the fields that all of them have, and their own. The
/// second name is that of the schema in the OpenAPI document.
macro_rules! key_bodies {
    ($($(#[$doc:meta])* $name:ident as $schema:ident { $($own:tt)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        #[schema(as = $schema)]
        pub(super) struct $name {
            /// The key as text: 1 to 512 bytes. At most one of this, key_base64 and parts.
            #[serde(default, deserialize_with = "non_null")]
            #[schema(value_type = String, required = false, min_length = 1, max_length = 512, format = "tollgate-key", example = "user:42")]
            pub(super) key: Option<String>,
            /// The key as any bytes, in base64.
            #[serde(default, deserialize_with = "non_null")]
            #[schema(value_type = String, required = false, min_length = 2, max_length = 684, format = "byte")]
            pub(super) key_base64: Option<String>,
            /// What the key is made of, where the policy says so: each part by its name, such as {"user": "42"}.
            #[serde(default, deserialize_with = "non_null")]
            #[schema(value_type = BTreeMap<String, String>, required = false)]
            pub(super) parts: Option<KeyParts>,
            /// The limits, such as 100/min, or the name of a policy of this server.
            #[schema(min_length = 1, max_length = 4096, format = "tollgate-policy", example = "100/min")]
            pub(super) policy: String,
            /// The policy name that the state is filed under; policies of one name share what they counted.
            #[serde(default, deserialize_with = "non_null")]
            #[schema(value_type = String, required = false, pattern = "^[A-Za-z0-9_-]{1,64}$", format = "tollgate-name")]
            pub(super) name: Option<String>,
            $($own)*
        }
    )*};
}

key_bodies! {
    /// A request to decide.
    CheckRequest as Check {
        /// How many units; 1 if absent.
        #[serde(default, deserialize_with = "non_null")]
        #[schema(schema_with = whole, required = false)]
        pub(super) cost: Option<WholeNumber>,
        /// What becomes of a request that does not fit as a whole.
        #[serde(default, deserialize_with = "non_null")]
        #[schema(value_type = ModeName, required = false)]
        pub(super) mode: Option<ModeName>,
    }

    /// A key to forget.
    ResetRequest as Reset {}

    /// Units to give back.
    RefundRequest as Refund {
        /// How many units were charged and are not needed.
        #[schema(schema_with = whole)]
        pub(super) units: WholeNumber,
        /// When: at_us of the decision that charged them.
        #[schema(schema_with = whole)]
        pub(super) at_us: WholeNumber,
    }

    /// A policy to explain, and perhaps what it would decide for a key.
    ExplainRequest as Explain {
        /// How many units; 1 if absent.
        #[serde(default, deserialize_with = "non_null")]
        #[schema(schema_with = whole, required = false)]
        pub(super) cost: Option<WholeNumber>,
        /// What becomes of a request that does not fit as a whole.
        #[serde(default, deserialize_with = "non_null")]
        #[schema(value_type = ModeName, required = false)]
        pub(super) mode: Option<ModeName>,
    }
}

/// Several requests to decide.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Batch)]
pub(super) struct BatchRequest {
    /// The requests, decided in order: 1 to 100, or 1 to 32 if all or none.
    #[schema(min_items = 1, max_items = 100, value_type = Vec<CheckRequest>)]
    pub(super) items: Vec<JsonObject<CheckRequest>>,
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

/// Returns the schema of a whole number, for fields that are optional.
fn whole() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
    <WholeNumber as utoipa::PartialSchema>::schema()
}

/// It is forgotten.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ResetDone)]
pub(super) struct ResetBody {
    /// Always true.
    pub(super) reset: bool,
}

/// Units given back.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Refunded)]
pub(super) struct RefundBody {
    /// How many of them were still held.
    pub(super) refunded: u64,
}

/// A policy in words.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Explained)]
pub(super) struct ExplanationBody {
    /// The policy as it is written in full.
    pub(super) policy: String,
    /// What it promises, a line a fact.
    pub(super) promises: Vec<String>,
    /// The number of the policies in use, if it is one of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) generation: Option<u64>,
    /// What would be decided now, if a key was given; nothing is charged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) now: Option<DecisionBody>,
    /// Why the key is decided so, if one was given and the policy is one of those in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) because: Option<ReasonBody>,
    /// What the key used of the policy so far, if a key was given and the policy keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<KeyUsage>,
}

/// What a key used of a policy.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct KeyUsage {
    /// Decisions, without peeks.
    requests: u64,
    /// Of these, those that were refused.
    refused: u64,
    /// Units granted.
    units: u64,
    /// When it was used first, in microseconds by the clock that decides; 0 if it was not.
    first_us: u64,
    /// When it was used last.
    last_us: u64,
}

impl From<UsageRecord> for KeyUsage {
    fn from(used: UsageRecord) -> Self {
        let UsageRecord { requests, refused, units, first, last } = used;
        Self { requests, refused, units, first_us: first.get(), last_us: last.get() }
    }
}

/// Decisions in the order of the items.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BatchDecided)]
pub(super) struct BatchBody {
    /// Whether all passed; present only if `all_or_none` is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) allowed: Option<bool>,
    /// The wait of the whole; present only if `all_or_none` is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = -1)]
    pub(super) retry_after_us: Option<i64>,
    /// A decision each, or why there is none.
    pub(super) decisions: Vec<BatchItemBody>,
}

/// A decision, or why there is none.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = ItemDecided)]
pub(super) enum BatchItemBody {
    /// The decision.
    Decided(DecisionBody),
    /// The item was wrong, or could not be decided.
    Failed {
        /// Why.
        error: HttpProblem,
    },
}

/// Returns the cost that was given, or one unit.
pub(super) fn cost(cost: Option<WholeNumber>) -> Cost {
    cost.map_or(Cost::ONE, WholeNumber::cost)
}
