//! Why there is no store: what is wrong with its settings, or with the way to the server. A password is
//! in none of these texts, since a URL is never quoted.

use std::fmt;

/// Why a store could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL: what was expected of it.
    Url(String),
    /// A setting: what was expected of it.
    Setting(String),
    /// A certificate or key: what was expected of it.
    Tls(String),
    /// There is no tokio runtime here to run the connection in.
    Runtime,
    /// The server cannot be reached, or refuses the connection.
    Away(String),
    /// The server does not let us in, in its words.
    Refused(String),
    /// The server does not let us give back, in its words.
    Refund(String),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(expected) => write!(f, "url: expected {expected}"),
            Self::Setting(expected) | Self::Tls(expected) => write!(f, "expected {expected}"),
            Self::Runtime => f.write_str("expected a tokio runtime to open the store in"),
            Self::Away(why) => write!(f, "the server cannot be reached: {why}"),
            Self::Refused(why) => write!(f, "the server does not let us in: {why}"),
            Self::Refund(why) => write!(f, "the server does not let us give back: {why}"),
        }
    }
}

impl std::error::Error for OpenError {}
