//! The Tollgate server: exact rate limits for every language, through its Redis client or one HTTP call.
//!
//! | file | what it is |
//! |---|---|
//! | `settings.rs`, `server/`, `shared.rs` | the settings of a server; its threads; the state that connections share |
//! | `access/` | tokens, scopes and what each of them allows |
//! | `spans.rs` | the attributes of a request's span |
//! | `buffers.rs` | the bound on the buffers of all connections |
//! | `cluster.rs` | the server as a cluster of one node |
//! | `listeners/` | listening, accepting connections within bounds, TLS |
//! | `network.rs` | addresses of this machine |
//! | `resp/` | the front-end for Redis clients |
//! | `http/` | the front-end over HTTP |
//! | `metrics/` | counters and their text |
//! | `reload/` | the policy file, read again when it changes |
//! | `start_error.rs` | why a server does not start |

mod access;
mod buffers;
mod cluster;
mod http;
mod listeners;
mod metrics;
mod network;
mod reload;
mod resp;
mod server;
mod settings;
mod shared;
mod spans;
mod start_error;
#[cfg(test)]
mod usage_tests;

pub use access::{AccessToken, Scope, Scopes, ScopesError, TokensError};
pub use buffers::{DEFAULT_BUFFERS, MIN_BUFFERS};
pub use cluster::{ClusterAddress, ClusterAddressError};
pub use listeners::TlsError;
pub use reload::Reloader;
pub use resp::commands::ScriptAlias;
pub use server::Server;
pub use settings::{
    ClusterSettings, ConnectionLimits, HTTP_PORT, MAX_MEMORY, MIN_MEMORY, RESP_PORT, ServerSettings, TlsFiles,
};
pub use start_error::StartError;
pub use tollgate_engine::persist::{Fsync, OnFullDisk, PersistMode, PersistSettings};
pub use tollgate_engine::{Collector, StoreKeySettings};
pub use tollgate_http::trusted_proxy;
pub use tollgate_telemetry::audit::AuditFile;
pub use tollgate_telemetry::log::LogFormat;
