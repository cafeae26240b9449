//! The bodies of requests and answers, as JSON. The document at `/openapi.json` is generated from these types, and from
//! those of `decided.rs` and `because.rs`.

use serde::{Deserialize, Serialize};
use tollgate_kernel::{Cost, Mode};
use utoipa::ToSchema;

use super::because::Because;
use super::decided::Decided;
use super::parts::Parts;
use super::problem::Problem;
use super::values::{Object, Whole, given};
use tollgate_engine::usage::Used;

/// Declares the bodies of requests about a key under a policy: the fields that all of them have, and their own.
macro_rules! key_bodies {
    ($($(#[$doc:meta])* $name:ident { $($own:tt)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $name {
            /// The key as text: 1 to 512 bytes. At most one of this, key_base64 and parts.
            #[serde(default, deserialize_with = "given")]
            #[schema(value_type = String, required = false, min_length = 1, max_length = 512, format = "tollgate-key", example = "user:42")]
            pub(super) key: Option<String>,
            /// The key as any bytes, in base64.
            #[serde(default, deserialize_with = "given")]
            #[schema(value_type = String, required = false, min_length = 2, max_length = 684, format = "byte")]
            pub(super) key_base64: Option<String>,
            /// What the key is made of, where the policy says so: each part by its name, such as {"user": "42"}.
            #[serde(default, deserialize_with = "given")]
            #[schema(value_type = BTreeMap<String, String>, required = false)]
            pub(super) parts: Option<Parts>,
            /// The limits, such as 100/min, or the name of a policy of this server.
            #[schema(min_length = 1, max_length = 4096, format = "tollgate-policy", example = "100/min")]
            pub(super) policy: String,
            /// The policy name that the state is filed under; policies of one name share what they counted.
            #[serde(default, deserialize_with = "given")]
            #[schema(value_type = String, required = false, pattern = "^[A-Za-z0-9_-]{1,64}$", format = "tollgate-name")]
            pub(super) name: Option<String>,
            $($own)*
        }
    )*};
}

key_bodies! {
    /// A request to decide.
    Check {
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
    Reset {}

    /// Units to give back.
    Refund {
        /// How many units were charged and are not needed.
        #[schema(schema_with = whole)]
        pub(super) units: Whole,
        /// When: at_us of the decision that charged them.
        #[schema(schema_with = whole)]
        pub(super) at_us: Whole,
    }

    /// A policy to explain, and perhaps what it would decide for a key.
    Explain {
        /// How many units; 1 if it is not said.
        #[serde(default, deserialize_with = "given")]
        #[schema(schema_with = whole, required = false)]
        pub(super) cost: Option<Whole>,
        /// What becomes of a request that does not fit as a whole.
        #[serde(default, deserialize_with = "given")]
        #[schema(value_type = ModeName, required = false)]
        pub(super) mode: Option<ModeName>,
    }
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

/// Returns the schema of a whole number, for fields that are optional.
fn whole() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
    <Whole as utoipa::PartialSchema>::schema()
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
    /// The number of the policies in use, if it is one of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) generation: Option<u64>,
    /// What would be decided now, if a key was given; nothing is charged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) now: Option<Decided>,
    /// Why the key is decided so, if one was given and the policy is one of those in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) because: Option<Because>,
    /// What the key used of the policy so far, if a key was given and the policy keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<KeyUsage>,
}

/// What a key used of a policy.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct KeyUsage {
    /// Decisions; peeks are none.
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

impl From<Used> for KeyUsage {
    fn from(used: Used) -> Self {
        let Used { requests, refused, units, first, last } = used;
        Self { requests, refused, units, first_us: first.get(), last_us: last.get() }
    }
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

/// Returns the cost that was given, or one unit.
pub(super) fn cost(cost: Option<Whole>) -> Cost {
    cost.map_or(Cost::ONE, Whole::cost)
}
