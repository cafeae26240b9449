//! Addresses, sizes and policies, parsed from words of the command line.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use tollgate_daemon::{MAX_MEMORY, MIN_BUFFERS, MIN_MEMORY};
use tollgate_kernel::{OnError, Policy};

/// An address to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bind {
    /// No listener.
    Off,
    /// An address, and a port if one was named.
    At(IpAddr, Option<u16>),
}

impl Bind {
    /// Returns the address, if there is one.
    pub(crate) fn addr(self, default_port: u16) -> Option<SocketAddr> {
        match self {
            Self::Off => None,
            Self::At(ip, port) => Some((ip, port.unwrap_or(default_port)).into()),
        }
    }
}

/// Parses `off`, `7379`, `127.0.0.1`, `127.0.0.1:7379`, `::1`, `[::1]:7379`, `localhost`. Other names are not resolved,
/// since they could be any address.
pub(crate) fn bind(text: &str) -> Result<Bind, String> {
    let home = IpAddr::V4(Ipv4Addr::LOCALHOST);
    if text == "off" {
        return Ok(Bind::Off);
    }
    if let Ok(port) = text.parse() {
        return Ok(Bind::At(home, Some(port)));
    }
    let plain = text.replacen("localhost", "127.0.0.1", 1);
    let text = if text.starts_with("localhost") { plain.as_str() } else { text };
    if let Ok(addr) = text.parse::<SocketAddr>() {
        return Ok(Bind::At(addr.ip(), Some(addr.port())));
    }
    let ip = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let ip = ip.parse().map_err(|_| "expected an address such as 127.0.0.1:7379 or [::1]:7379, a port, or off");
    Ok(Bind::At(ip?, None))
}

/// Parses `65536`, `64K`, `64M`, `1G`: powers of 1,024.
pub(crate) fn size(text: &str) -> Result<usize, String> {
    size_from(text, MIN_MEMORY)
}

/// Parses the same for buffers, which have a higher minimum.
pub(crate) fn buffers(text: &str) -> Result<usize, String> {
    size_from(text, MIN_BUFFERS)
}

fn size_from(text: &str, least: usize) -> Result<usize, String> {
    let digits = text.trim_end_matches(|char: char| !char.is_ascii_digit());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => Some(1usize),
        "k" | "kb" | "kib" => Some(1 << 10),
        "m" | "mb" | "mib" => Some(1 << 20),
        "g" | "gb" | "gib" => Some(1 << 30),
        _ => None,
    };
    let number: Option<usize> = digits.parse().ok();
    let size = number.zip(unit).and_then(|(number, unit)| number.checked_mul(unit));
    size.filter(|size| (least..=MAX_MEMORY).contains(size))
        .ok_or_else(|| format!("expected a size from {}M to {}G, such as 256M", least >> 20, MAX_MEMORY >> 30))
}

/// Parses `30s`, `10min`, `1h`: a second to a day.
pub(crate) fn period(text: &str) -> Result<Duration, String> {
    let unit = text.trim_start_matches(|char: char| char.is_ascii_digit());
    let count: Option<u64> = text.strip_suffix(unit).and_then(|digits| digits.parse().ok());
    let micros = count.zip(tollgate_kernel::unit(unit)).and_then(|(count, unit)| count.checked_mul(unit.get()));
    micros
        .map(Duration::from_micros)
        .filter(|span| (Duration::from_secs(1)..=Duration::from_secs(86_400)).contains(span))
        .ok_or_else(|| "expected a time from 1s to 1d, such as 30s or 10min".to_owned())
}

/// Parses `local`, `deny` or `allow`.
pub(crate) fn on_error(text: &str) -> Result<OnError, String> {
    let found = OnError::ALL.into_iter().find(|on_error| on_error.name() == text);
    found.ok_or_else(|| "expected local, deny or allow".to_owned())
}

/// Parses `login=5/min, 20/h`.
pub(crate) fn policy(text: &str) -> Result<Policy, String> {
    let (name, policy) = text
        .split_once('=')
        .filter(|(name, _)| !name.contains('/'))
        .ok_or("expected NAME=TEXT, such as login=5/min")?;
    if name.contains("--") {
        return Err("expected a name without --, which is for what the server files beside a policy".to_owned());
    }
    let policy: Policy = policy.parse().map_err(|error| format!("{error}"))?;
    policy.with_name(name).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_and_without_ports() {
        for (text, addr) in [
            ("7000", "127.0.0.1:7000"),
            ("0", "127.0.0.1:0"),
            ("127.0.0.1:1", "127.0.0.1:1"),
            ("0.0.0.0", "0.0.0.0:7379"),
            ("localhost", "127.0.0.1:7379"),
            ("localhost:5", "127.0.0.1:5"),
            ("::1", "[::1]:7379"),
            ("[::1]", "[::1]:7379"),
            ("[::]:5", "[::]:5"),
        ] {
            assert_eq!(bind(text).unwrap().addr(7379), Some(addr.parse().unwrap()), "{text}");
        }
        assert_eq!(bind("off").unwrap().addr(7379), None);
        for text in
            ["", ":7379", "*:7379", "example.com:5", "127.0.0.1:", "127.0.0.1:70000", "70000", "OFF", "localhosts"]
        {
            assert!(bind(text).unwrap_err().contains("or off"), "{text}");
        }
    }

    #[test]
    fn sizes_are_powers_of_1024() {
        for (text, bytes) in
            [("64M", 64 << 20), ("64mb", 64 << 20), ("4194304", 4 << 20), ("8192KiB", 8 << 20), ("1G", 1 << 30)]
        {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "M", "64 M", "64X", "-1", "1", "3M", "65G", "99999999999999999999", "1.5G"] {
            assert!(size(text).unwrap_err().contains("expected a size from 4M to 64G"), "{text}");
        }
        assert_eq!(buffers("16M"), Ok(16 << 20));
        assert!(buffers("15M").unwrap_err().contains("expected a size from 16M to 64G"));
    }

    #[test]
    fn periods_are_a_second_to_a_day() {
        for (text, seconds) in [("1s", 1), ("30s", 30), ("10min", 600), ("1h", 3_600), ("1d", 86_400)] {
            assert_eq!(period(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in
            ["", "s", "30", "0s", "999ms", "2d", "-1s", "1.5h", "99999999999999999999s", "18446744073709551615d"]
        {
            assert!(period(text).unwrap_err().contains("expected a time from 1s to 1d"), "{text}");
        }
    }

    #[test]
    fn policies_have_names() {
        let found = policy("login=5/min gcra, 20/h").unwrap();
        assert_eq!((found.name(), found.limits().len()), ("login", 2));
        // A policy's own options have equals signs too.
        assert_eq!(policy("login=10/s gcra burst=20").unwrap().limits().len(), 1);
        for (text, said) in [
            ("5/min", "expected NAME=TEXT"),
            ("10/s gcra burst=20", "expected NAME=TEXT"),
            ("login=5/parsec", "column 3: expected a unit"),
            ("log in=5/min", "letters, digits"),
            ("=5/min", "letters, digits"),
            ("login--candidate=5/min", "a name without --"),
        ] {
            let error = policy(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
