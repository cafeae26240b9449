//! The response to a request that does not pass.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{Response, StatusCode};
use tollgate_http::DecisionReport;
use tollgate_kernel::Policy;

use crate::key::KeyError;
use crate::verdict::LimiterVerdict;

/// A request that does not pass, as input for the response function. The layer adds its header fields to the
/// response.
#[derive(Debug)]
#[non_exhaustive]
pub struct GateRefusal<'a> {
    /// The request's head.
    pub parts: &'a Parts,
    /// The reason why it does not pass.
    pub reason: RefusalReason<'a>,
    /// The policy; `None` for a custom limiter.
    pub policy: Option<&'a Policy>,
}

/// The reason why a request does not pass.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum RefusalReason<'a> {
    /// The limiter refused it: 429.
    Limit(&'a LimiterVerdict),
    /// It would have had to wait too long, or too many requests are waiting already: 429.
    Line(&'a LimiterVerdict),
    /// The limiter could not decide, and `on_error` refuses the request: 503.
    Closed(&'a LimiterVerdict),
    /// It has no key: 400, or 500 if the service is set up incorrectly.
    Key(&'a KeyError),
}

impl GateRefusal<'_> {
    /// Returns the status of the default response.
    pub fn status(&self) -> StatusCode {
        match self.reason {
            RefusalReason::Limit(_) | RefusalReason::Line(_) => StatusCode::TOO_MANY_REQUESTS,
            RefusalReason::Closed(_) => StatusCode::SERVICE_UNAVAILABLE,
            RefusalReason::Key(KeyError::Setup(_)) => StatusCode::INTERNAL_SERVER_ERROR,
            RefusalReason::Key(_) => StatusCode::BAD_REQUEST,
        }
    }

    /// Returns the verdict, if there is one.
    pub fn verdict(&self) -> Option<&LimiterVerdict> {
        match self.reason {
            RefusalReason::Limit(verdict) | RefusalReason::Line(verdict) | RefusalReason::Closed(verdict) => {
                Some(verdict)
            }
            RefusalReason::Key(_) => None,
        }
    }

    /// Returns the default response: a problem document of RFC 9457, or a status for gRPC.
    pub fn response(&self) -> Response<Bytes> {
        if let Some(content_type) = crate::grpc::content_type(self.parts) {
            return crate::grpc::response(self, content_type);
        }
        let mut response = Response::new(Bytes::from(self.problem()));
        *response.status_mut() = self.status();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let RefusalReason::Closed(_) = self.reason {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }

    /// Returns a sentence for people. It never contains the key.
    pub fn detail(&self) -> String {
        match self.reason {
            RefusalReason::Limit(LimiterVerdict::Decided(_, details)) => {
                let limits = self.policy.map(Policy::limits).unwrap_or_default().iter().zip(details.as_slice());
                let refused: Vec<String> =
                    limits.filter(|(_, detail)| !detail.fits).map(|(limit, _)| limit.name()).collect();
                format!("refused by {}", refused.join(", "))
            }
            RefusalReason::Limit(LimiterVerdict::Custom(_)) => "refused".to_owned(),
            RefusalReason::Line(_) => "too many requests are waiting already".to_owned(),
            RefusalReason::Closed(_) => "the limits cannot be checked at the moment".to_owned(),
            RefusalReason::Key(KeyError::Setup(_)) => "the limits of this service are not set up".to_owned(),
            RefusalReason::Key(error) => error.to_string(),
        }
    }

    fn problem(&self) -> Vec<u8> {
        if let (RefusalReason::Limit(LimiterVerdict::Decided(decision, details)), Some(policy)) =
            (self.reason, self.policy)
        {
            return tollgate_http::problem(&DecisionReport { policy, decision, details: details.as_slice() });
        }
        tollgate_http::blank_problem(self.status(), &self.detail())
    }
}
