//! A connection on its thread: TLS if the server speaks it, then what is spoken on its listener.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::first::First;
use super::{Came, Speaks, Tls};
use crate::http;
use crate::metrics::Refused;
use crate::resp;
use crate::resp::session::Session;
use crate::shared::Shared;

/// The most bytes that a client sends before its handshake is done: TLS would keep four times as many.
const HELLO: usize = 16 << 10;

/// What connections are served with.
#[derive(Clone)]
pub(crate) struct Serving {
    pub(crate) shared: Arc<Shared>,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) handshake: Duration,
}

/// Serves a connection among others. Each kind is a task of its own size, so that a plain connection does
/// not take the room of an encrypted one.
pub(crate) fn serve(serving: &Serving, came: Came, tasks: &mut JoinSet<()>) {
    let Came { stream, peer, speaks, place } = came;
    let Ok(stream) = TcpStream::from_std(stream) else { return };
    let Ok(local) = stream.local_addr() else { return };
    let shared = Arc::clone(&serving.shared);
    match (&serving.tls, speaks) {
        (None, Speaks::Resp) => {
            let session = session(&shared, peer, local);
            tasks.spawn(async move {
                let _place = place;
                resp::serve(shared, stream, session).await;
            });
        }
        (None, Speaks::Http) => {
            tasks.spawn(async move {
                let _place = place;
                speak(shared, stream, speaks, peer, local).await;
            });
        }
        (Some(tls), _) => {
            let (acceptor, within) = (tls.acceptor(), serving.handshake);
            tasks.spawn(async move {
                let _place = place;
                encrypted(shared, acceptor, within, stream, speaks, peer, local).await;
            });
        }
    }
}

/// Waits for the handshake, which takes a place as any connection does, then speaks.
async fn encrypted(
    shared: Arc<Shared>,
    acceptor: TlsAcceptor,
    within: Duration,
    stream: TcpStream,
    speaks: Speaks,
    peer: SocketAddr,
    local: SocketAddr,
) {
    let mut leaving = shared.leaving.clone();
    let shaken = tokio::select! {
        shaken = tokio::time::timeout(within, acceptor.accept(First::new(stream, HELLO))) => shaken,
        _ = leaving.wait_for(|leave| *leave) => return,
    };
    // The handshake's state is not kept beside the connection's.
    drop(leaving);
    match shaken {
        Ok(Ok(mut stream)) => {
            stream.get_mut().0.lift();
            Box::pin(speak(shared, stream, speaks, peer, local)).await;
        }
        Ok(Err(error)) => failed(&shared, peer, &error),
        Err(_) => failed(&shared, peer, &"it took too long"),
    }
}

fn failed(shared: &Shared, peer: SocketAddr, because: &dyn std::fmt::Display) {
    shared.desk.metrics.refused(Refused::Tls);
    shared.log.info("handshake_failed", &[("peer", &peer.ip()), ("because", because)]);
}

async fn speak<S>(shared: Arc<Shared>, stream: S, speaks: Speaks, peer: SocketAddr, local: SocketAddr)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match speaks {
        Speaks::Resp => {
            let session = session(&shared, peer, local);
            resp::serve(shared, stream, session).await;
        }
        Speaks::Http => http::serve(shared, stream, peer, local).await,
    }
}

fn session(shared: &Shared, peer: SocketAddr, local: SocketAddr) -> Session {
    let scopes = shared.access.free(local, peer);
    Session::new(shared.next_id.fetch_add(1, Ordering::Relaxed), peer, local, scopes)
}
