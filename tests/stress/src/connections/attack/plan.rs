//! What attackers are told.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use super::{KINDS, Kind};
use crate::Failure;

#[derive(Clone)]
pub(in crate::connections) struct Plan {
    pub(in crate::connections) kind: &'static Kind,
    pub(in crate::connections) to: SocketAddr,
    pub(in crate::connections) count: usize,
    /// They come from 127.0.NET.1 and so many more.
    pub(in crate::connections) addresses: usize,
    pub(in crate::connections) net: u8,
    /// What the server takes from one address.
    pub(in crate::connections) prefix: usize,
    /// Whom to trust over TLS.
    pub(in crate::connections) cert: PathBuf,
}

impl Plan {
    pub(in crate::connections) fn words(&self) -> [String; 7] {
        [
            self.kind.name.to_owned(),
            self.to.to_string(),
            self.count.to_string(),
            self.addresses.to_string(),
            self.net.to_string(),
            self.prefix.to_string(),
            self.cert.display().to_string(),
        ]
    }

    pub(super) fn read(words: &[String]) -> Result<Self, Failure> {
        let [name, to, count, addresses, net, prefix, cert] = words else {
            return Err(Failure("expected the seven words of a plan".to_owned()));
        };
        let kind = KINDS.iter().find(|kind| kind.name == name);
        Ok(Self {
            kind: kind.ok_or_else(|| Failure(format!("unknown attack {name:?}")))?,
            to: to.parse()?,
            count: count.parse()?,
            addresses: addresses.parse()?,
            net: net.parse()?,
            prefix: prefix.parse()?,
            cert: cert.into(),
        })
    }

    /// The address of a number, in turn.
    pub(super) fn from(&self, number: usize) -> Ipv4Addr {
        let last = u8::try_from(number % self.addresses.max(1)).unwrap_or_default();
        Ipv4Addr::new(127, 0, self.net, last.saturating_add(1))
    }
}
