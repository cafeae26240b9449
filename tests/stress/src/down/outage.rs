//! The ways in which a server is down, each with its beginning and its end.

use std::time::Duration;

use tollgate_kit::{Fault, Proxy, Server};

use super::resetter::Resetter;
use crate::Failure;

/// A way to be down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outage {
    /// The process was killed; the system refuses connections.
    Killed,
    /// The proxy closed its port; the server goes on behind it.
    Refused,
    /// The process is stopped: connections are accepted, nothing is answered.
    Stopped,
    /// Connections are accepted and reset.
    Reset,
    /// Every byte takes five seconds.
    Slow,
    /// The proxy swallows every byte.
    Silent,
}

/// A server and the proxy before it.
pub(super) struct ProxiedServer {
    pub(super) server: Server,
    pub(super) proxy: Proxy,
    resetter: Option<Resetter>,
}

impl ProxiedServer {
    pub(super) fn start() -> Result<Self, Failure> {
        let server = Server::start()?;
        let proxy = Proxy::start(server.addr())?;
        Ok(Self { server, proxy, resetter: None })
    }
}

impl Outage {
    pub(super) const ALL: [Self; 6] =
        [Self::Killed, Self::Refused, Self::Stopped, Self::Reset, Self::Slow, Self::Silent];

    pub(super) fn begin(self, proxied: &mut ProxiedServer) -> Result<(), Failure> {
        let faults = proxied.proxy.faults();
        match self {
            Self::Killed => proxied.server.kill_hard()?,
            Self::Stopped => proxied.server.stop_answering()?,
            Self::Slow => faults.set(Fault::Delay(Duration::from_secs(5))),
            Self::Silent => faults.set(Fault::Stall),
            Self::Refused => {
                faults.refuse();
                faults.close_all();
            }
            Self::Reset => {
                faults.refuse();
                proxied.resetter = Some(Resetter::start(proxied.proxy.addr())?);
                faults.close_all();
            }
        }
        Ok(())
    }

    /// When this returns, the server answers.
    pub(super) fn end(self, proxied: &mut ProxiedServer) -> Result<(), Failure> {
        match self {
            Self::Killed => proxied.server.restart()?,
            Self::Stopped => proxied.server.resume()?,
            Self::Slow | Self::Silent => proxied.proxy.faults().clear(),
            Self::Refused | Self::Reset => {
                proxied.resetter = None;
                proxied.proxy.faults().accept()?;
            }
        }
        Ok(())
    }
}
