//! The address of a client behind proxies. A header is used only as far as trusted proxies wrote it, because any client
//! can send one.
//!
//! The peer is the client, unless it is a trusted proxy. Then `X-Forwarded-For` is walked from the right, over all its
//! lines: trusted addresses are skipped, and the first other address is the client. An entry that cannot be parsed ends
//! the walk at the last trusted hop. The leftmost entry, which the client itself wrote, is never used just because of
//! its position.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, HeaderName};
use ipnet::{IpNet, Ipv4Net};

use crate::hop;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// A list of trusted proxies, which finds the address of a client behind them. The default list is empty: then no
/// header is read. Clones share the list.
///
/// ```
/// use tollgate_http::Proxies;
/// let proxies = Proxies::new(["10.0.0.0/8", "::1"])?;
/// assert!(proxies.trusts([10, 20, 30, 40].into()));
/// let error = Proxies::new(["loadbalancer"]).unwrap_err().to_string();
/// assert_eq!(error, r#"expected an address such as 127.0.0.1 or a network such as 10.0.0.0/8, found "loadbalancer""#);
/// # Ok::<(), tollgate_http::ProxyError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    trusted: Arc<[IpNet]>,
    /// Headers that are read before `X-Forwarded-For`.
    also: Arc<[HeaderName]>,
}

/// The reason why a trusted proxy, or a header of one, is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProxyError {
    /// The text is neither an address nor a network.
    Network(String),
    /// The text is not the name of a header.
    Header(String),
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(text) => {
                write!(f, "expected an address such as 127.0.0.1 or a network such as 10.0.0.0/8, found {text:?}")
            }
            Self::Header(text) => write!(f, "expected the name of a header such as cf-connecting-ip, found {text:?}"),
        }
    }
}

impl std::error::Error for ProxyError {}

/// Parses a trusted proxy: an address, or a network such as `10.0.0.0/8`.
pub fn trusted_proxy(text: &str) -> Result<IpNet, ProxyError> {
    let wrong = || ProxyError::Network(text.to_owned());
    let net = match text.parse::<IpAddr>() {
        Ok(ip) => IpNet::from(ip.to_canonical()),
        Err(_) => text.parse::<IpNet>().map_err(|_| wrong())?,
    };
    let IpNet::V6(six) = net else { return Ok(net.trunc()) };
    let Some(four) = six.addr().to_ipv4_mapped() else { return Ok(net.trunc()) };
    // A network of IPv4-mapped addresses. A shorter prefix would contain all of them, and other addresses.
    let bits = six.prefix_len().checked_sub(96).ok_or_else(wrong)?;
    Ipv4Net::new(four, bits).map(|net| IpNet::V4(net.trunc())).map_err(|_| wrong())
}

impl Proxies {
    /// Creates an empty list: the peer is always the client.
    pub fn none() -> Self {
        Self::default()
    }

    /// Creates a list of trusted addresses and networks.
    pub fn new<T: AsRef<str>>(trusted: impl IntoIterator<Item = T>) -> Result<Self, ProxyError> {
        trusted.into_iter().map(|text| trusted_proxy(text.as_ref())).collect()
    }

    /// Adds a header in which a trusted peer sends the address of its client, such as `cf-connecting-ip` or
    /// `x-real-ip`. It takes precedence over `X-Forwarded-For` if it occurs once and is one address. Use this only for
    /// a header that the proxy always sets itself, whatever its client sent.
    pub fn also(self, name: &str) -> Result<Self, ProxyError> {
        let name = HeaderName::try_from(name).map_err(|_| ProxyError::Header(name.to_owned()))?;
        Ok(Self { also: self.also.iter().cloned().chain([name]).collect(), ..self })
    }

    /// Returns whether this is the address of a trusted proxy.
    #[inline]
    pub fn trusts(&self, ip: IpAddr) -> bool {
        !self.trusted.is_empty() && self.is_listed(ip.to_canonical())
    }

    fn is_listed(&self, ip: IpAddr) -> bool {
        self.trusted.iter().any(|net| net.contains(&ip))
    }

    /// Returns the address of the client, in canonical form. If the peer is not trusted, no header is read.
    #[inline]
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let peer = peer.to_canonical();
        if !self.trusts(peer) {
            return peer;
        }
        self.additional(headers).unwrap_or_else(|| self.walk(peer, headers))
    }

    /// Returns the address in one of the additional headers.
    fn additional(&self, headers: &HeaderMap) -> Option<IpAddr> {
        self.also.iter().find_map(|name| {
            let mut lines = headers.get_all(name).iter();
            let (Some(only), None) = (lines.next(), lines.next()) else { return None };
            hop::read(only.as_bytes())
        })
    }

    /// Returns the first address from the right that is not trusted.
    fn walk(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer;
        for line in headers.get_all(FORWARDED_FOR).iter().rev() {
            for hop in line.as_bytes().rsplit(|byte| *byte == b',') {
                let Some(address) = hop::read(hop) else { return client };
                client = address;
                if !self.is_listed(client) {
                    return client;
                }
            }
        }
        client
    }
}

impl FromIterator<IpNet> for Proxies {
    fn from_iter<T: IntoIterator<Item = IpNet>>(trusted: T) -> Self {
        Self { trusted: trusted.into_iter().collect(), also: Arc::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trusted_proxies_are_addresses_and_networks() {
        for (text, net) in [
            ("10.1.2.3/8", Some("10.0.0.0/8")),
            ("192.0.2.7", Some("192.0.2.7/32")),
            ("::ffff:192.0.2.7", Some("192.0.2.7/32")),
            ("::ffff:10.0.0.0/104", Some("10.0.0.0/8")),
            ("2001:db8::1/32", Some("2001:db8::/32")),
            ("", None),
            ("10", None),
            ("10.0.0.0/33", None),
            ("localhost", None),
            ("::ffff:0.0.0.0/95", None),
            ("10.0.0.0/8 ", None),
        ] {
            assert_eq!(trusted_proxy(text).ok().map(|net| net.to_string()).as_deref(), net, "{text:?}");
        }
    }
}
