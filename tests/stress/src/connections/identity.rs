//! Tokens and certificate of the servers, in a folder that is gone with the campaign.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::CertifiedKey;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tollgate_daemon::{AccessToken, Scopes};

use crate::Failure;

/// The name in the certificate.
pub(super) const NAME: &str = "localhost";

/// Where they are.
#[derive(Debug)]
pub(super) struct Files {
    folder: PathBuf,
    pub(super) tokens: PathBuf,
    pub(super) cert: PathBuf,
    pub(super) key: PathBuf,
}

pub(super) struct Identity {
    pub(super) files: Files,
    pub(super) token: AccessToken,
    /// What a client trusts.
    pub(super) trusted: Arc<ClientConfig>,
}

impl Identity {
    pub(super) fn new() -> Result<Self, Failure> {
        let folder = std::env::temp_dir().join(format!("tollgate-connections-{}", std::process::id()));
        std::fs::create_dir(&folder)?;
        let path = |name: &str| folder.join(name);
        let files = Files { tokens: path("tokens"), cert: path("cert.pem"), key: path("key.pem"), folder };
        let CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
        std::fs::write(&files.cert, cert.pem())?;
        std::fs::write(&files.key, signing_key.serialize_pem())?;
        let (token, _) = AccessToken::add_to(&files.tokens, Scopes::ALL, "torture")?;
        let trusted = trusting(&files.cert)?;
        Ok(Self { files, token, trusted })
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A client that trusts a certificate alone.
pub(super) fn trusting(cert: &std::path::Path) -> Result<Arc<ClientConfig>, Failure> {
    let mut roots = RootCertStore::empty();
    let cert = CertificateDer::from_pem_file(cert).map_err(|error| Failure(format!("{}: {error}", cert.display())))?;
    roots.add(cert)?;
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
