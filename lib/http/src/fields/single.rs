//! Dialects whose fields describe one limit, the tightest. Two layers share one set of fields, that with the least
//! left.

use std::cmp::Reverse;

use http::header::{Entry, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use tollgate_kernel::algorithms::Rule;
use tollgate_kernel::{Detail, Limit, Policy, Wait};

use super::list::window;
use crate::dialect::{HeaderDialect, HeaderNames, Reset};
use crate::report::DecisionReport;
use crate::seconds::Stretch;
use crate::text::{FieldBuffer, integer, number, quote};
use crate::upstream;

const DRAFT_LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const DRAFT_REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const DRAFT_RESET: HeaderName = HeaderName::from_static("ratelimit-reset");
const DRAFT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const DRAFT_DICTIONARY: HeaderName = HeaderName::from_static("ratelimit");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// A set of fields, in the order in which they are written.
#[derive(Clone, Debug)]
pub(super) struct SingleFields(Vec<(HeaderName, FieldKind)>);

/// The value of a field.
#[derive(Clone, Debug)]
enum FieldKind {
    /// The count, by the index of the limit.
    Limit(Vec<HeaderValue>),
    /// The units left.
    Remaining,
    /// The number of seconds until the limit is back in its initial state; in a refusal, until the request passes, as
    /// in `Retry-After`.
    Passes,
    /// The time when the limit is back in its initial state.
    New(Reset),
    /// All values in one dictionary, as in draft-7; the text before the figures, by the index of the limit.
    Dictionary(Vec<Vec<u8>>),
    /// All limits.
    Policy(HeaderValue),
    /// In a refusal, the wait.
    Wait,
    /// The time for which an empty bucket stays empty; whether the limit is a bucket, by the index of the limit.
    Empty(Vec<bool>),
}

impl SingleFields {
    /// Returns the fields of a dialect except those that are taken; `None` if the remaining fields have no meaning
    /// alone.
    pub(super) fn new(dialect: &HeaderDialect, policy: &Policy, taken: &mut Vec<HeaderName>) -> Option<Self> {
        let mut fields = fields(dialect, policy);
        if matches!(dialect, HeaderDialect::Draft7) && taken.contains(&DRAFT_DICTIONARY) {
            return None;
        }
        // Other dialects may write `Retry-After` too: the later time is kept.
        fields.retain(|(name, _)| *name == RETRY_AFTER || !taken.contains(name));
        taken.extend(fields.iter().map(|(name, _)| name.clone()).filter(|name| *name != RETRY_AFTER));
        (!fields.is_empty()).then_some(Self(fields))
    }

    pub(super) fn write(
        &self,
        report: &DecisionReport<'_>,
        details: &[Detail],
        tightest: usize,
        stretch: Stretch,
        into: &mut HeaderMap,
    ) {
        let Some(detail) = details.get(tightest) else { return };
        if self.is_tighter_there(report, detail, stretch, into) {
            return;
        }
        for (name, kind) in &self.0 {
            match kind.value(report, details, tightest, stretch) {
                Some(value) if *name == RETRY_AFTER => keep_later(into, RETRY_AFTER, value),
                Some(value) => drop(into.insert(name, value)),
                // Nothing of a replaced set may remain.
                None if *name != RETRY_AFTER => drop(into.remove(name)),
                None => {}
            }
        }
    }

    /// Returns whether another layer's set has less left, or the same amount with a reset at the same time or later.
    fn is_tighter_there(
        &self,
        report: &DecisionReport<'_>,
        detail: &Detail,
        stretch: Stretch,
        headers: &HeaderMap,
    ) -> bool {
        let (mut left_there, mut reset_there, mut own_reset) = (None, None, None);
        for (name, kind) in &self.0 {
            match kind {
                FieldKind::Remaining => left_there = headers.get(name).and_then(upstream::integer),
                FieldKind::Dictionary(_) => {
                    let Some(value) = headers.get(name) else { return false };
                    let Some(there) = upstream::dictionary(value.as_bytes()) else { return false };
                    (left_there, reset_there) = (Some(there.remaining), there.reset);
                }
                FieldKind::Passes | FieldKind::New(_) => reset_there = headers.get(name).and_then(upstream::integer),
                _ => {}
            }
            own_reset = kind.reset(report, detail, stretch).or(own_reset);
        }
        let rank = |left: u64, reset: Option<u64>| (left, Reverse(reset));
        left_there.is_some_and(|left| rank(left, reset_there) <= rank(remaining(detail), own_reset))
    }
}

impl FieldKind {
    fn value(
        &self,
        report: &DecisionReport<'_>,
        details: &[Detail],
        place: usize,
        stretch: Stretch,
    ) -> Option<HeaderValue> {
        let detail = details.get(place)?;
        match self {
            Self::Limit(counts) => counts.get(place).cloned(),
            Self::Remaining => Some(number(remaining(detail))),
            Self::Passes | Self::New(_) => self.reset(report, detail, stretch).map(number),
            Self::Policy(policies) => Some(policies.clone()),
            Self::Dictionary(heads) => {
                let mut line = FieldBuffer::new();
                line.push(heads.get(place)?);
                line.integer(remaining(detail));
                line.push(b", reset=");
                line.integer(self.reset(report, detail, stretch)?);
                line.value()
            }
            Self::Wait => report.retry_after(details).map(|wait| number(stretch.seconds(wait))),
            Self::Empty(buckets) => match (buckets.get(place), report.decision.next_after) {
                (Some(true), Wait::After(wait)) if wait.get() > 0 => Some(number(stretch.seconds(wait))),
                _ => None,
            },
        }
    }

    /// Returns the reset value of this kind, if it has one.
    fn reset(&self, report: &DecisionReport<'_>, detail: &Detail, stretch: Stretch) -> Option<u64> {
        match self {
            // For a request that never passes, the value is the time until the limit is back in its initial state.
            Self::Passes | Self::Dictionary(_) => {
                Some(stretch.seconds(report.wait(detail).unwrap_or(detail.reset_after)))
            }
            Self::New(Reset::Delta) => Some(stretch.seconds(detail.reset_after)),
            Self::New(Reset::Unix) => Some(stretch.moment(report.decision.at, detail.reset_after)),
            _ => None,
        }
    }
}

fn remaining(detail: &Detail) -> u64 {
    u64::try_from(detail.remaining).unwrap_or(0)
}

/// Writes `Retry-After`, unless there is a later one, or one that is a date: a date was set deliberately.
pub(super) fn keep_later(into: &mut HeaderMap, name: HeaderName, value: HeaderValue) {
    match into.entry(name) {
        Entry::Vacant(free) => {
            free.insert(value);
        }
        Entry::Occupied(mut there) => {
            let (Some(old), Some(new)) = (upstream::integer(there.get()), upstream::integer(&value)) else { return };
            if old < new {
                there.insert(value);
            }
        }
    }
}

fn fields(dialect: &HeaderDialect, policy: &Policy) -> Vec<(HeaderName, FieldKind)> {
    let limits = policy.limits();
    let counts = || limits.iter().map(|limit| number(limit.count())).collect();
    match dialect {
        // Lists are written by `list.rs`.
        HeaderDialect::Draft10 | HeaderDialect::Draft8 => Vec::new(),
        HeaderDialect::Draft7 => {
            let heads = limits.iter().map(|limit| {
                let mut text = b"limit=".to_vec();
                integer(limit.count(), &mut text);
                text.extend_from_slice(b", remaining=");
                text
            });
            let mut fields = vec![(DRAFT_DICTIONARY, FieldKind::Dictionary(heads.collect()))];
            fields.extend(unnamed(policy).map(|policies| (DRAFT_POLICY, FieldKind::Policy(policies))));
            fields
        }
        HeaderDialect::Draft6 => {
            let mut fields = vec![
                (DRAFT_LIMIT, FieldKind::Limit(counts())),
                (DRAFT_REMAINING, FieldKind::Remaining),
                (DRAFT_RESET, FieldKind::Passes),
            ];
            fields.extend(unnamed(policy).map(|policies| (DRAFT_POLICY, FieldKind::Policy(policies))));
            fields
        }
        HeaderDialect::XRateLimit(reset) => {
            vec![
                (X_LIMIT, FieldKind::Limit(counts())),
                (X_REMAINING, FieldKind::Remaining),
                (X_RESET, FieldKind::New(*reset)),
            ]
        }
        HeaderDialect::Envoy => {
            vec![
                (X_LIMIT, FieldKind::Limit(envoy(policy))),
                (X_REMAINING, FieldKind::Remaining),
                (X_RESET, FieldKind::Passes),
            ]
        }
        HeaderDialect::Plug => {
            let buckets = limits.iter().map(|limit| matches!(limit.rule(), Rule::Bucket(_))).collect();
            vec![
                (X_LIMIT, FieldKind::Limit(limits.iter().filter_map(|limit| plug(limit)).collect())),
                (X_RESET, FieldKind::New(Reset::Delta)),
                (X_REMAINING, FieldKind::Remaining),
                (RETRY_AFTER, FieldKind::Empty(buckets)),
            ]
        }
        HeaderDialect::Names(names) => own(names, counts()),
    }
}

fn own(names: &HeaderNames, counts: Vec<HeaderValue>) -> Vec<(HeaderName, FieldKind)> {
    let HeaderNames { limit, remaining, reset, retry_after } = names.clone();
    let mut fields = Vec::new();
    fields.extend(limit.map(|name| (name, FieldKind::Limit(counts))));
    fields.extend(remaining.map(|name| (name, FieldKind::Remaining)));
    fields.extend(reset.map(|(name, reset)| (name, FieldKind::New(reset))));
    fields.extend(retry_after.map(|name| (name, FieldKind::Wait)));
    fields
}

/// Returns `10;w=60, 100;w=3600`: all limits, as in draft-6 and draft-7.
fn unnamed(policy: &Policy) -> Option<HeaderValue> {
    let mut text = Vec::new();
    for limit in policy.limits() {
        if !text.is_empty() {
            text.extend_from_slice(b", ");
        }
        integer(limit.count(), &mut text);
        window(limit.period(), &mut text);
    }
    HeaderValue::from_bytes(&text).ok()
}

/// Returns `10, 10;w=60;name="permin", 100;w=3600;name="perhr"`: the tightest limit, then all; by the index of the
/// tightest.
fn envoy(policy: &Policy) -> Vec<HeaderValue> {
    let mut all = Vec::new();
    for limit in policy.limits() {
        all.extend_from_slice(b", ");
        integer(limit.count(), &mut all);
        window(limit.period(), &mut all);
        all.extend_from_slice(b";name=");
        quote(&limit.name(), &mut all);
    }
    let line = |limit: &Limit| {
        let mut text = Vec::new();
        integer(limit.count(), &mut text);
        text.extend_from_slice(&all);
        HeaderValue::from_bytes(&text).ok()
    };
    policy.limits().iter().filter_map(|limit| line(limit)).collect()
}

/// Returns `10`, or for a bucket `15 15;w=60;burst=3;policy=token_bucket`.
fn plug(limit: &Limit) -> Option<HeaderValue> {
    let (count, period, options) = limit.rule().numbers();
    let (Some(burst), Rule::Bucket(_)) = (options.burst, limit.rule()) else { return Some(number(count)) };
    let mut text = Vec::new();
    integer(count, &mut text);
    text.push(b' ');
    integer(count, &mut text);
    window(period, &mut text);
    text.extend_from_slice(b";burst=");
    integer(burst, &mut text);
    text.extend_from_slice(b";policy=token_bucket");
    HeaderValue::from_bytes(&text).ok()
}
