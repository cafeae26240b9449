//! Prepared fields: the parts that are the same for every response are made once, the others are written for each.

use std::sync::Arc;

use http::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use tollgate_kernel::Policy;

use super::HeaderFields;
use super::list::ListFields;
use super::single::{SingleFields, keep_later};
use crate::dialect::HeaderDialect;
use crate::report::DecisionReport;
use crate::text::{number, whole};

const REMAINING: HeaderName = HeaderName::from_static("tollgate-remaining");
const WAIT: HeaderName = HeaderName::from_static("tollgate-retry-after-us");
const SOURCE: HeaderName = HeaderName::from_static("tollgate-source");

/// The fields for the decisions of one policy. Created by [`HeaderFields::prepare`].
#[derive(Clone, Debug)]
pub struct PreparedFields {
    fields: HeaderFields,
    policy: Policy,
    list: Option<ListFields>,
    singles: Vec<SingleFields>,
}

impl PreparedFields {
    pub(super) fn new(fields: &HeaderFields, policy: &Policy) -> Self {
        let mut prepared = Self { fields: fields.clone(), policy: policy.clone(), list: None, singles: Vec::new() };
        let mut taken: Vec<HeaderName> = Vec::new();
        for dialect in &fields.dialects {
            match dialect {
                HeaderDialect::Draft10 | HeaderDialect::Draft8
                    if ListFields::NAMES.iter().any(|name| taken.contains(name)) => {}
                HeaderDialect::Draft10 | HeaderDialect::Draft8 => {
                    prepared.list = Some(ListFields::new(policy));
                    taken.extend(ListFields::NAMES);
                }
                other => prepared.singles.extend(SingleFields::new(other, policy, &mut taken)),
            }
        }
        prepared
    }

    /// Writes the fields that describe a decision. A decision of a policy other than the prepared one is written too,
    /// at the cost of preparing that policy.
    pub fn write(&self, report: &DecisionReport<'_>, into: &mut HeaderMap) {
        if !self.is_of(report.policy) {
            return Self::new(&self.fields, report.policy).write(report, into);
        }
        let details = report.limit_details();
        let details = details.as_slice();
        let stretch = self.fields.jitter.draw();
        if let Some(list) = &self.list {
            list.write(report, details, stretch, into);
        }
        if let (false, Some(tightest)) = (self.singles.is_empty(), report.tightest(details)) {
            for single in &self.singles {
                single.write(report, details, tightest, stretch, into);
            }
        }
        if self.fields.exact {
            write_exact(report, into);
        }
        if self.fields.retry_after
            && let Some(wait) = report.retry_after(details)
        {
            keep_later(into, RETRY_AFTER, number(stretch.seconds(wait)));
        }
    }

    #[inline]
    fn is_of(&self, policy: &Policy) -> bool {
        let (own, other) = (self.policy.limits(), policy.limits());
        own.len() == other.len() && own.iter().zip(other).all(|(own, other)| Arc::ptr_eq(own, other) || own == other)
    }
}

/// Writes the figures without rounding or clamping. If another layer has written them, the set with less left is kept.
fn write_exact(report: &DecisionReport<'_>, into: &mut HeaderMap) {
    let decision = report.decision;
    let there = into.get(REMAINING).and_then(|value| value.to_str().ok()?.parse::<i64>().ok());
    if there.is_some_and(|there| there <= decision.remaining) {
        return;
    }
    into.insert(REMAINING, whole(decision.remaining));
    into.insert(WAIT, whole(decision.retry_after.as_flat()));
    into.insert(SOURCE, HeaderValue::from_static(decision.source.name()));
}
