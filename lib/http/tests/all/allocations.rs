//! What telling a decision takes from the allocator: a value that is new, and nothing else.

use http::HeaderMap;
use tollgate_http::{Dialect, Fields, Reset, Told};
use tollgate_kernel::{Decision, Detail, KeyState, Policy, Request, Timestamp};

fn decided(policy: &Policy, times: usize) -> (Decision, Vec<Detail>) {
    let (mut key, at) = (KeyState::default(), Timestamp::saturating(1_790_000_000_000_000));
    let asked = (0..times).map(|_| key.decide_full(policy, at, &Request::ONE)).last();
    asked.unwrap()
}

fn allocations(fields: Fields, policy: &str, times: usize) -> u64 {
    let policy: Policy = policy.parse().unwrap();
    let (decision, details) = decided(&policy, times);
    let told = Told { policy: &policy, decision: &decision, details: &details };
    let prepared = fields.prepare(&policy);
    // The first response shares what was prepared with the others.
    prepared.write(&told, &mut HeaderMap::new());
    let mut headers = HeaderMap::with_capacity(16);
    let counted = allocation_counter::measure(|| prepared.write(&told, &mut headers));
    assert!(!headers.is_empty());
    counted.count_total
}

#[test]
fn a_value_that_is_new_is_one_allocation() {
    assert_eq!(allocations(Fields::default(), "100/min", 1), 1, "RateLimit");
    assert_eq!(allocations(Fields::default(), "100/min, 1000/h, 5000/d", 1), 1, "RateLimit");
    assert_eq!(allocations(Fields::default(), "1/min, 1000/h", 2), 2, "RateLimit, Retry-After");
    assert_eq!(allocations(Fields::default().jitter(10), "1/min", 2), 2, "RateLimit, Retry-After");
    assert_eq!(allocations(Fields::new([Dialect::Draft7]), "100/min", 1), 1, "RateLimit");
    for dialect in [Dialect::Draft6, Dialect::XRateLimit(Reset::Unix), Dialect::Envoy, Dialect::Plug] {
        assert_eq!(allocations(Fields::new([dialect]), "100/min, 1000/h", 1), 2, "remaining and reset");
    }
}
