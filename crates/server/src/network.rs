//! Addresses as they are grouped: prefixes that one caller is taken to own, and networks of trusted proxies.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net};

/// What one caller is taken to own: an IPv4 address, or an IPv6 network of 64 bits, since whoever has one
/// address of such a network mostly has them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Prefix {
    V4([u8; 4]),
    V6([u8; 8]),
}

impl Prefix {
    /// The prefix of an address; an IPv4 address written as IPv6 is the same one.
    pub(crate) fn of(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Self::V4(ip.octets()),
            IpAddr::V6(ip) => {
                let [a, b, c, d, e, f, g, h, ..] = ip.octets();
                Self::V6([a, b, c, d, e, f, g, h])
            }
        }
    }

    /// Its bytes, as a key: no two prefixes have the same.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::V4(bytes) => bytes,
            Self::V6(bytes) => bytes,
        }
    }
}

/// `192.0.2.7`, `2001:db8::/64`.
impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::V4([a, b, c, d]) => write!(f, "{a}.{b}.{c}.{d}"),
            Self::V6(high) => {
                let ip = Ipv6Addr::from_bits(u128::from(u64::from_be_bytes(high)) << 64);
                write!(f, "{ip}/64")
            }
        }
    }
}

/// Whether an address is this machine's own, however it is written.
pub(crate) fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// A trusted proxy of the settings: an address, or a network such as `10.0.0.0/8`.
pub fn trusted_proxy(text: &str) -> Result<IpNet, String> {
    let wrong = || format!("expected an address such as 127.0.0.1 or a network such as 10.0.0.0/8, found {text:?}");
    let net = match text.parse::<IpAddr>() {
        Ok(ip) => IpNet::from(ip.to_canonical()),
        Err(_) => text.parse::<IpNet>().map_err(|_| wrong())?,
    };
    let IpNet::V6(six) = net else { return Ok(net.trunc()) };
    let Some(four) = six.addr().to_ipv4_mapped() else { return Ok(net.trunc()) };
    // Part of the addresses that are IPv4 written as IPv6; a wider one would be all of them and more.
    let bits = six.prefix_len().checked_sub(96).ok_or_else(wrong)?;
    Ipv4Net::new(four, bits).map(|net| IpNet::V4(net.trunc())).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_prefix_is_what_one_caller_owns() {
        let same = |a: &str, b: &str| Prefix::of(ip(a)) == Prefix::of(ip(b));
        assert!(same("192.0.2.7", "::ffff:192.0.2.7"));
        assert!(same("2001:db8:0:1::1", "2001:db8:0:1:ffff::2"));
        assert!(!same("2001:db8:0:1::1", "2001:db8:0:2::1"));
        assert!(!same("127.0.0.1", "127.0.0.2"));
        assert_eq!(Prefix::of(ip("2001:db8:0:1::9")).to_string(), "2001:db8:0:1::/64");
        assert_eq!(Prefix::of(ip("::ffff:192.0.2.7")).to_string(), "192.0.2.7");
    }

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
