//! A connection on its thread: TLS if the server uses it, then the protocol of its listener.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::handshake::HandshakeStream;
use super::{NewConnection, Tls};
use crate::http;
use crate::metrics::ConnectionRefusal;
use crate::resp;
use crate::resp::session::Session;
use crate::shared::ServerState;
use tollgate_telemetry::audit::FrontEnd;

/// The most bytes that a client may send before its handshake is complete: TLS would buffer four times as many.
const HELLO: usize = 16 << 10;

/// The state that connections are served with.
#[derive(Clone)]
pub(crate) struct ServeContext {
    pub(crate) shared: Arc<ServerState>,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) handshake: Duration,
}

/// Serves a connection among others. Each kind of connection is a task of its own size, so that a plain connection does
/// not take the memory of an encrypted one.
pub(crate) fn serve(context: &ServeContext, connection: NewConnection, tasks: &mut JoinSet<()>) {
    let NewConnection { stream, peer, front_end, slot } = connection;
    let Ok(stream) = TcpStream::from_std(stream) else { return };
    let Ok(local) = stream.local_addr() else { return };
    let shared = Arc::clone(&context.shared);
    match (&context.tls, front_end) {
        (None, FrontEnd::Resp) => {
            let session = session(&shared, peer, local);
            tasks.spawn(async move {
                let _slot = slot;
                resp::serve(shared, stream, session).await;
            });
        }
        (None, FrontEnd::Http) => {
            tasks.spawn(async move {
                let _slot = slot;
                serve_protocol(shared, stream, front_end, peer, local).await;
            });
        }
        (Some(tls), _) => {
            let (acceptor, within) = (tls.acceptor(), context.handshake);
            tasks.spawn(async move {
                let _slot = slot;
                serve_tls(shared, acceptor, within, stream, front_end, peer, local).await;
            });
        }
    }
}

/// Waits for the handshake, during which the connection holds its slot, and then serves the protocol.
async fn serve_tls(
    shared: Arc<ServerState>,
    acceptor: TlsAcceptor,
    within: Duration,
    stream: TcpStream,
    front_end: FrontEnd,
    peer: SocketAddr,
    local: SocketAddr,
) {
    let mut leaving = shared.leaving.clone();
    let shaken = tokio::select! {
        shaken = tokio::time::timeout(within, acceptor.accept(HandshakeStream::new(stream, HELLO))) => shaken,
        _ = leaving.wait_for(|leave| *leave) => return,
    };
    // The state of the handshake is not kept beside that of the connection.
    drop(leaving);
    match shaken {
        Ok(Ok(mut stream)) => {
            stream.get_mut().0.lift();
            Box::pin(serve_protocol(shared, stream, front_end, peer, local)).await;
        }
        Ok(Err(error)) => failed(&shared, peer, &error),
        Err(_) => failed(&shared, peer, &"it took too long"),
    }
}

fn failed(shared: &ServerState, peer: SocketAddr, because: &dyn std::fmt::Display) {
    shared.metrics.refused(ConnectionRefusal::Tls);
    shared.log.info("handshake_failed", &[("peer", &peer.ip()), ("because", because)]);
}

async fn serve_protocol<S>(
    shared: Arc<ServerState>,
    stream: S,
    front_end: FrontEnd,
    peer: SocketAddr,
    local: SocketAddr,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match front_end {
        FrontEnd::Resp => {
            let session = session(&shared, peer, local);
            resp::serve(shared, stream, session).await;
        }
        FrontEnd::Http => http::serve(shared, stream, peer, local).await,
    }
}

fn session(shared: &ServerState, peer: SocketAddr, local: SocketAddr) -> Session {
    let scopes = shared.access.free(FrontEnd::Resp, local, peer);
    Session::new(shared.next_id.fetch_add(1, Ordering::Relaxed), peer, local, scopes)
}
