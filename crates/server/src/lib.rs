//! The Tollgate server: exact rate limits for every language, through its Redis client or one HTTP call.
//!
//! | file | what it is |
//! |---|---|
//! | `settings.rs`, `server.rs`, `shared.rs` | what a server is started with; its threads; what connections share |
//! | `desk/` | the one place that front-ends ask, whichever home decides |
//! | `data/` | what is kept over a restart |
//! | `keys/` | the keys of the other conventions, in the embedded home |
//! | `access/` | who may do what |
//! | `audit/` | who did what, when and from where |
//! | `alerts/` | keys that come near their limits |
//! | `usage/` | who used how much |
//! | `watched.rs` | what of these is looked at in the decisions of a policy |
//! | `traced.rs` | what the span of a request tells |
//! | `ops.rs` | the parts that are there for those who run a server |
//! | `held.rs` | the bound on the buffers of all connections |
//! | `door/` | listening, taking connections within bounds, TLS |
//! | `log/`, `network.rs` | what the server says while it runs; addresses of its own machine |
//! | `resp/` | the front-end for Redis clients |
//! | `http/` | the front-end over HTTP |
//! | `metrics/` | what is counted |
//! | `reload/` | the policy file, read again when it changes |
//! | `fault.rs`, `start_error.rs` | why a question is not answered; why a server does not start |

mod access;
mod alerts;
mod audit;
mod data;
mod desk;
mod door;
mod fault;
mod held;
mod http;
mod keys;
mod log;
mod metrics;
mod network;
mod ops;
mod reload;
mod resp;
mod server;
mod settings;
mod shared;
mod start_error;
mod traced;
mod usage;
mod watched;

pub use access::{Scope, Scopes, ScopesError, Token, TokensError};
pub use audit::AuditFile;
pub use data::{Fsync, Keeping, OnFullDisk, Persist};
pub use door::TlsError;
pub use held::{DEFAULT_BUFFERS, MIN_BUFFERS};
pub use log::LogForm;
pub use reload::Reload;
pub use server::Server;
pub use settings::{Collector, HTTP_PORT, LEAST_MEMORY, Limits, MOST_MEMORY, RESP_PORT, Settings, TlsFiles};
pub use start_error::StartError;
pub use tollgate_http::trusted_proxy;
