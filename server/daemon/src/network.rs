//! Loopback addresses.

use std::net::IpAddr;

/// Returns whether an address is a loopback address; IPv4 addresses mapped into IPv6 count too.
pub(crate) fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}
