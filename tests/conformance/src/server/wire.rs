//! A server in this process, asked over sockets. Its clock is ours; a server that is started by its command
//! has no such clock.

use std::net::{Ipv4Addr, SocketAddr};

use tollgate_daemon::{Server, ServerSettings};
use tollgate_dialects::DialectReply;
use tollgate_kernel::{Policy, Timestamp};
use tollgate_memory::ManualClock;

use super::http::Http;
use super::resp::Resp;
use crate::home::Refusal;

/// The protocol a question goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontEnd {
    /// The Redis protocol.
    Resp,
    /// HTTP.
    Http,
}

/// One key under a policy.
pub(super) type KeyAndPolicy<'a> = (&'a [u8], &'a Policy);

/// A server and connections to it.
pub struct ServerConnections {
    pub(super) resp: Resp,
    http: Http,
    clock: ManualClock,
    // Stopped after the connections are closed.
    pub(super) server: Server,
}

impl ServerConnections {
    /// Starts one on ports that are free.
    pub fn open() -> Result<Self, Refusal> {
        Self::with(ServerSettings::default())
    }

    /// Starts one with these settings, on ports that are free.
    pub(super) fn with(settings: ServerSettings) -> Result<Self, Refusal> {
        let any: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
        let clock = ManualClock::default();
        let settings = ServerSettings { resp: Some(any), http: Some(any), threads: 1, ..settings };
        let server = Server::start_with_clock(settings, &clock).map_err(refuse)?;
        let (Some(resp), Some(http)) = (server.resp_addr(), server.http_addr()) else {
            return Err(Refusal::new("the server does not say where it listens"));
        };
        // A server on loopback makes itself a token that is allowed everything.
        let token = server.token().map(|token| token.text().to_owned()).unwrap_or_default();
        Ok(Self { resp: Resp::open(resp, &token)?, http: Http::open(http, token)?, clock, server })
    }

    /// Sets the server's clock.
    pub fn set(&self, t: Timestamp) {
        self.clock.set(t);
    }

    /// Asks what the function `call` would be asked: `tollgate`, `tollgate_peek`, `tollgate_reset`,
    /// `tollgate_refund` or `tollgate_all`, with the words behind the policy; the integers it would answer.
    pub fn native(
        &mut self,
        front: FrontEnd,
        call: &str,
        on: &[KeyAndPolicy<'_>],
        args: &[&str],
        t: Timestamp,
    ) -> Result<Vec<i64>, Refusal> {
        self.set(t);
        match front {
            FrontEnd::Resp => self.resp.native(call, on, args),
            FrontEnd::Http => self.http.native(call, on, args),
        }
    }

    /// Calls a dialect over the Redis protocol.
    pub fn dialect(
        &mut self,
        name: &str,
        keys: &[Vec<u8>],
        args: &[Vec<u8>],
        t: Timestamp,
    ) -> Result<DialectReply, Refusal> {
        self.set(t);
        self.resp.dialect(name, keys, args)
    }
}

pub(super) fn refuse(error: impl std::fmt::Display) -> Refusal {
    Refusal::new(error.to_string())
}
