//! Who may do what.
//!
//! | file | what it is |
//! |---|---|
//! | `scope.rs` | what a token allows |

mod scope;

use std::net::{IpAddr, SocketAddr};

pub use scope::{Scope, Scopes};

use crate::fault::{Code, Fault};

/// Who may do what.
#[derive(Debug, Default)]
pub(crate) struct Access {}

impl Access {
    /// What a connection may do before it shows a token: on loopback, what only counts and looks.
    pub(crate) fn free(&self, local: SocketAddr, peer: SocketAddr) -> Scopes {
        if local.ip().is_loopback() && peer.ip().is_loopback() { Scopes::FREE } else { Scopes::NONE }
    }

    /// What a token allows.
    pub(crate) fn login(&self, token: &[u8], peer: IpAddr) -> Result<Scopes, Fault> {
        let _ = (token, peer);
        Err(Fault::new(Code::WrongPass, "expected a token that the server was given"))
    }
}
