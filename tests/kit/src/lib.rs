//! Test support that runs real servers: Redis or Valkey, alone or as a cluster, with faults on the way.
//!
//! Everything listens on the loopback, is a child or a thread of this process, waits with a bound, and is
//! gone when it is dropped. No program of ours depends on this crate, only tests and tools.
//!
//! | file | what it is |
//! |---|---|
//! | `server.rs`, `builder.rs` | one server: start, kill, stop, restart |
//! | `clock.rs` | a server whose clock can be moved while it runs |
//! | `cluster.rs`, `reshard.rs`, `topology.rs`, `slots.rs` | six servers that are one store |
//! | `scan.rs` | every key and its time to live |
//! | `proxy.rs`, `fault.rs`, `relay.rs` | a TCP proxy that does harm on request |
//! | `valkey.rs` | a Valkey server for machines that have none |
//! | `ports.rs`, `folder.rs`, `wait.rs`, `error.rs` | what they stand on |
//!
//! ```
//! use tollgate_kit::{Fault, Proxy, Server};
//!
//! let server = Server::start()?;
//! let proxy = Proxy::start(server.addr())?;
//! proxy.faults().next(Fault::CutReply { after: 0 });
//! // A client of proxy.url() now makes one request, which the server does, and gets no answer.
//! assert_eq!(proxy.faults().armed(), 1);
//! # Ok::<(), tollgate_kit::Error>(())
//! ```

mod builder;
mod clock;
mod cluster;
mod error;
mod fault;
mod folder;
mod ports;
mod proxy;
mod relay;
mod reshard;
mod scan;
mod server;
mod slots;
mod topology;
mod valkey;
mod wait;

pub use builder::Builder;
pub use clock::{clean as clean_clock, set as set_clock, variables as clock_variables};
pub use cluster::Cluster;
pub use error::Error;
pub use fault::Fault;
pub use proxy::{Counters, Faults, Proxy};
pub use server::Server;
pub use slots::{SLOTS, slot, tag_for};
pub use valkey::valkey;
