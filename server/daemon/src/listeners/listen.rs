//! Listeners, and the socket options of connections.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use crate::start_error::StartError;
use tollgate_telemetry::audit::FrontEnd;

/// The number of connections that may wait to be accepted.
const WAITING: i32 = 1_024;
/// The buffer size requested of the system for each direction of a connection; Linux uses twice as much. Its default
/// would keep megabytes for a client that does not read.
const KEPT: usize = 128 << 10;
/// When a silent connection is probed first, how often after that, and how many times.
const ALIVE: Duration = Duration::from_secs(60);
const ALIVE_EVERY: Duration = Duration::from_secs(20);
const ALIVE_TIMES: u32 = 3;

/// A listener, its address, and its protocol.
pub(crate) struct Listener {
    pub(crate) listener: TcpListener,
    pub(crate) addr: SocketAddr,
    pub(crate) front_end: FrontEnd,
}

/// Listens on an address.
pub(crate) fn listen(addr: SocketAddr, front_end: FrontEnd) -> Result<Listener, StartError> {
    let listened = bind(addr).and_then(|listener| Ok(Listener { addr: listener.local_addr()?, listener, front_end }));
    listened.map_err(|error| StartError::Listen(addr, error))
}

fn bind(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    // A restarted server need not wait for the remains of its predecessor's connections.
    socket.set_reuse_address(true)?;
    if addr.is_ipv6() {
        // `::` does not include `0.0.0.0`: one address is one address.
        socket.set_only_v6(true)?;
    }
    // Accepted connections inherit these from their listener.
    socket.set_send_buffer_size(KEPT)?;
    socket.set_recv_buffer_size(KEPT)?;
    socket.bind(&addr.into())?;
    socket.listen(WAITING)?;
    Ok(socket.into())
}

/// Sends small replies without delay, and enables keepalive so that a lost peer is noticed.
pub(super) fn set_options(stream: &tokio::net::TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    let alive = TcpKeepalive::new().with_time(ALIVE).with_interval(ALIVE_EVERY).with_retries(ALIVE_TIMES);
    socket.set_tcp_keepalive(&alive)
}
