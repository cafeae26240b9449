//! Prepared fields: the parts that are the same for every response are made once, the others are written for each.

use std::sync::Arc;

use http::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use tollgate_kernel::Policy;

use super::Fields;
use super::list::List;
use super::single::{Single, keep_later};
use crate::dialect::Dialect;
use crate::text::{number, whole};
use crate::told::Told;

const REMAINING: HeaderName = HeaderName::from_static("tollgate-remaining");
const WAIT: HeaderName = HeaderName::from_static("tollgate-retry-after-us");
const SOURCE: HeaderName = HeaderName::from_static("tollgate-source");

/// The fields for the decisions of one policy. Created by [`Fields::prepare`].
#[derive(Clone, Debug)]
pub struct PreparedFields {
    fields: Fields,
    policy: Policy,
    list: Option<List>,
    singles: Vec<Single>,
}

impl PreparedFields {
    pub(super) fn new(fields: &Fields, policy: &Policy) -> Self {
        let mut prepared = Self { fields: fields.clone(), policy: policy.clone(), list: None, singles: Vec::new() };
        let mut taken: Vec<HeaderName> = Vec::new();
        for dialect in &fields.dialects {
            match dialect {
                Dialect::Draft10 | Dialect::Draft8 if List::NAMES.iter().any(|name| taken.contains(name)) => {}
                Dialect::Draft10 | Dialect::Draft8 => {
                    prepared.list = Some(List::new(policy));
                    taken.extend(List::NAMES);
                }
                other => prepared.singles.extend(Single::new(other, policy, &mut taken)),
            }
        }
        prepared
    }

    /// Writes the fields that describe a decision. A decision of a policy other than the prepared one is written too,
    /// at the cost of preparing that policy.
    pub fn write(&self, told: &Told<'_>, into: &mut HeaderMap) {
        if !self.is_of(told.policy) {
            return Self::new(&self.fields, told.policy).write(told, into);
        }
        let each = told.each();
        let details = each.as_slice();
        let stretch = self.fields.jitter.draw();
        if let Some(list) = &self.list {
            list.write(told, details, stretch, into);
        }
        if let (false, Some(tightest)) = (self.singles.is_empty(), told.tightest(details)) {
            for single in &self.singles {
                single.write(told, details, tightest, stretch, into);
            }
        }
        if self.fields.exact {
            write_exact(told, into);
        }
        if self.fields.retry_after
            && let Some(wait) = told.retry_after(details)
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
fn write_exact(told: &Told<'_>, into: &mut HeaderMap) {
    let decision = told.decision;
    let there = into.get(REMAINING).and_then(|value| value.to_str().ok()?.parse::<i64>().ok());
    if there.is_some_and(|there| there <= decision.remaining) {
        return;
    }
    into.insert(REMAINING, whole(decision.remaining));
    into.insert(WAIT, whole(decision.retry_after.as_flat()));
    into.insert(SOURCE, HeaderValue::from_static(decision.source.name()));
}
