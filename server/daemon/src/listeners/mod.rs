//! Listening, and accepting connections within bounds.
//!
//! | file | what it is |
//! |---|---|
//! | `listen.rs` | listeners, and the socket options of connections |
//! | `exposure.rs` | which addresses other machines reach, and what is required there |
//! | `files.rs` | how many connections the system's limit on open files leaves room for |
//! | `slots.rs` | how many connections there are, in all and of each caller |
//! | `accept.rs` | accepting connections, and handing them to the threads in turn |
//! | `serve.rs` | a connection on its thread: TLS, then its protocol |
//! | `tls.rs`, `handshake.rs` | certificate and key, and reading them again; a bound on the bytes of a handshake |

mod accept;
mod exposure;
mod files;
mod handshake;
mod listen;
mod serve;
mod slots;
mod tls;

use std::net::{SocketAddr, TcpStream};

pub(crate) use accept::{Acceptor, accept};
pub(crate) use exposure::{check_exposure, exposed};
pub(crate) use files::room;
pub(crate) use listen::{Listener, listen};
pub(crate) use serve::{ServeContext, serve};
pub(crate) use slots::{ConnectionSlot, ConnectionSlots, Protocols};
pub(crate) use tls::Tls;
pub use tls::TlsError;
use tollgate_telemetry::audit::FrontEnd;

/// A connection on its way from the acceptor to a thread.
pub(crate) struct NewConnection {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) front_end: FrontEnd,
    pub(crate) slot: ConnectionSlot,
}
