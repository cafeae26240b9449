//! One question over HTTP, on a connection of its own, and values of `/metrics`.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// After this, nobody answers.
const HANGS: Duration = Duration::from_secs(60);

/// What `/metrics` said.
#[derive(Clone, Debug)]
pub(crate) struct Metrics(String);

impl Metrics {
    pub(crate) fn read(to: SocketAddr) -> io::Result<Self> {
        ask(to, "GET /metrics", "").map(Self)
    }

    /// The value of a series, by its name and labels as they are written; nothing if there is none.
    pub(crate) fn value(&self, series: &str) -> Option<f64> {
        self.0.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.trim().parse().ok())
    }

    /// The lines of a family, for complaints.
    pub(crate) fn family(&self, name: &str) -> String {
        self.0.lines().filter(|line| line.starts_with(name)).collect::<Vec<_>>().join("; ")
    }
}

/// Posts JSON; answers the body.
pub(crate) fn post(to: SocketAddr, path: &str, json: &str) -> io::Result<String> {
    ask(to, &format!("POST {path}"), json)
}

fn ask(to: SocketAddr, what: &str, body: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&to, HANGS)?;
    stream.set_read_timeout(Some(HANGS))?;
    let head = format!(
        "{what} HTTP/1.1\r\nhost: {to}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    match head.starts_with("HTTP/1.1 200 ") {
        true => Ok(body.to_owned()),
        false => Err(io::Error::other(format!("{what} was answered {:?}: {body}", head.lines().next()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_found_by_its_whole_name() {
        let metrics = Metrics("# HELP a b\na_total{x=\"1\"} 3\na_total{x=\"12\"} 4\na 5\n".to_owned());
        assert_eq!(metrics.value("a_total{x=\"1\"}"), Some(3.0));
        assert_eq!(metrics.value("a"), Some(5.0));
        assert_eq!(metrics.value("a_total"), None);
    }
}
