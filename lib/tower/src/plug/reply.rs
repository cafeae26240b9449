//! The reply of a limiter, and the response to the request: the default one, or that of a response function.

use std::fmt;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{Response, StatusCode};
use tollgate_kernel::{OnError, StoreError};

use super::Output;
use super::fields::{self, HeaderPairs};
use crate::key::KeyError;

/// The reply of a limiter to a request, as input for the response function.
#[derive(Debug)]
#[non_exhaustive]
pub struct PlugReply<'a> {
    /// The request's head.
    pub parts: &'a Parts,
    /// The name of the limiter.
    pub limiter: &'a str,
    /// Its header names, by position.
    pub names: &'a [HeaderName],
    /// Its options.
    pub opts: &'a [String],
    /// The keys of the request; empty if the key function failed.
    pub keys: &'a [Vec<u8>],
    /// Everything that the script returned, including additional outputs, or the reason for its failure, which is
    /// already logged.
    pub result: Result<&'a Output, &'a PlugFailure>,
    /// What the limiter does with the request if it failed.
    pub on_error: OnError,
}

/// What is done with a request.
#[derive(Clone, Debug)]
pub enum PlugAnswer {
    /// It passes, and the response gets these header fields.
    Pass(HeaderPairs),
    /// It is answered with this response.
    Stop(Response<Bytes>),
}

/// The reason why a limiter did not decide. The request then passes, unless `on_error` or a response function determines
/// otherwise.
#[derive(Debug)]
#[non_exhaustive]
pub enum PlugFailure {
    /// The key function returned no key, or one that cannot be used.
    Key(KeyError),
    /// The store did not answer, or the script ended with an error.
    Store(StoreError),
    /// The output of the script is invalid.
    Script(String),
}

impl PlugReply<'_> {
    /// Returns the default answer: `allow` passes with the headers, anything else gets 429 with them; after a
    /// failure the request passes without headers, or gets 503 if `on_error` denies it.
    pub fn default_answer(&self) -> Result<PlugAnswer, PlugFailure> {
        match self.result {
            Ok(output) => default_answer(self.names, output),
            Err(_) => Ok(without_answer(self.on_error)),
        }
    }

    /// Returns the headers of a list of values or pairs, in the way in which the default answer reads the second
    /// element.
    pub fn headers(&self, list: &Output) -> Result<HeaderPairs, PlugFailure> {
        fields::parse_fields(self.names, list.list())
    }
}

/// Returns the default answer to `["allow" | "block", headers, …]`.
pub(super) fn default_answer(names: &[HeaderName], output: &Output) -> Result<PlugAnswer, PlugFailure> {
    let [word, Output::List(headers), ..] = output.list() else { return Err(unexpected(output)) };
    let word = word.text().ok_or_else(|| unexpected(output))?;
    let headers = fields::parse_fields(names, headers)?;
    Ok(if word == b"allow" { PlugAnswer::Pass(headers) } else { PlugAnswer::Stop(too_many_requests(headers)) })
}

fn unexpected(output: &Output) -> PlugFailure {
    let form = match output {
        Output::Nothing => "nothing",
        Output::Integer(_) => "a number",
        Output::Text(_) => "a text",
        Output::List(_) => "another list",
    };
    let expected = r#"a list like {"allow", {"10", {"x-acme-header", "60"}}}"#;
    PlugFailure::Script(format!("expected {expected} from the script, found {form}"))
}

/// Returns the answer after a failure: the request passes without headers, or gets 503 and is told to come back.
pub(super) fn without_answer(on_error: OnError) -> PlugAnswer {
    match on_error {
        OnError::Allow | OnError::Local => PlugAnswer::Pass(Vec::new()),
        OnError::Deny => {
            let retry = vec![(RETRY_AFTER, HeaderValue::from_static("1"))];
            PlugAnswer::Stop(plain_text(StatusCode::SERVICE_UNAVAILABLE, b"Service Unavailable", retry))
        }
    }
}

/// Returns a response with status 429 in plain text.
pub(super) fn too_many_requests(headers: HeaderPairs) -> Response<Bytes> {
    plain_text(StatusCode::TOO_MANY_REQUESTS, b"Too Many Requests", headers)
}

fn plain_text(status: StatusCode, text: &'static [u8], headers: HeaderPairs) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from_static(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    headers.into_iter().for_each(|(name, value)| {
        response.headers_mut().insert(name, value);
    });
    response
}

impl fmt::Display for PlugFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(error) => write!(f, "no key: {error}"),
            Self::Store(error) => error.fmt(f),
            Self::Script(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for PlugFailure {}

impl From<StoreError> for PlugFailure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<KeyError> for PlugFailure {
    fn from(error: KeyError) -> Self {
        Self::Key(error)
    }
}
