//! What HTTP connections share: the bounds, and how many requests are in hand. Also, which names are this
//! server's.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::http::request::Parts;
use hyper::{StatusCode, Version, header};

use tollgate_http::Proxies;

use super::problem::Problem;
use crate::network::is_loopback;

/// How much a connection may ask for, and how long it may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How long a head may take to come, from its first byte.
    pub(crate) head: Duration,
    /// How long a connection may ask nothing.
    pub(crate) idle: Duration,
    /// How long a body may take to come.
    pub(crate) body: Duration,
    /// How long a request may take in all, its answer written.
    pub(crate) request: Duration,
    /// Bytes of a head.
    pub(crate) head_bytes: usize,
    /// Fields of a head.
    pub(crate) fields: usize,
    /// Bytes of a body.
    pub(crate) body_bytes: usize,
    /// Requests with bodies that are answered at a time, in the whole server. A body that is still on its way is
    /// none of them, and neither are requests without one: health, metrics and the gate answer while this is full.
    pub(crate) in_flight: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            body: Duration::from_secs(10),
            request: Duration::from_secs(30),
            head_bytes: 16 << 10,
            fields: 64,
            body_bytes: 64 << 10,
            in_flight: 1_000,
        }
    }
}

/// What HTTP connections share.
#[derive(Debug, Default)]
pub(crate) struct Front {
    pub(crate) limits: Limits,
    /// Names that the server goes by, beside its addresses and `localhost`.
    pub(super) hosts: Vec<String>,
    /// Proxies whose word for the address of a client is taken.
    pub(super) trusted: Proxies,
    in_flight: AtomicUsize,
}

/// A request whose body has come and which is being answered.
pub(crate) struct Turn<'a>(&'a Front);

impl Front {
    pub(crate) fn new(hosts: Vec<String>, trusted: Proxies) -> Self {
        Self { hosts, trusted, ..Self::default() }
    }

    /// Requests that are being answered.
    #[cfg(test)]
    pub(super) fn in_hand(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Begins to answer a request whose body has come, unless too many are in hand.
    pub(crate) fn turn(&self) -> Result<Turn<'_>, Problem> {
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        let turn = Turn(self);
        if before < self.limits.in_flight {
            return Ok(turn);
        }
        let most = self.limits.in_flight;
        let text = format!("expected at most {most} requests with bodies at a time in the whole server; try again");
        Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, text).retry_after(1))
    }
}

/// The name that a request says it is for. It may be left out if `optional`, by who speaks a version that
/// does not have it.
pub(super) fn named_host(parts: &Parts, optional: bool) -> Result<Option<&str>, Problem> {
    let mut named = parts.headers.get_all(header::HOST).iter();
    match (named.next().map(|host| host.to_str()), named.next()) {
        (Some(Ok(host)), None) => Ok(Some(host)),
        (None, _) if optional && parts.version == Version::HTTP_10 => Ok(None),
        _ => Err(Problem::wrong("expected one Host header")),
    }
}

/// Whether the request names this server: a page of another site that had its own name point here does not
/// (DNS rebinding). `hosts` are names beside `localhost` and its addresses.
pub(super) fn check_host(
    host: Option<&str>,
    parts: &Parts,
    local: SocketAddr,
    hosts: &[String],
) -> Result<(), Problem> {
    let authority = parts.uri.authority().map(|authority| authority.as_str());
    match [host, authority].into_iter().flatten().find(|host| !is_ours(host, local, hosts)) {
        None => Ok(()),
        Some(host) => {
            let found = crate::fault::quoted(host.as_bytes());
            let text = format!(
                "Host: expected localhost, an address of this server or a name it was told, found {found}; \
                 start it with --host NAME"
            );
            Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, text))
        }
    }
}

fn is_ours(host: &str, local: SocketAddr, hosts: &[String]) -> bool {
    let name = without_port(host);
    let told = || hosts.iter().any(|host| host.eq_ignore_ascii_case(name));
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    match bare.unwrap_or(name).parse::<IpAddr>() {
        // Only an IPv6 address is written in brackets, and always so.
        Ok(address) if address.is_ipv6() != bare.is_some() => false,
        Ok(address) => is_loopback(address) || address.to_canonical() == local.ip().to_canonical() || told(),
        Err(_) => name.eq_ignore_ascii_case("localhost") || told(),
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_ours_or_told() {
        let hosts = ["Tollgate.internal".to_owned()];
        let local: SocketAddr = "10.1.2.3:7380".parse().unwrap();
        let rows = [
            ("localhost", true),
            ("LocalHost:7380", true),
            ("127.0.0.1:1", true),
            ("127.0.0.9", true),
            ("[::1]", true),
            ("[::1]:7380", true),
            ("10.1.2.3", true),
            ("10.1.2.3:80", true),
            ("tollgate.internal:7380", true),
            ("10.1.2.4", false),
            ("evil.example", false),
            ("evil.example:7380", false),
            ("localhost.evil.example", false),
            ("tollgate.internal.", false),
            ("::1", false),
            ("[127.0.0.1]", false),
            ("", false),
            (":7380", false),
            ("localhost:port", false),
        ];
        for (host, ours) in rows {
            assert_eq!(is_ours(host, local, &hosts), ours, "{host}");
        }
    }
}
