//! The address of a client: a corpus of odd header values, rotating headers, networks that one caller owns.

mod corpus;

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::{HeaderMap, HeaderValue};
use tollgate_http::{Prefix, Proxies};

/// The number of addresses that the requirement names.
const MANY: u32 = 100_000;

fn proxies() -> Proxies {
    Proxies::new(["127.0.0.1", "10.0.0.0/8", "fd00::/8"]).unwrap()
}

fn headers<'a>(name: &'static str, lines: impl IntoIterator<Item = &'a [u8]>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(name, HeaderValue::from_bytes(line).unwrap());
    }
    headers
}

fn forwarded(lines: &[&[u8]]) -> HeaderMap {
    headers("x-forwarded-for", lines.iter().copied())
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn shown(lines: &[&[u8]]) -> Vec<String> {
    lines.iter().map(|line| line.escape_ascii().to_string()).collect()
}

#[test]
fn every_row_of_the_corpus_is_decided_as_the_rule_says() {
    let proxies = proxies();
    let mut rows = 0;
    for (line, told) in corpus::ONE_LINE {
        let told = if *told == "-" { "127.0.0.1" } else { told };
        let headers = forwarded(&[line]);
        assert_eq!(proxies.client(ip("127.0.0.1"), &headers), ip(told), "{}", line.escape_ascii());
        // The header of any other peer is not read.
        assert_eq!(proxies.client(ip("203.0.113.99"), &headers), ip("203.0.113.99"), "{}", line.escape_ascii());
        rows += 1;
    }
    for (peer, lines, told) in corpus::LINES {
        assert_eq!(proxies.client(ip(peer), &forwarded(lines)), ip(told), "peer {peer}, {:?}", shown(lines));
        rows += 1;
    }
    assert!(rows >= 200, "{rows}");
    let distinct: HashSet<_> = corpus::ONE_LINE.iter().map(|(line, _)| line).collect();
    assert_eq!(distinct.len(), corpus::ONE_LINE.len(), "a row is there twice");
}

#[test]
fn long_headers_and_many_are_walked_to_their_end() {
    let proxies = proxies();
    let client = |lines: &[&[u8]]| proxies.client(ip("127.0.0.1"), &forwarded(lines)).to_string();
    let hops = |count: usize| vec!["10.1.2.3"; count].join(", ");
    assert_eq!(client(&[format!("6.6.6.6, 203.0.113.7, {}", hops(10_000)).as_bytes()]), "203.0.113.7");
    assert_eq!(client(&[hops(10_000).as_bytes()]), "10.1.2.3");
    let many: Vec<&[u8]> =
        [b"6.6.6.6".as_slice(), b"203.0.113.7"].into_iter().chain(vec![b"10.1.2.3".as_slice(); 5_000]).collect();
    assert_eq!(client(&many), "203.0.113.7");
    assert_eq!(client(&[&b"9".repeat(100_000)]), "127.0.0.1");
    assert_eq!(client(&[&b",".repeat(100_000)]), "127.0.0.1");
    assert_eq!(client(&[&b"203.0.113.7".repeat(10_000)]), "127.0.0.1");
    assert_eq!(client(&[&[b" ".repeat(10_000).as_slice(), b"203.0.113.7"].concat()]), "203.0.113.7");
    assert_eq!(client(&[&[b"[".repeat(10_000).as_slice(), b"::1]"].concat()]), "127.0.0.1");
}

#[test]
fn any_byte_beside_an_address_makes_it_unreadable() {
    let proxies = proxies();
    for byte in (0..=255u8).filter(|byte| HeaderValue::from_bytes(&[*byte]).is_ok()) {
        for place in 0..3 {
            let mut line = b"203.0.113.7".to_vec();
            line.insert([0, 5, 11][place], byte);
            let told = proxies.client(ip("127.0.0.1"), &forwarded(&[&line])).to_string();
            let expected = match (byte, place) {
                (b' ' | b'\t', 0 | 2) => "203.0.113.7",
                // An empty entry stands left of the address, or right of it; inside, the right half is no address.
                (b',', 0) => "203.0.113.7",
                // 1203… to 9203… are no octets, 203.01… neither; 203.0.113.7x may be.
                (b'0'..=b'9', 2) => &format!("203.0.113.7{}", char::from(byte)),
                _ => "127.0.0.1",
            };
            assert_eq!(told, expected, "{}", line.escape_ascii());
        }
    }
}

#[test]
fn rotating_headers_of_a_stranger_are_one_client() {
    let proxies = proxies().also("cf-connecting-ip").unwrap();
    let (mut seen, mut behind, mut through) = (HashSet::new(), HashSet::new(), HashSet::new());
    for number in 0..MANY {
        let address = Ipv4Addr::from_bits(0x0b00_0000 + number).to_string();
        let mut headers = forwarded(&[address.as_bytes()]);
        headers.insert("cf-connecting-ip", address.parse().unwrap());
        headers.insert("x-real-ip", address.parse().unwrap());
        headers.insert("forwarded", format!("for={address}").parse().unwrap());
        seen.insert(Prefix::of(proxies.client(ip("203.0.113.7"), &headers)));
        headers.remove("cf-connecting-ip");
        // Behind a trusted proxy they are as many clients as the proxy reports.
        behind.insert(Prefix::of(proxies.client(ip("10.0.0.1"), &headers)));
        // An entry that a client sends to the proxy is left of the one that the proxy adds.
        let line = format!("{address}, 203.0.113.7");
        through.insert(Prefix::of(proxies.client(ip("10.0.0.1"), &forwarded(&[line.as_bytes()]))));
    }
    assert_eq!((seen.len(), behind.len(), through.len()), (1, MANY as usize, 1));
}

#[test]
fn the_addresses_of_one_network_are_one_client() {
    let proxies = proxies();
    let network = ip("2001:db8:1:2::");
    let IpAddr::V6(network) = network else { panic!("{network}") };
    let (mut direct, mut behind, mut apart, mut wide) =
        (HashSet::new(), HashSet::new(), HashSet::new(), HashSet::new());
    for number in 0..u128::from(MANY) {
        let low = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) & u128::from(u64::MAX);
        let address = Ipv6Addr::from_bits(network.to_bits() | low);
        direct.insert(Prefix::of(proxies.client(address.into(), &HeaderMap::new())));
        behind.insert(Prefix::of(proxies.client(ip("10.0.0.1"), &forwarded(&[address.to_string().as_bytes()]))));
        // Addresses of other networks are other clients, unless shorter prefixes group them.
        let other = Ipv6Addr::from_bits(network.to_bits() + (number << 64));
        apart.insert(Prefix::of(other.into()));
        wide.insert(Prefix::with(other.into(), 32));
    }
    assert_eq!((direct.len(), behind.len(), apart.len(), wide.len()), (1, 1, MANY as usize, 1));
    assert_eq!(direct.iter().next().unwrap().to_string(), "2001:db8:1:2::/64");
    assert_eq!(direct, behind);
}

