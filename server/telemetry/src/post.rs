//! One POST request over HTTP/1.1, on a connection of its own. Alerts and traces are sent with it.

use std::io;

use http_body_util::Full;
pub use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

/// Where a request goes, as its URL tells.
#[derive(Clone, PartialEq, Eq)]
pub struct PostTarget {
    /// The host to connect to, without the brackets of an IPv6 address.
    pub host: String,
    /// The port to connect to.
    pub port: u16,
    /// Whether the URL begins with `https://`.
    pub is_tls: bool,
    /// The path and query of the request, at least `/`.
    pub path: String,
    /// The `Host` header of the request.
    authority: String,
}

/// Shows no part of the URL, because it may contain a secret.
impl std::fmt::Debug for PostTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PostTarget(…)")
    }
}

impl PostTarget {
    /// Parses a URL. An error says what was expected, and does not contain the URL.
    pub fn parse(url: &str) -> Result<Self, &'static str> {
        let uri: Uri = url.parse().map_err(|_| "a URL such as http://127.0.0.1:9093/path")?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err("http:// or https://"),
        };
        let authority = uri.authority().ok_or("a host")?;
        if authority.as_str().contains('@') {
            return Err("no user and password in it; a secret may be part of its path");
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self { host, port, is_tls, path, authority: authority.as_str().to_owned() })
    }

    /// Sends `body` over a connection to the target, and returns the status of the response. Its body is not read.
    pub async fn send(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        content_type: &'static str,
        body: impl Into<Bytes>,
    ) -> io::Result<StatusCode> {
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.map_err(io::Error::other)?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(&self.path)
            .header(HOST, &self.authority)
            .header(CONTENT_TYPE, content_type)
            .header(USER_AGENT, concat!("tollgate/", env!("CARGO_PKG_VERSION")))
            .header(CONNECTION, "close")
            .body(Full::new(body.into()));
        let request = request.map_err(io::Error::other)?;
        // Drives the connection until the head of the response has arrived.
        let answer = tokio::select! {
            answer = sender.send_request(request) => answer,
            Err(error) = connection => Err(error),
        };
        Ok(answer.map_err(io::Error::other)?.status())
    }
}
