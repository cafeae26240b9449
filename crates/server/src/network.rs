//! Which addresses are this machine's own.

use std::net::IpAddr;

/// Whether an address is this machine's own, however it is written.
pub(crate) fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}
