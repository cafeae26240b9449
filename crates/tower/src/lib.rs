//! Rate limits in front of HTTP services: a tower layer that decides, sets the header fields and answers 429. For axum,
//! hyper, tonic and whatever else is a tower service.
//!
//! ```
//! use tollgate::Gate;
//! use tollgate_tower::{ClientIp, GateLayer};
//!
//! let layer = GateLayer::new(Gate::memory("100/min, 10/s")?).key(ClientIp::peer());
//! // axum: Router::new().route(…).layer(layer), served with into_make_service_with_connect_info::<SocketAddr>()
//! # Ok::<(), tollgate::Error>(())
//! ```
//!
//! No body is touched: streams, gRPC calls and websockets pass as they are.
//!
//! | file | what it is |
//! |---|---|
//! | `layer.rs`, `toll.rs` | the layer, and what one route is limited by |
//! | `key/` | who is limited |
//! | `limiter.rs`, `verdict.rs` | what is asked, and what it answered |
//! | `judge.rs` | from a request's head to whether it passes |
//! | `service.rs`, `body.rs` | the service behind the layer, and bodies |
//! | `refusal.rs`, `grpc.rs` | what is answered to requests that do not pass |
//! | `settle.rs` | what becomes of a charge once the response is known |
//! | `skip.rs` | requests that are not limited |
//! | `client/` | the client's side: keeps to what the services one calls say |
//! | `line/` | waiting instead of refusing |
//! | `concurrency/` | at most so many requests of a key in flight |
//! | `plug/` | limiters by name, with scripts and headers of their own |
//! | `log.rs` | failures in the log |
//! | `timer.rs` | where waiting is measured |
//! | `testing.rs`, `testing/` | a clock that tests move, requests made in process, a store that fails |

mod body;
pub mod client;
pub mod concurrency;
mod grpc;
mod judge;
mod key;
mod layer;
mod limiter;
pub mod line;
mod log;
pub mod plug;
mod refusal;
mod service;
mod settle;
pub mod skip;
pub mod testing;
mod timer;
mod toll;
mod verdict;

pub use body::GateBody;
pub use concurrency::ConcurrencyLayer;
pub use key::{By, ClientIp, Extension, Header, Key, KeyBuf, KeyError, Or, Path, Peer, Token, by};
pub use layer::GateLayer;
pub use limiter::{Decide, Deciding, Limiter};
pub use line::Line;
pub use refusal::{Refusal, Why};
pub use service::{GateFuture, Gated};
pub use settle::Settle;
pub use timer::{Sleep, Timer, TokioTimer};
pub use toll::Toll;
pub use tollgate_http::{Dialect, Fields, Names, Proxies, Reset};
pub use verdict::{Custom, Details, Raw, Verdict};

/// The guide's own examples, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/tower.md")]
pub struct Guide;
