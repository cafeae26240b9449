//! Listeners, and what is set on connections.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use super::Speaks;
use crate::start_error::StartError;

/// Connections that wait to be taken.
const WAITING: i32 = 1_024;
/// What the system keeps for a connection in each direction, as it is asked for; Linux takes twice as much. Left
/// to itself it would keep megabytes for a client that does not read.
const KEPT: usize = 128 << 10;
/// When a silent connection is asked whether it is still there, how often, and how many times.
const ALIVE: Duration = Duration::from_secs(60);
const ALIVE_EVERY: Duration = Duration::from_secs(20);
const ALIVE_TIMES: u32 = 3;

/// A listener, where it listens, and what is spoken there.
pub(crate) struct Listener {
    pub(crate) listener: TcpListener,
    pub(crate) addr: SocketAddr,
    pub(crate) speaks: Speaks,
}

/// Listens on an address.
pub(crate) fn listen(addr: SocketAddr, speaks: Speaks) -> Result<Listener, StartError> {
    let listened = bind(addr).and_then(|listener| Ok(Listener { addr: listener.local_addr()?, listener, speaks }));
    listened.map_err(|error| StartError::Listen(addr, error))
}

fn bind(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    // A server that is started again need not wait for what is left of the connections of the one before.
    socket.set_reuse_address(true)?;
    if addr.is_ipv6() {
        // One address is one address: `::` is not `0.0.0.0` too.
        socket.set_only_v6(true)?;
    }
    // Connections have what their listener has.
    socket.set_send_buffer_size(KEPT)?;
    socket.set_recv_buffer_size(KEPT)?;
    socket.bind(&addr.into())?;
    socket.listen(WAITING)?;
    Ok(socket.into())
}

/// Sets on a connection that small replies go at once, and that a peer that is gone is noticed.
pub(super) fn prepare(stream: &tokio::net::TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    let alive = TcpKeepalive::new().with_time(ALIVE).with_interval(ALIVE_EVERY).with_retries(ALIVE_TIMES);
    socket.set_tcp_keepalive(&alive)
}
