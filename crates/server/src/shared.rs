//! What all connections share.

use std::sync::atomic::AtomicU64;

use tokio::sync::watch;

use crate::access::Access;
use crate::desk::Desk;
use crate::http::Front;

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) desk: Desk,
    pub(crate) access: Access,
    pub(crate) http: Front,
    /// The number of the next connection.
    pub(crate) next_id: AtomicU64,
    /// Whether the server is about to end.
    pub(crate) stopping: watch::Receiver<bool>,
}
