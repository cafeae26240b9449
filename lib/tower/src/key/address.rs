//! The client's address: the peer of the socket, or the client that trusted proxies report.

use std::net::{IpAddr, SocketAddr};

use http::request::Parts;
use tollgate_http::{Prefix, Proxies};

use super::{Key, KeyBuf, KeyError};

/// The peer's address, as an extension of the request. Servers that provide it differently from axum and tonic, and
/// tonic itself where it terminates TLS (`TlsConnectInfo`), need a layer before this one that inserts it:
/// `request.extensions_mut().insert(Peer(address))`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// The key `address:203.0.113.7` or `address:2001:db8::/64`.
///
/// ```
/// use tollgate_http::Proxies;
/// use tollgate_tower::ClientIp;
/// // Directly on the network: headers are not read.
/// let direct = ClientIp::peer();
/// // Behind a load balancer in 10.0.0.0/8, whose X-Forwarded-For is believed.
/// let behind = ClientIp::behind(Proxies::new(["10.0.0.0/8"])?);
/// # Ok::<(), tollgate_http::ProxyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClientIp {
    proxies: Proxies,
    v6_bits: u8,
}

impl ClientIp {
    /// Creates a key from the address of the socket's peer; no header is read.
    pub fn peer() -> Self {
        Self::behind(Proxies::none())
    }

    /// Creates a key from the first address from the right in `X-Forwarded-For` that is not one of these proxies,
    /// if the peer is one of them.
    pub fn behind(proxies: Proxies) -> Self {
        Self { proxies, v6_bits: Prefix::V6_BITS }
    }

    /// Counts IPv6 networks with a prefix of this many bits (32 to 128) as one client. The default is 64.
    #[must_use]
    pub fn v6_prefix(self, bits: u8) -> Self {
        Self { v6_bits: bits.clamp(32, 128), ..self }
    }

    /// Returns the address from which the key is made.
    #[inline]
    pub fn of(&self, parts: &Parts) -> Result<IpAddr, KeyError> {
        Ok(self.proxies.client(peer(parts)?, &parts.headers))
    }
}

impl Key for ClientIp {
    fn write(&self, parts: &Parts, key: &mut KeyBuf) -> Result<(), KeyError> {
        key.push(b"address:")?;
        key.push(Prefix::with(self.of(parts)?, self.v6_bits).text().as_bytes())
    }
}

#[inline]
fn peer(parts: &Parts) -> Result<IpAddr, KeyError> {
    let address = parts.extensions.get::<Peer>().map(|peer| peer.0.ip());
    #[cfg(feature = "axum")]
    let address = address.or_else(|| {
        let info = parts.extensions.get::<axum::extract::ConnectInfo<SocketAddr>>();
        info.map(|info| info.0.ip())
    });
    #[cfg(feature = "grpc")]
    let address = address.or_else(|| {
        let info = parts.extensions.get::<tonic::transport::server::TcpConnectInfo>();
        info.and_then(tonic::transport::server::TcpConnectInfo::remote_addr).map(|peer| peer.ip())
    });
    address.ok_or_else(no_peer)
}

#[cold]
fn no_peer() -> KeyError {
    KeyError::Setup(
        "expected the address of the peer in the request; serve an axum router by \
         into_make_service_with_connect_info::<SocketAddr>() (feature `axum`), or insert tollgate_tower::Peer as an \
         extension"
            .to_owned(),
    )
}
