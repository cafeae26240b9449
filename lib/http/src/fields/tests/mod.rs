//! The fields of every dialect, byte for byte; two layers; structured fields read by a third-party parser.

mod layers;
mod lines;
mod odd;
mod random;
mod structured;

use http::HeaderMap;
use tollgate_kernel::{Cost, Decision, Detail, KeyState, Policy, Request, Timestamp};

use super::HeaderFields;
use crate::report::DecisionReport;

/// A whole second.
const START: u64 = 1_790_000_000_000_000;
const S: u64 = 1_000_000;

/// A decision with its policy and details.
#[derive(Clone, Debug)]
struct DecisionCase {
    policy: Policy,
    decision: Decision,
    details: Vec<Detail>,
}

impl DecisionCase {
    fn report(&self) -> DecisionReport<'_> {
        DecisionReport { policy: &self.policy, decision: &self.decision, details: &self.details }
    }
}

/// Returns the last of the decisions on these requests: microseconds since the start, and cost.
fn decided(policy: &str, requests: &[(u64, u64)]) -> DecisionCase {
    let policy: Policy = policy.parse().unwrap();
    let mut key = KeyState::default();
    let ask = |(since, cost): &(u64, u64)| {
        let request = Request::cost(Cost::new(*cost).unwrap());
        key.decide_full(&policy, Timestamp::saturating(START + since), &request)
    };
    let (decision, details) = requests.iter().map(ask).last().unwrap();
    DecisionCase { decision, details, policy }
}

/// Returns the header lines that describe the decision, in order.
fn lines(fields: &HeaderFields, decided: &DecisionCase) -> String {
    let mut headers = HeaderMap::new();
    fields.prepare(&decided.policy).write(&decided.report(), &mut headers);
    shown(&headers)
}

fn shown(headers: &HeaderMap) -> String {
    let lines = headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
    lines.collect::<Vec<_>>().join("\n")
}
