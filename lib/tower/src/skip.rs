//! Requests that are not limited, for [`GateLayer::skip`](crate::GateLayer::skip).

use http::Method;
use http::header::{ACCESS_CONTROL_REQUEST_METHOD, ORIGIN};
use http::request::Parts;

/// Returns whether the request is a CORS preflight, by which a browser checks whether a page of another origin may
/// send a request. The user did not make it, and refusing it looks like a broken site. If the layer that answers
/// preflights is outside of this one, there is nothing to skip.
pub fn preflight(parts: &Parts) -> bool {
    let asks = parts.headers.contains_key(ORIGIN) && parts.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    parts.method == Method::OPTIONS && asks
}

/// Returns a test for paths that match one of the patterns, in which `*` stands for anything: `/healthz`,
/// `/assets/*`. A path that another program might resolve to a different path is never skipped: one with the
/// segments `.` or `..`, or with an escaped dot, slash or backslash.
pub fn paths<P: AsRef<str>>(patterns: impl IntoIterator<Item = P>) -> impl Fn(&Parts) -> bool + Send + Sync {
    let patterns: Vec<Box<str>> = patterns.into_iter().map(|pattern| pattern.as_ref().into()).collect();
    move |parts| {
        let path = parts.uri.path().as_bytes();
        !may_resolve_elsewhere(parts.uri.path())
            && patterns.iter().any(|pattern| tollgate_kernel::matches(pattern.as_bytes(), path, &mut 0))
    }
}

/// Returns whether the path may resolve to another path: `/assets/../login`, `/assets/%2e%2e/login`,
/// `/assets/..%2flogin`.
fn may_resolve_elsewhere(path: &str) -> bool {
    let escaped = |at: usize| {
        let code = path.as_bytes().get(at + 1..at + 3).unwrap_or_default();
        [b"2e", b"2f", b"5c"].iter().any(|known| code.eq_ignore_ascii_case(known.as_slice()))
    };
    path.split(['/', '\\']).any(|segment| matches!(segment, "." | ".."))
        || path.match_indices('%').any(|(at, _)| escaped(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_may_lead_elsewhere_are_never_skipped() {
        let skips = paths(["/healthz", "/assets/*"]);
        for (path, skipped) in [
            ("/healthz", true),
            ("/assets/a.css", true),
            ("/assets/a%20b..css", true),
            ("/assets/...", true),
            ("/login", false),
            ("/assets/../login", false),
            ("/assets/./../login", false),
            ("/assets/..", false),
            ("/assets/%2e%2E/login", false),
            ("/assets/..%2Flogin", false),
            ("/assets/..%5clogin", false),
            ("/assets/%2", true),
        ] {
            let parts = http::Request::builder().uri(path).body(()).unwrap().into_parts().0;
            assert_eq!(skips(&parts), skipped, "{path}");
        }
    }
}
