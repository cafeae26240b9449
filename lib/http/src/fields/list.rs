//! draft-10 and draft-8: `RateLimit-Policy` and `RateLimit` as lists of structured fields, with one member per limit.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use tollgate_kernel::algorithms::Rule;
use tollgate_kernel::{Detail, Limit, Micros, Policy, Wait};

use crate::report::DecisionReport;
use crate::seconds::Stretch;
use crate::text::{FieldBuffer, integer, quote};

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");

#[derive(Clone, Debug)]
pub(super) struct ListFields {
    policy: Option<HeaderValue>,
    /// For each limit, the text before its figures: `, "100/min";r=`.
    members: Box<[Box<[u8]>]>,
}

impl ListFields {
    pub(super) const NAMES: [HeaderName; 2] = [POLICY, LIMIT];

    pub(super) fn new(policy: &Policy) -> Self {
        let names: Vec<String> = policy.limits().iter().map(|limit| limit.name()).collect();
        Self {
            policy: policies(policy.limits().iter().zip(&names).map(|(limit, name)| (name.as_str(), limit.as_ref()))),
            members: members(names.iter().map(String::as_str)),
        }
    }

    pub(super) fn write(
        &self,
        report: &DecisionReport<'_>,
        details: &[Detail],
        stretch: Stretch,
        into: &mut HeaderMap,
    ) {
        // The field is usually absent, and the entry API would cost twice as much as appending.
        if let Some(policy) = &self.policy
            && into.append(POLICY, policy.clone())
        {
            keep_lists(into, POLICY);
        }
        if !details.is_empty()
            && let Some(value) = self.limits(report, details, stretch)
            && into.append(LIMIT, value)
        {
            keep_lists(into, LIMIT);
        }
    }

    /// Returns `"100/min";r=99;t=60`, with one member per limit.
    fn limits(&self, report: &DecisionReport<'_>, details: &[Detail], stretch: Stretch) -> Option<HeaderValue> {
        let mut line = FieldBuffer::new();
        for ((member, limit), detail) in self.members.iter().zip(report.policy.limits()).zip(details) {
            line.push(member);
            line.integer(left(limit, detail));
            if let Some(wait) = report.wait_for_more(detail) {
                line.push(b";t=");
                line.integer(stretch.seconds(wait));
            }
        }
        line.value()
    }
}

/// Returns the units left. Units left in the window are of no use to a client while the bucket has no token, or while
/// the minimum spacing since the last request has not passed; 0 is then reported.
#[inline]
fn left(limit: &Limit, detail: &Detail) -> u64 {
    let paced = matches!(limit.rule(), Rule::Bucket(_)) || limit.spacing().is_some();
    if paced && detail.retry_after != Wait::NONE { 0 } else { u64::try_from(detail.remaining).unwrap_or(0) }
}

/// Returns `"100/min";q=100;w=60`, with one member per limit.
fn policies<'a>(limits: impl Iterator<Item = (&'a str, &'a Limit)>) -> Option<HeaderValue> {
    let mut text = Vec::new();
    for (name, limit) in limits {
        if !text.is_empty() {
            text.extend_from_slice(b", ");
        }
        quote(name, &mut text);
        text.extend_from_slice(b";q=");
        integer(limit.count(), &mut text);
        window(limit.period(), &mut text);
    }
    HeaderValue::from_bytes(&text).ok()
}

pub(super) fn members<'a>(names: impl Iterator<Item = &'a str>) -> Box<[Box<[u8]>]> {
    names
        .enumerate()
        .map(|(place, name)| {
            let mut text = if place == 0 { Vec::new() } else { b", ".to_vec() };
            quote(name, &mut text);
            text.extend_from_slice(b";r=");
            text.into_boxed_slice()
        })
        .collect()
}

/// Appends `;w=60`. A window below a second has no whole number of seconds, and is left out.
pub(super) fn window(period: Micros, text: &mut Vec<u8>) {
    if period.get() >= 1_000_000 {
        text.extend_from_slice(b";w=");
        integer(Stretch::NONE.seconds(period), text);
    }
}

/// Removes earlier lines of the field if any of them is not a list of names: clients would otherwise be unable to parse
/// the field, and the line appended last would be lost as well.
#[cold]
fn keep_lists(into: &mut HeaderMap, name: HeaderName) {
    let mut lines = into.get_all(&name).iter();
    if let Some(own) = lines.next_back().cloned()
        && !lines.all(|line| line.as_bytes().starts_with(b"\""))
    {
        into.insert(name, own);
    }
}
