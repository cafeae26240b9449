//! Requests that a test makes to a service in process, and their responses.

use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;

use bytes::{BufMut, Bytes};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::Body;
use tower_service::Service;

use crate::key::Peer;

/// The error of a test's request that could not be built or was not answered.
pub type TestRequestError = Box<dyn std::error::Error + Send + Sync>;

/// A request under construction: see [`request`].
#[derive(Clone, Debug)]
#[must_use = "a request does nothing until it is sent"]
pub struct TestRequest {
    uri: String,
    method: Method,
    headers: Vec<(String, String)>,
    peer: Option<String>,
}

/// Creates a GET request for this path, without a peer.
///
/// ```
/// use tollgate_tower::testing::request;
/// let post = request("/login").post().from("2001:db8::1").header("x-api-key", "k1").body(())?;
/// assert_eq!((post.method().as_str(), post.uri().path()), ("POST", "/login"));
/// # Ok::<(), tollgate_tower::testing::TestRequestError>(())
/// ```
pub fn request(path: &str) -> TestRequest {
    TestRequest { uri: path.to_owned(), method: Method::GET, headers: Vec::new(), peer: None }
}

impl TestRequest {
    /// Sets the method.
    pub fn method(self, method: Method) -> Self {
        Self { method, ..self }
    }

    /// Sets the method to POST.
    pub fn post(self) -> Self {
        self.method(Method::POST)
    }

    /// Adds a header, in addition to others of its name.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the address of the peer, with or without a port.
    pub fn from(self, peer: &str) -> Self {
        Self { peer: Some(peer.to_owned()), ..self }
    }

    /// Builds the request with this body.
    pub fn body<B>(self, body: B) -> Result<Request<B>, TestRequestError> {
        let mut request = Request::builder().method(self.method).uri(self.uri);
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        if let Some(peer) = self.peer {
            let address = peer.parse::<SocketAddr>().or_else(|_| peer.parse::<IpAddr>().map(|ip| (ip, 4711).into()));
            request = request.extension(Peer(address.map_err(|_| format!("expected an address, found {peer:?}"))?));
        }
        Ok(request.body(body)?)
    }

    /// Sends the request to a service with an empty body and waits for the whole response.
    pub async fn ask<S, R>(self, service: &S) -> Result<TestResponse, TestRequestError>
    where
        S: Service<Request<String>, Response = Response<R>> + Clone,
        S::Error: Into<TestRequestError>,
        R: Body,
        R::Error: Into<TestRequestError>,
    {
        let request = self.body(String::new())?;
        let mut service = service.clone();
        poll_fn(|context| service.poll_ready(context)).await.map_err(Into::into)?;
        let (head, body) = service.call(request).await.map_err(Into::into)?.into_parts();
        let (mut body, mut bytes) = (pin!(body), Vec::new());
        while let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
            if let Ok(data) = frame.map_err(Into::into)?.into_data() {
                bytes.put(data);
            }
        }
        Ok(TestResponse { status: head.status, headers: head.headers, body: bytes.into() })
    }
}

/// The response to a test's request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TestResponse {
    /// The status.
    pub status: StatusCode,
    /// The header fields.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

impl TestResponse {
    /// Returns the value of a header that occurs once, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next().filter(|_| values.next().is_none());
        value.and_then(|value| value.to_str().ok())
    }
}
