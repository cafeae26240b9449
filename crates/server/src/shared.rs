//! What all connections share.

use std::sync::atomic::AtomicU64;

use tokio::sync::watch;

use crate::access::Access;
use crate::desk::Desk;
use crate::resp::clients::Clients;

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) desk: Desk,
    pub(crate) access: Access,
    /// The connections that speak the Redis protocol.
    pub(crate) clients: Clients,
    /// The number of the next connection.
    pub(crate) next_id: AtomicU64,
    /// Whether the server is about to end.
    pub(crate) stopping: watch::Receiver<bool>,
}
