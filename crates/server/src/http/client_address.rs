//! Who a client is, behind proxies. A header is believed only as far as trusted proxies wrote it: anybody
//! can send one.
//!
//! The peer is the client, unless it is a trusted proxy. Then `X-Forwarded-For` is walked from the right,
//! over all its lines: trusted addresses are skipped, the first other one is the client. What cannot be
//! read ends the walk at the last trusted hop; the leftmost entry, which the client itself wrote, is never
//! taken for its own sake.

use std::net::{IpAddr, Ipv6Addr};

use hyper::HeaderMap;
use hyper::header::HeaderName;
use ipnet::IpNet;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Whether it is the address of a trusted proxy.
pub(super) fn is_trusted(address: IpAddr, trusted: &[IpNet]) -> bool {
    trusted.iter().any(|net| net.contains(&address.to_canonical()))
}

/// The address of the client, in canonical form.
pub(super) fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let mut client = peer.to_canonical();
    if !is_trusted(client, trusted) {
        return client;
    }
    for line in headers.get_all(FORWARDED_FOR).iter().rev() {
        for hop in line.as_bytes().rsplit(|byte| *byte == b',') {
            let Some(address) = read(hop) else { return client };
            client = address;
            if !is_trusted(client, trusted) {
                return client;
            }
        }
    }
    client
}

