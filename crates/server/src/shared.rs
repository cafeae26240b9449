//! What all connections share.

use std::sync::atomic::AtomicU64;

use tokio::sync::watch;

use crate::access::Access;
use crate::desk::Desk;
use crate::resp::commands::Scripts;

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) desk: Desk,
    pub(crate) access: Access,
    /// Which scripts and libraries are loaded.
    pub(crate) scripts: Scripts,
    /// The number of the next connection.
    pub(crate) next_id: AtomicU64,
    /// Whether the server is about to end.
    pub(crate) stopping: watch::Receiver<bool>,
}
