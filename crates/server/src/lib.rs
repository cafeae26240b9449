//! The Tollgate server: exact rate limits for every language, through its Redis client or one HTTP call.
//!
//! | file | what it is |
//! |---|---|
//! | `settings.rs`, `server.rs`, `shared.rs` | what a server is started with; its threads; what connections share |
//! | `desk/` | the one place that front-ends ask, whichever home decides |
//! | `keys/` | the keys of the other conventions, in the embedded home |
//! | `access/` | who may do what |
//! | `log/`, `network.rs` | what the server says while it runs; addresses as they are grouped |
//! | `resp/` | the front-end for Redis clients |
//! | `http/` | the front-end over HTTP |
//! | `metrics/` | what is counted |
//! | `fault.rs` | why a question is not answered |

mod access;
mod desk;
mod fault;
mod http;
mod keys;
mod log;
mod metrics;
mod network;
mod resp;
mod server;
mod settings;
mod shared;

pub use access::{Scope, Scopes, ScopesError, Token, TokensError};
pub use log::LogForm;
pub use network::{Network, NetworkError};
pub use server::{Server, StartError};
pub use settings::{HTTP_PORT, Limits, RESP_PORT, Settings, TlsFiles};