/// An address as proxies write it: with or without a port, brackets and zone.
fn read(hop: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(hop).ok()?.trim_matches([' ', '\t']);
    let bare = if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        if !(port.is_empty() || is_port(port.strip_prefix(':')?)) {
            return None;
        }
        // Only IPv6 is written in brackets.
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

/// `fe80::1%eth0` is `fe80::1` of one interface.
fn without_zone(address: &str) -> Option<&str> {
    match address.split_once('%') {
        None => Some(address),
        Some((address, zone)) => (!zone.is_empty() && !zone.contains('%')).then_some(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROXIES: [&str; 3] = ["127.0.0.1", "10.0.0.0/8", "fd00::/8"];

    fn client(peer: &str, lines: &[&[u8]]) -> String {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append("X-Forwarded-For", hyper::header::HeaderValue::from_bytes(line).unwrap());
        }
        let trusted = PROXIES.map(|text| crate::trusted_proxy(text).unwrap());
        client_address(peer.parse().unwrap(), &headers, &trusted).to_string()
    }

    #[test]
    fn the_first_address_from_the_right_that_is_not_trusted() {
        let rows: &[(&str, &[&[u8]], &str)] = &[
            // An untrusted peer is the client, whatever it says.
            ("203.0.113.7", &[], "203.0.113.7"),
            ("203.0.113.7", &[b"1.2.3.4"], "203.0.113.7"),
            ("203.0.113.7", &[b"127.0.0.1, 10.0.0.1"], "203.0.113.7"),
            ("::ffff:203.0.113.7", &[b"1.2.3.4"], "203.0.113.7"),
            ("2001:db8::7", &[b"1.2.3.4"], "2001:db8::7"),
            ("127.0.0.2", &[b"1.2.3.4"], "127.0.0.2"),
            // A trusted one is believed for what it added.
            ("127.0.0.1", &[], "127.0.0.1"),
            ("127.0.0.1", &[b"203.0.113.7"], "203.0.113.7"),
            ("::ffff:127.0.0.1", &[b"203.0.113.7"], "203.0.113.7"),
            ("127.0.0.1", &[b"6.6.6.6, 203.0.113.7"], "203.0.113.7"),
            ("127.0.0.1", &[b"6.6.6.6,203.0.113.7,10.1.2.3"], "203.0.113.7"),
            ("127.0.0.1", &[b"6.6.6.6, 203.0.113.7, 10.1.2.3, fd00::1"], "203.0.113.7"),
            ("10.9.9.9", &[b"10.1.1.1, 10.2.2.2"], "10.1.1.1"),
            ("fd00::9", &[b"203.0.113.7"], "203.0.113.7"),
            // Lines are one list.
            ("127.0.0.1", &[b"6.6.6.6", b"203.0.113.7"], "203.0.113.7"),
            ("127.0.0.1", &[b"6.6.6.6", b"203.0.113.7", b"10.1.2.3"], "203.0.113.7"),
            ("127.0.0.1", &[b"203.0.113.7, 10.0.0.1", b"10.1.2.3, 10.4.5.6"], "203.0.113.7"),
            // Ports, brackets, zones, mapped addresses, blanks.
            ("127.0.0.1", &[b"203.0.113.7:443"], "203.0.113.7"),
            ("127.0.0.1", &[b"  203.0.113.7\t"], "203.0.113.7"),
            ("127.0.0.1", &[b"[2001:db8::7]"], "2001:db8::7"),
            ("127.0.0.1", &[b"[2001:db8::7]:65535"], "2001:db8::7"),
            ("127.0.0.1", &[b"2001:DB8:0::7"], "2001:db8::7"),
            ("127.0.0.1", &[b"fe80::1%eth0"], "fe80::1"),
            ("127.0.0.1", &[b"[fe80::1%25eth0]:80"], "fe80::1"),
            ("127.0.0.1", &[b"::ffff:203.0.113.7"], "203.0.113.7"),
            ("127.0.0.1", &[b"[::ffff:203.0.113.7]:80"], "203.0.113.7"),
            ("127.0.0.1", &[b"203.0.113.7, ::ffff:10.0.0.1"], "203.0.113.7"),
            ("127.0.0.1", &[b"203.0.113.7, [fd00::5]:80"], "203.0.113.7"),
            // What cannot be read ends the walk at the last trusted hop.
            ("127.0.0.1", &[b"unknown"], "127.0.0.1"),
            ("127.0.0.1", &[b"203.0.113.7, unknown"], "127.0.0.1"),
            ("127.0.0.1", &[b"203.0.113.7, _hidden, 10.0.0.1"], "10.0.0.1"),
            ("127.0.0.1", &[b""], "127.0.0.1"),
            ("127.0.0.1", &[b"203.0.113.7,"], "127.0.0.1"),
            ("127.0.0.1", &[b"203.0.113.7, , 10.0.0.1"], "10.0.0.1"),
            ("127.0.0.1", &[b"203.0.113.7", b""], "127.0.0.1"),
            ("127.0.0.1", &[b"203.0.113.256"], "127.0.0.1"),
            ("127.0.0.1", &[b"203.0.113.07"], "127.0.0.1"),
            ("127.0.0.1", &[b"0xcb.0.113.7"], "127.0.0.1"),
            ("127.0.0.1", &[b"203.0.113"], "127.0.0.1"),
            ("127.0.0.1", &[b"203.0.113.7:"], "127.0.0.1"),
            ("127.0.0.1", &[b"203.0.113.7:http"], "127.0.0.1"),
            ("127.0.0.1", &[b"203.0.113.7:+80"], "127.0.0.1"),
            ("127.0.0.1", &[b"203.0.113.7:65536"], "127.0.0.1"),
            ("127.0.0.1", &[b"203.0.113.7%eth0"], "127.0.0.1"),
            ("127.0.0.1", &[b"203.0.113.7 6.6.6.6"], "127.0.0.1"),
            ("127.0.0.1", &[b"203.0.113.7/32"], "127.0.0.1"),
            ("127.0.0.1", &[b"[203.0.113.7]"], "127.0.0.1"),
            ("127.0.0.1", &[b"[2001:db8::7"], "127.0.0.1"),
            ("127.0.0.1", &[b"2001:db8::7]"], "127.0.0.1"),
            ("127.0.0.1", &[b"[2001:db8::7]80"], "127.0.0.1"),
            ("127.0.0.1", &[b"[2001:db8::7]:"], "127.0.0.1"),
            ("127.0.0.1", &[b"fe80::1%"], "127.0.0.1"),
            ("127.0.0.1", &[b"fe80::1%a%b"], "127.0.0.1"),
            ("127.0.0.1", &[b"\"203.0.113.7\""], "127.0.0.1"),
            ("127.0.0.1", &[b"for=203.0.113.7"], "127.0.0.1"),
            ("127.0.0.1", &[b"203.0.113.7;6.6.6.6"], "127.0.0.1"),
            ("127.0.0.1", &[b"\xff\xfe"], "127.0.0.1"),
            ("127.0.0.1", &[b"6.6.6.6, \xc3\xa9"], "127.0.0.1"),
        ];
        for (peer, lines, told) in rows {
            let shown: Vec<_> = lines.iter().map(|line| String::from_utf8_lossy(line)).collect();
            assert_eq!(client(peer, lines), *told, "peer {peer}, {shown:?}");
        }
    }

    #[test]
    fn headers_that_rotate_are_never_read_of_a_stranger() {
        // R29: whatever he sends, he is his socket's address.
        for number in 0..100_000u32 {
            let rotating = format!("{}", std::net::Ipv4Addr::from_bits(number.wrapping_mul(2_654_435_761)));
            assert_eq!(client("203.0.113.7", &[rotating.as_bytes()]), "203.0.113.7");
            // And behind a proxy, what he sends is left of what the proxy adds.
            let line = format!("{rotating}, 203.0.113.7");
            assert_eq!(client("127.0.0.1", &[line.as_bytes()]), "203.0.113.7");
        }
    }

    #[test]
    fn however_an_address_is_written_it_is_one_client() {
        // Every way of writing, behind every chain of trusted hops, with whatever the client put before.
        let written = ["2001:db8::7", "2001:0DB8:0:0:0:0:0:7", "[2001:db8::7]", "[2001:db8::7]:1", "2001:db8::7%eth0"];
        let chains = ["", ", 10.0.0.1", ", 10.0.0.1:80, fd00::1", ",\t[fd00::2]:443 ,::ffff:10.3.3.3"];
        let prefixes = ["", "6.6.6.6, ", "garbage, ", "127.0.0.1, ", ", , ", "10.0.0.1, 6.6.6.6, "];
        let mut count = 0;
        let behind = |address: &str| chains.map(|chain| format!("{address}{chain}"));
        let wholes = written.iter().flat_map(|address| behind(address));
        for whole in wholes.flat_map(|whole| prefixes.map(|prefix| format!("{prefix}{whole}"))) {
            let hops: Vec<&[u8]> = whole.split(',').map(str::as_bytes).collect();
            for cut in 0..=hops.len() {
                let (one, two) = hops.split_at(cut);
                let lines = [one.join(&b','), two.join(&b',')];
                let lines: Vec<&[u8]> = [one, two]
                    .iter()
                    .zip(&lines)
                    .filter(|(hops, _)| !hops.is_empty())
                    .map(|(_, line)| line.as_slice())
                    .collect();
                assert_eq!(client("127.0.0.1", &lines), "2001:db8::7", "{lines:?}");
                count += 1;
            }
        }
        assert!(count > 400, "{count}");
    }
}
