//! The door: listening, and taking connections within bounds.
//!
//! | file | what it is |
//! |---|---|
//! | `listen.rs` | listeners, and what is set on connections |
//! | `exposure.rs` | which addresses others reach, and what is needed there |
//! | `files.rs` | how many connections the system's limit on open files leaves room for |
//! | `places.rs` | how many connections there are, in all and of each caller |
//! | `accept.rs` | taking connections, and handing them to the threads in turn |
//! | `serve.rs` | a connection on its thread: TLS, then what is spoken |
//! | `tls.rs`, `first.rs` | certificate and key, and reading them again; a bound on what is read first |

mod accept;
mod exposure;
mod files;
mod first;
mod listen;
mod places;
mod serve;
mod tls;

use std::net::{SocketAddr, TcpStream};

pub(crate) use accept::{Door, accept};
pub(crate) use exposure::{exposed, judge};
pub(crate) use files::room;
pub(crate) use listen::{Listener, listen};
pub(crate) use places::{Place, Places, Spoken};
pub(crate) use serve::{Serving, serve};
pub(crate) use tls::Tls;
pub use tls::TlsError;

/// What is spoken on a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    /// The Redis protocol.
    Resp,
    /// HTTP.
    Http,
}

/// A connection on its way from the door to a thread.
pub(crate) struct Came {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) speaks: Speaks,
    pub(crate) place: Place,
}
