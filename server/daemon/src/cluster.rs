//! A server as a cluster of one node, for clients in cluster mode: its name, and the address that it announces.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use crate::settings::{ClusterSettings, ServerSettings};

/// The longest host name, in bytes.
const MAX_HOST: usize = 253;

/// An address that clients in cluster mode are told to connect to: a name or an IP address, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterAddress {
    host: String,
    port: u16,
}

/// The error of a text that is not an address to announce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterAddressError;

impl fmt::Display for ClusterAddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "expected the address that clients reach, with its port, such as gate.example:7379, 10.0.0.5:7379 or \
             [2001:db8::5]:7379",
        )
    }
}

impl std::error::Error for ClusterAddressError {}

impl FromStr for ClusterAddress {
    type Err = ClusterAddressError;

    fn from_str(text: &str) -> Result<Self, ClusterAddressError> {
        if let Ok(addr) = text.parse::<SocketAddr>() {
            // A wildcard is an address to listen on, and none to connect to.
            let is_reachable = addr.port() != 0 && !addr.ip().is_unspecified();
            return is_reachable.then(|| Self::at(addr)).ok_or(ClusterAddressError);
        }
        let (host, port) = text.rsplit_once(':').ok_or(ClusterAddressError)?;
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        // Four numbers that are not an IPv4 address are a mistake and not a name.
        let is_name = host.bytes().any(|byte| byte.is_ascii_alphabetic());
        let is_valid = (1..=MAX_HOST).contains(&host.len()) && host.bytes().all(is_word) && is_name;
        let port = port.parse().ok().filter(|port| *port != 0).filter(|_| is_valid).ok_or(ClusterAddressError)?;
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for ClusterAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, close) = if self.host.contains(':') { ("[", "]") } else { ("", "") };
        write!(f, "{open}{}{close}:{}", self.host, self.port)
    }
}

impl ClusterAddress {
    /// Returns the address that a connection was made to; a mapped IPv4 address as IPv4.
    fn at(addr: SocketAddr) -> Self {
        Self { host: addr.ip().to_canonical().to_string(), port: addr.port() }
    }

    /// Returns the name or the IP address, without brackets.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the host if it is a name.
    pub(crate) fn name(&self) -> Option<&str> {
        Some(self.host.as_str()).filter(|host| host.parse::<IpAddr>().is_err())
    }
}

/// This server as the only node of a cluster.
#[derive(Debug)]
pub(crate) struct ClusterNode {
    /// The name of the node: 40 hexadecimal digits, made at the start.
    pub(crate) id: String,
    /// Whether its port speaks TLS.
    pub(crate) is_tls: bool,
    announced: Option<ClusterAddress>,
}

impl ClusterNode {
    /// Returns the node of the settings, if they ask for cluster mode.
    pub(crate) fn new(settings: &ServerSettings) -> io::Result<Option<Self>> {
        let Some(ClusterSettings { announced }) = &settings.cluster else { return Ok(None) };
        let mut bytes = [0; 20];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        let id = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Some(Self { id, is_tls: settings.tls.is_some(), announced: announced.clone() }))
    }

    /// Returns the address that a client should connect to: the announced one, or the one that it connected to.
    pub(crate) fn address(&self, local: SocketAddr) -> ClusterAddress {
        self.announced.clone().unwrap_or_else(|| ClusterAddress::at(local))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_that_clients_reach_and_a_port() {
        for text in ["10.0.0.5:7379", "[2001:db8::5]:7379", "gate.example:1", "gate-1:65535", "a_b.local:7379"] {
            assert_eq!(text.parse::<ClusterAddress>().unwrap().to_string(), text);
        }
        for text in
            ["", ":", "7379", "gate", "gate:", "gate:0", "gate:70000", ":7379", "0.0.0.0:7379", "[::]:7379", "10.0.0:1"]
        {
            assert_eq!(text.parse::<ClusterAddress>(), Err(ClusterAddressError), "{text}");
        }
        for text in ["300.0.0.1:7379", "2001:db8::5:7379", "a b:1", "a,b:1", "a@b:1", &format!("{}:1", "a".repeat(254))]
        {
            assert_eq!(text.parse::<ClusterAddress>(), Err(ClusterAddressError), "{text}");
        }
        let names = ["gate.example:1", "10.0.0.5:1", "[::1]:1"];
        let names = names.map(|text| text.parse::<ClusterAddress>().unwrap().name().map(str::to_owned));
        assert_eq!(names, [Some("gate.example".to_owned()), None, None]);
    }

    #[test]
    fn without_an_announced_address_it_is_the_one_connected_to() {
        let settings =
            |announced| ServerSettings { cluster: Some(ClusterSettings { announced }), ..Default::default() };
        let node = ClusterNode::new(&settings(None)).unwrap().unwrap();
        assert!(node.id.len() == 40 && node.id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{}", node.id);
        for (local, announced) in
            [("127.0.0.1:5", "127.0.0.1:5"), ("[::1]:5", "[::1]:5"), ("[::ffff:10.0.0.5]:5", "10.0.0.5:5")]
        {
            assert_eq!(node.address(local.parse().unwrap()).to_string(), announced);
        }
        let node = ClusterNode::new(&settings(Some("gate.example:1".parse().unwrap()))).unwrap().unwrap();
        assert_eq!(node.address("127.0.0.1:5".parse().unwrap()).to_string(), "gate.example:1");
        assert!(ClusterNode::new(&ServerSettings::default()).unwrap().is_none());
    }
}
