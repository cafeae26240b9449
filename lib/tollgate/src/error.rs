//! Errors in building or saving a gate. Errors in deciding a request are [`StoreError`]s.

use std::fmt;

use tollgate_dialects::DialectError;
use tollgate_kernel::{PolicyError, StoreError, TextError};
use tollgate_memory::{MAX_CAP, MIN_CAP, SnapshotError};

/// The reason why a gate could not be built or saved.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The text is not a valid policy.
    Text(TextError),
    /// The limits or the name do not form a valid policy.
    Policy(PolicyError),
    /// No policy was given.
    NoPolicy,
    /// Two policies have the same name.
    SameName(String),
    /// The memory cap is out of range.
    Cap(usize),
    /// The options do not form a valid rolling limiter.
    Rolling(DialectError),
    /// The store could not decide.
    Store(StoreError),
    /// The snapshot could not be written or read.
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
            Self::Cap(cap) => write!(f, "expected a memory cap from {MIN_CAP} to {MAX_CAP} bytes, found {cap}"),
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
