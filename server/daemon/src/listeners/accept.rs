//! Accepting connections, and handing them to the threads in turn.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;

use super::slots::SlotError;
use super::{ConnectionSlots, Listener, NewConnection, listen};
use crate::metrics::{ConnectionRefusal, Metrics};
use tollgate_telemetry::audit::FrontEnd;
use tollgate_telemetry::log::ServerLog;

/// How long accepting pauses after an error, at first and at most.
const REST: Duration = Duration::from_millis(10);
const MAX_REST: Duration = Duration::from_secs(1);
/// The number of connections that are still accepted when the server stops: those that were waiting.
const LAST: usize = 1_024;

/// The state that all listeners share.
pub(crate) struct Acceptor {
    pub(crate) slots: Arc<ConnectionSlots>,
    /// Unbounded channels; the number of connection slots bounds what is in them.
    pub(crate) threads: Vec<UnboundedSender<NewConnection>>,
    /// Counts connections; the remainder by the number of threads is the thread whose turn it is.
    pub(crate) turn: AtomicUsize,
    /// Whether connections begin with a handshake, before which no error line can be written.
    pub(crate) is_tls: bool,
    pub(crate) log: Arc<ServerLog>,
    pub(crate) metrics: Arc<Metrics>,
}

/// Accepts connections until the server stops, and then those that were waiting.
pub(crate) async fn accept(acceptor: Arc<Acceptor>, listener: Listener, mut stopping: watch::Receiver<bool>) {
    let Listener { listener, addr, front_end } = listener;
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return acceptor.log.error("listen_failed", &[("addr", &addr), ("because", &error)]),
    };
    let mut rest = REST;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.wait_for(|stop| *stop) => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                rest = REST;
                acceptor.take(stream, peer, front_end);
            }
            // The peer closed the connection before it was accepted.
            Err(error) if is_of_connection(&error) => {}
            Err(error) => {
                acceptor.log.error("accept_failed", &[("addr", &addr), ("because", &error)]);
                tokio::select! {
                    () = tokio::time::sleep(rest) => {}
                    _ = stopping.wait_for(|stop| *stop) => break,
                }
                rest = (2 * rest).min(MAX_REST);
            }
        }
    }
    // Connections that arrived before the stop are still answered.
    let Ok(listener) = listener.into_std() else { return };
    for _ in 0..LAST {
        match listener.accept().and_then(|(stream, peer)| Ok((nonblocking(stream)?, peer))) {
            Ok((stream, peer)) => acceptor.take(stream, peer, front_end),
            Err(error) if is_of_connection(&error) => {}
            Err(_) => return,
        }
    }
}

/// Returns whether an error concerns one connection and not the listener.
fn is_of_connection(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted)
}

fn nonblocking(stream: std::net::TcpStream) -> io::Result<TcpStream> {
    stream.set_nonblocking(true)?;
    TcpStream::from_std(stream)
}

impl Acceptor {
    fn take(&self, stream: TcpStream, peer: SocketAddr, front_end: FrontEnd) {
        let slot = match self.slots.take(peer.ip(), front_end) {
            Ok(slot) => slot,
            Err(why) => return self.refuse(&stream, peer, front_end, why),
        };
        // A socket option that cannot be set does not refuse the connection; a connection that cannot be handed over is
        // closed.
        let _ = listen::set_options(&stream);
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        if let (Ok(stream), Some(thread)) = (stream.into_std(), self.threads.get(turn % self.threads.len().max(1))) {
            let _ = thread.send(NewConnection { stream, peer, front_end, slot });
        }
    }

    /// Reports why, if that is possible without waiting, and closes the connection.
    fn refuse(&self, stream: &TcpStream, peer: SocketAddr, front_end: FrontEnd, why: SlotError) {
        self.metrics.refused(match why {
            SlotError::All(_) | SlotError::Buffers(_) => ConnectionRefusal::Full,
            SlotError::One(_) => ConnectionRefusal::Peer,
        });
        self.log.warn("connection_refused", &[("peer", &peer.ip()), ("because", &why)]);
        if self.is_tls {
            return;
        }
        let line = match front_end {
            FrontEnd::Resp => format!("-ERR max number of clients reached; {why}\r\n"),
            FrontEnd::Http => {
                let body = format!("{{\"status\":503,\"title\":\"Service Unavailable\",\"detail\":\"{why}\"}}\n");
                format!(
                    "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n\
                     content-length: {}\r\nretry-after: 1\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                )
            }
        };
        let _ = stream.try_write(line.as_bytes());
        // If unread input were left, the system would discard the line on closing.
        let _ = stream.try_read(&mut [0; 4_096]);
    }
}
