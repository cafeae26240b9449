//! The state of a connection.

use std::sync::Arc;
use std::time::Duration;

use crate::access::Scopes;
use crate::buffers::BufferLease;
use crate::resp::batch::CheckTemplate;
use crate::resp::commands::ScriptView;
use tollgate_telemetry::audit::FrontEnd;
use tollgate_telemetry::audit::{AuditActor, CallerIdentity};

/// The state of a connection.
pub(crate) struct Session {
    /// The number of the connection, for CLIENT ID.
    pub(crate) id: u64,
    /// The address it comes from, for CLIENT LIST.
    pub(crate) peer: std::net::SocketAddr,
    /// The local address it connected to.
    pub(crate) local: std::net::SocketAddr,
    /// What it may do.
    pub(crate) scopes: Scopes,
    /// The name of the token it presented, if it did.
    pub(crate) token: Option<Arc<str>>,
    /// The database of its keys.
    pub(crate) db: u8,
    /// The name it gave itself.
    pub(crate) name: Vec<u8>,
    /// The name and the version of its client library.
    pub(crate) library: [Vec<u8>; 2],
    /// Commands queued for EXEC, as they arrived.
    pub(crate) queue: Option<MultiQueue>,
    /// How long nothing more is answered, after too many failed logins.
    pub(crate) pause: Option<Duration>,
    /// Whether the connection ends after its replies are written.
    pub(crate) ends: bool,
    /// Which scripts it sees as loaded.
    pub(crate) script_view: ScriptView,
    /// The latest check, which the next one mostly repeats.
    pub(crate) latest: Option<Arc<CheckTemplate>>,
}

/// Commands between MULTI and EXEC.
#[derive(Debug, Default)]
pub(crate) struct MultiQueue {
    /// Their bytes, which are decoded again: the spans of many short arguments would take more memory.
    pub(crate) commands: Vec<Box<[u8]>>,
    pub(crate) bytes: usize,
    /// Their part of the shared buffers.
    pub(crate) lease: BufferLease,
    /// Whether one of them was not valid, so that none will be run.
    pub(crate) spoiled: bool,
}

impl MultiQueue {
    /// Records that none of the commands will be run, and releases their memory.
    pub(crate) fn spoil(&mut self) {
        *self = Self { spoiled: true, ..Self::default() };
    }
}

impl Session {
    pub(crate) fn new(id: u64, peer: std::net::SocketAddr, local: std::net::SocketAddr, scopes: Scopes) -> Self {
        Self {
            id,
            peer,
            local,
            scopes,
            token: None,
            db: 0,
            name: Vec::new(),
            library: [Vec::new(), Vec::new()],
            queue: None,
            pause: None,
            ends: false,
            script_view: ScriptView::default(),
            latest: None,
        }
    }

    /// Returns the caller, for the audit log.
    pub(crate) fn by(&self) -> AuditActor {
        let who = self.token.clone().map_or_else(|| self.scopes.who(), CallerIdentity::Token);
        AuditActor::new(who, FrontEnd::Resp, self.peer, None)
    }
}
