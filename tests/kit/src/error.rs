//! What goes wrong while servers are run, with enough in the text to act on it.

use std::time::Duration;
use std::{fmt, io};

use redis::RedisError;

/// Why a server, a cluster or a proxy could not do what it was asked.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A program or a library is not on this machine; the text says how to get it.
    Missing(String),
    /// The operating system refused something.
    Io {
        /// What was being done.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// A server refused a command, or the connection to it failed.
    Redis {
        /// What was being done.
        doing: String,
        /// What the client library said.
        source: RedisError,
    },
    /// Another process listens on the port.
    PortTaken(u16),
    /// Something did not happen in its time.
    TimedOut {
        /// What was waited for.
        waiting: String,
        /// How long.
        bound: Duration,
    },
    /// An answer or a state that should not be.
    Unexpected(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(what) | Self::Unexpected(what) => f.write_str(what),
            Self::Io { doing, source } => write!(f, "{doing}: {source}"),
            Self::Redis { doing, source } => write!(f, "{doing}: {source}"),
            Self::PortTaken(port) => write!(f, "another process listens on port {port}"),
            Self::TimedOut { waiting, bound } => write!(f, "waited {bound:?} for {waiting}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Redis { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Says what was being done when something failed.
pub(crate) trait ErrorContext<T> {
    fn doing(self, what: impl Into<String>) -> Result<T, Error>;
}

impl<T> ErrorContext<T> for io::Result<T> {
    fn doing(self, what: impl Into<String>) -> Result<T, Error> {
        self.map_err(|source| Error::Io { doing: what.into(), source })
    }
}

impl<T> ErrorContext<T> for Result<T, RedisError> {
    fn doing(self, what: impl Into<String>) -> Result<T, Error> {
        self.map_err(|source| Error::Redis { doing: what.into(), source })
    }
}
