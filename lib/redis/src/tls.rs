//! TLS by rustls: the public roots or a private authority, and optionally a client certificate. The crypto provider
//! is chosen here, so that a program need not install one for its whole process and cannot get into conflict with
//! one that is installed.

use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::error::RedisOpenError;

/// Certificates in PEM, as given in the settings.
#[derive(Clone, Default)]
pub(crate) struct Certificates {
    /// Replaces the public roots.
    pub(crate) authority: Option<Vec<u8>>,
    /// The client certificate chain and its private key.
    pub(crate) client: Option<(Vec<u8>, Vec<u8>)>,
}

impl Certificates {
    pub(crate) fn config(&self) -> Result<Arc<ClientConfig>, RedisOpenError> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| RedisOpenError::Tls(format!("a TLS version: {error}")))?
            .with_root_certificates(self.roots()?);
        let Some((chain, key)) = &self.client else { return Ok(Arc::new(builder.with_no_client_auth())) };
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| RedisOpenError::Tls("a private key in PEM for the client certificate".into()))?;
        let config = builder
            .with_client_auth_cert(certificates(chain, "a client certificate in PEM")?, key)
            .map_err(|error| RedisOpenError::Tls(format!("a client certificate and its key: {error}")))?;
        Ok(Arc::new(config))
    }

    fn roots(&self) -> Result<RootCertStore, RedisOpenError> {
        let Some(authority) = &self.authority else {
            return Ok(RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() });
        };
        let mut roots = RootCertStore::empty();
        for certificate in certificates(authority, "certificates of an authority in PEM")? {
            roots.add(certificate).map_err(|error| RedisOpenError::Tls(format!("a certificate to trust: {error}")))?;
        }
        Ok(roots)
    }
}

fn certificates(pem: &[u8], expected: &str) -> Result<Vec<CertificateDer<'static>>, RedisOpenError> {
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match parsed {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(RedisOpenError::Tls(expected.into())),
    }
}
