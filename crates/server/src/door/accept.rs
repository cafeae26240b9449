//! Taking connections, and handing them to the threads in turn.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;

use super::places::NoPlace;
use super::{Came, Listener, Places, Speaks, listen};
use crate::log::Log;
use crate::metrics::{Metrics, Refused};

/// How long the door rests after an error, at first and at most.
const REST: Duration = Duration::from_millis(10);
const REST_MOST: Duration = Duration::from_secs(1);
/// Connections that are still taken when the server ends: those that were waiting.
const LAST: usize = 1_024;

/// What all listeners share.
pub(crate) struct Door {
    pub(crate) places: Arc<Places>,
    /// Never full, since there are only so many places.
    pub(crate) threads: Vec<UnboundedSender<Came>>,
    /// Whose turn it is.
    pub(crate) turn: AtomicUsize,
    /// Whether a line can be written before a handshake.
    pub(crate) is_tls: bool,
    pub(crate) log: Arc<Log>,
    pub(crate) metrics: Arc<Metrics>,
}

/// Takes connections until the server ends; then those that were waiting.
pub(crate) async fn accept(door: Arc<Door>, listener: Listener, mut stopping: watch::Receiver<bool>) {
    let Listener { listener, addr, speaks } = listener;
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return door.log.error("listen_failed", &[("addr", &addr), ("because", &error)]),
    };
    let mut rest = REST;
    loop {
        let came = tokio::select! {
            came = listener.accept() => came,
            _ = stopping.wait_for(|stop| *stop) => break,
        };
        match came {
            Ok((stream, peer)) => {
                rest = REST;
                door.take(stream, peer, speaks);
            }
            // It went away again before it was taken.
            Err(error) if is_of_one(&error) => {}
            Err(error) => {
                door.log.error("accept_failed", &[("addr", &addr), ("because", &error)]);
                tokio::select! {
                    () = tokio::time::sleep(rest) => {}
                    _ = stopping.wait_for(|stop| *stop) => break,
                }
                rest = (2 * rest).min(REST_MOST);
            }
        }
    }
    // Whoever came before the end is still answered.
    let Ok(listener) = listener.into_std() else { return };
    for _ in 0..LAST {
        match listener.accept().and_then(|(stream, peer)| Ok((nonblocking(stream)?, peer))) {
            Ok((stream, peer)) => door.take(stream, peer, speaks),
            Err(error) if is_of_one(&error) => {}
            Err(_) => return,
        }
    }
}

/// Whether an error is that of one connection, not of the listener.
fn is_of_one(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted)
}

fn nonblocking(stream: std::net::TcpStream) -> io::Result<TcpStream> {
    stream.set_nonblocking(true)?;
    TcpStream::from_std(stream)
}

impl Door {
    fn take(&self, stream: TcpStream, peer: SocketAddr, speaks: Speaks) {
        let place = match self.places.take(peer.ip(), speaks) {
            Ok(place) => place,
            Err(why) => return self.refuse(&stream, peer, speaks, why),
        };
        // What cannot be set is no reason to send anybody away; what cannot be handed on is gone.
        let _ = listen::prepare(&stream);
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        if let (Ok(stream), Some(thread)) = (stream.into_std(), self.threads.get(turn % self.threads.len().max(1))) {
            let _ = thread.send(Came { stream, peer, speaks, place });
        }
    }

    /// Says why, if it can be said at once, and hangs up.
    fn refuse(&self, stream: &TcpStream, peer: SocketAddr, speaks: Speaks, why: NoPlace) {
        self.metrics.refused(match why {
            NoPlace::All(_) | NoPlace::Buffers(_) => Refused::Full,
            NoPlace::One(_) => Refused::Peer,
        });
        self.log.warn("connection_refused", &[("peer", &peer.ip()), ("because", &why)]);
        if self.is_tls {
            return;
        }
        let line = match speaks {
            Speaks::Resp => format!("-ERR max number of clients reached; {why}\r\n"),
            Speaks::Http => {
                let body = format!("{{\"status\":503,\"title\":\"Service Unavailable\",\"detail\":\"{why}\"}}\n");
                format!(
                    "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n\
                     content-length: {}\r\nretry-after: 1\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                )
            }
        };
        let _ = stream.try_write(line.as_bytes());
        // What has come already would make the system throw the line away.
        let _ = stream.try_read(&mut [0; 4_096]);
    }
}
