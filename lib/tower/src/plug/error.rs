//! The errors of a limiter, found when it is built and never by a request.

use std::fmt;

use tollgate_dialects::DialectError;
use tollgate_kernel::StoreError;

/// The reason why a limiter could not be built.
#[derive(Debug)]
#[non_exhaustive]
pub enum PlugError {
    /// No limiter has this name.
    Unknown {
        /// The name.
        name: String,
        /// The existing names.
        known: Vec<String>,
    },
    /// A limiter of this name exists already.
    Duplicate(String),
    /// The name is not made of 1 to 64 letters, digits, `-` and `_`.
    Name(String),
    /// A limiter without a script, or with a script that cannot run there; holds the limiter and what was expected.
    Script(String, &'static str),
    /// An invalid header name; holds the limiter and what was expected.
    Header(String, String),
    /// Invalid options; holds the limiter and what was expected.
    Options(String, String),
    /// A limiter without a key function.
    Key(String),
    /// An `on_error` that cannot be followed; holds the limiter and what was expected.
    OnError(String, &'static str),
    /// The server does not run the limiter's script; holds the limiter and the reason.
    Server(String, String),
    /// The embedded store does not accept the limiter.
    Store(StoreError),
}

impl PlugError {
    pub(super) fn dialect(limiter: &str, error: DialectError) -> Self {
        Self::Options(limiter.to_owned(), error.to_string())
    }
}

impl fmt::Display for PlugError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, known } => {
                write!(f, "expected the name of a limiter ({}), found {name:?}", known.join(", "))
            }
            Self::Duplicate(name) => write!(f, "expected another name: there is a limiter {name} already"),
            Self::Name(name) => {
                write!(f, "expected a name of 1 to 64 letters, digits, - and _, found {name:?}")
            }
            Self::Script(limiter, expected) => write!(f, "limiter {limiter}: script: expected {expected}"),
            Self::Header(limiter, why) => write!(f, "limiter {limiter}: headers: {why}"),
            Self::Options(limiter, why) => write!(f, "limiter {limiter}: options: {why}"),
            Self::Key(limiter) => {
                write!(f, "limiter {limiter}: expected a key function: key(ClientIp::peer()), or keys(…)")
            }
            Self::OnError(limiter, expected) => write!(f, "limiter {limiter}: on_error: expected {expected}"),
            Self::Server(limiter, why) => write!(f, "limiter {limiter}: script: {why}"),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PlugError {}

impl From<StoreError> for PlugError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
