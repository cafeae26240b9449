//! Two layers, one behind the other: lists get another line; of other fields the tightest set is kept as a whole.

use http::{HeaderMap, HeaderValue};

use super::{decided, shown};
use crate::dialect::{HeaderDialect, Reset};
use crate::fields::HeaderFields;

/// Returns the fields of both layers. The inner layer writes first, as it does in a response.
fn both(fields: &HeaderFields, inner: &str, outer: &str) -> String {
    let mut headers = HeaderMap::new();
    for policy in [inner, outer] {
        fields.write(&decided(policy, &[(0, 1)]).report(), &mut headers);
    }
    shown(&headers)
}

#[test]
fn lists_grow_by_another_line() {
    assert_eq!(
        both(&HeaderFields::default(), "10/min", "5/h, 9/d"),
        "ratelimit-policy: \"10/min\";q=10;w=60\nratelimit-policy: \"5/h\";q=5;w=3600, \"9/d\";q=9;w=86400\n\
         ratelimit: \"10/min\";r=9;t=60\nratelimit: \"5/h\";r=4;t=3600, \"9/d\";r=8;t=86400"
    );
}

#[test]
fn the_set_of_single_fields_with_the_least_left_is_kept_as_a_whole() {
    for (name, dialect) in HeaderDialect::NAMED.into_iter().filter(|(name, _)| !["draft-10", "draft-8"].contains(name))
    {
        let fields = HeaderFields::new([dialect]).exact();
        let alone = |policy: &str| {
            let mut headers = HeaderMap::new();
            fields.write(&decided(policy, &[(0, 1)]).report(), &mut headers);
            shown(&headers)
        };
        assert_eq!(both(&fields, "10/min", "5/h"), alone("5/h"), "{name}");
        assert_eq!(both(&fields, "5/h", "10/min"), alone("5/h"), "{name}");
        // With the same amount left, the longer wait is kept.
        let fields = HeaderFields::new([HeaderDialect::from_name(name).unwrap()]);
        let alone = |policy: &str| both(&fields, policy, policy);
        assert_eq!(both(&fields, "5/min", "5/h"), alone("5/h"), "{name}");
        assert_eq!(both(&fields, "5/h", "5/min"), alone("5/h"), "{name}");
    }
}

#[test]
fn a_field_that_cannot_be_parsed_is_replaced() {
    let ten = decided("10/min", &[(0, 1)]);
    for garbage in ["", "-1", "abc", "9, 9", "remaining=1;", "\u{e9}", "1e9"] {
        let mut headers = HeaderMap::new();
        for name in ["x-ratelimit-remaining", "x-ratelimit-limit", "x-ratelimit-reset", "ratelimit", "ratelimit-policy"]
        {
            headers.append(name, HeaderValue::from_bytes(garbage.as_bytes()).unwrap());
            headers.append(name, HeaderValue::from_bytes(garbage.as_bytes()).unwrap());
        }
        HeaderFields::new([HeaderDialect::Draft7, HeaderDialect::XRateLimit(Reset::Delta)])
            .write(&ten.report(), &mut headers);
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
    HeaderFields::new([HeaderDialect::Draft7]).write(&decided("5/min", &[(0, 1)]).report(), &mut headers);
    HeaderFields::default().write(&ten.report(), &mut headers);
    assert_eq!(shown(&headers), "ratelimit: \"10/min\";r=9;t=60\nratelimit-policy: \"10/min\";q=10;w=60");
}

#[test]
fn the_later_retry_after_is_kept() {
    let refused = decided("1/min", &[(0, 1), (0, 1)]);
    for (there, expected) in [
        ("1", "60"),
        ("60", "60"),
        ("61", "61"),
        ("Fri, 31 Dec 1999 23:59:59 GMT", "Fri, 31 Dec 1999 23:59:59 GMT"),
        ("99999999999999999999999", "99999999999999999999999"),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", there.parse().unwrap());
        HeaderFields::default().write(&refused.report(), &mut headers);
        assert_eq!(headers["retry-after"], expected);
    }
    // An allowed request does not change it.
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", "7".parse().unwrap());
    HeaderFields::default().write(&decided("1/min", &[(0, 1)]).report(), &mut headers);
    assert_eq!(headers["retry-after"], "7");
}

#[test]
fn a_replaced_set_is_removed_as_a_whole() {
    use http::HeaderName;
    let names = crate::HeaderNames::new()
        .remaining(HeaderName::from_static("x-left"))
        .retry_after(HeaderName::from_static("x-wait"));
    let fields = HeaderFields::new([HeaderDialect::Names(names)]).without_retry_after();
    let mut headers = HeaderMap::new();
    // Refused with 3 left, since the cost was 5.
    fields.write(&decided("10/min", &[(0, 7), (0, 5)]).report(), &mut headers);
    assert_eq!(shown(&headers), "x-left: 3\nx-wait: 60");
    fields.write(&decided("2/min", &[(0, 1)]).report(), &mut headers);
    assert_eq!(shown(&headers), "x-left: 1");
}
