//! Certificate and key, and reading them again: on request, or when the files have changed. If they are not valid then,
//! the error is logged, and what was in use stays in use.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::settings::TlsFiles;
use tollgate_telemetry::log::ServerLog;

/// The TLS configuration in use.
#[derive(Debug)]
pub(crate) struct Tls {
    files: TlsFiles,
    config: RwLock<Arc<ServerConfig>>,
    /// The state of the files when they were last read.
    seen: Mutex<[Option<CertificateStamp>; 2]>,
    log: Arc<ServerLog>,
}

/// What distinguishes a file from its changed version.
type CertificateStamp = (u64, u64, u64, i64, i64);

/// Why certificate or key are not valid.
#[derive(Debug)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    Read(PathBuf, std::io::Error),
    /// The certificate's file holds no certificate.
    Certificate(PathBuf),
    /// The key's file holds no key.
    Key(PathBuf),
    /// Certificate and key do not match, or are of an unknown kind.
    Pair(String),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path, error) => write!(f, "cannot read {}: {error}", path.display()),
            Self::Certificate(path) => {
                write!(f, "{}: expected certificates in PEM, the server's first", path.display())
            }
            Self::Key(path) => write!(f, "{}: expected a private key in PEM", path.display()),
            Self::Pair(why) => write!(f, "expected a certificate and its key: {why}"),
        }
    }
}

impl std::error::Error for TlsError {}

impl Tls {
    /// Reads certificate and key.
    pub(crate) fn new(files: TlsFiles, log: Arc<ServerLog>) -> Result<Self, TlsError> {
        let seen = Mutex::new(stamps(&files));
        Ok(Self { config: RwLock::new(config(&files)?), seen, files, log })
    }

    /// Returns the acceptor for a new connection, with the configuration in use at that moment.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner)).into()
    }

    /// Reads the files again if they have changed; returns the result of that.
    pub(crate) fn reload_if_changed(&self) -> Option<Result<(), TlsError>> {
        let now = stamps(&self.files);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == now {
            return None;
        }
        *seen = now;
        drop(seen);
        Some(self.reload())
    }

    /// Reads the files again. Existing connections are not affected.
    pub(crate) fn reload(&self) -> Result<(), TlsError> {
        let config = config(&self.files).inspect_err(|error| {
            self.log.error("certificate_kept", &[("because", error)]);
        })?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        self.log.info("certificate_read", &[("file", &self.files.cert.display())]);
        Ok(())
    }
}

fn stamps(files: &TlsFiles) -> [Option<CertificateStamp>; 2] {
    [&files.cert, &files.key].map(|path| {
        let found = fs::metadata(path).ok()?;
        Some((found.dev(), found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
    })
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|error| TlsError::Read(path.to_owned(), error))
}

/// Returns a configuration for TLS 1.2 and 1.3 without client certificates.
fn config(files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(&files.cert)?).collect();
    let chain = chain.ok().filter(|chain| !chain.is_empty());
    let chain = chain.ok_or_else(|| TlsError::Certificate(files.cert.clone()))?;
    let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?).map_err(|_| TlsError::Key(files.key.clone()))?;
    let pair = |error: tokio_rustls::rustls::Error| TlsError::Pair(error.to_string());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(pair)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(pair)?;
    Ok(Arc::new(config))
}
