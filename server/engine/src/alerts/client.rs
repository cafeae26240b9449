//! One POST over HTTP or HTTPS. Redirects are not followed, so that an alert reaches only the configured receiver.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// The receiver of alerts. It is never shown, because it may contain a secret.
#[derive(Clone)]
pub(super) struct WebhookTarget {
    host: String,
    port: u16,
    /// The `Host` header of requests.
    named: String,
    path: String,
    is_tls: bool,
}

impl std::fmt::Debug for WebhookTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WebhookTarget(…)")
    }
}

/// The reason why a post was not accepted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PostError {
    /// A retry may succeed.
    Later(String),
    /// A retry cannot succeed.
    Never(String),
}

impl WebhookTarget {
    /// Parses a URL. Errors do not contain the URL.
    pub(super) fn read(url: &str) -> Result<Self, String> {
        let expected = |what: &str| format!("webhook: expected {what}");
        let uri: Uri = url.parse().map_err(|_| expected("a URL such as http://127.0.0.1:9093/alerts"))?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(expected("http:// or https://")),
        };
        let authority = uri.authority().ok_or_else(|| expected("a host"))?;
        if authority.as_str().contains('@') {
            return Err(expected("no user and password in it; a secret may be part of its path"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self { host, port, named: authority.as_str().to_owned(), path, is_tls })
    }
}

/// Returns a configuration that trusts the public roots.
pub(super) fn public_roots() -> Result<Arc<ClientConfig>, tokio_rustls::rustls::Error> {
    trusting(RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() })
}

pub(super) fn trusting(roots: RootCertStore) -> Result<Arc<ClientConfig>, tokio_rustls::rustls::Error> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

/// Posts a body within a time.
pub(super) async fn post(
    target: &WebhookTarget,
    body: &str,
    tls: &Arc<ClientConfig>,
    within: Duration,
) -> Result<(), PostError> {
    match tokio::time::timeout(within, send(target, body, tls)).await {
        Ok(done) => done,
        Err(_) => Err(PostError::Later(format!("no answer within {within:?}"))),
    }
}

async fn send(target: &WebhookTarget, body: &str, tls: &Arc<ClientConfig>) -> Result<(), PostError> {
    let later = |error: std::io::Error| PostError::Later(error.to_string());
    let stream = TcpStream::connect((target.host.as_str(), target.port)).await.map_err(later)?;
    let status = if target.is_tls {
        let name = ServerName::try_from(target.host.clone()).map_err(|error| PostError::Never(error.to_string()))?;
        let stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await.map_err(later)?;
        exchange(target, body, stream).await
    } else {
        exchange(target, body, stream).await
    };
    let status = status.map_err(|error| PostError::Later(error.to_string()))?;
    match status {
        status if status.is_success() => Ok(()),
        status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
            Err(PostError::Later(format!("status {status}")))
        }
        status => Err(PostError::Never(format!("status {status}"))),
    }
}

async fn exchange(
    target: &WebhookTarget,
    body: &str,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> hyper::Result<StatusCode> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::builder()
        .method(Method::POST)
        .uri(&target.path)
        .header(HOST, &target.named)
        .header(CONTENT_TYPE, "application/json")
        .header(USER_AGENT, concat!("tollgate/", env!("CARGO_PKG_VERSION")))
        .header(CONNECTION, "close")
        .body(Full::new(Bytes::copy_from_slice(body.as_bytes())));
    // All parts were validated before.
    let Ok(request) = request else { return Ok(StatusCode::BAD_REQUEST) };
    let answer = async {
        let answer = sender.send_request(request).await?;
        Ok(answer.status())
    };
    // Drives the connection until the head of the response has arrived; its body is not needed.
    tokio::select! {
        answer = answer => answer,
        Err(error) = connection => Err(error),
    }
}
