//! The state that HTTP connections share: the bounds, and the number of requests being answered. Also decides which
//! host names are this server's.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::http::request::Parts;
use hyper::{StatusCode, Version, header};

use tollgate_http::Proxies;

use super::problem::HttpProblem;
use crate::network::is_loopback;

/// Bounds on the sizes and durations of requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HttpLimits {
    /// The longest time in which a head may arrive, from its first byte.
    pub(crate) head: Duration,
    /// The longest time that a connection may be idle.
    pub(crate) idle: Duration,
    /// The longest time in which a body may arrive.
    pub(crate) body: Duration,
    /// The longest time that a request may take in all, until its answer is written.
    pub(crate) request: Duration,
    /// The most bytes of a head.
    pub(crate) head_bytes: usize,
    /// The most fields of a head.
    pub(crate) fields: usize,
    /// The most bytes of a body.
    pub(crate) body_bytes: usize,
    /// The most requests with bodies that are answered at a time, in the whole server. A request whose body is still
    /// arriving does not count, and neither does one without a body: health, metrics and the gate answer while this
    /// bound is reached.
    pub(crate) in_flight: usize,
}

impl Default for HttpLimits {
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

/// The state that HTTP connections share.
#[derive(Debug, Default)]
pub(crate) struct HttpState {
    pub(crate) limits: HttpLimits,
    /// Host names of the server, in addition to its addresses and `localhost`.
    pub(super) hosts: Vec<String>,
    /// Proxies that are trusted to state the address of a client.
    pub(super) trusted: Proxies,
    in_flight: AtomicUsize,
}

/// A request whose body has arrived and which is being answered.
pub(crate) struct HttpRequestGuard<'a>(&'a HttpState);

impl HttpState {
    pub(crate) fn new(hosts: Vec<String>, trusted: Proxies) -> Self {
        Self { hosts, trusted, ..Self::default() }
    }

    /// Returns the number of requests that are being answered.
    #[cfg(test)]
    pub(super) fn requests_in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Begins to answer a request whose body has arrived, unless too many are being answered.
    pub(crate) fn begin_request(&self) -> Result<HttpRequestGuard<'_>, HttpProblem> {
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        let guard = HttpRequestGuard(self);
        if before < self.limits.in_flight {
            return Ok(guard);
        }
        let most = self.limits.in_flight;
        let text = format!("expected at most {most} requests with bodies at a time in the whole server; try again");
        Err(HttpProblem::new(StatusCode::SERVICE_UNAVAILABLE, text).retry_after(1))
    }
}

/// Returns the host that a request names. If `optional`, an HTTP/1.0 request may leave it out.
pub(super) fn named_host(parts: &Parts, optional: bool) -> Result<Option<&str>, HttpProblem> {
    let mut named = parts.headers.get_all(header::HOST).iter();
    match (named.next().map(|host| host.to_str()), named.next()) {
        (Some(Ok(host)), None) => Ok(Some(host)),
        (None, _) if optional && parts.version == Version::HTTP_10 => Ok(None),
        _ => Err(HttpProblem::bad_request("expected one Host header")),
    }
}

/// Checks that the request names this server. A page of another site that resolved its own name to this address does
/// not (DNS rebinding). `hosts` are names in addition to `localhost` and its addresses.
pub(super) fn check_host(
    host: Option<&str>,
    parts: &Parts,
    local: SocketAddr,
    hosts: &[String],
) -> Result<(), HttpProblem> {
    let authority = parts.uri.authority().map(|authority| authority.as_str());
    match [host, authority].into_iter().flatten().find(|host| !is_ours(host, local, hosts)) {
        None => Ok(()),
        Some(host) => {
            let found = tollgate_keyspace::quoted(host.as_bytes());
            let text = format!(
                "Host: expected localhost, an address of this server or a name it was told, found {found}; \
                 start it with --host NAME"
            );
            Err(HttpProblem::new(StatusCode::MISDIRECTED_REQUEST, text))
        }
    }
}

fn is_ours(host: &str, local: SocketAddr, hosts: &[String]) -> bool {
    let name = without_port(host);
    let is_configured = || hosts.iter().any(|host| host.eq_ignore_ascii_case(name));
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    match bare.unwrap_or(name).parse::<IpAddr>() {
        // An IPv6 address is always written in brackets, and nothing else is.
        Ok(address) if address.is_ipv6() != bare.is_some() => false,
        Ok(address) => is_loopback(address) || address.to_canonical() == local.ip().to_canonical() || is_configured(),
        Err(_) => name.eq_ignore_ascii_case("localhost") || is_configured(),
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

impl Drop for HttpRequestGuard<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_ours_or_configured() {
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
