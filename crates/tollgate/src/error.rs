//! What can be wrong with a gate that is made. What can be wrong with a question is the store's to say.

use std::fmt;

use tollgate_core::{PolicyError, StoreError, TextError};
use tollgate_dialects::DialectError;
use tollgate_memory::{LEAST_CAP, MOST_CAP, SnapshotError};

/// Why a gate was not made or not saved.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Text that is no policy.
    Text(TextError),
    /// Limits or a name that make no policy.
    Policy(PolicyError),
    /// No policy was given.
    NoPolicy,
    /// Two policies of one name.
    SameName(String),
    /// A cap out of range.
    Cap(usize),
    /// Options that make no rolling limiter.
    Rolling(DialectError),
    /// The store did not decide.
    Store(StoreError),
    /// The snapshot was not written or not read.
    Snapshot(SnapshotError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(error) => error.fmt(f),
            Self::Policy(error) => error.fmt(f),
            Self::NoPolicy => f.write_str("expected a policy; for example .policy(\"100/min\")"),
            Self::SameName(name) if name.is_empty() => f.write_str("expected one policy without a name, found two"),
            Self::SameName(name) => write!(f, "expected policy names that differ, found {name} twice"),
            Self::Cap(cap) => write!(f, "expected a memory cap from {LEAST_CAP} to {MOST_CAP} bytes, found {cap}"),
            Self::Rolling(error) => error.fmt(f),
            Self::Store(error) => error.fmt(f),
            Self::Snapshot(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Text(error) => Some(error),
            Self::Policy(error) => Some(error),
            Self::Store(error) => Some(error),
            Self::Rolling(error) => Some(error),
            Self::Snapshot(error) => Some(error),
            _ => None,
        }
    }
}

impl From<TextError> for Error {
    fn from(error: TextError) -> Self {
        Self::Text(error)
    }
}

impl From<PolicyError> for Error {
    fn from(error: PolicyError) -> Self {
        Self::Policy(error)
    }
}

impl From<DialectError> for Error {
    fn from(error: DialectError) -> Self {
        Self::Rolling(error)
    }
}

impl From<SnapshotError> for Error {
    fn from(error: SnapshotError) -> Self {
        Self::Snapshot(error)
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
