//! Addresses as proxies write them: with or without a port, brackets and zone.

use std::net::{IpAddr, Ipv6Addr};

/// Parses an address as proxies write it, with or without a port, brackets and zone. Returns `None` for anything else.
/// An IPv4-mapped IPv6 address is returned as the IPv4 address.
///
/// ```
/// # use tollgate_http::read_address;
/// for text in ["203.0.113.7", "203.0.113.7:80", "::ffff:203.0.113.7", "[::ffff:203.0.113.7%eth0]:80"] {
///     assert_eq!(read_address(text.as_bytes()), Some([203, 0, 113, 7].into()));
/// }
/// assert_eq!(read_address(b"not an address"), None);
/// ```
pub fn read(hop: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(hop).ok()?.trim_matches([' ', '\t']);
    let bare = if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        if !(port.is_empty() || is_port(port.strip_prefix(':')?)) {
            return None;
        }
        // Only IPv6 addresses are written in brackets.
        return without_zone(address)?.parse::<Ipv6Addr>().ok().map(|address| IpAddr::V6(address).to_canonical());
    } else if let Some((address, port)) = text.split_once(':').filter(|(_, port)| !port.contains(':')) {
        // One colon: an IPv4 address and a port.
        return address.parse().ok().filter(|_| is_port(port)).map(IpAddr::V4);
    } else {
        text
    };
    match without_zone(bare)?.parse::<IpAddr>().ok()? {
        IpAddr::V4(_) if bare.contains('%') => None,
        address => Some(address.to_canonical()),
    }
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

/// Removes the zone: `fe80::1%eth0` is `fe80::1` on one interface.
fn without_zone(address: &str) -> Option<&str> {
    match address.split_once('%') {
        None => Some(address),
        Some((address, zone)) => (!zone.is_empty() && !zone.contains('%')).then_some(address),
    }
}
