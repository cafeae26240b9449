//! TLS by rustls: the public roots, or the authority of `--ca`.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use super::{AuthorityArgs, ServerError};

/// Returns the TLS configuration with the certificates to trust.
pub(super) fn config(authority: &AuthorityArgs) -> Result<Arc<ClientConfig>, ServerError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|_| ServerError::Url("a version of TLS that is known here"))?;
    Ok(Arc::new(builder.with_root_certificates(roots(authority)?).with_no_client_auth()))
}

fn roots(authority: &AuthorityArgs) -> Result<RootCertStore, ServerError> {
    let Some(pem) = authority.pem()? else {
        return Ok(RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() });
    };
    let wrong = |why: &str| ServerError::Authority(authority.ca.clone().unwrap_or_default(), why.to_owned());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|_| wrong("expected certificates in PEM"))?;
        roots.add(certificate).map_err(|error| wrong(&error.to_string()))?;
    }
    if roots.is_empty() { Err(wrong("expected at least one certificate in PEM")) } else { Ok(roots) }
}
