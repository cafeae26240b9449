//! Writing the fields of a decision allocates one value for each field that is new, and nothing else.

use http::HeaderMap;
use tollgate_http::{DecisionReport, HeaderDialect, HeaderFields, Reset};
use tollgate_kernel::{Decision, Detail, KeyState, Policy, Request, Timestamp};

fn decided(policy: &Policy, times: usize) -> (Decision, Vec<Detail>) {
    let (mut key, at) = (KeyState::default(), Timestamp::saturating(1_790_000_000_000_000));
    let asked = (0..times).map(|_| key.decide_full(policy, at, &Request::ONE)).last();
    asked.unwrap()
}

fn allocations(fields: HeaderFields, policy: &str, times: usize) -> u64 {
    let policy: Policy = policy.parse().unwrap();
    let (decision, details) = decided(&policy, times);
    let report = DecisionReport { policy: &policy, decision: &decision, details: &details };
    let prepared = fields.prepare(&policy);
    // The first response shares what was prepared with the others.
    prepared.write(&report, &mut HeaderMap::new());
    let mut headers = HeaderMap::with_capacity(16);
    let counted = allocation_counter::measure(|| prepared.write(&report, &mut headers));
    assert!(!headers.is_empty());
    counted.count_total
}

#[test]
fn a_value_that_is_new_is_one_allocation() {
    assert_eq!(allocations(HeaderFields::default(), "100/min", 1), 1, "RateLimit");
    assert_eq!(allocations(HeaderFields::default(), "100/min, 1000/h, 5000/d", 1), 1, "RateLimit");
    assert_eq!(allocations(HeaderFields::default(), "1/min, 1000/h", 2), 2, "RateLimit, Retry-After");
    assert_eq!(allocations(HeaderFields::default().jitter(10), "1/min", 2), 2, "RateLimit, Retry-After");
    assert_eq!(allocations(HeaderFields::new([HeaderDialect::Draft7]), "100/min", 1), 1, "RateLimit");
    for dialect in
        [HeaderDialect::Draft6, HeaderDialect::XRateLimit(Reset::Unix), HeaderDialect::Envoy, HeaderDialect::Plug]
    {
        assert_eq!(allocations(HeaderFields::new([dialect]), "100/min, 1000/h", 1), 2, "remaining and reset");
    }
}
