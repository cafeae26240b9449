//! What the tests share.
//!
//! | file | what it is |
//! |---|---|
//! | `web.rs` | servers on free ports, and clients of theirs |
//! | `in_process.rs` | a service in this process, called without a socket |
//! | `homes.rs` | Redis and Tollgate servers to keep limits in |
//! | `log_capture.rs` | what was logged |

pub(crate) mod homes;
pub(crate) mod in_process;
pub(crate) mod log_capture;
pub(crate) mod web;

use http::HeaderMap;

/// The value of a field that is there once at most.
pub(crate) fn field(headers: &HeaderMap, name: &str) -> Option<String> {
    let mut values = headers.get_all(name).iter().map(|value| value.to_str().unwrap().to_owned());
    let first = values.next();
    assert_eq!(values.next(), None, "{name} is there twice");
    first
}

/// Returns what is left under the first limit that a response names.
pub(crate) fn left(headers: &HeaderMap) -> Option<u64> {
    let value = field(headers, "ratelimit")?;
    let (_, behind) = value.split_once(";r=")?;
    let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}
