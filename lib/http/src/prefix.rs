//! Groups of addresses: prefixes that are each attributed to one caller.

use std::fmt::{self, Write};
use std::net::{IpAddr, Ipv6Addr};

/// A group of addresses that is attributed to one caller: an IPv4 address, or an IPv6 network of 64 bits, since a
/// caller with one address of such a network usually has all of them.
///
/// ```
/// use tollgate_http::Prefix;
/// let of = |text: &str| Prefix::of(text.parse().unwrap());
/// assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"));
/// assert_eq!(of("2001:db8::1").to_string(), "2001:db8::/64");
/// assert_eq!(of("::ffff:192.0.2.7").to_string(), "192.0.2.7");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix(PrefixAddress);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum PrefixAddress {
    V4([u8; 4]),
    /// The network and the length of its prefix.
    V6(Ipv6Addr, u8),
}

/// The length of `ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128`, plus one.
const MAX_LEN: usize = 44;

/// The digits of every octet, left-aligned, followed by their number.
static OCTETS: [[u8; 4]; 256] = octets();

const fn octets() -> [[u8; 4]; 256] {
    let mut all = [[0; 4]; 256];
    let mut octet = 0;
    while octet < 256 {
        let [hundreds, tens, ones] = [octet / 100, octet / 10 % 10, octet % 10];
        all[octet] = match octet {
            0..10 => [ascii(ones), 0, 0, 1],
            10..100 => [ascii(tens), ascii(ones), 0, 2],
            _ => [ascii(hundreds), ascii(tens), ascii(ones), 3],
        };
        octet += 1;
    }
    all
}

const fn ascii(digit: usize) -> u8 {
    b'0' + digit as u8
}

impl Prefix {
    /// The default length of an IPv6 prefix in bits.
    pub const V6_BITS: u8 = 64;

    /// Returns the prefix of an address. An IPv4-mapped IPv6 address has the prefix of the IPv4 address.
    pub fn of(ip: IpAddr) -> Self {
        Self::with(ip, Self::V6_BITS)
    }

    /// Returns the prefix of an address, with IPv6 prefixes of `v6_bits` bits, clamped to the range 32 to 128.
    #[inline]
    pub fn with(ip: IpAddr, v6_bits: u8) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Self(PrefixAddress::V4(ip.octets())),
            IpAddr::V6(ip) => {
                let bits = v6_bits.clamp(32, 128);
                let mask = u128::MAX << (128 - u32::from(bits));
                Self(PrefixAddress::V6(Ipv6Addr::from_bits(ip.to_bits() & mask), bits))
            }
        }
    }

    /// Appends the prefix in its display form. Different prefixes have different texts.
    #[inline]
    pub fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(self.text().as_bytes());
    }

    /// Returns the display form of the prefix, without an allocation.
    #[inline]
    pub fn text(&self) -> PrefixText {
        let mut text = PrefixText { bytes: [0; MAX_LEN], len: 0 };
        match self.0 {
            PrefixAddress::V4([a, b, c, d]) => {
                text.octet(a);
                for octet in [b, c, d] {
                    text.push(b'.');
                    text.octet(octet);
                }
            }
            PrefixAddress::V6(network, bits) => {
                // This cannot fail: the longest prefix fits.
                let _ = write!(text, "{network}/{bits}");
            }
        }
        text
    }
}

/// `192.0.2.7`, `2001:db8::/64`.
impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(std::str::from_utf8(self.text().as_bytes()).unwrap_or_default())
    }
}

/// A prefix as text on the stack: see [`Prefix::text`].
#[derive(Clone, Copy, Debug)]
pub struct PrefixText {
    bytes: [u8; MAX_LEN],
    len: usize,
}

impl PrefixText {
    /// Returns the text: ASCII, at most 43 bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    #[inline]
    fn push(&mut self, byte: u8) {
        if let Some(free) = self.bytes.get_mut(self.len) {
            *free = byte;
            self.len += 1;
        }
    }

    /// Always copies three bytes, but advances only by the number of digits.
    #[inline]
    fn octet(&mut self, octet: u8) {
        let [digits @ .., count] = OCTETS[usize::from(octet)];
        if let Some(free) = self.bytes.get_mut(self.len..self.len + digits.len()) {
            free.copy_from_slice(&digits);
            self.len += usize::from(count);
        }
    }
}

impl fmt::Write for PrefixText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| self.push(byte));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn written(prefix: Prefix) -> String {
        let mut bytes = b"address:".to_vec();
        prefix.write(&mut bytes);
        String::from_utf8(bytes).unwrap().split_off(8)
    }

    #[test]
    fn a_prefix_is_what_one_caller_owns() {
        let same = |a: &str, b: &str| Prefix::of(ip(a)) == Prefix::of(ip(b));
        assert!(same("192.0.2.7", "::ffff:192.0.2.7"));
        assert!(same("2001:db8:0:1::1", "2001:db8:0:1:ffff::2"));
        assert!(!same("2001:db8:0:1::1", "2001:db8:0:2::1"));
        assert!(!same("127.0.0.1", "127.0.0.2"));
    }

    #[test]
    fn prefixes_of_any_length_and_their_text() {
        let longest = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
        for (address, bits, text) in [
            ("2001:db8:0:1::9", 64, "2001:db8:0:1::/64"),
            ("2001:db8:aaaa:bbff::9", 56, "2001:db8:aaaa:bb00::/56"),
            ("2001:db8:aaaa:bbff::9", 48, "2001:db8:aaaa::/48"),
            ("2001:db8:aaaa:bbff::9", 32, "2001:db8::/32"),
            ("2001:db8::9", 128, "2001:db8::9/128"),
            ("2001:db8::9", 127, "2001:db8::8/127"),
            ("2001:db8:ffff::9", 0, "2001:db8::/32"),
            ("2001:db8::9", 255, "2001:db8::9/128"),
            (longest, 128, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128"),
            ("::", 64, "::/64"),
            ("::ffff:192.0.2.7", 64, "192.0.2.7"),
            ("192.0.2.7", 32, "192.0.2.7"),
            ("0.0.0.0", 64, "0.0.0.0"),
            ("255.255.255.255", 64, "255.255.255.255"),
            ("10.99.100.9", 64, "10.99.100.9"),
        ] {
            let prefix = Prefix::with(ip(address), bits);
            assert_eq!((written(prefix), prefix.to_string()), (text.to_owned(), text.to_owned()), "{address}/{bits}");
        }
        for octet in 0..=255 {
            assert_eq!(written(Prefix::of([octet, 0, octet, 1].into())), format!("{octet}.0.{octet}.1"));
        }
    }
}
