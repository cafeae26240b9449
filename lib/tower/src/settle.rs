//! How a response changes the charge of its request.

use http::{HeaderMap, StatusCode};

/// What a response does to the charge of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// The charge is kept.
    Keep,
    /// The charge is refunded, as far as it still counts.
    Refund,
    /// This number of additional units is counted, whether they fit or not, because they are already used.
    Charge(u64),
}

/// Determines what a response does to the charge.
pub(crate) type SettleFn = dyn Fn(StatusCode, &HeaderMap) -> Settlement + Send + Sync;
