//! Why a question is not answered: a code for programs, a text for people. Nothing was changed, unless the store
//! behind the server did not answer: it may have done what was asked.

use std::fmt;

use tollgate_core::StoreError;
use tollgate_dialects::DialectError;

/// A question that is not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) code: Code,
    pub(crate) text: String,
}

/// What kind of fault it is: the first word of an error reply, the status of an HTTP answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Code {
    /// The question is wrong.
    Wrong,
    /// The question is right and does not fit the policies in use.
    Unfit,
    /// A token is needed.
    NoAuth,
    /// The protocol is not spoken.
    NoProto,
    /// A token was tried that is none.
    WrongPass,
    /// Too many were tried.
    Throttled,
    /// The token lacks the scope.
    NoPerm,
    /// The script is not known.
    NoScript,
    /// The key holds something else.
    WrongType,
    /// The transaction was given up.
    ExecAbort,
    /// There is no memory for it.
    Full,
    /// The store behind the server did not answer.
    Away,
}

impl Code {
    /// All of them.
    pub(crate) const ALL: [Self; 10] = [
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

    /// The first word of an error reply.
    pub(crate) const fn word(self) -> &'static str {
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
    pub(crate) fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// The question is wrong.
    pub(crate) fn wrong(text: impl Into<String>) -> Self {
        Self::new(Code::Wrong, text)
    }

    /// `what` is not what was expected.
    pub(crate) fn expected(what: &str, expected: &str, found: &[u8]) -> Self {
        Self::wrong(format!("{what}: expected {expected}, found {}", quoted(found)))
    }
}

/// The longest piece of an argument that an error repeats, in characters.
const LONGEST_FOUND: usize = 40;

/// An argument as it may be shown: one line, not too long.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    format!("{:?}", shown(bytes))
}

/// The same without quotes and escapes.
pub(crate) fn shown(bytes: &[u8]) -> String {
    // No more is read than is told, however long it is.
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * LONGEST_FOUND + 4)]);
    let mut shown: String = text.chars().take(LONGEST_FOUND).collect();
    if text.chars().nth(LONGEST_FOUND).is_some() {
        shown.push('…');
    }
    shown
}

/// The error reply's line.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code.word(), self.text)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        let code = if matches!(error, StoreError::Away { .. }) { Code::Away } else { Code::Wrong };
        Self::new(code, error.to_string())
    }
}

impl From<DialectError> for Fault {
    fn from(error: DialectError) -> Self {
        Self::wrong(error.to_string())
    }
}
