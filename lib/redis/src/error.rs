//! The errors of opening a store: a wrong setting, or a server that cannot be used. No text contains a password,
//! since a URL is never quoted.

use std::fmt;

/// The reason why a store could not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RedisOpenError {
    /// The URL is invalid.
    Url(StoreUrlError),
    /// A setting is invalid; holds what was expected.
    Setting(String),
    /// A certificate or key is invalid; holds what was expected.
    Tls(String),
    /// The store was opened outside a tokio runtime, which its connections need.
    Runtime,
    /// The server cannot be reached, or refuses the connection.
    Away(String),
    /// The server rejects the credentials; holds its error message.
    Refused(String),
    /// The server does not permit refunds; holds its error message.
    Refund(String),
}

impl fmt::Display for RedisOpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(error) => write!(f, "url: {error}"),
            Self::Setting(expected) | Self::Tls(expected) => write!(f, "expected {expected}"),
            Self::Runtime => f.write_str("expected a tokio runtime to open the store in"),
            Self::Away(why) => write!(f, "the server cannot be reached: {why}"),
            Self::Refused(why) => write!(f, "the server rejects the credentials: {why}"),
            Self::Refund(why) => write!(f, "the server does not permit refunds: {why}"),
        }
    }
}

impl std::error::Error for RedisOpenError {}

impl From<StoreUrlError> for RedisOpenError {
    fn from(error: StoreUrlError) -> Self {
        Self::Url(error)
    }
}

/// The reason why the URL of a store is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreUrlError(pub(crate) &'static str);

impl StoreUrlError {
    /// Returns what was expected.
    pub fn expected(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for StoreUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}", self.0)
    }
}

impl std::error::Error for StoreUrlError {}
