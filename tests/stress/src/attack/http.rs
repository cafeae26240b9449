//! One question over HTTP with a token, on a connection of its own, and how long its answer may take.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// An answer.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
    pub(super) took: Duration,
}

impl Answer {
    /// The value of a series, where the answer is that of `/metrics`.
    pub(super) fn series(&self, name: &str) -> Option<f64> {
        self.body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
    }
}

/// The bytes of a request.
pub(super) fn request(to: SocketAddr, token: &str, what: &str, body: &str) -> String {
    format!(
        "{what} HTTP/1.1\r\nhost: {to}\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Asks, and waits for the answer so long at most.
pub(super) fn ask(to: SocketAddr, token: &str, what: &str, body: &str, within: Duration) -> io::Result<Answer> {
    let started = Instant::now();
    let mut stream = TcpStream::connect_timeout(&to, within)?;
    stream.set_write_timeout(Some(within))?;
    stream.write_all(request(to, token, what, body).as_bytes())?;
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let left = within.saturating_sub(started.elapsed());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {within:?}")));
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(read) => bytes.extend_from_slice(&part[..read]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("expected a status, found {head:?}")))?;
    Ok(Answer { status, body: body.to_owned(), took: started.elapsed() })
}
