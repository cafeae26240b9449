//! One POST over HTTP or HTTPS. Redirects are not followed, so that an alert reaches only the configured receiver.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tollgate_telemetry::post::{PostTarget, StatusCode};

/// The content type of alerts.
const JSON: &str = "application/json";

/// The reason why a post was not accepted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PostError {
    /// A retry may succeed.
    Later(String),
    /// A retry cannot succeed.
    Never(String),
}

/// Parses the URL of the receiver. Errors do not contain the URL.
pub(super) fn parse_url(url: &str) -> Result<PostTarget, String> {
    PostTarget::parse(url).map_err(|expected| format!("webhook: expected {expected}"))
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
    target: &PostTarget,
    body: &str,
    tls: &Arc<ClientConfig>,
    within: Duration,
) -> Result<(), PostError> {
    match tokio::time::timeout(within, send(target, body, tls)).await {
        Ok(done) => done,
        Err(_) => Err(PostError::Later(format!("no answer within {within:?}"))),
    }
}

async fn send(target: &PostTarget, body: &str, tls: &Arc<ClientConfig>) -> Result<(), PostError> {
    let later = |error: std::io::Error| PostError::Later(error.to_string());
    let stream = TcpStream::connect((target.host.as_str(), target.port)).await.map_err(later)?;
    let status = if target.is_tls {
        let name = ServerName::try_from(target.host.clone()).map_err(|error| PostError::Never(error.to_string()))?;
        let stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await.map_err(later)?;
        target.send(stream, JSON, body.to_owned()).await
    } else {
        target.send(stream, JSON, body.to_owned()).await
    };
    match status.map_err(later)? {
        status if status.is_success() => Ok(()),
        status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
            Err(PostError::Later(format!("status {status}")))
        }
        status => Err(PostError::Never(format!("status {status}"))),
    }
}
