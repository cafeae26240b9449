//! What is answered to a request that does not pass.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{Response, StatusCode};
use tollgate_core::Policy;
use tollgate_http::Told;

use crate::key::KeyError;
use crate::verdict::Verdict;

/// A request that does not pass, for the function that answers it. The layer adds its header fields to the answer.
#[derive(Debug)]
#[non_exhaustive]
pub struct Refusal<'a> {
    /// The request's head.
    pub parts: &'a Parts,
    /// Why it does not pass.
    pub why: Why<'a>,
    /// The policy, unless the limiter is one's own.
    pub policy: Option<&'a Policy>,
}

/// Why a request does not pass.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Why<'a> {
    /// The limiter refused it: 429.
    Limit(&'a Verdict),
    /// It would have had to wait too long, or too many wait already: 429.
    Line(&'a Verdict),
    /// Nobody decided, and then nothing passes: 503.
    Closed(&'a Verdict),
    /// It has no key: 400, or 500 where the service is put together wrongly.
    Key(&'a KeyError),
}

impl Refusal<'_> {
    /// The status of the usual answer.
    pub fn status(&self) -> StatusCode {
        match self.why {
            Why::Limit(_) | Why::Line(_) => StatusCode::TOO_MANY_REQUESTS,
            Why::Closed(_) => StatusCode::SERVICE_UNAVAILABLE,
            Why::Key(KeyError::Setup(_)) => StatusCode::INTERNAL_SERVER_ERROR,
            Why::Key(_) => StatusCode::BAD_REQUEST,
        }
    }

    /// The verdict, if there is one.
    pub fn verdict(&self) -> Option<&Verdict> {
        match self.why {
            Why::Limit(verdict) | Why::Line(verdict) | Why::Closed(verdict) => Some(verdict),
            Why::Key(_) => None,
        }
    }

    /// The usual answer: a problem of RFC 9457, and in gRPC a status.
    pub fn response(&self) -> Response<Bytes> {
        if let Some(kind) = crate::grpc::kind(self.parts) {
            return crate::grpc::response(self, kind);
        }
        let mut response = Response::new(Bytes::from(self.problem()));
        *response.status_mut() = self.status();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Why::Closed(_) = self.why {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }

    /// A sentence for people. It never tells the key.
    pub fn detail(&self) -> String {
        match self.why {
            Why::Limit(Verdict::Decided(_, details)) => {
                let limits = self.policy.map(Policy::limits).unwrap_or_default().iter().zip(details.as_slice());
                let refused: Vec<String> =
                    limits.filter(|(_, detail)| !detail.fits).map(|(limit, _)| limit.name()).collect();
                format!("refused by {}", refused.join(", "))
            }
            Why::Limit(Verdict::Custom(_)) => "refused".to_owned(),
            Why::Line(_) => "too many requests are waiting already".to_owned(),
            Why::Closed(_) => "the limits cannot be checked at the moment".to_owned(),
            Why::Key(KeyError::Setup(_)) => "the limits of this service are not set up".to_owned(),
            Why::Key(error) => error.to_string(),
        }
    }

    fn problem(&self) -> Vec<u8> {
        if let (Why::Limit(Verdict::Decided(decision, details)), Some(policy)) = (self.why, self.policy) {
            return tollgate_http::problem(&Told { policy, decision, details: details.as_slice() });
        }
        tollgate_http::blank_problem(self.status(), &self.detail())
    }
}
