//! The result of a replay, as data: `--json` prints it as it is, `report.rs` formats it for people.

use serde::Serialize;
use tollgate_kernel::{Policy, Wait};

use super::args::ReplayArgs;
use super::decider::{ReplayOutcome, Totals};
use super::feed::{Faults, FeedSummary};
use super::format::TimeUnit;
use super::tally::{PolicyResult, RefusedKey};
use crate::{moment, text};

/// The whole result. Durations and times are in microseconds, -1 is never.
#[derive(Debug, Serialize)]
pub(crate) struct ReplaySummary {
    pub(crate) input: InputPart,
    pub(crate) requests: u64,
    pub(crate) peeks: u64,
    pub(crate) units: u128,
    pub(crate) keys: u64,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) span_us: u64,
    pub(crate) out_of_order: FaultList<OutOfOrderPart>,
    pub(crate) malformed: FaultList<MalformedLinePart>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) policies: Vec<PolicyResultPart>,
}

/// The input, and how it was interpreted.
#[derive(Debug, Serialize)]
pub(crate) struct InputPart {
    pub(crate) file: String,
    pub(crate) format: &'static str,
    pub(crate) key: String,
    pub(crate) time_unit: Option<&'static str>,
    pub(crate) lines: u64,
    #[serde(skip)]
    pub(crate) unit: Option<TimeUnit>,
}

/// Faulty lines: how many, and the first of them.
#[derive(Debug, Serialize)]
pub(crate) struct FaultList<T> {
    pub(crate) count: u64,
    pub(crate) first: Vec<T>,
}

/// A line that is out of order.
#[derive(Debug, Serialize)]
pub(crate) struct OutOfOrderPart {
    pub(crate) line: u64,
    pub(crate) behind_us: u64,
}

/// A malformed line.
#[derive(Debug, Serialize)]
pub(crate) struct MalformedLinePart {
    pub(crate) line: u64,
    pub(crate) reason: String,
}

/// The result of one policy.
#[derive(Debug, Serialize)]
pub(crate) struct PolicyResultPart {
    pub(crate) policy: String,
    pub(crate) mode: &'static str,
    pub(crate) allowed: u64,
    pub(crate) partial: u64,
    pub(crate) refused: u64,
    pub(crate) granted_units: u128,
    pub(crate) keys_refused: u64,
    pub(crate) longest_wait_us: i64,
    pub(crate) limits: Vec<LimitRefusalsPart>,
    pub(crate) hardest: Vec<RefusedKeyPart>,
    #[serde(skip)]
    pub(crate) longest_wait: Wait,
}

/// The refusals of one limit.
#[derive(Debug, Serialize)]
pub(crate) struct LimitRefusalsPart {
    pub(crate) name: String,
    pub(crate) limit: String,
    pub(crate) refused: u64,
}

/// The result of one key.
#[derive(Debug, Serialize)]
pub(crate) struct RefusedKeyPart {
    pub(crate) key: String,
    pub(crate) refused: u64,
    pub(crate) requests: u64,
    pub(crate) first_refusal: String,
    pub(crate) first_refusal_us: u64,
    pub(crate) longest_wait_us: i64,
    #[serde(skip)]
    pub(crate) longest_wait: Wait,
    #[serde(skip)]
    pub(crate) bytes: Vec<u8>,
}

impl ReplaySummary {
    /// Returns the summary of a finished replay.
    pub(crate) fn new(args: &ReplayArgs, policies: &[Policy], feed: &FeedSummary, outcome: ReplayOutcome) -> Self {
        let (from, to) = feed.span.unwrap_or_default();
        let Totals { requests, peeks, units, keys } = outcome.totals;
        let results = policies.iter().zip(outcome.policies);
        Self {
            input: InputPart {
                file: args.shown_file(),
                format: feed.format,
                key: feed.key.clone(),
                time_unit: feed.unit.map(TimeUnit::name),
                lines: feed.lines,
                unit: feed.unit,
            },
            requests,
            peeks,
            units,
            keys,
            from: moment::print(from),
            to: moment::print(to),
            span_us: to - from,
            out_of_order: list(&feed.out_of_order, |line, behind| OutOfOrderPart { line, behind_us: behind.get() }),
            malformed: list(&feed.malformed, |line, reason| MalformedLinePart { line, reason: reason.to_string() }),
            policies: results.map(|(policy, result)| policy_part(policy, result)).collect(),
        }
    }

    /// Formats one JSON document.
    pub(crate) fn json(&self) -> String {
        // Strings and numbers always have a JSON form.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

fn list<T, U>(faults: &Faults<T>, part: impl Fn(u64, &T) -> U) -> FaultList<U> {
    FaultList { count: faults.count, first: faults.first.iter().map(|(line, fault)| part(*line, fault)).collect() }
}

fn policy_part(policy: &Policy, result: PolicyResult) -> PolicyResultPart {
    let PolicyResult { counts, longest, hardest } = result;
    let limits = policy.limits().iter().zip(&counts.by_limit);
    PolicyResultPart {
        policy: policy.to_string(),
        mode: policy.mode().name(),
        allowed: counts.allowed,
        partial: counts.partial,
        refused: counts.refused,
        granted_units: counts.granted,
        keys_refused: counts.keys_refused,
        longest_wait_us: longest.as_flat(),
        limits: limits
            .map(|(limit, &refused)| LimitRefusalsPart { name: limit.name(), limit: limit.to_string(), refused })
            .collect(),
        hardest: hardest.into_iter().map(key_part).collect(),
        longest_wait: longest,
    }
}

fn key_part(hit: RefusedKey) -> RefusedKeyPart {
    RefusedKeyPart {
        key: text::key(&hit.key),
        refused: hit.refusals.count,
        requests: hit.requests,
        first_refusal: moment::print(hit.refusals.first),
        first_refusal_us: hit.refusals.first,
        longest_wait_us: hit.refusals.longest().as_flat(),
        longest_wait: hit.refusals.longest(),
        bytes: hit.key,
    }
}
