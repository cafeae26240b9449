//! `/v1/policies`: the generation in use, and the settings of each policy in the file.

use hyper::StatusCode;
use serde::Serialize;
use tollgate_config::{Override, Pattern};
use utoipa::ToSchema;

use super::call::HttpCall;
use super::problem::HttpProblem;
use super::query::parameters;
use super::reason::{CandidateBody, OverrideBody};
use tollgate_engine::EnginePolicy;
use tollgate_keyspace::quoted;

/// The largest number of policies in one answer.
const MAX_POLICIES: usize = 1_000;
/// The largest number of entries of a list in an answer with several policies.
const MAX_ENTRIES: usize = 20;

/// The policies that have names.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Listed)]
pub(super) struct PolicyList {
    /// The number of the policies in use; each change of the file has its own.
    generation: u64,
    /// How many there are.
    count: usize,
    /// Those of the command line, then those of the file in its order: at most 1000, behind the one named by after.
    policies: Vec<NamedPolicy>,
}

/// A policy that callers may ask for by name.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct NamedPolicy {
    /// Its name.
    name: String,
    /// Its text.
    policy: String,
    /// What becomes of a request that does not fit as a whole.
    mode: &'static str,
    /// Who decides while the store does not answer.
    on_error: &'static str,
    /// What its keys are made of; nothing if callers name the key.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    key: Vec<String>,
    /// Keys and patterns that are always allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    allow: Option<KeyList>,
    /// Keys and patterns that are always refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    deny: Option<KeyList>,
    /// Other limits for some keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    overrides: Option<OverrideList>,
    /// Whether it is in shadow mode: it refuses no request.
    shadow: bool,
    /// Limits that are tried beside the live ones, and what they would have decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    candidate: Option<CandidateBody>,
    /// When keys are banned, and for how long.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    ban: Option<String>,
    /// Whether it is kept who used how much.
    usage: bool,
    /// Percentages of a limit at which an alert is raised.
    alerts: Vec<u8>,
    /// What people should know about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    note: Option<String>,
}

/// A list, or its beginning: all of it is told of the policy that name asks for.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(super) struct KeyList {
    /// How many there are.
    count: usize,
    /// The first of them.
    entries: Vec<String>,
}

/// The same of overrides.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(super) struct OverrideList {
    /// How many there are.
    count: usize,
    /// The first of them.
    entries: Vec<OverrideBody>,
}

pub(super) fn policies(call: &HttpCall<'_>) -> Result<PolicyList, HttpProblem> {
    let [name, after] = parameters(call.parts.uri.query(), ["name", "after"])?;
    let generation = call.shared.engine.generation();
    let (all, number) = (&generation.listed, generation.number);
    let place = |name: &str| {
        let place = all.iter().position(|known| known.policy.name() == name);
        let text = || format!("expected the name of a policy, found {}", quoted(name.as_bytes()));
        place.ok_or_else(|| HttpProblem::new(StatusCode::NOT_FOUND, text()))
    };
    let (from, most, entries) = match (&name, &after) {
        (Some(name), Some(after)) => {
            let (at, after) = (place(name)?, place(after)?);
            (at, usize::from(at > after), usize::MAX)
        }
        (Some(name), None) => (place(name)?, 1, usize::MAX),
        (None, Some(after)) => (place(after)? + 1, MAX_POLICIES, MAX_ENTRIES),
        (None, None) => (0, MAX_POLICIES, MAX_ENTRIES),
    };
    let policies = all.iter().skip(from).take(most).map(|known| named_policy(known, entries));
    Ok(PolicyList { generation: number, count: all.len(), policies: policies.collect() })
}

fn named_policy(known: &EnginePolicy, most: usize) -> NamedPolicy {
    let entry = known.entry.as_deref();
    let keys = |list: &[Pattern]| {
        let entries = list.iter().take(most).map(Pattern::to_string).collect();
        (!list.is_empty()).then_some(KeyList { count: list.len(), entries })
    };
    let overrides = |list: &[Override]| {
        let entries = list.iter().take(most).map(OverrideBody::new).collect();
        (!list.is_empty()).then_some(OverrideList { count: list.len(), entries })
    };
    let rules = known.rules.as_deref();
    NamedPolicy {
        name: known.policy.name().to_owned(),
        policy: known.policy.to_string(),
        mode: known.policy.mode().name(),
        on_error: known.policy.on_error().name(),
        key: entry.map_or_else(Vec::new, |entry| entry.key.iter().map(ToString::to_string).collect()),
        allow: entry.and_then(|entry| keys(&entry.allow)),
        deny: entry.and_then(|entry| keys(&entry.deny)),
        overrides: entry.and_then(|entry| overrides(&entry.overrides)),
        shadow: entry.is_some_and(|entry| entry.shadow),
        candidate: rules
            .and_then(|rules| rules.candidate())
            .map(|candidate| CandidateBody::new(candidate.known.policy.to_string(), candidate.flips())),
        ban: entry.and_then(|entry| entry.ban).map(|ban| ban.to_string()),
        usage: entry.is_some_and(|entry| entry.usage),
        alerts: entry.map_or_else(Vec::new, |entry| entry.alerts.clone()),
        note: entry.and_then(|entry| entry.note.clone()),
    }
}
