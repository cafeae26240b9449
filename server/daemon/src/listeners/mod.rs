//! Listening, and accepting connections within bounds.
//!
//! | file | what it is |
//! |---|---|
//! | `listen.rs` | listeners, and the socket options of connections |
//! | `exposure.rs` | which addresses other machines reach, and what is required there |
//! | `files.rs` | how many connections the system's limit on open files leaves room for |
//! | `places.rs` | how many connections there are, in all and of each caller |
//! | `accept.rs` | accepting connections, and handing them to the threads in turn |
//! | `serve.rs` | a connection on its thread: TLS, then its protocol |
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

pub(crate) use accept::{Acceptor, accept};
pub(crate) use exposure::{exposed, judge};
pub(crate) use files::room;
pub(crate) use listen::{Listener, listen};
pub(crate) use places::{ConnectionSlot, ConnectionSlots, Protocols};
pub(crate) use serve::{Serving, serve};
pub(crate) use tls::Tls;
pub use tls::TlsError;
use tollgate_telemetry::audit::FrontEnd;

/// A connection on its way from the acceptor to a thread.
pub(crate) struct NewConnection {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) speaks: FrontEnd,
    pub(crate) place: ConnectionSlot,
}
