//! The Tollgate server: exact rate limits for every language, through its Redis client or one HTTP call.
//!
//! | file | what it is |
//! |---|---|
//! | `settings.rs`, `server.rs`, `shared.rs` | what a server is started with; its threads; what connections share |
//! | `desk/` | the one place that front-ends ask, whichever home decides |
//! | `keys/` | the keys of the other conventions, in the embedded home |
//! | `access/` | who may do what |
//! | `held.rs` | what connections may make the server keep, all together |
//! | `door/` | listening, taking connections within bounds, TLS |
//! | `log/`, `network.rs` | what the server says while it runs; addresses as they are grouped |
//! | `resp/` | the front-end for Redis clients |
//! | `http/` | the front-end over HTTP |
//! | `metrics/` | what is counted |
//! | `fault.rs`, `start_error.rs` | why a question is not answered; why a server does not start |

mod access;
mod desk;
mod door;
mod fault;
mod held;
mod http;
mod keys;
mod log;
mod metrics;
mod network;
mod resp;
mod server;
mod settings;
mod shared;
mod start_error;

pub use access::{Scope, Scopes, ScopesError, Token, TokensError};
pub use door::TlsError;
pub use log::LogForm;
pub use network::trusted_proxy;
pub use server::Server;
pub use settings::{HTTP_PORT, LEAST_MEMORY, Limits, MOST_MEMORY, RESP_PORT, Settings, TlsFiles};
pub use start_error::StartError;
