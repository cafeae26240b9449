//! Why a server does not start, and what to do about it.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use tollgate_otlp::TracesError;

use crate::access::TokensError;
use crate::door::TlsError;

/// Why a server does not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// An address cannot be listened on.
    Listen(SocketAddr, io::Error),
    /// There is no address to listen on.
    Nowhere,
    /// Others reach the address, and there are no tokens.
    Exposed(SocketAddr),
    /// Others reach the address, and what goes there could be read on the way.
    Plain(SocketAddr),
    /// What was kept over a restart, and why it cannot be used.
    Data(String),
    /// Something is to be kept here, and decided elsewhere.
    DataAndStore,
    /// The tokens file.
    Tokens(TokensError),
    /// The policies, or their file: a line a mistake.
    Config(String),
    /// Certificate or key.
    Tls(TlsError),
    /// The file of the audit log.
    Audit(PathBuf, io::Error),
    /// The collector of traces.
    Traces(TracesError),
    /// The system allows too few open files; how many.
    Files(u64),
    /// The system gave no thread, runtime or random number.
    System(io::Error),
}

impl StartError {
    /// What happened.
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

    /// What to do about it.
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

/// What happened, and what to do about it.
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
