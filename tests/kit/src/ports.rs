//! Free ports on the loopback.
//!
//! All are below the range from which the system picks the ports of outgoing connections. A server that
//! was killed finds its port free when it is started again, which a port of that range does not promise.
//! The bus of a cluster node listens 10,000 above its port, and is below that range too.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use crate::error::Error;

/// How far above its port a cluster node listens for other nodes.
pub(crate) const BUS: u16 = 10_000;
const FIRST: u16 = 12_000;
const COUNT: u16 = 10_000;

/// A port on which nobody listens now; with `spans`, neither on port + span.
pub(crate) fn free(spans: &[u16]) -> Result<u16, Error> {
    let taken = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err();
    candidates()
        .find(|&port| !taken(port) && !spans.iter().any(|span| taken(port + span)))
        .ok_or_else(|| Error::Unexpected("no free port on the loopback".to_owned()))
}

/// Listens on a free port.
pub(crate) fn listen() -> Result<TcpListener, Error> {
    candidates()
        .find_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok())
        .ok_or_else(|| Error::Unexpected("no free port on the loopback".to_owned()))
}

/// Every port of the range once. Each call begins elsewhere, so that two threads do not find the same port
/// free; so does each process, for the same reason.
fn candidates() -> impl Iterator<Item = u16> {
    static BEGIN: OnceLock<u32> = OnceLock::new();
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let begin = BEGIN.get_or_init(|| {
        let nanos = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.subsec_nanos());
        (nanos / 1_000).wrapping_add(std::process::id().wrapping_mul(7_919))
    });
    // The stride and the count have no common factor: ten thousand calls begin at ten thousand ports.
    let call = CALLS.fetch_add(1, Ordering::Relaxed) % u32::from(COUNT);
    let begin = begin % u32::from(COUNT) + call * 1_237;
    (0..u32::from(COUNT)).map(move |step| FIRST + ((begin + step) % u32::from(COUNT)) as u16)
}