#[test]
fn a_named_header_counts_of_a_trusted_peer_if_it_is_there_once() {
    let proxies = proxies().also("CF-Connecting-IP").unwrap();
    type Lines = &'static [&'static [u8]];
    let rows: [(&str, Lines, Lines, &str); 14] = [
        // peer, cf-connecting-ip, x-forwarded-for, client
        ("127.0.0.1", &[b"203.0.113.7"], &[], "203.0.113.7"),
        ("127.0.0.1", &[b"203.0.113.7"], &[b"198.51.100.1"], "203.0.113.7"),
        ("::ffff:127.0.0.1", &[b"203.0.113.7"], &[], "203.0.113.7"),
        ("127.0.0.1", &[b" 2001:DB8::7 "], &[], "2001:db8::7"),
        ("127.0.0.1", &[b"::ffff:203.0.113.7"], &[], "203.0.113.7"),
        // The header of an untrusted peer is not used.
        ("203.0.113.99", &[b"203.0.113.7"], &[], "203.0.113.99"),
        ("203.0.113.99", &[b"203.0.113.7"], &[b"198.51.100.1"], "203.0.113.99"),
        // A header that occurs twice, is empty or cannot be parsed is treated as absent.
        ("127.0.0.1", &[b"203.0.113.7", b"203.0.113.8"], &[b"198.51.100.1"], "198.51.100.1"),
        ("127.0.0.1", &[b"203.0.113.7", b"203.0.113.7"], &[], "127.0.0.1"),
        ("127.0.0.1", &[b"203.0.113.7, 203.0.113.8"], &[b"198.51.100.1"], "198.51.100.1"),
        ("127.0.0.1", &[b""], &[b"198.51.100.1"], "198.51.100.1"),
        ("127.0.0.1", &[b"unknown"], &[], "127.0.0.1"),
        ("127.0.0.1", &[b"\xff"], &[b"198.51.100.1"], "198.51.100.1"),
        ("127.0.0.1", &[], &[b"198.51.100.1"], "198.51.100.1"),
    ];
    for (peer, own, forwarded_for, told) in rows {
        let mut headers = forwarded(forwarded_for);
        headers.extend(self::headers("cf-connecting-ip", own.iter().copied()));
        assert_eq!(
            proxies.client(ip(peer), &headers),
            ip(told),
            "peer {peer}, {:?}, {:?}",
            shown(own),
            shown(forwarded_for)
        );
    }
    // Headers that were not configured are not read from any peer.
    let real = headers("x-real-ip", [b"203.0.113.7".as_slice()]);
    assert_eq!(proxies.client(ip("127.0.0.1"), &real), ip("127.0.0.1"));
    // Of several configured headers, the first that can be parsed is used.
    let both = proxies.also("x-real-ip").unwrap();
    assert_eq!(both.client(ip("127.0.0.1"), &real), ip("203.0.113.7"));
    let error = both.also("no header").unwrap_err().to_string();
    assert_eq!(error, "expected the name of a header such as cf-connecting-ip, found \"no header\"");
    assert_eq!(Proxies::none().also("x-real-ip").unwrap().client(ip("127.0.0.1"), &real), ip("127.0.0.1"));
}

#[test]
fn however_an_address_is_written_it_is_one_client() {
    // Every notation, behind every chain of trusted hops, after any entries of the client, split into lines at any
    // entry.
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
            let lines: Vec<Vec<u8>> =
                [one, two].iter().filter(|hops| !hops.is_empty()).map(|hops| hops.join(&b',')).collect();
            let lines: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
            let client = proxies().client(ip("127.0.0.1"), &forwarded(&lines));
            assert_eq!(client, ip("2001:db8::7"), "{:?}", shown(&lines));
            count += 1;
        }
    }
    assert!(count > 400, "{count}");
}
