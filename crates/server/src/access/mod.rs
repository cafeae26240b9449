//! Who may do what.
//!
//! | file | what it is |
//! |---|---|
//! | `scope.rs` | what a token allows |

mod scope;

use std::net::SocketAddr;

pub use scope::{Scope, Scopes};

/// Who may do what.
#[derive(Debug, Default)]
pub(crate) struct Access {}

impl Access {
    /// What a connection may do before it shows a token: on loopback, what only counts and looks.
    pub(crate) fn free(&self, local: SocketAddr, peer: SocketAddr) -> Scopes {
        if local.ip().is_loopback() && peer.ip().is_loopback() { Scopes::FREE } else { Scopes::NONE }
    }

    /// What a token allows.
    pub(crate) fn login(&self, _token: &[u8], _peer: std::net::IpAddr) -> Result<Scopes, crate::fault::Fault> {
        Err(crate::fault::Fault::new(crate::fault::Code::WrongPass, "invalid token"))
    }
}
