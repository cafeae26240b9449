//! Errors as RFC 9457 words them: a status for programs, a sentence for people. Nothing was changed.

use hyper::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use super::routes::{HttpResponse, bytes};
use crate::access::Scope;
use tollgate_keyspace::{Fault, FaultCode};

/// Why a request was not answered. A refusal by limits has the same form, with another type: see
/// [`tollgate_http::quota_exceeded`].
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct HttpProblem {
    /// What kind of problem it is; about:blank says no more than the status.
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    /// The status in words.
    pub(super) title: &'static str,
    /// The status.
    pub(super) status: u16,
    /// What was expected, what was found, and what to do.
    pub(super) detail: String,
    /// The limits that refused, where that is the problem.
    #[serde(rename = "violated-policies", skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    violated: Vec<String>,
    #[serde(skip)]
    #[schema(ignore)]
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
}

impl HttpProblem {
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: detail.into(),
            violated: Vec::new(),
            headers: Vec::new(),
        }
    }

    /// Returns the problem of a request that is not valid.
    pub(super) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// Returns the problem of a missing or unknown token.
    pub(super) fn unauthorized(detail: impl Into<String>) -> Self {
        let mut problem = Self::new(StatusCode::UNAUTHORIZED, detail);
        problem.headers.push((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"tollgate\"")));
        problem
    }

    /// Returns the problem of a token that lacks a scope.
    pub(super) fn missing_scope(scope: Scope, has: impl std::fmt::Display) -> Self {
        let hint = if scope == Scope::Refund { "; add refund to the token's scopes" } else { "" };
        let text = format!("expected a token with the scope {}, found one with {has}{hint}", scope.name());
        Self::new(StatusCode::FORBIDDEN, text)
    }

    /// Returns the problem of a method that is not allowed.
    pub(super) fn method(allowed: &'static str) -> Self {
        let text = format!("expected the method {allowed}");
        let mut problem = Self::new(StatusCode::METHOD_NOT_ALLOWED, text);
        problem.headers.push((ALLOW, HeaderValue::from_static(allowed)));
        problem
    }

    pub(super) fn retry_after(mut self, seconds: u64) -> Self {
        self.headers.push((RETRY_AFTER, HeaderValue::from(seconds)));
        self
    }

    /// Returns the answer for this problem.
    pub(super) fn response(self) -> HttpResponse {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = answer(status, serde_json::to_vec(&self).unwrap_or_default());
        for (name, value) in self.headers {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

/// Returns an answer with this body.
pub(super) fn answer(status: StatusCode, body: Vec<u8>) -> HttpResponse {
    let mut response = Response::new(bytes(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    response
}

impl From<Fault> for HttpProblem {
    fn from(fault: Fault) -> Self {
        match fault.code {
            FaultCode::NoAuth | FaultCode::WrongPass => Self::unauthorized(fault.text),
            // Five failed logins are allowed in a second.
            FaultCode::Throttled => Self::new(StatusCode::TOO_MANY_REQUESTS, fault.text).retry_after(1),
            FaultCode::Unfit => Self::new(StatusCode::CONFLICT, fault.text),
            FaultCode::NoPerm => Self::new(StatusCode::FORBIDDEN, fault.text),
            FaultCode::Full | FaultCode::Away => Self::new(StatusCode::SERVICE_UNAVAILABLE, fault.text).retry_after(1),
            FaultCode::Wrong
            | FaultCode::NoProto
            | FaultCode::NoScript
            | FaultCode::WrongType
            | FaultCode::ExecAbort => Self::bad_request(fault.text),
        }
    }
}
