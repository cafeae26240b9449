//! Two layers, one behind the other: lists grow; of other fields the tightest set is kept as a whole.

use http::{HeaderMap, HeaderValue};

use super::{decided, shown};
use crate::dialect::{Dialect, Reset};
use crate::fields::Fields;

/// Returns the fields of both layers. The inner layer writes first, as it does in a response.
fn both(fields: &Fields, inner: &str, outer: &str) -> String {
    let mut headers = HeaderMap::new();
    for policy in [inner, outer] {
        fields.write(&decided(policy, &[(0, 1)]).told(), &mut headers);
    }
    shown(&headers)
}

#[test]
fn lists_grow_by_another_line() {
    assert_eq!(
        both(&Fields::default(), "10/min", "5/h, 9/d"),
        "ratelimit-policy: \"10/min\";q=10;w=60\nratelimit-policy: \"5/h\";q=5;w=3600, \"9/d\";q=9;w=86400\n\
         ratelimit: \"10/min\";r=9;t=60\nratelimit: \"5/h\";r=4;t=3600, \"9/d\";r=8;t=86400"
    );
}

#[test]
fn of_other_fields_the_set_with_the_least_left_stays_whole() {
    for (name, dialect) in Dialect::NAMED.into_iter().filter(|(name, _)| !["draft-10", "draft-8"].contains(name)) {
        let fields = Fields::new([dialect]).exact();
        let alone = |policy: &str| {
            let mut headers = HeaderMap::new();
            fields.write(&decided(policy, &[(0, 1)]).told(), &mut headers);
            shown(&headers)
        };
        assert_eq!(both(&fields, "10/min", "5/h"), alone("5/h"), "{name}");
        assert_eq!(both(&fields, "5/h", "10/min"), alone("5/h"), "{name}");
        // With the same amount left, the longer wait is kept.
        let fields = Fields::new([Dialect::from_name(name).unwrap()]);
        let alone = |policy: &str| both(&fields, policy, policy);
        assert_eq!(both(&fields, "5/min", "5/h"), alone("5/h"), "{name}");
        assert_eq!(both(&fields, "5/h", "5/min"), alone("5/h"), "{name}");
    }
}

#[test]
fn what_cannot_be_read_does_not_stay() {
    let ten = decided("10/min", &[(0, 1)]);
    for garbage in ["", "-1", "abc", "9, 9", "remaining=1;", "\u{e9}", "1e9"] {
        let mut headers = HeaderMap::new();
        for name in ["x-ratelimit-remaining", "x-ratelimit-limit", "x-ratelimit-reset", "ratelimit", "ratelimit-policy"]
        {
            headers.append(name, HeaderValue::from_bytes(garbage.as_bytes()).unwrap());
            headers.append(name, HeaderValue::from_bytes(garbage.as_bytes()).unwrap());
        }
        Fields::new([Dialect::Draft7, Dialect::XRateLimit(Reset::Delta)]).write(&ten.told(), &mut headers);
        let mut lines: Vec<String> = shown(&headers).lines().map(str::to_owned).collect();
        lines.sort();
        assert_eq!(
            lines,
            [
                "ratelimit-policy: 10;w=60",
                "ratelimit: limit=10, remaining=9, reset=60",
                "x-ratelimit-limit: 10",
                "x-ratelimit-remaining: 9",
                "x-ratelimit-reset: 60"
            ],
            "{garbage:?}"
        );
    }
    // A dictionary from an inner service and our list in the same field would make each other invalid.
    let mut headers = HeaderMap::new();
    Fields::new([Dialect::Draft7]).write(&decided("5/min", &[(0, 1)]).told(), &mut headers);
    Fields::default().write(&ten.told(), &mut headers);
    assert_eq!(shown(&headers), "ratelimit: \"10/min\";r=9;t=60\nratelimit-policy: \"10/min\";q=10;w=60");
}

#[test]
fn the_later_retry_after_stays() {
    let refused = decided("1/min", &[(0, 1), (0, 1)]);
    for (there, told) in [
        ("1", "60"),
        ("60", "60"),
        ("61", "61"),
        ("Fri, 31 Dec 1999 23:59:59 GMT", "Fri, 31 Dec 1999 23:59:59 GMT"),
        ("99999999999999999999999", "99999999999999999999999"),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", there.parse().unwrap());
        Fields::default().write(&refused.told(), &mut headers);
        assert_eq!(headers["retry-after"], told);
    }
    // An allowed request does not change it.
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", "7".parse().unwrap());
    Fields::default().write(&decided("1/min", &[(0, 1)]).told(), &mut headers);
    assert_eq!(headers["retry-after"], "7");
}

#[test]
fn nothing_of_a_set_that_is_replaced_stays() {
    use http::HeaderName;
    let names =
        crate::Names::new().remaining(HeaderName::from_static("x-left")).retry_after(HeaderName::from_static("x-wait"));
    let fields = Fields::new([Dialect::Names(names)]).without_retry_after();
    let mut headers = HeaderMap::new();
    // Refused with 3 left, since the cost was 5.
    fields.write(&decided("10/min", &[(0, 7), (0, 5)]).told(), &mut headers);
    assert_eq!(shown(&headers), "x-left: 3\nx-wait: 60");
    fields.write(&decided("2/min", &[(0, 1)]).told(), &mut headers);
    assert_eq!(shown(&headers), "x-left: 1");
}
