//! Connections from an address, and attackers side by side.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{Attack, Figures};
use crate::Failure;

/// After this, nobody answers.
pub(super) const HANGS: Duration = Duration::from_secs(30);

/// Bytes that the system keeps for an attacker: what it costs is the server's matter, not its own.
const KEPT: u32 = 8 << 10;

/// A connection from an address.
pub(super) async fn connect(attack: &Attack, from: Ipv4Addr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(KEPT)?;
    socket.set_send_buffer_size(KEPT)?;
    // Ports whose last connection is not quite forgotten are good enough.
    socket.set_reuseaddr(true)?;
    socket.bind((from, 0).into())?;
    let stream = timeout(HANGS, socket.connect(attack.plan.to)).await??;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Leaves without a word: the server gets a reset.
pub(super) fn reset(stream: TcpStream) {
    let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
}

/// What the server says until it ends the connection, at most so many bytes of it; nothing if it does not
/// end it in time. A reset is an end.
pub(super) async fn rest(stream: &mut TcpStream, most: usize) -> Option<Vec<u8>> {
    let (mut said, mut some) = (Vec::new(), [0; 512]);
    while said.len() < most {
        match timeout(HANGS, stream.read(&mut some)).await {
            Ok(Ok(0) | Err(_)) => return Some(said),
            Ok(Ok(read)) => said.extend_from_slice(&some[..read]),
            Err(_) => return None,
        }
    }
    None
}

/// All attackers of a plan side by side, each by its number; the attack has begun when all have been started.
pub(super) async fn all<F>(attack: &Arc<Attack>, one: impl Fn(Arc<Attack>, usize) -> F) -> Result<Figures, Failure>
where
    F: Future<Output = Figures> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for number in 0..attack.plan.count {
        tasks.spawn(one(Arc::clone(attack), number));
    }
    attack.ready()?;
    let mut figures = Figures::default();
    while let Some(one) = tasks.join_next().await {
        figures.absorb(one?);
    }
    Ok(figures)
}
