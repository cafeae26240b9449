//! The error of a request: a code for programs and a text for people. The failed request changed nothing, unless the
//! store behind the server did not answer: that store may have executed the request.

use std::fmt;

use tollgate_dialects::DialectError;
use tollgate_kernel::StoreError;

/// A request that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind of fault, for programs.
    pub code: FaultCode,
    /// The reason, for people.
    pub text: String,
}

/// The kind of a fault: the first word of an error reply, and the status of an HTTP response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultCode {
    /// The request is invalid.
    Wrong,
    /// The request is valid but does not fit the policies in use.
    Unfit,
    /// A token is needed.
    NoAuth,
    /// The protocol version is not supported.
    NoProto,
    /// Unknown token.
    WrongPass,
    /// Too many unknown tokens were tried.
    Throttled,
    /// The token lacks the scope.
    NoPerm,
    /// Unknown script.
    NoScript,
    /// The key holds a value of another type.
    WrongType,
    /// The transaction was aborted.
    ExecAbort,
    /// There is no memory for the request.
    Full,
    /// The store behind the server did not answer.
    Away,
}

impl FaultCode {
    /// One code for each distinct first word.
    pub const ALL: [Self; 10] = [
        Self::Wrong,
        Self::NoAuth,
        Self::NoProto,
        Self::WrongPass,
        Self::NoPerm,
        Self::NoScript,
        Self::WrongType,
        Self::ExecAbort,
        Self::Full,
        Self::Away,
    ];

    /// Returns the first word of an error reply.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Wrong | Self::Unfit => "ERR",
            Self::NoAuth => "NOAUTH",
            Self::NoProto => "NOPROTO",
            Self::WrongPass | Self::Throttled => "WRONGPASS",
            Self::NoPerm => "NOPERM",
            Self::NoScript => "NOSCRIPT",
            Self::WrongType => "WRONGTYPE",
            Self::ExecAbort => "EXECABORT",
            Self::Full => "OOM",
            Self::Away => "UNAVAILABLE",
        }
    }
}

impl Fault {
    /// Returns a fault with a code and a text.
    pub fn new(code: FaultCode, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// Returns the fault of an invalid request.
    pub fn wrong(text: impl Into<String>) -> Self {
        Self::new(FaultCode::Wrong, text)
    }

    /// Returns the fault of a request in which `what` has an unexpected value.
    pub fn expected(what: &str, expected: &str, found: &[u8]) -> Self {
        Self::wrong(format!("{what}: expected {expected}, found {}", quoted(found)))
    }
}

/// The longest part of an argument that an error repeats, in characters.
const MAX_FOUND: usize = 40;

/// Returns an argument as an error shows it: quoted, escaped and truncated.
pub fn quoted(bytes: &[u8]) -> String {
    format!("{:?}", shown(bytes))
}

/// Returns the same without quotes and escapes.
pub fn shown(bytes: &[u8]) -> String {
    // Reads no more bytes than are shown, however long the argument is.
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * MAX_FOUND + 4)]);
    let mut shown: String = text.chars().take(MAX_FOUND).collect();
    if text.chars().nth(MAX_FOUND).is_some() {
        shown.push('…');
    }
    shown
}

/// Formats the line of the error reply.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code.word(), self.text)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        let code = if matches!(error, StoreError::Away { .. }) { FaultCode::Away } else { FaultCode::Wrong };
        Self::new(code, error.to_string())
    }
}

impl From<DialectError> for Fault {
    fn from(error: DialectError) -> Self {
        Self::wrong(error.to_string())
    }
}
