//! What a connection has said of itself.

use std::sync::Arc;
use std::time::Duration;

use crate::access::Scopes;
use crate::audit::{By, Who};
use crate::held::Hold;
use crate::metrics::FrontEnd;
use crate::resp::batch::Repeated;
use crate::resp::commands::Flushed;

/// A connection's own state.
pub(crate) struct Session {
    /// Its number, for CLIENT ID.
    pub(crate) id: u64,
    /// The address it comes from, for CLIENT LIST.
    pub(crate) peer: std::net::SocketAddr,
    /// The address it came to.
    pub(crate) local: std::net::SocketAddr,
    /// What it may do.
    pub(crate) scopes: Scopes,
    /// The name of the token it showed, if it did.
    pub(crate) token: Option<Arc<str>>,
    /// The database of its keys.
    pub(crate) db: u8,
    /// What it calls itself.
    pub(crate) name: Vec<u8>,
    /// The library it says it is, and its version.
    pub(crate) library: [Vec<u8>; 2],
    /// Commands that wait for EXEC, as they came.
    pub(crate) queue: Option<Queue>,
    /// How long nothing more is answered, after it guessed too many tokens.
    pub(crate) pause: Option<Duration>,
    /// Whether the connection ends after its replies are written.
    pub(crate) ends: bool,
    /// What it sees of the scripts.
    pub(crate) flushed: Flushed,
    /// What was asked last, which is mostly the next thing too.
    pub(crate) latest: Option<Arc<Repeated>>,
}

/// Commands between MULTI and EXEC.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Their bytes, which are read again: places of many short arguments would be longer.
    pub(crate) commands: Vec<Box<[u8]>>,
    pub(crate) bytes: usize,
    /// What they keep of the bound for all connections.
    pub(crate) hold: Hold,
    /// Whether one of them was wrong, so that none will be run.
    pub(crate) spoiled: bool,
}

impl Queue {
    /// Notes that none of the commands will be run, and gives back what they took.
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
            flushed: Flushed::default(),
            latest: None,
        }
    }

    /// Who it is, for the audit log.
    pub(crate) fn by(&self) -> By {
        let who = self.token.clone().map_or_else(|| Who::without_token(self.scopes), Who::Token);
        By::new(who, FrontEnd::Resp, self.peer, None)
    }
}
