//! A receiver of posts for tests: real HTTP on a free loopback port, with responses in a fixed order.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver as Channel, Sender, channel};
use std::time::Duration;

/// The time after which a test that still waits has failed.
pub(super) const HANGS: Duration = Duration::from_secs(30);

/// A request: its first line, the lines of its head, its body.
pub(super) type ReceivedRequest = (String, Vec<String>, String);

pub(super) struct WebhookReceiver {
    pub(super) addr: SocketAddr,
    came: Channel<ReceivedRequest>,
    /// Releases a receiver that waits before it responds.
    pub(super) go: Option<Sender<()>>,
}

impl WebhookReceiver {
    /// Responds with these statuses, then with 200.
    pub(super) fn start(statuses: &'static [&'static str]) -> Self {
        let (go, _) = channel();
        Self::serve(statuses, None, go)
    }

    /// Does not respond until it is released.
    pub(super) fn stuck() -> Self {
        let (go, waits) = channel();
        Self::serve(&[], Some(waits), go)
    }

    fn serve(statuses: &'static [&'static str], waits: Option<Channel<()>>, go: Sender<()>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let (sender, came) = channel();
        // The thread ends with the test's process, or when the channel is closed.
        std::thread::spawn(move || {
            let mut statuses = statuses.iter();
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                let status = statuses.next().unwrap_or(&"200 OK");
                let Some(request) = read(&mut stream) else { continue };
                if sender.send(request).is_err() {
                    return;
                }
                if let Some(waits) = &waits {
                    let _ = waits.recv_timeout(HANGS);
                }
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                let _ = stream.get_mut().write_all(answer.as_bytes());
            }
        });
        Self { addr, came, go: Some(go) }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/alerts?of=tollgate", self.addr)
    }

    /// Returns the next request.
    pub(super) fn next(&self) -> ReceivedRequest {
        self.came.recv_timeout(HANGS).unwrap()
    }

    pub(super) fn next_json(&self) -> serde_json::Value {
        serde_json::from_str(&self.next().2).unwrap()
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.came.try_recv().is_err()
    }
}

/// Reads a request; returns `None` if the client disconnected.
fn read(stream: &mut impl BufRead) -> Option<ReceivedRequest> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let length = lines.iter().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).ok()?;
    let first = lines.remove(0);
    Some((first, lines, String::from_utf8(body).unwrap()))
}
