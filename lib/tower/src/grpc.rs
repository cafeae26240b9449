//! Refusals of gRPC calls: a response without a body whose status is in the header fields, as the protocol
//! specifies for calls that fail immediately. With the feature `grpc` the status has details that clients can
//! parse.

use std::fmt::Write;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};

use crate::key::KeyError;
use crate::refusal::{GateRefusal, RefusalReason};

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// The gRPC status codes of refusals.
const INVALID_ARGUMENT: u16 = 3;
const RESOURCE_EXHAUSTED: u16 = 8;
const INTERNAL: u16 = 13;
const UNAVAILABLE: u16 = 14;

/// Returns the content type of the response, or `None` if the request is not a gRPC call. All calls are POST
/// requests. Other methods are not treated as calls, since a gRPC refusal has the status 200 and would look like a
/// success.
pub(crate) fn content_type(parts: &Parts) -> Option<HeaderValue> {
    const GRPC: &str = "application/grpc";
    let requested = parts.headers.get(CONTENT_TYPE).filter(|_| parts.method == Method::POST)?;
    let (kind, rest) = requested.as_bytes().split_at_checked(GRPC.len())?;
    if !kind.eq_ignore_ascii_case(GRPC.as_bytes()) {
        return None;
    }
    match rest {
        [] | [b'+' | b';' | b' ', ..] => Some(HeaderValue::from_static(GRPC)),
        // gRPC-Web has its own content types, and is answered with the same one.
        [b'-', ..] => Some(requested.clone()),
        _ => None,
    }
}

/// Returns the response: 200, with the status of the call.
pub(crate) fn response(refusal: &GateRefusal<'_>, content_type: HeaderValue) -> Response<Bytes> {
    let code = match refusal.reason {
        RefusalReason::Limit(_) | RefusalReason::Line(_) => RESOURCE_EXHAUSTED,
        RefusalReason::Closed(_) => UNAVAILABLE,
        RefusalReason::Key(KeyError::Setup(_)) => INTERNAL,
        RefusalReason::Key(_) => INVALID_ARGUMENT,
    };
    let detail = refusal.detail();
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::OK;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, content_type);
    headers.insert(STATUS, HeaderValue::from(code));
    if let Ok(message) = HeaderValue::try_from(percent_encoded(&detail)) {
        headers.insert(MESSAGE, message);
    }
    #[cfg(feature = "grpc")]
    if let Some(details) = details::encode(refusal, code, &detail) {
        headers.insert(details::NAME, details);
    }
    response
}

/// Returns the text percent-encoded, as gRPC messages are.
fn percent_encoded(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => written.push(char::from(byte)),
            _ => {
                let _ = write!(written, "%{byte:02X}");
            }
        }
    }
    written
}

/// `google.rpc.Status` with `RetryInfo` and `QuotaFailure`.
#[cfg(feature = "grpc")]
mod details {
    use super::{GateRefusal, HeaderName, HeaderValue, RefusalReason};
    use crate::verdict::LimiterVerdict;
    use prost::Message;
    use tollgate_kernel::Wait;

    pub(super) const NAME: HeaderName = HeaderName::from_static("grpc-status-details-bin");

    #[derive(Clone, PartialEq, Message)]
    struct Status {
        #[prost(int32, tag = "1")]
        code: i32,
        #[prost(string, tag = "2")]
        message: String,
        #[prost(message, repeated, tag = "3")]
        details: Vec<Any>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Any {
        #[prost(string, tag = "1")]
        type_url: String,
        #[prost(bytes = "vec", tag = "2")]
        value: Vec<u8>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct ProtoDuration {
        #[prost(int64, tag = "1")]
        seconds: i64,
        #[prost(int32, tag = "2")]
        nanos: i32,
    }

    #[derive(Clone, PartialEq, Message)]
    struct RetryInfo {
        #[prost(message, optional, tag = "1")]
        retry_delay: Option<ProtoDuration>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct QuotaFailure {
        #[prost(message, repeated, tag = "1")]
        violations: Vec<Violation>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Violation {
        #[prost(string, tag = "1")]
        subject: String,
        #[prost(string, tag = "2")]
        description: String,
    }

    pub(super) fn encode(refusal: &GateRefusal<'_>, code: u16, message: &str) -> Option<HeaderValue> {
        let verdict = refusal.verdict()?;
        let mut details = Vec::new();
        if let Some(Wait::After(wait)) = verdict.retry_after() {
            let seconds = i64::try_from(wait.get() / 1_000_000).unwrap_or(i64::MAX);
            let nanos = i32::try_from(wait.get() % 1_000_000 * 1_000).unwrap_or(0);
            let info = RetryInfo { retry_delay: Some(ProtoDuration { seconds, nanos }) };
            details.push(any("google.rpc.RetryInfo", &info));
        }
        // If the limiter could not decide, no limit was exceeded.
        let by_limits = !matches!(refusal.reason, RefusalReason::Closed(_));
        if let (true, LimiterVerdict::Decided(_, parts), Some(policy)) = (by_limits, verdict, refusal.policy) {
            let limits = policy.limits().iter().zip(parts.as_slice());
            let refused = limits.filter(|(_, detail)| !detail.fits).map(|(limit, _)| limit.name());
            // The subject is the name of the limit, not the key, which the caller knows.
            let violations: Vec<Violation> =
                refused.map(|name| Violation { description: format!("refused by {name}"), subject: name }).collect();
            if !violations.is_empty() {
                details.push(any("google.rpc.QuotaFailure", &QuotaFailure { violations }));
            }
        }
        let status = Status { code: i32::from(code), message: message.to_owned(), details };
        let bytes = tonic::metadata::MetadataValue::from_bytes(&status.encode_to_vec());
        HeaderValue::try_from(bytes.as_encoded_bytes()).ok()
    }

    fn any(name: &str, message: &impl Message) -> Any {
        Any { type_url: format!("type.googleapis.com/{name}"), value: message.encode_to_vec() }
    }
}
