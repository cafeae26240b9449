//! What the tests share.
//!
//! | file | what it is |
//! |---|---|
//! | `web.rs` | servers on free ports, and clients of theirs |
//! | `within.rs` | a service in this process, asked without a socket |
//! | `homes.rs` | Redis and Tollgate servers to keep limits in |
//! | `said.rs` | what was logged |
//! | `chance.rs` | numbers by chance, from a seed |

pub(crate) mod chance;
pub(crate) mod homes;
pub(crate) mod said;
pub(crate) mod web;
pub(crate) mod within;

use http::HeaderMap;

/// The value of a field that is there once at most.
pub(crate) fn field(headers: &HeaderMap, name: &str) -> Option<String> {
    let mut values = headers.get_all(name).iter().map(|value| value.to_str().unwrap().to_owned());
    let first = values.next();
    assert_eq!(values.next(), None, "{name} is there twice");
    first
}

/// What is left by the first limit that a response tells of.
pub(crate) fn left(headers: &HeaderMap) -> Option<u64> {
    let value = field(headers, "ratelimit")?;
    let (_, behind) = value.split_once(";r=")?;
    let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}
