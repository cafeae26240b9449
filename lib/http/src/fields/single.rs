//! Dialects whose fields describe one limit, the tightest. Two layers share one set of fields, that with the least
//! left.

use std::cmp::Reverse;

use http::header::{Entry, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use tollgate_kernel::{Detail, Limit, Policy, Wait};

use super::list::window;
use crate::dialect::{Dialect, Names, Reset};
use crate::said;
use crate::seconds::Stretch;
use crate::text::{Line, integer, number, quote};
use crate::told::Told;

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
pub(super) struct Single(Vec<(HeaderName, Column)>);

/// The value of a field.
#[derive(Clone, Debug)]
enum Column {
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

impl Single {
    /// Returns the fields of a dialect except those that are taken; `None` if the remaining fields have no meaning
    /// alone.
    pub(super) fn new(dialect: &Dialect, policy: &Policy, taken: &mut Vec<HeaderName>) -> Option<Self> {
        let mut columns = columns(dialect, policy);
        if matches!(dialect, Dialect::Draft7) && taken.contains(&DRAFT_DICTIONARY) {
            return None;
        }
        // Other dialects may write `Retry-After` too: the later time is kept.
        columns.retain(|(name, _)| *name == RETRY_AFTER || !taken.contains(name));
        taken.extend(columns.iter().map(|(name, _)| name.clone()).filter(|name| *name != RETRY_AFTER));
        (!columns.is_empty()).then_some(Self(columns))
    }

    pub(super) fn write(
        &self,
        told: &Told<'_>,
        details: &[Detail],
        tightest: usize,
        stretch: Stretch,
        into: &mut HeaderMap,
    ) {
        let Some(detail) = details.get(tightest) else { return };
        if self.is_tighter_there(told, detail, stretch, into) {
            return;
        }
        for (name, column) in &self.0 {
            match column.value(told, details, tightest, stretch) {
                Some(value) if *name == RETRY_AFTER => keep_later(into, RETRY_AFTER, value),
                Some(value) => drop(into.insert(name, value)),
                // Nothing of a replaced set may remain.
                None if *name != RETRY_AFTER => drop(into.remove(name)),
                None => {}
            }
        }
    }

    /// Returns whether another layer's set has less left, or the same amount with a reset at the same time or later.
    fn is_tighter_there(&self, told: &Told<'_>, detail: &Detail, stretch: Stretch, headers: &HeaderMap) -> bool {
        let (mut left_there, mut reset_there, mut own_reset) = (None, None, None);
        for (name, column) in &self.0 {
            match column {
                Column::Remaining => left_there = headers.get(name).and_then(said::integer),
                Column::Dictionary(_) => {
                    let Some(value) = headers.get(name) else { return false };
                    let Some(there) = said::dictionary(value.as_bytes()) else { return false };
                    (left_there, reset_there) = (Some(there.remaining), there.reset);
                }
                Column::Passes | Column::New(_) => reset_there = headers.get(name).and_then(said::integer),
                _ => {}
            }
            own_reset = column.reset(told, detail, stretch).or(own_reset);
        }
        let rank = |left: u64, reset: Option<u64>| (left, Reverse(reset));
        left_there.is_some_and(|left| rank(left, reset_there) <= rank(remaining(detail), own_reset))
    }
}

impl Column {
    fn value(&self, told: &Told<'_>, details: &[Detail], place: usize, stretch: Stretch) -> Option<HeaderValue> {
        let detail = details.get(place)?;
        match self {
            Self::Limit(counts) => counts.get(place).cloned(),
            Self::Remaining => Some(number(remaining(detail))),
            Self::Passes | Self::New(_) => self.reset(told, detail, stretch).map(number),
            Self::Policy(policies) => Some(policies.clone()),
            Self::Dictionary(heads) => {
                let mut line = Line::new();
                line.push(heads.get(place)?);
                line.integer(remaining(detail));
                line.push(b", reset=");
                line.integer(self.reset(told, detail, stretch)?);
                line.value()
            }
            Self::Wait => told.retry_after(details).map(|wait| number(stretch.seconds(wait))),
            Self::Empty(buckets) => match (buckets.get(place), told.decision.next_after) {
                (Some(true), Wait::After(wait)) if wait.get() > 0 => Some(number(stretch.seconds(wait))),
                _ => None,
            },
        }
    }

    /// Returns the reset value of this column, if it has one.
    fn reset(&self, told: &Told<'_>, detail: &Detail, stretch: Stretch) -> Option<u64> {
        match self {
            // For a request that never passes, the value is the time until the limit is back in its initial state.
            Self::Passes | Self::Dictionary(_) => {
                Some(stretch.seconds(told.wait(detail).unwrap_or(detail.reset_after)))
            }
            Self::New(Reset::Delta) => Some(stretch.seconds(detail.reset_after)),
            Self::New(Reset::Unix) => Some(stretch.moment(told.decision.at, detail.reset_after)),
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
            let (Some(old), Some(new)) = (said::integer(there.get()), said::integer(&value)) else { return };
            if old < new {
                there.insert(value);
            }
        }
    }
}

fn columns(dialect: &Dialect, policy: &Policy) -> Vec<(HeaderName, Column)> {
    let limits = policy.limits();
    let counts = || limits.iter().map(|limit| number(limit.count())).collect();
    match dialect {
        // Lists are written by `list.rs`.
        Dialect::Draft10 | Dialect::Draft8 => Vec::new(),
        Dialect::Draft7 => {
            let heads = limits.iter().map(|limit| {
                let mut text = b"limit=".to_vec();
                integer(limit.count(), &mut text);
                text.extend_from_slice(b", remaining=");
                text
            });
            let mut columns = vec![(DRAFT_DICTIONARY, Column::Dictionary(heads.collect()))];
            columns.extend(unnamed(policy).map(|policies| (DRAFT_POLICY, Column::Policy(policies))));
            columns
        }
        Dialect::Draft6 => {
            let mut columns = vec![
                (DRAFT_LIMIT, Column::Limit(counts())),
                (DRAFT_REMAINING, Column::Remaining),
                (DRAFT_RESET, Column::Passes),
            ];
            columns.extend(unnamed(policy).map(|policies| (DRAFT_POLICY, Column::Policy(policies))));
            columns
        }
        Dialect::XRateLimit(reset) => {
            vec![(X_LIMIT, Column::Limit(counts())), (X_REMAINING, Column::Remaining), (X_RESET, Column::New(*reset))]
        }
        Dialect::Envoy => {
            vec![(X_LIMIT, Column::Limit(envoy(policy))), (X_REMAINING, Column::Remaining), (X_RESET, Column::Passes)]
        }
        Dialect::Plug => {
            let buckets = limits.iter().map(|limit| limit.rule().name() == "bucket").collect();
            vec![
                (X_LIMIT, Column::Limit(limits.iter().filter_map(|limit| plug(limit)).collect())),
                (X_RESET, Column::New(Reset::Delta)),
                (X_REMAINING, Column::Remaining),
                (RETRY_AFTER, Column::Empty(buckets)),
            ]
        }
        Dialect::Names(names) => own(names, counts()),
    }
}

fn own(names: &Names, counts: Vec<HeaderValue>) -> Vec<(HeaderName, Column)> {
    let Names { limit, remaining, reset, retry_after } = names.clone();
    let mut columns = Vec::new();
    columns.extend(limit.map(|name| (name, Column::Limit(counts))));
    columns.extend(remaining.map(|name| (name, Column::Remaining)));
    columns.extend(reset.map(|(name, reset)| (name, Column::New(reset))));
    columns.extend(retry_after.map(|name| (name, Column::Wait)));
    columns
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
    let (Some(burst), "bucket") = (options.burst, limit.rule().name()) else { return Some(number(count)) };
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
