//! Why a server does not start, and what to do about it.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use tollgate_engine::OpsError;
use tollgate_engine::persist::PersistError;
use tollgate_telemetry::traces::TracesError;

use crate::access::TokensError;
use crate::listeners::TlsError;

/// Why a server does not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The server cannot listen on an address.
    Listen(SocketAddr, io::Error),
    /// There is no address to listen on.
    Nowhere,
    /// Other machines reach the address, and there are no tokens.
    Exposed(SocketAddr),
    /// Other machines reach the address, and traffic to it is not encrypted.
    Plain(SocketAddr),
    /// The kept data cannot be used, and why.
    Data(String),
    /// Both a data directory and a store are configured.
    DataAndStore,
    /// The tokens file is not valid.
    Tokens(TokensError),
    /// The policies or their file are not valid: one mistake a line.
    Config(String),
    /// Certificate or key are not valid.
    Tls(TlsError),
    /// The file of the audit log cannot be opened.
    Audit(PathBuf, io::Error),
    /// The collector of traces cannot be used.
    Traces(TracesError),
    /// The system allows too few open files: this many.
    Files(u64),
    /// The system did not provide a thread, a runtime or random bytes.
    System(io::Error),
}

impl From<OpsError> for StartError {
    fn from(error: OpsError) -> Self {
        match error {
            OpsError::Audit(path, error) => Self::Audit(path, error),
            OpsError::Traces(error) => Self::Traces(error),
        }
    }
}

impl From<PersistError> for StartError {
    fn from(error: PersistError) -> Self {
        Self::Data(error.to_string())
    }
}

impl StartError {
    /// Returns what is wrong.
    pub fn what(&self) -> String {
        match self {
            Self::Listen(addr, error) => format!("cannot listen on {addr}: {error}"),
            Self::Nowhere => "expected an address to listen on, found none".to_owned(),
            Self::Exposed(addr) => format!("expected tokens, since others than this machine reach {addr}"),
            Self::Plain(addr) => {
                format!("expected TLS, since tokens and keys could be read on their way to {addr}")
            }
            Self::Data(text) => text.clone(),
            Self::DataAndStore => {
                "expected a data directory or a store, found both: what is decided in a store is kept there".to_owned()
            }
            Self::Tokens(error) => error.to_string(),
            Self::Config(mistakes) => mistakes.clone(),
            Self::Tls(error) => error.to_string(),
            Self::Audit(path, error) => format!("cannot write the audit log {}: {error}", path.display()),
            Self::Traces(error) => error.to_string(),
            Self::Files(limit) => format!("expected more open files than the {limit} that the system allows"),
            Self::System(error) => format!("cannot start: {error}"),
        }
    }

    /// Returns what to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Listen(_, error) if error.kind() == io::ErrorKind::AddrInUse => {
                "is a server running there already? name another port: --resp PORT, --http PORT"
            }
            Self::Listen(_, error) if error.kind() == io::ErrorKind::PermissionDenied => {
                "ports below 1024 are for root; name another: --resp PORT, --http PORT"
            }
            Self::Nowhere => "--resp ADDR or --http ADDR",
            Self::Exposed(_) => {
                "tollgate token --scopes check,read --name NAME --file FILE makes one, --tokens FILE takes it; \
                 --insecure-no-auth lets everybody do everything"
            }
            Self::Plain(_) => {
                "--tls-cert FILE --tls-key FILE; or --plaintext where nobody listens, as behind a proxy that speaks TLS"
            }
            Self::DataAndStore => "leave --data out, and see to it that Redis keeps what it has (appendonly yes)",
            Self::Tokens(TokensError::Read(..)) => {
                "tollgate token --scopes check,read --name NAME --file FILE makes it"
            }
            Self::Audit(..) => "--audit FILE: a file, no link, that only this user may write",
            Self::Traces(TracesError::Endpoint(_)) => {
                "--otlp http://127.0.0.1:4318, where a collector takes OTLP over HTTP"
            }
            Self::Files(_) => "ulimit -n 8192, or LimitNOFILE= of the systemd unit",
            _ => return None,
        })
    }
}

/// Writes what is wrong, and what to do about it.
impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what())?;
        self.hint().map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Listen(_, error) | Self::Audit(_, error) | Self::System(error) => Some(error),
            Self::Tokens(error) => Some(error),
            Self::Tls(error) => Some(error),
            Self::Traces(error) => Some(error),
            _ => None,
        }
    }
}
