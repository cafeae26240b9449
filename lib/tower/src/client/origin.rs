//! The default key under whose limits a request falls: the origin to which it is sent.

use http::header::HOST;
use http::request::Parts;
use http::uri::Authority;

/// Returns scheme, host and port, as `https://api.example:443`; from the request's URI, or from its `Host` field if
/// the URI is only a path, and then without a scheme. Returns `None` if neither contains a host.
pub(super) fn origin(parts: &Parts) -> Option<String> {
    let scheme = parts.uri.scheme_str().unwrap_or_default();
    match parts.uri.authority() {
        Some(authority) => Some(written(scheme, authority)),
        None => {
            let host = parts.headers.get(HOST)?.to_str().ok()?;
            Some(written(scheme, &host.parse().ok()?))
        }
    }
}

fn written(scheme: &str, authority: &Authority) -> String {
    let host = authority.host().to_ascii_lowercase();
    let port = authority.port_u16().or(match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    });
    match port {
        Some(port) => format!("{scheme}://{host}:{port}"),
        None => format!("{scheme}://{host}"),
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let rows = [
            ("http://api.example/a?b", None, Some("http://api.example:80")),
            ("http://API.example:80/x", None, Some("http://api.example:80")),
            ("https://api.example/", None, Some("https://api.example:443")),
            ("https://user:secret@api.example/", None, Some("https://api.example:443")),
            ("https://api.example:8443/", Some("other.example"), Some("https://api.example:8443")),
            ("http://[::1]:8080/", None, Some("http://[::1]:8080")),
            ("/path", Some("API.example:8080"), Some("://api.example:8080")),
            ("/path", Some("api.example"), Some("://api.example")),
            ("/path", Some("not a host"), None),
            ("/path", None, None),
        ];
        for (uri, host, expected) in rows {
            let request = host.iter().fold(Request::get(uri), |request, host| request.header(HOST, *host));
            let (parts, ()) = request.body(()).unwrap().into_parts();
            assert_eq!(origin(&parts).as_deref(), expected, "{uri} {host:?}");
        }
    }
}
