//! What becomes of a charge once the response is known.

use http::{HeaderMap, StatusCode};

/// What a response does to the charge of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settle {
    /// Nothing.
    Keep,
    /// It is given back, as far as it is still held.
    Refund,
    /// So many units more are counted, whether they fit or not: what they stand for has happened.
    Charge(u64),
}

/// Says what a response does to the charge.
pub(crate) type Settling = dyn Fn(StatusCode, &HeaderMap) -> Settle + Send + Sync;
